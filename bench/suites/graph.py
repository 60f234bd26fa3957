"""Fragment, scores and top-k of fixed candidates, without any search."""

from collections.abc import Iterator
from typing import Any

from bench.baselines import igraph_induced, scipy_csr, torch_plain
from bench.prepare import Scene, scene, topology_of
from bench.records import Cell, cell, describe, skipped
from bench.suites import Bench
from tercet_kernels._types import Top
from tercet_kernels.fragment_topk import fragment_topk

TESTS = (
    "tests/kernels/test_fragment.py", "tests/kernels/test_fragment_topk.py", "tests/kernels/test_triplet_topk.py",
    "tests/kernels/test_csr.py",
)  # fmt: skip
ENTRY_BYTES = 8  # of a candidate's list: the far end, and whether that is a candidate
HIT_BYTES = 20  # a candidate: its row, its term and where its list begins
EDGE_BYTES = 64  # an edge of the fragment: its number and key, three terms, two weights
EDGE_FLOPS = 8  # an edge's own term, two additions and the comparison with the worst of the best


def cells(bench: Bench) -> Iterator[Cell]:
    own, k = bench.own, bench.run["top_k"]
    for spec in own["workloads"]:
        given = bench.workload(spec, dimension=1, num_queries=1)
        about = {**describe(given), "dimension": 0, "vectors": "none"}
        topology = topology_of(given)
        counters = {name: _counter(module, topology) for name, module in PEERS.items() if name in own["peers"]}
        for kind in own["candidates"]:
            for batch in own["batches"]:
                made = scene(topology, kind, batch, own["count"], own["relations"], bench.run["seed"])
                settings = {"batch": batch, "candidates": kind, "count": own["count"], "k": k}
                yield from _scene_cells(bench, about, settings, made, counters)


def _scene_cells(
    bench: Bench, about: dict[str, Any], settings: dict[str, Any], made: Scene, counters: dict[str, Any]
) -> Iterator[Cell]:
    best, row = tercet_cell(bench, about, settings, made)
    yield row
    if "torch" in bench.own["peers"]:
        found: list[Top] = []
        timing = bench.measure(lambda: found.append(torch_plain.graph_stage(made, settings["k"])))
        yield cell(
            "torch", about, settings, timing, agreement={"same": same(best, found[-1]), "queries": len(best.edge)}
        )
    for name, count in counters.items():
        if isinstance(count, str):
            yield skipped(name, about, settings, count)
            continue
        counted: list[list[int]] = []
        timing = bench.measure(lambda count=count, counted=counted: counted.append(count(made.hits)))
        agree = sum(a == b for a, b in zip(counted[-1], best.available.tolist(), strict=True))
        note = "edges only: no scores, no ranking"
        yield cell(name, about, settings, timing, agreement={"same": agree, "queries": len(best.edge)}, note=note)


def tercet_cell(bench: Bench, about: dict[str, Any], settings: dict[str, Any], made: Scene) -> tuple[Top, Cell]:
    """Tercet's kernel, with what it reads counted from the sizes."""
    found: list[Top] = []
    timing = bench.measure(lambda: found.append(rank(made, settings["k"])), memory=True)
    entries, edges = visited(made), int(found[-1].available.sum())
    counts = {
        "bytes": ENTRY_BYTES * entries + HIT_BYTES * len(made.hits.node) + EDGE_BYTES * edges,
        "flops": EDGE_FLOPS * edges,
    }
    row = cell("tercet", about, settings, timing, visited_entries=entries, fragment_edges=edges, **counts)
    return found[-1], row


def rank(made: Scene, k: int) -> Top:
    """Tercet's stage."""
    return fragment_topk(made.topology, made.hits, made.missing, made.relations, made.rule, k)


def visited(made: Scene) -> int:
    """Entries of the candidates' lists, each edge being listed at its end of lower degree: free of noise."""
    lengths = made.topology.oriented_indptr.diff()
    return int(lengths[made.hits.node.long()].sum())


def same(a: Top, b: Top) -> int:
    """Queries with the same edges and score bits."""
    return int(((a.edge == b.edge) & (a.score == b.score)).all(dim=1).sum())


def _counter(module: Any, topology: Any) -> Any:
    try:
        return module.counter(topology)
    except ImportError as error:
        return f"{error.name} isn't installed"


PEERS = {"scipy": scipy_csr, "igraph": igraph_induced}
