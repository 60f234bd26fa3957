"""The benchmark of recall: Tercet beside Cognee's own triplet search, on the same graphs and vectors, in one run."""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from bench.baselines.cognee_search import find_python
from bench.timing import Timing, measure
from bench.workloads import Workload, make
from tercet import Collection, Engine, Graph

ROOT = Path(__file__).resolve().parent.parent
SIZES = ((1_000, 5_000), (10_000, 50_000), (100_000, 500_000))
BATCHES = (1, 16, 256)
WIDE = (100, None)
TOP_K = 10
AGREEMENT = 1e-6  # scores of two systems that sum float32 products in different orders


def about() -> dict[str, Any]:
    """What the figures depend on besides the code."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    dirty = subprocess.run(["git", "status", "--porcelain"], cwd=ROOT, capture_output=True, text=True, check=False)
    return {
        "commit": commit.stdout.strip(), "dirty": bool(dirty.stdout.strip()), "python": platform.python_version(),
        "torch": torch.__version__, "numba": version("numba"), "threads": torch.get_num_threads(),
        "cpu": processor(), "capability": torch.backends.cpu.get_cpu_capability(),
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
        "date": time.strftime("%Y-%m-%d"),
    }  # fmt: skip


def processor() -> str:
    """The processor's name, where the system tells."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.processor())


def engine_of(workload: Workload, mode: Literal["native", "cognee"]) -> Engine:
    """The engine of a workload; parity wants the order that the other library reads."""
    order: Literal["canonical", "input"] = "canonical" if mode == "native" else "input"
    ids, texts = np.asarray(workload.node_ids), np.asarray(workload.relation_texts)
    graph = Graph.from_tables(
        {"id": workload.node_ids},
        {"source": ids[workload.source], "target": ids[workload.target], "relation": texts[workload.relation]},
        order=order,
    )
    types = workload.num_types
    nodes = [
        Collection.build(name, workload.node_vectors[part], workload.node_ids[part], order=order)
        for name, part in (("Entity_name", slice(types, None)), ("EntityType_name", slice(types)))
        if part.stop != 0
    ]
    relations = Collection.build(
        "EdgeType_relationship_name", workload.relation_vectors, workload.relation_texts, "relation", order=order,
    )  # fmt: skip
    return Engine(graph, [*nodes, relations], mode=mode)


def row(system: str, workload: Workload, timing: Timing, batch: int, wide: int | None, **more: Any) -> dict[str, Any]:
    """One cell of the benchmark."""
    return {
        "system": system, "workload": workload.name, "nodes": workload.num_nodes, "edges": workload.num_edges,
        "dimension": workload.node_vectors.shape[1], "batch": batch, "wide_search_top_k": wide, "top_k": TOP_K,
        "p20_s": timing.p20_s, "median_s": timing.median_s, "p80_s": timing.p80_s, "cpu_s": timing.cpu_s,
        "repeats": timing.repeats, "qps": batch / timing.median_s, **more,
    }  # fmt: skip


def tercet_rows(workload: Workload, budget: float) -> Iterator[dict[str, Any]]:
    """`recall` on vectors, stage by stage."""
    begin = time.perf_counter()
    engine = engine_of(workload, "native")
    built = time.perf_counter() - begin
    vectors = torch.from_numpy(workload.query_vectors)
    for wide in WIDE:
        for batch in BATCHES:
            stages: list[dict[str, float]] = []

            def call(batch: int = batch, wide: int | None = wide, stages: list[dict[str, float]] = stages) -> None:
                got = engine.recall(vectors=vectors[:batch], top_k=TOP_K, wide_search_top_k=wide)
                got.scores.cpu()
                stages.append(got.timings)

            timing = measure(call, warmup=2, repeats=15, budget_s=budget)
            kept = stages[-timing.repeats :]
            medians = {s: float(np.median([k[s] for k in kept])) for s in kept[0]}
            yield row("tercet", workload, timing, batch, wide, input="vectors", stages=medians, build_s=built)


