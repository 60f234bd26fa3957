"""Numba form of `fragment_topk`, over oriented lists (both ends) or full lists (either end)."""

import numpy as np
from numba import njit, prange

from tercet_kernels.effective.cpu import effective
from tercet_kernels.fragment.cpu import stamp, unstamp
from tercet_kernels.heap.cpu import pad, push, unheap


@njit(nogil=True, cache=True)
def offer(
    e, source, target, key, slot_of, relation_slot, term, missing, r_distance, importance, feedback,
    influence, penalty, cliff, scores, edges, slots, size, least,
):  # fmt: skip
    """Score an edge and offer it to the heap; `least` is what its relation adds at least."""
    s, d = slot_of[source[e]], slot_of[target[e]]
    a = term[s] if s >= 0 else missing[source[e]]
    b = term[d] if d >= 0 else missing[target[e]]
    if size == scores.size and (a + b) + least > scores[0]:
        return size
    r = relation_slot[key[e]] if key[e] >= 0 else np.int32(-1)
    raw = np.float64(r_distance[r]) if r >= 0 else np.inf
    c = effective(raw, np.isfinite(raw), importance[e], feedback[e], influence, penalty, cliff)
    return push(scores, edges, slots, size, (a + b) + c, e, s, d, r)


@njit(nogil=True, cache=True)
def enter(low, high, key, distance, slot_of, penalty, floor):
    """Note the slots of a query's relation keys; returns what a relation adds at least (-inf: not known)."""
    least = penalty
    for u in range(low, high):
        slot_of[key[u]] = u
        least = min(least, np.float64(distance[u]))
    return least * floor if floor >= 0.0 else -np.inf


@njit(nogil=True, cache=True, parallel=True)
def induced_topk(lists, ends, hits, relations, rule, floor, missing, num_keys, top, threads):
    """The best edges with both ends among a query's hits, from oriented lists."""
    source, target, key = ends
    o_indptr, o_edge, o_other = lists
    indptr, node, term = hits
    r_indptr, r_key, r_distance = relations
    importance, feedback, influence, penalty, cliff = rule
    top_edge, top_score, top_slot, available = top
    queries, nodes = indptr.size - 1, o_indptr.size - 1
    for t in prange(threads):
        slot_of = np.full(nodes, -1, np.int32)
        relation_slot = np.full(num_keys, -1, np.int32)
        for q in range(t, queries, threads):
            low, high = indptr[q], indptr[q + 1]
            stamp(node, low, high, slot_of)
            least = enter(r_indptr[q], r_indptr[q + 1], r_key, r_distance, relation_slot, penalty, floor)
            scores, edges, slots = top_score[q], top_edge[q], top_slot[q]
            size = 0
            count = 0
            for slot in range(low, high):
                u = node[slot]
                if u >= nodes:
                    break
                for j in range(o_indptr[u], o_indptr[u + 1]):
                    other = slot_of[o_other[j]]
                    if other >= 0:
                        count += 1
                        # most edges end here, before anything of their own is read
                        if size == scores.size and (term[slot] + term[other]) + least > scores[0]:
                            continue
                        size = offer(
                            o_edge[j], source, target, key, slot_of, relation_slot, term, missing, r_distance,
                            importance, feedback, influence, penalty, cliff, scores, edges, slots, size,
                            least,
                        )  # fmt: skip
            available[q] = count
            unheap(scores, edges, slots, size)
            pad(scores, edges, slots, size)
            unstamp(node, low, high, slot_of)
            for u in range(r_indptr[q], r_indptr[q + 1]):
                relation_slot[r_key[u]] = -1


@njit(nogil=True, cache=True, parallel=True)
def incident_topk(lists, full, ends, hits, relations, rule, floor, missing, nearest_missing, num_keys, top, threads):
    """The best edges with either end among a query's hits.

    Edges with both ends come first, from oriented lists. The others of a hit cost at least its own term, that of the
    nearest unmatched node and the smallest that a relation can add: once that is over the k-th score, neither this
    hit's list nor that of a farther one is read.
    """
    source, target, key = ends
    o_indptr, o_edge, o_other = lists
    out_indptr, out_edge, in_indptr, in_edge = full
    indptr, node, term = hits
    r_indptr, r_key, r_distance = relations
    importance, feedback, influence, penalty, cliff = rule
    top_edge, top_score, top_slot, available = top
    queries, nodes = indptr.size - 1, o_indptr.size - 1
    for t in prange(threads):
        slot_of = np.full(nodes, -1, np.int32)
        relation_slot = np.full(num_keys, -1, np.int32)
        for q in range(t, queries, threads):
            low, high = indptr[q], indptr[q + 1]
            stamp(node, low, high, slot_of)
            least = enter(r_indptr[q], r_indptr[q + 1], r_key, r_distance, relation_slot, penalty, floor)
            scores, edges, slots = top_score[q], top_edge[q], top_slot[q]
            size = 0
            count = 0
            inside = low
            while inside < high and node[inside] < nodes:
                u = node[inside]
                count += out_indptr[u + 1] - out_indptr[u] + in_indptr[u + 1] - in_indptr[u]
                for j in range(o_indptr[u], o_indptr[u + 1]):
                    other = slot_of[o_other[j]]
                    if other >= 0:
                        count -= 1  # it is in two lists, a self-loop in both of its node
                        if size == scores.size and (term[inside] + term[other]) + least > scores[0]:
                            continue
                        size = offer(
                            o_edge[j], source, target, key, slot_of, relation_slot, term, missing, r_distance,
                            importance, feedback, influence, penalty, cliff, scores, edges, slots, size,
                            least,
                        )  # fmt: skip
                inside += 1
            order = np.argsort(term[low:inside])
            for i in range(inside - low):
                slot = low + order[i]
                u = node[slot]
                if size == scores.size and (term[slot] + nearest_missing) + least > scores[0]:
                    break
                for j in range(out_indptr[u], out_indptr[u + 1]):
                    w = target[out_edge[j]]
                    if slot_of[w] < 0 and (size < scores.size or not (term[slot] + missing[w]) + least > scores[0]):
                        size = offer(
                            out_edge[j], source, target, key, slot_of, relation_slot, term, missing, r_distance,
                            importance, feedback, influence, penalty, cliff, scores, edges, slots, size,
                            least,
                        )  # fmt: skip
                for j in range(in_indptr[u], in_indptr[u + 1]):
                    w = source[in_edge[j]]
                    if slot_of[w] < 0 and (size < scores.size or not (term[slot] + missing[w]) + least > scores[0]):
                        size = offer(
                            in_edge[j], source, target, key, slot_of, relation_slot, term, missing, r_distance,
                            importance, feedback, influence, penalty, cliff, scores, edges, slots, size,
                            least,
                        )  # fmt: skip
            available[q] = count
            unheap(scores, edges, slots, size)
            pad(scores, edges, slots, size)
            unstamp(node, low, high, slot_of)
            for u in range(r_indptr[q], r_indptr[q + 1]):
                relation_slot[r_key[u]] = -1
