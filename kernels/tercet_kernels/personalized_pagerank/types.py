"""The values of the op. B queries, N nodes, M entries of the lists that the walk is read from."""

from typing import Literal, NamedTuple

import torch

Direction = Literal["out", "in", "both"]


class Walk(NamedTuple):
    """Where a step of the walk comes from: node v is entered from near[indptr[v]:indptr[v + 1]].

    `share` is the chance of the step from there. Without weights all steps from a node are equal, so it is None and
    the iteration carries x / scale instead of x: one number less to read for each entry.
    """

    indptr: torch.Tensor  # (N + 1,) int64
    near: torch.Tensor  # (M,) int32
    share: torch.Tensor | None  # (M,) float64; those of the steps from one node add up to 1
    scale: torch.Tensor  # (N,) float64 steps that lead away, at least 1; all 1 with `share`
    dangling: torch.Tensor  # (N,) float64 1 for a node that no step leads away from, else 0


class PageRanks(NamedTuple):
    """Personalized PageRank of each query. A query that failed has NaN scores and residual, and no nodes."""

    node: torch.Tensor | None  # (B, k) int32 by score descending, ties to the smaller row, pad -1; None: all nodes
    score: torch.Tensor  # (B, k) float64 beside `node`, 0 at pads; or (B, N) by row
    residual: torch.Tensor  # (B,) float64 L1 change of the last step
    iterations: torch.Tensor  # (B,) int32
    converged: torch.Tensor  # (B,) bool
