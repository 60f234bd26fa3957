"""Grouping of edges by one of their ends: the offsets and the order of a compressed sparse row layout."""

import torch

from tercet_kernels._checks import check
from tercet_kernels.csr import cpu, reference


def group(key: torch.Tensor, size: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows grouped by key, in their own order inside a group (a stable counting sort).

    Args:
        key: (E,) int32 in [0, size).
        size: number of groups.

    Returns:
        indptr (size + 1,) int64 and order (E,) int32: the rows of group g are order[indptr[g]:indptr[g + 1]].

    Raises:
        ValueError: wrong shape or dtype.
    """
    check("key", key, (None,), torch.int32, key.device)
    if key.is_cuda:
        return reference.group(key, size)
    indptr, order = cpu.group(key.numpy(), size)
    return torch.from_numpy(indptr), torch.from_numpy(order)
