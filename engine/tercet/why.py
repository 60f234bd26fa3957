"""Why something did not come back: the stage that dropped it, its rank there, and what would bring it in."""

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from tercet.arguments import Arguments
from tercet.candidates import Bound
from tercet.collection import Collection
from tercet.errors import InvalidArgument, UnknownId
from tercet.graph import Graph
from tercet.plan import Plan
from tercet.query import QueryBatch
from tercet.ranking import Ranking, retrieve

if TYPE_CHECKING:
    from tercet.engine import Engine


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
    plan = engine._plan(args, searched, torch.tensor([place]))
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

    def ranked(self) -> np.ndarray:
        edges = self.ranking.edge[0].cpu().numpy()
        return edges[edges >= 0]

    def allowed(self, row: int) -> bool:
        plan = self.plan
        if plan.allowed is None or plan.allowed_row is None or int(plan.allowed_row[0]) < 0:
            return True
        return bool(plan.allowed[int(plan.allowed_row[0]), row])

    def standings(self, bound: list[Bound], element: int) -> list[Standing]:
        """Where the nearest row of an element stands in each collection, filters applied."""
        out = []
        for b, mask in zip(bound, self.plan.masks(bound), strict=True):
            indptr, rows = b.by_owner
            if element >= indptr.shape[0] - 1:
                continue
            mine = rows[int(indptr[element]) : int(indptr[element + 1])].long()
            distance = b.collection.index.dense(self.query)[0]
            if mask is not None and int(mask[1][0]) >= 0:
                distance = distance.masked_fill(~mask[0][int(mask[1][0])], torch.inf)
            mine = mine[torch.isfinite(distance[mine])]
            if not len(mine):
                continue
            best = mine[torch.argmin(distance[mine])]
            ahead = (distance < distance[best]) | (
                (distance == distance[best]) & (torch.arange(len(distance), device=best.device) < best)
            )
            out.append(Standing(b.collection.name, int(ahead.sum()), float(distance[best])))
        return out

    def needs(self, standings: list[Standing]) -> int | None:
        """The smallest wide_search_top_k under which some collection contributes the element; None: there is none."""
        limit = self.plan.max_distance
        ranks = [s.rank + 1 for s in standings if limit is None or s.distance <= limit]
        return min(ranks) if ranks else None


def _why_node(probe: _Probe, row: int, node: Any) -> Why:
    graph = probe.plan.graph
    ranked = probe.ranked()
    ends = (
        np.stack([x.cpu().numpy()[ranked] for x in (graph.source, graph.target)], 1)
        if len(ranked)
        else np.zeros((0, 2))
    )
    at = np.flatnonzero((ends == row).any(axis=1))
    standings = tuple(probe.standings(probe.plan.node_bound, row))
    if len(at) and at[0] < probe.top_k:
        return Why(True, "returned", f"{node!r} is an end of triplet {at[0]}", int(at[0]), {}, standings)
    if not probe.allowed(row):
        return Why(False, "filter", f"{node!r} is outside the filter", None, {}, standings)
    if len(at):
        return _cut(f"the best triplet of {node!r}", int(at[0]), standings)
    degree = int(
        graph.out.indptr[row + 1] - graph.out.indptr[row] + graph.into.indptr[row + 1] - graph.into.indptr[row]
    )
    if degree == 0:
        return Why(False, "project", f"{node!r} has no edge, so no triplet can hold it", None, {}, standings)
    missing = _unreached(probe, [standings], [f"{node!r}"])
    if missing is not None:
        return missing
    needed = _widest(probe, row)
    reason = f"{node!r} is a candidate, but no edge of it is admitted by the projection {probe.plan.projection!r}"
    return Why(False, "project", reason, None, needed, standings)


