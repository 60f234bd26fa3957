"""Numba form of the fixed-order cosine distance."""

import numpy as np
from numba import njit, prange

from tercet_kernels._simd import prefetch, wide_dot

LANES = 16
LINE = 64  # bytes that come from memory together


@njit(nogil=True, cache=True)
def dot(x, y, lanes):
    """float64 dot product of two float32 rows in 16 lanes, folded in halves; `lanes` is (16,) float64 to work in."""
    width = x.size
    whole = width - width % LANES
    if whole:
        wide_dot(x.ctypes.data, y.ctypes.data, whole // LANES, lanes.ctypes.data)
    else:
        lanes[:] = 0.0
    for i in range(width - whole):
        lanes[i] += np.float64(x[whole + i]) * np.float64(y[whole + i])
    half = LANES // 2
    while half > 0:
        for i in range(half):
            lanes[i] += lanes[half + i]
        half //= 2
    return lanes[0]


@njit(nogil=True, cache=True, parallel=True)
def pair_distances(queries, vectors, query, row, scale, scaled, out, threads):
    pairs = query.size
    step = (pairs + threads - 1) // threads
    for part in prange(threads):
        lanes = np.empty(LANES, np.float64)
        stop = min(pairs, (part + 1) * step)
        for p in range(part * step, stop):
            after = vectors[row[min(p + 1, stop - 1)]]  # rows lie anywhere: the next one comes while this is computed
            for offset in range(0, after.size * after.itemsize, LINE):
                prefetch(after.ctypes.data + offset)
            product = dot(queries[query[p]], vectors[row[p]], lanes)
            if scaled:
                product *= scale[row[p]]
            out[p] = np.float32(min(max(1.0 - product, 0.0), 2.0))
