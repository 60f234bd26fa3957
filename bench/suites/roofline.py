"""This machine's copy and read bandwidth and float32 matrix rate, and the share of them that stages reach.

A stage of so many bytes and operations, counted from its sizes, takes at least max(bytes / bandwidth, operations /
rate). Its share is that time over the time it took.
"""

from collections.abc import Callable, Iterator

import torch

from bench.prepare import batch_of, scene, topology_of
from bench.records import Cell, cell, describe
from bench.suites import Bench, graph, search

TESTS = (*graph.TESTS, *search.TESTS)


def cells(bench: Bench) -> Iterator[Cell]:
    roofs = {}
    for name, rate, call, counts in probes(bench.own["copy_mb"], bench.own["gemm"]):
        timing = bench.measure(call, warmup=2, repeats=bench.own["repeats"])
        row = cell("machine", None, {"measure": name}, timing, **counts)
        roofs[name] = row[rate]
        yield row
    for row in _stages(bench):
        least = max(row["bytes"] / roofs["read"], row["flops"] / roofs["gemm"]) / 1e9
        bound = "memory" if row["bytes"] / roofs["read"] >= row["flops"] / roofs["gemm"] else "arithmetic"
        yield {**row, "share": least / row["median_s"], "bound": bound}


def probes(copy_mb: int, gemm: int) -> Iterator[tuple[str, str, Callable[[], object], dict[str, int]]]:
    """(name, which rate, call, counts)."""
    size = copy_mb * 2**20 // 4
    a, b = torch.ones(size), torch.empty(size)
    yield "copy", "gb_s", lambda: b.copy_(a), {"bytes": 8 * size}
    yield "read", "gb_s", a.sum, {"bytes": 4 * size}
    left, right, out = (torch.ones(gemm, gemm) for _ in range(3))
    yield "gemm", "gflop_s", lambda: torch.mm(left, right, out=out), {"flops": 2 * gemm**3}


def _stages(bench: Bench) -> Iterator[Cell]:
    own, k = bench.own, bench.own["k"]
    for spec in own["search"]:
        given = bench.workload(spec, num_queries=max(own["batches"]))
        exact = search.collection(given.node_vectors).index
        most = batch_of(given, max(own["batches"]))
        for batch in own["batches"]:
            settings = {"stage": "search", "batch": batch, "k": k}
            yield search.timed(
                bench, "tercet", describe(given), settings, search.rows_of(exact),
                exact, most,
            )  # fmt: skip
    for spec in own["graph"]:
        given = bench.workload(spec, dimension=1, num_queries=1)
        about = {**describe(given), "dimension": 0, "vectors": "none"}
        topology = topology_of(given)
        for kind in own["candidates"]:
            made = scene(topology, kind, max(own["batches"]), own["count"], own["count"], bench.run["seed"])
            settings = {
                "stage": "graph",
                "batch": max(own["batches"]),
                "candidates": kind,
                "count": own["count"],
                "k": k,
            }
            yield graph.tercet_cell(bench, about, settings, made)[1]
