"""Expansion: the nodes around each query's seeds, level by level, and the relationships among them."""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from tercet.retrieve.ragged import interleave, offsets, place_of, query_of, select
from tercet_kernels._types import NodeHits, Topology
from tercet_kernels.fragment import fragment
from tercet_kernels.neighbors import Direction, Level, neighbors

Nearness = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]  # (P,) query and node to (P,) float32 distance


@dataclass(frozen=True, eq=False)
class Walk:
    """How far and along what a selection grows; the same for all queries of a call."""

    expand: int
    direction: Direction = "both"
    relation: torch.Tensor | None = None  # (E,) int32 labels, for `walkable`
    walkable: torch.Tensor | None = None  # (L + 1,) bool labels that may be walked, the last entry for none
    entered: torch.Tensor | None = None  # (F, N) bool nodes that may be entered
    entered_row: torch.Tensor | None = None  # (B,) int32
    max_nodes: int | None = None
    by_edge: bool = False  # a level in the order of the edges it was reached by, instead of by rank
    rank: torch.Tensor | None = None  # (E,) int32 the better the smaller, from edge weights
    nearness: Nearness | None = None  # ranks nodes before everything else


@dataclass(frozen=True, eq=False)
class Selection:
    """The selected nodes of each query: its seeds in their order, then level after level."""

    indptr: torch.Tensor  # (B + 1,) int64
    node: torch.Tensor  # (T,) int32
    hops: torch.Tensor  # (T,) int32 distance from the nearest seed
    available: torch.Tensor  # (B,) int64 nodes that were seen: those selected, and those of the cut level
    truncated: torch.Tensor  # (B,) bool: max_nodes left some out


def expand(topology: Topology, indptr: torch.Tensor, seed: torch.Tensor, walk: Walk) -> Selection:
    """Grow the seeds of every query, breadth first.

    A level is taken whole unless `max_nodes` (which counts the seeds, and never cuts them) would be exceeded; then the
    best of it are: by `nearness`, or by the rank of the best edge that leads there, then by node row; or in the order
    of the edges. A query that was cut, or that is full, doesn't grow on.

    Args:
        indptr, seed: (B + 1,) int64 and (S,) int32 node rows, none twice within a query.
    """
    node, hops = seed, torch.zeros_like(seed)
    begin = indptr[:-1]
    available = indptr.diff()
    truncated = torch.zeros_like(available, dtype=torch.bool)
    for hop in range(1, walk.expand + 1):
        level = next_level(topology, indptr, node, begin, walk)
        left_out = level.available > level.indptr.diff()
        truncated |= left_out
        available += level.available
        if level.node.shape[0] == 0:  # the host knows the size already
            break
        counts = indptr.diff()
        indptr, node, hops = interleave(
            [(indptr, node, hops), (level.indptr, level.node, torch.full_like(level.node, hop))]
        )
        begin = torch.where(left_out, indptr[1:], indptr[:-1] + counts)
    return Selection(indptr, node, hops, available, truncated)


def next_level(topology: Topology, indptr: torch.Tensor, node: torch.Tensor, begin: torch.Tensor, walk: Walk) -> Level:
    """One step of all queries, cut to what their budgets leave."""
    order = "edge" if walk.by_edge else "rank" if walk.rank is not None and walk.nearness is None else "node"
    limit = None if walk.max_nodes is None else (walk.max_nodes - indptr.diff()).clamp(min=0)
    level = neighbors(
        topology, indptr, node, begin, direction=walk.direction, order=order,  # type: ignore[arg-type]
        rank=walk.rank if order == "rank" else None, relation=walk.relation, walkable=walk.walkable,
        allowed=walk.entered, allowed_row=walk.entered_row, limit=None if walk.nearness is not None else limit,
    )  # fmt: skip
    if walk.nearness is None or walk.by_edge:
        return level
    query = query_of(level.indptr)
    distance = walk.nearness(query.int(), level.node)
    at = torch.argsort(distance, stable=True)  # nodes ascend within a query, so ties go to the smaller row
    at = at[torch.argsort(query[at], stable=True)]
    if limit is None:
        return Level(level.indptr, level.node[at], level.edge[at], level.available)
    kept = place_of(level.indptr) < limit[query]
    return Level(select(level.indptr, kept), level.node[at][kept], level.edge[at][kept], level.available)


def among(topology: Topology, selection: Selection, walk: Walk, *, filtered: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """All relationships with both ends selected, self loops and parallel ones too.

    Args:
        filtered: leave out those whose label may not be walked.

    Returns:
        (indptr (B + 1,) int64, edge (M,) int32 ascending within a query).
    """
    query = query_of(selection.indptr)
    key = query * max(topology.num_nodes, 1) + selection.node.long()
    node = selection.node[torch.argsort(key)].contiguous()
    found = fragment(topology, NodeHits(selection.indptr, node, torch.zeros(node.shape, dtype=torch.float64,
                                                                           device=node.device)))  # fmt: skip
    if not filtered or walk.walkable is None or walk.relation is None:
        return found.indptr, found.edge
    keep = walk.walkable[walk.relation[found.edge.long()].long()]  # -1, no label, is the last entry
    return select(found.indptr, keep), found.edge[keep]


def no_edges(selection: Selection) -> tuple[torch.Tensor, torch.Tensor]:
    """What `among` gives when relationships aren't wanted."""
    return offsets(torch.zeros_like(selection.available)), selection.node[:0]
