"""Numba form of `routes`: breadth first from both ends, then all ways back from the end, edge by edge."""

import numpy as np
from numba import njit, prange


def joined(parts: list[np.ndarray], dtype: str) -> np.ndarray:
    """The results of several groups one after another."""
    return np.concatenate(parts) if parts else np.zeros(0, dtype)


@njit(nogil=True, cache=True)
def open_way(e, relation, walkable):
    return walkable.size == 0 or walkable[relation[e]]  # -1, no label, is the last entry


@njit(nogil=True, cache=True)
def work(queue, low, high, out_indptr, in_indptr, outward, inward):
    """Entries of the lists of a frontier."""
    total = np.int64(0)
    for i in range(low, high):
        u = queue[i]
        if outward:
            total += out_indptr[u + 1] - out_indptr[u]
        if inward:
            total += in_indptr[u + 1] - in_indptr[u]
    return total


@njit(nogil=True, cache=True)
def enter(edges, far, low, high, relation, walkable, seen, depth, mark, level, queue, end):
    """Take the far ends of one list into a side's next level; returns the queue's new end."""
    for j in range(low, high):
        e = edges[j]
        v = far[e]
        if seen[v] != mark and open_way(e, relation, walkable):
            seen[v] = mark
            depth[v] = level
            queue[end] = v
            end += 1
    return end


@njit(nogil=True, cache=True)
def grow(graph, relation, walkable, outward, inward, seen, depth, mark, level, queue, low, high):
    """One more level of one side; returns the queue's new end."""
    source, target, out_indptr, out_edge, in_indptr, in_edge = graph
    end = high
    for i in range(low, high):
        u = queue[i]
        if outward:
            end = enter(out_edge, target, out_indptr[u], out_indptr[u + 1], relation, walkable, seen, depth, mark,
                        level, queue, end)  # fmt: skip
        if inward:
            end = enter(in_edge, source, in_indptr[u], in_indptr[u + 1], relation, walkable, seen, depth, mark,
                        level, queue, end)  # fmt: skip
    return end


@njit(nogil=True, cache=True)
def meet(graph, relation, walkable, outward, inward, s, e, max_hops, near, far, mark):
    """Grow both sides until they meet.

    Returns (levels of the start's side, of the end's side, queue bounds of the end's last level), -1 for no route.
    """
    seen_s, depth_s, queue_s = near
    seen_e, depth_e, queue_e = far
    out_indptr, in_indptr = graph[2], graph[4]
    seen_s[s], depth_s[s], queue_s[0] = mark, 0, s
    seen_e[e], depth_e[e], queue_e[0] = mark, 0, e
    low_s, high_s, low_e, high_e = np.int64(0), np.int64(1), np.int64(0), np.int64(1)
    levels_s, levels_e = 0, 0
    while levels_s + levels_e < max_hops and low_s < high_s and low_e < high_e:
        forward = work(queue_s, low_s, high_s, out_indptr, in_indptr, outward, inward)
        backward = work(queue_e, low_e, high_e, out_indptr, in_indptr, inward, outward)
        met = False
        if forward <= backward:
            levels_s += 1
            new = grow(graph, relation, walkable, outward, inward, seen_s, depth_s, mark, levels_s, queue_s, low_s,
                       high_s)  # fmt: skip
            low_s, high_s = high_s, new
            for i in range(low_s, high_s):
                met = met or seen_e[queue_s[i]] == mark
        else:
            levels_e += 1
            new = grow(graph, relation, walkable, inward, outward, seen_e, depth_e, mark, levels_e, queue_e, low_e,
                       high_e)  # fmt: skip
            low_e, high_e = high_e, new
            for i in range(low_e, high_e):
                met = met or seen_s[queue_e[i]] == mark
        if met:
            return levels_s, levels_e, low_e, high_e
    return -1, -1, low_e, high_e


@njit(nogil=True, cache=True)
def on_a_route(graph, relation, walkable, outward, inward, near, far, mark, levels_s, levels_e, low_e, high_e, good,
               queue):  # fmt: skip
    """Mark the nodes of the end's side, its outermost level included, that lie on a shortest route."""
    seen_s, depth_s = near[0], near[1]
    seen_e, depth_e, queue_e = far
    source, target, out_indptr, out_edge, in_indptr, in_edge = graph
    end = 0
    for i in range(low_e, high_e):
        v = queue_e[i]
        if seen_s[v] == mark and depth_s[v] == levels_s:
            good[v] = mark
            queue[end] = v
            end += 1
    low = 0
    for level in range(levels_e - 1, 0, -1):
        high = end
        for i in range(low, high):
            u = queue[i]
            if outward:
                for j in range(out_indptr[u], out_indptr[u + 1]):
                    v = target[out_edge[j]]
                    if (seen_e[v] == mark and depth_e[v] == level and good[v] != mark
                            and open_way(out_edge[j], relation, walkable)):  # fmt: skip
                        good[v] = mark
                        queue[end] = v
                        end += 1
            if inward:
                for j in range(in_indptr[u], in_indptr[u + 1]):
                    v = source[in_edge[j]]
                    if (seen_e[v] == mark and depth_e[v] == level and good[v] != mark
                            and open_way(in_edge[j], relation, walkable)):  # fmt: skip
                        good[v] = mark
                        queue[end] = v
                        end += 1
        low = high


