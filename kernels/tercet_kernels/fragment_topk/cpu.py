"""Numba form of `fragment_topk`, over oriented lists (both ends) or full lists (either end)."""

import numpy as np
from numba import njit, prange

from tercet_kernels._simd import prefetch
from tercet_kernels._slots import ONE, clear, enter, table_for
from tercet_kernels.effective.cpu import effective
from tercet_kernels.heap.cpu import pad, push, unheap

# Lists of the hits to come are fetched into the caches: a hit's list is short and lies anywhere, so a walk mostly waits
# for them. 100k nodes, 1M edges, 256 queries of 500 random hits, one thread: 7 to 9 ms, and 12 to 17 without. One pass
# over the lists that serves 64 queries a word of bits takes 8 to 9 there; it can win only with thousands of random hits
# (0.9 to 1.7 times as fast at 2000 to 5000), and takes twice the walk where as many are hubs.
OFFSET_AHEAD, LIST_AHEAD = 16, 8  # hits: the second needs what the first has fetched
LINE = 64  # bytes


@njit(nogil=True, cache=True)
def fetch_ahead(slot, high, node, o_indptr, o_other):
    """Fetch the offsets of the hit OFFSET_AHEAD places on, and two lines of the list of the one LIST_AHEAD on."""
    if slot + OFFSET_AHEAD >= high:
        return
    prefetch(o_indptr.ctypes.data + np.int64(node[slot + OFFSET_AHEAD]) * o_indptr.itemsize)
    u = node[slot + LIST_AHEAD]
    if u < o_indptr.size - 1:
        start = o_other.ctypes.data + o_indptr[u] * o_other.itemsize
        prefetch(start)
        prefetch(start + LINE)


@njit(nogil=True, cache=True)
def least_of(low, high, distance, penalty, floor):
    """What a relation of a query adds at least (-inf: not known)."""
    least = penalty
    for u in range(low, high):
        least = min(least, np.float64(distance[u]))
    return least * floor if floor >= 0.0 else -np.inf


@njit(nogil=True, cache=True)
def offer(
    e, both, near, near_slot, far_slot, source, key, r_place, r_factor, r_shift, r_key, r_distance, importance,
    feedback, influence, penalty, cliff, floor, scores, edges, slots, size,
):  # fmt: skip
    """Add an edge's own term to `both`, the sum of its ends' terms, and offer it to the heap.

    What is read of an edge is a cache miss each, so an edge is left as soon as it can't enter.
    """
    full = size == scores.size
    r, wanted = np.int32(-1), key[e]
    if wanted >= 0:
        at = (np.uint64(wanted) * r_factor) >> r_shift
        r = r_place[at]
        while r >= 0 and r_key[r] != wanted:
            at = (at + ONE) & np.uint64(r_place.size - 1)
            r = r_place[at]
    raw = np.float64(r_distance[r]) if r >= 0 else np.inf
    matched = np.isfinite(raw)
    if full and floor >= 0.0 and both + (min(raw, penalty) if matched else penalty) * floor > scores[0]:
        return size
    weight, good = importance[e if importance.size > 1 else 0], feedback[e if feedback.size > 1 else 0]
    score = both + effective(raw, matched, weight, good, influence, penalty, cliff)
    if full and score > scores[0]:
        return size
    forward = source[e] == near
    return push(
        scores, edges, slots, size, score, e, near_slot if forward else far_slot, far_slot if forward else near_slot, r
    )


