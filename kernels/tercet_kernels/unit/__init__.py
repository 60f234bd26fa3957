"""Rows brought to unit norm, a row's bits depending on that row alone."""

import torch

from tercet_kernels._checks import check
from tercet_kernels.unit import cpu, reference


def unit(vectors: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Divide each row by its Euclidean norm, in float64 and rounded once.

    Args:
        vectors: (B, D) float32.

    Returns:
        rows (B, D) float32: those whose norm is zero or not finite are as they were; norms (B,) float64, added up in
        the fixed order of `cosine.norms`.

    Raises:
        ValueError: wrong shape or dtype.
    """
    check("vectors", vectors, (None, None), torch.float32, vectors.device)
    if vectors.device.type != "cpu":
        return reference.unit(vectors)
    rows = torch.empty_like(vectors)
    lengths = torch.empty(vectors.shape[0], dtype=torch.float64)
    cpu.unit(vectors.numpy(), rows.numpy(), lengths.numpy())
    return rows, lengths
