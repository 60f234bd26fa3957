"""Where edges belong among others that are sorted by source, relation and target."""

import torch

from tercet_kernels._checks import check
from tercet_kernels.edge_bounds import cpu

CPU = torch.device("cpu")  # graphs change on the host


def edge_bounds(
    indptr: torch.Tensor, relation: torch.Tensor, target: torch.Tensor, source_at: torch.Tensor,
    relation_at: torch.Tensor, target_at: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    """The rows of each wanted edge's equals; where there are none, both are the row that it belongs before.

    What is wanted is given in half steps: 2 * i is what the sorted edges call i, 2 * i - 1 lies between i - 1 and i.

    Args:
        indptr: (N + 1,) int64: the edges of source n are the rows from indptr[n] to indptr[n + 1].
        relation, target: (E,) int32, ascending by (relation, target) within a source; a relation may be -1.
        source_at, relation_at, target_at: (P,) int64 half steps, source_at in [-1, 2 * N - 1].

    Returns:
        low (P,) and high (P,) int64: the equals are the rows from low to high.

    Raises:
        ValueError: wrong shape, dtype or device.
    """
    check("indptr", indptr, (None,), torch.int64, CPU)
    check("relation", relation, (None,), torch.int32, CPU)
    check("target", target, relation.shape, torch.int32, CPU)
    check("source_at", source_at, (None,), torch.int64, CPU)
    check("relation_at", relation_at, source_at.shape, torch.int64, CPU)
    check("target_at", target_at, source_at.shape, torch.int64, CPU)
    low, high = torch.empty_like(source_at), torch.empty_like(source_at)
    cpu.edge_bounds(
        indptr.numpy(), relation.numpy(), target.numpy(), source_at.numpy(), relation_at.numpy(), target_at.numpy(),
        low.numpy(), high.numpy(),
    )  # fmt: skip
    return low, high
