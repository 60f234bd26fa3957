"""Numba form: merges of sorted lists."""

import numpy as np
from numba import njit, prange


@njit(nogil=True, cache=True)
def meet(x, i, x_end, y, j, y_end):
    """Whether two ascending lists have an entry in common."""
    while i < x_end and j < y_end:
        if x[i] == y[j]:
            return True
        if x[i] < y[j]:
            i += 1
        else:
            j += 1
    return False


@njit(nogil=True, cache=True)
def common(x, i, x_end, y, j, y_end, weight):
    """Share of the weight of `x` that is in `y` too."""
    every, both = 0.0, 0.0
    while i < x_end:
        while j < y_end and y[j] < x[i]:
            j += 1
        every += weight[x[i]]
        if j < y_end and y[j] == x[i]:
            both += weight[x[i]]
        i += 1
    return both / every if every > 0 else 0.0


@njit(nogil=True, cache=True, parallel=True)
def passage_links(h_indptr, h_name, c_indptr, c_name, weight, first, second, named, back, shared, threads):
    pairs = first.size
    for t in prange(threads):
        for p in range(pairs * np.int64(t) // threads, pairs * (np.int64(t) + 1) // threads):
            a, b = first[p], second[p]
            named[p] = meet(h_name, h_indptr[a], h_indptr[a + 1], c_name, c_indptr[b], c_indptr[b + 1])
            back[p] = meet(c_name, c_indptr[a], c_indptr[a + 1], h_name, h_indptr[b], h_indptr[b + 1])
            shared[p] = common(h_name, h_indptr[a], h_indptr[a + 1], h_name, h_indptr[b], h_indptr[b + 1], weight)
