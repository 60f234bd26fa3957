"""Numba form of the fixed-order cosine distance."""

import numpy as np
from numba import njit, prange

LANES = 16


@njit(nogil=True, cache=True, parallel=True)
def pair_distances(queries, vectors, query, row, scale, scaled, out, threads):
    pairs = query.size
    width = queries.shape[1]
    whole = width - width % LANES
    step = (pairs + threads - 1) // threads
    for part in prange(threads):
        lanes = np.empty(LANES, np.float64)
        for p in range(part * step, min(pairs, (part + 1) * step)):
            x = queries[query[p]]
            y = vectors[row[p]]
            for i in range(LANES):
                lanes[i] = 0.0
            for start in range(0, whole, LANES):
                for i in range(LANES):
                    lanes[i] += np.float64(x[start + i]) * np.float64(y[start + i])
            for i in range(width - whole):
                lanes[i] += np.float64(x[whole + i]) * np.float64(y[whole + i])
            half = LANES // 2
            while half > 0:
                for i in range(half):
                    lanes[i] += lanes[half + i]
                half //= 2
            product = lanes[0] * scale[row[p]] if scaled else lanes[0]
            out[p] = np.float32(min(max(1.0 - product, 0.0), 2.0))
