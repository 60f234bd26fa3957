"""Plain torch form of `personalized_pagerank`, on any device: power iteration by gathers and sums of segments.

A query's sums don't depend on the batch: segments are added in order, and a column is folded in halves.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch

from tercet_kernels._types import Topology
from tercet_kernels.fragment.reference import example as fragment_example
from tercet_kernels.fragment.reference import expand, lookup
from tercet_kernels.personalized_pagerank.types import Direction, PageRanks, Walk

TILE_BYTES = 1 << 30  # gathered entries of the queries that are iterated together


class Problem(NamedTuple):
    """What `iterate` works on: S places that hold the numbers of Q queries, in columns or one after another."""

    pull: Callable[[torch.Tensor], torch.Tensor]  # like x -> like x: mass that arrives in one step
    total: Callable[[torch.Tensor], torch.Tensor]  # like x -> (Q,)
    spread: Callable[[torch.Tensor], torch.Tensor]  # (Q,) -> broadcasts over x
    start: torch.Tensor  # like x: the seeds' mass
    dangling: torch.Tensor  # broadcasts over x


def walk(topology: Topology, direction: Direction, weight: torch.Tensor | None) -> Walk:
    near_indptr, near, edge = _entries(topology, direction)
    return _walk(near_indptr, near, None if weight is None else weight[edge])


def personalized_pagerank(
    topology: Topology, steps: Walk, indptr: torch.Tensor, seed: torch.Tensor, mass: torch.Tensor,
    damping: torch.Tensor, tolerance: float, max_iterations: int, top_k: int | None, shown: int | None = None,
) -> PageRanks:  # fmt: skip
    """See the public function; the queries are taken in tiles of TILE_BYTES.

    Args:
        shown: rows whose scores are given without `top_k`; None: all.
    """
    size, queries = topology.num_nodes, indptr.shape[0] - 1
    query, node, part, good = read_seeds(indptr, seed, mass, damping, size)
    width = max(1, TILE_BYTES // (8 * max(steps.near.shape[0], size, 1)))
    shown = size if shown is None else shown
    out = failed_ranks(queries, shown, top_k, seed.device)
    for low in range(0, queries, width):
        columns = min(width, queries - low)
        mine = (query >= low) & (query < low + columns)
        start = torch.zeros(size, columns, dtype=torch.float64, device=seed.device)
        start.index_put_((node[mine], query[mine] - low), part[mine], accumulate=True)
        problem = Problem(lambda x: _pull(steps, x), _fold, lambda q: q, start, steps.dangling[:, None])
        x, *counts = iterate(problem, damping[low : low + columns], tolerance, max_iterations)
        score = x.T if top_k is not None else x.T[:, :shown]
        tile = marked(PageRanks(*_best(score, top_k), *counts), good[low : low + columns])
        for whole, some in zip(out, tile, strict=True):
            if whole is not None and some is not None:
                whole[low : low + columns] = some
    return out


def inside(
    topology: Topology, direction: Direction, weight: torch.Tensor | None, members: tuple[torch.Tensor, torch.Tensor],
    indptr: torch.Tensor, seed: torch.Tensor, mass: torch.Tensor, damping: torch.Tensor, tolerance: float,
    max_iterations: int, top_k: int | None,
) -> PageRanks:  # fmt: skip
    """See the public function: the members of all queries are the nodes of one graph without edges between queries."""
    size, queries, device = topology.num_nodes, indptr.shape[0] - 1, seed.device
    query, node, part, good = read_seeds(indptr, seed, mass, damping, size)
    owner = torch.repeat_interleave(torch.arange(queries, device=device), members[0].diff())
    keys = owner * size + members[1].long()
    wrong = (members[1] < 0) | (members[1] >= size)
    wrong[1:] |= (keys[1:] <= keys[:-1]) & (owner[1:] == owner[:-1])
    good &= torch.bincount(owner[wrong], minlength=queries) == 0
    owner, keys = owner[good[owner]], keys[good[owner]]
    place = torch.arange(keys.shape[0], device=device)
    at = lookup(keys, place, query * size + node)
    mine = (at >= 0) & good[query]
    start = torch.zeros(keys.shape[0], dtype=torch.float64, device=device).index_add_(0, at[mine], part[mine])
    held = torch.zeros(queries + 1, dtype=torch.int64, device=device)
    held[1:] = torch.bincount(owner, minlength=queries).cumsum(0)
    total = _segments(start, held)
    good &= total > 0
    start = start / torch.where(good, total, 1.0)[owner]
    steps = _members_walk(topology, direction, weight, owner, keys)
    problem = Problem(
        lambda x: _pull(steps, x[:, None])[:, 0], lambda x: _segments(x, held), lambda q: q[owner], start,
        steps.dangling,
    )  # fmt: skip
    x, *counts = iterate(problem, damping, tolerance, max_iterations)
    score = torch.zeros(queries, size, dtype=torch.float64, device=device)
    score.view(-1)[keys] = x
    return marked(PageRanks(*_best(score, top_k), *counts), good)


def iterate(
    problem: Problem, damping: torch.Tensor, tolerance: float, max_iterations: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """(x, residual, iterations, converged); what has converged isn't touched any more. One host sync a step."""
    pull, total, spread, start, dangling = problem
    x = start
    residual = torch.full_like(damping, torch.nan)
    iterations = torch.zeros_like(damping, dtype=torch.int32)
    converged = torch.zeros_like(damping, dtype=torch.bool)
    for _ in range(max_iterations):
        back = 1 - damping * (1 - total(x * dangling))
        new = spread(damping) * pull(x) + spread(back) * start
        change = total((new - x).abs())
        x = torch.where(spread(converged), x, new)
        residual = torch.where(converged, residual, change)
        iterations += ~converged
        converged = converged | ~(change > tolerance)  # not a number: the query failed
        if bool(converged.all()):
            break
    return x, residual, iterations, converged


