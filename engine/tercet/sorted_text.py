"""Sorted columns of text: where others belong in them, and what becomes of them when rows come and go."""

import warnings
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import torch

from tercet_kernels.lower_bound import lower_bound


class Merged(NamedTuple):
    """Two sorted columns of distinct names as one that holds the names in use."""

    names: pa.LargeStringArray  # sorted
    old: np.ndarray  # (R,) int32 row of each old name, -1: not in use any more
    new: np.ndarray  # (r,) int32 row of each new name


def positions(
    column: pa.LargeStringArray, wanted: pa.LargeStringArray, order: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Where texts belong in a sorted column without nulls.

    Args:
        order: (n,) int32: the column isn't sorted, and this is its rows, ascending by their texts; places are places
            in it.

    Returns:
        place (P,) int64: the first row that isn't smaller; found (P,) bool: whether it is equal.
    """
    place, found = lower_bound(*_flat(column), *_flat(wanted), None if order is None else over(order))
    return place.numpy(), found.numpy()


def spread(size: int, place: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where rows go when others come between them.

    Args:
        place: (K,) ascending: the row that each new one stands before, up to `size`.

    Returns:
        (size,) int64 and (K,) int64: the rows of the old and of the new ones among size + K.
    """
    before = np.cumsum(np.bincount(place, minlength=size + 1)[:size])
    return np.arange(size) + before, place + np.arange(len(place))


def taken(old: np.ndarray, new: np.ndarray) -> np.ndarray:
    """(n,) int64 which of the old rows, then the new ones, stands in each row; from their rows, -1 for gone ones."""
    kept = np.flatnonzero(old >= 0)
    out = np.empty(len(kept) + len(new), np.int64)
    out[old[kept]] = kept
    out[new] = len(old) + np.arange(len(new))
    return out


def merge_names(
    old: pa.LargeStringArray, new: pa.LargeStringArray, old_codes: np.ndarray, new_codes: np.ndarray
) -> Merged:
    """The names that codes use, from two sorted columns of distinct names.

    Args:
        old_codes, new_codes: rows of `old` and of `new`, -1 for none; what isn't among them is dropped.
    """
    used = [np.bincount(c + 1, minlength=len(n) + 1)[1:] > 0 for n, c in ((old, old_codes), (new, new_codes))]
    place, found = positions(old, new)
    used[0][place[found]] |= used[1][found]
    fresh = np.flatnonzero(used[1] & ~found)
    rank = np.cumsum(used[0]) - 1
    if not len(fresh) and used[0].all():
        return Merged(old, np.arange(len(old), dtype=np.int32), place.astype(np.int32))
    kept_before = np.concatenate([[0], rank + 1])[place[fresh]]
    old_row, fresh_row = spread(int(used[0].sum()), kept_before)
    old_map = np.full(len(old), -1, np.int32)
    old_map[used[0]] = old_row
    new_map = np.full(len(new), -1, np.int32)
    new_map[found] = old_map[place[found]]
    new_map[fresh] = fresh_row
    rows = taken(old_map, fresh_row)
    names = pa.concat_arrays([old, new.take(pa.array(fresh))]).take(pa.array(rows))
    return Merged(names, old_map, new_map)


def coded(row: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Codes after their names have moved to other rows; -1 stays."""
    if not len(row):
        return np.full(len(codes), -1, np.int32)
    return np.where(codes < 0, -1, row[codes]).astype(np.int32)


def _flat(column: pa.LargeStringArray) -> tuple[torch.Tensor, torch.Tensor]:
    _, offsets, data = column.buffers()
    if not len(column) or offsets is None:
        return torch.zeros(1, dtype=torch.int64), torch.zeros(0, dtype=torch.uint8)
    bounds = np.frombuffer(offsets, np.int64)[column.offset : column.offset + len(column) + 1]
    held = np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    return over(bounds), over(held)


def over(array: np.ndarray) -> torch.Tensor:
    """A tensor over an array that is only read."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The given NumPy array is not writable")
        return torch.from_numpy(array)
