"""The nodes and edges of a graph row by row, for formats that are written so."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from tercet.graph import Graph
from tercet.node import nodes_of, relationships_of

WEIGHTS = ("importance_weight", "feedback_weight")
AT_ONCE = 1 << 15  # rows


@dataclass(frozen=True)
class NodeRecord:
    id: str
    labels: tuple[str, ...]
    properties: dict[str, Any]
    uri: str | None
    importance_weight: float
    feedback_weight: float
    sets: list[str] | None  # node sets it belongs to


@dataclass(frozen=True)
class EdgeRecord:
    source: str
    target: str
    relation: str | None
    id: str | None
    properties: dict[str, Any]
    uri: str | None
    importance_weight: float
    feedback_weight: float


def node_records(graph: Graph) -> Iterator[NodeRecord]:
    """Every node of a graph, by row."""
    for begin in range(0, graph.num_nodes, AT_ONCE):
        end = min(begin + AT_ONCE, graph.num_nodes)
        weights = [x[begin:end].tolist() for x in (graph.importance, graph.feedback)]
        bounds = graph.set_indptr[begin : end + 1]
        names = graph.set_names.take(graph.set_member[bounds[0] : bounds[-1]]).to_pylist()
        inside = (bounds - bounds[0]).tolist()
        for i, (node, *weight) in enumerate(zip(nodes_of(graph, np.arange(begin, end)), *weights, strict=True)):
            sets = names[inside[i] : inside[i + 1]] or None
            yield NodeRecord(node.id, node.labels, node.properties, node.uri, weight[0], weight[1], sets)


def edge_records(graph: Graph) -> Iterator[EdgeRecord]:
    """Every edge of a graph, by row."""
    for begin in range(0, graph.num_edges, AT_ONCE):
        end = min(begin + AT_ONCE, graph.num_edges)
        weights = [x[begin:end].tolist() for x in (graph.edge_importance, graph.edge_feedback)]
        for e, *weight in zip(relationships_of(graph, np.arange(begin, end)), *weights, strict=True):
            own = e.id if isinstance(e.id, str) else None
            yield EdgeRecord(e.source_id, e.target_id, e.type, own, e.properties, e.uri, *weight)
