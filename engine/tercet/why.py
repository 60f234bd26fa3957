"""Why something did not come back: the stage that dropped it, its rank there, and what would bring it in."""

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from tercet.arguments import Arguments
from tercet.candidates import Bound
from tercet.collection import Collection
from tercet.errors import InvalidArgument, UnknownId
from tercet.graph import Graph
from tercet.plan import Plan
from tercet.projection import seeds_of
from tercet.query import QueryBatch
from tercet.ranking import Ranking, retrieve
from tercet_kernels.expand import expand

if TYPE_CHECKING:
    from tercet.engine import Engine


NEVER = torch.iinfo(torch.int64).max
SEARCHED = ("induced", "incident")  # projections in which the search decides what is admitted


@dataclass(frozen=True)
class Standing:
    """Where an element stands in one collection: its nearest row's 0-based rank and distance."""

    collection: str
    rank: int
    distance: float


@dataclass(frozen=True)
class Why:
    """An answer of `why`."""

    returned: bool
    stage: str  # "returned", "query", "filter", "search", "project" or "rank"
    reason: str
    rank: int | None = None  # 0-based, at that stage
    needed: dict[str, Any] = field(default_factory=dict)  # the smallest settings that would bring it in
    standings: tuple[Standing, ...] = ()

    def __str__(self) -> str:
        settings = ", ".join(f"{k}={v!r}" for k, v in self.needed.items())
        return f"{self.stage}: {self.reason}" + (f" (needs {settings})" if settings else "")


def explain_absence(
    engine: "Engine",
    batch: QueryBatch,
    args: Arguments,
    searched: list[Collection],
    place: int,
    *,
    edge: Any,
    node: Any,
) -> Why:
    """See `Result.why`.

    Args:
        edge: an edge row, or (source id, relation, target id); or
        node: a node id.

    Raises:
        InvalidArgument: neither or both are given.
        UnknownId: the graph doesn't have it.
    """
    if (edge is None) == (node is None):
        raise InvalidArgument("why: expected an edge or a node")
    if place in batch.errors:
        return Why(False, "query", batch.errors[place])
    plan = engine.planner.plan(args, searched, torch.tensor([place]))
    query = batch.embedding[place : place + 1].to(engine.device)
    every = replace(plan, top_k=torch.full_like(plan.top_k, max(plan.graph.num_edges, 1)))
    probe = _Probe(plan, every, query)
    if node is not None:
        return _why_node(probe, plan.graph.row(node), node)
    return _why_edge(probe, edge_row(plan.graph, edge))


def edge_row(graph: Graph, edge: Any) -> int:
    """The row of an edge given as a row or as (source id, relation, target id).

    Raises:
        UnknownId: there is no such edge.
    """
    if isinstance(edge, (int, np.integer)):
        if not 0 <= edge < graph.num_edges:
            raise UnknownId(f"the graph has no edge {edge}; it has {graph.num_edges}")
        return int(edge)
    source, relation, target = edge
    ends = graph.rows([source, target])
    labels = graph.relation_names.to_pylist()
    label = labels.index(relation) if relation in labels else -2 if relation else -1  # -1: an edge without a label
    near = (graph.source == int(ends[0])) & (graph.target == int(ends[1])) & (graph.relation == label)
    rows = torch.nonzero(near).flatten()
    if not len(rows):
        raise UnknownId(f"the graph has no edge {source!r} -{relation}-> {target!r}")
    return int(rows[0])


