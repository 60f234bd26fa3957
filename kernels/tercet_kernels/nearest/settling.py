"""What a scan has left: the rows of all threads together, their exact distances, and their order."""

import numpy as np
from numba import njit, prange

from tercet_kernels.cosine.cpu import LANES, distances
from tercet_kernels.nearest.bounds import tighten


@njit(nogil=True, cache=True)
def collect(q, near, upper, sizes, overflow, start, spread, k, rows, values, spare):
    """The threads' rows of one query together, cut at the bound that all of them give; returns how many.

    A query whose rows don't prove the bound that they began with has none, and counts as overflown.
    """
    size = 0
    for p in range(near.shape[0]):
        if overflow[p, q]:
            overflow[0, q] = True
        for i in range(sizes[p, q]):
            rows[size] = near[p, q, i]
            values[size] = upper[p, q, i]
            size += 1
    if overflow[0, q]:
        return 0
    bound, size = tighten(rows, values, size, q, spread, k, spare)
    for p in range(near.shape[0]):
        if bound < start[p, q]:
            overflow[0, q] = True
    return 0 if overflow[0, q] else size


@njit(nogil=True, cache=True)
def place(keys, out_row, out_distance):
    """The nearest of one query, ascending by (distance, row); distances aren't negative, so their bits ascend too."""
    keys.sort()
    out_bits = out_distance.view(np.int32)
    for i in range(min(out_row.size, keys.size)):
        out_row[i] = np.int32(keys[i] & 0x7FFFFFFF)
        out_bits[i] = np.int32(keys[i] >> 32)


@njit(nogil=True, cache=True)
def settle_some(
    first, threads, near, upper, sizes, overflow, start, spread, k, queries, vectors, out_row, out_distance
):  # fmt: skip
    parts, count, room = near.shape
    rows, keys = np.empty(parts * room, np.int32), np.empty(parts * room, np.int64)
    values, spare = np.empty(parts * room, np.float32), np.empty(parts * room, np.float32)
    bits = values.view(np.int32)
    lanes = np.empty(LANES, np.float64)
    for q in range(first, count, threads):
        size = collect(q, near, upper, sizes, overflow, start, spread, k, rows, values, spare)
        distances(queries, vectors, q, rows[:size], lanes, values)
        for i in range(size):
            keys[i] = (np.int64(bits[i]) << 32) | rows[i]
        place(keys[:size], out_row[q], out_distance[q])


@njit(nogil=True, cache=True, parallel=True)
def settle(near, upper, sizes, overflow, start, spread, k, queries, vectors, out_row, out_distance, threads):
    """What `gather`, exact distances and `cut` give, of float32 rows, a query at a time."""
    for t in prange(threads):
        settle_some(
            np.int64(t), threads, near, upper, sizes, overflow, start, spread, k, queries, vectors, out_row,
            out_distance,
        )  # fmt: skip


@njit(nogil=True, cache=True, parallel=True)
def gather(near, upper, sizes, overflow, start, spread, k, threads):
    """What is left of each query's rows by `collect`; (indptr, row)."""
    parts, queries, room = near.shape
    counts = np.zeros(queries + 1, np.int64)
    kept = np.empty((queries, parts * room), np.int32)
    for t in prange(threads):
        values, spare = np.empty(parts * room, np.float32), np.empty(parts * room, np.float32)
        for q in range(t, queries, threads):
            counts[q + 1] = collect(q, near, upper, sizes, overflow, start, spread, k, kept[q], values, spare)
    indptr = np.cumsum(counts)
    row = np.empty(indptr[-1], np.int32)
    for q in prange(queries):
        row[indptr[q] : indptr[q + 1]] = kept[q, : counts[q + 1]]
    return indptr, row


@njit(nogil=True, cache=True, parallel=True)
def cut(indptr, row, distance, out_row, out_distance, threads):
    """The nearest of each query, ascending by (distance, row)."""
    for t in prange(threads):
        for q in range(t, out_row.shape[0], threads):
            low, high = indptr[q], indptr[q + 1]
            keys = np.empty(high - low, np.int64)
            bits = distance[low:high].view(np.int32)
            for i in range(high - low):
                keys[i] = (np.int64(bits[i]) << 32) | row[low + i]
            place(keys, out_row[q], out_distance[q])
