"""Plain torch forms of `group`, `offsets` and `places`."""

import torch


def group(key: torch.Tensor, size: int) -> tuple[torch.Tensor, torch.Tensor]:
    order = torch.argsort(key, stable=True).to(torch.int32)[int((key < 0).sum()) :]
    key = key[key >= 0]
    indptr = torch.zeros(size + 1, dtype=torch.int64, device=key.device)
    indptr[1:] = torch.bincount(key, minlength=size).cumsum(0)
    return indptr, order


def offsets(indptr: torch.Tensor, runs: torch.Tensor, more: torch.Tensor) -> torch.Tensor:
    count = more.long()
    for first, start, length in runs.tolist():
        count[first : first + length] += indptr.diff()[start : start + length]
    return torch.cat([count.new_zeros(1), count.cumsum(0)])


def places(indptr: torch.Tensor, row: torch.Tensor, group: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    out = []
    for g, w in zip(group.tolist(), wanted.tolist(), strict=True):
        low, high = int(indptr[g]), int(indptr[min(g + 1, len(indptr) - 1)])
        out.append(low + int((row[low:high] < w).sum()))
    return torch.tensor(out, dtype=torch.int64)


def example(edges: int, size: int, seed: int = 0, device: str = "cpu") -> dict:
    generator = torch.Generator().manual_seed(seed)
    key = torch.randint(0, max(size, 1), (edges,), generator=generator, dtype=torch.int32)
    return {"key": key.to(device), "size": size}
