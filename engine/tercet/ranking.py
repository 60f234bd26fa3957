"""Ranking: the stages of one retrieval, from query vectors to the best triplets."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import IntEnum

import torch

from tercet.candidates import Hits, merge, rescore, search
from tercet.full import full_fragment
from tercet.plan import Plan
from tercet_kernels._types import EdgeRule, Fragment, NodeHits, RelationHits, Top
from tercet_kernels.effective import effective
from tercet_kernels.expand import expand
from tercet_kernels.fragment_topk import fragment_topk
from tercet_kernels.triplet_topk import triplet_topk


class Status(IntEnum):
    """What became of a query."""

    ok = 0
    no_hits = 1  # nothing was found in any collection
    empty_fragment = 2  # something was found, but no edge of the graph is admitted
    no_edges = 3  # the graph has no edges
    empty_graph = 4  # the graph has no nodes
    filtered_out = 5  # the filter admits nothing
    no_route = 6  # no path between waypoints
    failed = 7  # the query itself is wrong; see its error


@dataclass(frozen=True, eq=False)
class Ranking:
    """The best k edges of each query, ascending by (score, edge); absent places hold -1 and +inf."""

    edge: torch.Tensor  # (B, k) int32
    score: torch.Tensor  # (B, k) float64
    distance: torch.Tensor  # (B, k, 3) float32 raw distances of source, target, relation; +inf: not matched
    slot: torch.Tensor  # (B, k, 3) int32 rows of nodes, nodes, relations; -1: not matched
    status: torch.Tensor  # (B,) int8
    available: torch.Tensor  # (B,) int64 edges in the query's fragment
    nodes: Hits
    relations: Hits
    candidates: Hits  # what the search found, before expansion: the seeds
    seconds: dict[str, float] = field(default_factory=dict)


class Clock:
    """Seconds by stage; a stage on CUDA is timed when its work is done."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.seconds: dict[str, float] = {}

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        begin = time.perf_counter()
        yield
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - begin


def retrieve(plan: Plan, queries: torch.Tensor) -> Ranking:
    """Rank the triplets of each query; see DESIGN section 1 for the stages."""
    clock = Clock(queries.device)
    if plan.wide is None and plan.projection != "neighborhood":
        return _rank_full(plan, queries, None, None, clock)
    with clock.stage("search"):
        nodes, relations = _search(plan, queries, *limits(plan, queries))
    if plan.projection == "full":
        return _rank_full(plan, queries, nodes, relations, clock)
    if plan.projection == "incident" and plan.allowed is not None:  # the other end must be admitted too
        ranking = _rank_full(plan, queries, nodes, relations, clock)
    else:
        with clock.stage("project"):
            hits, either = _project(plan, queries, nodes)
        ranking = _rank_hits(plan, queries, hits, relations, nodes, either, clock)
    empty = ranking.available == 0
    if plan.unread is not None and nodes.element.shape[0]:
        read = torch.zeros(empty.shape, dtype=torch.int64, device=empty.device)
        read.index_add_(0, query_of(nodes.indptr), plan.unread[nodes.element.long()].long())
        empty &= read == 0
    if not plan.fallback or not bool(empty.any()):  # host sync, in compatibility modes only
        return ranking
    whole = _rank_full(replace(plan, projection="full"), queries, nodes, relations, clock)
    return _choose(empty, whole, ranking)


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


def _search(plan: Plan, queries: torch.Tensor, node_limit: torch.Tensor, key_limit: torch.Tensor) -> tuple[Hits, Hits]:
    out = []
    for bound, wide in ((plan.node_bound, node_limit), (plan.relation_bound, key_limit)):
        found = [
            search(b, queries, wide, mask, plan.max_distance) for b, mask in zip(bound, plan.masks(bound), strict=True)
        ]
        out.append(merge(found, plan.combine, queries.shape[0], queries.device))
    return out[0], out[1]


def _project(plan: Plan, queries: torch.Tensor, nodes: Hits) -> tuple[Hits, bool]:
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


