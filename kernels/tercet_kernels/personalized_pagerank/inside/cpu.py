"""Numba form of `personalized_pagerank` inside chosen nodes: a small graph for each query, one query a thread."""

import numpy as np
from numba import njit, prange

from tercet_kernels.personalized_pagerank.cpu import leave
from tercet_kernels.personalized_pagerank.lists.cpu import BOTH, IN, OUT


@njit(nogil=True, cache=True, parallel=True)
def power(
    topology, direction, weight, weighted, members, seeds, damping, tolerance, most, k, node, score, residual,
    iterations, converged, threads,
):  # fmt: skip
    """Iterate each query on its members; `converged` etc. keep what they hold for a query that fails."""
    indptr, member = members
    size, queries = topology[2].size - 1, indptr.size - 1
    for t in prange(threads):
        slot = np.full(size, -1, np.int32)
        for q in range(t, queries, threads):
            mine = member[indptr[q] : indptr[q + 1]]
            if seeds[1][q] <= 0 or not ascending(mine, size):
                continue
            for i in range(mine.size):
                slot[mine[i]] = i
            start = mass(slot, mine.size, seeds, q)
            if start.size:
                lists = local(topology, direction, weight, weighted, mine, slot)
                x, count, change = iterate(lists, start, damping[q], tolerance, most)
                iterations[q], residual[q], converged[q] = count, change, change <= tolerance
                out(mine, x, node[q], score[q], k)
            for i in range(mine.size):
                slot[mine[i]] = -1


@njit(nogil=True, cache=True)
def ascending(member, size):
    for i in range(member.size):
        if member[i] < 0 or member[i] >= size or (i > 0 and member[i] <= member[i - 1]):
            return False
    return True


@njit(nogil=True, cache=True)
def mass(slot, size, seeds, q):
    """The query's mass by slot, adding up to 1; empty where no seed is inside."""
    begin, count, node, part = seeds
    start, total = np.zeros(size, np.float64), 0.0
    for i in range(begin[q], begin[q] + count[q]):
        if slot[node[i]] >= 0:
            start[slot[node[i]]] = part[i]
            total += part[i]
    return start / total if total > 0.0 else np.empty(0, np.float64)


@njit(nogil=True, cache=True)
def local(topology, direction, weight, weighted, mine, slot):
    """(indptr, near, share, dangling) among the members, by slot."""
    source, target, out_indptr, out_edge, in_indptr, in_edge = topology
    indptr = np.zeros(mine.size + 1, np.int64)
    near, share = np.empty(0, np.int32), np.empty(0, np.float64)
    for fill in range(2):
        at = 0
        for i in range(mine.size):
            v = mine[i]
            if direction != IN:
                for j in range(in_indptr[v], in_indptr[v + 1]):
                    e = in_edge[j]
                    if slot[source[e]] >= 0:
                        if fill:
                            near[at], share[at] = slot[source[e]], weight[e] if weighted else 1.0
                        at += 1
            if direction != OUT:
                for j in range(out_indptr[v], out_indptr[v + 1]):
                    e = out_edge[j]
                    if slot[target[e]] >= 0 and (direction != BOTH or target[e] != v):
                        if fill:
                            near[at], share[at] = slot[target[e]], weight[e] if weighted else 1.0
                        at += 1
            indptr[i + 1] = at
        if not fill:
            near, share = np.empty(at, np.int32), np.empty(at, np.float64)
    largest, total = np.zeros(mine.size, np.float64), np.zeros(mine.size, np.float64)
    for i in range(near.size):
        largest[near[i]] = max(largest[near[i]], share[i])
    for i in range(near.size):
        if largest[near[i]] > 0.0:
            share[i] /= largest[near[i]]
            total[near[i]] += share[i]
    for i in range(near.size):
        if total[near[i]] > 0.0:
            share[i] /= total[near[i]]
    return indptr, near, share, total == 0.0


@njit(nogil=True, cache=True)
def iterate(lists, start, rate, tolerance, most):
    indptr, near, share, dangling = lists
    x, new = start.copy(), np.empty_like(start)
    count, change = 0, np.inf
    while count < most and not change <= tolerance:
        lost, change = 0.0, 0.0
        for v in range(x.size):
            if dangling[v]:
                lost += x[v]
        back = 1.0 - rate * (1.0 - lost)
        for v in range(x.size):
            total = 0.0
            for i in range(indptr[v], indptr[v + 1]):
                total += share[i] * x[near[i]]
            new[v] = rate * total + back * start[v]
            change += abs(new[v] - x[v])
        x, new = new, x
        count += 1
    return x, count, change


@njit(nogil=True, cache=True)
def out(mine, x, node, score, k):
    """Write a query's scores: into the row of all nodes (k < 0), or the best k."""
    if k < 0:
        score[:] = 0.0
        for i in range(mine.size):
            score[mine[i]] = x[i]
        return
    leave(np.ones(mine.size, np.float64), x, node, score, k)
    for i in range(k):
        if node[i] >= 0:
            node[i] = mine[node[i]]
