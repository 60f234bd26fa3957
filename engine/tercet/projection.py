"""Projection: the candidates of each query, and the nodes that its fragment is made of."""

import torch

from tercet.candidates import Hits, query_of, rescore, search
from tercet.plan import Plan
from tercet_kernels.expand import expand
from tercet_kernels.merge import merge


def limits(plan: Plan, queries: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """(B,) candidates that each query wants of node and of relation collections.

    Without a limit a neighborhood needs its seeds only, since all nodes near them are scored anyway.
    """
    if plan.wide is not None:
        return plan.wide, plan.wide
    every = [max((b.collection.size for b in bound), default=0) for bound in (plan.node_bound, plan.relation_bound)]
    rows_are_nodes = all(b.distinct for b in plan.node_bound)
    enough = rows_are_nodes and plan.seed_top_k is not None and plan.seed_top_k >= 0
    nodes = min(every[0], plan.seed_top_k or 0) if enough else every[0]
    full = lambda n: torch.full((queries.shape[0],), n, dtype=torch.int64, device=queries.device)  # noqa: E731
    return full(nodes), full(every[1])


def find(plan: Plan, queries: torch.Tensor, node_limit: torch.Tensor, key_limit: torch.Tensor) -> tuple[Hits, Hits]:
    """The nodes and the relation keys that the collections found for each query."""
    out: list[Hits] = []
    most = 0
    for bound, wide in ((plan.node_bound, node_limit), (plan.relation_bound, key_limit)):
        if not out or wide is not node_limit:
            most = int(wide.max()) if wide.shape[0] else 0  # host sync
        found = [search(b, queries, most, mask) for b, mask in zip(bound, plan.masks(bound), strict=True)]
        out.append(Hits(*merge(found, wide, plan.max_distance, last=plan.combine == "last")))
    return out[0], out[1]


def project(plan: Plan, queries: torch.Tensor, nodes: Hits) -> tuple[Hits, bool]:
    """The nodes that the fragment is made of, and whether one matched end is enough."""
    if plan.projection == "incident":
        return nodes, True
    if plan.projection == "induced":
        return nodes, False
    if plan.projection == "neighborhood":
        indptr, seeds = seeds_of(nodes, plan.seed_top_k, plan.seed_order)
        reached = expand(plan.topology, indptr, seeds, plan.depth, plan.allowed, plan.allowed_row)
    else:
        reached = members(plan, queries.shape[0])
    hits, known = listed(nodes, *reached)
    if plan.projection == "neighborhood":
        if plan.wide is None:  # a seed's distance is the best of all its rows then, like that of any other node
            known = torch.zeros_like(known)
        fresh = torch.nonzero(~known).flatten()
        query = query_of(hits.indptr)[fresh].int()
        masks = None if plan.row_masks is not None else plan.masks(plan.node_bound)
        got, which = rescore(
            plan.node_bound, queries, query, hits.element[fresh], plan.combine, masks, plan.max_distance
        )
        hits.distance[fresh], hits.collection[fresh] = got, which
    return hits, False


def seeds_of(nodes: Hits, count: int | None, order: str) -> tuple[torch.Tensor, torch.Tensor]:
    """The nearest `count` candidates of each query (None: all; negative: all but so many of the farthest)."""
    query = query_of(nodes.indptr)
    by = nodes.element if order == "element" else nodes.first
    at = torch.argsort(by, stable=True)
    at = at[torch.argsort(nodes.nearest[at], stable=True)]
    at = at[torch.argsort(query[at], stable=True)]
    place = torch.arange(at.shape[0], device=at.device) - nodes.indptr[query[at]]
    if count is not None:
        limit = torch.full_like(nodes.indptr[1:], count) if count >= 0 else nodes.indptr.diff() + count
        at = at[place < limit[query[at]]]
    indptr = torch.zeros_like(nodes.indptr)
    indptr[1:] = torch.bincount(query[at], minlength=indptr.shape[0] - 1).cumsum(0)
    return indptr, nodes.element[at]


def members(plan: Plan, queries: int) -> tuple[torch.Tensor, torch.Tensor]:
    """All nodes that each query's filter admits."""
    device = plan.graph.device
    if plan.allowed is None or plan.allowed_row is None:
        every = torch.arange(plan.graph.num_nodes, dtype=torch.int32, device=device)
        return torch.arange(queries + 1, device=device) * every.shape[0], every.repeat(queries)
    row, node = torch.nonzero(plan.allowed, as_tuple=True)  # host sync: the size of the result
    counts = torch.bincount(row, minlength=plan.allowed.shape[0])
    begin = counts.cumsum(0) - counts
    mask = plan.allowed_row.long()
    mine = torch.where(mask < 0, 0, counts[mask.clamp(min=0)])
    indptr = torch.zeros(queries + 1, dtype=torch.int64, device=device)
    indptr[1:] = mine.cumsum(0)
    offset = torch.arange(int(indptr[-1]), device=device) - torch.repeat_interleave(indptr[:-1], mine)
    return indptr, node[torch.repeat_interleave(begin[mask.clamp(min=0)], mine) + offset].int()


def listed(nodes: Hits, indptr: torch.Tensor, element: torch.Tensor) -> tuple[Hits, torch.Tensor]:
    """Hits for exactly these elements (ascending within a query), and which of them the search had found."""
    span = 1 + int(torch.cat([element, nodes.element]).max()) if element.shape[0] + nodes.element.shape[0] else 1
    have = query_of(nodes.indptr) * span + nodes.element.long()
    want = query_of(indptr) * span + element.long()
    at = torch.searchsorted(have, want).clamp_(max=max(have.shape[0] - 1, 0))
    known = have[at] == want if have.shape[0] else torch.zeros_like(want, dtype=torch.bool)

    def pick(values: torch.Tensor, absent: float) -> torch.Tensor:
        blank = values.new_full(want.shape, absent)
        return torch.where(known, values[at], blank) if values.shape[0] else blank

    hits = Hits(
        indptr, element, pick(nodes.distance, torch.inf), pick(nodes.collection, -1), pick(nodes.rank, -1),
        pick(nodes.nearest, torch.inf), pick(nodes.first, -1),
    )  # fmt: skip
    return hits, known
