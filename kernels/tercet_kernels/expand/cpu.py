"""Numba form of `expand`: a queue and a stamp a thread; each query is walked to count and again to fill."""

import numpy as np
from numba import njit, prange


@njit(nogil=True, cache=True)
def walk(
    source, target, out_indptr, out_edge, in_indptr, in_edge, seed, low, high, depth, allowed, row, seen, mark, queue
):  # fmt: skip
    """Fill `queue` with the nodes of one query in breadth-first order; returns how many."""
    size = out_indptr.size - 1
    end = 0
    for i in range(low, high):
        if seen[seed[i]] != mark:
            seen[seed[i]] = mark
            queue[end] = seed[i]
            end += 1
    begin = 0
    for _ in range(depth):
        level = end
        for i in range(begin, level):
            u = queue[i]
            if u >= size:
                continue
            for j in range(out_indptr[u], out_indptr[u + 1]):
                v = target[out_edge[j]]
                if seen[v] != mark and (row < 0 or allowed[row, v]):
                    seen[v] = mark
                    queue[end] = v
                    end += 1
            for j in range(in_indptr[u], in_indptr[u + 1]):
                v = source[in_edge[j]]
                if seen[v] != mark and (row < 0 or allowed[row, v]):
                    seen[v] = mark
                    queue[end] = v
                    end += 1
        begin = level
        if end == level:
            break
    return end


@njit(nogil=True, cache=True, parallel=True)
def expand(
    source, target, out_indptr, out_edge, in_indptr, in_edge, indptr, seed, allowed, allowed_row, depth, threads
):  # fmt: skip
    queries = indptr.size - 1
    span = out_indptr.size - 1
    for i in range(seed.size):
        span = max(span, np.int64(seed[i]) + 1)
    counts = np.zeros(queries + 1, np.int64)
    for t in prange(threads):
        seen = np.full(span, -1, np.int32)
        queue = np.empty(span, np.int32)
        for q in range(t, queries, threads):
            counts[q + 1] = walk(
                source, target, out_indptr, out_edge, in_indptr, in_edge, seed, indptr[q], indptr[q + 1], depth,
                allowed, allowed_row[q], seen, q, queue,
            )  # fmt: skip
    offsets = np.cumsum(counts)
    node = np.empty(offsets[-1], np.int32)
    for t in prange(threads):
        seen = np.full(span, -1, np.int32)
        queue = np.empty(span, np.int32)
        for q in range(t, queries, threads):
            count = walk(
                source, target, out_indptr, out_edge, in_indptr, in_edge, seed, indptr[q], indptr[q + 1], depth,
                allowed, allowed_row[q], seen, q, queue,
            )  # fmt: skip
            queue[:count].sort()
            node[offsets[q] : offsets[q + 1]] = queue[:count]
    return offsets, node
