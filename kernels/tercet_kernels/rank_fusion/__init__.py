"""Reciprocal rank fusion of several ranked lists of every query."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch

from tercet_kernels._checks import check
from tercet_kernels._threads import threads
from tercet_kernels.rank_fusion import cpu, reference

STEPS = 60  # of a nanosecond, an entry of a list
MOST_HALVES = 32  # halves and ranks share 32 bits of a key
MOST_RANK = 1 << 27


class Fusion(NamedTuple):
    """One ranked list a query, best first."""

    indptr: torch.Tensor  # (B + 1,) int64
    node: torch.Tensor  # (T,) int32
    score: torch.Tensor  # (T,) float64
    ranks: torch.Tensor  # (T, H) int32 best rank in each half, from 1; 0 where the half doesn't list the node
    available: torch.Tensor  # (B,) int64 distinct nodes, before the limit


def rank_fusion(
    indptrs: Sequence[torch.Tensor],
    nodes: Sequence[torch.Tensor],
    weights: Sequence[float],
    rrf_k: float,
    limit: torch.Tensor,
) -> Fusion:
    """Fuse ranked lists by their ranks alone (Cormack, Clarke and Buettcher 2009).

    The score of a node is the float64 sum, in the order of the halves, of weight / (rrf_k + rank) over the halves of a
    weight above 0 that list it, ranks from 1, the best one where a half lists it twice. Score descending, ties to the
    smaller node; a node that only halves of weight 0 list is left out.

    Args:
        indptrs: (H,) offsets (B + 1,) int64; nodes: (H,) lists (T,) int32, best first.
        weights: (H,) at least 0.
        rrf_k: at least 0.
        limit: (B,) int64 results a query.

    Raises:
        ValueError: a shape, dtype or device differs from the above.

    Memory: the result, and 24 bytes an entry of the lists on the CPU.
    """
    device, halves = limit.device, len(nodes)
    check("limit", limit, (None,), torch.int64, device)
    if not 0 < halves <= MOST_HALVES or halves != len(indptrs) or halves != len(weights):
        raise ValueError(f"nodes: expected 1 to {MOST_HALVES} lists with offsets and weights, got {halves}")
    for i, (indptr, node) in enumerate(zip(indptrs, nodes, strict=True)):
        check(f"indptrs[{i}]", indptr, (limit.shape[0] + 1,), torch.int64, device)
        check(f"nodes[{i}]", node, (None,), torch.int32, device)
    if device.type != "cpu":
        return Fusion(*reference.rank_fusion(indptrs, nodes, weights, rrf_k, limit))
    starts = np.concatenate([[0], np.cumsum([n.shape[0] for n in nodes])]).astype(np.int64)
    flat = np.concatenate([n.numpy() for n in nodes])
    offsets = np.stack([p.numpy() for p in indptrs]) + starts[:-1, None]
    parts = threads(limit.shape[0], float(STEPS * flat.size))
    out = cpu.rank_fusion(offsets, flat, np.array(weights, np.float64), float(rrf_k), limit.numpy(), parts)
    return Fusion(*(torch.from_numpy(x) for x in out))
