"""Numba form of the fixed-order cosine distance."""

import numpy as np
from numba import njit, prange

from tercet_kernels._simd import folded_dot, prefetch_far, wide_dot

LANES = 16
LINE = 64  # bytes that come from memory together
AHEAD = 8  # rows that are on their way while one is computed


@njit(nogil=True, cache=True)
def dot(x, y, lanes):
    """float64 dot product of two float32 rows in 16 lanes, folded in halves; `lanes` is (16,) float64 to work in."""
    width = x.size
    whole = width - width % LANES
    if whole == width and whole:
        return folded_dot(x.ctypes.data, y.ctypes.data, whole // LANES)
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


@njit(nogil=True, cache=True)
def distances(queries, vectors, q, rows, lanes, out):
    """1 - product of one query and some rows, which lie anywhere, clamped to [0, 2]."""
    width = vectors.shape[1]
    query, base, stride = queries.ctypes.data + q * width * 4, vectors.ctypes.data, width * 4
    blocks = width // LANES
    for i in range(min(AHEAD, rows.size)):
        for offset in range(0, stride, LINE):
            prefetch_far(base + np.int64(rows[i]) * stride + offset)
    for i in range(rows.size):
        after = base + np.int64(rows[min(i + AHEAD, rows.size - 1)]) * stride
        for offset in range(0, stride, LINE):
            prefetch_far(after + offset)
        if blocks > 0 and blocks * LANES == width:
            product = folded_dot(query, base + np.int64(rows[i]) * stride, blocks)
        else:
            product = dot(queries[q], vectors[rows[i]], lanes)
        out[i] = np.float32(min(max(1.0 - product, 0.0), 2.0))


@njit(nogil=True, cache=True, parallel=True)
def pair_distances(queries, vectors, query, row, scale, scaled, out, threads):
    pairs = query.size
    step = (pairs + threads - 1) // threads
    asked, base, stride = queries.ctypes.data, vectors.ctypes.data, vectors.shape[1] * vectors.itemsize
    blocks = vectors.shape[1] // LANES
    plain = blocks > 0 and vectors.shape[1] == blocks * LANES
    for part in prange(threads):
        lanes = np.empty(LANES, np.float64)
        stop = min(pairs, (part + 1) * step)
        for p in range(part * step, stop):
            after = row[min(p + AHEAD, stop - 1)]  # rows lie anywhere
            for offset in range(0, stride, LINE):
                prefetch_far(base + np.int64(after) * stride + offset)
            if plain:
                product = folded_dot(asked + np.int64(query[p]) * stride, base + np.int64(row[p]) * stride, blocks)
            else:
                product = dot(queries[query[p]], vectors[row[p]], lanes)
            if scaled:
                product *= scale[row[p]]
            out[p] = np.float32(min(max(1.0 - product, 0.0), 2.0))


@njit(nogil=True, cache=True, parallel=True)
def least_distances(queries, vectors, indptr, row, out, threads):
    longest = 0
    for q in range(queries.shape[0]):
        longest = max(longest, indptr[q + 1] - indptr[q])
    for part in prange(threads):
        lanes, found = np.empty(LANES, np.float64), np.empty(longest, np.float32)
        for q in range(np.int64(part), queries.shape[0], threads):
            rows = row[indptr[q] : indptr[q + 1]]
            distances(queries, vectors, q, rows, lanes, found)
            least = np.float32(np.inf)
            for i in range(rows.size):
                least = min(least, found[i])
            out[q] = least
