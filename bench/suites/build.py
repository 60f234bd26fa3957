"""`Graph.from_tables` on a large graph without texts, and what it holds."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from bench.prepare import parse
from bench.records import Cell, cell
from bench.suites import Bench
from tercet import Graph

TESTS = ("tests/kernels/test_csr.py", "tests/engine/test_graph.py")
LABELS = 1000


def cells(bench: Bench) -> Iterator[Cell]:
    for spec in bench.own["workloads"]:
        kind, nodes, edges, _ = parse(spec)
        rng = np.random.default_rng(bench.run["seed"])
        ids = pa.array([f"n{i:07d}" for i in range(nodes)], pa.large_string())
        labels = pa.array([f"relation {i}" for i in range(LABELS)])
        table = pa.table(
            {
                name: column.take(pa.array(rng.integers(0, len(column), edges)))
                for name, column in (("source", ids), ("target", ids), ("relation", labels))
            }
        )
        timing = bench.measure(
            lambda ids=ids, table=table: Graph.from_tables({"id": ids}, table),
            warmup=1, repeats=3, budget_s=bench.own["budget_s"], memory=True,
        )  # fmt: skip
        about = {"name": f"{kind}-{nodes}n-{edges}e", "nodes": nodes, "edges": edges, "relations": LABELS}
        yield cell("tercet", about, {"call": "Graph.from_tables"}, timing, peak_bytes=timing.peak_rss_delta)
