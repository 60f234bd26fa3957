"""Numba form of `fragment_keys`: a table of a query's nodes, one walk of their oriented lists."""

import numpy as np
from numba import njit, prange

from tercet_kernels._simd import prefetch
from tercet_kernels._slots import ONE, clear, enter, table_for

LINE = 64  # bytes that come from memory together
ROOM = 4  # edges that are looked at, for each different key that may be found


@njit(nogil=True, cache=True)
def collect(low, high, o_indptr, o_edge, o_other, key, node, place, factor, shift, entries, room, out):
    """One query's keys, ascending and different, at the front of `out`; returns how many, or -1 for too many edges."""
    size = o_indptr.size - 1
    total = np.int64(0)
    for s in range(low, high):
        u = node[s]
        if u < size:
            total += o_indptr[u + 1] - o_indptr[u]
            start = o_other.ctypes.data + o_indptr[u] * o_other.itemsize
            prefetch(start)  # a list is short and lies anywhere
            prefetch(start + LINE)
    count = np.int64(0)
    if total <= entries:
        enter(low, high, node, size, place, factor, shift)
        mask = np.uint64(place.size - 1)
        for s in range(low, high):
            u = node[s]
            if u >= size:
                continue
            for j in range(o_indptr[u], o_indptr[u + 1]):
                at = (np.uint64(o_other[j]) * factor) >> shift
                slot = place[at]
                while slot >= 0 and node[slot] != o_other[j]:
                    at = (at + ONE) & mask
                    slot = place[at]
                if slot >= 0 and key[o_edge[j]] >= 0:
                    if count < room:
                        out[count] = key[o_edge[j]]
                    count += 1
        clear(low, high, node, size, place, factor, shift)
    if total > entries or count > room:
        return -1
    if count > 1:
        out[:count].sort()
    kept = np.int64(0)
    for i in range(count):
        if i == 0 or out[i] != out[i - 1]:
            out[kept] = out[i]
            kept += 1
    return kept


@njit(nogil=True, cache=True, parallel=True)
def fragment_keys(o_indptr, o_edge, o_other, key, indptr, node, most, entries, threads):
    queries = indptr.size - 1
    found = np.empty((queries, ROOM * most), np.int32)
    counts = np.zeros(queries + 1, np.int64)
    many = np.zeros(queries, np.bool_)
    places, factor, shift = table_for(indptr, o_indptr.size - 1)
    for t in prange(threads):
        place = np.full(places, -1, np.int32)
        for q in range(np.int64(t), queries, threads):
            size = collect(
                indptr[q], indptr[q + 1], o_indptr, o_edge, o_other, key, node, place, factor, shift, entries,
                ROOM * most, found[q],
            )  # fmt: skip
            many[q] = size < 0 or size > most
            counts[q + 1] = 0 if many[q] else size
    bounds = np.cumsum(counts)
    out = np.empty(bounds[-1], np.int32)
    for q in range(queries):
        for i in range(counts[q + 1]):
            out[bounds[q] + i] = found[q, i]
    return bounds, out, many
