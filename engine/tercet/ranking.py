"""Ranking: the stages of one retrieval, from query vectors to the best triplets."""

from dataclasses import dataclass, field, replace
from enum import IntEnum

import torch

from tercet.candidates import Hits, query_of
from tercet.clock import Clock
from tercet.full import full_fragment
from tercet.plan import Plan
from tercet.projection import find, limits, project
from tercet.terms import edge_rule, missing_terms, node_terms
from tercet_kernels._types import Fragment, NodeHits, RelationHits, Top
from tercet_kernels.finish import counted, finish, touched
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
    read: torch.Tensor | None = None  # (B,) int64 entries of edge lists looked at, two an edge; of the whole graph only


def retrieve(plan: Plan, queries: torch.Tensor) -> Ranking:
    """Rank the triplets of each query; docs/structures.md lists the stages."""
    clock = Clock(queries.device)
    if plan.wide is None and plan.projection != "neighborhood":
        return _rank_full(plan, queries, None, None, clock)
    with clock.stage("search"):
        nodes, relations = find(plan, queries, *limits(plan, queries))
    if plan.projection == "full":
        return _rank_full(plan, queries, nodes, relations, clock)
    if plan.projection == "incident" and plan.allowed is not None:  # the other end must be admitted too
        ranking = _rank_full(plan, queries, nodes, relations, clock)
    else:
        with clock.stage("project"):
            hits, either = project(plan, queries, nodes)
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
    found = touched(candidates.indptr, candidates.distance, relations.indptr, relations.distance)
    return _ranking(plan, top, hits, relations, candidates, found, clock)


def _rank_full(plan: Plan, queries: torch.Tensor, nodes: Hits | None, relations: Hits | None, clock: Clock) -> Ranking:
    with clock.stage("full"):
        found = full_fragment(plan, queries, nodes, relations, most(plan))
    with clock.stage("rank"):
        hits, keys = found.nodes, found.relations
        at = _slots(plan, found.indptr, found.edge, hits)
        top = triplet_topk(
            plan.topology, Fragment(found.indptr, found.edge, *at),
            NodeHits(hits.indptr, hits.element, node_terms(plan, hits.element, hits.distance)), missing_terms(plan),
            RelationHits(keys.indptr, keys.element, keys.distance), edge_rule(plan), most(plan),
        )  # fmt: skip
        top = top._replace(available=found.available)
    ranking = _ranking(plan, top, hits, keys, hits if nodes is None else nodes, found.touched, clock)
    return replace(ranking, read=found.read)


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
    plan: Plan, top: Top, nodes: Hits, relations: Hits, candidates: Hits, found: torch.Tensor, clock: Clock
) -> Ranking:
    if plan.rank_unmatched:  # one query with a hit is enough for all of them to be ranked
        found = found.any().expand_as(found).contiguous()
    edge, score, distance, slot = finish(top, plan.top_k, found, nodes.distance, relations.distance)
    status = _status(plan, top.available, found, candidates)
    return Ranking(edge, score, distance, slot, status, top.available, nodes, relations, candidates, clock.seconds)


def _found(hits: Hits) -> torch.Tensor:
    """(B,) int64 elements with a distance."""
    return counted(hits.indptr, hits.distance)


def _status(plan: Plan, available: torch.Tensor, found: torch.Tensor, candidates: Hits) -> torch.Tensor:
    """(B,) int8: why a query has no triplets, or `ok`."""
    if plan.graph.num_nodes == 0:
        return torch.full(found.shape, int(Status.empty_graph), dtype=torch.int8, device=found.device)
    nothing = Status.empty_fragment if plan.graph.num_edges else Status.no_edges
    usual = torch.full(found.shape, int(Status.ok), dtype=torch.int8, device=found.device)
    status = usual.masked_fill_(available == 0, int(nothing)).masked_fill_(~found, int(Status.no_hits))
    masks = [m for m in plan.masks(plan.node_bound) if m is not None and m[0].shape[1]]
    if masks:
        shut = torch.stack([~m[0].any(dim=1)[m[1].clamp(min=0).long()] & (m[1] >= 0) for m in masks]).all(dim=0)
        empty = (available == 0) | ~found
        status[shut & empty & (_found(candidates) == 0)] = int(Status.filtered_out)
    if plan.allowed is not None and plan.allowed_row is not None:
        none = ~plan.allowed.any(dim=1)[plan.allowed_row.clamp(min=0).long()] & (plan.allowed_row >= 0)
        status[none] = int(Status.filtered_out)
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
