"""Numba form of `unit`: the lanes and folds of the fixed-order dot product."""

import numpy as np
from numba import njit

from tercet_kernels.cosine.cpu import LANES, dot


@njit(nogil=True, cache=True)
def unit(vectors, rows, lengths):
    lanes = np.empty(LANES, np.float64)
    for b in range(vectors.shape[0]):
        x = vectors[b]
        length = np.sqrt(dot(x, x, lanes))
        lengths[b] = length
        safe = length if length > 0.0 and np.isfinite(length) else 1.0
        for i in range(x.size):
            rows[b, i] = np.float32(np.float64(x[i]) / safe)
