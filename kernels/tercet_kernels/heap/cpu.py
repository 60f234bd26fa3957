"""Numba form of the bounded heap."""

import numpy as np
from numba import njit


@njit(nogil=True, cache=True, inline="always")
def after(score, edge, other_score, other_edge):
    """Whether an entry ranks after another: by score, NaN last, then by edge."""
    if score > other_score:
        return True
    if score == other_score:
        return edge > other_edge
    return np.isnan(score) and (not np.isnan(other_score) or edge > other_edge)


@njit(nogil=True, cache=True)
def push(scores, edges, payload, size, score, edge, a, b, c):
    """Offer an entry to a bounded max-heap ordered by (score, edge); returns the new size.

    The root is the worst entry kept. Arrays have the capacity of the heap.
    """
    capacity = scores.size
    if size < capacity:
        i = size
        while i > 0:
            up = (i - 1) >> 1
            if after(scores[up], edges[up], score, edge):
                break
            scores[i] = scores[up]
            edges[i] = edges[up]
            payload[i, 0] = payload[up, 0]
            payload[i, 1] = payload[up, 1]
            payload[i, 2] = payload[up, 2]
            i = up
        scores[i] = score
        edges[i] = edge
        payload[i, 0] = a
        payload[i, 1] = b
        payload[i, 2] = c
        return size + 1
    if capacity == 0 or not after(scores[0], edges[0], score, edge):
        return size
    sift(scores, edges, payload, capacity, score, edge, a, b, c)
    return size


@njit(nogil=True, cache=True)
def sift(scores, edges, payload, size, score, edge, a, b, c):
    """Put an entry at the root of the first `size` entries and let it sink."""
    i = 0
    while True:
        child = 2 * i + 1
        if child >= size:
            break
        right = child + 1
        if right < size and after(scores[right], edges[right], scores[child], edges[child]):
            child = right
        if not after(scores[child], edges[child], score, edge):
            break
        scores[i] = scores[child]
        edges[i] = edges[child]
        payload[i, 0] = payload[child, 0]
        payload[i, 1] = payload[child, 1]
        payload[i, 2] = payload[child, 2]
        i = child
    scores[i] = score
    edges[i] = edge
    payload[i, 0] = a
    payload[i, 1] = b
    payload[i, 2] = c


@njit(nogil=True, cache=True)
def unheap(scores, edges, payload, size):
    """Turn the heap into ascending order in place."""
    for last in range(size - 1, 0, -1):
        score, edge = scores[last], edges[last]
        a, b, c = payload[last, 0], payload[last, 1], payload[last, 2]
        scores[last] = scores[0]
        edges[last] = edges[0]
        payload[last, 0] = payload[0, 0]
        payload[last, 1] = payload[0, 1]
        payload[last, 2] = payload[0, 2]
        sift(scores, edges, payload, last, score, edge, a, b, c)


@njit(nogil=True, cache=True)
def pad(scores, edges, payload, size):
    """Fill what the heap didn't use."""
    for i in range(size, scores.size):
        scores[i] = np.inf
        edges[i] = -1
        payload[i, 0] = -1
        payload[i, 1] = -1
        payload[i, 2] = -1
