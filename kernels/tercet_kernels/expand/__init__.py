"""Nodes within a number of undirected steps of each query's seeds."""

import torch

from tercet_kernels._checks import check
from tercet_kernels._threads import threads
from tercet_kernels._triton import has_triton
from tercet_kernels._types import Topology
from tercet_kernels.expand import cpu, reference


def expand(
    topology: Topology,
    indptr: torch.Tensor,
    seed: torch.Tensor,
    depth: int,
    allowed: torch.Tensor | None = None,
    allowed_row: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Breadth-first, level by level, all queries at once.

    Args:
        topology: the graph.
        indptr: (B + 1,) int64 offsets of each query's seeds.
        seed: (S,) int32 node rows; rows from N on are kept and lead nowhere.
        depth: steps, at least 0.
        allowed: (F, N) bool: nodes that may be entered, one row a filter.
        allowed_row: (B,) int32 row of `allowed` for each query, -1 for no filter.

    Returns:
        (indptr (B + 1,) int64, node (T,) int32): seeds and reached nodes, each once, ascending within a query.

    Raises:
        ValueError: a shape, dtype or device differs from the above, or allowed comes without allowed_row.

    Memory: on CUDA see `cuda.expand`; it syncs once for the largest seed and once a level. Without Triton, CUDA runs
    the reference, which sorts what it found at each level.
    """
    device, queries = topology.source.device, indptr.shape[0] - 1
    check("indptr", indptr, (None,), torch.int64, device)
    check("seed", seed, (None,), torch.int32, device)
    if depth < 0:
        raise ValueError(f"depth: expected at least 0, got {depth}")
    filtered = allowed is not None
    if allowed is None:
        allowed = torch.ones(1, 1, dtype=torch.bool, device=device)  # never read
        allowed_row = torch.full((queries,), -1, dtype=torch.int32, device=device)
    else:
        check("allowed", allowed, (None, topology.num_nodes), torch.bool, device)
    if allowed_row is None:
        raise ValueError("allowed_row: expected a tensor beside allowed, got None")
    check("allowed_row", allowed_row, (queries,), torch.int32, device)
    if seed.is_cuda and has_triton():
        from tercet_kernels.expand import cuda

        return cuda.expand(topology, indptr, seed, depth, allowed, allowed_row, filtered)
    if device.type != "cpu":
        return reference.expand(topology, indptr, seed, depth, allowed, allowed_row)
    out = cpu.expand(
        *(x.numpy() for x in (
            topology.source, topology.target, topology.out_indptr, topology.out_edge, topology.in_indptr,
            topology.in_edge, indptr, seed, allowed, allowed_row)),
        depth, threads(allowed_row.shape[0]),
    )  # fmt: skip
    return torch.from_numpy(out[0]), torch.from_numpy(out[1])
