"""Numba form of `edge_prune`: walk the lists of the nearest nodes until no other node can begin a better edge."""

import numpy as np
from numba import njit, prange

from tercet_kernels.cosine.cpu import LANES, dot
from tercet_kernels.edge_filter.cpu import compact, sink
from tercet_kernels.effective.cpu import effective
from tercet_kernels.nearest.bounds import select

BLOCK = 64  # nodes with one minimum
SAMPLE = 2048  # terms that a limit for the next nodes is guessed from
ROUNDOFF = np.float32(1e-6)


@njit(nogil=True, cache=True, fastmath={"nnan", "nsz", "reassoc"})
def block_minima(term, out):
    for b in range(out.size):
        least = np.float32(np.inf)
        for i in range(b * BLOCK, min(term.size, (b + 1) * BLOCK)):
            x = term[i]
            least = x if x < least else least
        out[b] = least


@njit(nogil=True, cache=True)
def nearest_nodes(term, minima, seeds, spare, out):
    """Nodes whose term is within the `seeds`-th smallest block minimum, ascending by it; returns how many."""
    for b in range(minima.size):
        spare[b] = -minima[b]
    limit = -select(spare, minima.size, min(seeds, minima.size))
    size = 0
    for b in range(minima.size):
        if minima[b] <= limit:
            for i in range(b * BLOCK, min(term.size, (b + 1) * BLOCK)):
                if term[i] <= limit and term[i] < np.inf:
                    out[size] = i
                    size += 1
    chosen = np.empty(size, np.float32)
    for i in range(size):
        chosen[i] = term[out[i]]
    order = np.argsort(chosen)
    out[:size] = out[:size][order]
    return size


@njit(nogil=True, cache=True)
def walk(
    nodes, out, into, keys, rule, term, value_of, query, lanes, least, margin, most, walked, mark, heap, found, at,
):  # fmt: skip
    """Score the edges of some nodes that haven't been scored; returns (bound, size, list entries read).

    `at` is what an earlier walk returned. A size of -1: the buffer can't hold what is within the bound, or more than
    `most` entries would be read. Arrays are unpacked here once: to count their references costs more than an edge.
    """
    out_indptr, out_edge, out_end = out
    in_indptr, in_edge, in_end = into
    key, lazy, key_row, key_vectors = keys
    weighted, importance, feedback, influence, penalty, cliff = rule
    edges, scores = found
    bound, size, read = at
    last = value_of.size - 1
    for i in range(nodes.size):
        u = nodes[i]
        a = term[u]
        # an edge within the bound has an end of at most half of what its relation leaves
        if 2.0 * a + least > bound + ROUNDOFF * (2.0 + abs(bound)):
            continue
        middle = out_indptr[u + 1] - out_indptr[u]
        entries = middle + in_indptr[u + 1] - in_indptr[u]
        read += entries
        if read > most:
            return bound, -1, read
        for j in range(entries):
            first = j < middle
            place = out_indptr[u] + j if first else in_indptr[u] + (j - middle)
            w = out_end[place] if first else in_end[place]
            both = a + term[w]
            if not (both + least <= bound and both < np.inf):
                continue
            if walked[w] == mark or (w == u and not first):
                continue
            e = out_edge[place] if first else in_edge[place]
            r = key[e]
            value = np.float32(np.inf)
            if not lazy:
                value = value_of[r if r >= 0 else last]
            elif r >= 0 and key_row[r] >= 0:
                product = dot(query, key_vectors[key_row[r]], lanes)
                value = np.float32(min(max(1.0 - product, 0.0), 2.0))
            if weighted:
                raw = np.float64(value)
                value = np.float32(
                    effective(raw, np.isfinite(raw), importance[e], feedback[e], influence, penalty, cliff)
                )
            x = both + value
            if not (x <= bound and x < np.inf):
                continue
            if x < heap[0]:
                sink(heap, heap.size, x)
                bound = heap[0] + margin
            if size == edges.size:
                size = compact(edges, scores, size, bound)
                if 2 * size > edges.size:
                    return bound, -1, read
            edges[size] = e
            scores[size] = x
            size += 1
        walked[u] = mark
    return bound, size, read


