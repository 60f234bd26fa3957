"""Numba form of `term_floors`: products of bytes, a tile of rows at a time, transposed on their way out."""

import numpy as np
from numba import njit, prange

from tercet_kernels._simd import LANES, prefetch
from tercet_kernels.term_floors.simd import RUN, WIDTH, copy_run, floor_rows, floor_tile, transpose

ROWS = 12  # rows of a tile: their sums fill the registers
TILE = 192  # rows whose codes stay in the second-level cache; a multiple of ROWS, WIDTH and RUN
ACROSS = max(2 * LANES, WIDTH)  # bytes of a row of a block of queries
LINE = 64  # bytes that come from memory together
TALL = max(ROWS, LANES)

tile_two = floor_tile(ROWS, 2)
tile_one = floor_tile(ROWS, 1)


@njit(nogil=True, cache=True, parallel=True)
def term_floors(
    codes, first_sum, step, error, weight, packed, plain, unit, slope, least, column, base, out, threads
):  # fmt: skip
    """See the door; `column` is empty where row i belongs to column base + i, `plain` where queries are packed."""
    rows = step.size
    queries, length = out.shape
    stride = codes.shape[1]
    fours = stride // 4
    tiles = (rows + TILE - 1) // TILE
    share = (tiles + threads - 1) // threads * TILE
    few = plain.size > 0
    for t in prange(threads):
        begin = np.zeros(TILE, np.int32)
        scales, errors = np.zeros(TILE, np.float32), np.zeros(TILE, np.float32)
        weights = np.full(TILE, weight[0], np.float32)
        across = np.zeros((TILE, ACROSS), np.uint8)
        along = np.empty((ACROSS, TILE), np.uint8)
        last = np.zeros((TALL, stride), np.int8)
        high = min(rows, (t + 1) * share)
        tall = LANES if few else ROWS
        for start in range(min(rows, t * share), high, TILE):
            stop = min(start + TILE, high)
            size = stop - start
            begins, scale = first_sum.ctypes.data + 4 * start, step.ctypes.data + 4 * start
            wrong = error.ctypes.data + 4 * start
            if size < TILE:  # what is read beyond the last row is in these
                begin[:size], scales[:size], errors[:size] = first_sum[start:stop], step[start:stop], error[start:stop]
                begins, scale, wrong = begin.ctypes.data, scales.ctypes.data, errors.ctypes.data
            if weight.size > 1:
                for i in range(size):
                    weights[i] = weight[base + start + i if column.size == 0 else max(column[start + i], 0)]
            whole = size // tall * tall
            last[: size - whole] = codes[start + whole : stop]
            ahead = codes.ctypes.data + min(stop, rows - 1) * stride
            left = min(TILE, rows - stop) * stride
            for first in range(0, queries, 1 if few else 2 * LANES):
                taken = 1 if few else min(2 * LANES, queries - first)
                block = (plain.ctypes.data if few else packed.ctypes.data) + first * stride
                mine, own = unit.ctypes.data + 4 * first, slope.ctypes.data + 4 * first
                other = least.ctypes.data + 4 * first
                for i in range(0, size, tall):
                    rows_at = last.ctypes.data if i == whole else codes.ctypes.data + (start + i) * stride
                    if first == 0:  # the next tile comes while this one is multiplied
                        for offset in range(i * stride, min((i + tall) * stride, left), LINE):
                            prefetch(ahead + offset)
                    if few:
                        floor_rows(
                            rows_at, stride, block, fours // LANES, begins + 4 * i, scale + 4 * i, wrong + 4 * i,
                            weights.ctypes.data + 4 * i, mine, own, other, along.ctypes.data + i,
                        )  # fmt: skip
                        continue
                    args = (
                        rows_at, stride, block, fours, begins + 4 * i, scale + 4 * i, wrong + 4 * i,
                        weights.ctypes.data + 4 * i, mine, own, other, across.ctypes.data + i * ACROSS, ACROSS,
                    )  # fmt: skip
                    if taken > LANES:
                        tile_two(*args)
                    else:
                        tile_one(*args)
                if not few:
                    for j in range(0, taken, WIDTH):
                        for i in range(0, size, WIDTH):
                            source, to = across.ctypes.data + i * ACROSS + j, along.ctypes.data + j * TILE + i
                            transpose(source, ACROSS, to, TILE)
                if column.size == 0:
                    runs = size // RUN * RUN
                    for j in range(taken):
                        source, to = along.ctypes.data + j * TILE, out.ctypes.data + (first + j) * length + base + start
                        for i in range(0, runs, RUN):
                            copy_run(source + i, to + i)
                        for i in range(runs, size):
                            out[first + j, base + start + i] = along[j, i]
                    continue
                for i in range(size):
                    at = column[start + i]
                    if at >= 0:
                        for j in range(taken):
                            out[first + j, at] = along[j, i]
