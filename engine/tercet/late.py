"""Queries whose answers don't depend on the search of relations: nothing that it could find is in their fragment.

A relation among the `wide_search_top_k` nearest only counts where an edge of the fragment has it. Where the fragment is
known before (both ends are among the candidates) and has few edges, their relations are scored first, exactly. If so
many rows are nearer than the nearest of them, none of them is a candidate, whatever the others are.
"""

import torch

from tercet.candidates import Bound, Hits, query_of
from tercet.index.exact import ExactIndex
from tercet.plan import Plan
from tercet_kernels.fragment_keys import fragment_keys
from tercet_kernels.outranked import pays

MOST = 64  # edges of a fragment: of more, one is near enough more often than not


def passed_over(plan: Plan, queries: torch.Tensor, nodes: Hits, wide: torch.Tensor) -> torch.Tensor | None:
    """(B,) bool queries for which no relation of the fragment can be a candidate; None where it isn't looked at.

    Args:
        nodes: the candidates among the nodes; wide: (B,) int64 candidates that each relation collection contributes.
    """
    bound = plan.relation_bound
    if plan.projection != "induced" or plan.wide is None or not bound or not all(_suits(plan, b) for b in bound):
        return None
    keys = fragment_keys(plan.topology, nodes.indptr, nodes.element, MOST)
    # without any candidate among the nodes, those among the relations say whether anything was found at all
    out = ~keys.many & (nodes.indptr.diff() > 0)
    query = query_of(keys.indptr).int()
    for b in bound:
        out &= _index(b).outranked(queries, _nearest(b, queries, query, keys.key).masked_fill_(~out, 0.0), wide)
    return out


def _suits(plan: Plan, bound: Bound) -> bool:
    index = bound.collection.index
    exact = isinstance(index, ExactIndex) and index.vectors.device.type == "cpu" and pays(index.size)
    return exact and bound.distinct and plan.masks([bound])[0] is None


def _index(bound: Bound) -> ExactIndex:
    assert isinstance(bound.collection.index, ExactIndex)
    return bound.collection.index


def _nearest(bound: Bound, queries: torch.Tensor, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
    """(B,) float32 the smallest distance of a query's keys that have a row, +inf where none has."""
    out = torch.full((queries.shape[0],), torch.inf)
    indptr, rows = bound.by_owner
    low = indptr[key.long()]
    held = torch.nonzero(low < indptr[key.long() + 1]).flatten()
    of = query[held]
    got = bound.collection.index.pairs(queries, of, rows[low[held]])
    return out.scatter_reduce_(0, of.long(), got, "amin")
