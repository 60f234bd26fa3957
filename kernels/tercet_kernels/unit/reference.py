"""Plain torch form of `unit`."""

import numpy as np
import torch

from tercet_kernels.cosine.reference import dot


def unit(vectors: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    square = dot(vectors, vectors)
    # torch's root on the CPU isn't always the float64 nearest to the true one
    lengths = square.sqrt() if square.is_cuda else torch.from_numpy(np.sqrt(square.numpy()))
    safe = torch.where((lengths > 0) & torch.isfinite(lengths), lengths, 1.0)
    return (vectors.double() / safe[:, None]).float(), lengths


def example(rows: int, dimension: int, seed: int = 0, device: str = "cpu") -> dict:
    generator = torch.Generator().manual_seed(seed)
    return {"vectors": (torch.randn(rows, dimension, generator=generator) * 3).to(device)}
