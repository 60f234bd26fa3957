"""The last step of a ranking: each query's own cut, the raw distances behind its edges, and what was found at all."""

from typing import NamedTuple

import torch

from tercet_kernels._checks import check
from tercet_kernels._types import Top
from tercet_kernels.finish import cpu, reference


class Finished(NamedTuple):
    """The best edges of each query; absent places hold -1 and +inf."""

    edge: torch.Tensor  # (B, k) int32
    score: torch.Tensor  # (B, k) float64
    distance: torch.Tensor  # (B, k, 3) float32 raw distances of source, target, relation; +inf: not matched
    slot: torch.Tensor  # (B, k, 3) int32, -1: not matched


def finish(
    top: Top, top_k: torch.Tensor, touched: torch.Tensor, nodes: torch.Tensor, relations: torch.Tensor
) -> Finished:
    """Cut each query's edges at its own `top_k`, or at none.

    Args:
        top: the best edges, with room for the largest `top_k`; its arrays may be taken over by the result.
        top_k: (B,) int64.
        touched: (B,) bool: queries whose edges count; the others get none.
        nodes, relations: (T,), (U,) float32 raw distances by slot; a slot with none (+inf) is no match.

    Raises:
        ValueError: a shape, dtype or device differs from the above.
    """
    device, shape = top_k.device, tuple(top.edge.shape)
    check("top_k", top_k, (shape[0],), torch.int64, device)
    check("touched", touched, (shape[0],), torch.bool, device)
    check("top.edge", top.edge, shape, torch.int32, device)
    check("top.score", top.score, shape, torch.float64, device)
    check("top.slot", top.slot, (*shape, 3), torch.int32, device)
    check("nodes", nodes, (None,), torch.float32, device)
    check("relations", relations, (None,), torch.float32, device)
    if device.type != "cpu":
        return Finished(*reference.finish(top, top_k, touched, nodes, relations))
    distance = torch.empty(*shape, 3, dtype=torch.float32)
    cpu.finish(*(x.numpy() for x in (top.edge, top.score, top.slot, top_k, touched, nodes, relations, distance)))
    return Finished(top.edge, top.score, distance, top.slot)


def touched(
    indptr: torch.Tensor, distance: torch.Tensor, other_indptr: torch.Tensor, other_distance: torch.Tensor
) -> torch.Tensor:
    """(B,) bool whether a query has an element with a distance in one of two tables.

    Args:
        indptr, other_indptr: (B + 1,) int64 slices of the distances.
        distance, other_distance: (T,), (U,) float32, +inf for none.

    Raises:
        ValueError: a shape, dtype or device differs from the above.
    """
    device = indptr.device
    check("indptr", indptr, (None,), torch.int64, device)
    check("distance", distance, (None,), torch.float32, device)
    check("other_indptr", other_indptr, tuple(indptr.shape), torch.int64, device)
    check("other_distance", other_distance, (None,), torch.float32, device)
    if device.type != "cpu":
        return (reference.counted(indptr, distance) + reference.counted(other_indptr, other_distance)) > 0
    out = torch.empty(indptr.shape[0] - 1, dtype=torch.bool)
    cpu.touched(*(x.numpy() for x in (indptr, distance, other_indptr, other_distance, out)))
    return out


def counted(indptr: torch.Tensor, distance: torch.Tensor) -> torch.Tensor:
    """(B,) int64 elements of each query that have a distance.

    Args:
        indptr: (B + 1,) int64 slices of `distance`.
        distance: (T,) float32, +inf for none.

    Raises:
        ValueError: a shape, dtype or device differs from the above.
    """
    check("indptr", indptr, (None,), torch.int64, indptr.device)
    check("distance", distance, (None,), torch.float32, indptr.device)
    if indptr.device.type != "cpu":
        return reference.counted(indptr, distance)
    return torch.from_numpy(cpu.counted(indptr.numpy(), distance.numpy()))
