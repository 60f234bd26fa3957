"""Numba form of `fragment_keys`: a stamp a node, one walk of the oriented lists."""

import numpy as np
from numba import njit, prange


@njit(nogil=True, cache=True, parallel=True)
def fragment_keys(o_indptr, o_edge, o_other, key, indptr, node, most, entries, threads):
    queries, size = indptr.size - 1, o_indptr.size - 1
    found = np.empty((queries, most), np.int32)
    counts = np.zeros(queries + 1, np.int64)
    many = np.zeros(queries, np.bool_)
    for t in prange(threads):
        held = np.zeros(size, np.bool_)
        for q in range(np.int64(t), queries, threads):
            low, high = indptr[q], indptr[q + 1]
            total = np.int64(0)
            for s in range(low, high):
                u = node[s]
                if u < size:
                    held[u] = True
                    total += o_indptr[u + 1] - o_indptr[u]
            count = np.int64(0)
            if total <= entries:
                for s in range(low, high):
                    u = node[s]
                    if u >= size:
                        continue
                    for j in range(o_indptr[u], o_indptr[u + 1]):
                        if held[o_other[j]] and key[o_edge[j]] >= 0:
                            if count < most:
                                found[q, count] = key[o_edge[j]]
                            count += 1
            many[q] = total > entries or count > most
            counts[q + 1] = 0 if many[q] else count
            for s in range(low, high):
                if node[s] < size:
                    held[node[s]] = False
    bounds = np.cumsum(counts)
    out = np.empty(bounds[-1], np.int32)
    for q in range(queries):
        for i in range(counts[q + 1]):
            out[bounds[q] + i] = found[q, i]
    return bounds, out, many
