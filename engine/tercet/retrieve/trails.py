"""Trails: the routes of a batch of items as node sequences, in the order in which they are reported."""

from dataclasses import dataclass

import torch

from tercet.retrieve.ragged import offsets, place_of, query_of
from tercet_kernels.routes import Routes


@dataclass(frozen=True, eq=False)
class Trails:
    """R node sequences."""

    item: torch.Tensor  # (R,) int64 ascending
    offsets: torch.Tensor  # (R + 1,) int64
    node: torch.Tensor  # (T,) int32 node rows
    stops: torch.Tensor  # (R, S) int64 places, among all candidates, of the waypoints it joins; -1: padding


def trails_of(pair: dict[str, torch.Tensor], found: Routes) -> Trails:
    """All routes, pair after pair."""
    of = query_of(found.indptr)
    return Trails(pair["item"][of], found.offsets, found.node, torch.stack([pair["from"][of], pair["to"][of]], dim=1))


def kept_trails(trails: Trails, limit: int | None) -> Trails:
    """Each node sequence once an item, where it comes first; at most `limit` an item."""
    count = trails.item.shape[0]
    if count == 0:
        return trails
    lengths = trails.offsets.diff()
    table = torch.full((count, int(lengths.max()) + 1), -1, dtype=torch.int64)
    table[:, 0] = trails.item
    table[query_of(trails.offsets), place_of(trails.offsets) + 1] = trails.node.long()
    distinct, which = torch.unique(table, dim=0, return_inverse=True)
    first = torch.full((distinct.shape[0],), count).scatter_reduce_(0, which, torch.arange(count), "amin")
    keep = torch.zeros(count, dtype=torch.bool)
    keep[first] = True
    if limit is not None:
        taken = keep.long().cumsum(0)
        begin = torch.searchsorted(trails.item, trails.item)
        before = torch.cat([torch.zeros(1, dtype=torch.int64), taken])[begin]
        keep &= taken - before <= limit
    inside = keep[query_of(trails.offsets)]
    return Trails(trails.item[keep], offsets(lengths[keep]), trails.node[inside], trails.stops[keep])
