"""Numba form of `group`: a counting sort, linear in the number of edges."""

import numpy as np
from numba import njit


@njit(nogil=True, cache=True)
def group(key, size):
    indptr = np.zeros(size + 1, np.int64)
    for e in range(key.size):
        indptr[key[e] + 1] += 1
    for g in range(size):
        indptr[g + 1] += indptr[g]
    place = indptr[:-1].copy()
    order = np.empty(key.size, np.int32)
    for e in range(key.size):
        g = key[e]
        order[place[g]] = e
        place[g] += 1
    return indptr, order
