"""Node sets: named groups of nodes, as a column of the nodes or as nodes of their own that members are linked to."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch

from tercet.graph import Graph, adjacency, orient


def set_nodes(graph: Graph, node_type: str, names: Sequence[str]) -> np.ndarray:
    """Rows of the nodes of this type that have one of the names."""
    of_type = pc.fill_null(pc.equal(graph.nodes.column("type"), node_type), False)
    named = pc.is_in(graph.nodes.column("name"), value_set=pa.array(list(names), pa.large_string()))
    return np.flatnonzero(np.asarray(pc.and_(of_type, named)))


def members(graph: Graph, node_type: str, names: Sequence[str], operator: str) -> np.ndarray:
    """(N,) bool: nodes of any ("OR") or of all ("AND") of the named sets, and the nodes that stand for the sets.

    A node belongs to a set when its `belongs_to_set` names it, or when an edge joins it to a node of type `node_type`
    with that name.
    """
    source, target = graph.source.cpu().numpy(), graph.target.cpu().numpy()
    held, standing = [], np.zeros(graph.num_nodes, bool)
    for name in dict.fromkeys(names):
        mask = graph.set_mask([name], "OR")
        stands = np.zeros(graph.num_nodes, bool)
        stands[set_nodes(graph, node_type, [name])] = True
        mask[target[stands[source]]] = True
        mask[source[stands[target]]] = True
        held.append(mask)
        standing |= stands
    if not held:
        return np.ones(graph.num_nodes, bool)
    inside = np.logical_and.reduce(held) if operator == "AND" else np.logical_or.reduce(held)
    return inside | standing


def mirrored(graph: Graph, node_type: str, names: Sequence[str], operator: str) -> Graph:
    """The node-set subgraph that Cognee 1.6.5 reads: every edge twice, as stored and reversed.

    Nodes are those of the type and names, and their neighbours: of any of them with the operator "OR", of all of them
    with any other. Edges come node by node, the outgoing ones before the incoming ones. Rows of nodes stay those of
    `graph`; the column `stored_edge` of the edges holds the original row.
    """
    source, target = graph.source.cpu().numpy(), graph.target.cpu().numpy()
    primary = np.zeros(graph.num_nodes, bool)
    chosen = set_nodes(graph, node_type, names)
    primary[chosen] = True
    pairs = np.concatenate(
        [
            np.stack([source[primary[target]], target[primary[target]]], 1),
            np.stack([target[primary[source]], source[primary[source]]], 1),
        ]
    )
    counts = np.bincount(np.unique(pairs, axis=0)[:, 0], minlength=graph.num_nodes)
    kept = primary | (counts >= (1 if operator == "OR" else max(len(chosen), 1)))
    edges = np.flatnonzero(kept[source] & kept[target])
    doubled = np.concatenate([edges, edges])
    phase = np.repeat([0, 1], len(edges))
    near = np.concatenate([source[edges], target[edges]])
    order = np.lexsort((doubled, phase, near))
    rows = doubled[order]
    near_ends = torch.from_numpy(near[order].astype(np.int32)).to(graph.device)
    far_ends = torch.from_numpy(np.concatenate([target[edges], source[edges]])[order].astype(np.int32)).to(graph.device)
    pick = torch.from_numpy(rows).to(graph.device)
    table = graph.edges.take(pa.array(rows)).append_column("stored_edge", pa.array(rows))
    return replace(
        graph,
        source=near_ends, target=far_ends, relation=graph.relation[pick], relation_key=graph.relation_key[pick],
        out=adjacency(near_ends, far_ends, graph.num_nodes), into=adjacency(far_ends, near_ends, graph.num_nodes),
        oriented=orient(near_ends, far_ends, graph.num_nodes), edge_importance=graph.edge_importance[pick],
        edge_feedback=graph.edge_feedback[pick], edges=table,
    )  # fmt: skip
