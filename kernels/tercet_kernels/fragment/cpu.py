"""Numba form of `fragment`: count, scan, fill; membership by a stamp of the query's slots a thread."""

import numpy as np
from numba import njit, prange


@njit(nogil=True, cache=True)
def visit(
    source, target, o_indptr, o_edge, o_other, out_indptr, out_edge, in_indptr, in_edge, node, low, high, slot_of,
    either, edges, start,
):  # fmt: skip
    """Count the edges of one query's fragment, and write them from `start` on when `edges` has room for them."""
    size = slot_of.size
    write = edges.size > 0
    found = 0
    for slot in range(low, high):
        u = node[slot]
        if u >= size:
            break
        if either:
            for j in range(out_indptr[u], out_indptr[u + 1]):
                if write:
                    edges[start + found] = out_edge[j]
                found += 1
            for j in range(in_indptr[u], in_indptr[u + 1]):
                if slot_of[source[in_edge[j]]] < 0:  # else it was found from its source
                    if write:
                        edges[start + found] = in_edge[j]
                    found += 1
        else:
            for j in range(o_indptr[u], o_indptr[u + 1]):
                if slot_of[o_other[j]] >= 0:
                    if write:
                        edges[start + found] = o_edge[j]
                    found += 1
    return found


@njit(nogil=True, cache=True)
def stamp(node, low, high, slot_of):
    for slot in range(low, high):
        if node[slot] < slot_of.size:
            slot_of[node[slot]] = slot


@njit(nogil=True, cache=True)
def unstamp(node, low, high, slot_of):
    for slot in range(low, high):
        if node[slot] < slot_of.size:
            slot_of[node[slot]] = -1


@njit(nogil=True, cache=True, parallel=True)
def fragment(
    source, target, o_indptr, o_edge, o_other, out_indptr, out_edge, in_indptr, in_edge, indptr, node, either,
    threads,
):  # fmt: skip
    queries = indptr.size - 1
    size = out_indptr.size - 1
    counts = np.zeros(queries + 1, np.int64)
    none = np.empty(0, np.int32)
    for t in prange(threads):
        slot_of = np.full(size, -1, np.int32)
        for q in range(t, queries, threads):
            stamp(node, indptr[q], indptr[q + 1], slot_of)
            counts[q + 1] = visit(
                source, target, o_indptr, o_edge, o_other, out_indptr, out_edge, in_indptr, in_edge,
                node, indptr[q], indptr[q + 1], slot_of, either, none, 0,
            )  # fmt: skip
            unstamp(node, indptr[q], indptr[q + 1], slot_of)
    offsets = np.cumsum(counts)
    edges = np.empty(offsets[-1], np.int32)
    source_slot = np.empty(offsets[-1], np.int32)
    target_slot = np.empty(offsets[-1], np.int32)
    for t in prange(threads):
        slot_of = np.full(size, -1, np.int32)
        for q in range(t, queries, threads):
            low, high = offsets[q], offsets[q + 1]
            if low == high:
                continue
            stamp(node, indptr[q], indptr[q + 1], slot_of)
            visit(
                source, target, o_indptr, o_edge, o_other, out_indptr, out_edge, in_indptr, in_edge,
                node, indptr[q], indptr[q + 1], slot_of, either, edges, low,
            )  # fmt: skip
            edges[low:high].sort()
            for m in range(low, high):
                source_slot[m] = slot_of[source[edges[m]]]
                target_slot[m] = slot_of[target[edges[m]]]
            unstamp(node, indptr[q], indptr[q + 1], slot_of)
    return offsets, edges, source_slot, target_slot
