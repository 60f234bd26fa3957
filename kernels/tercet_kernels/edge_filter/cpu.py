"""Numba form of `edge_filter`: one pass with a heap of k scores and a buffer of what is within their reach."""

import numpy as np
from numba import njit, prange

from tercet_kernels.effective.cpu import effective

RUN = 1024  # edges scored at a time


@njit(nogil=True, cache=True)
def sink(heap, size, value):
    i = 0
    while True:
        child = 2 * i + 1
        if child >= size:
            break
        if child + 1 < size and heap[child + 1] > heap[child]:
            child += 1
        if heap[child] <= value:
            break
        heap[i] = heap[child]
        i = child
    heap[i] = value


@njit(nogil=True, cache=True)
def fill(
    start, stop, source, target, key, node_term, key_value, importance, feedback, weighted, influence, penalty, cliff,
    matched, restricted, out,
):  # fmt: skip
    """Scores of a run of edges."""
    if not weighted and not restricted:
        last = key_value.size - 1
        for e in range(start, stop):
            r = key[e]
            out[e - start] = (node_term[source[e]] + node_term[target[e]]) + key_value[last if r < 0 else r]
        return
    # in lines of its own: a function of arrays, even an inlined one, would count references to them for every edge
    for e in range(start, stop):
        s, d, r = source[e], target[e], key[e]
        value = key_value[r] if r >= 0 else key_value[key_value.size - 1]
        if weighted:
            raw = np.float64(value)
            weight, good = importance[e if importance.size > 1 else 0], feedback[e if feedback.size > 1 else 0]
            value = np.float32(effective(raw, np.isfinite(raw), weight, good, influence, penalty, cliff))
        if restricted and not (matched[s] or matched[d]):
            out[e - start] = np.inf
        else:
            out[e - start] = (node_term[s] + node_term[d]) + value


@njit(nogil=True, cache=True)
def compact(edges, scores, size, threshold):
    """Keep the entries within the threshold, in order; returns how many."""
    kept = 0
    for i in range(size):
        if scores[i] <= threshold:
            edges[kept] = edges[i]
            scores[kept] = scores[i]
            kept += 1
    return kept


@njit(nogil=True, cache=True)
def scan(
    source, target, key, node_term, key_value, importance, feedback, weighted, influence, penalty, cliff, matched,
    restricted, k, margin, tied, edges, scores, run,
):  # fmt: skip
    """Collect the edges within the k-th smallest score plus the margin, in one pass; of those with the score `tied` no
    more than the first k.

    Returns (threshold, count); a count of -1 says that they didn't fit into `edges`.
    """
    heap = np.full(k, np.inf, np.float32)
    bound = np.float32(np.inf)
    size = ties = 0
    fits = True
    for start in range(0, source.size, RUN):
        stop = min(start + RUN, source.size)
        fill(
            start, stop, source, target, key, node_term, key_value, importance, feedback, weighted, influence, penalty,
            cliff, matched, restricted, run,
        )  # fmt: skip
        for i in range(stop - start):
            x = run[i]
            if not (x <= bound and x < np.inf):
                continue
            if x == tied:
                ties += 1
                if ties > k:
                    continue
            if x < heap[0]:
                sink(heap, k, x)
                bound = heap[0] + margin
            if fits:
                if size == edges.size:
                    size = compact(edges, scores, size, bound)
                    fits = 2 * size <= edges.size
                if fits:
                    edges[size] = start + i
                    scores[size] = x
                    size += 1
    return bound, compact(edges, scores, size, bound) if fits else -1


@njit(nogil=True, cache=True)
def collect(
    source, target, key, node_term, key_value, importance, feedback, weighted, influence, penalty, cliff, matched,
    restricted, k, threshold, tied, out, run,
):  # fmt: skip
    """Write the edges within the threshold as far as there is room, as `scan` does; returns how many there are."""
    found = ties = 0
    for start in range(0, source.size, RUN):
        stop = min(start + RUN, source.size)
        fill(
            start, stop, source, target, key, node_term, key_value, importance, feedback, weighted, influence, penalty,
            cliff, matched, restricted, run,
        )  # fmt: skip
        for i in range(stop - start):
            if run[i] <= threshold and run[i] < np.inf:
                if run[i] == tied:
                    ties += 1
                    if ties > k:
                        continue
                if found < out.size:
                    out[found] = start + i
                found += 1
    return found


@njit(nogil=True, cache=True, parallel=True)
def edge_filter(
    source, target, key, node_term, key_value, importance, feedback, weighted, influence, penalty, cliff, margin, k,
    matched, restricted, tied, threads,
):  # fmt: skip
    queries = margin.size
    room = min(8 * k + 1024, source.size)
    near = np.empty((queries, room), np.int32)
    counts = np.zeros(queries + 1, np.int64)
    overflow = np.zeros(queries, np.bool_)
    threshold = np.empty(queries, np.float32)
    for t in prange(threads):
        run = np.empty(RUN, np.float32)
        scores = np.empty(room, np.float32)
        for q in range(t, queries, threads):
            row = q if restricted else 0
            threshold[q], found = scan(
                source, target, key, node_term[q], key_value[q], importance, feedback, weighted, influence, penalty,
                cliff, matched[row], restricted, k, margin[q], tied[q], near[q], scores, run,
            )  # fmt: skip
            if found < 0:
                overflow[q] = True
                found = collect(
                    source, target, key, node_term[q], key_value[q], importance, feedback, weighted, influence,
                    penalty, cliff, matched[row], restricted, k, threshold[q], tied[q], near[q, :0], run,
                )  # fmt: skip
            counts[q + 1] = found
    offsets = np.cumsum(counts)
    edge = np.empty(offsets[-1], np.int32)
    for t in prange(threads):
        run = np.empty(RUN, np.float32)
        for q in range(t, queries, threads):
            low, high = offsets[q], offsets[q + 1]
            if not overflow[q]:
                edge[low:high] = near[q, : high - low]
                continue
            collect(
                source, target, key, node_term[q], key_value[q], importance, feedback, weighted, influence, penalty,
                cliff, matched[q if restricted else 0], restricted, k, threshold[q], tied[q], edge[low:high], run,
            )  # fmt: skip
    return offsets, edge
