"""Numba form of `outranked`: tiles of rows, as far as any query of a block is open."""

import numpy as np
from numba import njit, prange

from tercet_kernels._simd import LANES, lowest_bit
from tercet_kernels.nearest.cpu import LOWER, ROWS_ONE, TILE, bytes_one, bytes_two, in_units, ready

SPREAD = 7919  # a prime: tiles are taken this far apart, so that a part of them is like the whole


@njit(nogil=True, cache=True)
def count(
    first, queries, codes, first_sum, step, error, hidden, packed, unit, slope, least, bounds, wide, rows, share, trial,
    proven,
):  # fmt: skip
    """One block of queries from `first` on. A row counts where its lower bound is over the query's."""
    stride = codes.shape[1]
    fours = stride // 4
    begin, scales, errors = np.empty(TILE, np.int32), np.empty(TILE, np.float32), np.empty(TILE, np.float32)
    out, hits = np.empty((ROWS_ONE, 2 * LANES), np.int32), np.empty(ROWS_ONE, np.int64)
    last = np.empty((ROWS_ONE, stride), np.int8)
    two = first + LANES < queries
    block = packed.ctypes.data + first * stride
    counts = np.zeros(2 * LANES, np.int64)
    units, slopes, leasts = unit.ctypes.data, slope.ctypes.data, least.ctypes.data
    open_ = min(queries - first, 2 * LANES)
    tiles = (rows + TILE - 1) // TILE
    spread = SPREAD if tiles % SPREAD else 1
    seen = 0
    for turn in range((tiles + share - 1) // share):
        start = turn * spread % tiles * TILE
        stop = min(start + TILE, rows)
        whole = ready(
            codes, first_sum, step, error, hidden, start, stop, 1, np.float32(np.inf), begin, scales, errors, last
        )
        for i in range(0, stop - start, ROWS_ONE):
            args = (
                codes.ctypes.data + (start + i) * stride if i != whole else last.ctypes.data, stride, block, fours,
                begin.ctypes.data + 4 * i, scales.ctypes.data + 4 * i, errors.ctypes.data + 4 * i, units + 4 * first,
                slopes + 4 * first, leasts + 4 * first, bounds.ctypes.data + 4 * first, out.ctypes.data,
                hits.ctypes.data,
            )  # fmt: skip
            if (bytes_two(*args) if two else bytes_one(*args)) == 0:
                continue
            for r in range(ROWS_ONE):
                word = hits[r]
                while word != 0:
                    j = lowest_bit(word)
                    word &= word - 1
                    counts[j] += 1
                    if counts[j] == wide[first + j]:
                        proven[first + j] = True
                        bounds[first + j] = np.inf
                        open_ -= 1
        before = seen
        seen += stop - start
        if before * trial < rows <= seen * trial:
            for j in range(min(queries - first, 2 * LANES)):
                if counts[j] * (trial // share) < wide[first + j] and bounds[first + j] < np.inf:
                    bounds[first + j] = np.inf
                    open_ -= 1
        if open_ == 0:
            break


@njit(nogil=True, cache=True, parallel=True)
def outranked(
    codes, first_sum, step, error, hidden, packed, unit, lower, bounds, wide, rows, share, trial, threads
):  # fmt: skip
    queries = wide.size
    proven = np.zeros(queries, np.bool_)
    blocks = (queries + 2 * LANES - 1) // (2 * LANES)
    units, slopes, leasts = in_units(unit, lower[0], lower[1] - np.float32(2.0) * LOWER)  # it asks LOWER less
    for t in prange(threads):
        for block in range(np.int64(t), blocks, threads):
            count(
                block * 2 * LANES, queries, codes, first_sum, step, error, hidden, packed, units, slopes, leasts,
                bounds, wide, rows, share, trial, proven,
            )  # fmt: skip
    return proven