def read_seeds(
    indptr: torch.Tensor, seed: torch.Tensor, mass: torch.Tensor, damping: torch.Tensor, size: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """(query, node, part of the query's mass) of the usable seeds of good queries, and which queries are good."""
    queries = damping.shape[0]
    query = torch.repeat_interleave(torch.arange(queries, device=seed.device), indptr.diff())
    fits = (seed >= 0) & (seed < size) & (mass >= 0) & (mass < torch.inf)
    good = (torch.bincount(query[~fits], minlength=queries) == 0) & (damping > 0) & (damping < 1)
    keep = fits & (mass > 0) & good[query]
    query, node, mass = query[keep], seed[keep].long(), mass[keep]
    order = torch.argsort(query * max(size, 1) + node, stable=True)
    query, node, mass = query[order], node[order], mass[order]
    held = torch.zeros(queries + 1, dtype=torch.int64, device=seed.device)
    held[1:] = torch.bincount(query, minlength=queries).cumsum(0)
    top = torch.zeros(queries, dtype=torch.float64, device=seed.device).scatter_reduce(0, query, mass, "amax")
    part = mass / top[query]
    part = part / _segments(part, held)[query]
    return query, node, part, good & (held.diff() > 0)


def failed_ranks(queries: int, size: int, top_k: int | None, device: torch.device) -> PageRanks:
    """The ranks of queries that failed; a place for the others' to be written to."""
    scores = (queries, size if top_k is None else top_k)
    return PageRanks(
        None if top_k is None else torch.full(scores, -1, dtype=torch.int32, device=device),
        torch.full(scores, torch.nan, dtype=torch.float64, device=device),
        torch.full((queries,), torch.nan, dtype=torch.float64, device=device),
        torch.zeros(queries, dtype=torch.int32, device=device),
        torch.zeros(queries, dtype=torch.bool, device=device),
    )


def marked(ranks: PageRanks, good: torch.Tensor) -> PageRanks:
    """The same, with the queries that failed marked."""
    some = good[:, None]
    return PageRanks(
        None if ranks.node is None else torch.where(some, ranks.node, -1).int(),
        torch.where(some, ranks.score, torch.nan),
        torch.where(good, ranks.residual, torch.nan),
        torch.where(good, ranks.iterations, 0).int(),
        good & ranks.converged,
    )


def _entries(topology: Topology, direction: Direction) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """(indptr, near, edge) of the steps that lead to each node."""
    all_nodes = torch.arange(topology.num_nodes, device=topology.source.device)
    to, near, edges = [], [], []
    if direction != "in":
        at, edge = expand(topology.in_indptr, topology.in_edge, all_nodes)
        to, near, edges = [at], [topology.source[edge.long()]], [edge.long()]
    if direction != "out":
        at, edge = expand(topology.out_indptr, topology.out_edge, all_nodes)
        keep = (topology.target[edge.long()] != at) | (direction == "in")  # a self loop is one step
        to, near, edges = [*to, at[keep]], [*near, topology.target[edge.long()][keep]], [*edges, edge.long()[keep]]
    order = torch.argsort(torch.cat(to), stable=True)
    indptr = torch.zeros(topology.num_nodes + 1, dtype=torch.int64, device=all_nodes.device)
    indptr[1:] = torch.bincount(torch.cat(to), minlength=topology.num_nodes).cumsum(0)
    return indptr, torch.cat(near)[order], torch.cat(edges)[order]


def _walk(indptr: torch.Tensor, near: torch.Tensor, weight: torch.Tensor | None) -> Walk:
    size, at = indptr.shape[0] - 1, near.long()
    if weight is None:
        steps = torch.bincount(at, minlength=size).double()
        return Walk(indptr, near, None, steps.clamp(min=1.0), (steps == 0).double())
    zeros = torch.zeros(size, dtype=torch.float64, device=near.device)
    largest = zeros.scatter_reduce(0, at, weight, "amax")
    part = weight / torch.where(largest > 0, largest, 1.0)[at]  # parts of the largest: no sum overflows
    order = torch.argsort(at, stable=True)
    held = torch.zeros(size + 1, dtype=torch.int64, device=near.device)
    held[1:] = torch.bincount(at, minlength=size).cumsum(0)
    total = _segments(part[order], held)
    share = part / torch.where(total > 0, total, 1.0)[at]
    return Walk(indptr, near, share, torch.ones_like(total), (total == 0).double())


def _members_walk(
    topology: Topology, direction: Direction, weight: torch.Tensor | None, owner: torch.Tensor, keys: torch.Tensor
) -> Walk:
    """The walk among members; place i is the member keys[i] of the query owner[i]."""
    size = max(topology.num_nodes, 1)
    indptr, near, edge = _entries(topology, direction)
    to, entry = expand(indptr, torch.arange(near.shape[0], device=near.device), keys % size)
    place = torch.arange(keys.shape[0], device=near.device)
    origin = lookup(keys, place, owner[to] * size + near[entry].long())
    to, entry, origin = to[origin >= 0], entry[origin >= 0], origin[origin >= 0]
    held = torch.zeros(keys.shape[0] + 1, dtype=torch.int64, device=near.device)
    held[1:] = torch.bincount(to, minlength=keys.shape[0]).cumsum(0)
    return _walk(held, origin.int(), None if weight is None else weight[edge[entry]])


def _pull(steps: Walk, x: torch.Tensor) -> torch.Tensor:
    if steps.share is None:
        return _segments((x / steps.scale[:, None])[steps.near.long()], steps.indptr)
    return _segments(x[steps.near.long()] * steps.share[:, None], steps.indptr)


def _segments(x: torch.Tensor, indptr: torch.Tensor) -> torch.Tensor:
    """Sums of x[indptr[i]:indptr[i + 1]], each in order."""
    columns = x if x.dim() == 2 else x[:, None]
    if columns.shape[1] == 0 or indptr.shape[0] == 1:
        return columns.new_zeros(indptr.shape[0] - 1, columns.shape[1]).view(-1, *x.shape[1:])
    out = torch.segment_reduce(columns.contiguous(), "sum", offsets=indptr, axis=0, initial=0)
    return out if x.dim() == 2 else out[:, 0]


def _fold(x: torch.Tensor) -> torch.Tensor:
    """The sum of each column, by halves: the same bits whatever the number of columns."""
    if x.shape[0] == 0:
        return x.new_zeros(x.shape[1])
    while x.shape[0] > 1:
        half = (x.shape[0] + 1) // 2
        folded = x[:half].clone()
        folded[: x.shape[0] - half] += x[half:]
        x = folded
    return x[0]


def _best(score: torch.Tensor, top_k: int | None) -> tuple[torch.Tensor | None, torch.Tensor]:
    """(node, score) of the best `top_k` scores above 0 in each row, ties to the smaller node; None: all scores."""
    if top_k is None:
        return None, score.contiguous()
    value, node = score.sort(dim=1, descending=True, stable=True)
    value, node = value[:, :top_k], node[:, :top_k].int()
    missing = top_k - value.shape[1]
    value = torch.nn.functional.pad(value, (0, missing))
    node = torch.nn.functional.pad(node, (0, missing), value=-1)
    return torch.where(value > 0, node, -1).int(), value


def example(
    queries: int = 4, nodes: int = 40, edges: int = 120, seeds: int = 5, seed: int = 0, device: str = "cpu"
) -> dict:
    """A random multigraph with weights and random seeds."""
    base = fragment_example(queries, nodes, edges, 1, seed, device)
    g = torch.Generator().manual_seed(seed + 1)
    counts = torch.full((queries,), seeds if nodes else 0)
    indptr = torch.zeros(queries + 1, dtype=torch.int64)
    indptr[1:] = counts.cumsum(0)
    total = int(indptr[-1])
    return {
        "topology": base["topology"],
        "indptr": indptr.to(device),
        "seed": torch.randint(0, max(nodes, 1), (total,), generator=g, dtype=torch.int32).to(device),
        "mass": (0.1 + torch.rand(total, generator=g, dtype=torch.float64)).to(device),
        "weight": torch.rand(edges, generator=g, dtype=torch.float64).to(device),
    }
