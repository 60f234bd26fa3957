"""Reciprocal rank fusion: ranked lists of several halves become one, by ranks alone.

Cormack, Clarke and Büttcher, "Reciprocal rank fusion outperforms Condorcet and individual rank learning methods", 2009:
a list adds weight / (rrf_k + rank) to each of its items, with ranks from 1.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from tercet.errors import InvalidArgument
from tercet.retrieve.limits import limits
from tercet_kernels.rank_fusion import Fusion, rank_fusion


@dataclass(frozen=True, eq=False)
class Half:
    """A ranked list a query, best first."""

    indptr: torch.Tensor  # (B + 1,) int64
    node: torch.Tensor  # (T,) int32
    score: torch.Tensor | None = None  # (T,) float64, the half's own; used by `fuse_grafito` only


@dataclass(frozen=True, eq=False)
class Fused:
    """One ranked list a query, best first."""

    indptr: torch.Tensor  # (B + 1,) int64
    node: torch.Tensor  # (T,) int32
    score: torch.Tensor  # (T,) float64
    ranks: torch.Tensor  # (T, H) int32 best rank in each half, from 1; 0 where the half doesn't list the node


def fuse(
    halves: Sequence[Half],
    weights: Sequence[float],
    k: int | Sequence[int],
    *,
    rrf_k: float = 60,
    names: Sequence[str] | None = None,
) -> Fusion:
    """Fuse ranked lists by the book.

    A node's score is the float64 sum, in the order of the halves, of weight / (rrf_k + rank) over the halves that list
    it. A node that a half lists twice counts there with its best rank; the others keep their places. A half with weight
    0 adds no nodes, and its ranks are still reported. Score descending, ties to the smaller node row.

    Args:
        halves: (H,) lists of the same B queries; an empty list adds nothing, so one half alone keeps its order.
        weights: (H,) one a half, finite, at least 0, not all 0.
        k: results a query, or (B,) one for each, at least 1.
        rrf_k: how little the top ranks stand out, at least 0.
        names: (H,) what errors call the halves.

    Raises:
        InvalidArgument: names the argument that differs from the above.
    """
    queries = _queries(halves)
    called = [str(name) for name in names] if names is not None else [str(i) for i in range(len(halves))]
    _check_weights(weights, len(halves), called)
    if not (math.isfinite(rrf_k) and rrf_k >= 0):
        raise InvalidArgument(f"rrf_k: expected a number of at least 0, got {rrf_k!r}")
    limit = limits(k, queries).to(halves[0].node.device)
    return rank_fusion([h.indptr for h in halves], [h.node for h in halves], weights, rrf_k, limit)


def fuse_grafito(
    vector: Half, text: Half, k: int | Sequence[int], *, vector_weight: float = 1.0, text_weight: float = 1.0,
    rrf_k: float = 60,
) -> Fused:  # fmt: skip
    """Fuse a vector list and a text list as Grafito 0.8.6 does, its accidents included.

    Where one list is empty, the other is returned as it is, with its own scores and its repeats, cut to k. Where both
    hold something, each entry adds weight / (rrf_k + rank) to its node, so one listed m times gets m parts; ties keep
    the order of first appearance, the vector list before the text list. Any weight counts, 0 and negative ones too.

    Args:
        vector: with scores.
        text: with scores; relationships are dropped by the caller.
        k: results a query, or (B,) one for each, at least 1.

    Raises:
        InvalidArgument: k below 1, lists of different numbers of queries or without scores, or an `rrf_k` that divides
            by zero.
    """
    halves = (vector, text)
    queries = _queries(halves)
    if vector.score is None or text.score is None:
        raise InvalidArgument("halves: expected both lists with their scores")
    limit, span = limits(k, queries).to(vector.node.device), _span(halves)
    owners = [_owner(half) for half in halves]
    keys = [owner * span + half.node.long() for owner, half in zip(owners, halves, strict=True)]
    both = (vector.indptr.diff() > 0) & (text.indptr.diff() > 0)
    parts = [
        _reciprocal(weight, rrf_k, _rank(half, owner), both[owner])
        for half, owner, weight in zip(halves, owners, (vector_weight, text_weight), strict=True)
    ]
    key, part = torch.cat(keys), torch.cat(parts)
    alone = [~both[owner] for owner in owners]
    key, found = _first_appearances(key[torch.cat([~x for x in alone])])
    score = _sums(key, part[torch.cat([~x for x in alone])], found.shape[0])
    order = score.sort(descending=True, stable=True).indices
    own = [half.score[x].double() for half, x in zip(halves, alone, strict=True) if half.score is not None]
    listed = torch.cat([found[order], *(x[y] for x, y in zip(keys, alone, strict=True))])
    scores = torch.cat([score[order], *own])
    by_query = (listed // span).sort(stable=True).indices
    listed, scores = listed[by_query], scores[by_query]
    known = torch.unique(listed)
    ranks = _ranks(known, keys, owners, halves)[torch.searchsorted(known, listed)]
    return _cut(listed // span, listed % span, scores, ranks, limit)


def _queries(halves: Sequence[Half]) -> int:
    if not halves:
        raise InvalidArgument("halves: expected at least one list, got none")
    counts = [half.indptr.shape[0] - 1 for half in halves]
    if len(set(counts)) > 1:
        raise InvalidArgument(f"halves: expected lists of the same queries, got {counts} queries")
    return counts[0]


def _check_weights(weights: Sequence[float], halves: int, called: Sequence[str]) -> None:
    if len(weights) != halves or len(called) != halves:
        raise InvalidArgument(f"weights: expected a weight and a name for each of {halves} halves, got {weights!r}")
    for name, weight in zip(called, weights, strict=True):
        if not (math.isfinite(weight) and weight >= 0):
            raise InvalidArgument(f"weights: expected a finite weight of at least 0 for {name}, got {weight!r}")
    if not any(weights):
        raise InvalidArgument("weights: expected one above 0, got only zeros")


def _owner(half: Half) -> torch.Tensor:
    """(T,) int64 the query of each entry."""
    queries = torch.arange(half.indptr.shape[0] - 1, device=half.node.device)
    return torch.repeat_interleave(queries, half.indptr.diff())


def _span(halves: Sequence[Half]) -> int:
    """One more than the largest node, so that query * span + node is one number a pair."""
    return max((int(half.node.max()) + 1 for half in halves if half.node.shape[0]), default=1)


def _rank(half: Half, owner: torch.Tensor) -> torch.Tensor:
    """(T,) int64 place of each entry in its list, from 1."""
    return torch.arange(1, owner.shape[0] + 1, device=owner.device) - half.indptr[owner]


def _ranks(
    found: torch.Tensor, keys: Sequence[torch.Tensor], owners: Sequence[torch.Tensor], halves: Sequence[Half]
) -> torch.Tensor:
    """(T, H) int32 best rank of each pair in each half, 0 where it isn't there."""
    out = torch.zeros(found.shape[0], len(halves), dtype=torch.int32, device=found.device)
    if not found.shape[0]:
        return out
    for h, (key, owner) in enumerate(zip(keys, owners, strict=True)):
        row = torch.searchsorted(found, key).clamp(max=found.shape[0] - 1)
        known = found[row] == key
        best = torch.full(found.shape, torch.iinfo(torch.int64).max, device=found.device)
        best.scatter_reduce_(0, row[known], _rank(halves[h], owner)[known], "amin")
        out[:, h] = torch.where(best < torch.iinfo(torch.int64).max, best, 0).int()
    return out


