"""Numba form of `personalized_pagerank`: power iteration over lists of where a node is entered from.

A tile of queries is iterated together, so an entry of the lists is read once for all of them. A query that is done
leaves its column of the tile to the next one. Threads share the nodes of a tile in blocks; the sums of a query are
those of its blocks, in order, so neither the tile nor the threads change its bits.
"""

import numpy as np
from numba import njit, prange

from tercet_kernels.heap.cpu import push, unheap
from tercet_kernels.personalized_pagerank.simd import WIDTH, finish, pull, pull_shares

BLOCK = 512  # nodes whose new values are closed while they are still in the first cache (32 KB for 8 queries)


@njit(nogil=True, cache=True)
def read_seeds(indptr, seed, mass, damping, size):
    """Each query's seeds ascending by node, each once, with masses that add up to 1; count -1: the query fails."""
    queries = indptr.size - 1
    node, part, count = np.empty(seed.size, np.int32), np.empty(seed.size, np.float64), np.empty(queries, np.int64)
    for q in range(queries):
        low, high = indptr[q], indptr[q + 1]
        count[q] = -1
        if 0.0 < damping[q] < 1.0 and fit(seed[low:high], mass[low:high], size):
            count[q] = merged(seed[low:high], mass[low:high], node[low:high], part[low:high])
    return node, part, count


@njit(nogil=True, cache=True)
def fit(seed, mass, size):
    top = 0.0
    for i in range(seed.size):
        if seed[i] < 0 or seed[i] >= size or not 0.0 <= mass[i] < np.inf:
            return False
        top = max(top, mass[i])
    return top > 0.0


@njit(nogil=True, cache=True)
def merged(seed, mass, node, part):
    """Fill `node` and `part`; returns how many. Masses are taken as parts of the largest, so no sum overflows."""
    order = np.argsort(seed, kind="mergesort")
    top = mass.max()
    end, total = 0, 0.0
    for i in order:
        if mass[i] == 0.0:
            continue
        if end == 0 or node[end - 1] != seed[i]:
            node[end], part[end] = seed[i], 0.0
            end += 1
        part[end - 1] += mass[i] / top
        total += mass[i] / top
    for i in range(end):
        part[i] /= total
    return end


@njit(nogil=True, cache=True)
def step(walk, old, new, damping, column, seeds, back, block, sums):
    """One step for a block of a tile's nodes; `sums` (2, T) gets the change and the mass at dangling nodes."""
    low, high = block * BLOCK, min(old.shape[0], block * BLOCK + BLOCK)
    indptr, near, share, scale, inverse, dangling = walk
    begin, count, node, part = seeds
    width = old.shape[1]
    if width == WIDTH:
        for v in range(low, high):
            at, entries = indptr[v], indptr[v + 1] - indptr[v]
            here = new.ctypes.data + v * 8 * WIDTH
            if entries == 0:
                new[v, :] = 0.0
            elif share.size:
                pull_shares(
                    near.ctypes.data + 4 * at, share.ctypes.data + 8 * at, entries, old.ctypes.data,
                    damping.ctypes.data, here,
                )  # fmt: skip
            else:
                pull(near.ctypes.data + 4 * at, entries, old.ctypes.data, damping.ctypes.data, here)
    else:
        for v in range(low, high):
            total = 0.0
            if share.size:
                for i in range(indptr[v], indptr[v + 1]):
                    total += share[i] * old[np.uint32(near[i]), 0]
            else:
                for i in range(indptr[v], indptr[v + 1]):
                    total += old[np.uint32(near[i]), 0]
            new[v, 0] = damping[0] * total
    for t in range(width):
        q = column[t]
        if q >= 0:
            at, end = begin[q], begin[q] + count[q]
            at += np.searchsorted(node[at:end], low)
            while at < end and node[at] < high:
                new[node[at], t] += back[t] * part[at]
                at += 1
    if width == WIDTH:
        finish(
            new.ctypes.data + low * 8 * WIDTH, old.ctypes.data + low * 8 * WIDTH, scale.ctypes.data + 8 * low,
            inverse.ctypes.data + 8 * low, dangling.ctypes.data + 8 * low, high - low, sums.ctypes.data,
        )  # fmt: skip
    else:
        change, lost = 0.0, 0.0
        for v in range(low, high):
            x = new[v, 0]
            change += abs(x - old[v, 0] * scale[v])
            lost += x * dangling[v]
            new[v, 0] = x * inverse[v]
        sums[0, 0], sums[1, 0] = change, lost


@njit(nogil=True, cache=True)
def enter(walk, tile, t, q, seeds):
    """Put a query's seeds into a column of the tile; returns the mass at dangling nodes."""
    inverse, dangling = walk[4], walk[5]
    begin, count, node, part = seeds
    for v in range(tile.shape[0]):
        tile[v, t] = 0.0
    lost = 0.0
    if q >= 0:
        for i in range(begin[q], begin[q] + count[q]):
            tile[node[i], t] = part[i] * inverse[node[i]]
            lost += part[i] * dangling[node[i]]
    return lost


