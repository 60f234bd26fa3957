"""The arguments by which a subgraph grows from its seeds, checked, and the subgraphs that grow."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch

from tercet.arguments import whole
from tercet.clock import Clock
from tercet.errors import InvalidArgument
from tercet.graph import Graph
from tercet.labels import label_mask, relation_mask
from tercet.ranking import Status
from tercet.retrieve.expansion import Selection, Walk, among, expand, no_edges
from tercet.retrieve.nearness import Nearness
from tercet.retrieve.ragged import Ragged, distinct
from tercet.retrieve.subgraph import Subgraphs
from tercet.rules import Rules
from tercet_kernels._types import Topology
from tercet_kernels.neighbors import DIRECTIONS

Rank = Literal["similarity", "weight", "id"]
RANKS = ("similarity", "weight", "id")


@dataclass(frozen=True, eq=False)
class Growth:
    """One way of growing, for all queries of a call."""

    walk: Walk
    rank: Rank | None  # None: the best that there is
    include_edges: bool
    filter_edges: bool


def read_growth(
    graph: Graph,
    rules: Rules,
    *,
    expand: Any,
    direction: Any,
    rel_types: Any = None,
    exclude_rel_types: Any = None,
    labels: Any = None,
    max_nodes: Any = None,
    include_edges: bool = True,
    filter_edges: bool | None = None,
    rank: Any = None,
) -> Growth:
    """Check how subgraphs are to grow.

    Raises:
        InvalidArgument: names the argument, what was expected and what was got.
    """
    if direction not in DIRECTIONS:
        raise InvalidArgument(f"direction: expected one of {', '.join(map(repr, DIRECTIONS))}, got {direction!r}")
    if expand is None:
        raise InvalidArgument("expand: expected an integer of at least 0, got None")
    whole("expand", expand, least=0)
    if max_nodes is not None:
        whole("max_nodes", max_nodes, least=1)
    walkable = relation_mask(graph, rel_types, exclude_rel_types)
    if rank is not None and rank not in RANKS:
        raise InvalidArgument(f"rank: expected one of {', '.join(map(repr, RANKS))} or None, got {rank!r}")
    if rank == "weight" and weight_rank(graph) is None:
        raise InvalidArgument("rank: 'weight' needs a column 'weight' of numbers in the edge table")
    entered = None
    if labels is not None:
        if isinstance(labels, str) or not isinstance(labels, Sequence):
            raise InvalidArgument(f"labels: expected a list of labels, got {labels!r}")
        if len(labels):
            entered = torch.from_numpy(label_mask(graph, labels, mode="any", fold_case=True))[None].to(graph.device)
    walk = Walk(
        int(expand), direction, relation=graph.relation if walkable is not None else None,
        walkable=None if walkable is None else torch.from_numpy(walkable).to(graph.device), entered=entered,
        max_nodes=None if max_nodes is None else int(max_nodes), by_edge=rules.walk_order == "edge",
    )  # fmt: skip
    return Growth(walk, rank, include_edges, rules.filter_edges if filter_edges is None else filter_edges)


def weight_rank(graph: Graph) -> torch.Tensor | None:
    """(E,) int32 the rank of each edge by its weight, the largest first, equal weights equal; missing ones last.

    None without a column `weight` of numbers.
    """

    def make() -> torch.Tensor | None:
        if "weight" not in graph.edges.schema.names:
            return None
        column = graph.edges.column("weight")
        if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
            return None
        weight = np.asarray(pc.fill_null(column.cast(pa.float64()), -np.inf))
        weight = np.where(np.isnan(weight), -np.inf, weight)
        return torch.from_numpy(np.unique(-weight, return_inverse=True)[1].astype(np.int32)).to(graph.device)

    return graph.once("_weight_rank", make)


def grow(
    graph: Graph,
    topology: Topology,
    growth: Growth,
    seeds: Ragged,
    *,
    text: list[str | None],
    state: torch.Tensor,
    errors: dict[int, str],
    nearness: Nearness | None,
    clock: Clock,
    **more: Any,
) -> Subgraphs:
    """The subgraphs around the seeds of a batch.

    Args:
        seeds: of a node named twice in a query the first entry counts.
        state: (B,) int8 `Status` of the search that found the seeds.
        nearness: distances of nodes to the queries, where there are any.
        more: further fields of `Subgraphs`.
    """
    walk = replace(growth.walk, **_ranking(graph, growth, nearness))
    if walk.entered is not None:
        walk = replace(walk, entered_row=torch.zeros(len(text), dtype=torch.int32, device=graph.device))
    seeds = distinct(Ragged(*(x.to(graph.device) for x in seeds)))
    with clock.stage("expand"):
        selection = expand(topology, seeds.indptr, seeds.node, walk)
    with clock.stage("relationships"):
        edge_indptr, edge = relationships(topology, selection, walk, growth)
    with clock.stage("copy"):
        host = [x.cpu().numpy() for x in (
            selection.indptr, selection.node, selection.hops, edge_indptr, edge, *seeds, selection.available,
            selection.truncated, state,
        )]  # fmt: skip
    return Subgraphs(graph, text, *host, errors=errors, timings=clock.seconds, **more)


def relationships(
    topology: Topology, selection: Selection, walk: Walk, growth: Growth
) -> tuple[torch.Tensor, torch.Tensor]:
    """The relationships that a result holds."""
    if not growth.include_edges:
        return no_edges(selection)
    return among(topology, selection, walk, filtered=growth.filter_edges)


def _ranking(graph: Graph, growth: Growth, nearness: Nearness | None) -> dict[str, Any]:
    """What orders the nodes of a level."""
    if growth.walk.by_edge:
        return {}
    if growth.rank in (None, "similarity") and nearness is not None:
        return {"nearness": nearness}
    if growth.rank == "similarity":
        raise InvalidArgument("rank: 'similarity' needs queries that have vectors, and a node collection")
    return {} if growth.rank == "id" else {"rank": weight_rank(graph)}


def seed_state(seeds: Ragged, errors: dict[int, str]) -> torch.Tensor:
    """(B,) int8 the status of queries that came with their seeds."""
    counts = seeds.indptr.diff().cpu()
    state = torch.where(counts > 0, int(Status.ok), int(Status.no_hits)).to(torch.int8)
    state[list(errors)] = int(Status.failed)
    return state
