"""All shortest routes between pairs of nodes, many pairs at once."""

from typing import NamedTuple

import torch

from tercet_kernels._checks import check
from tercet_kernels._threads import threads
from tercet_kernels._types import Topology
from tercet_kernels.neighbors import DIRECTIONS, Direction
from tercet_kernels.routes import cpu, reference

ROOM = 1 << 23  # node places of a group of pairs
STEPS = 20_000  # a guess at the work of a pair, in nanoseconds


class Routes(NamedTuple):
    """The routes of P pairs. A route of h hops has h + 1 nodes, so `hops` tells where each one ends."""

    hops: torch.Tensor  # (P,) int32 length of the shortest route; -1: none within the limit; 0: start is end
    indptr: torch.Tensor  # (P + 1,) int64 routes of each pair
    offsets: torch.Tensor  # (R + 1,) int64 nodes of each route
    node: torch.Tensor  # (T,) int32, from start to end
    truncated: torch.Tensor  # (P,) bool: the pair has more shortest routes than were taken


def routes(
    topology: Topology,
    start: torch.Tensor,
    end: torch.Tensor,
    max_hops: int,
    *,
    direction: Direction = "both",
    limit: int = 1,
    relation: torch.Tensor | None = None,
    walkable: torch.Tensor | None = None,
) -> Routes:
    """Shortest routes by number of edges, as node sequences, up to `limit` a pair.

    Two routes over the same nodes by parallel edges are one. The order is fixed: routes compare from their end; of
    two last steps the one over the edge with the smaller row comes first, then the steps before it. The first route is
    the one that a breadth-first search from the start finds when it reads each level's edges by ascending row.

    Args:
        topology: the graph.
        start, end: (P,) int32 node rows.
        max_hops: edges of a route at most, at least 1.
        direction: which way edges are walked on the way from start to end.
        limit: routes a pair, at least 1.
        relation, walkable: which labels may be walked; see `neighbors`.

    Raises:
        ValueError: a shape, dtype, device or option differs from the above.

    Search from both ends, a level at a time, at the end whose lists are shorter. Memory on the CPU: the result, `ROOM`
    node places, and 48 bytes a node of the graph a thread. The reference, which serves CUDA, searches from the start
    for all pairs together and holds every level.
    """
    device, pairs = topology.source.device, start.shape[0]
    check("start", start, (None,), torch.int32, device)
    check("end", end, (pairs,), torch.int32, device)
    if max_hops < 1 or limit < 1:
        raise ValueError(f"max_hops, limit: expected at least 1, got {max_hops}, {limit}")
    if direction not in DIRECTIONS:
        raise ValueError(f"direction: expected one of {DIRECTIONS}, got {direction!r}")
    if (relation is None) != (walkable is None):
        raise ValueError("walkable: expected together with relation")
    if relation is not None and walkable is not None:
        check("relation", relation, topology.source.shape, torch.int32, device)
        check("walkable", walkable, (None,), torch.bool, device)
    if device.type != "cpu":
        return reference.routes(topology, start, end, max_hops, direction, limit, relation, walkable)
    arrays = [x.numpy() for x in (
        topology.source, topology.target, topology.out_indptr, topology.out_edge, topology.in_indptr,
        topology.in_edge, start, end, relation if relation is not None else torch.zeros(0, dtype=torch.int32),
        walkable if walkable is not None else torch.zeros(0, dtype=torch.bool),
    )]  # fmt: skip
    longest = min(max_hops, max(topology.num_nodes - 1, 1))
    step = max(1, ROOM // (limit * (longest + 1)))
    parts = []
    for low in range(0, pairs, step):
        high = min(low + step, pairs)
        parts.append(
            cpu.routes(*arrays, longest, direction != "in", direction != "out", limit, low, high,
                       threads(high - low, STEPS * (high - low)))
        )  # fmt: skip
    hops, counts, node, truncated = (
        torch.from_numpy(cpu.joined([p[i] for p in parts], dtype))
        for i, dtype in enumerate(("int32", "int64", "int32", "bool"))
    )
    indptr = torch.zeros(pairs + 1, dtype=torch.int64)
    torch.cumsum(counts, 0, out=indptr[1:])
    lengths = torch.repeat_interleave(hops.long() + 1, counts)
    offsets = torch.zeros(lengths.shape[0] + 1, dtype=torch.int64)
    torch.cumsum(lengths, 0, out=offsets[1:])
    return Routes(hops, indptr, offsets, node, truncated)