def query_of(indptr: torch.Tensor) -> torch.Tensor:
    """The query of each entry of a ragged value."""
    return torch.repeat_interleave(torch.arange(indptr.shape[0] - 1, device=indptr.device), indptr.diff())


def node_terms(plan: Plan, node: torch.Tensor, distance: torch.Tensor) -> torch.Tensor:
    """float64 effective distances of nodes; ids beyond the graph get that of an average node."""
    inside = (node < plan.graph.num_nodes).long() * node.long()
    s = plan.scoring
    pick = lambda x: x[inside] if x.shape[0] else x.new_full(inside.shape, 0.5)  # noqa: E731
    return effective(
        distance.double(), pick(plan.graph.importance), pick(plan.graph.feedback), influence=s.influence,
        penalty=s.penalty, cliff=s.cliff, personal=None if s.personal is None else pick(s.personal),
        personal_influence=s.personal_influence,
    )  # fmt: skip


def edge_rule(plan: Plan) -> EdgeRule:
    """How edges score in this plan."""
    s = plan.scoring
    return EdgeRule(plan.graph.edge_importance, plan.graph.edge_feedback, s.influence, s.penalty, s.cliff)


def missing_terms(plan: Plan) -> torch.Tensor:
    """(N,) float64 term of each node when it isn't matched."""
    every = torch.arange(plan.graph.num_nodes, device=plan.graph.device)
    return node_terms(plan, every, torch.full(every.shape, torch.inf, device=every.device))


def _rank_hits(
    plan: Plan, queries: torch.Tensor, hits: Hits, relations: Hits, candidates: Hits, either: bool, clock: Clock
) -> Ranking:
    with clock.stage("score"):
        table = NodeHits(hits.indptr, hits.element, node_terms(plan, hits.element, hits.distance))
        missing = missing_terms(plan)
    with clock.stage("rank"):
        top = fragment_topk(
            plan.topology, table, missing, RelationHits(relations.indptr, relations.element, relations.distance),
            edge_rule(plan), most(plan), either=either,
        )  # fmt: skip
    touched = (_found(candidates) + _found(relations)) > 0
    return _ranking(plan, top, hits, relations, candidates, touched, clock)


def _rank_full(plan: Plan, queries: torch.Tensor, nodes: Hits | None, relations: Hits | None, clock: Clock) -> Ranking:
    with clock.stage("full"):
        found = full_fragment(plan, queries, nodes, relations, most(plan), node_terms)
    with clock.stage("rank"):
        hits, keys = found.nodes, found.relations
        at = _slots(plan, found.indptr, found.edge, hits)
        top = triplet_topk(
            plan.topology, Fragment(found.indptr, found.edge, *at),
            NodeHits(hits.indptr, hits.element, node_terms(plan, hits.element, hits.distance)), missing_terms(plan),
            RelationHits(keys.indptr, keys.element, keys.distance), edge_rule(plan), most(plan),
        )  # fmt: skip
        top = top._replace(available=found.available)
    return _ranking(plan, top, hits, keys, hits if nodes is None else nodes, found.touched, clock)


def _slots(plan: Plan, indptr: torch.Tensor, edge: torch.Tensor, hits: Hits) -> tuple[torch.Tensor, torch.Tensor]:
    span = plan.graph.num_nodes
    have, query = query_of(hits.indptr) * span + hits.element.long(), query_of(indptr)
    return tuple(  # type: ignore[return-value]
        torch.searchsorted(have, query * span + end[edge.long()].long()).int()
        for end in (plan.topology.source, plan.topology.target)
    )


def most(plan: Plan) -> int:
    """Results to keep room for: the largest top_k, but not more than there are edges."""
    return max(1, min(int(plan.top_k.max()) if plan.top_k.shape[0] else 1, max(plan.graph.num_edges, 1)))


