"""Routes between waypoints: all pairs of candidates of all segments of all items, searched together."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from tercet.arguments import whole
from tercet.clock import Clock
from tercet.errors import InvalidArgument
from tercet.ranking import Status
from tercet.retrieve.chains import chain
from tercet.retrieve.expansion import Selection, expand
from tercet.retrieve.growth import Growth, relationships
from tercet.retrieve.pairs import Pairs
from tercet.retrieve.ragged import offsets, place_of, query_of
from tercet.retrieve.subgraph import Subgraphs
from tercet.retrieve.trails import Trails, kept_trails, trails_of
from tercet.retrieve.waypoints import Waypoints, locate
from tercet_kernels.routes import Routes, routes

if TYPE_CHECKING:
    from tercet.retrieve.verbs import Verbs


def find_paths(
    verbs: "Verbs",
    waypoints: Any,
    growth: Growth,
    *,
    k: Any,
    max_hops: Any,
    max_paths: Any,
    joined: bool,
    collections: Any,
    filters: tuple[Any, Any, Any],
) -> Subgraphs:
    """See `Verbs.path_context`."""
    for name, value in (("k", k), ("max_hops", max_hops), ("max_paths", max_paths)):
        if value is None:
            raise InvalidArgument(f"{name}: expected an integer of at least 1, got None")
        whole(name, value, least=1)
    clock = Clock(verbs.device)
    places = locate(verbs, waypoints, int(k), verbs._searched_nodes(collections), filters, clock)
    return paths_between(verbs, places, growth, max_hops=max_hops, max_paths=max_paths, joined=joined, clock=clock)


def paths_between(
    verbs: "Verbs",
    places: Waypoints,
    growth: Growth,
    *,
    max_hops: int,
    max_paths: int,
    joined: bool,
    clock: Clock | None = None,
) -> Subgraphs:
    """The routes between waypoints that are located already."""
    clock = clock or Clock(verbs.device)
    shared = verbs.rules.routes == "shared"
    with clock.stage("routes"):
        pair = pairs_of(places)
        found = routes(
            verbs.topology, pair["start"].to(verbs.device), pair["end"].to(verbs.device), int(max_hops),
            direction=growth.walk.direction, limit=1 if shared or joined else int(max_paths),
            relation=growth.walk.relation, walkable=growth.walk.walkable,
        )  # fmt: skip
        found = Routes(*(x.cpu() for x in found))
        if joined:
            trails = chain(places, pair, found, int(max_paths))
        else:
            trails = kept_trails(trails_of(pair, found), int(max_paths) if shared else None)
    return _result(verbs, places, pair, found, trails, growth, clock, shared=shared)


def pairs_of(places: Waypoints) -> dict[str, torch.Tensor]:
    """Every candidate of a waypoint with every candidate of the next one, in the order of their ranks.

    Returns:
        `item`, `segment`, `start`, `end` (node rows), and `from`, `to` (places among all candidates), (P,) each; and
        `empty`: (item, segment) rows of segments without a pair.
    """
    indptr, candidates = places.indptr, places.candidates
    counts = candidates.indptr.diff().cpu()
    waypoint = torch.arange(counts.shape[0])
    item = query_of(indptr)
    last = torch.zeros(counts.shape[0], dtype=torch.bool)
    last[indptr[1:][indptr.diff() > 0] - 1] = True
    first = waypoint[~last]  # a segment begins at every waypoint but the last of its item
    width = counts[first] * counts[first + 1]
    of = torch.repeat_interleave(torch.arange(first.shape[0]), width)
    place = torch.arange(int(width.sum())) - torch.repeat_interleave(width.cumsum(0) - width, width)
    ends = counts[first + 1][of].clamp(min=1)
    begin = candidates.indptr.cpu()
    from_ = begin[first[of]] + place // ends
    to = begin[first[of] + 1] + place % ends
    node = candidates.node.cpu()
    segment = place_of(indptr)[first]
    empty = torch.stack([item[first], segment, counts[first], counts[first + 1]], dim=1)[width == 0]
    return {
        "item": item[first][of], "segment": segment[of], "start": node[from_].contiguous(),
        "end": node[to].contiguous(), "from": from_, "to": to, "empty": empty,
    }  # fmt: skip


def _result(
    verbs: "Verbs",
    places: Waypoints,
    pair: dict[str, torch.Tensor],
    found: Routes,
    trails: Trails,
    growth: Growth,
    clock: Clock,
    *,
    shared: bool,
) -> Subgraphs:
    items = len(places.text)
    on_route = _on_routes(trails, items, verbs.graph.num_nodes, ascending=shared)
    seed_indptr, seed, seed_score = _seeds(places, trails, on_route, any_node=shared)
    with clock.stage("expand"):
        selection = _around(verbs, on_route, growth)
    with clock.stage("relationships"):
        edge_indptr, edge = relationships(verbs.topology, selection, growth.walk, growth)
    state = _state(places, pair, on_route)
    with clock.stage("copy"):
        host = [x.cpu().numpy() for x in (
            selection.indptr, selection.node, selection.hops, edge_indptr, edge, seed_indptr, seed, seed_score,
            selection.available, selection.truncated, state,
        )]  # fmt: skip
    by_item = np.concatenate([[0], np.cumsum(np.bincount(trails.item.numpy(), minlength=items))])
    return Subgraphs(
        verbs.graph, places.text, *host, errors=places.errors, timings=clock.seconds, route_indptr=by_item,
        route_offsets=trails.offsets.numpy(), route_node=trails.node.numpy(), pair_table=_pairs(items, pair, found),
    )  # fmt: skip


def _on_routes(trails: Trails, items: int, num_nodes: int, *, ascending: bool) -> Selection:
    """The distinct nodes of each item's routes, with their smallest position, as a selection."""
    span = max(num_nodes, 1)
    trail = query_of(trails.offsets)
    key = trails.item[trail] * span + trails.node.long()
    distinct, which = torch.unique(key, return_inverse=True)
    position = place_of(trails.offsets)
    least = torch.full(distinct.shape, torch.iinfo(torch.int64).max).scatter_reduce_(0, which, position, "amin")
    if not ascending:  # in the order in which the routes name them
        first = torch.full(distinct.shape, key.shape[0]).scatter_reduce_(0, which, torch.arange(key.shape[0]), "amin")
        order = torch.argsort(first)  # trails are in the order of items
        distinct, least = distinct[order], least[order]
    indptr = offsets(torch.bincount(distinct // span, minlength=items))
    none = torch.zeros(items, dtype=torch.bool)
    return Selection(indptr, (distinct % span).int(), least.int(), indptr.diff(), none)


def _around(verbs: "Verbs", on_route: Selection, growth: Growth) -> Selection:
    """The nodes of the routes and, `expand` steps around them, their neighbours."""
    device = verbs.device
    moved = Selection(*(getattr(on_route, f).to(device) for f in Selection.__dataclass_fields__))
    if growth.walk.expand == 0:
        return moved
    grown = expand(verbs.topology, moved.indptr, moved.node, replace(growth.walk, max_nodes=None))
    query = query_of(grown.indptr)
    longest = torch.zeros(moved.available.shape, dtype=torch.int32, device=device)
    longest.scatter_reduce_(0, query_of(moved.indptr), moved.hops, "amax")
    hops = grown.hops + longest[query]
    hops[grown.hops == 0] = moved.hops  # these come first within a query, in the order given
    return Selection(grown.indptr, grown.node, hops, grown.available, grown.truncated)


def _seeds(
    places: Waypoints, trails: Trails, on_route: Selection, *, any_node: bool
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The candidates that count as seeds, waypoint by waypoint in the order of their ranks.

    Those at an end of a route, each node once an item with the best of its scores; or, with `any_node`, all that lie
    on any route, once a waypoint.
    """
    candidates = places.candidates
    node, score = candidates.node.cpu(), candidates.score.cpu()
    waypoint_item = query_of(places.indptr)
    item = waypoint_item[query_of(candidates.indptr.cpu())]
    if any_node:
        span = int(max([*node.tolist(), *on_route.node.tolist(), 0])) + 1
        kept = torch.isin(item * span + node.long(), query_of(on_route.indptr) * span + on_route.node.long())
        return offsets(torch.bincount(item[kept], minlength=len(places.text))), node[kept], score[kept]
    kept = torch.zeros(node.shape, dtype=torch.bool)
    kept[trails.stops[trails.stops >= 0]] = True
    at = torch.nonzero(kept).flatten()
    key = item[at] * (int(node.max()) + 1 if node.shape[0] else 1) + node[at].long()
    distinct, which = torch.unique(key, return_inverse=True)
    first = torch.full(distinct.shape, at.shape[0]).scatter_reduce_(0, which, torch.arange(at.shape[0]), "amin")
    best = torch.full(distinct.shape, -torch.inf, dtype=torch.float64).scatter_reduce_(
        0, which, torch.nan_to_num(score[at], nan=-torch.inf), "amax"
    )
    order = torch.argsort(first)
    first, best = first[order], best[order]
    best = torch.where(torch.isfinite(best), best, torch.nan)
    return offsets(torch.bincount(item[at[first]], minlength=len(places.text))), node[at[first]], best


def _state(places: Waypoints, pair: dict[str, torch.Tensor], on_route: Selection) -> torch.Tensor:
    items = len(places.text)
    state = torch.full((items,), int(Status.no_hits), dtype=torch.int8)
    state[torch.unique(pair["item"])] = int(Status.no_route)
    state[on_route.indptr.diff() > 0] = int(Status.ok)
    state[list(places.errors)] = int(Status.failed)
    return state


def _pairs(items: int, pair: dict[str, torch.Tensor], found: Routes) -> Pairs:
    """What became of each pair, with a row for every segment that has none."""
    empty = pair["empty"]
    blank = torch.full((empty.shape[0],), -1, dtype=torch.int64)
    columns = {
        "item": torch.cat([pair["item"], empty[:, 0]]), "segment": torch.cat([pair["segment"], empty[:, 1]]),
        "start": torch.cat([pair["start"].long(), blank]), "end": torch.cat([pair["end"].long(), blank]),
        "hops": torch.cat([found.hops.long(), blank]), "routes": torch.cat([found.indptr.diff(), blank * 0]),
        "truncated": torch.cat([found.truncated, blank > 0]),
    }  # fmt: skip
    order = torch.argsort(columns["item"] * (int(columns["segment"].max()) + 1 if len(blank) + len(found.hops) else 1)
                          + columns["segment"], stable=True)  # fmt: skip
    got = {name: column[order].numpy() for name, column in columns.items()}
    indptr = np.concatenate([[0], np.cumsum(np.bincount(got["item"], minlength=items))])
    narrow = {name: got[name].astype(np.int32) for name in ("segment", "start", "end", "hops")}
    return Pairs(indptr, **narrow, routes=got["routes"], truncated=got["truncated"])
