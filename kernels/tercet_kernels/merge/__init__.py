"""The hits of several collections on the same elements, one entry an element."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch

from tercet_kernels._checks import check
from tercet_kernels._threads import threads
from tercet_kernels.merge import cpu, reference

STEPS = 24  # of a nanosecond, a row
COLUMNS = (np.int32, np.float32, np.int8, np.int32, np.float32, np.int32)  # of `Merged`, behind its offsets


class Listing(NamedTuple):
    """The rows that one collection returned for each query, nearest first."""

    row: torch.Tensor  # (B, C) int32, -1 for none
    distance: torch.Tensor  # (B, C) float32, +inf for none
    owner: torch.Tensor  # (V,) int32 the element of each row, -1 for none


class Merged(NamedTuple):
    """The elements that were found for each query, a slice a query, ascending by element within it."""

    indptr: torch.Tensor  # (B + 1,) int64
    element: torch.Tensor  # (T,) int32
    distance: torch.Tensor  # (T,) float32
    collection: torch.Tensor  # (T,) int8 place of the listing that the distance is from
    rank: torch.Tensor  # (T,) int32 0-based place among that listing's rows
    nearest: torch.Tensor  # (T,) float32 smallest distance over the listings
    first: torch.Tensor  # (T,) int32 place of its first appearance, listings in order, rows in order


def merge(
    listings: Sequence[Listing], wide: torch.Tensor, max_distance: float | None = None, *, last: bool = False
) -> Merged:
    """One entry for each element that some listing has, within the limits.

    Args:
        listings: of the same B queries, at most 127.
        wide: (B,) int64: of each listing's rows, the first so many count.
        max_distance: rows farther than this (as a float32) don't count.
        last: the distance of an element is that of its last row in the last listing that has it, whatever it is;
            otherwise the smallest one (ties: the earlier listing, the earlier row).

    Raises:
        ValueError: a shape, dtype or device differs from the above.

    Memory: 12 bytes a row of the listings, and 21 for the result. On CUDA the result's size is a host sync.
    """
    device = wide.device
    check("wide", wide, (None,), torch.int64, device)
    if len(listings) > cpu.MOST:
        raise ValueError(f"listings: expected at most {cpu.MOST}, got {len(listings)}")
    for i, listing in enumerate(listings):
        check(f"listings[{i}].row", listing.row, (wide.shape[0], None), torch.int32, device)
        check(f"listings[{i}].distance", listing.distance, tuple(listing.row.shape), torch.float32, device)
        check(f"listings[{i}].owner", listing.owner, (None,), torch.int32, device)
    if device.type != "cpu":
        return Merged(*reference.merge(listings, wide, max_distance, last))
    return _on_cpu(listings, wide.numpy(), np.inf if max_distance is None else max_distance, last)


def _on_cpu(listings: Sequence[Listing], wide: np.ndarray, limit: float, last: bool) -> Merged:
    starts = np.zeros(len(listings) + 1, np.int64)
    for i, listing in enumerate(listings):
        starts[i + 1] = starts[i] + listing.row.shape[1]
    queries = len(wide)
    owner, distance = np.empty((queries, starts[-1]), np.int32), np.empty((queries, starts[-1]), np.float32)
    for i, listing in enumerate(listings):
        cpu.place(*(x.numpy() for x in listing), wide, np.float32(limit), starts[i], owner, distance)
    indptr, made = np.empty(queries + 1, np.int64), [np.empty(owner.size, kind) for kind in COLUMNS]
    cpu.merge(owner, distance, starts, last, indptr, *made, threads(queries, STEPS * owner.size))
    total = int(indptr[-1])
    # mostly each row is an element of its own; a result that is much smaller doesn't hold on to the rest
    kept = [x[:total] if 2 * total >= owner.size else x[:total].copy() for x in made]
    return Merged(torch.from_numpy(indptr), *map(torch.from_numpy, kept))
