"""The edges of the whole graph that can be among the k best of each query, found from the nearest nodes.

A score is the sum of two node terms and a relation's. An edge within a bound T has an end whose term is at most
(T - m) / 2, where m is the smallest term that a relation can have. So the lists of the nearest nodes are walked in
order, which gives a T, and then those of all other nodes within half of what it leaves; nothing else can be within T.
"""

from typing import NamedTuple

import torch

from tercet_kernels._checks import check, check_k, check_rule
from tercet_kernels._threads import threads
from tercet_kernels._types import EdgeRule, Topology
from tercet_kernels.edge_prune import cpu

SEEDS = 64  # nodes that are walked first
SHARE = 8  # a query that would read more than one in so many list entries is left to the scan of all edges


class KeyVectors(NamedTuple):
    """Relations whose distances are computed when an edge needs them."""

    queries: torch.Tensor  # (B, D) float32
    vectors: torch.Tensor  # (V, D) float32
    row: torch.Tensor  # (R,) int32 row of each key, -1: it has none


class Pruned(NamedTuple):
    """Edges within reach of the k best, a slice a query; nothing for queries that are still open."""

    indptr: torch.Tensor  # (B + 1,) int64
    edge: torch.Tensor  # (M,) int32 ascending within a query
    open: torch.Tensor  # (B,) bool: too much to walk, or fewer than k edges; to be scanned
    read: torch.Tensor  # (B,) int64 list entries read


def edge_prune(
    topology: Topology,
    ends: tuple[torch.Tensor, torch.Tensor],
    node_term: torch.Tensor,
    key_value: torch.Tensor | KeyVectors,
    least: torch.Tensor,
    rule: EdgeRule | None,
    margin: torch.Tensor,
    k: int,
    *,
    seeds: int = SEEDS,
    share: int = SHARE,
) -> Pruned:
    """What `edge_filter` returns, without scoring every edge, where that pays. On the CPU.

    Args:
        topology, node_term, rule, margin, k: as in `edge_filter`.
        ends: (E,) int32 the other ends of the entries of the lists by source and by target, so that a list is read in
            one piece.
        key_value: (B, R + 1) float32 as in `edge_filter`, or vectors: then `rule` is needed.
        least: (B,) float32, no relation term is smaller.
        seeds: nodes that give the first bound.
        share: a query is left open when it would read more than 2 E / share list entries.

    Returns:
        The edges, and which queries are left to `edge_filter`.

    Raises:
        ValueError: k is below 1, or a shape, dtype or device differs from the above.

    Memory: 8 k + 1024 int32 a query.
    """
    check_k(k)
    device, queries = torch.device("cpu"), margin.shape[0]
    check("margin", margin, (None,), torch.float32, device)
    check("least", least, (queries,), torch.float32, device)
    check("node_term", node_term, (queries, topology.num_nodes), torch.float32, device)
    out_end, in_end = ends
    for name, end in (("ends[0]", out_end), ("ends[1]", in_end)):
        check(name, end, topology.source.shape, torch.int32, device)
    lazy = isinstance(key_value, KeyVectors)
    if isinstance(key_value, KeyVectors):
        check("key_value.queries", key_value.queries, (queries, None), torch.float32, device)
        check("key_value.vectors", key_value.vectors, (None, key_value.queries.shape[1]), torch.float32, device)
        check("key_value.row", key_value.row, (topology.num_keys,), torch.int32, device)
        if rule is None:
            raise ValueError("rule: expected the weights of the edges beside key vectors, got None")
        row, vectors, chosen = key_value.row, key_value.vectors, key_value.queries
        values = torch.zeros(1, 1)
    else:
        check("key_value", key_value, (queries, topology.num_keys + 1), torch.float32, device)
        row, vectors, chosen = torch.zeros(1, dtype=torch.int32), torch.zeros(1, 1), torch.zeros(1, 1)
        values = key_value
    if rule is not None:
        check_rule(topology, rule)
    if topology.num_nodes == 0:
        nothing = torch.zeros(queries, dtype=torch.int64)
        return Pruned(torch.zeros(queries + 1, dtype=torch.int64), topology.source[:0], nothing == 0, nothing)
    none = torch.ones(1, dtype=torch.float64)
    weights = EdgeRule(none, none, 0.0, 0.0, False) if rule is None else rule
    out = cpu.edge_prune(
        (topology.out_indptr.numpy(), topology.out_edge.numpy(), out_end.numpy()),
        (topology.in_indptr.numpy(), topology.in_edge.numpy(), in_end.numpy()),
        (topology.key.numpy(), lazy, row.numpy(), vectors.numpy()),
        (rule is not None, weights.importance.numpy(), weights.feedback.numpy(), float(weights.influence),
         float(weights.penalty), weights.cliff),
        node_term.numpy(), values.numpy(), chosen.numpy(), least.numpy(), margin.numpy(), k, seeds,
        2 * topology.source.shape[0] // share, threads(queries),
    )  # fmt: skip
    return Pruned(*(torch.from_numpy(x) for x in out))