def text_rows(workload: Workload, budget: float) -> Iterator[dict[str, Any]]:
    """`recall` on texts: the encoder is part of what is timed, and its cache is off."""
    from tercet.demo.stdlib import questions
    from tercet.encoder import resolve_encoder

    made = resolve_encoder("minilm")
    engine = engine_of(workload, "native")
    engine.encoder = made
    texts = questions(256)
    for batch in BATCHES:
        stages: list[dict[str, float]] = []

        def call(batch: int = batch, stages: list[dict[str, float]] = stages) -> None:
            got = engine.recall(texts[:batch], top_k=TOP_K)
            got.scores.cpu()
            stages.append(got.timings)

        timing = measure(call, warmup=1, repeats=5, budget_s=budget)
        medians = {s: float(np.median([k[s] for k in stages[-timing.repeats :]])) for s in stages[0]}
        yield row("tercet", workload, timing, batch, 100, input="texts", stages=medians)


def cognee_rows(workload: Workload, budget: float) -> Iterator[dict[str, Any]]:
    """Cognee's search in its own environment, and whether Tercet's cognee mode ranks alike."""
    python, reason = find_python(ROOT)
    if python is None:
        yield {"system": "cognee", "workload": workload.name, "skipped": reason}
        return
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "workload.npz"
        workload.save(file)
        command = [str(python), str(ROOT / "bench/baselines/cognee_search.py"), str(file), "--budget", str(budget),
                   "--top-k", str(TOP_K), "--batches", *map(str, BATCHES[1:])]  # fmt: skip
        ran = subprocess.run(
            command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}, check=False
        )
    if ran.returncode:
        yield {"system": "cognee", "workload": workload.name, "skipped": ran.stderr.strip().splitlines()[-1:]}
        return
    engine = engine_of(workload, "cognee")
    for line in ran.stdout.splitlines():
        cell = json.loads(line)
        if "skipped" in cell:
            asked = {"wide_search_top_k": cell["cell"]["wide_search_top_k"], "batch": cell["cell"]["asked_batch"]}
            yield {"system": "cognee", "workload": workload.name, **asked, "skipped": cell["skipped"]}
            continue
        wide = cell["cell"]["wide_search_top_k"]
        timing = Timing(cell["p20_s"], cell["median_s"], cell["p80_s"], cell["cpu_s"], cell["repeats"], 1, None)
        yield row(
            "cognee", workload, timing, cell["batch"], wide, asked_batch=cell["cell"]["asked_batch"], input="vectors",
            stages=cell["stages"], version=cell["version"], agreement=agreement(engine, workload, cell, wide),
        )  # fmt: skip


def agreement(engine: Engine, workload: Workload, cell: dict[str, Any], wide: int | None) -> dict[str, Any]:
    """How many of the other system's rankings Tercet's cognee mode repeats, up to ties within rounding."""
    same, largest = 0, 0.0
    for query, (ranking, scores) in zip(
        cell["queries"], zip(cell["rankings"], cell["scores"], strict=True), strict=True
    ):
        got = engine.recall(
            vectors=torch.from_numpy(workload.query_vectors[query]), top_k=len(ranking), wide_search_top_k=wide
        )[0]
        edges = got.edges
        ends = [x.numpy()[edges] for x in (engine.graph.source, engine.graph.target, engine.graph.relation)]
        names = [int(n.split(" ")[-1]) for n in engine.graph.relation_names.take(ends[2]).to_pylist()]
        mine = list(zip(ends[0].tolist(), ends[1].tolist(), names, strict=True))
        differences = np.abs(got.scores - np.array(scores))
        largest = max(largest, float(differences.max(initial=0.0)))
        theirs = [tuple(r) for r in ranking]
        moved = [i for i, (a, b) in enumerate(zip(mine, theirs, strict=True)) if a != b]
        same += not moved or all(differences[i] <= AGREEMENT for i in moved)
    return {"queries": len(cell["queries"]), "same": same, "largest_score_difference": largest}


