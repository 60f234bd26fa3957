"""Chains: routes through all waypoints of an item in turn, the shortest first."""

from typing import NamedTuple

import torch

from tercet.retrieve.ragged import offsets, place_of
from tercet.retrieve.trails import Trails
from tercet.retrieve.waypoints import Waypoints
from tercet_kernels.routes import Routes

PLACES = 1 << 23  # sums of a group of items


class _Tables(NamedTuple):
    """Items with the same number of segments S, at most K candidates a waypoint."""

    hops: torch.Tensor  # (G, S, K, K) float64 hops from a candidate to one of the next waypoint, +inf: no route
    pair: torch.Tensor  # (G, S, K, K) int64 the pair
    counts: torch.Tensor  # (G, S + 1) candidates of each waypoint


def chain(places: Waypoints, pair: dict[str, torch.Tensor], found: Routes, limit: int) -> Trails:
    """The `limit` shortest chains of each item, by the sum of their hops.

    A chain takes one candidate a waypoint and, for each two in turn, the first of their shortest routes; two that are
    the same node don't connect, as they don't outside of chains. Of equal lengths the better candidate of the last
    waypoint comes first, then of the one before.
    The search keeps, for every candidate, the best `limit` ways to get there, waypoint after waypoint.
    """
    segments = (places.indptr.diff() - 1).clamp(min=0)
    parts: list[tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]] = []
    widest = int(places.candidates.indptr.diff().max()) if places.candidates.indptr.shape[0] > 1 else 0
    for count in torch.unique(segments[segments > 0]).tolist():
        items = torch.nonzero(segments == count).flatten()
        step = max(1, PLACES // max(widest * widest * limit, 1))
        for group in items.split(step):
            tables = _tables(places, pair, found, group, count, max(widest, 1))
            parts.append(_best(tables, group, places, found, limit))
    if not parts:
        none = torch.zeros(0, dtype=torch.int64)
        return Trails(none, torch.zeros(1, dtype=torch.int64), none.int(), none.view(0, 1))
    width = max(p[3].shape[1] for p in parts)
    item = torch.cat([p[0] for p in parts])
    lengths = torch.cat([p[1] for p in parts])
    node = torch.cat([p[2] for p in parts])
    stops = torch.cat([torch.nn.functional.pad(p[3], (0, width - p[3].shape[1]), value=-1) for p in parts])
    order = torch.argsort(item, stable=True)
    begin = (lengths.cumsum(0) - lengths)[order]
    bounds = offsets(lengths[order])
    at = torch.repeat_interleave(begin, lengths[order]) + place_of(bounds)
    return Trails(item[order], bounds, node[at], stops[order])


def _tables(
    places: Waypoints, pair: dict[str, torch.Tensor], found: Routes, items: torch.Tensor, count: int, widest: int
) -> _Tables:
    row = torch.full((places.indptr.shape[0] - 1,), -1, dtype=torch.int64)
    row[items] = torch.arange(items.shape[0])
    mine = torch.nonzero(row[pair["item"]] >= 0).flatten()
    waypoint = places.indptr[pair["item"][mine]] + pair["segment"][mine]
    begin = places.candidates.indptr.cpu()
    at = (row[pair["item"][mine]], pair["segment"][mine], pair["from"][mine] - begin[waypoint],
          pair["to"][mine] - begin[waypoint + 1])  # fmt: skip
    hops = torch.full((items.shape[0], count, widest, widest), torch.inf, dtype=torch.float64)
    which = torch.zeros(hops.shape, dtype=torch.int64)
    length = found.hops[mine].double()
    hops[at] = torch.where(length < 1, torch.inf, length)
    which[at] = mine
    first = places.indptr[items][:, None] + torch.arange(count + 1)
    return _Tables(hops, which, begin.diff()[first])


def _best(
    tables: _Tables, items: torch.Tensor, places: Waypoints, found: Routes, limit: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Items, lengths, nodes and stops of the chains of a group."""
    count, widest = tables.hops.shape[1:3]
    exists = torch.arange(widest) < tables.counts[:, :1]
    cost = torch.where(exists, 0.0, torch.inf).double()[:, :, None]  # (G, K, ways to get there)
    back = []
    for s in range(count):
        total = (cost[:, :, :, None] + tables.hops[:, s, :, None, :]).permute(0, 3, 1, 2).flatten(2)
        ordered = torch.sort(total, dim=2, stable=True)
        cost, best = ordered.values[:, :, :limit], ordered.indices[:, :, :limit]
        back.append((best, total.shape[2] // widest))
    final = torch.sort(cost.flatten(1), dim=1, stable=True)
    keep = torch.isfinite(final.values[:, :limit])
    row, _ = torch.nonzero(keep, as_tuple=True)
    state = final.indices[:, :limit][keep]
    choice = torch.zeros(row.shape[0], count + 1, dtype=torch.int64)
    ways = cost.shape[2]
    for s in range(count - 1, -1, -1):
        best, before = back[s]
        choice[:, s + 1] = state // ways
        state = best[row, choice[:, s + 1], state % ways]
        ways = before
    choice[:, 0] = state // max(ways, 1)
    segment = torch.arange(count)
    used = tables.pair[row[:, None], segment, choice[:, :-1], choice[:, 1:]]  # (R, S)
    first = segment == 0
    hops = found.hops[used].long()
    lengths = hops + first.long()
    route = found.indptr[used]
    begin = (
        torch.where(hops > 0, found.offsets[route.clamp(max=max(found.offsets.shape[0] - 1, 0))], 0) + (~first).long()
    )
    bounds = offsets(lengths.flatten())
    at = torch.repeat_interleave(begin.flatten(), lengths.flatten()) + place_of(bounds)
    waypoint = places.indptr[items[row]][:, None] + torch.arange(count + 1)
    stops = places.candidates.indptr.cpu()[waypoint] + choice
    return items[row], lengths.sum(dim=1), found.node[at], stops