def _ranking(
    plan: Plan, top: Top, nodes: Hits, relations: Hits, candidates: Hits, touched: torch.Tensor, clock: Clock
) -> Ranking:
    beyond = torch.arange(top.edge.shape[1], device=top.edge.device)[None] >= plan.top_k[:, None]
    edge = top.edge.masked_fill(beyond, -1)
    slot = top.slot.masked_fill(beyond[:, :, None], -1)
    distance = torch.stack([_raw(h, slot[:, :, i]) for i, h in enumerate((nodes, nodes, relations))], dim=2)
    slot = torch.where(torch.isfinite(distance), slot, -1)  # listed without a distance: not matched
    score = top.score.masked_fill(beyond, torch.inf)
    if plan.rank_unmatched:  # one query with a hit is enough for all of them to be ranked
        touched = touched.any().expand_as(touched)
    status = _status(plan, top.available, touched, candidates)
    edge, score = edge.masked_fill(~touched[:, None], -1), score.masked_fill(~touched[:, None], torch.inf)
    return Ranking(edge, score, distance, slot, status, top.available, nodes, relations, candidates, clock.seconds)


def _raw(hits: Hits, slot: torch.Tensor) -> torch.Tensor:
    if hits.distance.shape[0] == 0:
        return torch.full(slot.shape, torch.inf, device=slot.device)
    return hits.distance[slot.clamp(min=0).long()].masked_fill(slot < 0, torch.inf)


def _found(hits: Hits) -> torch.Tensor:
    """(B,) int64 elements with a distance."""
    counts = torch.zeros(hits.indptr.shape[0] - 1, dtype=torch.int64, device=hits.indptr.device)
    return counts.index_add_(0, query_of(hits.indptr), torch.isfinite(hits.distance).long())


def _status(plan: Plan, available: torch.Tensor, touched: torch.Tensor, candidates: Hits) -> torch.Tensor:
    """(B,) int8: why a query has no triplets, or `ok`."""
    status = torch.full(touched.shape, int(Status.ok), dtype=torch.int8, device=touched.device)
    status[available == 0] = int(Status.empty_fragment)
    if plan.graph.num_edges == 0:
        status[:] = int(Status.no_edges)
    status[~touched] = int(Status.no_hits)
    masks = [m for m in plan.masks(plan.node_bound) if m is not None and m[0].shape[1]]
    if masks:
        shut = torch.stack([~m[0].any(dim=1)[m[1].clamp(min=0).long()] & (m[1] >= 0) for m in masks]).all(dim=0)
        nothing = (available == 0) | ~touched
        status[shut & nothing & (_found(candidates) == 0)] = int(Status.filtered_out)
    if plan.allowed is not None and plan.allowed_row is not None:
        none = ~plan.allowed.any(dim=1)[plan.allowed_row.clamp(min=0).long()] & (plan.allowed_row >= 0)
        status[none] = int(Status.filtered_out)
    if plan.graph.num_nodes == 0:
        status[:] = int(Status.empty_graph)
    return status


def _choose(mask: torch.Tensor, a: Ranking, b: Ranking) -> Ranking:
    """Queries of `a` where the mask holds, those of `b` elsewhere; slots refer to the tables of both, joined."""
    nodes, shift_nodes = _join(a.nodes, b.nodes)
    relations, shift_relations = _join(a.relations, b.relations)
    shift = torch.tensor([shift_nodes, shift_nodes, shift_relations], device=mask.device, dtype=torch.int32)
    slot = torch.where(mask[:, None, None], a.slot, torch.where(b.slot >= 0, b.slot + shift, -1))
    pick = lambda x, y: torch.where(mask.view(-1, *[1] * (x.dim() - 1)), x, y)  # noqa: E731
    return Ranking(
        pick(a.edge, b.edge), pick(a.score, b.score), pick(a.distance, b.distance), slot, pick(a.status, b.status),
        pick(a.available, b.available), nodes, relations, b.candidates, b.seconds,
    )  # fmt: skip


def _join(a: Hits, b: Hits) -> tuple[Hits, int]:
    joined = [torch.cat([x, y]) for x, y in zip(a[1:], b[1:], strict=True)]
    return Hits(a.indptr, *joined), a.element.shape[0]
