"""The edges of the whole graph that are among the k best of each query, from lower bounds of terms. On the CPU.

As in `edge_prune`, an edge within a bound has an end whose term is at most half of what its relation leaves, so the
lists of the nearest nodes are walked, ascending. Here the terms are bytes that say what a term is at least; an edge
that they let through is scored exactly, from the rows themselves, so nothing more than the best and their ties is left.
"""

from typing import NamedTuple

import torch

from tercet_kernels._checks import check, check_k
from tercet_kernels._threads import threads
from tercet_kernels._types import Topology
from tercet_kernels.edge_prune import Pruned
from tercet_kernels.edge_search import cpu
from tercet_kernels.term_floors import padded

SEEDS = 16  # nodes that are walked first
SHARE = 2  # a query that would read more than one in so many list entries is left to the scan of all edges


class Terms(NamedTuple):
    """Where exact terms come from: distances of float32 rows to queries, times weights."""

    node_row: torch.Tensor  # (N,) int64 address of each node's row, 0: none, its distance is the penalty
    key_row: torch.Tensor  # (R,) int64 of each relation key's
    node_factor: torch.Tensor  # (N,) float64, or (1,) for all
    edge_importance: torch.Tensor  # (E,) float64, or (1,) for all; an edge's factor is 2 less it
    penalty: float


def edge_search(
    topology: Topology,
    ends: tuple[torch.Tensor, torch.Tensor],
    node_floor: torch.Tensor,
    key_floor: torch.Tensor,
    step: float,
    terms: Terms,
    queries: torch.Tensor,
    k: int,
    *,
    seeds: int = SEEDS,
    share: int = SHARE,
) -> Pruned:
    """Edges whose exact score is at most the k-th smallest (and a float32 step more), without scoring every edge.

    Args:
        topology, ends: as in `edge_prune`.
        node_floor: (B, W) uint8, W = padded(N): no term of node n is below node_floor[q, n] * step; 255 from N on.
        key_floor: (B, W') uint8, W' = padded(R + 1): the same of the terms of edges with a relation key; column R is
            for edges without one; 255 from R + 1 on.
        queries: (B, D) float32; rows at the addresses of `terms` have D elements, and outlive the call.
        seeds: nodes that give the first bound.
        share: a query is left open when it would read more than 2 E / share list entries.

    Returns:
        As `edge_prune`: queries that would read too much, have fewer than k edges, or more ties than their buffer
        holds, are open.

    Raises:
        ValueError: k is below 1, or a shape, dtype or device differs from the above.

    Memory: 8 k + 1024 int32 a query, 20 N bytes a thread.
    """
    check_k(k)
    device, count = torch.device("cpu"), queries.shape[0]
    nodes, keys, edges = topology.num_nodes, topology.num_keys, topology.source.shape[0]
    check("queries", queries, (None, None), torch.float32, device)
    check("node_floor", node_floor, (count, padded(nodes)), torch.uint8, device)
    check("key_floor", key_floor, (count, padded(keys + 1)), torch.uint8, device)
    for name, end in (("ends[0]", ends[0]), ("ends[1]", ends[1])):
        check(name, end, (edges,), torch.int32, device)
    check("terms.node_row", terms.node_row, (nodes,), torch.int64, device)
    check("terms.key_row", terms.key_row, (keys,), torch.int64, device)
    for name, weight, size in (
        ("node_factor", terms.node_factor, nodes), ("edge_importance", terms.edge_importance, edges)
    ):  # fmt: skip
        check(f"terms.{name}", weight, (None,), torch.float64, device)
        if weight.shape[0] not in (1, size):
            raise ValueError(f"terms.{name}: expected 1 or {size} values, got {weight.shape[0]}")
    if nodes == 0 or edges == 0:
        nothing = torch.zeros(count, dtype=torch.int64)
        return Pruned(torch.zeros(count + 1, dtype=torch.int64), topology.source[:0], nothing == 0, nothing)
    got = cpu.edge_search(
        (topology.out_indptr.numpy(), topology.out_edge.numpy(), ends[0].numpy()),
        (topology.in_indptr.numpy(), topology.in_edge.numpy(), ends[1].numpy()),
        topology.key.numpy(), node_floor.numpy(), key_floor.numpy(),
        (terms.node_factor.numpy(), terms.edge_importance.numpy()), (terms.node_row.numpy(), terms.key_row.numpy()),
        queries.numpy(), float(terms.penalty), float(step), k, seeds, 2 * edges // share, threads(count),
    )  # fmt: skip
    return Pruned(*(torch.from_numpy(x) for x in got))
