"""Groups of arrays that several kernels take. B queries, N nodes, E edges, R relation keys.

A column of weights may be one value expanded over all rows (stride 0), on the CPU.
"""

from typing import NamedTuple

import torch


class Topology(NamedTuple):
    """The graph, as the kernels read it."""

    source: torch.Tensor  # (E,) int32
    target: torch.Tensor  # (E,) int32
    key: torch.Tensor  # (E,) int32 relation key, -1: nothing can match this edge
    oriented_indptr: torch.Tensor  # (N + 1,) int64: each edge once, at its end of lower degree
    oriented_edge: torch.Tensor  # (E,) int32
    oriented_other: torch.Tensor  # (E,) int32
    out_indptr: torch.Tensor  # (N + 1,) int64: grouped by source
    out_edge: torch.Tensor  # (E,) int32
    in_indptr: torch.Tensor  # (N + 1,) int64: grouped by target
    in_edge: torch.Tensor  # (E,) int32
    num_keys: int  # R

    @property
    def num_nodes(self) -> int:
        return self.out_indptr.shape[0] - 1


class NodeHits(NamedTuple):
    """Nodes with a distance, a slice a query, ascending by node within it. Nodes from N on have no edges."""

    indptr: torch.Tensor  # (B + 1,) int64
    node: torch.Tensor  # (T,) int32
    term: torch.Tensor  # (T,) float64 effective distance


class RelationHits(NamedTuple):
    """Relation keys with a distance, a slice a query, ascending by key within it."""

    indptr: torch.Tensor  # (B + 1,) int64
    key: torch.Tensor  # (U,) int32
    distance: torch.Tensor  # (U,) float32 raw distance


class EdgeRule(NamedTuple):
    """How an edge's own part of the score is made of its key's distance; see `effective`."""

    importance: torch.Tensor  # (E,) float64
    feedback: torch.Tensor  # (E,) float64
    influence: float
    penalty: float
    cliff: bool
    floor: float | None = (
        None  # no edge adds less than so much times the smaller of distance and penalty; None: unknown
    )


class NodeRule(NamedTuple):
    """How a node's part of the score is made of its distance; see `effective`."""

    importance: torch.Tensor  # (N,) float64
    feedback: torch.Tensor  # (N,) float64
    influence: float
    penalty: float
    cliff: bool
    personal: torch.Tensor | None = None  # (N,) float64, NaN where a node has none
    personal_influence: float = 0.3


class Fragment(NamedTuple):
    """The edges that each query may use, a slice a query, ascending by edge within it."""

    indptr: torch.Tensor  # (B + 1,) int64
    edge: torch.Tensor  # (M,) int32
    source_slot: torch.Tensor  # (M,) int32 row of the NodeHits, -1: not matched
    target_slot: torch.Tensor  # (M,) int32


class Top(NamedTuple):
    """The best edges of each query, ascending by (score, edge); absent places hold -1 and +inf."""

    edge: torch.Tensor  # (B, k) int32
    score: torch.Tensor  # (B, k) float64
    slot: torch.Tensor  # (B, k, 3) int32 rows of the NodeHits (source, target) and RelationHits, -1: not matched
    available: torch.Tensor  # (B,) int64 edges in the query's fragment