def _reciprocal(weight: float, rrf_k: float, rank: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
    """float64 weight / (rrf_k + rank) where it counts, 0 elsewhere."""
    divisor = torch.where(counts, rrf_k + rank.double(), 1.0)
    if bool((divisor == 0).any()):
        raise InvalidArgument(f"rrf_k: {rrf_k!r} divides by zero")
    # a number over a tensor would be rounded twice: torch multiplies it by the reciprocal
    return torch.where(counts, torch.full_like(divisor, weight) / divisor, 0.0)


def _first_appearances(key: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """(row of each entry's pair, (U,) the pairs) in the order in which they first appear."""
    pairs, row = torch.unique(key, return_inverse=True)
    first = torch.full(pairs.shape, key.shape[0], device=key.device)
    first.scatter_reduce_(0, row, torch.arange(key.shape[0], device=key.device), "amin")
    order = first.sort().indices
    place = torch.empty_like(order)
    place[order] = torch.arange(order.shape[0], device=key.device)
    return place[row], pairs[order]


def _sums(row: torch.Tensor, part: torch.Tensor, size: int) -> torch.Tensor:
    """(size,) float64 sums of the parts of each row, added in their order, on any device."""
    order = row.sort(stable=True).indices
    counts = torch.bincount(row, minlength=size)
    first = counts.cumsum(0) - counts
    total = torch.zeros(size, dtype=torch.float64, device=row.device)
    for nth in range(int(counts.max()) if size else 0):
        more = counts > nth
        total[more] += part[order[first[more] + nth]]
    return total


def _cut(
    query: torch.Tensor, node: torch.Tensor, score: torch.Tensor, ranks: torch.Tensor, limit: torch.Tensor
) -> Fused:
    """The first entries of each query, which come query by query."""
    counts = torch.bincount(query, minlength=limit.shape[0])
    place = torch.arange(query.shape[0], device=query.device) - (counts.cumsum(0) - counts)[query]
    kept = place < limit[query]
    indptr = torch.zeros(limit.shape[0] + 1, dtype=torch.int64, device=query.device)
    indptr[1:] = torch.minimum(counts, limit).cumsum(0)
    return Fused(indptr, node[kept].int(), score[kept], ranks[kept])
