"""Cosine distances of chosen (query, row) pairs by one fixed-order formula, the same bits on every device.

Products of two float32 values are exact in float64; they are added in 16 lanes (element i to lane i mod 16, in order)
and the lanes are folded in halves. No step depends on batch size, position, tile or thread count.
"""

import numpy as np
import torch

from tercet_kernels._checks import check
from tercet_kernels._threads import threads
from tercet_kernels._triton import has_triton
from tercet_kernels.cosine import cpu, reference

NO_SCALE = np.ones(1)
BLOCK = 256  # pairs that a CPU thread takes at a time
GATHER_ROWS = 1 << 16  # float16 rows widened at a time


def pair_distances(
    queries: torch.Tensor,
    vectors: torch.Tensor,
    query: torch.Tensor,
    row: torch.Tensor,
    scale: torch.Tensor | None = None,
) -> torch.Tensor:
    """1 - cosine of each pair, in [0, 2].

    Args:
        queries: (B, D) float32, unit norm.
        vectors: (V, D) float32 unit norm, or float16 of any norm with `scale`.
        query: (P,) int32 in [0, B).
        row: (P,) int32 in [0, V).
        scale: (V,) float64, the reciprocal norms of the rows; None means 1.

    Returns:
        (P,) float32, rounded once from float64 and clamped to [0, 2].

    Raises:
        ValueError: a shape, dtype or device differs from the above.
    """
    device = queries.device
    check("queries", queries, (None, None), torch.float32, device)
    check("query", query, (None,), torch.int32, device)
    check("row", row, (query.shape[0],), torch.int32, device)
    dtype = torch.float16 if vectors.dtype == torch.float16 else torch.float32
    check("vectors", vectors, (None, queries.shape[1]), dtype, device)
    if scale is not None:
        check("scale", scale, (vectors.shape[0],), torch.float64, device)
    use_triton = queries.is_cuda and has_triton()
    if device.type != "cpu" and not use_triton:
        return reference.pair_distances(queries, vectors, query, row, scale)
    out = torch.empty(query.shape[0], dtype=torch.float32, device=device)
    if use_triton:
        from tercet_kernels.cosine import cuda

        cuda.pair_distances(queries, vectors, query, row, scale, out)
        return out
    if dtype == torch.float32:
        cpu.pair_distances(
            queries.numpy(), vectors.numpy(), query.numpy(), row.numpy(),
            NO_SCALE if scale is None else scale.numpy(), scale is not None, out.numpy(),
            threads((query.shape[0] + BLOCK - 1) // BLOCK),
        )  # fmt: skip
        return out
    for start in range(0, query.shape[0], GATHER_ROWS):
        part = slice(start, start + GATHER_ROWS)
        chosen = row[part].long()
        wide = vectors[chosen].float()
        local = torch.arange(len(chosen), dtype=torch.int32)
        out[part] = pair_distances(queries, wide, query[part], local, None if scale is None else scale[chosen])
    return out


def least_distances(
    queries: torch.Tensor,
    vectors: torch.Tensor,
    indptr: torch.Tensor,
    row: torch.Tensor,
    scale: torch.Tensor | None = None,
) -> torch.Tensor:
    """(B,) float32: the smallest distance of each query to rows of its own, +inf without any; see `pair_distances`.

    Args:
        indptr: (B + 1,) int64 offsets of each query's rows; row: (P,) int32 in [0, V).

    Raises:
        ValueError: a shape, dtype or device differs from the above.
    """
    device = queries.device
    check("indptr", indptr, (queries.shape[0] + 1,), torch.int64, device)
    if device.type == "cpu" and vectors.dtype == torch.float32 and scale is None:
        check("queries", queries, (None, vectors.shape[1]), torch.float32, device)
        check("row", row, (None,), torch.int32, device)
        check("vectors", vectors, (None, None), torch.float32, device)
        out = torch.empty(queries.shape[0])
        parts = threads(queries.shape[0], row.shape[0] * BLOCK)
        cpu.least_distances(queries.numpy(), vectors.numpy(), indptr.numpy(), row.numpy(), out.numpy(), parts)
        return out
    query = torch.repeat_interleave(torch.arange(queries.shape[0], device=device), indptr.diff())
    got = pair_distances(queries, vectors, query.int(), row, scale)
    return torch.full((queries.shape[0],), torch.inf, device=device).scatter_reduce_(0, query, got, "amin")


def norms(vectors: torch.Tensor) -> torch.Tensor:
    """(V,) float64 Euclidean norms of (V, D) float32 or float16 rows, in the same fixed order."""
    return reference.norms(vectors)