class _Probe:
    """One query under its plan, with everything that a question about it may need."""

    def __init__(self, plan: Plan, every: Plan, query: torch.Tensor) -> None:
        self.plan, self.every, self.query = plan, every, query
        self.ranking: Ranking = retrieve(every, query)
        self.top_k = int(plan.top_k[0])
        self.wide = None if plan.wide is None else int(plan.wide[0])
        self.listings = [
            self._listing(b, mask) for b, mask in zip(plan.node_bound, plan.masks(plan.node_bound), strict=True)
        ]

    def _listing(self, bound: Bound, mask: tuple[torch.Tensor, torch.Tensor] | None) -> "_Listing":
        distance = bound.collection.index.dense(self.query)[0]
        if mask is not None and int(mask[1][0]) >= 0:
            distance = distance.masked_fill(~mask[0][int(mask[1][0])], torch.inf)
        distance, row = distance.sort(stable=True)
        listed = torch.isfinite(distance)
        return _Listing(bound.collection.name, bound.owner[row[listed]].long(), distance[listed])

    def ranked(self) -> np.ndarray:
        edges = self.ranking.edge[0].cpu().numpy()
        return edges[edges >= 0]

    def allowed(self, rows: torch.Tensor) -> torch.Tensor:
        """bool for each node row: whether the filter admits it."""
        plan = self.plan
        if plan.allowed is None or plan.allowed_row is None or int(plan.allowed_row[0]) < 0:
            return torch.ones_like(rows, dtype=torch.bool)
        return plan.allowed[int(plan.allowed_row[0])][rows]

    def standings(self, node: int) -> tuple[Standing, ...]:
        """Where the nearest row of a node stands in each collection, filters applied."""
        out = []
        for listing in self.listings:
            at = torch.nonzero(listing.owner == node).flatten()
            if len(at):
                out.append(Standing(listing.collection, int(at[0]), float(listing.distance[at[0]])))
        return tuple(out)

    def needs(self, limit: float | None) -> torch.Tensor:
        """(N,) int64: the smallest wide_search_top_k under which each node is a candidate, or NEVER."""
        out = torch.full((self.plan.graph.num_nodes,), NEVER, device=self.query.device)
        for listing in self.listings:
            count = torch.arange(1, len(listing.owner) + 1, device=out.device)
            usable = listing.owner < out.shape[0]
            if limit is not None:
                usable &= listing.distance <= limit
            out.scatter_reduce_(0, listing.owner[usable], count[usable], "amin")
        return out

    def nearest(self) -> torch.Tensor:
        """(N,) float32 distance of each node, +inf where it has no vector."""
        out = torch.full((self.plan.graph.num_nodes,), torch.inf, device=self.query.device)
        for listing in self.listings:
            usable = listing.owner < out.shape[0]
            out.scatter_reduce_(0, listing.owner[usable], listing.distance[usable], "amin")
        return out

    def candidate(self, node: int) -> bool:
        need = int(self.needs(self.plan.max_distance)[node])
        return need < NEVER and (self.wide is None or need <= self.wide)


class _Listing(NamedTuple):
    """The rows of a collection that a query may use, nearest first."""

    collection: str
    owner: torch.Tensor  # (n,) int64
    distance: torch.Tensor  # (n,) float32


def _why_node(probe: _Probe, row: int, node: Any) -> Why:
    graph = probe.plan.graph
    ranked = probe.ranked()
    ends = np.stack([x.cpu().numpy()[ranked] for x in (graph.source, graph.target)], axis=1)
    at = np.flatnonzero((ends == row).any(axis=1))
    standings = probe.standings(row)
    if len(at) and at[0] < probe.top_k:
        return Why(True, "returned", f"{node!r} is an end of triplet {at[0]}", int(at[0]), {}, standings)
    if not bool(probe.allowed(torch.tensor([row], device=graph.device))):
        return Why(False, "filter", f"{node!r} is outside the filter", None, {}, standings)
    if len(at):
        return _cut(f"the best triplet of {node!r}", int(at[0]), standings)
    mine = torch.cat([x.edge[int(x.indptr[row]) : int(x.indptr[row + 1])] for x in (graph.out, graph.into)]).long()
    if not len(mine):
        return Why(False, "project", f"{node!r} has no edge, so no triplet can hold it", None, {}, standings)
    mine = mine[probe.allowed(graph.source[mine].long()) & probe.allowed(graph.target[mine].long())]
    needed = _advice(probe, mine)
    if probe.plan.projection in SEARCHED and not probe.candidate(row):
        reason, rank = _absence(probe, repr(node), standings)
        return Why(False, "search", reason, rank, needed, standings)
    reason = f"no edge of {node!r} is admitted by the projection {probe.plan.projection!r}"
    return Why(False, "project", reason, None, needed, standings)