@njit(nogil=True, cache=True, parallel=True)
def fragment_topk(
    lists, full, ends, hits, relations, rule, floor, missing, nearest_missing, either, num_keys, top, threads,
):  # fmt: skip
    """The best edges with both ends among a query's hits, from oriented lists, and then those with either end.

    The latter cost a hit at least its own term, that of the nearest unmatched node and the smallest that a relation can
    add: once that is over the k-th score, neither this hit's list nor that of a farther one is read.
    """
    source, target, key = ends
    o_indptr, o_edge, o_other = lists
    out_indptr, out_edge, in_indptr, in_edge = full
    indptr, node, term = hits
    r_indptr, r_key, r_distance = relations
    importance, feedback, influence, penalty, cliff = rule
    top_edge, top_score, top_slot, available = top
    queries, nodes = indptr.size - 1, o_indptr.size - 1
    places, factor, shift = table_for(indptr, nodes)
    r_places, r_factor, r_shift = table_for(r_indptr, num_keys)
    last = np.uint64(places - 1)
    for t in prange(threads):
        place = np.full(places, -1, np.int32)
        r_place = np.full(r_places, -1, np.int32)
        for q in range(t, queries, threads):
            low, high = indptr[q], indptr[q + 1]
            enter(low, high, node, nodes, place, factor, shift)
            enter(r_indptr[q], r_indptr[q + 1], r_key, num_keys, r_place, r_factor, r_shift)
            least = least_of(r_indptr[q], r_indptr[q + 1], r_distance, penalty, floor)
            scores, edges, slots = top_score[q], top_edge[q], top_slot[q]
            size = 0
            count = 0
            inside = low
            while inside < high and node[inside] < nodes:
                u = node[inside]
                if either:
                    count += out_indptr[u + 1] - out_indptr[u] + in_indptr[u + 1] - in_indptr[u]
                fetch_ahead(inside, high, node, o_indptr, o_other)
                for j in range(o_indptr[u], o_indptr[u + 1]):
                    w = o_other[j]
                    at = (np.uint64(w) * factor) >> shift
                    other = place[at]
                    while other >= 0 and node[other] != w:
                        at = (at + ONE) & last
                        other = place[at]
                    if other >= 0:
                        count += (
                            -1 if either else 1
                        )  # of either end it is in two lists, a self-loop in both of its node
                        # most edges end here, before anything of their own is read
                        both = term[inside] + term[other]
                        if size == scores.size and both + least > scores[0]:
                            continue
                        size = offer(
                            o_edge[j], both, u, inside, other, source, key, r_place, r_factor, r_shift, r_key,
                            r_distance, importance, feedback, influence, penalty, cliff, floor, scores, edges, slots,
                            size,
                        )  # fmt: skip
                inside += 1
            order = np.argsort(term[low : inside if either else low])
            for i in range(order.size):
                slot = low + order[i]
                u = node[slot]
                if size == scores.size and (term[slot] + nearest_missing) + least > scores[0]:
                    break
                for j in range(out_indptr[u], out_indptr[u + 1]):
                    w = target[out_edge[j]]
                    both = term[slot] + missing[w if missing.size > 1 else 0]
                    if size == scores.size and both + least > scores[0]:
                        continue
                    at = (np.uint64(w) * factor) >> shift
                    other = place[at]
                    while other >= 0 and node[other] != w:
                        at = (at + ONE) & last
                        other = place[at]
                    if other < 0:
                        size = offer(
                            out_edge[j], both, u, slot, -1, source, key, r_place, r_factor, r_shift, r_key,
                            r_distance, importance, feedback, influence, penalty, cliff, floor, scores, edges, slots,
                            size,
                        )  # fmt: skip
                for j in range(in_indptr[u], in_indptr[u + 1]):
                    w = source[in_edge[j]]
                    both = term[slot] + missing[w if missing.size > 1 else 0]
                    if size == scores.size and both + least > scores[0]:
                        continue
                    at = (np.uint64(w) * factor) >> shift
                    other = place[at]
                    while other >= 0 and node[other] != w:
                        at = (at + ONE) & last
                        other = place[at]
                    if other < 0:
                        size = offer(
                            in_edge[j], both, u, slot, -1, source, key, r_place, r_factor, r_shift, r_key,
                            r_distance, importance, feedback, influence, penalty, cliff, floor, scores, edges, slots,
                            size,
                        )  # fmt: skip
            available[q] = count
            unheap(scores, edges, slots, size)
            pad(scores, edges, slots, size)
            clear(low, high, node, nodes, place, factor, shift)
            clear(r_indptr[q], r_indptr[q + 1], r_key, num_keys, r_place, r_factor, r_shift)
