"""Numba form of `triplet_topk`: one pass over each query's fragment with a bounded heap."""

import numpy as np
from numba import njit, prange

from tercet_kernels.effective.cpu import effective
from tercet_kernels.heap.cpu import pad, push, unheap


@njit(nogil=True, cache=True, parallel=True)
def triplet_topk(
    source, target, key, indptr, edge, source_slot, target_slot, term, missing, r_indptr, r_key, r_distance,
    importance, feedback, num_keys, influence, penalty, cliff, top_edge, top_score, top_slot, available,
    threads,
):  # fmt: skip
    queries = indptr.size - 1
    for t in prange(threads):
        relation_slot = np.full(num_keys, -1, np.int32)
        for q in range(t, queries, threads):
            for u in range(r_indptr[q], r_indptr[q + 1]):
                relation_slot[r_key[u]] = u
            size = 0
            for m in range(indptr[q], indptr[q + 1]):
                e = edge[m]
                s, d = source_slot[m], target_slot[m]
                a = term[s] if s >= 0 else missing[source[e] if missing.size > 1 else 0]
                b = term[d] if d >= 0 else missing[target[e] if missing.size > 1 else 0]
                r = relation_slot[key[e]] if key[e] >= 0 else np.int32(-1)
                raw = np.float64(r_distance[r]) if r >= 0 else np.inf
                weight, good = importance[e if importance.size > 1 else 0], feedback[e if feedback.size > 1 else 0]
                c = effective(raw, np.isfinite(raw), weight, good, influence, penalty, cliff)
                size = push(top_score[q], top_edge[q], top_slot[q], size, (a + b) + c, e, s, d, r)
            unheap(top_score[q], top_edge[q], top_slot[q], size)
            pad(top_score[q], top_edge[q], top_slot[q], size)
            available[q] = indptr[q + 1] - indptr[q]
            for u in range(r_indptr[q], r_indptr[q + 1]):
                relation_slot[r_key[u]] = -1
