"""Reach: the edges of the whole graph that can be among the k best of each query, from approximate terms."""

from collections.abc import Callable
from typing import NamedTuple

import torch

from tercet.candidates import Bound, query_of
from tercet.index.exact import ExactIndex
from tercet.plan import Plan
from tercet_kernels._types import EdgeRule
from tercet_kernels.edge_filter import edge_filter
from tercet_kernels.edge_prune import KeyVectors, edge_prune

SMALL = 1 << 12  # fewer edges than this are looked at faster than they are pruned
LAZY_KEYS = 1 << 16  # with more relation keys than this their distances are computed when an edge needs them


class Reach(NamedTuple):
    """Edges whose approximate score is within a margin of the k-th smallest, a slice a query."""

    indptr: torch.Tensor  # (B + 1,) int64
    edge: torch.Tensor  # (M,) int32 ascending within a query
    read: torch.Tensor  # (B,) int64 edges that were looked at, twice where from both ends


class Keys(NamedTuple):
    """What relations add to a score: a table, or the means to compute it for a few edges."""

    value: torch.Tensor | None  # (B, R + 1) float32 terms, or raw distances where `rule` is given
    lazy: KeyVectors | None  # instead of `value`
    rule: EdgeRule | None
    least: torch.Tensor | None  # (B,) float32, no relation adds less; None: not known


def lazy_keys(plan: Plan, queries: torch.Tensor) -> KeyVectors | None:
    """The relations' vectors, if there are many and one collection has one row for each of them."""
    bound = plan.relation_bound
    keys = len(plan.graph.keys)
    if keys <= LAZY_KEYS or len(bound) != 1 or plan.max_distance is not None or queries.device.type != "cpu":
        return None
    index = bound[0].collection.index
    if not isinstance(index, ExactIndex) or index.hides or index.scale is not None:
        return None
    if not bound[0].distinct or plan.masks(bound)[0] is not None:
        return None
    row = plan.graph.latest("_key_row", bound[0], lambda: _rows(bound[0], keys))
    return KeyVectors(queries, index.vectors, row)


def least_term(rule: EdgeRule, raw: torch.Tensor | None, count: int) -> torch.Tensor | None:
    """(B,) float32 that no relation term is below, from (B, R + 1) raw distances (None: only that none is negative)."""
    if rule.floor is None:
        return None
    if raw is None:
        return torch.zeros(count)
    nearest = raw.amin(dim=1).clamp(min=0.0, max=rule.penalty)
    return nearest * (rule.floor * (1.0 - 1e-6))  # terms are rounded to float32


def reach(
    plan: Plan,
    value: torch.Tensor,
    keys: Keys,
    table: Callable[[torch.Tensor], torch.Tensor],
    margin: torch.Tensor,
    k: int,
    either: torch.Tensor | None,
    tied: torch.Tensor | None = None,
) -> Reach:
    """Walk from the nearest nodes where that proves enough, and look at every edge for the queries where it doesn't.

    Args:
        value: (B, N) float32 approximate node terms, +inf for nodes that are out.
        table: makes the (n, R + 1) values of some queries, for those that need all of them after lazy ones.
        margin: (B,) float32; k, tied: as in `edge_filter`.
        either: (B, N) bool: admit only edges with such an end.
    """
    edges = plan.graph.num_edges
    every = torch.full((value.shape[0],), 2 * edges, dtype=torch.int64, device=value.device)
    if value.device.type != "cpu" or either is not None or keys.least is None or edges < SMALL:
        values = table(torch.arange(value.shape[0], device=value.device)) if keys.value is None else keys.value
        return Reach(*edge_filter(plan.topology, value, values, keys.rule, margin, k, either, tied), every)
    given = keys.lazy if keys.value is None else keys.value
    assert given is not None
    ends = (plan.graph.out.other, plan.graph.into.other)
    found = edge_prune(plan.topology, ends, value, given, keys.least, keys.rule, margin, k)
    left = torch.nonzero(found.open).flatten()
    if left.shape[0] == 0:
        return Reach(found.indptr, found.edge, found.read)
    values = table(left) if keys.value is None else keys.value[left]
    some = None if tied is None else tied[left]
    indptr, edge = edge_filter(plan.topology, value[left], values, keys.rule, margin[left], k, tied=some)
    query = torch.cat([query_of(found.indptr), left[query_of(indptr)]])
    order = torch.argsort(query, stable=True)
    offsets = torch.zeros_like(found.indptr)
    offsets[1:] = torch.bincount(query, minlength=value.shape[0]).cumsum(0)
    return Reach(offsets, torch.cat([found.edge, edge])[order], torch.where(found.open, found.read + every, found.read))


def _rows(bound: Bound, keys: int) -> torch.Tensor:
    """(R,) int32 row of each relation key, -1 where the collection has none."""
    indptr, row = bound.by_owner
    out = torch.full((keys,), -1, dtype=torch.int32)
    has = torch.nonzero(indptr[1 : keys + 1] > indptr[:keys]).flatten()
    out[has] = row[indptr[has]].int()
    return out
