"""Numba form of `edge_search`: walk the lists of the nearest nodes, and score exactly what lower bounds let through."""

import numpy as np
from numba import njit, prange

from tercet_kernels._simd import folded_dot, lowest_bit, prefetch, prefetch_far, wide_dot
from tercet_kernels.edge_filter.cpu import compact, sink
from tercet_kernels.term_floors.simd import RUN, float_at, set_bits, within

LANES = 16
LARGEST = 255
SAMPLED = 64  # runs of a table that a level is chosen from
ROUNDOFF = 1e-6
FAR = 1 << 30  # more steps than any bound
LINE = 64  # bytes that come from memory together
AHEAD = 10  # nodes whose lists are fetched ahead
PASSED, WAITING = 256, 2048  # edges whose keys are fetched together, and that are scored in order
GROWTH = 8  # how many times more nodes are walked after each bound


@njit(nogil=True, cache=True)
def distance(x, y, width, lanes):
    """The distance of `pair_distances` of two float32 rows at addresses."""
    whole = width - width % LANES
    if whole == width and whole:
        return np.float64(np.float32(min(max(1.0 - folded_dot(x, y, whole // LANES), 0.0), 2.0)))
    if whole:
        wide_dot(x, y, whole // LANES, lanes.ctypes.data)
    else:
        lanes[:] = 0.0
    for i in range(width - whole):
        lanes[i] += np.float64(float_at(x + 4 * (whole + i))) * np.float64(float_at(y + 4 * (whole + i)))
    half = LANES // 2
    while half > 0:
        for i in range(half):
            lanes[i] += lanes[half + i]
        half //= 2
    return np.float64(np.float32(min(max(1.0 - lanes[0], 0.0), 2.0)))


@njit(nogil=True, cache=True)
def smallest(floors):
    least = np.uint8(LARGEST)
    for i in range(floors.size):
        x = floors[i]
        least = x if x < least else least
    return np.int64(least)


@njit(nogil=True, cache=True)
def level(table, runs, aim):
    """The lowest level that about `aim` bytes are within, from a sample of runs; LARGEST if there are fewer."""
    apart = max(1, runs // SAMPLED)
    low, high = 0, LARGEST
    while low < high:
        middle = (low + high) // 2
        found = 0
        for i in range(0, runs, apart):
            found += set_bits(within(table + i * RUN, middle))
        if found * apart >= aim:
            high = middle
        else:
            low = middle + 1
    return low


@njit(nogil=True, cache=True)
def collect(floors, runs, nodes, above, upto, near, order, places):
    """The nodes with `above` < byte <= `upto`, ascending by (byte, node), in `order`; returns how many."""
    size = 0
    table = floors.ctypes.data
    for i in range(runs):
        word = within(table + i * RUN, upto)
        if word != 0 and above >= 0:
            word &= ~within(table + i * RUN, above)
        while word != 0:
            u = i * RUN + lowest_bit(word)
            word &= word - 1
            if u < nodes:
                near[size] = u
                size += 1
    places[:] = 0
    for i in range(size):
        places[floors[near[i]] + 1] += 1
    for x in range(LARGEST + 1):
        places[x + 1] += places[x]
    for i in range(size):
        x = floors[near[i]]
        order[places[x]] = near[i]
        places[x] += 1
    return size


@njit(nogil=True, cache=True)
def known(u, rows, factor, query, width, penalty, mark, state, term, lanes):
    """The exact term of a node; kept for the query."""
    if state[u] != mark:
        raw = penalty if rows[u] == 0 else distance(query, rows[u], width, lanes)
        term[u] = raw * factor[min(u, factor.size - 1)]
        state[u] = mark
    return term[u]


@njit(nogil=True, cache=True)
def settle(
    waiting, count, key, weights, rows, query, width, penalty, step, mark, state, term, heap, found, lanes, bound, size
):  # fmt: skip
    """Score the edges that wait exactly, at first those of the lowest bounds; (bound, size), as in `walk`."""
    order, ends, edge = waiting
    node_factor, edge_importance = weights
    node_row, key_row = rows
    edges, scores = found
    if bound == np.inf:  # later there are few
        order[:count].sort()
    for i in range(count):
        if bound < np.inf and (order[i] >> 32) > np.int64(bound / step + ROUNDOFF):
            continue
        at = order[i] & 0xFFFFFFFF
        e = edge[at]
        r = key[e]
        row = key_row[r] if r >= 0 else 0
        if row:  # rows lie anywhere: this one comes while those of the ends are read
            for offset in range(0, 4 * width, LINE):
                prefetch_far(row + offset)
        x = 0.0
        for j in range(2):
            x += known(ends[at, j], node_row, node_factor, query, width, penalty, mark, state, term, lanes)
        if x > bound:
            continue
        own = penalty if row == 0 else distance(query, row, width, lanes)
        x += own * (2.0 - edge_importance[min(e, edge_importance.size - 1)])
        if not (x <= bound and x < np.inf):
            continue
        if x < heap[0]:
            sink(heap, heap.size, x)
            bound = heap[0] + ROUNDOFF * (1.0 + abs(heap[0]))
        if size == edges.size:
            size = compact(edges, scores, size, bound)
            if 2 * size > edges.size:
                return bound, -1
        edges[size] = e
        scores[size] = x
        size += 1
    return bound, size


@njit(nogil=True, cache=True)
def walk(
    chosen, out, into, key, node_floor, key_floor, weights, rows, query, width, penalty, step, least, mark, state, term,
    heap, found, lanes, passed, waiting, bound, size,
):  # fmt: skip
    """Walk the lists of some nodes, ascending by (byte, node); returns (bound, size, list entries read, done).

    An edge is taken where it is met first: at the end that comes first in that order. What passes by its ends waits
    until its key has come from memory, and what passes by its key too waits to be scored. A size of -1: the buffer
    can't hold what is within the bound. Arrays are unpacked here once: to count their references costs more than an
    edge.
    """
    out_indptr, out_edge, out_end = out
    in_indptr, in_edge, in_end = into
    order, ends, edge = waiting
    last_key, read = rows[1].size, np.int64(0)
    limit = np.int64(FAR) if bound == np.inf else np.int64(bound / step + ROUNDOFF)
    few, waits = np.int64(0), np.int64(0)
    done = False
    for i in range(chosen.size + 1):
        over = i == chosen.size
        u, a = -1, np.int64(0)
        if not over:
            u = chosen[i]
            a = np.int64(node_floor[u])
            done = over = 2 * a + least > limit  # an edge within the bound has an end of at most half of the rest
            if i + AHEAD < chosen.size:  # lists lie anywhere
                after = chosen[i + AHEAD]
                prefetch(out_end.ctypes.data + 4 * out_indptr[after])
                prefetch(in_end.ctypes.data + 4 * in_indptr[after])
                prefetch(out_edge.ctypes.data + 4 * out_indptr[after])
                prefetch(in_edge.ctypes.data + 4 * in_indptr[after])
        for side in range(2):  # the list by source, then that by target
            place = stop = np.int64(0)
            if not over:
                place, stop = (in_indptr[u], in_indptr[u + 1]) if side else (out_indptr[u], out_indptr[u + 1])
            read += stop - place
            while place < stop or (over and side == 1):
                end = np.int64(min(stop, place + PASSED - few))
                # without branches, which nothing could foretell: what doesn't pass is written over
                if side == 0:
                    for j in range(place, end):
                        w = out_end[j]
                        both = a + np.int64(node_floor[w])
                        passed[0, few], passed[1, few], passed[2, few], passed[3, few] = u, w, out_edge[j], both
                        few += np.int64((both + least <= limit) & ((both > 2 * a) | ((both == 2 * a) & (w >= u))))
                else:
                    for j in range(place, end):
                        w = in_end[j]
                        both = a + np.int64(node_floor[w])
                        passed[0, few], passed[1, few], passed[2, few], passed[3, few] = u, w, in_edge[j], both
                        few += np.int64((both + least <= limit) & ((both > 2 * a) | ((both == 2 * a) & (w > u))))
                place = end
                if few == PASSED or over:
                    for n in range(few):
                        prefetch(key.ctypes.data + 4 * np.int64(passed[2, n]))
                    for n in range(few):
                        r = key[passed[2, n]]
                        lower = np.int64(passed[3, n]) + np.int64(key_floor[r if r >= 0 else last_key])
                        order[waits] = (lower << 32) | waits
                        ends[waits, 0], ends[waits, 1], edge[waits] = passed[0, n], passed[1, n], passed[2, n]
                        waits += np.int64(lower <= limit)
                    few = np.int64(0)
                    if waits > edge.size - 2 * PASSED or (over and waits > 0):
                        bound, size = settle(
                            waiting, waits, key, weights, rows, query, width, penalty, step, mark, state, term, heap,
                            found, lanes, bound, size,
                        )  # fmt: skip
                        if size < 0:
                            return bound, size, read, True
                        if bound < np.inf:
                            limit = np.int64(bound / step + ROUNDOFF)
                        waits = np.int64(0)
                if over:
                    break
        if over:
            break
    return bound, size, read, done


@njit(nogil=True, cache=True)
def search(
    out, into, key, node_floor, key_floor, weights, rows, query, width, penalty, step, most, seeds, mark, state, term,
    near, order, places, heap, found, lanes, passed, waiting,
):  # fmt: skip
    """Edges within the k-th smallest score; (how many or -1, list entries read)."""
    nodes = out[0].size - 1
    runs = (nodes + RUN - 1) // RUN
    table = node_floor.ctypes.data
    least = smallest(key_floor)
    bound, size, read, done = np.inf, 0, 0, False
    walked, aim = -1, seeds
    out_indptr, in_indptr = out[0], into[0]
    while not done and walked < LARGEST:
        half = LARGEST
        if bound < np.inf:
            half = min(half, (np.int64(bound / step + ROUNDOFF) - least) // 2)
        if half <= walked:
            break
        upto = half if aim >= nodes else max(walked + 1, min(half, level(table, runs, aim)))
        count = collect(node_floor, runs, nodes, walked, upto, near, order, places)
        total = read
        for i in range(count):
            u = order[i]
            total += out_indptr[u + 1] - out_indptr[u] + in_indptr[u + 1] - in_indptr[u]
        if total > most:  # before any of it is read
            return -1, read
        bound, size, more, done = walk(
            order[:count], out, into, key, node_floor, key_floor, weights, rows, query, width, penalty, step, least,
            mark, state, term, heap, found, lanes, passed, waiting, bound, size,
        )  # fmt: skip
        read += more
        if size < 0:
            return -1, read
        walked = upto
        aim *= GROWTH
    return (compact(found[0], found[1], size, bound), read) if bound < np.inf else (-1, read)


@njit(nogil=True, cache=True, parallel=True)
def edge_search(
    out, into, key, node_floor, key_floor, weights, rows, queries, penalty, step, k, seeds, most, threads
):  # fmt: skip
    count, width = queries.shape
    nodes = out[0].size - 1
    room = 8 * k + 1024
    kept = np.empty((count, room), np.int32)
    sizes = np.zeros(count + 1, np.int64)
    open_ = np.zeros(count, np.bool_)
    read = np.zeros(count, np.int64)
    for t in prange(threads):
        state, term = np.zeros(nodes, np.int32), np.empty(nodes, np.float64)
        near, order = np.empty(nodes, np.int32), np.empty(nodes, np.int32)
        places = np.empty(LARGEST + 2, np.int64)
        scores, lanes = np.empty(room, np.float64), np.empty(LANES, np.float64)
        passed = np.empty((4, PASSED + 1), np.int32)
        waiting = np.empty(WAITING, np.int64), np.empty((WAITING, 2), np.int32), np.empty(WAITING, np.int32)
        for q in range(t, count, threads):
            size, read[q] = search(
                out, into, key, node_floor[q], key_floor[q], weights, rows, queries.ctypes.data + 4 * width * q, width,
                penalty, step, most, seeds, q + 1, state, term, near, order, places, np.full(k, np.inf),
                (kept[q], scores), lanes, passed, waiting,
            )  # fmt: skip
            if size < 0:
                open_[q] = True
            else:
                sizes[q + 1] = size
    indptr = np.cumsum(sizes)
    edge = np.empty(indptr[-1], np.int32)
    for q in prange(count):
        part = kept[q, : sizes[q + 1]].copy()
        part.sort()
        edge[indptr[q] : indptr[q + 1]] = part
    return indptr, edge, open_, read
