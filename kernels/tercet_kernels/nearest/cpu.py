"""Numba form of `nearest`: integer products of a tile of rows propose, bounds decide who is scored exactly."""

import numpy as np
from numba import njit, prange

from tercet_kernels._simd import LANES, ROW_BLOCK, byte_tile, lowest_bit, prefetch_far, product_tile, row_products
from tercet_kernels.nearest.bounds import foresee, squeeze
from tercet_kernels.nearest.rounding import widen

ROWS, ROWS_ONE = 6, 12  # rows of a tile with two vectors of queries or one: their sums fill the registers
LINE = 64  # bytes that come from memory together
LOWER, TINY = np.float32(2e-6), np.float32(1e-30)  # by how much an asked bound is lower than the checked one; no step
TILE = 240  # rows kept as int16 in the second-level cache; a multiple of both

WIDENED, CODED, BYTES = 0, 1, 2  # what products are of: rows rounded to int16, int8 codes as int16, codes as they are

tile_two = product_tile(ROWS, 2)
tile_one = product_tile(ROWS_ONE, 1)
bytes_two = byte_tile(ROWS_ONE, 2)
bytes_one = byte_tile(ROWS_ONE, 1)


# Each scan takes in what passes in its own lines: a function for it, even an inlined one, would count references to all
# of its arrays for every row, which costs ten times what it does.


@njit(nogil=True, cache=True)
def scan_tiles(
    vectors, codes, coded, step, unit, spread, hidden, packed, queries, k, low, high, ahead, behind, near, upper, sizes,
    limits, bounds, spare, allowed, allowed_row, overflow,
):  # fmt: skip
    error, slope, least = spread[0], spread[1][0], spread[2][0]
    width = vectors.shape[1]
    pairs = (width + 1) // 2
    wide = np.zeros((TILE, 2 * pairs), np.int16)
    scales, shifts = np.empty(TILE, np.float32), np.empty(TILE, np.float32)
    out, hits = np.empty((ROWS_ONE, 2 * LANES), np.float32), np.empty(ROWS_ONE, np.int64)
    flat = out.reshape(-1)
    stride = wide.shape[1] * 2
    for start in range(low, high, TILE):
        stop = min(start + TILE, high)
        widen(vectors, codes, coded, start, stop, wide)
        for i in range(TILE):
            row = min(start + i, stop - 1)
            scales[i] = step[min(row, step.size - 1)] * unit[0]
            out_of = start + i >= stop or (hidden.size > 0 and hidden[row])
            shift = np.float32(error[min(row, error.size - 1)] * slope + least)
            shifts[i] = np.float32(-np.inf) if out_of else shift
        for first in range(ahead, behind, 2 * LANES):
            two = first + LANES < queries
            across = 2 * LANES if two else LANES
            block = packed.ctypes.data + first * pairs * 4
            tall = ROWS if two else ROWS_ONE
            for i in range(0, stop - start, tall):
                args = (
                    wide.ctypes.data + i * stride, stride, block, pairs, scales.ctypes.data + 4 * i,
                    shifts.ctypes.data + 4 * i, bounds.ctypes.data + 4 * first, out.ctypes.data, hits.ctypes.data,
                )  # fmt: skip
                if two:
                    tile_two(*args)
                else:
                    tile_one(*args)
                for r in range(tall):
                    word = hits[r]
                    while word != 0:
                        j = lowest_bit(word)
                        word &= word - 1
                        q, row, value = first + j, start + i + r, flat[r * across + j]
                        mask = allowed_row[q]
                        if mask < 0 or allowed[mask, row]:
                            if sizes[q] == limits[q]:
                                squeeze(q, near, upper, sizes, limits, bounds, spread, k, spare, overflow)
                            if value >= bounds[q]:
                                size = sizes[q]
                                near[q, size] = row
                                upper[q, size] = value
                                sizes[q] = size + 1


