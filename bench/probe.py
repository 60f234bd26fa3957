"""The first call of a fresh process, and its highest resident memory: `python -m bench.probe WORKLOAD.npz '{...}'`."""

import gc
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bench.records import Cell
    from bench.suites import Bench
    from bench.workloads import Workload

TIMEOUT_S = 900
EDGE_BYTES = 12  # of the data: source, target and relation as int32


def probe(bench: "Bench", given: "Workload", batch: int, wide: int, repeats: int) -> "Iterator[Cell]":
    """A cell of the first calls of `repeats` fresh processes.

    One process more goes first and isn't counted: it may have to compile kernels, which later ones find in Numba's
    cache on disk, as at a user's second start. Its call is kept as `compiling_s`.
    """
    import numpy as np

    from bench.machine import ROOT
    from bench.records import cell, describe, refused
    from bench.timing import Timing

    about, settings = describe(given), {"batch": batch, "wide": wide, "top_k": bench.run["top_k"], "cold": True}
    asked = {**settings, "device": bench.run["device"], "threads": bench.run["threads"]}
    found = []
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "workload.npz"
        given.save(file)
        for _ in range(repeats + 1):
            command = [sys.executable, "-m", "bench.probe", str(file), json.dumps(asked)]
            try:
                ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=TIMEOUT_S)
            except subprocess.TimeoutExpired:
                yield refused("tercet", about, settings, f"no call within {TIMEOUT_S} s")
                return
            if ran.returncode:
                last = ran.stderr.strip().splitlines()[-1:]
                why = f"the process ended with {ran.returncode}: {' '.join(last)}"
                yield refused("tercet", about, settings, why)
                return
            found.append(json.loads(ran.stdout.splitlines()[-1]))
    compiling = found.pop(0)["first_s"]
    walls = [f["first_s"] for f in found]
    p20, median, p80 = np.quantile(walls, (0.2, 0.5, 0.8)).tolist()
    middle = {key: float(np.median([f[key] for f in found])) for key in found[0] if found[0][key] is not None}
    timing = Timing(p20, median, p80, middle["first_cpu_s"], len(found), 0, None, tuple(walls))
    more = {
        key: middle.get(key) for key in ("import_s", "build_s", "second_s", "data_bytes", "held_bytes", "level_bytes")
    }
    peak = middle.get("peak_bytes")
    yield cell("tercet", about, settings, timing, peak_bytes=peak, compiling_s=compiling, **more)


def measure_here(file: str, asked: dict[str, Any]) -> dict[str, Any]:
    """Import, build, and call twice."""
    begin = time.perf_counter()
    import torch

    import tercet  # noqa: F401

    imported = time.perf_counter() - begin
    from bench.prepare import batch_of, engine_of
    from bench.timing import anonymous_bytes, reset_peak_rss, status_bytes
    from bench.workloads import Workload

    base = anonymous_bytes()
    if asked["threads"]:
        torch.set_num_threads(asked["threads"])
    given = Workload.load(file)
    queries = batch_of(given, asked["batch"])
    begin = time.perf_counter()
    engine = engine_of(given, device=asked["device"])
    built = time.perf_counter() - begin
    del given
    gc.collect()

    def call() -> tuple[float, float]:
        wall, cpu = time.perf_counter(), time.process_time()
        got = engine.recall(vectors=queries, top_k=asked["top_k"], wide_search_top_k=asked["wide"] or None)
        got.scores.cpu()
        return time.perf_counter() - wall, time.process_time() - cpu

    level = reset_peak_rss()
    first, first_cpu = call()
    peak = None if level is None else status_bytes("VmHWM") - level
    second, _ = call()
    vectors = [c.index.vectors.nbytes for c in engine.collections if hasattr(c.index, "vectors")]
    held_now = anonymous_bytes()
    return {
        "import_s": imported, "build_s": built, "first_s": first, "first_cpu_s": first_cpu, "second_s": second,
        "level_bytes": level, "peak_bytes": peak, "data_bytes": sum(vectors) + EDGE_BYTES * engine.graph.num_edges,
        "held_bytes": None if base is None or held_now is None else held_now - base,
    }  # fmt: skip


if __name__ == "__main__":
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    print(json.dumps(measure_here(sys.argv[1], json.loads(sys.argv[2]))))
