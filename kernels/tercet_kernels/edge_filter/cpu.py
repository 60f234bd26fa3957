"""Numba form of `edge_filter`: a heap of k scores for the threshold, then one pass that collects."""

import numpy as np
from numba import njit, prange

from tercet_kernels.effective.cpu import effective


@njit(nogil=True, cache=True, inline="always")
def score(
    e, source, target, key, node_term, key_value, importance, feedback, weighted, influence, penalty, cliff, matched,
    restricted,
):  # fmt: skip
    s, d, r = source[e], target[e], key[e]
    value = key_value[r] if r >= 0 else key_value[key_value.size - 1]
    if weighted:
        raw = np.float64(value)
        value = np.float32(
            effective(raw, np.isfinite(raw), importance[e], feedback[e], influence, penalty, cliff)
        )
    if restricted and not (matched[s] or matched[d]):
        return np.float32(np.inf)
    return (node_term[s] + node_term[d]) + value


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
def kth(
    source, target, key, node_term, key_value, importance, feedback, weighted, influence, penalty, cliff, matched,
    restricted, k,
):  # fmt: skip
    """The k-th smallest score of one query, +inf when there are fewer."""
    heap = np.full(k, np.inf, np.float32)
    worst = heap[0]
    for e in range(source.size):
        x = score(
            e, source, target, key, node_term, key_value, importance, feedback, weighted, influence, penalty, cliff,
            matched, restricted,
        )  # fmt: skip
        if x < worst:
            sink(heap, k, x)
            worst = heap[0]
    return worst


@njit(nogil=True, cache=True)
def collect(
    source, target, key, node_term, key_value, importance, feedback, weighted, influence, penalty, cliff, matched,
    restricted, threshold, out,
):  # fmt: skip
    """Write the edges within the threshold as far as there is room; returns how many there are."""
    found = 0
    for e in range(source.size):
        x = score(
            e, source, target, key, node_term, key_value, importance, feedback, weighted, influence, penalty, cliff,
            matched, restricted,
        )  # fmt: skip
        if x <= threshold and x < np.inf:
            if found < out.size:
                out[found] = e
            found += 1
    return found


@njit(nogil=True, cache=True, parallel=True)
def edge_filter(
    source, target, key, node_term, key_value, importance, feedback, weighted, influence, penalty, cliff, margin, k,
    matched, restricted, threads,
):  # fmt: skip
    queries = margin.size
    room = min(4 * k + 256, source.size)
    near = np.empty((queries, room), np.int32)
    counts = np.zeros(queries + 1, np.int64)
    threshold = np.empty(queries, np.float32)
    for t in prange(threads):
        for q in range(t, queries, threads):
            row = q if restricted else 0
            worst = np.float32(np.inf)
            if k <= source.size:
                worst = kth(
                    source, target, key, node_term[q], key_value[q], importance, feedback, weighted, influence,
                    penalty, cliff, matched[row], restricted, k,
                )  # fmt: skip
            threshold[q] = worst + margin[q]
            counts[q + 1] = collect(
                source, target, key, node_term[q], key_value[q], importance, feedback, weighted, influence, penalty,
                cliff, matched[row], restricted, threshold[q], near[q],
            )  # fmt: skip
    offsets = np.cumsum(counts)
    edge = np.empty(offsets[-1], np.int32)
    for t in prange(threads):
        for q in range(t, queries, threads):
            low, high = offsets[q], offsets[q + 1]
            if high - low <= room:
                edge[low:high] = near[q, : high - low]
            else:
                collect(
                    source, target, key, node_term[q], key_value[q], importance, feedback, weighted, influence,
                    penalty, cliff, matched[q if restricted else 0], restricted, threshold[q], edge[low:high],
                )  # fmt: skip
    return offsets, edge