@njit(nogil=True, cache=True)
def quantile(term, count, spare):
    """About the `count`-th smallest term, from a sample of evenly spaced ones; `spare` holds the sample."""
    size = min(spare.size, term.size)
    step = term.size // size
    for i in range(size):
        spare[i] = -term[i * step]
    return -select(spare, size, min(size, max(1, count * size // term.size)))


@njit(nogil=True, cache=True)
def within(term, minima, limit, walked, mark, out):
    """The nodes with a term of at most `limit` that weren't walked, ascending; returns how many."""
    size = 0
    for b in range(minima.size):
        if minima[b] <= limit:
            for u in range(b * BLOCK, min(term.size, (b + 1) * BLOCK)):
                if term[u] <= limit and walked[u] != mark:
                    out[size] = u
                    size += 1
    return size


@njit(nogil=True, cache=True)
def count_entries(nodes, out, into, most):
    """List entries of some nodes, as far as `most`."""
    total = 0
    for i in range(nodes.size):
        u = nodes[i]
        total += out[u + 1] - out[u] + into[u + 1] - into[u]
        if total > most:
            break
    return total


@njit(nogil=True, cache=True)
def prune(
    out, into, keys, rule, term, value_of, query, lanes, least, margin, most, seeds, walked, mark, minima, spare, near,
    heap, found,
):  # fmt: skip
    """Edges within the k-th smallest score plus the margin; (how many or -1, list entries read)."""
    block_minima(term, minima)
    count = nearest_nodes(term, minima, seeds, spare, near)
    bound, size, read = walk(
        near[:count], out, into, keys, rule, term, value_of, query, lanes, least, margin, most, walked, mark, heap,
        found, (np.float32(np.inf), 0, 0),
    )  # fmt: skip
    aim = seeds
    while size >= 0:
        aim = min(8 * aim, term.size)
        half = np.float32(0.5) * (bound - least) + ROUNDOFF * (np.float32(1.0) + abs(bound))
        limit = half if aim == term.size else min(half, quantile(term, aim, spare))
        count = within(term, minima, limit, walked, mark, near)
        if read + count_entries(near[:count], out[0], into[0], most) > most:  # before any of it is read
            return -1, read
        bound, size, read = walk(
            near[:count], out, into, keys, rule, term, value_of, query, lanes, least, margin, most, walked, mark, heap,
            found, (bound, size, read),
        )  # fmt: skip
        if limit == half or aim == term.size:  # what is farther can't begin an edge within the bound, which only falls
            break
    if size < 0 or not bound < np.inf:
        return -1, read
    return compact(found[0], found[1], size, bound), read


@njit(nogil=True, cache=True, parallel=True)
def edge_prune(out, into, keys, rule, node_term, key_value, queries, least, margin, k, seeds, most, threads):
    lazy = keys[1]
    count, nodes = node_term.shape
    room = 8 * k + 1024
    kept = np.empty((count, room), np.int32)
    sizes = np.zeros(count + 1, np.int64)
    open_ = np.zeros(count, np.bool_)
    read = np.zeros(count, np.int64)
    for t in prange(threads):
        walked = np.full(nodes, -1, np.int32)
        minima = np.empty((nodes + BLOCK - 1) // BLOCK, np.float32)
        spare = np.empty(max(minima.size, min(nodes, SAMPLE)), np.float32)
        near = np.empty(max(nodes, 1), np.int32)
        scores = np.empty(room, np.float32)
        lanes = np.empty(LANES, np.float64)
        for q in range(t, count, threads):
            size, read[q] = prune(
                out, into, keys, rule, node_term[q], key_value[0 if lazy else q], queries[q if lazy else 0], lanes,
                least[q], margin[q], most, seeds, walked, q, minima, spare, near, np.full(k, np.inf, np.float32),
                (kept[q], scores),
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
