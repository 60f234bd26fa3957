"""Numba form of `term_floors`: products of bytes, a tile of rows at a time, transposed on their way out."""

import numpy as np
from numba import njit, prange

from tercet_kernels._simd import LANES, prefetch
from tercet_kernels.term_floors.simd import RUN, WIDTH, copy_run, floor_tile, transpose

ROWS = 12  # rows of a tile: their sums fill the registers
TILE = 192  # rows whose codes stay in the second-level cache; a multiple of ROWS, WIDTH and RUN
ACROSS = max(2 * LANES, WIDTH)  # bytes of a row of a block of queries
LINE = 64

tile_two = floor_tile(ROWS, 2)
tile_one = floor_tile(ROWS, 1)


@njit(nogil=True, cache=True, parallel=True)
def term_floors(codes, first_sum, step, error, weight, packed, unit, slope, least, column, base, out, threads):
    """See the door; `column` is empty where row i belongs to column base + i."""
    rows = step.size
    queries, length = out.shape
    stride = codes.shape[1]
    fours = stride // 4
    tiles = (rows + TILE - 1) // TILE
    share = (tiles + threads - 1) // threads * TILE
    for t in prange(threads):
        begin = np.empty(TILE, np.int32)
        scales, errors, weights = np.empty(TILE, np.float32), np.empty(TILE, np.float32), np.empty(TILE, np.float32)
        across = np.zeros((TILE, ACROSS), np.uint8)
        along = np.empty((ACROSS, TILE), np.uint8)
        last = np.zeros((ROWS, stride), np.int8)
        high = min(rows, (t + 1) * share)
        for start in range(min(rows, t * share), high, TILE):
            stop = min(start + TILE, high)
            for i in range(TILE):
                row = min(start + i, stop - 1)
                begin[i], scales[i], errors[i] = first_sum[row], step[row], error[row]
                at = base + row if column.size == 0 else max(column[row], 0)
                weights[i] = weight[0 if weight.size == 1 else at]
            whole = (stop - start) // ROWS * ROWS
            for i in range(whole, stop - start):
                last[i - whole] = codes[start + i]
            ahead = codes.ctypes.data + min(stop, rows - 1) * stride
            left = min(TILE, rows - stop) * stride
            for first in range(0, queries, 2 * LANES):
                two = first + LANES < queries
                block = packed.ctypes.data + first * stride
                for i in range(0, stop - start, ROWS):
                    address = codes.ctypes.data + (start + i) * stride
                    if i == whole:
                        address = last.ctypes.data
                    if first == 0:  # the next tile comes while this one is multiplied
                        for offset in range(i * stride, min((i + ROWS) * stride, left), LINE):
                            prefetch(ahead + offset)
                    args = (
                        address, stride, block, fours, begin.ctypes.data + 4 * i, scales.ctypes.data + 4 * i,
                        errors.ctypes.data + 4 * i, weights.ctypes.data + 4 * i, unit.ctypes.data + 4 * first,
                        slope.ctypes.data + 4 * first, least.ctypes.data + 4 * first,
                        across.ctypes.data + i * ACROSS, ACROSS,
                    )  # fmt: skip
                    if two:
                        tile_two(*args)
                    else:
                        tile_one(*args)
                taken = min(2 * LANES, queries - first)
                for j in range(0, taken, WIDTH):
                    for i in range(0, stop - start, WIDTH):
                        transpose(
                            across.ctypes.data + i * ACROSS + j, ACROSS, along.ctypes.data + j * TILE + i, TILE
                        )  # fmt: skip
                if column.size == 0:
                    runs = (stop - start) // RUN * RUN
                    for j in range(taken):
                        source, to = along.ctypes.data + j * TILE, out.ctypes.data + (first + j) * length + base + start
                        for i in range(0, runs, RUN):
                            copy_run(source + i, to + i)
                        for i in range(runs, stop - start):
                            out[first + j, base + start + i] = along[j, i]
                    continue
                for i in range(stop - start):
                    at = column[start + i]
                    if at >= 0:
                        for j in range(taken):
                            out[first + j, at] = along[j, i]