def _why_edge(probe: _Probe, row: int) -> Why:
    graph = probe.plan.graph
    name = "{!r} -{}-> {!r}".format(*graph.triplet(row))
    at = np.flatnonzero(probe.ranked() == row)
    ends = list(dict.fromkeys([int(graph.source[row]), int(graph.target[row])]))
    ids = [graph.ids[e].as_py() for e in ends]
    each = [probe.standings(e) for e in ends]
    standings = tuple(s for one in each for s in one)
    if len(at) and at[0] < probe.top_k:
        return Why(True, "returned", f"{name} is triplet {at[0]}", int(at[0]), {}, standings)
    inside = probe.allowed(torch.tensor(ends, device=graph.device)).tolist()
    if not all(inside):
        shut = ", ".join(repr(i) for i, ok in zip(ids, inside, strict=True) if not ok)
        return Why(False, "filter", f"{name}: {shut} outside the filter", None, {}, standings)
    if len(at):
        return _cut(name, int(at[0]), standings)
    needed = _advice(probe, torch.tensor([row], device=graph.device))
    absent = [i for i, e in enumerate(ends) if not probe.candidate(e)]
    if probe.plan.projection not in SEARCHED or not absent:
        reason = f"{name} isn't admitted by the projection {probe.plan.projection!r}"
        return Why(False, "project", reason, None, needed, standings)
    need = probe.needs(probe.plan.max_distance)[torch.tensor(ends, device=graph.device)].tolist()
    pick = max if probe.plan.projection == "induced" else min
    late = pick(absent, key=lambda i: need[i])
    reason, rank = _absence(probe, repr(ids[late]), each[late])
    return Why(False, "search", reason, rank, needed, standings)


def _cut(name: str, rank: int, standings: tuple[Standing, ...]) -> Why:
    return Why(False, "rank", f"{name} has rank {rank} in the fragment", rank, {"top_k": rank + 1}, standings)


def _absence(probe: _Probe, name: str, standings: tuple[Standing, ...]) -> tuple[str, int | None]:
    """Why a node isn't a candidate, and its best rank."""
    limit = probe.plan.max_distance
    if not standings:
        return f"{name} has no vector in any collection that is searched", None
    near = [s.rank for s in standings if limit is None or s.distance <= limit]
    if not near:
        far = min(standings, key=lambda s: s.distance)
        return f"{name} is at distance {far.distance:.4f}, over max_distance {limit}", far.rank
    return f"{name} has rank {min(near)} in its best collection, and {probe.wide} candidates are taken", min(near)


def _advice(probe: _Probe, edges: torch.Tensor) -> dict[str, Any]:
    """The smallest settings under which one of these edges comes back: max_distance first, then the search, then top_k.

    Empty where no setting of them does.
    """
    plan = probe.plan
    if not len(edges):
        return {}
    if plan.projection == "neighborhood":
        return _deeper(probe, edges)
    if plan.projection not in SEARCHED:
        return {}
    pick = torch.maximum if plan.projection == "induced" else torch.minimum
    source, target = plan.graph.source[edges].long(), plan.graph.target[edges].long()
    least = lambda values: pick(values[source], values[target]).min().item()  # noqa: E731
    needed: dict[str, Any] = {}
    limit, wide = plan.max_distance, plan.wide
    need = least(probe.needs(limit))
    if need == NEVER and limit is not None:
        limit = needed["max_distance"] = least(probe.nearest())
        need = least(probe.needs(limit))
    if need == NEVER:
        return {}
    if wide is not None and probe.wide is not None and need > probe.wide:
        needed["wide_search_top_k"] = need
        wide = torch.full_like(wide, need)
    return needed | _deep_enough(probe, replace(probe.every, wide=wide, max_distance=limit), edges)


def _deeper(probe: _Probe, edges: torch.Tensor) -> dict[str, Any]:
    """The smallest neighborhood_depth that reaches one of the edges."""
    plan, size = probe.plan, -1
    indptr, seeds = seeds_of(probe.ranking.candidates, plan.seed_top_k, plan.seed_order)
    depth = plan.depth
    while True:
        reached = expand(plan.topology, indptr, seeds, depth, plan.allowed, plan.allowed_row)[1]
        ends = torch.isin(plan.graph.source[edges], reached) & torch.isin(plan.graph.target[edges], reached)
        if bool(ends.any()):
            return {"neighborhood_depth": depth} | _deep_enough(probe, replace(probe.every, depth=depth), edges)
        if len(reached) == size:
            return {}
        size, depth = len(reached), depth + 1


def _deep_enough(probe: _Probe, plan: Plan, edges: torch.Tensor) -> dict[str, Any]:
    """The top_k that one of the edges needs under another plan, where the one asked for isn't enough."""
    at = torch.nonzero(torch.isin(retrieve(plan, probe.query).edge[0].long(), edges)).flatten()
    return {"top_k": int(at[0]) + 1} if len(at) and int(at[0]) >= probe.top_k else {}
