"""The bounds of a search: what a row has to reach, found in the buffers of those that may."""

import numpy as np
from numba import njit


@njit(nogil=True, cache=True)
def select(values, size, k):
    """Move the k-th largest of values[:size] to place k - 1 with none smaller before it; returns it.

    Quickselect (Hoare 1961) with Lomuto's partition, which moves every element: it has no branch to be mispredicted.
    """
    low, high, target = 0, size, k - 1
    while high - low > 1:
        pivot = values[(low + high) >> 1]
        larger = low
        for i in range(low, high):
            x = values[i]
            values[i] = values[larger]
            values[larger] = x
            larger += x > pivot
        if target < larger:
            high = larger
            continue
        equal = larger
        for i in range(larger, high):
            x = values[i]
            values[i] = values[equal]
            values[equal] = x
            equal += x == pivot
        if target < equal:
            return pivot
        low = equal
    return values[target]


@njit(nogil=True, cache=True)
def tighten(rows, upper, size, q, spread, k, spare):
    """The k-th largest lower bound (-inf for fewer) after dropping rows whose upper bound is below it.

    Args:
        spread: (error of rows, slope, least of queries): the product of rounded forms is within error * slope + least
            of that of a row and a query; one error stands for all rows.
    """
    if size < k:
        return np.float32(-np.inf), size
    error, slope, least = spread[0], spread[1][q], spread[2][q]
    last = error.size - 1
    for i in range(size):
        spare[i] = upper[i] - np.float32(2.0) * np.float32(error[min(rows[i], last)] * slope + least)
    bound = select(spare, size, k)
    kept = 0
    for i in range(size):
        row, value = rows[i], upper[i]
        rows[kept] = row
        upper[kept] = value
        kept += value >= bound
    return bound, kept


@njit(nogil=True, cache=True)
def squeeze(q, near, upper, sizes, limits, bounds, spread, k, spare, overflow):
    """Raise a query's bound and drop what is below it; without a gain its buffer is given up."""
    bound, size = tighten(near[q], upper[q], sizes[q], q, spread, k, spare)
    bounds[q] = max(bounds[q], bound)
    sizes[q] = size
    limits[q] = min(size + k + 16, near.shape[1])
    if size == near.shape[1]:
        overflow[q] = True
        bounds[q] = np.inf


@njit(nogil=True, cache=True)
def foresee(ahead, behind, few, near, upper, sizes, limits, start, bounds, spread, spare, overflow):
    """Take the bounds of a sample's `few` best rows for those of all rows, and empty the buffers.

    They are used to the end then: raising a bound costs more than some rows too many, once it is about right.
    """
    for q in range(ahead, behind):
        if not overflow[q]:
            bound, _ = tighten(near[q], upper[q], sizes[q], q, spread, few, spare)
            start[q] = bound
            if bound > -np.inf:
                limits[q] = near.shape[1]
        bounds[q] = max(start[q], -np.finfo(np.float32).max)
        sizes[q] = 0
        overflow[q] = False
