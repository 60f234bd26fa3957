"""Numba form of `finish`, `touched` and `counted`: one pass, in place."""

import numpy as np
from numba import njit


@njit(nogil=True, cache=True)
def finish(edge, score, slot, top_k, touched, nodes, relations, distance):
    queries, k = edge.shape
    for q in range(queries):
        for i in range(k):
            beyond = i >= top_k[q]
            for part in range(3):
                s = np.int32(-1) if beyond else slot[q, i, part]
                raw = np.float32(np.inf)
                if s >= 0:
                    raw = relations[s] if part == 2 else nodes[s]
                distance[q, i, part] = raw
                slot[q, i, part] = s if np.isfinite(raw) else np.int32(-1)
            if beyond or not touched[q]:
                edge[q, i] = -1
                score[q, i] = np.inf


@njit(nogil=True, cache=True)
def counted(indptr, distance):
    counts = np.zeros(indptr.size - 1, np.int64)
    for q in range(counts.size):
        for i in range(indptr[q], indptr[q + 1]):
            counts[q] += np.isfinite(distance[i])
    return counts


@njit(nogil=True, cache=True)
def touched(indptr, distance, other_indptr, other_distance, out):
    for q in range(out.size):
        found = False
        for i in range(indptr[q], indptr[q + 1]):
            if np.isfinite(distance[i]):
                found = True
                break
        for i in range(other_indptr[q], other_indptr[q + 1]):
            if found:
                break
            found = np.isfinite(other_distance[i])
        out[q] = found
