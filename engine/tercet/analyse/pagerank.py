"""Personalized PageRank of a batch of queries over a graph."""

from typing import Any

import numpy as np
import torch

from tercet.errors import InvalidArgument
from tercet.graph import Graph
from tercet_kernels._types import Topology
from tercet_kernels.personalized_pagerank import Direction, PageRanks, Walk, personalized_pagerank, walk_of

__all__ = ["PageRanks", "rank"]


def rank(
    graph: Graph,
    topology: Topology,
    indptr: torch.Tensor,
    seed: torch.Tensor,
    mass: torch.Tensor,
    *,
    damping: float | torch.Tensor = 0.85,
    top_k: int | None = 20,
    direction: Direction = "both",
    weight: torch.Tensor | np.ndarray | None = None,
    tolerance: float = 1e-6,
    max_iterations: int = 200,
    inside: tuple[torch.Tensor, torch.Tensor] | None = None,
) -> PageRanks:
    """Rank nodes by their proximity to each query's seeds, see `tercet_kernels.personalized_pagerank`.

    Args:
        graph: keeps the lists of the walk for later calls, one for each direction, where all edges weigh the same.
        topology: the graph's arrays, `plan.topology_of`.
        indptr: (B + 1,) int64 offsets of each query's seeds.
        seed: (S,) int32 node rows.
        mass: (S,) float64, at least 0.
        damping: the chance of a step rather than of a return to the seeds; one number, or (B,) float64.
        top_k: nodes of each query; None: the scores of all nodes, (B, N).
        direction: "out", "in" or "both": the way of the walk along edges.
        weight: (E,) numbers of at least 0; None: all equal.
        tolerance: L1 change of the last step.
        max_iterations: steps of a query.
        inside: (indptr, node) of the nodes that each query walks among, ascending.

    Returns:
        PageRanks, on the topology's device; a query whose seeds or mass can't be used fails alone.

    Raises:
        InvalidArgument: an argument differs from the above; the message names it.
    """
    device = topology.source.device
    weights = None if weight is None else torch.as_tensor(weight).to(device, torch.float64).contiguous()
    options: dict[str, Any] = {"damping": damping, "tolerance": tolerance, "max_iterations": max_iterations}
    try:
        walk = None if inside is not None else _walk(graph, topology, direction, weights)
        return personalized_pagerank(
            topology, indptr, seed, mass, direction=direction, weight=weights, top_k=top_k, inside=inside, walk=walk,
            **options,
        )  # fmt: skip
    except InvalidArgument:
        raise
    except ValueError as error:  # what the kernel's checks raise
        raise InvalidArgument(str(error)) from error


def _walk(graph: Graph, topology: Topology, direction: Direction, weight: torch.Tensor | None) -> Walk:
    device = topology.source.device
    if weight is not None or direction not in ("out", "in", "both"):
        return walk_of(topology, direction, weight)
    walk: Walk = graph.once(f"_walk_{direction}_{device}", lambda: walk_of(topology, direction))
    return walk
