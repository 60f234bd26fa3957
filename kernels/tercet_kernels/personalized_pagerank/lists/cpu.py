"""Numba form of `walk_of`."""

import numpy as np
from numba import njit, prange

OUT, IN, BOTH = 0, 1, 2


@njit(nogil=True, cache=True, parallel=True)
def entries(source, target, out_indptr, out_edge, in_indptr, in_edge, direction, weight, weighted, threads):
    """The arrays of a `Walk`. A self loop is one step, in either direction and in both."""
    size = out_indptr.size - 1
    indptr = np.zeros(size + 1, np.int64)
    for v in range(size):
        if direction != IN:
            indptr[v + 1] += in_indptr[v + 1] - in_indptr[v]
        if direction != OUT:
            indptr[v + 1] += out_indptr[v + 1] - out_indptr[v]
    if direction == BOTH:
        for e in range(source.size):
            if source[e] == target[e]:
                indptr[source[e] + 1] -= 1
    indptr = np.cumsum(indptr)
    near = np.empty(indptr[size], np.int32)
    share = np.empty(indptr[size] if weighted else 0, np.float64)
    scale = np.ones(size, np.float64)
    dangling = np.zeros(size, np.float64)
    total = np.ones(size if weighted else 0, np.float64)
    largest = np.ones(size if weighted else 0, np.float64)
    for t in prange(threads):
        for u in range(size * t // threads, size * (t + 1) // threads):
            steps, top = leaving(
                source, out_indptr, out_edge, in_indptr, in_edge, target, direction, weight, weighted, u
            )
            dangling[u] = 0.0 if steps > 0 else 1.0
            if weighted and steps > 0:
                total[u] = steps
                largest[u] = top
            elif steps > 0:
                scale[u] = steps
    for t in prange(threads):
        for v in range(size * t // threads, size * (t + 1) // threads):
            at = indptr[v]
            if direction != IN:
                for i in range(in_indptr[v], in_indptr[v + 1]):
                    e = in_edge[i]
                    near[at] = source[e]
                    if weighted:
                        share[at] = weight[e] / largest[source[e]] / total[source[e]]
                    at += 1
            if direction != OUT:
                for i in range(out_indptr[v], out_indptr[v + 1]):
                    e = out_edge[i]
                    if direction == BOTH and target[e] == v:
                        continue
                    near[at] = target[e]
                    if weighted:
                        share[at] = weight[e] / largest[target[e]] / total[target[e]]
                    at += 1
    return indptr, near, share, scale, dangling


@njit(nogil=True, cache=True)
def leaving(source, out_indptr, out_edge, in_indptr, in_edge, target, direction, weight, weighted, u):
    """(steps that lead away from u, or their weights over the largest of them; that largest weight)."""
    low, high = (out_indptr[u], out_indptr[u + 1]) if direction != IN else (0, 0)
    more, most = (in_indptr[u], in_indptr[u + 1]) if direction != OUT else (0, 0)
    top = 1.0
    if weighted:  # parts of the largest: the sum can't overflow, and weights far below 1 keep their digits
        top = 0.0
        for i in range(low, high):
            top = max(top, weight[out_edge[i]])
        for i in range(more, most):
            top = max(top, weight[in_edge[i]])
        if top == 0.0:
            return 0.0, 1.0
    steps = 0.0
    for i in range(low, high):
        steps += weight[out_edge[i]] / top if weighted else 1.0
    for i in range(more, most):
        e = in_edge[i]
        if direction != BOTH or source[e] != target[e]:
            steps += weight[e] / top if weighted else 1.0
    return steps, top
