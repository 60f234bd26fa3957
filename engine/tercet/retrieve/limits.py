"""How many results each query wants."""

from collections.abc import Sequence

import numpy as np
import torch

from tercet.errors import InvalidArgument


def limits(k: int | Sequence[int], queries: int) -> torch.Tensor:
    """(B,) int64 results wanted by each query.

    Args:
        k: one number for all, or (B,) one for each, at least 1.
        queries: B.

    Raises:
        InvalidArgument: a number below 1, something that isn't a whole number, or a list of another length.
    """
    one = np.ndim(k) == 0
    wanted = np.asarray(k)
    if wanted.dtype.kind not in "iu" and (one or queries):
        raise InvalidArgument(f"k: expected whole numbers, got {k!r}")
    if not one and wanted.shape != (queries,):
        raise InvalidArgument(f"k: expected one number, or one for each of {queries} queries, got {wanted.size}")
    if (wanted < 1).any():
        raise InvalidArgument(f"k: expected at least 1, got {wanted.min()}")
    return torch.from_numpy(np.array(np.broadcast_to(wanted, (queries,)), np.int64))
