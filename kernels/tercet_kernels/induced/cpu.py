"""Numba form of `induced`: a stamp a node, one walk of the oriented lists."""

import numpy as np
from numba import njit, prange


@njit(nogil=True, cache=True)
def rooms(o_indptr, indptr, node):
    """(B + 1,) offsets of the lists of each query's nodes."""
    size = o_indptr.size - 1
    out = np.zeros(indptr.size, np.int64)
    for q in range(indptr.size - 1):
        entries = np.int64(0)
        for s in range(indptr[q], indptr[q + 1]):
            if node[s] < size:
                entries += o_indptr[node[s] + 1] - o_indptr[node[s]]
        out[q + 1] = out[q] + entries
    return out


@njit(nogil=True, cache=True)
def compact(wide, room, counts):
    """What was written into rooms, without the gaps; not parallel, where each copy would wake all threads."""
    queries = counts.size
    bounds = np.zeros(queries + 1, np.int64)
    for q in range(queries):
        bounds[q + 1] = bounds[q] + counts[q]
    edge = np.empty(bounds[-1], np.int32)
    for q in range(queries):
        edge[bounds[q] : bounds[q + 1]] = wide[room[q] : room[q] + counts[q]]
    return bounds, edge


@njit(nogil=True, cache=True, parallel=True)
def induced(o_indptr, o_edge, o_other, indptr, node, relation, walkable, room, threads):
    queries = indptr.size - 1
    size = o_indptr.size - 1
    wide = np.empty(room[-1], np.int32)
    counts = np.zeros(queries, np.int64)
    for t in prange(threads):
        held = np.zeros(size, np.bool_)
        for q in range(np.int64(t), queries, threads):
            for s in range(indptr[q], indptr[q + 1]):
                if node[s] < size:
                    held[node[s]] = True
            end = room[q]
            for s in range(indptr[q], indptr[q + 1]):
                u = node[s]
                if u >= size:
                    continue
                for j in range(o_indptr[u], o_indptr[u + 1]):
                    if held[o_other[j]] and (walkable.size == 0 or walkable[relation[o_edge[j]]]):
                        wide[end] = o_edge[j]
                        end += 1
            wide[room[q] : end].sort()
            counts[q] = end - room[q]
            for s in range(indptr[q], indptr[q + 1]):
                if node[s] < size:
                    held[node[s]] = False
    return compact(wide, room, counts)
