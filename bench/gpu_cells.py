"""Timed problems for one device: sizes several times its L2 cache, with the bytes and operations that each needs."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import pyarrow as pa
import torch

from bench.gpu_limits import Bench
from bench.workloads import Workload, make
from tercet import Collection, Engine, Graph
from tercet.index import cuda_search
from tercet.index.exact import ExactIndex
from tercet_kernels import csr
from tercet_kernels._triton import has_triton
from tercet_kernels._types import EdgeRule, NodeHits, RelationHits, Topology
from tercet_kernels.cosine import norms, pair_distances
from tercet_kernels.edge_filter import edge_filter
from tercet_kernels.expand import expand
from tercet_kernels.fragment import fragment
from tercet_kernels.fragment_topk import fragment_topk
from tercet_kernels.neighbors import neighbors
from tercet_kernels.triplet_topk import triplet_topk

K = 100
EDGE_BYTES = 200  # memory that an edge of the large graph takes while it is built, at most
NEAR = 1000  # most of the edges join rows that are no further apart, so that neighbouring hits have edges
RELATIONS = 1000
FOUND_RELATIONS = 100  # of each query

Cells = Iterator[dict[str, Any]]


def search(bench: Bench) -> Cells:
    """The k nearest of V unit vectors: `search` is the whole exact search, `propose` its first stage on CUDA."""
    sizes = [(2_000_000, 384, torch.float32), (10_000_000, 384, torch.float16), (2_000_000, 1024, torch.float16)]
    for most, width, dtype in [(500, 32, torch.float32), (500, 32, torch.float16)] if bench.small else sizes:
        rows = min(most, bench.free_bytes // 4 // (width * dtype.itemsize))
        vectors = _vectors(bench, rows, width, dtype)
        scale = 1 / norms(vectors) if dtype == torch.float16 else None
        for batch in (1, 5) if bench.small else (1, 32, 256, 1024):
            yield from _searched(bench, vectors, scale, batch)


def _searched(bench: Bench, vectors: torch.Tensor, scale: torch.Tensor | None, batch: int) -> Cells:
    rows, width = vectors.shape
    k, name = min(K, rows), str(vectors.dtype).removeprefix("torch.")
    queries = torch.nn.functional.normalize(_random(bench, batch, width, seed=7), dim=1)
    at = f"{rows:,} x {width} {name}, B={batch}"
    needs: dict[str, Any] = {
        "num_bytes": vectors.nbytes + queries.nbytes + 8 * k * batch, "flops": 2 * batch * rows * width,
        "rate": "fp32" if vectors.dtype == torch.float32 else "fp16", "queries": batch,
    }  # fmt: skip
    before, take = set(cuda_search.choices), min(k + 36, rows)
    propose = partial(cuda_search.propose, vectors, queries, take, scale)
    cell = bench.cell("propose", at, propose, **needs)
    tried = [choice for key, choice in cuda_search.choices.items() if key not in before]
    yield cell | {"ways": {"/".join(way): s for choice in tried for way, s in choice.seconds.items()}}
    yield bench.cell("search", at, partial(ExactIndex(vectors, scale).search, queries, k), **needs)


def cosine(bench: Bench) -> Cells:
    """Distances of random (query, row) pairs."""
    rows, width, count = (500, 32, 1000) if bench.small else (2_000_000, 384, 4_000_000)
    g = bench.generator(3)
    for dtype in (torch.float32, torch.float16):
        vectors = _vectors(bench, rows, width, dtype)
        queries = torch.nn.functional.normalize(_random(bench, 256, width, seed=7), dim=1)
        query, row = (
            torch.randint(n, (count,), generator=g, device=bench.device, dtype=torch.int32) for n in (256, rows)
        )
        at = f"{count:,} pairs of {width} {str(dtype).removeprefix('torch.')}"
        num_bytes = count * (width * dtype.itemsize + 12)
        yield bench.cell(
            "cosine", at, lambda v=vectors, q=query, r=row, x=queries: pair_distances(x, v, q, r),
            num_bytes=num_bytes, flops=2 * count * width,
        )  # fmt: skip


def graph_of(bench: Bench) -> Topology:
    """A seeded graph: ten edges a node, most to a neighbouring row, the others towards a few hubs."""
    edges = 10_000 if bench.small else min(100_000_000, bench.free_bytes // EDGE_BYTES)
    nodes, g, at = max(edges // 10, 2), bench.generator(1), {"device": bench.device, "dtype": torch.int32}
    source = torch.randint(nodes, (edges,), generator=g, **at).sort().values
    near = (source + torch.randint(-NEAR, NEAR, (edges,), generator=g, **at)).remainder(nodes)
    hub = (torch.rand(edges, generator=g, device=bench.device) ** 3 * nodes).int().clamp(max=nodes - 1)
    target = torch.where(torch.rand(edges, generator=g, device=bench.device) < 0.7, near, hub)
    del near, hub
    key = torch.randint(RELATIONS, (edges,), generator=g, **at)
    degree = torch.bincount(source, minlength=nodes) + torch.bincount(target, minlength=nodes)
    at_source, at_target = degree[source.long()], degree[target.long()]
    own = (at_source < at_target) | ((at_source == at_target) & (source <= target))
    del at_source, at_target, degree
    oriented, order = csr.group(torch.where(own, source, target), nodes)
    other = torch.where(own, target, source)[order.long()]
    return Topology(
        source, target, key, oriented, order, other, *csr.group(source, nodes), *csr.group(target, nodes), RELATIONS
    )


def hits_of(bench: Bench, topology: Topology, queries: int) -> NodeHits:
    """500 hits a query out of 2,000 neighbouring rows."""
    width = min(2 * NEAR, topology.num_nodes)
    count, g = min(NEAR // 2, width), bench.generator(queries)
    start = torch.randint(topology.num_nodes - width + 1, (queries, 1), generator=g, device=bench.device)
    chosen = torch.rand(queries, width, generator=g, device=bench.device).argsort(1)[:, :count].sort(1).values
    term = torch.rand(queries * count, generator=g, device=bench.device, dtype=torch.float64)
    indptr = torch.arange(0, queries * count + 1, count, device=bench.device)
    return NodeHits(indptr, (start + chosen).int().flatten(), term)


def scoring_of(bench: Bench, topology: Topology, queries: int) -> dict[str, Any]:
    """The other arguments of `triplet_topk`."""
    g, at = bench.generator(5), {"device": bench.device}
    weight = lambda n: torch.rand(n, generator=g, dtype=torch.float64, **at)  # noqa: E731
    found = torch.rand(queries, RELATIONS, generator=g, **at).argsort(1)[:, :FOUND_RELATIONS].sort(1).values
    indptr = torch.arange(0, found.numel() + 1, FOUND_RELATIONS, device=bench.device)
    distance = torch.rand(found.numel(), generator=g, **at)
    edges = topology.source.shape[0]
    return {
        "missing": (2 - weight(topology.num_nodes)) * 6.5, "k": K,
        "relations": RelationHits(indptr, found.int().flatten(), distance),
        "rule": EdgeRule(weight(edges), weight(edges), 0.3, 6.5, False),
    }  # fmt: skip


def fragments(bench: Bench) -> Cells:
    """`fragment`, `triplet_topk` and both in turn."""
    topology = graph_of(bench)
    for batch in (1, 4) if bench.small else (1, 256, 1024):
        hits, parts = hits_of(bench, topology, batch), scoring_of(bench, topology, batch)
        found, near = fragment(topology, hits), hits.node.long()
        rows = found.edge.shape[0]
        entries = int((topology.oriented_indptr[near + 1] - topology.oriented_indptr[near]).sum())
        at = f"{topology.source.shape[0]:,} edges, B={batch}, {hits.node.shape[0] // batch} hits, M={rows:,}"
        # a list entry is an edge and its other end; a hit is its id and two offsets; a row of the result three int32
        listed = 8 * entries + 20 * near.shape[0] + 12 * rows
        # a row: edge, slots, key, two terms, two weights; float64 throughout
        scored = rows * (4 + 8 + 4 + 16 + 16) + batch * K * 24
        yield bench.cell("fragment", at, lambda h=hits: fragment(topology, h), num_bytes=listed, queries=batch)
        yield bench.cell(
            "triplet_topk", at, lambda h=hits, f=found, p=parts: triplet_topk(topology, f, h, **p),
            num_bytes=scored, queries=batch,
        )  # fmt: skip
        yield bench.cell(
            "fragment_topk", at, lambda h=hits, p=parts: fragment_topk(topology, h, **p),
            num_bytes=listed + scored, queries=batch,
        )  # fmt: skip


def captured(bench: Bench) -> Cells:
    """`fragment_topk` of small batches by a CUDA graph, beside the same by single launches."""
    if bench.device.type != "cuda" or not has_triton():
        return
    from tercet_kernels.fragment_topk.cuda import Captured, Shape

    topology = graph_of(bench)
    for batch in (1, 16):
        hits, parts = hits_of(bench, topology, batch), scoring_of(bench, topology, batch)
        rows = fragment(topology, hits).edge.shape[0]
        inputs = hits, parts["missing"], parts["relations"]
        shape = Shape(batch, hits.node.shape[0], parts["relations"].key.shape[0], 2 * rows)
        call = Captured(topology, parts["rule"], K, shape)
        at, needs = f"B={batch}, M={rows:,}", {"num_bytes": 60 * rows, "queries": batch}
        yield bench.cell("fragment_topk", at, partial(fragment_topk, topology, hits, **parts), **needs)
        yield bench.cell("captured", at, partial(call, *inputs), **needs)


def expansion(bench: Bench) -> Cells:
    """Nodes within one and two steps of ten seeds a query."""
    topology = graph_of(bench)
    out, into = topology.out_indptr, topology.in_indptr
    for batch in (1, 4) if bench.small else (1, 256, 1024):
        g = bench.generator(batch)
        seed = torch.randint(topology.num_nodes, (10 * batch,), generator=g, device=bench.device, dtype=torch.int32)
        indptr = torch.arange(0, 10 * batch + 1, 10, device=bench.device)
        walked = seed.long()
        for depth in (1, 2):
            entries = int((out[walked + 1] - out[walked] + into[walked + 1] - into[walked]).sum())
            reached = expand(topology, indptr, seed, depth)[1]
            walked = reached.long()
            at = f"{topology.source.shape[0]:,} edges, B={batch}, depth {depth}, {reached.shape[0]:,} nodes"
            yield bench.cell(
                "expand", at, lambda d=depth, i=indptr, s=seed: expand(topology, i, s, d),
                num_bytes=8 * entries + 4 * reached.shape[0], queries=batch,
            )  # fmt: skip


def levels(bench: Bench) -> Cells:
    """The step from ten seeds a query, then from what that reached: all nodes, and the 100 of the best rank."""
    topology = graph_of(bench)
    out, into = topology.out_indptr, topology.in_indptr
    rank = torch.randint(1000, topology.source.shape, generator=bench.generator(3), device=bench.device).int()
    for batch in (1, 4) if bench.small else (1, 256, 1024):
        seed = torch.randint(topology.num_nodes, (batch, 10), generator=bench.generator(batch), device=bench.device)
        seed = seed.sort(1).values
        first = torch.cat([torch.ones_like(seed[:, :1], dtype=torch.bool), seed[:, 1:] != seed[:, :-1]], 1)
        indptr = torch.cat([torch.zeros_like(seed[:1, 0]), first.sum(1).cumsum(0)])
        node, begin = seed[first].int(), indptr[:-1]
        for step in (1, 2):
            walked = node.long()
            entries = int((out[walked + 1] - out[walked] + into[walked + 1] - into[walked]).sum())
            level = neighbors(topology, indptr, node, begin)
            for name, options in (
                ("all", {}),
                ("100 by rank", {"order": "rank", "rank": rank, "limit": torch.full_like(begin, 100)}),
            ):
                at = f"{rank.shape[0]:,} edges, B={batch}, step {step}, {level.node.shape[0]:,} nodes, {name}"
                yield bench.cell(
                    "neighbors", at, lambda i=indptr, n=node, b=begin, o=options: neighbors(topology, i, n, b, **o),
                    num_bytes=(8 if name == "all" else 12) * entries + 8 * level.node.shape[0], queries=batch,
                )  # fmt: skip
            indptr, node, begin = level.indptr, level.node, level.indptr[:-1]


def whole_graph(bench: Bench) -> Cells:
    """`edge_filter` over all edges, with edge terms by key and with weights by edge."""
    topology = graph_of(bench)
    edges, nodes, g = topology.source.shape[0], topology.num_nodes, bench.generator(2)
    rule = scoring_of(bench, topology, 1)["rule"]
    for batch in (1, 4) if bench.small else (1, 64, 256):
        if 12 * batch * nodes > bench.free_bytes:
            continue
        term = torch.rand(batch, nodes, generator=g, device=bench.device)
        value = torch.rand(batch, RELATIONS + 1, generator=g, device=bench.device)
        margin = torch.full((batch,), 1e-4, device=bench.device)
        for name, weights in (("by key", None), ("weighted", rule)):
            kept = edge_filter(topology, term, value, weights, margin, K)[1].shape[0]
            # ends, key (and weights) once for the 64 queries that share them; the target's term for each query: the
            # sources come in order, so their terms are still near
            shared = -(-batch // 64) * edges * (12 if weights is None else 28)
            yield bench.cell(
                "edge_filter", f"{edges:,} edges {name}, B={batch}, {kept:,} kept",
                lambda w=weights, t=term, v=value, m=margin: edge_filter(topology, t, v, w, m, K),
                num_bytes=shared + 4 * batch * edges, flops=2 * batch * edges, queries=batch,
            )  # fmt: skip


def engine_of(workload: Workload, device: str) -> Engine:
    """The engine of a workload, all nodes in one collection."""
    names = pa.array([f"n{row:07d}" for row in range(workload.num_nodes)], pa.large_string())
    label = pa.array(workload.relation_texts)
    ends = {"source": names.take(pa.array(workload.source)), "target": names.take(pa.array(workload.target))}
    graph = Graph.from_tables({"id": names}, pa.table({**ends, "relation": label.take(pa.array(workload.relation))}))
    collections = [
        Collection.build("Entity_name", workload.node_vectors, names),
        Collection.build("EdgeType_relationship_name", workload.relation_vectors, label, "relation"),
    ]
    return Engine(graph, collections, device=device)


def recall(bench: Bench) -> Cells:
    """`Engine.recall` on vectors, to the ranking on the host."""
    sizes = [(100_000, 500_000, 384), (1_000_000, 5_000_000, 384)]
    for nodes, edges, width in [(400, 1600, 32)] if bench.small else sizes:
        workload = make(nodes, edges, width, relation_texts=20 if bench.small else RELATIONS, num_queries=1024)
        engine = engine_of(workload, str(bench.device))
        for wide in (K, None):
            for batch in (1, 5) if bench.small else (1, 16, 256, 1024):
                yield _recalled(bench, engine, torch.from_numpy(workload.query_vectors[:batch]), wide)


def _recalled(bench: Bench, engine: Engine, vectors: torch.Tensor, wide: int | None) -> dict[str, Any]:
    seen: list[dict[str, float]] = []

    def call() -> None:
        got = engine.recall(vectors=vectors, top_k=10, wide_search_top_k=wide)
        got.edges.cpu()
        seen.append(got.timings)

    batch, width = vectors.shape
    rows, graph = sum(c.size for c in engine.collections), engine.graph
    cell = bench.cell(
        "recall", f"{graph.num_nodes:,} nodes, {graph.num_edges:,} edges, wide={wide}, B={batch}", call,
        num_bytes=rows * width * 4, flops=2 * batch * rows * width, rate="fp32", queries=batch,
    )  # fmt: skip
    last = seen[-cell["repeats"] :]
    return cell | {"stages": {name: sorted(t[name] for t in last)[len(last) // 2] for name in last[0]}}


def _vectors(bench: Bench, rows: int, width: int, dtype: torch.dtype) -> torch.Tensor:
    out = torch.empty(rows, width, dtype=dtype, device=bench.device)
    step = 1 << 20
    for i, start in enumerate(range(0, rows, step)):
        part = _random(bench, min(step, rows - start), width, seed=100 + i)
        out[start : start + step] = torch.nn.functional.normalize(part, dim=1)
    return out


def _random(bench: Bench, rows: int, width: int, seed: int) -> torch.Tensor:
    return torch.randn(rows, width, generator=bench.generator(seed), device=bench.device)
