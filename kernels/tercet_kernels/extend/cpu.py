"""Numba form of `extend`: walk, rank and append in one pass a query."""

import numpy as np
from numba import njit, prange

from tercet_kernels.cosine.cpu import LANES, dot
from tercet_kernels.neighbors.cpu import clear, reach

EDGE, RANK, NODE, DISTANCE = 0, 1, 2, 3


@njit(nogil=True, cache=True)
def measure(found, count, query, vectors, node_row, distance, lanes):
    """Distances of what was found, +inf for a node without a vector."""
    for i in range(count):
        row = found[i]
        if node_row.size > 0:
            row = node_row[row]
        if row < 0:
            distance[i] = np.inf
        else:
            product = dot(query, vectors[row], lanes)
            distance[i] = np.float32(min(max(1.0 - product, 0.0), 2.0))


@njit(nogil=True, cache=True)
def arrange(found, by, count, keep, rank, bits, order, packed, out, start):
    """Write the best `keep` nodes of what was found, in order."""
    for i in range(count):
        key = np.int64(0)
        if order == EDGE:
            key = np.int64(by[i])
        elif order == RANK:
            key = np.int64(rank[by[i]])
        elif order == DISTANCE:
            key = np.int64(bits[i])  # of floats that aren't negative: they order as their values do
        packed[i] = (key << 32) | np.int64(found[i])
    kept = packed[:count]
    if keep < count:
        kept = np.partition(kept, keep)[:keep] if keep > 0 else kept[:0]
    kept.sort()
    for i in range(keep):
        out[start + i] = np.int32(kept[i] & 0xFFFFFFFF)


@njit(nogil=True, cache=True)
def append(indptr, node, hop, wide, offsets, taken, available, level):
    """The new nodes behind the old ones; not parallel, where each copy would wake all threads."""
    queries = indptr.size - 1
    bounds = np.zeros(queries + 1, np.int64)
    for q in range(queries):
        bounds[q + 1] = bounds[q] + indptr[q + 1] - indptr[q] + taken[q]
    nodes = np.empty(bounds[-1], np.int32)
    hops = np.empty(bounds[-1], np.int32)
    frontier = np.empty(queries, np.int64)
    for q in range(queries):
        old = indptr[q + 1] - indptr[q]
        first = bounds[q]
        nodes[first : first + old] = node[indptr[q] : indptr[q + 1]]
        hops[first : first + old] = hop[indptr[q] : indptr[q + 1]]
        nodes[first + old : bounds[q + 1]] = wide[offsets[q] : offsets[q] + taken[q]]
        hops[first + old : bounds[q + 1]] = level
        frontier[q] = bounds[q + 1] if available[q] > taken[q] else first + old
    return bounds, nodes, hops, frontier, available, taken


@njit(nogil=True, cache=True, parallel=True)
def extend(graph, held, given, near, ways, order, room, level, threads):
    indptr, node, hop, begin = held
    rank, relation, walkable, allowed, allowed_row, limit = given
    vectors_of_queries, vectors, node_row = near
    outward, inward = ways
    queries = indptr.size - 1
    size = graph[2].size - 1
    offsets = np.zeros(queries + 1, np.int64)
    for q in range(queries):
        offsets[q + 1] = offsets[q] + room[q]
    wide = np.empty(offsets[-1], np.int32)
    taken = np.zeros(queries, np.int64)
    available = np.zeros(queries, np.int64)
    for t in prange(threads):
        place = np.zeros(size, np.int32)  # 1 + where a node stands in `found`
        found = np.empty(size, np.int32)
        by = np.empty(size, np.int32)
        distance = np.empty(size, np.float32)
        bits = distance.view(np.int32)
        packed = np.empty(size, np.int64)
        lanes = np.empty(LANES, np.float64)
        for q in range(np.int64(t), queries, threads):
            if begin[q] == indptr[q + 1]:
                continue
            count = reach(
                graph, indptr, node, begin, q, relation, walkable, allowed, allowed_row, outward, inward, rank, order,
                place, found, by,
            )  # fmt: skip
            available[q] = count
            taken[q] = min(count, max(limit[q], 0)) if limit.size > 0 else count
            if order == DISTANCE and taken[q] > 0:
                measure(found, count, vectors_of_queries[q], vectors, node_row, distance, lanes)
            arrange(found, by, count, taken[q], rank, bits, order, packed, wide, offsets[q])
            clear(indptr, node, q, place, found, count)
    return append(indptr, node, hop, wide, offsets, taken, available, level)
