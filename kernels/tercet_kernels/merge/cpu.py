"""Numba form of `merge`: each query's elements by a stable counting sort of 8 bits a pass, then one walk over runs."""

import numpy as np
from numba import njit, prange

MOST = 127  # listings: their number is an int8


@njit(nogil=True, cache=True)
def place(row, distance, owner, wide, limit, start, out_owner, out_distance):
    """Elements and distances of the rows that count, from column `start` on; -1 and +inf elsewhere."""
    for q in range(row.shape[0]):
        for i in range(row.shape[1]):
            r = row[q, i]
            far = not (i < wide[q]) or distance[q, i] > limit
            element = np.int32(-1) if r < 0 or far else owner[r]
            out_owner[q, start + i] = max(element, np.int32(-1))
            out_distance[q, start + i] = np.float32(np.inf) if element < 0 else distance[q, i]


@njit(nogil=True, cache=True)
def by_element(owner, order, other, counts):
    """Put the places of one query's elements in `order`, ascending by (element, place); returns how many there are."""
    size = 0
    top = 0
    for i in range(owner.size):
        if owner[i] >= 0:
            order[size] = i
            size += 1
            top = max(top, owner[i])
    shift = 0
    while shift == 0 or top >> shift > 0:
        counts[:] = 0
        for j in range(size):
            counts[(owner[order[j]] >> shift) & 255] += 1
        total = 0
        for digit in range(256):
            here = counts[digit]
            counts[digit] = total
            total += here
        for j in range(size):
            digit = (owner[order[j]] >> shift) & 255
            other[counts[digit]] = order[j]
            counts[digit] += 1
        order[:size] = other[:size]
        shift += 8
    return size


@njit(nogil=True, cache=True, parallel=True)
def merge(owner, distance, starts, last, indptr, element, result, collection, rank, nearest, first, threads):
    """Fill `indptr` and, as far as it says, the columns; they are given, for arrays that are returned cost more."""
    queries, width = owner.shape
    orders = np.empty((queries, width), np.int32)
    sizes = np.empty(queries, np.int64)
    indptr[0] = 0
    for t in prange(threads):
        other = np.empty(width, np.int32)
        counts = np.empty(256, np.int32)
        for q in range(t, queries, threads):
            order = orders[q]
            size = by_element(owner[q], order, other, counts)
            sizes[q] = size
            runs = 0
            for j in range(size):
                runs += j == 0 or owner[q, order[j]] != owner[q, order[j - 1]]
            indptr[q + 1] = runs
    for q in range(queries):
        indptr[q + 1] += indptr[q]
    for t in prange(threads):
        for q in range(t, queries, threads):
            order = orders[q]
            j = 0
            for at in range(indptr[q], indptr[q + 1]):
                lead = order[j]
                best, chosen = lead, lead
                j += 1
                while j < sizes[q] and owner[q, order[j]] == owner[q, lead]:
                    chosen = order[j]
                    if distance[q, chosen] < distance[q, best]:
                        best = chosen
                    j += 1
                if not last:
                    chosen = best
                which = 0
                while starts[which + 1] <= chosen:
                    which += 1
                element[at], result[at] = owner[q, lead], distance[q, chosen]
                collection[at], rank[at] = which, chosen - starts[which]
                nearest[at], first[at] = distance[q, best], lead
