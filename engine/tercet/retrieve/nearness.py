"""How near nodes are to the queries, for ranking what a walk finds."""

from dataclasses import dataclass

import torch

from tercet.candidates import Bound, rescore
from tercet.index.exact import ExactIndex
from tercet_kernels.extend import Near


@dataclass(frozen=True, eq=False)
class Nearness:
    """Distances of nodes to a batch of queries over some node collections; the nearest row of a node counts."""

    bound: list[Bound]
    queries: torch.Tensor  # (B, D) float32 unit norm

    def __call__(self, query: torch.Tensor, node: torch.Tensor) -> torch.Tensor:
        """(P,) float32 exact distances of (query, node) pairs, +inf for a node without a vector."""
        return rescore(self.bound, self.queries, query, node, "best")[0]

    def near(self, num_nodes: int) -> Near | None:
        """The same for a kernel, where one collection holds at most one float32 row a node; else None."""
        if len(self.bound) != 1 or not self.bound[0].distinct:
            return None
        b, index = self.bound[0], self.bound[0].collection.index
        if not isinstance(index, ExactIndex) or index.scale is not None or index.hides:
            return None
        if b.identity and index.size == num_nodes:
            return Near(self.queries, index.vectors, None)
        kept = b.__dict__
        if "_row_of" not in kept:  # made once a collection
            row = torch.full((num_nodes,), -1, dtype=torch.int32, device=b.owner.device)
            inside = torch.nonzero((b.owner >= 0) & (b.owner < num_nodes)).flatten()
            row[b.owner[inside].long()] = inside.int()
            kept["_row_of"] = row
        return Near(self.queries, index.vectors, kept["_row_of"])
