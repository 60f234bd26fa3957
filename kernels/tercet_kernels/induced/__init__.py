"""All edges among the nodes of each query."""

import torch

from tercet_kernels._checks import check
from tercet_kernels._threads import threads
from tercet_kernels._types import Topology
from tercet_kernels.induced import cpu, reference

ROOM = 1 << 24  # entries of the nodes' lists that are held at a time
STEPS = 5  # of a nanosecond, an entry


def induced(
    topology: Topology,
    indptr: torch.Tensor,
    node: torch.Tensor,
    relation: torch.Tensor | None = None,
    walkable: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Edges with both ends among a query's nodes, self loops and parallel ones too.

    `fragment` gives the same edges with slots, for scoring; this takes nodes in any order and gives edges alone.

    Args:
        topology: the graph.
        indptr: (B + 1,) int64 offsets of each query's nodes; node: (T,) int32 rows, none twice within a query; rows
            from N on have no edges.
        relation: (E,) int32 labels, -1 for none; walkable: (L + 1,) bool labels that are wanted, the last entry for
            edges without one. Both or neither.

    Returns:
        (indptr (B + 1,) int64, edge (M,) int32 ascending within a query).

    Raises:
        ValueError: a shape, dtype or device differs from the above.
    """
    device = topology.source.device
    check("indptr", indptr, (None,), torch.int64, device)
    check("node", node, (None,), torch.int32, device)
    if (relation is None) != (walkable is None):
        raise ValueError("walkable: expected together with relation")
    if relation is not None and walkable is not None:
        check("relation", relation, topology.source.shape, torch.int32, device)
        check("walkable", walkable, (None,), torch.bool, device)
    if device.type != "cpu":
        return reference.induced(topology, indptr, node, relation, walkable)
    arrays = [x.numpy() for x in (
        topology.oriented_indptr, topology.oriented_edge, topology.oriented_other, indptr, node,
        torch.zeros(0, dtype=torch.int32) if relation is None else relation,
        torch.zeros(0, dtype=torch.bool) if walkable is None else walkable,
    )]  # fmt: skip
    room = cpu.rooms(arrays[0], arrays[3], arrays[4])
    if room[-1] > ROOM:
        return reference.induced(topology, indptr, node, relation, walkable)
    bounds, edge = cpu.induced(*arrays, room, threads(indptr.shape[0] - 1, float(room[-1]) * STEPS))
    return torch.from_numpy(bounds), torch.from_numpy(edge)
