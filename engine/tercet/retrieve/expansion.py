"""Expansion: the nodes around each query's seeds, level by level, and the relationships among them."""

from dataclasses import dataclass
from typing import Any

import torch

from tercet.retrieve.nearness import Nearness
from tercet.retrieve.ragged import interleave, offsets, place_of, query_of, select
from tercet_kernels._types import Topology
from tercet_kernels.extend import Extended, extend
from tercet_kernels.induced import induced
from tercet_kernels.neighbors import Direction, neighbors


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
    node, hops, begin = seed, torch.zeros_like(seed), indptr[:-1].contiguous()
    available = indptr.diff()
    truncated = torch.zeros_like(available, dtype=torch.bool)
    near = None if walk.nearness is None or walk.by_edge else walk.nearness.near(topology.num_nodes)
    for hop in range(1, walk.expand + 1):
        if walk.nearness is not None and near is None and not walk.by_edge:
            grown = _extend(topology, indptr, node, hops, begin, hop, walk, walk.nearness)
        else:
            order = "edge" if walk.by_edge else "distance" if near else "node" if walk.rank is None else "rank"
            grown = extend(
                topology, indptr, node, hops, begin, hop, order=order, near=near,
                rank=walk.rank if order == "rank" else None, limit=_limit(indptr, walk), **_way(walk),
            )  # fmt: skip
        held = node.shape[0]
        indptr, node, hops, begin, reached, taken = grown
        available += reached
        truncated |= reached > taken
        if node.shape[0] == held:  # nothing is new, so nothing leads on; the host knows the size already
            break
    return Selection(indptr, node, hops, available, truncated)


def _way(walk: Walk) -> dict[str, Any]:
    return {"direction": walk.direction, "relation": walk.relation, "walkable": walk.walkable,
            "allowed": walk.entered, "allowed_row": walk.entered_row}  # fmt: skip


def _limit(indptr: torch.Tensor, walk: Walk) -> torch.Tensor | None:
    return None if walk.max_nodes is None else (walk.max_nodes - indptr.diff()).clamp(min=0)


def _extend(
    topology: Topology,
    indptr: torch.Tensor,
    node: torch.Tensor,
    hops: torch.Tensor,
    begin: torch.Tensor,
    hop: int,
    walk: Walk,
    nearness: Nearness,
) -> Extended:
    """`extend` where no one array holds what is ranked by: several collections, or several rows a node."""
    level = neighbors(topology, indptr, node, begin, **_way(walk))
    query = query_of(level.indptr)
    distance = nearness(query.int(), level.node)
    at = torch.argsort(distance, stable=True)  # nodes ascend within a query, so ties go to the smaller row
    at = at[torch.argsort(query[at], stable=True)]
    limit = _limit(indptr, walk)
    kept = torch.ones_like(at, dtype=torch.bool) if limit is None else place_of(level.indptr) < limit[query]
    fresh, bounds = level.node[at][kept], select(level.indptr, kept)
    old = indptr.diff()
    indptr, node, hops = interleave([(indptr, node, hops), (bounds, fresh, torch.full_like(fresh, hop))])
    begin = torch.where(level.available > bounds.diff(), indptr[1:], indptr[:-1] + old)
    return Extended(indptr, node, hops, begin, level.available, bounds.diff())


def among(topology: Topology, selection: Selection, walk: Walk, *, filtered: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """All relationships with both ends selected, self loops and parallel ones too.

    Args:
        filtered: leave out those whose label may not be walked.

    Returns:
        (indptr (B + 1,) int64, edge (M,) int32 ascending within a query).
    """
    filters = (walk.relation, walk.walkable) if filtered and walk.walkable is not None else (None, None)
    return induced(topology, selection.indptr, selection.node, *filters)


def no_edges(selection: Selection) -> tuple[torch.Tensor, torch.Tensor]:
    """What `among` gives when relationships aren't wanted."""
    return offsets(torch.zeros_like(selection.available)), selection.node[:0]