@njit(nogil=True, cache=True)
def in_units(unit, slope, least):
    """What `byte_tile` is told of queries: reciprocal steps, slopes in steps, and least shifts that ask too much."""
    units, slopes = np.empty(unit.size, np.float32), np.empty(unit.size, np.float32)
    for q in range(unit.size):
        units[q] = np.float32(1.0) / max(unit[q], TINY)
        slopes[q] = slope[q] * units[q]
    return units, slopes, least + LOWER


@njit(nogil=True, cache=True)
def ready(codes, first_sum, step, error, hidden, start, stop, every, absent, begin, scales, errors, last):
    """What `byte_tile` is told of a tile of rows. Those past `stop` or hidden have the error `absent`: with -inf they
    pass no bound on what is possible, with inf none on what is certain (negative slopes).

    The last rows, too few for a call, are copied to `last`; returns where these begin.
    """
    for i in range(TILE):
        row = min(start + i, stop - 1) * every
        out_of = start + i >= stop or (hidden.size > 0 and hidden[row])
        begin[i] = first_sum[row]
        scales[i] = np.float32(0.0) if out_of else np.float32(1.0) / max(step[row], TINY)
        errors[i] = absent if out_of else error[row] * scales[i]
    whole = (stop - start) // ROWS_ONE * ROWS_ONE
    for i in range(whole, stop - start):
        last[i - whole] = codes[(start + i) * every]
    return whole


