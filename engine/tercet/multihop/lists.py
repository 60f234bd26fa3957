"""Lists of numbers as flat arrays with offsets, on the host."""

from typing import TypeAlias

import numpy as np
import torch

from tercet_kernels import csr

Lists: TypeAlias = tuple[np.ndarray, np.ndarray]  # indptr (N + 1,) int64, item (M,) int32


def offsets(counts: np.ndarray) -> np.ndarray:
    """(N + 1,) int64 offsets of lists of these lengths."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)])


def ramp(counts: np.ndarray) -> np.ndarray:
    """(M,) int64: 0, 1, … for each count."""
    ends = np.cumsum(counts)
    return np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - counts, counts)


def owners(indptr: np.ndarray) -> np.ndarray:
    """(M,) int64 the list that each item is in."""
    return np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))


def expanded(lists: Lists, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The items of some lists one after another, behind which of `rows` each is from: (at (X,) int64, item (X,))."""
    indptr, item = lists
    counts = np.diff(indptr)[rows]
    return np.repeat(np.arange(len(rows)), counts), item[np.repeat(indptr[rows], counts) + ramp(counts)]


def taken(lists: Lists, rows: np.ndarray) -> Lists:
    """Some of the lists."""
    return offsets(np.diff(lists[0])[rows]), expanded(lists, rows)[1]


def of_pairs(owner: np.ndarray, item: np.ndarray, size: int) -> Lists:
    """Distinct items of each owner, ascending; items below 0 are left out."""
    kept = item >= 0
    pair = np.unique(paired(owner[kept], item[kept]))
    indptr = np.searchsorted(pair, np.arange(size + 1, dtype=np.int64) << 32).astype(np.int64)
    return indptr, (pair & 0xFFFFFFFF).astype(np.int32)


def paired(one: np.ndarray, two: np.ndarray) -> np.ndarray:
    """(X,) int64 one number for two below 2 ** 31, in their order."""
    return one.astype(np.int64) << 32 | two.astype(np.int64)


def joined(one: Lists, two: Lists) -> Lists:
    """The distinct items of both, ascending."""
    owner = np.concatenate([owners(one[0]), owners(two[0])])
    return of_pairs(owner, np.concatenate([one[1], two[1]]), len(one[0]) - 1)


def turned(lists: Lists, size: int) -> Lists:
    """The owners of each item below `size`, ascending."""
    indptr, order = csr.group(torch.from_numpy(lists[1]), size)
    return indptr.numpy(), owners(lists[0])[order.numpy()].astype(np.int32)


def hit(there: np.ndarray, wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where ascending numbers hold others: (at (X,) int64, bool (X,) whether it is there)."""
    if not len(there):
        return np.zeros(len(wanted), np.int64), np.zeros(len(wanted), bool)
    at = np.minimum(np.searchsorted(there, wanted), len(there) - 1)
    return at, there[at] == wanted
