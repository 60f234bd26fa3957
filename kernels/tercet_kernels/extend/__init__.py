"""A selection of every query grown by one level of a breadth-first walk."""

from typing import NamedTuple

import torch

from tercet_kernels._checks import check
from tercet_kernels._threads import threads
from tercet_kernels._types import Topology
from tercet_kernels.extend import cpu, reference
from tercet_kernels.extend.types import Extended, Near
from tercet_kernels.neighbors import DIRECTIONS, ROOM, Direction
from tercet_kernels.neighbors import cpu as neighbors_cpu

__all__ = ["Extended", "Near", "Order", "extend"]

Order = str  # "edge", "rank", "node", "distance"
ORDERS = ("edge", "rank", "node", "distance")
STEPS = 6  # of a nanosecond, an entry of a list; and for each element of a vector that is compared a quarter


class _Given(NamedTuple):
    rank: torch.Tensor
    relation: torch.Tensor
    walkable: torch.Tensor
    allowed: torch.Tensor
    allowed_row: torch.Tensor
    limit: torch.Tensor


def extend(
    topology: Topology,
    indptr: torch.Tensor,
    node: torch.Tensor,
    hop: torch.Tensor,
    begin: torch.Tensor,
    level: int,
    *,
    direction: Direction = "both",
    order: Order = "node",
    rank: torch.Tensor | None = None,
    near: Near | None = None,
    relation: torch.Tensor | None = None,
    walkable: torch.Tensor | None = None,
    allowed: torch.Tensor | None = None,
    allowed_row: torch.Tensor | None = None,
    limit: torch.Tensor | None = None,
) -> Extended:
    """Put the next level of each query behind its selected nodes.

    The level is that of `neighbors`, in the order asked for; "distance" is the cosine distance of `near`, ties to the
    smaller node, nodes without a vector last. A limit keeps the first of it.

    Args:
        hop: (S,) int32 beside `node`; level: what the new nodes get.
        near: vectors to rank by, for order "distance".
        limit: (B,) int64 nodes that each query may still take; None: all.
        The others: as in `neighbors`.

    Returns:
        An `Extended`; the next frontier of a query that was cut is empty.

    Raises:
        ValueError: a shape, dtype, device or option differs from the above.

    Memory: on the CPU the result twice, and 24 bytes a node of the graph a thread.
    """
    device, queries = topology.source.device, indptr.shape[0] - 1
    if order not in ORDERS or (order == "rank") != (rank is not None) or (order == "distance") != (near is not None):
        raise ValueError(f"order: expected 'edge', 'node', 'rank' with a rank or 'distance' with near, got {order!r}")
    if direction not in DIRECTIONS:
        raise ValueError(f"direction: expected one of {DIRECTIONS}, got {direction!r}")
    check("indptr", indptr, (None,), torch.int64, device)
    check("node", node, (None,), torch.int32, device)
    check("hop", hop, (node.shape[0],), torch.int32, device)
    check("begin", begin, (queries,), torch.int64, device)
    if near is not None:
        check("near.queries", near.queries, (queries, None), torch.float32, device)
        check("near.vectors", near.vectors, (None, near.queries.shape[1]), torch.float32, device)
        if near.row is not None:
            check("near.row", near.row, (topology.num_nodes,), torch.int32, device)
    arguments = (direction, order, rank, near, relation, walkable, allowed, allowed_row, limit)
    if device.type != "cpu":
        return reference.extend(topology, indptr, node, hop, begin, level, *arguments)
    ints, flags = torch.zeros(0, dtype=torch.int32), torch.zeros(0, dtype=torch.bool)
    given = [x.numpy() for x in _Given(
        ints if rank is None else rank, ints if relation is None else relation, flags if walkable is None else walkable,
        flags.view(0, 0) if allowed is None else allowed, ints if allowed_row is None else allowed_row,
        ints.long() if limit is None else limit,
    )]  # fmt: skip
    ways = (direction != "in", direction != "out")
    graph = tuple(
        x.numpy()
        for x in (
            topology.source,
            topology.target,
            topology.out_indptr,
            topology.out_edge,
            topology.in_indptr,
            topology.in_edge,
        )
    )
    held = (indptr.numpy(), node.numpy(), hop.numpy(), begin.numpy())
    steps, room = neighbors_cpu.rooms(
        graph[2], graph[4], held[0], held[1], held[3], given[5], *ways, topology.num_nodes
    )
    if room.sum() > ROOM:  # too much at once: level by level, in groups of queries
        return reference.extend(topology, indptr, node, hop, begin, level, *arguments)
    blank = torch.zeros(0, 0)
    vectors = (
        (blank if near is None else near.queries).numpy(), (blank if near is None else near.vectors).numpy(),
        (ints if near is None or near.row is None else near.row).numpy(),
    )  # fmt: skip
    work = float(steps.sum()) * (STEPS + vectors[0].shape[1] / 4)
    out = cpu.extend(graph, held, tuple(given), vectors, ways, ORDERS.index(order), room, level, threads(queries, work))
    return Extended(*(torch.from_numpy(x) for x in out))
