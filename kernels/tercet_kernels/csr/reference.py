"""Plain torch form of `group`."""

import torch


def group(key: torch.Tensor, size: int) -> tuple[torch.Tensor, torch.Tensor]:
    order = torch.argsort(key, stable=True).to(torch.int32)
    indptr = torch.zeros(size + 1, dtype=torch.int64, device=key.device)
    indptr[1:] = torch.bincount(key, minlength=size).cumsum(0)
    return indptr, order


def example(edges: int, size: int, seed: int = 0, device: str = "cpu") -> dict:
    generator = torch.Generator().manual_seed(seed)
    key = torch.randint(0, max(size, 1), (edges,), generator=generator, dtype=torch.int32)
    return {"key": key.to(device), "size": size}
