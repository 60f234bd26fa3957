"""What a group of queries asks for, in plain numbers and tensors: the pipeline's only input besides the vectors."""

from dataclasses import dataclass

import torch

from tercet.candidates import Bound
from tercet.graph import Graph
from tercet.rules import Projection
from tercet_kernels._types import Topology


@dataclass(frozen=True, eq=False)
class Scoring:
    """How raw distances become terms of a score."""

    penalty: float = 6.5
    influence: float = 0.0  # of feedback
    cliff: bool = False
    personal: torch.Tensor | None = None  # (N,) float64, NaN where a node has none
    personal_influence: float = 0.3


@dataclass(frozen=True, eq=False)
class Plan:
    """One way of retrieving, for B queries that share it."""

    graph: Graph
    topology: Topology
    bound: list[Bound]
    projection: Projection
    top_k: torch.Tensor  # (B,) int64
    wide: torch.Tensor | None  # (B,) int64; None: every row
    scoring: Scoring
    combine: str = "best"
    fallback: bool = False  # an empty fragment becomes the whole graph
    unread: torch.Tensor | None = None  # bool by node owner: a candidate whose edges were left out; no fallback then
    rank_unmatched: bool = False  # rank edges for a query that found nothing at all
    depth: int = 1  # neighborhood
    seed_top_k: int | None = 10  # neighborhood
    seed_order: str = "element"  # ties among seeds: by element, or by first appearance
    allowed: torch.Tensor | None = None  # (F, N) bool nodes that a query may use
    allowed_row: torch.Tensor | None = None  # (B,) int32, -1 for all
    row_masks: list[tuple[torch.Tensor, torch.Tensor] | None] | None = None  # per collection, instead of `allowed`
    max_distance: float | None = None

    @property
    def node_bound(self) -> list[Bound]:
        return [b for b in self.bound if b.collection.kind == "node"]

    @property
    def relation_bound(self) -> list[Bound]:
        return [b for b in self.bound if b.collection.kind == "relation"]

    def masks(self, bound: list[Bound]) -> list[tuple[torch.Tensor, torch.Tensor] | None]:
        """The row filters of these collections: by the node each row belongs to, unless the rows have their own."""
        if self.row_masks is not None:
            return [self.row_masks[self.bound.index(b)] for b in bound]
        if self.allowed is None or self.allowed_row is None:
            return [None] * len(bound)
        size = self.allowed.shape[1]
        return [
            (self.allowed[:, b.owner.long().clamp(max=max(size - 1, 0))] & (b.owner < size), self.allowed_row)
            if b.collection.kind == "node"
            else None
            for b in bound
        ]


def topology_of(graph: Graph) -> Topology:
    """The arrays that kernels read."""
    return Topology(
        graph.source, graph.target, graph.relation_key, graph.oriented.indptr, graph.oriented.edge,
        graph.oriented.other, graph.out.indptr, graph.out.edge, graph.into.indptr, graph.into.edge, len(graph.keys),
    )  # fmt: skip
