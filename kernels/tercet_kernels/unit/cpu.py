"""Numba form of `unit`: the lanes and folds of the fixed-order dot product."""

import numpy as np
from numba import njit

LANES = 16


@njit(nogil=True, cache=True)
def unit(vectors, rows, lengths):
    width = vectors.shape[1]
    whole = width - width % LANES
    lanes = np.empty(LANES, np.float64)
    for b in range(vectors.shape[0]):
        x = vectors[b]
        for i in range(LANES):
            lanes[i] = 0.0
        for start in range(0, whole, LANES):
            for i in range(LANES):
                lanes[i] += np.float64(x[start + i]) * np.float64(x[start + i])
        for i in range(width - whole):
            lanes[i] += np.float64(x[whole + i]) * np.float64(x[whole + i])
        half = LANES // 2
        while half > 0:
            for i in range(half):
                lanes[i] += lanes[half + i]
            half //= 2
        length = np.sqrt(lanes[0])
        lengths[b] = length
        safe = length if length > 0.0 and np.isfinite(length) else 1.0
        for i in range(width):
            rows[b, i] = np.float32(np.float64(x[i]) / safe)
