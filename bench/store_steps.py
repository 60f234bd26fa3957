"""One step with a store in a process of its own: `python -m bench.store_steps STEP '{...}'`; the last line is JSON.

`save` builds the engine of a workload and writes it; `open` opens a store and asks the first questions; `update`
changes it and saves it, again and again. Each timed call has its highest resident memory above what was held before.
"""

import gc
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

NEW = 2  # every so many upserted nodes is a new one


def timed(call: Callable[[], object]) -> dict[str, float | None]:
    """Wall and CPU time of a call, and how far memory rose."""
    from bench.timing import reset_peak_rss, status_bytes

    gc.collect()
    level = reset_peak_rss()
    cpu, wall = time.process_time(), time.perf_counter()
    call()
    spent = {"wall_s": time.perf_counter() - wall, "cpu_s": time.process_time() - cpu}
    return {**spent, "peak_bytes": None if level is None else max(0, status_bytes("VmHWM") - level)}


def save(asked: dict[str, Any]) -> dict[str, Any]:
    """Write a workload's engine to a new place."""
    from bench.prepare import engine_of
    from bench.workloads import Workload

    engine = engine_of(Workload.load(asked["workload"]), device="cpu")
    gc.collect()
    return {"save": timed(lambda: engine.save(asked["store"]))}


def open_(asked: dict[str, Any]) -> dict[str, Any]:
    """Open a store, and ask one question twice, then a batch twice."""
    begin = time.perf_counter()
    import numpy as np
    import torch

    import tercet.engine
    import tercet.store
    from bench.timing import anonymous_bytes, status_bytes

    imported, base = time.perf_counter() - begin, anonymous_bytes()
    held: list[tercet.Engine] = []
    out = {"open": timed(lambda: held.append(tercet.open(asked["store"], "cpu", verify=asked["verify"])))}
    out["open"]["import_s"] = imported
    engine, rng = held[0], np.random.default_rng(asked["seed"])
    for batch in asked["batches"]:
        queries = torch.from_numpy(rng.standard_normal((batch, engine.dimension), np.float32))

        def ask(queries: torch.Tensor = queries) -> None:
            engine.recall(vectors=queries, top_k=asked["top_k"], wide_search_top_k=asked["wide"]).texts()

        out[f"first {batch}"], out[f"second {batch}"] = timed(ask), timed(ask)
    held_now = anonymous_bytes()
    if base is not None and held_now is not None:
        out["open"] |= {"held_bytes": held_now - base, "mapped_bytes": status_bytes("VmRSS") - held_now}
    return out


def update(asked: dict[str, Any]) -> dict[str, Any]:
    """Upsert rows, save, delete a node, save; a round a repeat, all on one engine and one store."""
    import tercet
    from bench.pages import bytes_of, files_of, written
    from bench.prepare import ENTITIES

    store = Path(asked["store"])
    engine = tercet.open(store, "cpu", verify=False)
    rounds = []
    for i in range(asked["repeats"]):
        nodes, edges, vectors = _rows(engine, asked["rows"], asked["seed"] + i)
        gone = engine.graph.ids[i * 7919 % engine.graph.num_nodes].as_py()
        step: dict[str, Any] = {}
        for name, change in (
            ("upsert", lambda n=nodes, e=edges, v=vectors: engine.upsert(n, e, {ENTITIES: v})),
            ("delete", lambda g=gone: engine.delete([g])),
        ):
            step[name] = timed(change)
            before = files_of(store)
            step[f"save after {name}"] = timed(lambda: engine.save(store))
            step[f"save after {name}"]["written_bytes"] = written(before, files_of(store))
        rounds.append(step)
    again = tercet.open(store, "cpu", verify=False)
    same = (again.graph.num_nodes, again.graph.num_edges) == (engine.graph.num_nodes, engine.graph.num_edges)
    return {"rounds": rounds, "store_bytes": bytes_of(store), "same": same}


def _rows(engine: Any, count: int, seed: int) -> tuple[dict[str, Any], dict[str, Any], tuple[list[str], Any]]:
    """Nodes, one in NEW of which is new, an edge from each to some other node, and a vector for each."""
    import numpy as np

    rng, graph = np.random.default_rng(seed), engine.graph
    known = [graph.ids[int(i)].as_py() for i in rng.choice(graph.num_nodes, count, replace=False)]
    ids = [f"new-{seed}-{i}" if i % NEW == 0 else name for i, name in enumerate(known)]
    ends = [graph.ids[int(i)].as_py() for i in rng.integers(0, graph.num_nodes, count)]
    names = [graph.relation_names[int(i)].as_py() for i in rng.integers(0, len(graph.relation_names), count)]
    return {"id": ids}, {"source": ids, "target": ends, "relation": names}, (
        ids, rng.standard_normal((count, engine.dimension), np.float32),
    )  # fmt: skip


STEPS = {"save": save, "open": open_, "update": update}

if __name__ == "__main__":
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    given = json.loads(sys.argv[2])
    if given["threads"]:
        import torch

        torch.set_num_threads(given["threads"])
    print(json.dumps(STEPS[sys.argv[1]](given)))
