"""Graph stages at fixed candidates while nodes and edges double: what must not grow, and what does."""

from collections.abc import Callable, Iterator

import torch

from bench.prepare import Scene, scene, topology_of
from bench.records import Cell, cell, describe
from bench.suites import Bench
from bench.suites.graph import rank, visited
from tercet_kernels.edge_filter import edge_filter
from tercet_kernels.expand import expand

TESTS = ("tests/kernels/test_fragment_topk.py", "tests/kernels/test_expand.py", "tests/kernels/test_edge_filter.py")


def cells(bench: Bench) -> Iterator[Cell]:
    own = bench.own
    for spec in own["workloads"]:
        given = bench.workload(spec, dimension=1, num_queries=1)
        about = {**describe(given), "dimension": 0, "vectors": "none"}
        topology = topology_of(given)
        for kind in own["candidates"]:
            made = scene(topology, kind, own["batch"], own["count"], own["relations"], bench.run["seed"])
            for stage, call in stages(bench, made).items():
                settings = {"batch": own["batch"], "stage": stage, "candidates": kind, "count": own["count"]}
                if stage == "edge_filter":
                    if kind != own["candidates"][0]:
                        continue  # it doesn't depend on them
                    settings = {"batch": own["full_batch"], "stage": stage}
                yield cell("tercet", about, settings, bench.measure(call), visited_entries=visited(made))


def stages(bench: Bench, made: Scene) -> dict[str, Callable[[], object]]:
    """The calls, each on its own inputs."""
    generator = torch.Generator().manual_seed(bench.run["seed"])
    full = bench.own["full_batch"]
    terms = torch.rand(full, made.topology.num_nodes, generator=generator)
    keys = torch.rand(full, made.topology.num_keys + 1, generator=generator)
    return {
        "fragment_topk": lambda: rank(made, bench.run["top_k"]),
        "expand": lambda: expand(made.topology, made.hits.indptr, made.hits.node, 1),
        "edge_filter": lambda: edge_filter(
            made.topology, terms, keys, None, torch.full((full,), 1e-5), bench.run["top_k"]
        ),
    }
