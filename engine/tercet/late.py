"""Queries whose answers don't depend on the search of relations: nothing that it could find is in their fragment.

A relation among the `wide_search_top_k` nearest only counts where an edge of the fragment has it. Where the fragment is
known before (both ends are among the candidates) and has few relations, these are scored first, exactly. If so many
rows are nearer than the nearest of them, none of them is a candidate, whatever the others are.
"""

import numpy as np
import torch

from tercet.candidates import Bound, Hits
from tercet.index.exact import ExactIndex
from tercet.index.segmented import SegmentedIndex
from tercet.plan import Plan
from tercet_kernels.fragment_keys import fragment_keys
from tercet_kernels.outranked import pays

MOST = 128  # keys of a fragment: of more, one is near enough more often than not

COUNTING = (ExactIndex, SegmentedIndex)  # they can tell whether so many rows are nearer


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
    out = ~keys.many.numpy() & (np.diff(nodes.indptr.numpy()) > 0)
    for b in bound:
        index = b.collection.index
        assert isinstance(index, COUNTING)
        distance = index.least_distances(queries, *_rows(b, keys.indptr, keys.key)).numpy()
        # what is open anyhow isn't asked: nothing is to be outranked there
        behind = index.outranked(queries, torch.from_numpy(np.where(out, distance, np.float32(np.inf))), wide)
        if behind is None:
            return None
        out &= behind.numpy()
    return torch.from_numpy(out)


def _suits(plan: Plan, bound: Bound) -> bool:
    index = bound.collection.index
    rows = index.segments[0].index.size if isinstance(index, SegmentedIndex) else index.size
    exact = isinstance(index, COUNTING) and plan.graph.device.type == "cpu" and pays(rows)
    return exact and bound.distinct and plan.masks([bound])[0] is None


def _rows(bound: Bound, indptr: torch.Tensor, key: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """(indptr, row) of each query's keys that have a row."""
    starts, rows = (x.numpy() for x in bound.by_owner)
    keys = key.numpy()
    low = starts[keys]
    held = low < starts[keys + 1]
    if not held.all():
        indptr = torch.from_numpy(np.concatenate([[0], np.cumsum(held)])[indptr.numpy()])
        low = low[held]
    return indptr, torch.from_numpy(rows[low])
