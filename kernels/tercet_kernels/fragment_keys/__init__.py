"""The relation keys of the edges among the nodes of each query, where they are few."""

from typing import NamedTuple

import torch

from tercet_kernels._checks import check
from tercet_kernels._threads import threads
from tercet_kernels._types import Topology
from tercet_kernels.fragment_keys import cpu

STEPS = 30  # of a nanosecond, a node and its list
ENTRIES = 64  # of the lists, for each key that may be found


class Keys(NamedTuple):
    """The keys of each query's edges, a slice a query, ascending within it, each of them once."""

    indptr: torch.Tensor  # (B + 1,) int64
    key: torch.Tensor  # (M,) int32
    many: torch.Tensor  # (B,) bool: there were more keys, edges or entries of lists than asked for; nothing is listed


def fragment_keys(topology: Topology, indptr: torch.Tensor, node: torch.Tensor, most: int) -> Keys:
    """The keys of the edges with both ends among a query's nodes; edges without a key are left out. On the CPU.

    Args:
        topology: the graph.
        indptr: (B + 1,) int64 offsets of each query's nodes; node: (T,) int32 rows, none twice within a query; rows
            from N on have no edges.
        most: keys that a query may have, and for each of them 4 edges and 64 entries of its nodes' lists.

    Raises:
        ValueError: a shape, dtype or device differs from the above, or `most` is negative.
    """
    device = torch.device("cpu")
    check("indptr", indptr, (None,), torch.int64, device)
    check("node", node, (None,), torch.int32, device)
    if most < 0:
        raise ValueError(f"most: expected at least 0, got {most}")
    got = cpu.fragment_keys(
        topology.oriented_indptr.numpy(), topology.oriented_edge.numpy(), topology.oriented_other.numpy(),
        topology.key.numpy(), indptr.numpy(), node.numpy(), most, most * ENTRIES,
        threads(indptr.shape[0] - 1, node.shape[0] * STEPS),
    )  # fmt: skip
    return Keys(*map(torch.from_numpy, got))
