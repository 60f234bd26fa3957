"""Numba form of `edge_search`: walk the lists of the nearest nodes, and score exactly what lower bounds let through."""

import numpy as np
from numba import njit, prange

from tercet_kernels._simd import lowest_bit, prefetch, wide_dot
from tercet_kernels.edge_filter.cpu import compact, sink
from tercet_kernels.term_floors.simd import RUN, float_at, set_bits, within

LANES = 16
LARGEST = 255
SAMPLED = 64  # runs of a table that a level is chosen from
ROUNDOFF = 1e-6
FAR = 1 << 30  # more steps than any bound
KNOWN, WALKED = 1, 2  # what is noted of a node: its term is exact, its lists have been walked


@njit(nogil=True, cache=True)
def distance(x, y, width, lanes):
    """The distance of `pair_distances` of two float32 rows at addresses."""
    whole = width - width % LANES
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
def walk(
    chosen, out, into, key, node_floor, key_floor, weights, rows, query, width, penalty, step, least, q, state, term,
    heap, found, lanes, at,
):  # fmt: skip
    """Walk the lists of some nodes, ascending by their bytes; returns (bound, size, list entries read, done).

    `at` is what an earlier walk returned. A size of -1: the buffer can't hold what is within the bound. Arrays are
    unpacked here once: to count their references costs more than an edge.
    """
    out_indptr, out_edge, out_end = out
    in_indptr, in_edge, in_end = into
    node_factor, edge_importance = weights
    node_row, key_row = rows
    edges, scores = found
    bound, size, read, _ = at
    last_node, last_edge, last_key = node_factor.size - 1, edge_importance.size - 1, key_row.size
    limit = np.int64(FAR) if bound == np.inf else np.int64(bound / step + ROUNDOFF)
    mark = 4 * q
    for i in range(chosen.size):
        u = chosen[i]
        a = np.int64(node_floor[u])
        if 2 * a + least > limit:  # an edge within the bound has an end of at most half of what its relation leaves
            return bound, size, read, True
        if i + 2 < chosen.size:  # lists lie anywhere
            after = chosen[i + 2]
            prefetch(out_end.ctypes.data + 4 * out_indptr[after])
            prefetch(in_end.ctypes.data + 4 * in_indptr[after])
            prefetch(out_edge.ctypes.data + 4 * out_indptr[after])
            prefetch(in_edge.ctypes.data + 4 * in_indptr[after])
        middle = out_indptr[u + 1] - out_indptr[u]
        entries = middle + in_indptr[u + 1] - in_indptr[u]
        read += entries
        for j in range(entries):
            first = j < middle
            place = out_indptr[u] + j if first else in_indptr[u] + (j - middle)
            w = out_end[place] if first else in_end[place]
            both = a + np.int64(node_floor[w])
            if both + least > limit:
                continue
            e = out_edge[place] if first else in_edge[place]
            r = key[e]
            if both + np.int64(key_floor[r if r >= 0 else last_key]) > limit:
                continue
            seen = state[w] - mark if state[w] >= mark else 0
            if seen & WALKED or (w == u and not first):
                continue
            if not seen & KNOWN:
                term[w] = penalty if node_row[w] == 0 else distance(query, node_row[w], width, lanes)
                term[w] *= node_factor[min(w, last_node)]
                state[w] = mark + KNOWN
            if state[u] < mark:
                term[u] = penalty if node_row[u] == 0 else distance(query, node_row[u], width, lanes)
                term[u] *= node_factor[min(u, last_node)]
                state[u] = mark + KNOWN
            ends = term[u] + term[w]  # in either order the same
            if ends > bound:
                continue
            row = key_row[r] if r >= 0 else 0
            own = penalty if row == 0 else distance(query, row, width, lanes)
            x = ends + own * (2.0 - edge_importance[min(e, last_edge)])
            if not (x <= bound and x < np.inf):
                continue
            if x < heap[0]:
                sink(heap, heap.size, x)
                bound = heap[0] + ROUNDOFF * (1.0 + abs(heap[0]))
                if bound < np.inf:
                    limit = np.int64(bound / step + ROUNDOFF)
            if size == edges.size:
                size = compact(edges, scores, size, bound)
                if 2 * size > edges.size:
                    return bound, -1, read, True
            edges[size] = e
            scores[size] = x
            size += 1
        state[u] = (mark if state[u] < mark else state[u]) | WALKED
    return bound, size, read, False


@njit(nogil=True, cache=True)
def search(
    out, into, key, node_floor, key_floor, weights, rows, query, width, penalty, step, most, seeds, q, state, term,
    near, order, places, heap, found, lanes,
):  # fmt: skip
    """Edges within the k-th smallest score; (how many or -1, list entries read)."""
    nodes = out[0].size - 1
    runs = (nodes + RUN - 1) // RUN
    table = node_floor.ctypes.data
    least = smallest(key_floor)
    at = (np.inf, 0, 0, False)
    walked, aim = -1, seeds
    out_indptr, in_indptr = out[0], into[0]
    while not at[3] and walked < LARGEST:
        half = LARGEST
        if at[0] < np.inf:
            half = min(half, (np.int64(at[0] / step + ROUNDOFF) - least) // 2)
        if half <= walked:
            break
        upto = half if aim >= nodes else max(walked + 1, min(half, level(table, runs, aim)))
        size = collect(node_floor, runs, nodes, walked, upto, near, order, places)
        total = at[2]
        for i in range(size):
            u = order[i]
            total += out_indptr[u + 1] - out_indptr[u] + in_indptr[u + 1] - in_indptr[u]
        if total > most:  # before any of it is read
            return -1, at[2]
        at = walk(
            order[:size], out, into, key, node_floor, key_floor, weights, rows, query, width, penalty, step, least, q,
            state, term, heap, found, lanes, at,
        )  # fmt: skip
        if at[1] < 0:
            break
        walked = upto
        aim *= 8
    if at[1] < 0 or not at[0] < np.inf:
        return -1, at[2]
    return compact(found[0], found[1], at[1], at[0]), at[2]


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
        state = np.zeros(nodes, np.int32)
        term = np.empty(nodes, np.float64)
        near, order = np.empty(nodes, np.int32), np.empty(nodes, np.int32)
        places = np.empty(LARGEST + 2, np.int64)
        scores = np.empty(room, np.float64)
        lanes = np.empty(LANES, np.float64)
        for q in range(t, count, threads):
            size, read[q] = search(
                out, into, key, node_floor[q], key_floor[q], weights, rows, queries.ctypes.data + 4 * width * q, width,
                penalty, step, most, seeds, q + 1, state, term, near, order, places, np.full(k, np.inf),
                (kept[q], scores), lanes,
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
