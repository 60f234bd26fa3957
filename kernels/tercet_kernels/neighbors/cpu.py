"""Numba form of `neighbors`: a place a node, one walk of the frontier's lists, one sort of what was found."""

from collections.abc import Iterator

import numpy as np
from numba import njit, prange

SELECTED = -1


@njit(nogil=True, cache=True)
def rooms(out_indptr, in_indptr, indptr, node, begin, limit, outward, inward, size):
    """(B,) entries of the frontier's lists, and how many nodes can come of them at most."""
    queries = begin.size
    steps = np.zeros(queries, np.int64)
    room = np.zeros(queries, np.int64)
    for q in range(queries):
        for i in range(begin[q], indptr[q + 1]):
            u = node[i]
            if u >= size:
                continue
            if outward:
                steps[q] += out_indptr[u + 1] - out_indptr[u]
            if inward:
                steps[q] += in_indptr[u + 1] - in_indptr[u]
        room[q] = min(steps[q], size)
        if limit.size > 0:
            room[q] = max(min(room[q], limit[q]), 0)
    return steps, room


def groups(room: np.ndarray, most: int) -> Iterator[tuple[int, int]]:
    """Runs of queries whose rooms together stay within `most`; a query alone where its own is larger."""
    ends = np.cumsum(room)
    low = 0
    while low < len(room):
        before = ends[low - 1] if low else 0
        high = max(int(np.searchsorted(ends, before + most, side="right")), low + 1)
        yield low, high
        low = high


def joined(parts: list[np.ndarray]) -> np.ndarray:
    """The results of several groups one after another."""
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)


@njit(nogil=True, cache=True)
def better(e, old, rank, order):
    """Whether an edge is to be kept instead of another one."""
    if order == 1 and rank[e] != rank[old]:
        return rank[e] < rank[old]
    return e < old


@njit(nogil=True, cache=True)
def walk(edges, far, low, high, relation, walkable, allowed, row, place, found, by, count, rank, order):
    """Enter the far ends of one list; returns how many nodes were found so far."""
    for j in range(low, high):
        e = edges[j]
        v = far[e]
        p = place[v]
        if p == SELECTED:
            continue
        if walkable.size > 0 and not walkable[relation[e]]:  # -1, no label, is the last entry
            continue
        if p > 0:
            if better(e, by[p - 1], rank, order):
                by[p - 1] = e
            continue
        if row >= 0 and not allowed[row, v]:
            continue
        found[count] = v
        by[count] = e
        count += 1
        place[v] = count
    return count


@njit(nogil=True, cache=True)
def reach(
    graph, indptr, node, begin, q, relation, walkable, allowed, allowed_row, outward, inward, rank, order, place, found,
    by,
):  # fmt: skip
    """Find what the frontier of one query leads to; returns how many nodes. `place` is for `clear` afterwards."""
    source, target, out_indptr, out_edge, in_indptr, in_edge = graph
    size = place.size
    for s in range(indptr[q], indptr[q + 1]):
        if node[s] < size:
            place[node[s]] = SELECTED
    row = allowed_row[q] if allowed_row.size > 0 else np.int32(-1)
    count = np.int64(0)
    for s in range(begin[q], indptr[q + 1]):
        u = node[s]
        if u >= size:
            continue
        if outward:
            count = walk(out_edge, target, out_indptr[u], out_indptr[u + 1], relation, walkable, allowed, row, place,
                         found, by, count, rank, order)  # fmt: skip
        if inward:
            count = walk(in_edge, source, in_indptr[u], in_indptr[u + 1], relation, walkable, allowed, row, place,
                         found, by, count, rank, order)  # fmt: skip
    return count


@njit(nogil=True, cache=True)
def clear(indptr, node, q, place, found, count):
    """Make `place` zeros again."""
    for s in range(indptr[q], indptr[q + 1]):
        if node[s] < place.size:
            place[node[s]] = 0
    for j in range(count):
        place[found[j]] = 0


@njit(nogil=True, cache=True)
def arrange(found, by, count, keep, rank, order, packed, place, node, edge, start):
    """Write the best `keep` of what was found, in order."""
    for i in range(count):
        key = np.int64(0)
        if order == 0:
            key = np.int64(by[i])
        elif order == 1:
            key = np.int64(rank[by[i]])
        packed[i] = (key << 32) | np.int64(found[i])
    kept = packed[:count]
    if keep < count:
        kept = np.partition(kept, keep)[:keep] if keep > 0 else kept[:0]
    kept.sort()
    for i in range(keep):
        v = np.int32(kept[i] & 0xFFFFFFFF)
        node[start + i] = v
        edge[start + i] = by[place[v] - 1]


@njit(nogil=True, cache=True)
def compact(wide_node, wide_edge, offsets, counts):
    """What was written into rooms, without the gaps; not parallel, where each copy would wake all threads."""
    total = counts.sum()
    nodes = np.empty(total, np.int32)
    edges = np.empty(total, np.int32)
    end = 0
    for i in range(counts.size):
        nodes[end : end + counts[i]] = wide_node[offsets[i] : offsets[i] + counts[i]]
        edges[end : end + counts[i]] = wide_edge[offsets[i] : offsets[i] + counts[i]]
        end += counts[i]
    return nodes, edges


@njit(nogil=True, cache=True, parallel=True)
def neighbors(
    source, target, out_indptr, out_edge, in_indptr, in_edge, indptr, node, begin, rank, relation, walkable, allowed,
    allowed_row, limit, outward, inward, order, room, first, last, threads,
):  # fmt: skip
    """The level of the queries from `first` to `last`: counts, nodes, edges, available."""
    queries = last - first
    size = out_indptr.size - 1
    offsets = np.zeros(queries + 1, np.int64)
    offsets[1:] = np.cumsum(room[first:last])
    wide_node = np.empty(offsets[-1], np.int32)
    wide_edge = np.empty(offsets[-1], np.int32)
    counts = np.zeros(queries, np.int64)
    available = np.zeros(queries, np.int64)
    for t in prange(threads):
        place = np.zeros(size, np.int32)  # 1 + where a node stands in `found`
        found = np.empty(size, np.int32)
        by = np.empty(size, np.int32)
        packed = np.empty(size, np.int64)
        for i in range(np.int64(t), queries, threads):
            q = first + i
            count = reach(
                (source, target, out_indptr, out_edge, in_indptr, in_edge), indptr, node, begin, q, relation, walkable,
                allowed, allowed_row, outward, inward, rank, order, place, found, by,
            )  # fmt: skip
            available[i] = count
            counts[i] = min(count, max(limit[q], 0)) if limit.size > 0 else count
            arrange(found, by, count, counts[i], rank, order, packed, place, wide_node, wide_edge, offsets[i])
            clear(indptr, node, q, place, found, count)
    nodes, edges = compact(wide_node, wide_edge, offsets, counts)
    return counts, nodes, edges, available
