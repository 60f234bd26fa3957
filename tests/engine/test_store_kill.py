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


CHANGE = """
import os, random, signal, sys, time, numpy as np, tercet
from pathlib import Path
from tercet import store

store.FEW, store.DELTAS = 10**6, 5  # always as deltas, and folded often

def write_for_ever(path, told):
    engine = tercet.open(path, "cpu")
    n = int(engine.graph.ids.to_pylist()[0])
    while True:
        n += 1
        ids, gone = engine.graph.ids.to_pylist(), engine.graph.ids.to_pylist()[:40]
        new = [f"{n:06d}-{i}" for i in range(40)]
        with engine.transaction() as t:
            edges = {"source": new[1:], "target": new[:-1], "relation": ["r"] * 39}
            t.upsert({"id": new, "name": [f"w{n}"] * 40}, edges,
                     {"c": (new, np.random.default_rng(n).normal(size=(40, 64)))})
            t.delete([i for i in ids if not i.startswith("keep")])
            t.upsert({"id": [f"{n:06d}"]})
        if n % 7 == 0:
            engine.text_search("w1")
        if n % 50 == 0:
            engine.compact()
        engine.save(path)
        os.write(told, f"{n}\\n".encode())

def begin(path):
    keep = [f"keep{i}" for i in range(200)]
    graph = tercet.Graph.from_tables({"id": ["000000", *keep], "name": ["w0", *keep]},
                                     {"source": keep[1:], "target": keep[:-1], "relation": ["k"] * 199})
    tercet.Engine(graph, [tercet.Collection.build("c", np.ones((200, 64)), owner=keep)], device="cpu").save(path)

def look(path, last):
    engine = tercet.open(path, "cpu")
    ids = [i for i in engine.graph.ids.to_pylist() if not i.startswith("keep")]
    owners = [i for i in engine.collections[0].owner.to_pylist() if not i.startswith("keep")]
    here = int(ids[0])
    assert here in (last, last + 1), (ids, last)
    assert ids == [f"{here:06d}", *sorted(f"{here:06d}-{i}" for i in range(40))], ids
    assert owners == ids[1:]
    assert engine.graph.num_edges == 199 + 39
    assert sorted(engine.text_search(f"w{here}", k=50)[0].ids()) == ids[1:]

def aside(work, *args):  # threads of one process don't outlive a fork: whatever starts some goes into a child
    child = os.fork()
    if child == 0:
        work(*args)
        os._exit(0)
    return child

path, kills, rng = Path(sys.argv[1]), int(sys.argv[2]), random.Random(int(sys.argv[3]))
assert os.waitpid(aside(begin, path), 0)[1] == 0
for _ in range(kills):
    out, told = os.pipe()
    child = aside(write_for_ever, path, told)
    os.close(told)
    heard = os.read(out, 64)
    time.sleep(rng.uniform(0.0, 0.3))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    while more := os.read(out, 4096):
        heard += more
    os.close(out)
    last = int(heard.split()[-1])
    assert os.waitpid(aside(look, path, last), 0)[1] == 0
print(last)
"""


def kill_changes(folder: Path, kills: int, seed: int) -> int:
    """The same for writers that save what has changed."""
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", CHANGE, str(folder / "c.store"), str(kills), str(seed)]
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
    assert done.returncode == 0, done.stderr
    assert all(c.good for c in verify(folder / "c.store"))
    return int(done.stdout)


def test_a_killed_writer_of_changes_loses_nothing_that_was_committed(tmp_path) -> None:
    assert kill_changes(tmp_path, 3, seed=4) >= 3


@pytest.mark.slow
def test_a_hundred_kills_of_writers_of_changes(tmp_path) -> None:
    assert kill_changes(tmp_path, 100, seed=5) >= 100


def test_a_killed_writer_loses_nothing_that_was_committed(tmp_path) -> None:
    assert kill_often(tmp_path, 20, seed=1) > 20  # versions that were committed: some writers got beyond their first


@pytest.mark.slow
def test_two_hundred_kills(tmp_path) -> None:
    assert kill_often(tmp_path, 200, seed=2) > 200


def test_what_a_killed_writer_left_is_cleared_by_the_next_one(tmp_path) -> None:
    kill_often(tmp_path, 3, seed=3)
    store = tmp_path / "k.store"
    tercet.open(store).save(store)
    named = json.loads((store / "manifest.json").read_text())["files"]
    assert {p.name for p in store.iterdir() if p.is_dir()} == {name.split("/")[0] for name in named}


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
