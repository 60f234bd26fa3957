"""Numba forms of `group`, a counting sort that is linear in the number of edges, and of what keeps its result up."""

import numpy as np
from numba import njit


@njit(nogil=True, cache=True)
def group(key, indptr, order):
    """Fill offsets that are 0, and as much of `order` as there are keys."""
    size = indptr.size - 1
    for e in range(key.size):
        if key[e] >= 0:
            indptr[key[e] + 1] += 1
    for g in range(size):
        indptr[g + 1] += indptr[g]
    place = indptr[:-1].copy()
    for e in range(key.size):
        g = key[e]
        if g >= 0:
            order[place[g]] = e
            place[g] += 1


@njit(nogil=True, cache=True)
def offsets(indptr, runs, more):
    size = more.size
    out = np.empty(size + 1, np.int64)
    out[0] = 0
    g = 0
    for r in range(runs.shape[0] + 1):
        first = runs[r, 0] if r < runs.shape[0] else size
        while g < first:
            out[g + 1] = out[g] + more[g]
            g += 1
        if r < runs.shape[0]:
            shift = runs[r, 1] - first
            for g in range(first, first + runs[r, 2]):
                out[g + 1] = out[g] + (indptr[g + shift + 1] - indptr[g + shift]) + more[g]
            g = first + runs[r, 2]
    return out


@njit(nogil=True, cache=True)
def places(indptr, row, group, wanted):
    out = np.empty(group.size, np.int64)
    size = indptr.size - 1
    for p in range(group.size):
        g = group[p]
        low = indptr[g]
        high = indptr[g + 1] if g < size else low
        while low < high:
            middle = (low + high) // 2
            if row[middle] < wanted[p]:
                low = middle + 1
            else:
                high = middle
        out[p] = low
    return out


@njit(nogil=True, cache=True)
def most(indptr):
    out = np.int64(0)
    for g in range(indptr.size - 1):
        out = max(out, indptr[g + 1] - indptr[g])
    return out