@njit(nogil=True, cache=True)
def leave(scale, column, node, score, k):
    """Write a finished column: the scores that there is a place for (k < 0), or the best k of those above 0."""
    if k < 0:
        for v in range(score.size):
            score[v] = column[v] * scale[v]
        return
    key, row, unused = np.empty(k, np.float64), np.empty(k, np.int32), np.empty((k, 3), np.int32)
    size = 0
    for v in range(column.size):
        x = column[v] * scale[v]
        if x > 0.0 and (size < k or -x < key[0]):  # an equal score with a larger row never gets in
            size = push(key, row, unused, size, -x, np.int32(v), 0, 0, 0)
    unheap(key, row, unused, size)
    for i in range(k):
        node[i] = row[i] if i < size else -1
        score[i] = -key[i] if i < size else 0.0


@njit(nogil=True, cache=True)
def refill(count, column, leaves, following, stride):
    """Give the columns that are free their next query, -1 at the end; returns the query after those."""
    for t in range(column.size):
        if leaves[t]:
            while following < count.size and count[following] < 0:
                following += stride
            column[t] = following if following < count.size else -1
            following += stride
    return following


@njit(nogil=True, cache=True)
def prepare(damping, column, lost, rate, back):
    for t in range(column.size):
        rate[t] = damping[column[t]] if column[t] >= 0 else 0.0
        back[t] = 1.0 - rate[t] * (1.0 - lost[t])


@njit(nogil=True, cache=True)
def account(sums, column, lost, leaves, rule, done):
    """Add up the blocks' sums of a step, in order, and note which columns are done with."""
    tolerance, most = rule
    residual, iterations, converged = done
    for t in range(column.size):
        q = column[t]
        change, lost[t], leaves[t] = 0.0, 0.0, False
        for b in range(sums.shape[0]):
            change += sums[b, 0, t]
            lost[t] += sums[b, 1, t]
        if q >= 0:
            iterations[q] += 1
            residual[q] = change
            converged[q] = change <= tolerance
            leaves[t] = converged[q] or iterations[q] >= most


@njit(nogil=True, cache=True)
def buffers(size, width):
    """(sums of blocks, column, leaves, lost, rate, back) of a tile whose columns are free."""
    sums = np.zeros(((size + BLOCK - 1) // BLOCK, 2, width), np.float64)
    return (
        sums, np.full(width, -1, np.int64), np.ones(width, np.bool_), np.zeros(width), np.zeros(width),
        np.zeros(width),
    )  # fmt: skip


@njit(nogil=True, cache=True, parallel=True)
def together(walk, seeds, damping, rule, tile, k, node, score, done, threads):
    """Iterate all queries through the columns of one tile (2, N, T), old and new values; threads share its blocks."""
    size, width = tile.shape[1], tile.shape[2]
    sums, column, leaves, lost, rate, back = buffers(size, width)
    following, now = 0, 0
    while True:
        following = refill(seeds[1], column, leaves, following, 1)
        for p in prange(threads):
            for t in range(p, width, threads):
                if leaves[t]:
                    lost[t] = enter(walk, tile[now], t, column[t], seeds)
        if column.max() < 0:
            return
        leaves[:] = False
        while not leaves.any():
            prepare(damping, column, lost, rate, back)
            for p in prange(threads):
                for b in range(p, sums.shape[0], threads):
                    step(walk, tile[now], tile[1 - now], rate, column, seeds, back, b, sums[b])
            now = 1 - now
            account(sums, column, lost, leaves, rule, done)
        for p in prange(threads):
            for t in range(p, width, threads):
                if leaves[t]:
                    leave(walk[3], tile[now, :, t], node[column[t]], score[column[t]], k)


@njit(nogil=True, cache=True, parallel=True)
def apart(walk, seeds, damping, rule, tiles, k, node, score, done, threads):
    """As `together`, with a tile (threads, 2, N, T) and a share of the queries for each thread: nobody waits."""
    for p in prange(threads):
        alone(walk, seeds, damping, rule, tiles[p], k, node, score, done, np.int64(p), threads)


@njit(nogil=True, cache=True)
def alone(walk, seeds, damping, rule, tile, k, node, score, done, first, stride):
    size, width = tile.shape[1], tile.shape[2]
    sums, column, leaves, lost, rate, back = buffers(size, width)
    following, now = first, 0
    while True:
        following = refill(seeds[1], column, leaves, following, stride)
        for t in range(width):
            if leaves[t]:
                lost[t] = enter(walk, tile[now], t, column[t], seeds)
        if column.max() < 0:
            return
        leaves[:] = False
        while not leaves.any():
            prepare(damping, column, lost, rate, back)
            for b in range(sums.shape[0]):
                step(walk, tile[now], tile[1 - now], rate, column, seeds, back, b, sums[b])
            now = 1 - now
            account(sums, column, lost, leaves, rule, done)
        for t in range(width):
            if leaves[t]:
                leave(walk[3], tile[now, :, t], node[column[t]], score[column[t]], k)
