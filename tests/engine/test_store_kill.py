"""A writer that is killed at any moment leaves the last committed version, whole."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import tercet
from tercet.verify import verify

WRITE = """
import os, random, signal, sys, time, numpy as np, tercet
from pathlib import Path

def write_for_ever(path, begin, told):
    n = begin
    while True:
        n += 1
        ids = [f"v{n}-{i}" for i in range(40)]
        graph = tercet.Graph.from_tables({"id": ids}, {"source": ids[1:], "target": ids[:-1], "relation": ["r"] * 39})
        vectors = np.random.default_rng(n).normal(size=(40, 64))
        tercet.Engine(graph, [tercet.Collection.build("c", vectors, owner=ids)], device="cpu").save(path)
        os.write(told, f"{n}\\n".encode())
"""

KILL = (
    WRITE
    + """
path, kills, rng = Path(sys.argv[1]), int(sys.argv[2]), random.Random(int(sys.argv[3]))
last = 0
for _ in range(kills):
    out, told = os.pipe()
    child = os.fork()
    if child == 0:
        write_for_ever(path, last, told)
    os.close(told)
    heard = os.read(out, 64)  # it has committed once, so it is in its loop
    time.sleep(rng.uniform(0.0, 0.05))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    while more := os.read(out, 4096):
        heard += more
    os.close(out)
    last = int(heard.split()[-1])
    engine = tercet.open(path)
    versions = {i.split("-")[0] for i in engine.graph.ids.to_pylist()} | {
        i.split("-")[0] for i in engine.collections[0].owner.to_pylist()}
    assert versions in ({f"v{last}"}, {f"v{last + 1}"}), (versions, last)  # the next may be committed and not told
    last = int(versions.pop()[1:])
print(last)
"""
)


def kill_often(folder: Path, kills: int, seed: int) -> int:
    """Kill writers at random moments; after each the store must open, whole, and be no older than what was told."""
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", KILL, str(folder / "k.store"), str(kills), str(seed)]
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
    assert done.returncode == 0, done.stderr
    assert all(c.good for c in verify(folder / "k.store"))
    return int(done.stdout)


def test_a_killed_writer_loses_nothing_that_was_committed(tmp_path) -> None:
    assert kill_often(tmp_path, 20, seed=1) > 20  # versions that were committed: some writers got beyond their first


@pytest.mark.slow
def test_two_hundred_kills(tmp_path) -> None:
    assert kill_often(tmp_path, 200, seed=2) > 200


def test_what_a_killed_writer_left_is_cleared_by_the_next_one(tmp_path) -> None:
    kill_often(tmp_path, 3, seed=3)
    store = tmp_path / "k.store"
    tercet.open(store).save(store)
    named = json.loads((store / "manifest.json").read_text())["data"]
    assert sorted(p.name for p in store.iterdir() if p.is_dir()) == [named]


def test_a_full_disk_leaves_the_last_version(tmp_path, monkeypatch) -> None:
    """A quota of the process's own: files can't grow beyond it, as on a full disk."""
    import resource

    ids = [str(i) for i in range(20_000)]
    small = tercet.Graph.from_tables({"id": ids[:5]}, {"source": ["0"], "target": ["1"], "relation": ["r"]})
    tercet.Engine(small, [], device="cpu").save(tmp_path / "d.store")
    large = tercet.Graph.from_tables({"id": ids}, {"source": ids[1:], "target": ids[:-1], "relation": ["r"] * 19_999})
    engine = tercet.Engine(large, [], device="cpu")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        with pytest.raises(OSError, match=r"(?i)large|requested and|writ"):
            engine.save(tmp_path / "d.store")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, handler)
    assert tercet.open(tmp_path / "d.store").graph.num_nodes == 5
    assert all(c.good for c in verify(tmp_path / "d.store"))
    assert len([p for p in (tmp_path / "d.store").iterdir() if p.is_dir()]) == 1  # nothing half-written is left


def test_readers_and_a_writer_meet(tmp_path) -> None:
    """A reader sees one version or the next, never half of one, although the writer clears old ones away."""
    store = tmp_path / "m.store"
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", WRITE + "write_for_ever(Path(sys.argv[1]), 0, 1)", str(store)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) as w:
        assert w.stdout is not None
        w.stdout.readline()
        try:
            versions = set()
            for _ in range(40):
                graph = tercet.open(store).graph
                here = {i.split("-")[0] for i in graph.ids.to_pylist()}
                assert len(here) == 1
                versions |= here
        finally:
            w.kill()
    assert len(versions) > 3
