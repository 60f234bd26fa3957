"""The composition of `neighbors`, distances and a sort, on any device."""

from typing import Any

import torch

from tercet_kernels._types import Topology
from tercet_kernels.cosine import pair_distances
from tercet_kernels.extend.types import Extended, Near
from tercet_kernels.neighbors import neighbors
from tercet_kernels.neighbors.reference import example as neighbors_example
from tercet_kernels.neighbors.reference import lexsort


def extend(
    topology: Topology,
    indptr: torch.Tensor,
    node: torch.Tensor,
    hop: torch.Tensor,
    begin: torch.Tensor,
    level: int,
    direction: Any,
    order: Any,
    rank: torch.Tensor | None,
    near: Near | None,
    relation: torch.Tensor | None,
    walkable: torch.Tensor | None,
    allowed: torch.Tensor | None,
    allowed_row: torch.Tensor | None,
    limit: torch.Tensor | None,
) -> Extended:
    found = neighbors(
        topology, indptr, node, begin, direction=direction, order="node" if near is not None else order, rank=rank,
        relation=relation, walkable=walkable, allowed=allowed, allowed_row=allowed_row,
        limit=None if near is not None else limit,
    )  # fmt: skip
    counts, query = found.indptr.diff(), query_of(found.indptr)
    fresh = found.node
    if near is not None:
        at = lexsort(query, distances(near, query, fresh))  # nodes ascend within a query, so ties go to the smaller one
        fresh = fresh[at]
        if limit is not None:
            place = torch.arange(fresh.shape[0], device=fresh.device) - found.indptr[query]
            kept = place < limit[query]
            fresh, query = fresh[kept], query[kept]
            counts = torch.minimum(counts, limit.clamp(min=0))
    owner = torch.cat([query_of(indptr), query])
    at = torch.argsort(owner, stable=True)
    out = torch.zeros_like(indptr)
    out[1:] = (indptr.diff() + counts).cumsum(0)
    hops = torch.cat([hop, torch.full_like(fresh, level)])
    next_ = torch.where(found.available > counts, out[1:], out[:-1] + indptr.diff())
    return Extended(out, torch.cat([node, fresh])[at], hops[at], next_, found.available, counts)


def distances(near: Near, query: torch.Tensor, node: torch.Tensor) -> torch.Tensor:
    """(P,) float32, +inf for a node without a vector."""
    row = node.long() if near.row is None else near.row[node.long()].long()
    out = torch.full(row.shape, torch.inf, device=row.device)
    known = torch.nonzero(row >= 0).flatten()
    out[known] = pair_distances(near.queries, near.vectors, query[known].int(), row[known].int())
    return out


def query_of(indptr: torch.Tensor) -> torch.Tensor:
    return torch.repeat_interleave(torch.arange(indptr.shape[0] - 1, device=indptr.device), indptr.diff())


def example(
    queries: int = 4, nodes: int = 40, edges: int = 120, selected: int = 6, seed: int = 0, device: str = "cpu"
) -> dict:
    """As that of `neighbors`, with vectors for most nodes; some of them are equal."""
    base = neighbors_example(queries, nodes, edges, selected, seed, device)
    g = torch.Generator().manual_seed(seed)
    unit = torch.nn.functional.normalize
    vectors = unit(torch.randn(max(nodes // 2, 1), 20, generator=g), dim=1)
    row = torch.randint(-1, vectors.shape[0], (nodes,), generator=g, dtype=torch.int32)
    near = Near(unit(torch.randn(queries, 20, generator=g), dim=1).to(device), vectors.to(device), row.to(device))
    hop = torch.zeros_like(base["node"])
    return {**base, "hop": hop, "level": 3, "near": near}
