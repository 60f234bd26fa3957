"""Grouping of edges by one of their ends: offsets and order of a compressed sparse row layout, and its upkeep."""

import numpy as np
import torch

from tercet_kernels._checks import check
from tercet_kernels.csr import cpu, reference

CPU = torch.device("cpu")  # graphs change on the host


def group(key: torch.Tensor, size: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows grouped by key, in their own order inside a group (a stable counting sort).

    Args:
        key: (E,) int32 in [0, size), or -1: in no group.
        size: number of groups.

    Returns:
        indptr (size + 1,) int64 and order int32: the rows of group g are order[indptr[g]:indptr[g + 1]].

    Raises:
        ValueError: wrong shape or dtype.
    """
    check("key", key, (None,), torch.int32, key.device)
    if key.is_cuda:
        return reference.group(key, size)
    # numpy asks for large pages; lists are read here and there, which takes a tenth longer from small ones
    indptr, order = np.zeros(size + 1, np.int64), np.empty(key.shape[0], np.int32)
    cpu.group(key.numpy(), indptr, order)
    kept = order if indptr[-1] == len(order) else order[: indptr[-1]].copy()
    return torch.from_numpy(indptr), torch.from_numpy(kept)


def offsets(indptr: torch.Tensor, runs: torch.Tensor, more: torch.Tensor) -> torch.Tensor:
    """The offsets after groups and rows have gone and come.

    Args:
        indptr: (size + 1,) int64 the offsets before.
        runs: (r, 3) int64 first group now, first group before, length: the groups that stay; others begin empty.
        more: (size',) int32 how many rows each group has now beyond those it had.

    Returns:
        (size' + 1,) int64.

    Raises:
        ValueError: wrong shape, dtype or device.
    """
    for name, tensor, shape, dtype in (
        ("indptr", indptr, (None,), torch.int64), ("runs", runs, (None, 3), torch.int64),
        ("more", more, (None,), torch.int32),
    ):  # fmt: skip
        check(name, tensor, shape, dtype, CPU)
    return torch.from_numpy(cpu.offsets(indptr.numpy(), runs.numpy(), more.numpy()))


def most(indptr: torch.Tensor) -> int:
    """The size of the largest group, 0 without groups."""
    check("indptr", indptr, (None,), torch.int64, CPU)
    return int(cpu.most(indptr.numpy()))


def places(indptr: torch.Tensor, row: torch.Tensor, group: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    """Where rows are, or belong, in the groups that they are of.

    Args:
        indptr: (size + 1,) int64. row: (E,) int32 ascending within a group.
        group: (P,) int64 in [0, size]; size itself: behind all groups. wanted: (P,) int64 rows.

    Returns:
        (P,) int64 the first place in the group whose row isn't smaller, or its end.

    Raises:
        ValueError: wrong shape, dtype or device.
    """
    for name, tensor, shape, dtype in (
        ("indptr", indptr, (None,), torch.int64), ("row", row, (None,), torch.int32),
        ("group", group, (None,), torch.int64), ("wanted", wanted, group.shape, torch.int64),
    ):  # fmt: skip
        check(name, tensor, shape, dtype, CPU)
    return torch.from_numpy(cpu.places(indptr.numpy(), row.numpy(), group.numpy(), wanted.numpy()))
