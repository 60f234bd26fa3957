"""Numba form of `fragment_topk`, over oriented lists (both ends) or full lists (either end)."""

import numpy as np
from numba import njit, prange

from tercet_kernels.effective.cpu import effective
from tercet_kernels.fragment.cpu import stamp, unstamp
from tercet_kernels.heap.cpu import pad, push, unheap


@njit(nogil=True, cache=True)
def offer(
    e, source, target, key, slot_of, relation_slot, term, missing, r_distance, importance, feedback,
    influence, penalty, cliff, scores, edges, slots, size,
):  # fmt: skip
    s, d = slot_of[source[e]], slot_of[target[e]]
    a = term[s] if s >= 0 else missing[source[e]]
    b = term[d] if d >= 0 else missing[target[e]]
    r = relation_slot[key[e]] if key[e] >= 0 else np.int32(-1)
    raw = np.float64(r_distance[r]) if r >= 0 else np.inf
    c = effective(raw, np.isfinite(raw), importance[e], feedback[e], influence, penalty, cliff)
    return push(scores, edges, slots, size, (a + b) + c, e, s, d, r)


@njit(nogil=True, cache=True, parallel=True)
def fragment_topk(
    source, target, key, o_indptr, o_edge, o_other, out_indptr, out_edge, in_indptr, in_edge, indptr, node, term,
    missing, r_indptr, r_key, r_distance, importance, feedback, num_keys, influence, penalty, cliff, either,
    top_edge, top_score, top_slot, available,
    threads,
):  # fmt: skip
    queries = indptr.size - 1
    nodes = out_indptr.size - 1
    for t in prange(threads):
        slot_of = np.full(nodes, -1, np.int32)
        relation_slot = np.full(num_keys, -1, np.int32)
        for q in range(t, queries, threads):
            low, high = indptr[q], indptr[q + 1]
            stamp(node, low, high, slot_of)
            for u in range(r_indptr[q], r_indptr[q + 1]):
                relation_slot[r_key[u]] = u
            scores, edges, slots = top_score[q], top_edge[q], top_slot[q]
            size = 0
            count = 0
            for slot in range(low, high):
                u = node[slot]
                if u >= nodes:
                    break
                if either:
                    for j in range(out_indptr[u], out_indptr[u + 1]):
                        count += 1
                        size = offer(
                            out_edge[j], source, target, key, slot_of, relation_slot, term, missing, r_distance,
                            importance, feedback, influence, penalty, cliff, scores, edges, slots, size,
                        )  # fmt: skip
                    for j in range(in_indptr[u], in_indptr[u + 1]):
                        if slot_of[source[in_edge[j]]] < 0:
                            count += 1
                            size = offer(
                                in_edge[j], source, target, key, slot_of, relation_slot, term, missing, r_distance,
                                importance, feedback, influence, penalty, cliff, scores, edges, slots, size,
                            )  # fmt: skip
                else:
                    for j in range(o_indptr[u], o_indptr[u + 1]):
                        if slot_of[o_other[j]] >= 0:
                            count += 1
                            size = offer(
                                o_edge[j], source, target, key, slot_of, relation_slot, term, missing, r_distance,
                                importance, feedback, influence, penalty, cliff, scores, edges, slots, size,
                            )  # fmt: skip
            available[q] = count
            unheap(scores, edges, slots, size)
            pad(scores, edges, slots, size)
            unstamp(node, low, high, slot_of)
            for u in range(r_indptr[q], r_indptr[q + 1]):
                relation_slot[r_key[u]] = -1
