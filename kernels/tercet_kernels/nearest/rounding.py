"""Rows and queries of unit norm as integers, with what rounding left out."""

import numpy as np
from numba import njit, prange

ONE = 32768.0  # the code of 1.0 in int16


@njit(nogil=True, cache=True, inline="always")
def widen(vectors, codes, coded, start, stop, out):
    """Rows as int16: rounded from float32 at ONE, or int8 codes as they are; rows past `stop` repeat the last."""
    width = vectors.shape[1]
    for i in range(out.shape[0]):
        row = min(start + i, stop - 1)
        if coded:
            for d in range(width):
                out[i, d] = codes[row, d]
        else:
            for d in range(width):
                value = vectors[row, d] * np.float32(ONE)
                value = min(max(value, np.float32(-32767.0)), np.float32(32767.0))
                out[i, d] = np.int16(np.rint(value))


@njit(nogil=True, cache=True)
def round_queries(queries, longest, ints):
    """int16 queries with one step; (step, largest norm of what rounding left out, largest norm of a query)."""
    largest, norm, left = 0.0, 1.0, 0.0
    for q in range(queries.shape[0]):
        total = 0.0
        for d in range(queries.shape[1]):
            value = np.float64(queries[q, d])
            largest = max(largest, abs(value))
            total += value * value
        norm = max(norm, np.sqrt(total) * 1.000001)
    unit = max(largest / 32767.0, norm * longest / (0.98 * 2.0**31))
    for q in range(queries.shape[0]):
        total = 0.0
        for d in range(queries.shape[1]):
            code = np.rint(queries[q, d] / unit)
            ints[q, d] = np.int16(code)
            total += (queries[q, d] - code * unit) ** 2
        left = max(left, np.sqrt(total) * 1.000001)
    return unit, left, norm


@njit(nogil=True, cache=True, fastmath={"reassoc", "nsz", "contract"})
def round_bytes(queries, width, lanes, packed, unit, left, made):
    """Queries as uint8, each with a step of its own and 128 more an element; upper bounds of the norms of what rounding
    left out and of what it made.

    Args:
        width: of the rows of codes, a multiple of 4. lanes: queries of a block.
        packed: uint8, of 128 at first: blocks of queries, in each (four, query, 4); a last block of half as many.
    """
    count, given = queries.shape
    row = np.full(width, 128, np.uint8)
    fours, out = row.view(np.int32), packed.view(np.int32)
    for q in range(count):
        query = queries[q]
        largest = np.float32(0.0)
        for d in range(given):
            largest = max(largest, abs(query[d]))
        step = np.float32(largest / np.float32(127.0))
        inverse = np.float32(0.0) if step == 0.0 else np.float32(1.0) / step
        rest, total = 0.0, 0.0
        for d in range(given):
            code = np.rint(min(max(query[d] * inverse, np.float32(-127.0)), np.float32(127.0)))
            row[d] = np.uint8(np.int32(code) + 128)
            value = np.float64(step) * np.float64(code)
            rest += (np.float64(query[d]) - value) ** 2
            total += value * value
        unit[q] = step
        left[q] = np.sqrt(rest) * 1.000001
        made[q] = np.sqrt(total) * 1.000001
        first = q // lanes * lanes
        across = min(lanes, unit.size - first)
        for f in range(fours.size):
            out[first * fours.size + f * across + q - first] = fours[f]


@njit(nogil=True, cache=True, parallel=True)
def encode(vectors, codes, scale, error, first_sum, threads):
    """int8 codes of rows with a step each, the norm of what rounding left out, and -128 times the sum of the codes."""
    rows, width = vectors.shape
    step = (rows + threads - 1) // threads
    for t in prange(threads):
        for i in range(min(rows, t * step), min(rows, (t + 1) * step)):
            largest = np.float32(0.0)
            for d in range(width):
                largest = max(largest, abs(vectors[i, d]))
            unit = np.float32(largest / np.float32(127.0))
            inverse = np.float32(0.0) if unit == 0.0 else np.float32(1.0) / unit
            left, total = 0.0, np.int64(0)
            for d in range(width):
                code = np.rint(min(max(vectors[i, d] * inverse, np.float32(-127.0)), np.float32(127.0)))
                codes[i, d] = np.int8(code)
                total += np.int64(code)
                rest = np.float64(vectors[i, d]) - np.float64(unit) * np.float64(code)
                left += rest * rest
            scale[i] = unit
            error[i] = np.sqrt(left) * 1.000001
            first_sum[i] = -128 * total