@njit(nogil=True, cache=True)
def before(edges, end_of, low, high, relation, walkable, side, wanted, mark, good, needs_good, where, stack, base,
           top):  # fmt: skip
    """Put the nodes of one list that can stand before a node on the stack, each with its smallest edge."""
    seen, depth = side[0], side[1]
    for j in range(low, high):
        e = edges[j]
        u = end_of[e]
        if seen[u] != mark or depth[u] != wanted or (needs_good and good[u] != mark):
            continue
        if not open_way(e, relation, walkable):
            continue
        at = where[u]
        if base <= at < top and np.int32(stack[at] & 0xFFFFFFFF) == u:
            stack[at] = min(stack[at], (np.int64(e) << 32) | np.int64(u))
        else:
            where[u] = top
            stack[top] = (np.int64(e) << 32) | np.int64(u)
            top += 1
    return top


@njit(nogil=True, cache=True)
def ways_back(graph, relation, walkable, outward, inward, near, far, mark, levels_s, hops, e, good, where, stack,
              cursor, path, limit, out, start):  # fmt: skip
    """Write up to `limit` routes from `start` on; returns how many there are, one more than the limit if cut."""
    source, target, out_indptr, out_edge, in_indptr, in_edge = graph
    count = 0
    level = hops  # of the node whose predecessors are on top of the stack
    top = np.int64(0)
    node = e
    path[hops] = e
    while True:
        # list what can stand before `node`, which has `level` hops from the start
        base = top
        behind = level - 1
        late = behind > levels_s  # known from the end's side only
        meeting = behind == levels_s and hops > levels_s
        side = far if late else near
        wanted = hops - behind if late else behind
        if inward:
            top = before(out_edge, target, out_indptr[node], out_indptr[node + 1], relation, walkable, side, wanted,
                         mark, good, late or meeting, where, stack, base, top)  # fmt: skip
        if outward:
            top = before(in_edge, source, in_indptr[node], in_indptr[node + 1], relation, walkable, side, wanted,
                         mark, good, late or meeting, where, stack, base, top)  # fmt: skip
        stack[base:top].sort()
        cursor[behind, 0], cursor[behind, 1] = base, top
        level = behind
        while True:
            at, stop = cursor[level, 0], cursor[level, 1]
            if at < stop and level > 0:
                node = np.int32(stack[at] & 0xFFFFFFFF)
                cursor[level, 0] = at + 1
                top = stop
                path[level] = node
                break
            if at < stop:  # the start: a whole route
                if count == limit:
                    return count + 1
                cursor[level, 0] = at + 1
                path[0] = np.int32(stack[at] & 0xFFFFFFFF)
                for i in range(hops + 1):
                    out[start + count * (hops + 1) + i] = path[i]
                count += 1
                continue
            level += 1
            if level == hops:
                return count


@njit(nogil=True, cache=True)
def compact(wide, room, hops, counts):
    """The routes without the gaps between pairs; not parallel, where each copy would wake all threads."""
    pairs = counts.size
    total = np.int64(0)
    for i in range(pairs):
        total += counts[i] * (hops[i] + 1)
    node = np.empty(total, np.int32)
    end = np.int64(0)
    for i in range(pairs):
        length = counts[i] * (hops[i] + 1)
        node[end : end + length] = wide[i * room : i * room + length]
        end += length
    return node


@njit(nogil=True, cache=True, parallel=True)
def routes(
    source, target, out_indptr, out_edge, in_indptr, in_edge, starts, ends, relation, walkable, max_hops, outward,
    inward, limit, first, last, threads,
):  # fmt: skip
    """The pairs from `first` to `last`: hops, numbers of routes, their nodes, whether there were more."""
    pairs = last - first
    size = out_indptr.size - 1
    hops = np.full(pairs, -1, np.int32)
    counts = np.zeros(pairs, np.int64)
    truncated = np.zeros(pairs, np.bool_)
    room = limit * (max_hops + 1)
    wide = np.empty(pairs * room, np.int32)
    for t in prange(threads):
        graph = (source, target, out_indptr, out_edge, in_indptr, in_edge)
        near = (np.zeros(size, np.int32), np.empty(size, np.int32), np.empty(size, np.int32))
        far = (np.zeros(size, np.int32), np.empty(size, np.int32), np.empty(size, np.int32))
        good = np.zeros(size, np.int32)
        where = np.empty(size, np.int64)
        stack = np.empty(size + 1, np.int64)
        queue = np.empty(size, np.int32)
        cursor = np.zeros((max_hops + 1, 2), np.int64)
        path = np.empty(max_hops + 1, np.int32)
        for i in range(np.int64(t), pairs, threads):
            s, e = starts[first + i], ends[first + i]
            if s == e:
                hops[i] = 0
                continue
            mark = np.int32(i + 1)
            levels_s, levels_e, low, high = meet(
                graph, relation, walkable, outward, inward, s, e, max_hops, near, far, mark
            )
            if levels_s < 0:
                continue
            hops[i] = levels_s + levels_e
            on_a_route(graph, relation, walkable, outward, inward, near, far, mark, levels_s, levels_e, low, high,
                       good, queue)  # fmt: skip
            got = ways_back(graph, relation, walkable, outward, inward, near, far, mark, levels_s, hops[i], e, good,
                            where, stack, cursor, path, limit, wide, i * room)  # fmt: skip
            counts[i] = min(got, limit)
            truncated[i] = got > limit
    return hops, counts, compact(wide, room, hops, counts), truncated
