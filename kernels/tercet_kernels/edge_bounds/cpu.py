"""Numba form of `edge_bounds`: a bisection an edge and side."""

from numba import njit


@njit(nogil=True, cache=True)
def bound(relation, target, low, high, label, far, after):
    while low < high:
        middle = (low + high) // 2
        held = 2 * relation[middle]
        other = 2 * target[middle]
        if held < label or (held == label and (other < far or (after and other == far))):
            low = middle + 1
        else:
            high = middle
    return low


@njit(nogil=True, cache=True)
def edge_bounds(indptr, relation, target, source_at, relation_at, target_at, low, high):
    for p in range(source_at.size):
        node = (source_at[p] + 1) // 2
        first = indptr[node]
        if source_at[p] % 2 != 0:  # a source without edges
            low[p] = high[p] = first
            continue
        last = indptr[node + 1]
        low[p] = bound(relation, target, first, last, relation_at[p], target_at[p], False)
        high[p] = bound(relation, target, low[p], last, relation_at[p], target_at[p], True)