@njit(nogil=True, cache=True)
def scan_bytes(
    codes, first_sum, step, unit, spread, hidden, packed, queries, k, low, high, every, ahead, behind, near, upper,
    sizes, limits, bounds, spare, allowed, allowed_row, overflow,
):  # fmt: skip
    """The same over int8 codes and packed uint8 queries, each with a step and bounds of its own; of rows 0, `every`,
    2 * `every`, … those from `low` to `high`."""
    error, slope, least = spread
    stride = codes.shape[1]
    fours = stride // 4
    begin, scales, errors = np.empty(TILE, np.int32), np.empty(TILE, np.float32), np.empty(TILE, np.float32)
    out, hits = np.empty((ROWS_ONE, 2 * LANES), np.int32), np.empty(ROWS_ONE, np.int64)
    flat = out.reshape(-1)
    last = np.empty((ROWS_ONE, stride), np.int8)
    units, slopes, leasts = in_units(unit, slope, least)
    turns = (behind - ahead + 2 * LANES - 1) // (2 * LANES)
    lines = (ROWS_ONE * stride // LINE + turns - 1) // max(turns, 1) if every == 1 else 0
    for start in range(low, high, TILE):
        stop = min(start + TILE, high)
        whole = ready(
            codes, first_sum, step, error, hidden, start, stop, every, np.float32(-np.inf), begin, scales, errors, last
        )
        for first in range(ahead, behind, 2 * LANES):
            two = first + LANES < queries
            across = 2 * LANES if two else LANES
            block = packed.ctypes.data + first * stride
            turn = (first - ahead) // (2 * LANES)
            for i in range(0, stop - start, ROWS_ONE):
                rows, apart = codes.ctypes.data + (start + i) * every * stride, every * stride
                for line in range(turn * lines, (turn + 1) * lines):  # these rows come while the next ones are computed
                    prefetch_far(rows + TILE * stride + line * LINE)
                if i == whole:
                    rows, apart = last.ctypes.data, stride
                args = (
                    rows, apart, block, fours, begin.ctypes.data + 4 * i, scales.ctypes.data + 4 * i,
                    errors.ctypes.data + 4 * i, units.ctypes.data + 4 * first, slopes.ctypes.data + 4 * first,
                    leasts.ctypes.data + 4 * first, bounds.ctypes.data + 4 * first, out.ctypes.data, hits.ctypes.data,
                )  # fmt: skip
                if (bytes_two(*args) if two else bytes_one(*args)) == 0:
                    continue
                for r in range(ROWS_ONE):
                    word = hits[r]
                    while word != 0:
                        j = lowest_bit(word)
                        word &= word - 1
                        q, row = first + j, (start + i + r) * every
                        mask = allowed_row[q]
                        if mask < 0 or allowed[mask, row]:
                            if sizes[q] == limits[q]:
                                squeeze(q, near, upper, sizes, limits, bounds, spread, k, spare, overflow)
                            value = np.float32(flat[r * across + j]) * (step[row] * unit[q])
                            value += np.float32(error[row] * slope[q] + least[q])
                            if value >= bounds[q]:
                                size = sizes[q]
                                near[q, size] = row
                                upper[q, size] = value
                                sizes[q] = size + 1


@njit(nogil=True, cache=True)
def scan_rows(
    codes, step, unit, spread, hidden, query, q, k, low, high, near, upper, sizes, limits, bounds, spare, allowed,
    allowed_row, overflow,
):  # fmt: skip
    """The same for one query over int8 codes, bound by reading them; their width is a multiple of 2 * LANES."""
    error, slope, least = spread[0], spread[1][q], spread[2][q]
    out = np.empty(ROW_BLOCK, np.int32)
    stride = codes.shape[1]
    blocks = codes.shape[1] // (2 * LANES)
    for start in range(low, high, ROW_BLOCK):
        first = max(0, min(start, codes.shape[0] - ROW_BLOCK))
        later = codes.ctypes.data + (start + TILE) * stride  # these rows come while others are computed
        for offset in range(0, ROW_BLOCK * stride, LINE):
            prefetch_far(later + offset)
        row_products(codes.ctypes.data + first * stride, stride, query.ctypes.data, blocks, out.ctypes.data)
        for row in range(start, min(start + ROW_BLOCK, high)):
            value = np.float32(out[row - first]) * (step[row] * unit[q]) + np.float32(error[row] * slope + least)
            if value >= bounds[q] and not (hidden.size > 0 and hidden[row]):
                mask = allowed_row[q]
                if mask < 0 or allowed[mask, row]:
                    if sizes[q] == limits[q]:
                        squeeze(q, near, upper, sizes, limits, bounds, spread, k, spare, overflow)
                    if value >= bounds[q]:
                        size = sizes[q]
                        near[q, size] = row
                        upper[q, size] = value
                        sizes[q] = size + 1


@njit(nogil=True, cache=True, parallel=True)
def scan(
    vectors, codes, first_sum, form, size, step, unit, spread, hidden, packed, plain, queries, k, samples, room,
    allowed, allowed_row, threads,
):  # fmt: skip
    """Rows of each query that can be among its k nearest; `form` is WIDENED, CODED or BYTES.

    Many queries are shared out among the threads, few of them share out the rows and have a buffer a thread: every
    buffer finds its own bound, which costs as much for a part of the rows as for all of them.

    `samples` (levels, 2): the bounds of BYTES begin where the best of each first-th row are, second of them, one level
    after the other, which spares most of the rows that come in before a bound has risen. `start` tells what they began
    with: where the k-th best of all rows is below that, rows may be missing.
    """
    lanes = (queries + LANES - 1) // LANES * LANES
    blocks = (queries + 2 * LANES - 1) // (2 * LANES)
    by_query = plain.shape[0] == 0 and blocks >= 2 * threads
    parts = 1 if by_query else threads
    near = np.empty((parts, queries, room), np.int32)
    upper = np.empty((parts, queries, room), np.float32)
    sizes = np.zeros((parts, queries), np.int64)
    overflow = np.zeros((parts, queries), np.bool_)
    start = np.full((parts, queries), -np.inf, np.float32)
    share = (size + parts - 1) // parts
    for t in prange(threads):
        at = np.int64(t)
        part = np.int64(0) if by_query else at
        bounds = np.full(lanes, np.inf, np.float32)
        bounds[:queries] = -np.finfo(np.float32).max
        limits = np.full(queries, room if size <= room else min(room, 2 * k + 16), np.int64)
        spare = np.empty(room, np.float32)
        low, high = min(size, part * share), min(size, (part + 1) * share)
        if plain.shape[0]:
            for q in range(queries):
                scan_rows(
                    codes, step, unit, spread, hidden, plain[q], q, k, low, high, near[part], upper[part], sizes[part],
                    limits, bounds, spare, allowed, allowed_row, overflow[part],
                )  # fmt: skip
        else:
            ahead = at * blocks // threads * 2 * LANES if by_query else 0
            behind = min(queries, (at + 1) * blocks // threads * 2 * LANES) if by_query else queries
            for level in range(samples.shape[0]):
                every, few = samples[level]
                first, behind_last = (low + every - 1) // every, (high + every - 1) // every
                fewer = np.full(queries, room if behind_last - first <= room else min(room, 2 * few + 16), np.int64)
                scan_bytes(
                    codes, first_sum, step, unit, spread, hidden, packed.view(np.uint8), queries, few, first,
                    behind_last, every, ahead, behind, near[part], upper[part], sizes[part],
                    fewer if level == 0 else limits, bounds, spare, allowed, allowed_row, overflow[part],
                )  # fmt: skip
                foresee(
                    ahead, behind, few, near[part], upper[part], sizes[part], limits, start[part], bounds, spread,
                    spare, overflow[part],
                )  # fmt: skip
            if form == BYTES:
                scan_bytes(
                    codes, first_sum, step, unit, spread, hidden, packed.view(np.uint8), queries, k, low, high, 1,
                    ahead, behind, near[part], upper[part], sizes[part], limits, bounds, spare, allowed, allowed_row,
                    overflow[part],
                )  # fmt: skip
            else:
                scan_tiles(
                    vectors, codes, form == CODED, step, unit, spread, hidden, packed, queries, k, low, high, ahead,
                    behind, near[part], upper[part], sizes[part], limits, bounds, spare, allowed, allowed_row,
                    overflow[part],
                )  # fmt: skip
    return near, upper, sizes, overflow, start


@njit(nogil=True, cache=True, parallel=True)
def dense(vectors, scale, packed, queries, owner, out, threads):
    """1 - product of every row and query, transposed a tile at a time; rows with an owner lower what it has."""
    size, width = vectors.shape
    pairs = (width + 1) // 2
    lanes = (queries + LANES - 1) // LANES * LANES
    step = (size + threads - 1) // threads
    for t in prange(threads):
        bounds = np.full(lanes, np.inf, np.float32)
        wide = np.zeros((TILE, 2 * pairs), np.int16)
        scales, shifts = np.full(TILE, -scale, np.float32), np.full(TILE, 1.0, np.float32)
        block = np.empty((TILE, 2 * LANES), np.float32)
        hits = np.empty(ROWS_ONE, np.int64)
        stride = wide.shape[1] * 2
        high = min(size, (t + 1) * step)
        for start in range(min(size, t * step), high, TILE):
            stop = min(start + TILE, high)
            widen(vectors, np.zeros((1, 1), np.int8), False, start, stop, wide)
            for first in range(0, queries, 2 * LANES):
                two = first + LANES < queries
                across = 2 * LANES if two else LANES
                tall = ROWS if two else ROWS_ONE
                for i in range(0, stop - start, tall):
                    args = (
                        wide.ctypes.data + i * stride, stride, packed.ctypes.data + first * pairs * 4, pairs,
                        scales.ctypes.data, shifts.ctypes.data, bounds.ctypes.data + 4 * first,
                        block.ctypes.data + 4 * across * i, hits.ctypes.data,
                    )  # fmt: skip
                    if two:
                        tile_two(*args)
                    else:
                        tile_one(*args)
                flat = block.reshape(-1)
                for j in range(min(across, queries - first)):
                    line = out[first + j]
                    if owner.size == 0:
                        for i in range(stop - start):
                            line[start + i] = flat[i * across + j]
                        continue
                    for i in range(stop - start):
                        at = owner[start + i]
                        if 0 <= at < line.size:
                            line[at] = min(line[at], flat[i * across + j])
