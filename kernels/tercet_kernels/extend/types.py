"""What `extend` takes and gives."""

from typing import NamedTuple

import torch


class Near(NamedTuple):
    """What nodes are ranked by: the cosine distance of a node's vector to its query."""

    queries: torch.Tensor  # (B, D) float32 unit norm
    vectors: torch.Tensor  # (V, D) float32 unit norm
    row: torch.Tensor | None  # (N,) int32 row of each node, -1 for none; None: row i is node i's


class Extended(NamedTuple):
    """The selections with their next level."""

    indptr: torch.Tensor  # (B + 1,) int64
    node: torch.Tensor  # (T,) int32
    hop: torch.Tensor  # (T,) int32
    begin: torch.Tensor  # (B,) int64 where the next frontiers begin; a slice's end for a query that was cut
    available: torch.Tensor  # (B,) int64 nodes that were reached, those beyond the limit too
    taken: torch.Tensor  # (B,) int64 those that were taken
