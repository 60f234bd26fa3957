"""Numba form of `rank_fusion`: the entries of a query as keys of node, half and rank, sorted."""

import numpy as np
from numba import njit, prange

HALF, RANK = 27, (1 << 27) - 1


@njit(nogil=True, cache=True)
def fuse(offsets, flat, weights, rrf_k, q, packed, node, score, ranks):
    """The distinct nodes of one query, ascending, with score and ranks; returns how many."""
    count = 0
    for h in range(offsets.shape[0]):
        first = offsets[h, q]
        for i in range(first, offsets[h, q + 1]):
            packed[count] = (np.int64(flat[i]) << 32) | (np.int64(h) << HALF) | np.int64(i - first + 1)
            count += 1
    packed[:count].sort()
    found = 0
    i = 0
    while i < count:
        v = packed[i] >> 32
        total = 0.0
        counts = False
        ranks[found, :] = 0
        while i < count and packed[i] >> 32 == v:
            h = (packed[i] & 0xFFFFFFFF) >> HALF
            rank = packed[i] & RANK
            if ranks[found, h] == 0:  # the best rank of a half comes first
                ranks[found, h] = rank
                if weights[h] > 0:
                    total += weights[h] / (rrf_k + rank)
                    counts = True
            i += 1
        if counts:
            node[found] = v
            score[found] = total
            found += 1
    return found


@njit(nogil=True, cache=True, parallel=True)
def rank_fusion(offsets, flat, weights, rrf_k, limit, threads):
    queries = limit.size
    halves = offsets.shape[0]
    room = np.zeros(queries + 1, np.int64)
    longest = np.int64(0)
    for q in range(queries):
        entries = np.int64(0)
        for h in range(halves):
            entries += offsets[h, q + 1] - offsets[h, q]
        longest = max(longest, entries)
        room[q + 1] = room[q] + min(entries, max(limit[q], 0))
    wide_node = np.empty(room[-1], np.int32)
    wide_score = np.empty(room[-1], np.float64)
    wide_ranks = np.empty((room[-1], halves), np.int32)
    counts = np.zeros(queries, np.int64)
    available = np.zeros(queries, np.int64)
    for t in prange(threads):
        packed = np.empty(longest, np.int64)
        node = np.empty(longest, np.int32)
        score = np.empty(longest, np.float64)
        ranks = np.empty((longest, halves), np.int32)
        for q in range(np.int64(t), queries, threads):
            found = fuse(offsets, flat, weights, rrf_k, q, packed, node, score, ranks)
            available[q] = found
            counts[q] = min(found, max(limit[q], 0))
            order = np.argsort(-score[:found], kind="mergesort")  # nodes ascend, so ties go to the smaller one
            for i in range(counts[q]):
                wide_node[room[q] + i] = node[order[i]]
                wide_score[room[q] + i] = score[order[i]]
                for h in range(halves):
                    wide_ranks[room[q] + i, h] = ranks[order[i], h]
    indptr = np.zeros(queries + 1, np.int64)
    indptr[1:] = np.cumsum(counts)
    out_node = np.empty(indptr[-1], np.int32)
    out_score = np.empty(indptr[-1], np.float64)
    out_ranks = np.empty((indptr[-1], halves), np.int32)
    for q in range(queries):
        for i in range(counts[q]):
            out_node[indptr[q] + i] = wide_node[room[q] + i]
            out_score[indptr[q] + i] = wide_score[room[q] + i]
            for h in range(halves):
                out_ranks[indptr[q] + i, h] = wide_ranks[room[q] + i, h]
    return indptr, out_node, out_score, out_ranks, available
