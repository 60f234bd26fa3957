"""Checks at the public doors of the kernels: name, shape, dtype, device."""

import torch

from tercet_kernels._types import EdgeRule, NodeHits, RelationHits, Topology


def check(
    name: str,
    tensor: torch.Tensor,
    shape: tuple[int | None, ...],
    dtype: torch.dtype,
    device: torch.device,
    *,
    repeated: bool = False,
) -> None:
    """Refuse a tensor that isn't of this shape (None: any size), dtype and device.

    Args:
        repeated: on the CPU, one value that stands in every row may be all that there is; see `held`.

    Raises:
        ValueError: names the argument, what was expected and what was got.
    """
    got = tensor.shape
    fits = len(got) == len(shape)
    if fits and got != shape:  # plain loops: this runs for every argument of every kernel
        for i in range(len(shape)):
            if shape[i] is not None and shape[i] != got[i]:
                fits = False
    if not fits:
        wanted = "(" + ", ".join("any" if s is None else str(s) for s in shape) + ")"
        raise ValueError(f"{name}: expected shape {wanted}, got {tuple(got)}")
    if tensor.dtype != dtype:
        raise ValueError(f"{name}: expected {dtype}, got {tensor.dtype}")
    if tensor.device != device:
        raise ValueError(f"{name}: expected a tensor on {device}, got {tensor.device}")
    if not tensor.is_contiguous() and not (repeated and tensor.stride() == (0,) and device.type == "cpu"):
        raise ValueError(f"{name}: expected a contiguous tensor")


def held(column: torch.Tensor) -> torch.Tensor:
    """What is in memory of a column: all of it, or (1,) where one value was expanded over all rows."""
    return column[:1] if column.stride(0) == 0 else column


def check_node_hits(topology: Topology, hits: NodeHits) -> None:
    """Refuse hits that differ from `NodeHits` or lie on another device than the graph."""
    device = topology.source.device
    check("hits.indptr", hits.indptr, (None,), torch.int64, device)
    check("hits.node", hits.node, (None,), torch.int32, device)
    check("hits.term", hits.term, (hits.node.shape[0],), torch.float64, device)


def check_scoring(
    topology: Topology, queries: int, missing: torch.Tensor, relations: RelationHits, rule: EdgeRule, k: int
) -> None:
    """Refuse what the scores of a query's edges are made of when it differs from the types' contracts."""
    device = topology.source.device
    check("missing", missing, (topology.num_nodes,), torch.float64, device, repeated=True)
    check("relations.indptr", relations.indptr, (queries + 1,), torch.int64, device)
    check("relations.key", relations.key, (None,), torch.int32, device)
    check("relations.distance", relations.distance, (relations.key.shape[0],), torch.float32, device)
    check_rule(topology, rule)
    check_k(k)


def check_rule(topology: Topology, rule: EdgeRule) -> None:
    """Refuse weights that aren't one number an edge."""
    for name, weight in (("rule.importance", rule.importance), ("rule.feedback", rule.feedback)):
        check(name, weight, topology.source.shape, torch.float64, topology.source.device, repeated=True)


def check_k(k: int) -> None:
    """Refuse a number of results below 1."""
    if k < 1:
        raise ValueError(f"k: expected at least 1, got {k}")
