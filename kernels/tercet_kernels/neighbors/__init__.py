"""The next level of a breadth-first walk: what the frontier of each query leads to, with the edge that led there."""

from typing import Literal, NamedTuple

import torch

from tercet_kernels._checks import check
from tercet_kernels._threads import threads
from tercet_kernels._triton import has_triton
from tercet_kernels._types import Topology
from tercet_kernels.neighbors import cpu, reference

Direction = Literal["both", "out", "in"]
DIRECTIONS = ("both", "out", "in")
ROOM = 1 << 24  # entries of a group of queries that are walked together


class Level(NamedTuple):
    """Nodes that aren't selected yet, a slice a query, in the order asked for."""

    indptr: torch.Tensor  # (B + 1,) int64
    node: torch.Tensor  # (T,) int32
    edge: torch.Tensor  # (T,) int32 the edge it was reached by: of the best rank, then the smallest row
    available: torch.Tensor  # (B,) int64 nodes that were reached, those beyond the limit too


def neighbors(
    topology: Topology,
    indptr: torch.Tensor,
    node: torch.Tensor,
    begin: torch.Tensor,
    *,
    direction: Direction = "both",
    order: Literal["edge", "rank", "node"] = "node",
    rank: torch.Tensor | None = None,
    relation: torch.Tensor | None = None,
    walkable: torch.Tensor | None = None,
    allowed: torch.Tensor | None = None,
    allowed_row: torch.Tensor | None = None,
    limit: torch.Tensor | None = None,
) -> Level:
    """One step from the frontier of each query to nodes that it hasn't selected.

    Args:
        topology: the graph.
        indptr: (B + 1,) int64 offsets of each query's selected nodes.
        node: (S,) int32 selected node rows, in any order, none twice within a query.
        begin: (B,) int64 positions in `node` where the frontiers begin; each reaches to the end of its query's slice.
        direction: which way edges are walked: from source to target ("out"), back ("in"), or both ways.
        order: of the result within a query, and which nodes a limit keeps: by the row of the edge that reached the
            node ("edge"), by that edge's rank and then the node row ("rank"), or by the node row alone.
        rank: (E,) int32 at least 0, for order "rank": smaller is better.
        relation: (E,) int32 labels, -1 for none; walkable: (L + 1,) bool which labels may be walked, the last entry
            for edges without one. Both or neither.
        allowed: (F, N) bool nodes that may be entered, one row a filter; allowed_row: (B,) int32, -1 for no filter.
        limit: (B,) int64 nodes that each query may still take; None: all.

    Returns:
        A `Level`; each node once a query.

    Raises:
        ValueError: a shape, dtype, device or option differs from the above.

    Memory: the result; on the CPU 20 bytes a node of the graph a thread, and at most `ROOM` entries beside the result
    (one query's own, where they are more). On CUDA see `cuda.neighbors`, which syncs once for every group of queries.
    Without Triton, CUDA runs the reference, which holds the frontier's lists and sorts them.
    """
    device, queries, size = topology.source.device, indptr.shape[0] - 1, topology.num_nodes
    check("indptr", indptr, (None,), torch.int64, device)
    check("node", node, (None,), torch.int32, device)
    check("begin", begin, (queries,), torch.int64, device)
    if direction not in DIRECTIONS:
        raise ValueError(f"direction: expected one of {DIRECTIONS}, got {direction!r}")
    if order not in ("edge", "rank", "node") or (order == "rank") != (rank is not None):
        raise ValueError(f"order: expected 'edge', 'node', or 'rank' with a rank, got {order!r}")
    if (relation is None) != (walkable is None):
        raise ValueError("walkable: expected together with relation")
    if (allowed is None) != (allowed_row is None):
        raise ValueError("allowed_row: expected together with allowed")
    if rank is not None:
        check("rank", rank, topology.source.shape, torch.int32, device)
    if relation is not None and walkable is not None:
        check("relation", relation, topology.source.shape, torch.int32, device)
        check("walkable", walkable, (None,), torch.bool, device)
    if allowed is not None and allowed_row is not None:
        check("allowed", allowed, (None, size), torch.bool, device)
        check("allowed_row", allowed_row, (queries,), torch.int32, device)
    if limit is not None:
        check("limit", limit, (queries,), torch.int64, device)
    if device.type != "cpu":
        form = reference.neighbors
        if node.is_cuda and has_triton():
            from tercet_kernels.neighbors import cuda

            form = cuda.neighbors
        return form(
            topology, indptr, node, begin, direction, order, rank, relation, walkable, allowed, allowed_row, limit
        )
    none = {torch.bool: torch.zeros(0, dtype=torch.bool), torch.int32: torch.zeros(0, dtype=torch.int32)}
    given = (
        rank if rank is not None else none[torch.int32],
        relation if relation is not None else none[torch.int32],
        walkable if walkable is not None else none[torch.bool],
        allowed if allowed is not None else none[torch.bool].view(0, 0),
        allowed_row if allowed_row is not None else none[torch.int32],
        limit if limit is not None else torch.zeros(0, dtype=torch.int64),
    )
    ways = (direction != "in", direction != "out")
    arrays = [x.numpy() for x in (
        topology.source, topology.target, topology.out_indptr, topology.out_edge, topology.in_indptr,
        topology.in_edge, indptr, node, begin, *given,
    )]  # fmt: skip
    steps, room = cpu.rooms(arrays[2], arrays[4], arrays[6], arrays[7], arrays[8], arrays[14], *ways, size)
    parts = []
    for low, high in cpu.groups(room, ROOM):
        parts.append(
            cpu.neighbors(
                *arrays, *ways, {"edge": 0, "rank": 1, "node": 2}[order], room, low, high,
                threads(high - low, float(steps[low:high].sum()) * 4),
            )
        )  # fmt: skip
    if len(parts) != 1:
        parts = [tuple(cpu.joined([p[i] for p in parts]) for i in range(4))]
    counts, nodes, edges, available = (torch.from_numpy(x) for x in parts[0])
    offsets = torch.zeros(queries + 1, dtype=torch.int64)
    torch.cumsum(counts, 0, out=offsets[1:])
    return Level(offsets, nodes, edges, available)
