"""A writer that is killed at any moment leaves the last committed version, whole."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import tercet
from tercet.verify import verify

WRITER = """
import sys, numpy as np, tercet
from pathlib import Path
path, n = Path(sys.argv[1]), 0
while True:
    n += 1
    ids = [f"v{n}-{i}" for i in range(40)]
    graph = tercet.Graph.from_tables({"id": ids}, {"source": ids[1:], "target": ids[:-1], "relation": ["r"] * 39})
    vectors = np.random.default_rng(n).normal(size=(40, 64))
    tercet.Engine(graph, [tercet.Collection.build("c", vectors, owner=ids)], device="cpu").save(path)
    print(n, flush=True)
"""


def kill_often(folder: Path, kills: int, seed: int) -> int:
    """Kill writers at random moments; after each the store must open, whole, and be no older than what was told."""
    rng, store, told_last = random.Random(seed), folder / "k.store", 0
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    seen = 0
    for _ in range(kills):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(store)], stdout=subprocess.PIPE, text=True, env=env
        )
        assert writer.stdout is not None
        writer.stdout.readline()  # it has committed once, so it is in its loop
        time.sleep(rng.uniform(0.0, 0.06))
        writer.send_signal(signal.SIGKILL)
        rest = writer.stdout.read().split()
        writer.wait()
        engine = tercet.open(store)
        version = int(engine.graph.ids[0].as_py()[1:].split("-")[0])
        told_last = max([1, *map(int, rest)])
        assert version in (told_last, told_last + 1)  # the next one may have been committed and not told
        assert {i.split("-")[0] for i in engine.graph.ids.to_pylist()} == {f"v{version}"}
        assert engine.collections[0].owner.to_pylist()[0].startswith(f"v{version}-")
        seen += version != 1
    assert all(c.good for c in verify(store))
    return seen


def test_a_killed_writer_loses_nothing_that_was_committed(tmp_path) -> None:
    kill_often(tmp_path, 6, seed=1)


@pytest.mark.slow
def test_two_hundred_kills(tmp_path) -> None:
    assert kill_often(tmp_path, 200, seed=2) > 50  # the writers did get beyond their first commit


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
        with pytest.raises(OSError, match="(?i)large|requested and|writ"):
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
    with subprocess.Popen([sys.executable, "-c", WRITER, str(store)], stdout=subprocess.PIPE, text=True, env=env) as w:
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