def build_row(nodes: int, edges: int) -> dict[str, Any]:
    """How long `Graph.from_tables` takes for a large graph without text."""
    import pyarrow as pa

    generator = np.random.default_rng(0)
    ids = pa.array([f"n{i:07d}" for i in range(nodes)], pa.large_string())
    labels = pa.array([f"relation {i}" for i in range(1000)])
    pick = lambda column, size: column.take(pa.array(generator.integers(0, size, edges)))  # noqa: E731
    table = pa.table({"source": pick(ids, nodes), "target": pick(ids, nodes), "relation": pick(labels, 1000)})
    timing = measure(lambda: Graph.from_tables({"id": ids}, table), warmup=1, repeats=3, budget_s=300, memory=True)
    return {
        "system": "tercet",
        "what": "Graph.from_tables",
        "nodes": nodes,
        "edges": edges,
        "median_s": timing.median_s,
        "p20_s": timing.p20_s,
        "p80_s": timing.p80_s,
        "cpu_s": timing.cpu_s,
        "peak_rss_delta": timing.peak_rss_delta,
    }


def main(arguments: list[str] | None = None) -> int:
    """Run the cells and append JSON lines to a file; `bench.report` makes the table."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("runs/bench.jsonl"))
    parser.add_argument("--kinds", nargs="*", default=["uniform", "type_hubs"])
    parser.add_argument("--largest", type=int, default=100_000, help="leave out graphs with more nodes")
    parser.add_argument("--budget", type=float, default=20, help="seconds a cell of Tercet")
    parser.add_argument("--cognee-budget", type=float, default=60, help="seconds a cell of Cognee; 0 leaves it out")
    parser.add_argument("--texts", action="store_true", help="time texts too (needs the demo extra)")
    parser.add_argument("--build", action="store_true", help="time the build of 1M nodes and 10M edges")
    asked = parser.parse_args(arguments)
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    head = about()
    with asked.out.open("a", encoding="utf-8") as sink:

        def put(cell: dict[str, Any]) -> None:
            sink.write(json.dumps({**cell, **head}) + "\n")
            sink.flush()
            print(summary(cell))

        for nodes, edges in SIZES:
            for kind in asked.kinds if nodes <= asked.largest else ():
                workload = make(nodes, edges, kind=kind)
                for cell in tercet_rows(workload, asked.budget):
                    put(cell)
                if asked.texts and kind == asked.kinds[0]:
                    for cell in text_rows(workload, asked.budget):
                        put(cell)
                if asked.cognee_budget:
                    for cell in cognee_rows(workload, asked.cognee_budget):
                        put(cell)
        if asked.build:
            put(build_row(1_000_000, 10_000_000))
    return 0


def summary(cell: dict[str, Any]) -> str:
    """A line for the terminal."""
    if "what" in cell:
        return f"{cell['what']} {cell['nodes']:,} / {cell['edges']:,}: {cell['median_s']:.1f} s"
    name = f"{cell['system']:7} {cell['workload']:28}"
    if "skipped" in cell:
        return f"{name} skipped: {cell['skipped']}"
    stages = ", ".join(f"{s} {v * 1e3:.1f}" for s, v in cell.get("stages", {}).items())
    agree = f"; agrees {cell['agreement']['same']}/{cell['agreement']['queries']}" if "agreement" in cell else ""
    return (
        f"{name} B={cell['batch']:<4} wide={cell['wide_search_top_k']!s:5} {cell['input']:8} "
        f"{cell['median_s'] * 1e3:10.2f} ms {cell['qps']:10.1f} q/s  [{stages}]{agree}"
    )


if __name__ == "__main__":
    sys.exit(main())
