"""The whole graph as the fragment: approximate scores of all edges, then exact ones of those that can matter."""

from typing import NamedTuple

import torch

from tercet.candidates import Bound, Hits, query_of, rescore
from tercet.floors import best_edges, floor_bytes
from tercet.index.exact import ExactIndex
from tercet.index.raw import RawIndex
from tercet.index.segmented import SegmentedIndex
from tercet.plan import Plan
from tercet.projection import listed
from tercet.reach import Keys, lazy_keys, least_term, reach
from tercet.terms import edge_rule, node_terms
from tercet_kernels._arena import arena
from tercet_kernels.edge_prune import KeyVectors
from tercet_kernels.effective import effective

TABLE_BYTES = 256 << 20  # node and relation terms of one group of queries
ROUNDOFF = 2.0**-23
EDGE_TILE = 1 << 16  # edges looked at together
CELL_BYTES = 13  # of a pair of such an edge and a query: whether its ends are open, or matched, and a sum's int64
UNREACHED = 2.001  # a penalty from here on is no distance
FINITE = 7  # bytes of a distance while `torch.isfinite` looks at it
DIRECT = (ExactIndex, SegmentedIndex)  # they can write distances where they belong


class Found(NamedTuple):
    """Edges that may be among the best, with the exact distances of their parts."""

    indptr: torch.Tensor  # (B + 1,) int64
    edge: torch.Tensor  # (M,) int32
    nodes: Hits
    relations: Hits
    available: torch.Tensor  # (B,) int64 edges that were in play
    touched: torch.Tensor  # (B,) bool: any element at all has a distance
    read: torch.Tensor  # (B,) int64 entries of edge lists that were looked at


def full_fragment(
    plan: Plan,
    queries: torch.Tensor,
    nodes: Hits | None,
    relations: Hits | None,
    k: int,
) -> Found:
    """Every edge that can be among the k best of each query, and exact distances of their ends and keys.

    Args:
        nodes, relations: the candidates of a limited search; None: every row of every collection has its distance.

    With unlimited search the distances come from products of reduced precision at first: lower bounds of them, a byte
    each, where `best_edges` is built for it. For other plans, and queries that it leaves, they are within a known bound
    of the exact ones, so an edge whose approximate score is over the k-th by more than twice what the bound allows
    can't be among the exact best; the others are scored again exactly.
    """
    step = group_size(queries.shape[0], plan.graph.num_nodes, len(plan.graph.keys))
    parts = []
    for start in range(0, queries.shape[0], step):
        parts.append(_part(plan, queries, slice(start, start + step), nodes, relations, k))
    return _concat(parts, queries)


