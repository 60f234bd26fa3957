"""Numba forms of `splice`, `numbered` and `located`; of the first two each thread writes a stretch of the result."""

import numpy as np
from numba import njit, prange


@njit(nogil=True, cache=True)
def begin(runs, column, row):
    """The first run that ends behind a row, by its place in a column."""
    low, high = 0, runs.shape[0]
    while low < high:
        middle = (low + high) // 2
        if runs[middle, column] + runs[middle, 2] <= row:
            low = middle + 1
        else:
            high = middle
    return low


@njit(nogil=True, cache=True, parallel=True)
def copied(old, runs, width, out, parts):
    size = out.size // width
    for p in prange(parts):
        low, high = size * p // parts, size * (p + 1) // parts
        for r in range(begin(runs, 0, low), runs.shape[0]):
            if runs[r, 0] >= high:
                break
            first = max(runs[r, 0], low)
            end = min(runs[r, 0] + runs[r, 2], high)
            start = runs[r, 1] + first - runs[r, 0]
            out[first * width : end * width] = old[start * width : (start + end - first) * width]


@njit(nogil=True, cache=True, parallel=True)
def renumbered(old, runs, row, out, parts):
    size = out.size
    for p in prange(parts):
        low, high = size * p // parts, size * (p + 1) // parts
        for r in range(begin(runs, 0, low), runs.shape[0]):
            if runs[r, 0] >= high:
                break
            first = max(runs[r, 0], low)
            end = min(runs[r, 0] + runs[r, 2], high)
            shift = runs[r, 1] - runs[r, 0]
            for i in range(first, end):
                value = old[i + shift]
                out[i] = row[value] if value >= 0 else value


@njit(nogil=True, cache=True, parallel=True)
def numbered(runs, out, parts):
    size = out.size
    for p in prange(parts):
        low, high = size * p // parts, size * (p + 1) // parts
        at = low
        for r in range(begin(runs, 1, low), runs.shape[0]):
            if runs[r, 1] >= high:
                break
            first = max(runs[r, 1], low)
            end = min(runs[r, 1] + runs[r, 2], high)
            out[at:first] = -1
            shift = runs[r, 0] - runs[r, 1]
            for i in range(first, end):
                out[i] = np.int32(i + shift)
            at = end
        out[at:high] = -1


@njit(nogil=True, cache=True)
def located(row, number, which, place):
    for i in range(row.size):
        if row[i] >= 0:
            which[row[i]] = number
            place[row[i]] = i
