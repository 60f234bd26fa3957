"""Numba form: a query a thread, vectors of facts made when they are looked at."""

import numpy as np
from numba import njit, prange

from tercet_kernels.cosine.cpu import LANES, dot


@njit(nogil=True, cache=True)
def add_parts(source, target, relation, names, relations, fact, out):
    """The sum of a fact's vectors, in the order source, relation, target."""
    out[:] = np.float32(0.0)
    if source[fact] >= 0:
        out += names[source[fact]]
    if relation[fact] >= 0:
        out += relations[relation[fact]]
    if target[fact] >= 0:
        out += names[target[fact]]


@njit(nogil=True, cache=True, parallel=True)
def fact_scale(source, target, relation, names, relations, out, threads):
    size = source.size
    for t in prange(threads):
        lanes = np.empty(LANES, np.float64)
        row = np.empty(names.shape[1], np.float32)
        for f in range(size * np.int64(t) // threads, size * (np.int64(t) + 1) // threads):
            add_parts(source, target, relation, names, relations, f, row)
            square = dot(row, row, lanes)
            out[f] = 1.0 / np.sqrt(square) if square > 0 else 0.0


@njit(nogil=True, cache=True)
def on_path(path, place, hop, fact):
    found = False
    for h in range(hop):
        found = found or path[place, h] == fact
    return found


@njit(nogil=True, cache=True)
def best_facts(facts, query, entity, seed_weight, total, hop, path, place, limits, row, lanes, score, fact, other):
    """The best facts of an entity, best first, at the beginning of the given arrays; returns their number."""
    indptr, f_fact, f_other, source, target, relation, names, relations, scale = facts
    branches, most = limits
    square = dot(total, total, lanes) if hop else 0.0
    along = dot(total, query, lanes) if hop else 0.0
    count = 0
    for at in range(indptr[entity], min(indptr[entity + 1], indptr[entity] + most)):
        f = f_fact[at]
        if scale[f] == 0 or (hop and on_path(path, place, hop, f)):
            continue
        add_parts(source, target, relation, names, relations, f, row)
        own = dot(row, query, lanes) * scale[f]
        if hop:
            norm = np.sqrt(max(square + 1.0 + 2.0 * dot(row, total, lanes) * scale[f], 1e-12))
            value = (along + own) / norm * seed_weight
        else:
            value = own * seed_weight
        if count == branches and value <= score[count - 1]:
            continue
        to = count if count < branches else branches - 1
        while to > 0 and score[to - 1] < value:
            score[to], fact[to], other[to] = score[to - 1], fact[to - 1], other[to - 1]
            to -= 1
        score[to], fact[to], other[to] = value, f, f_other[at]
        count = min(count + 1, branches)
    return count


@njit(nogil=True, cache=True)
def next_beam(facts, order, score, fact, other, parent, width, hop, beam, row):
    """Fill the beam with the best steps to distinct entities; returns their number."""
    source, target, relation, names, relations, scale = facts[3:]
    entity, weight, total, path, new_entity, new_weight, new_total, new_path = beam
    count = 0
    for i in range(order.size):
        at = order[i]
        fresh = True
        for j in range(count):
            fresh = fresh and new_entity[j] != other[at]
        if not fresh:
            continue
        up = parent[at]
        new_entity[count], new_weight[count] = other[at], weight[up]
        add_parts(source, target, relation, names, relations, fact[at], row)
        for d in range(row.size):
            new_total[count, d] = total[up, d] + np.float32(row[d] * scale[fact[at]])
        new_path[count, :hop] = path[up, :hop]
        new_path[count, hop] = fact[at]
        count += 1
        if count == width:
            break
    for j in range(count):
        entity[j], weight[j] = new_entity[j], new_weight[j]
        total[j] = new_total[j]
        path[j] = new_path[j]
    return count


@njit(nogil=True, cache=True)
def one_query(facts, query, seed, seed_weight, settings, scratch, out_fact, out_entity, out_score):
    hops, width, branches, most_facts, most_seeds = settings
    row, lanes, score, fact, other, parent, beam = scratch
    entity, weight, total, path = beam[:4]
    count = min(seed.size, most_seeds)
    for j in range(count):
        entity[j], weight[j] = seed[j], seed_weight[j]
        total[j] = np.float32(0.0)
    for hop in range(hops):
        found = 0
        for j in range(count):
            end = found + branches
            taken = best_facts(
                facts, query, entity[j], weight[j], total[j], hop, path, j, (branches, most_facts), row, lanes,
                score[found:end], fact[found:end], other[found:end],
            )  # fmt: skip
            parent[found : found + taken] = j
            found += taken
        order = np.argsort(-score[:found], kind="mergesort")
        for i in range(found):
            out_fact[hop, i], out_entity[hop, i] = fact[order[i]], other[order[i]]
            out_score[hop, i] = np.float32(score[order[i]])
        if hop + 1 < hops:
            count = next_beam(facts, order, score, fact, other, parent, width, hop, beam, row)


@njit(nogil=True, cache=True, parallel=True)
def fact_paths(facts, queries, indptr, seed, weight, settings, out_fact, out_entity, out_score, threads):
    hops, width, branches, _, most_seeds = settings
    size, places, dimension = queries.shape[0], max(width, most_seeds), queries.shape[1]
    for t in prange(threads):
        scratch = (
            np.empty(dimension, np.float32), np.empty(LANES, np.float64), np.empty(places * branches, np.float64),
            np.empty(places * branches, np.int32), np.empty(places * branches, np.int32),
            np.empty(places * branches, np.int64),
            (
                np.empty(places, np.int32), np.empty(places, np.float64), np.empty((places, dimension), np.float32),
                np.empty((places, hops), np.int32), np.empty(places, np.int32), np.empty(places, np.float64),
                np.empty((places, dimension), np.float32), np.empty((places, hops), np.int32),
            ),
        )  # fmt: skip
        for b in range(np.int64(t), size, threads):
            part = slice(indptr[b], indptr[b + 1])
            one_query(
                facts, queries[b], seed[part], weight[part], settings, scratch, out_fact[b], out_entity[b], out_score[b]
            )