def group_size(queries: int, nodes: int, keys: int) -> int:
    """How many queries have their tables at once."""
    return max(1, min(queries, TABLE_BYTES // (4 * (nodes + keys + 1))))


def group_bytes(
    queries: int, nodes: int, edges: int, keys: int, *, limited: bool, complete: bool, projection: str, threads: int,
    floors: bool = False,
) -> int:  # fmt: skip
    """What the tables of one group of queries take at their height.

    Args:
        limited: the distances come from candidates; complete: every node is known to have a distance.
        projection: "full", "induced" or "incident".
        threads: that walk the graph.
        floors: `best_edges` is built for it.
    """
    step = group_size(queries, nodes, keys)
    if floors:
        return floor_bytes(step, nodes, keys, threads)
    cell = 4  # its term
    if limited or not complete:
        cell += 1 + FINITE  # whether there is a distance, twice
        if projection == "induced":
            cell += 2  # the term where it is shut out, and whether it is
    elif projection == "incident":
        cell += 1 + 1  # whether it is matched, and open
    tiles = 0 if projection == "full" else CELL_BYTES * step * min(EDGE_TILE, edges)
    return step * (cell * nodes + 4 * (keys + 1)) + tiles + 8 * nodes * threads


def _part(
    plan: Plan,
    queries: torch.Tensor,
    part: slice,
    nodes: Hits | None,
    relations: Hits | None,
    k: int,
) -> Found:
    chosen = queries[part]
    best = best_edges(plan, chosen, k) if nodes is None else None
    if best is None:
        looked = _looked(plan, chosen, part, nodes, relations, k)
        return _ends_of(plan, chosen, part, looked, nodes, relations)
    every = torch.full((chosen.shape[0],), plan.graph.num_edges, dtype=torch.int64)
    indptr, edge, read = best.indptr, best.edge, best.read
    left = torch.nonzero(best.open).flatten()
    if left.shape[0]:
        rest = _looked(plan, chosen[left], part, nodes, relations, k)  # no filters, so nothing goes by their place
        query = torch.cat([query_of(indptr), left[query_of(rest.indptr)]])
        edge = torch.cat([edge, rest.edge])[torch.argsort(query, stable=True)]
        indptr = torch.zeros_like(indptr)
        indptr[1:] = torch.bincount(query, minlength=chosen.shape[0]).cumsum(0)
        read = read.index_add(0, left, rest.read)
    return _ends_of(plan, chosen, part, Looked(indptr, edge, every, every > 0, read), nodes, relations)


class Looked(NamedTuple):
    """Edges that may be among the best, as in `Found`."""

    indptr: torch.Tensor
    edge: torch.Tensor
    available: torch.Tensor
    touched: torch.Tensor
    read: torch.Tensor


def _ends_of(
    plan: Plan, queries: torch.Tensor, part: slice, looked: Looked, nodes: Hits | None, relations: Hits | None
) -> Found:
    """Exact distances of the parts of some edges."""
    indptr, edge, *rest = looked
    node_hits = _exact_ends(plan, queries, part, indptr, edge, nodes)
    key_hits = _exact_keys(plan, queries, part, indptr, edge, relations)
    return Found(indptr, edge, node_hits, key_hits, *rest)


def _looked(
    plan: Plan, queries: torch.Tensor, part: slice, nodes: Hits | None, relations: Hits | None, k: int
) -> Looked:
    shape = (queries.shape[0], plan.graph.num_nodes)
    with arena.lend("full", shape, torch.float32, queries.device) as room:  # new memory costs a tenth of filling it
        return _approximately(plan, queries, part, nodes, relations, k, room)


def _approximately(
    plan: Plan,
    chosen: torch.Tensor,
    part: slice,
    nodes: Hits | None,
    relations: Hits | None,
    k: int,
    room: torch.Tensor,
) -> Looked:
    """From approximate distances of everything."""
    count, s, graph = chosen.shape[0], plan.scoring, plan.graph
    exact = (s.cliff and (s.influence > 0 or s.personal is not None)) or plan.max_distance is not None
    lazy = lazy_keys(plan, chosen) if nodes is None and not exact else None
    keyed: torch.Tensor | None = None
    known = False  # whether every key has a distance
    if nodes is None or relations is None:
        distance, error, complete = _dense(plan, plan.node_bound, chosen, part, graph.num_nodes, exact, room=room)
        error = max([error, *(0.0 if exact else b.collection.index.error for b in plan.relation_bound)])
        if lazy is None:
            keyed, _, known = _dense(plan, plan.relation_bound, chosen, part, len(graph.keys) + 1, exact, spare=1)
    else:
        distance, keyed = _scatter(nodes, part, graph.num_nodes), _scatter(relations, part, len(graph.keys) + 1)
        error, complete = 0.0, False
    matched = torch.ones(1, 1, dtype=torch.bool, device=chosen.device) if complete else torch.isfinite(distance)
    some = keyed is None or (known and keyed.shape[1] > 1)
    any_key = matched.new_ones(count) if some or keyed is None else torch.isfinite(keyed).any(dim=1)
    touched = (matched.any(dim=1) | any_key) & (graph.num_nodes > 0)
    value = _node_terms(plan, distance, complete)
    closed = plan.projection == "induced" and not complete
    if closed:
        value = value.masked_fill(~matched, torch.inf)
    if plan.allowed is not None and plan.allowed_row is not None:
        row = plan.allowed_row[part].long()
        value = value.masked_fill(~plan.allowed[row.clamp(min=0)] & (row >= 0)[:, None], torch.inf)
        closed = True
    keys = _keys(plan, keyed, known, lazy, count)
    margin = _margin(plan, error, count)
    either = matched.expand(value.shape).contiguous() if plan.projection == "incident" else None

    def table(left: torch.Tensor) -> torch.Tensor:
        return _dense(plan, plan.relation_bound, chosen[left], part, len(graph.keys) + 1, exact)[0]

    tied = None if nodes is None else _tied(plan, keys)
    indptr, edge, read = reach(plan, value.contiguous(), keys, table, margin, k, either, tied)
    available = _available(plan, value if closed else None, either, count)
    return Looked(indptr, edge, available, touched, read)


def _keys(plan: Plan, keyed: torch.Tensor | None, known: bool, lazy: KeyVectors | None, count: int) -> Keys:
    """What relations add: terms where all edges weigh the same, else raw distances and the weights."""
    graph, s, rule = plan.graph, plan.scoring, edge_rule(plan)
    if keyed is None:
        return Keys(None, lazy, rule, least_term(rule, None, count))
    uniform = graph.once("_uniform", lambda: _uniform(graph.edge_importance) and _uniform(graph.edge_feedback))
    if not uniform or not graph.num_edges:
        return Keys(keyed.contiguous(), None, rule, least_term(rule, keyed, count))
    if s.influence == 0:
        if known:
            keyed[:, -1] = s.penalty
        else:
            keyed.masked_fill_(~torch.isfinite(keyed), s.penalty)
        keyed.mul_(2.0 - float(graph.edge_importance[0]))
        return Keys(keyed, None, None, keyed.amin(dim=1))
    keyed = effective(
        keyed.double(), float(graph.edge_importance[0]), float(graph.edge_feedback[0]), influence=s.influence,
        penalty=s.penalty, cliff=s.cliff,
    ).float()  # fmt: skip
    return Keys(keyed.contiguous(), None, None, keyed.amin(dim=1))


def _tied(plan: Plan, keys: Keys) -> torch.Tensor | None:
    """(B,) float32 the score of an edge of which nothing is matched, where all of these have one and the same: with a
    limit on candidates they are most of the graph."""
    graph, s = plan.graph, plan.scoring
    same = graph.once("_uniform_nodes", lambda: _uniform(graph.importance) and graph.num_nodes > 0)
    if keys.rule is not None or keys.value is None or not same or s.influence > 0 or s.personal is not None:
        return None
    if any(isinstance(b.collection.index, RawIndex) for b in (*plan.node_bound, *plan.relation_bound)):
        return None  # distances of any size
    factor = (2.0 - graph.importance[:1]).float()
    if s.penalty < UNREACHED or float(factor) <= 0.0 or not graph.num_edges or float(graph.edge_importance[0]) >= 2.0:
        return None
    node = torch.full_like(factor, s.penalty).mul_(factor)
    return (node + node) + keys.value[:, -1]  # the last column is of edges without a key, which nothing matches


def _node_terms(
    plan: Plan,
    distance: torch.Tensor,
    complete: bool,
) -> torch.Tensor:
    """(B, N) float32 approximate terms; overwrites `distance`."""
    s = plan.scoring
    if s.influence > 0 or s.personal is not None:
        every = torch.arange(distance.shape[1], device=distance.device).expand_as(distance)
        return node_terms(plan, every, distance).float()
    if not complete:
        distance = distance.masked_fill(~torch.isfinite(distance), s.penalty)
    return distance.mul_((2.0 - plan.graph.importance).float())


def _dense(
    plan: Plan,
    bound: list[Bound],
    queries: torch.Tensor,
    part: slice,
    size: int,
    exact: bool,
    spare: int = 0,
    room: torch.Tensor | None = None,
) -> tuple[torch.Tensor, float, bool]:
    """(B, size) float32 distances of every element, +inf where no collection has it, a bound on their error, and
    whether the collections are known to hold them all (but the last `spare`, which nothing owns).
    """
    out: torch.Tensor | None = None
    error = max((0.0 if exact else b.collection.index.error for b in bound), default=0.0)
    whole = plan.max_distance is None and not any(b.collection.index.hides for b in bound)
    for b, mask in zip(bound, plan.masks(bound), strict=True):
        index = b.collection.index
        plain = mask is None and plan.max_distance is None
        whole &= mask is None
        simple = plain and not exact and b.distinct and plan.combine == "best"
        first = out is None and b.identity and b.collection.size == size
        if out is None and (simple or not b.identity):
            out = queries.new_empty((queries.shape[0], size)) if room is None else room[: queries.shape[0]]
            if not first:
                out.fill_(torch.inf)
        owner = None if first else b.owner
        if simple and out is not None and isinstance(index, DIRECT) and index.enter(queries, out, owner):
            continue
        if first:
            out = None
        got = index.dense(queries) if exact else index.approximate(queries)
        if mask is not None:
            row = mask[1][part].long()
            got = got.masked_fill(~mask[0][row.clamp(min=0)] & (row >= 0)[:, None], torch.inf)
        if plan.max_distance is not None:
            got = got.masked_fill(got > plan.max_distance, torch.inf)
        if out is None and got.shape[1] == size:
            out = got
            continue
        if out is None:
            out = queries.new_full((queries.shape[0], size), torch.inf)
        _put(out, got, b, plan.combine)
    if out is None:
        out = queries.new_full((queries.shape[0], size), torch.inf)
    return out, error, whole and _covered(plan, bound, size - spare)


def _covered(plan: Plan, bound: list[Bound], size: int) -> bool:
    """Whether every element is somewhere in these collections."""

    def make() -> bool:
        held = torch.zeros(size, dtype=torch.bool, device=plan.graph.device)
        for b in bound:
            held[b.owner[(b.owner >= 0) & (b.owner < size)].long()] = True
        return bool(held.all())

    return plan.graph.latest(f"_covered_{size}", tuple(bound), make)


def _put(out: torch.Tensor, got: torch.Tensor, bound: Bound, combine: str) -> None:
    """Enter a collection's distances: the smaller one stays ("best"), or the later one ("last")."""
    held = torch.nonzero((bound.owner >= 0) & (bound.owner < out.shape[1])).flatten()
    owner = bound.owner[held].long()
    values = got if held.shape[0] == got.shape[1] else got[:, held]
    if bound.distinct:
        old = out[:, owner]
        out[:, owner] = (
            torch.minimum(old, values) if combine == "best" else torch.where(torch.isfinite(values), values, old)
        )
        return
    where = owner.expand(out.shape[0], -1)
    if combine == "best":
        out.scatter_reduce_(1, where, values, "amin")
        return
    far = torch.full_like(out, -torch.inf)
    far.scatter_reduce_(1, where, torch.where(torch.isfinite(values), values, -torch.inf), "amax")
    out.copy_(torch.where(torch.isfinite(far), far, out))


def _scatter(hits: Hits, part: slice, size: int) -> torch.Tensor:
    rows = range(*part.indices(hits.indptr.shape[0] - 1))
    out = torch.full((len(rows), size), torch.inf, device=hits.distance.device)
    query = torch.repeat_interleave(torch.arange(hits.indptr.shape[0] - 1, device=out.device), hits.indptr.diff())
    inside = (query >= rows.start) & (query < rows.stop) & (hits.element < size)
    out[query[inside] - rows.start, hits.element[inside].long()] = hits.distance[inside]
    return out


def _margin(plan: Plan, error: float, count: int) -> torch.Tensor:
    """(B,) float32: twice the largest difference between an approximate and an exact score.

    A term is at most the heaviest factor times the larger of the penalty and 2, the largest distance.
    """
    s = plan.scoring
    heaviest = plan.graph.once("_heaviest", lambda: _heaviest(plan.graph.importance, plan.graph.edge_importance))
    if s.personal is not None:
        known = s.personal[torch.isfinite(s.personal)]
        pull = (1.0 - s.personal_influence * (2.0 * known - 1.0)).abs()
        heaviest *= max(1.0, float(pull.max()) if known.numel() else 1.0)
    largest = 3.0 * heaviest * max(abs(s.penalty), 2.0) + 1.0
    margin = 2.0 * (3.0 * heaviest * (error + ROUNDOFF) + 8.0 * ROUNDOFF * largest)
    return torch.full((count,), margin, dtype=torch.float32, device=plan.graph.device)


def _heaviest(*importance: torch.Tensor) -> float:
    return max((_heavy(w) for w in importance if w.numel()), default=2.0)


def _heavy(importance: torch.Tensor) -> float:
    ends = torch.stack(importance.aminmax())
    if not bool(torch.isfinite(ends).all()):
        ends = importance
    return float((2.0 - ends).abs().nan_to_num(0.0, 0.0, 0.0).max())


def _uniform(weights: torch.Tensor) -> bool:
    if not weights.numel():
        return True
    least, most = weights.aminmax()
    return bool(least == most)


def _available(plan: Plan, value: torch.Tensor | None, either: torch.Tensor | None, count: int) -> torch.Tensor:
    """How many edges were in play for each query; without `value` every node is open."""
    if either is None and value is None:
        return torch.full((count,), plan.graph.num_edges, dtype=torch.int64, device=plan.graph.device)
    if value is not None:
        open_ = torch.isfinite(value)
    else:
        assert either is not None
        open_ = torch.ones_like(either)
    total = torch.zeros(count, dtype=torch.int64, device=open_.device)
    for start in range(0, plan.graph.num_edges, EDGE_TILE):
        source, target = (x[start : start + EDGE_TILE].long() for x in (plan.topology.source, plan.topology.target))
        both = open_[:, source] & open_[:, target]
        total += (both if either is None else both & (either[:, source] | either[:, target])).sum(dim=1)
    return total


def _distinct(indptr: torch.Tensor, element: torch.Tensor, span: int) -> tuple[torch.Tensor, torch.Tensor]:
    """(query, element) pairs that occur, each once, ascending."""
    queries = query_of(indptr)
    pairs = torch.unique(queries * span + element.long())
    return pairs // span, (pairs % span).int()


def _exact_ends(
    plan: Plan, queries: torch.Tensor, part: slice, indptr: torch.Tensor, edge: torch.Tensor, given: Hits | None
) -> Hits:
    span = max(plan.graph.num_nodes, 1)
    doubled = torch.stack([plan.topology.source[edge.long()], plan.topology.target[edge.long()]], 1).flatten()
    query, node = _distinct(indptr * 2, doubled, span)
    return _exact(plan, plan.node_bound, queries, part, query, node, given)


def _exact_keys(
    plan: Plan, queries: torch.Tensor, part: slice, indptr: torch.Tensor, edge: torch.Tensor, given: Hits | None
) -> Hits:
    key = plan.topology.key[edge.long()]
    query, found = _distinct(indptr, key + 1, len(plan.graph.keys) + 1)
    keep = found > 0  # edges without a key are matched by nothing
    hits = _exact(plan, plan.relation_bound, queries, part, query[keep], found[keep] - 1, given)
    matched = torch.isfinite(hits.distance)
    indptr = torch.zeros_like(hits.indptr)
    whose = torch.repeat_interleave(torch.arange(queries.shape[0], device=edge.device), hits.indptr.diff())
    indptr[1:] = torch.bincount(whose[matched], minlength=queries.shape[0]).cumsum(0)
    return Hits(indptr, *(x[matched] for x in hits[1:]))


def _exact(
    plan: Plan,
    bound: list[Bound],
    queries: torch.Tensor,
    part: slice,
    query: torch.Tensor,
    element: torch.Tensor,
    given: Hits | None,
) -> Hits:
    indptr = torch.zeros(queries.shape[0] + 1, dtype=torch.int64, device=queries.device)
    indptr[1:] = torch.bincount(query, minlength=queries.shape[0]).cumsum(0)
    if given is not None:
        return listed(_slice(given, part), indptr, element)[0]
    masks = [None if m is None else (m[0], m[1][part]) for m in plan.masks(bound)]
    distance, which = rescore(bound, queries, query.int(), element, plan.combine, masks, plan.max_distance)
    blank = torch.full_like(element, -1)
    return Hits(indptr, element, distance, which, blank, distance, blank)


def _slice(hits: Hits, part: slice) -> Hits:
    rows = range(*part.indices(hits.indptr.shape[0] - 1))
    low, high = int(hits.indptr[rows.start]), int(hits.indptr[rows.stop])
    return Hits(hits.indptr[rows.start : rows.stop + 1] - low, *(x[low:high] for x in hits[1:]))


def _concat(parts: list[Found], queries: torch.Tensor) -> Found:
    def offsets(pieces: list[torch.Tensor]) -> torch.Tensor:
        counts = [torch.zeros(1, dtype=torch.int64, device=queries.device), *(p.diff() for p in pieces)]
        return torch.cat(counts).cumsum(0)

    def hits(i: int) -> Hits:
        tables: list[Hits] = [p[i] for p in parts]  # type: ignore[misc]
        return Hits(
            offsets([t.indptr for t in tables]), *(torch.cat(x) for x in zip(*(t[1:] for t in tables), strict=True))
        )

    joined = [torch.cat([getattr(p, name) for p in parts]) for name in ("edge", "available", "touched", "read")]
    return Found(offsets([p.indptr for p in parts]), joined[0], hits(2), hits(3), *joined[1:])
