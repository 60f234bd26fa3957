"""A flat array after some of its rows have gone and others have come: stretches that stay are copied as they are."""

from collections.abc import Sequence

import numpy as np
import torch

from tercet_kernels._checks import check
from tercet_kernels._threads import threads
from tercet_kernels.splice import cpu

CPU = torch.device("cpu")  # graphs change on the host
BLOCK = 1 << 16  # rows that are worth a thread


def splice(
    old: torch.Tensor, runs: torch.Tensor, fresh: torch.Tensor, values: torch.Tensor, row: torch.Tensor | None = None
) -> torch.Tensor:
    """Stretches of an array, with other values between them.

    Args:
        old: (n,) of any dtype.
        runs: (r, 3) int64 first row of the result, first row of `old`, length; both ascend and don't overlap.
        fresh: (K,) int64 distinct rows of the result, in any order: all that no run covers.
        values: (K,) of the same dtype, what stands in them.
        row: (m,) int32: values that are copied are rows of another table, and this is where its rows have gone; only
            with int32. A value below 0 stays.

    Returns:
        (sum of the lengths + K,).

    Raises:
        ValueError: wrong shape, dtype or device.
    """
    check("old", old, (None,), old.dtype, CPU)
    check("runs", runs, (None, 3), torch.int64, CPU)
    check("fresh", fresh, (None,), torch.int64, CPU)
    check("values", values, fresh.shape, old.dtype, CPU)
    if row is not None:
        check("old", old, (None,), torch.int32, CPU)
        check("row", row, (None,), torch.int32, CPU)
    # numpy asks for large pages, which take a fraction of the time to come by
    out = torch.from_numpy(np.empty(int(runs[:, 2].sum()) + fresh.shape[0], old.numpy().dtype))
    parts = threads(-(-out.shape[0] // BLOCK), out.shape[0])
    if not runs.shape[0]:
        pass
    elif row is None:
        width = old.element_size()
        cpu.copied(old.view(torch.uint8).numpy(), runs.numpy(), width, out.view(torch.uint8).numpy(), parts)
    else:
        cpu.renumbered(old.numpy(), runs.numpy(), row.numpy(), out.numpy(), parts)
    out[fresh] = values
    return out


def numbered(runs: torch.Tensor, size: int) -> torch.Tensor:
    """(size,) int32 where each row before has gone, -1: it isn't there any more; runs as for `splice`."""
    check("runs", runs, (None, 3), torch.int64, CPU)
    out = torch.from_numpy(np.empty(size, np.int32))
    cpu.numbered(runs.numpy(), out.numpy(), threads(-(-size // BLOCK), size))
    return out


def renumbered(old: torch.Tensor, row: torch.Tensor) -> torch.Tensor:
    """(n,) int32 where rows have gone, by (m,) int32 `row`; values below 0 stay."""
    whole = torch.tensor([[0, 0, old.shape[0]]])
    return splice(old, whole, whole[0, :0], old[:0], row)


def located(rows: Sequence[torch.Tensor], size: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Which of several lists holds each row, and where.

    Args:
        rows: (v,) int32 each, -1 or a row in [0, size) that is nowhere else.

    Returns:
        (size,) int16 the list, and (size,) int32 the place in it.
    """
    which, place = (torch.from_numpy(np.zeros(size, kind)) for kind in (np.int16, np.int32))
    for i, row in enumerate(rows):
        check("rows", row, (None,), torch.int32, CPU)
        cpu.located(row.numpy(), i, which.numpy(), place.numpy())
    return which, place