def _why_edge(probe: _Probe, row: int) -> Why:
    graph = probe.plan.graph
    name = "{!r} -{}-> {!r}".format(*graph.triplet(row))
    ranked = probe.ranked()
    at = np.flatnonzero(ranked == row)
    ends = [int(graph.source[row]), int(graph.target[row])]
    each = [tuple(probe.standings(probe.plan.node_bound, e)) for e in ends]
    standings = each[0] + each[1]
    if len(at) and at[0] < probe.top_k:
        return Why(True, "returned", f"{name} is triplet {at[0]}", int(at[0]), {}, standings)
    shut = [graph.ids[e].as_py() for e in ends if not probe.allowed(e)]
    if shut:
        return Why(False, "filter", f"{name}: {', '.join(map(repr, shut))} outside the filter", None, {}, standings)
    if len(at):
        return _cut(name, int(at[0]), standings)
    missing = _unreached(probe, each, [repr(graph.ids[e].as_py()) for e in ends])
    if missing is not None:
        return replace(missing, needed=_with_top_k(probe, row, missing.needed))
    return Why(
        False, "project", f"{name} isn't admitted by the projection {probe.plan.projection!r}", None, {}, standings
    )


def _cut(name: str, rank: int, standings: tuple[Standing, ...]) -> Why:
    return Why(False, "rank", f"{name} has rank {rank} in the fragment", rank, {"top_k": rank + 1}, standings)


def _unreached(probe: _Probe, each: list[tuple[Standing, ...]], names: list[str]) -> Why | None:
    """The answer when a search dropped one of the nodes, None when all are candidates."""
    if probe.wide is None or probe.plan.projection not in ("induced", "incident"):
        return None
    needs = [probe.needs(list(s)) for s in each]
    together = tuple(s for one in each for s in one)
    for need, one, name in zip(needs, each, names, strict=True):
        if need is not None:
            continue
        if one:  # it has vectors, but all of them are too far
            far = min(s.distance for s in one)
            reason = f"{name} is at distance {far:.4f}, over max_distance {probe.plan.max_distance}"
            return Why(False, "search", reason, min(s.rank for s in one), {"max_distance": far}, together)
        if probe.plan.projection == "induced":
            return Why(False, "search", f"{name} has no vector in any collection that is searched", None, {}, together)
    known = [n for n in needs if n is not None]
    if not known:
        return Why(
            False, "search", f"{' and '.join(names)} have no vector in any collection searched", None, {}, together
        )
    wanted = max(known) if probe.plan.projection == "induced" else min(known)
    if wanted <= probe.wide:
        return None
    late = names[needs.index(wanted)]
    reason = f"{late} has rank {wanted - 1} in its best collection, and {probe.wide} candidates are taken"
    return Why(False, "search", reason, wanted - 1, {"wide_search_top_k": wanted}, together)


def _with_top_k(probe: _Probe, row: int, needed: dict[str, Any]) -> dict[str, Any]:
    """The top_k that is needed once the search is as wide as it must be."""
    if "wide_search_top_k" not in needed:
        return needed
    wide = torch.full_like(probe.plan.top_k, needed["wide_search_top_k"])
    ranked = retrieve(replace(probe.every, wide=wide), probe.query).edge[0]
    at = torch.nonzero(ranked == row).flatten()
    return needed if not len(at) or int(at[0]) < probe.top_k else {**needed, "top_k": int(at[0]) + 1}


def _widest(probe: _Probe, row: int) -> dict[str, Any]:
    """How wide the search must be before one of a candidate's neighbours is a candidate too."""
    plan, graph = probe.plan, probe.plan.graph
    if probe.wide is None or plan.projection != "induced":
        return {}
    near = torch.cat([
        graph.out.other[int(graph.out.indptr[row]) : int(graph.out.indptr[row + 1])],
        graph.into.other[int(graph.into.indptr[row]) : int(graph.into.indptr[row + 1])],
    ])  # fmt: skip
    needs = [probe.needs(probe.standings(plan.node_bound, int(n))) for n in torch.unique(near).tolist()[:64]]
    known = [n for n in needs if n is not None]
    return {"wide_search_top_k": min(known)} if known else {}
