"""A whole graph as a HeteroData of PyTorch Geometric."""

from typing import Any

import numpy as np
import torch

from tercet.errors import InvalidArgument, MissingDependency
from tercet.graph import Graph
from tercet.labels import labels_of

UNTYPED, UNLABELLED = "relation", "node"  # types of what has none


def to_pyg(graph: Graph, vectors: Any = None) -> Any:
    """A HeteroData of a whole graph, in the form of `Subgraph.to_pyg`.

    Nodes are typed by their first label by name ("node" for those without one), with `num_nodes`, `node_id` (list of
    ids) and `row` (rows of the graph); edges by (type of source, relation or "relation", type of target), with
    `edge_index` and `row`; an edge column `weight` of numbers becomes `edge_weight`.

    Args:
        vectors: (N, D) one row a node of the graph, becomes `x` of each type.

    Raises:
        InvalidArgument: `vectors` hasn't a row for each node.
        MissingDependency: torch_geometric isn't installed.
    """
    try:
        from torch_geometric.data import HeteroData
    except ImportError as error:
        raise MissingDependency("to_pyg needs PyTorch Geometric: pip install torch_geometric") from error
    features = None if vectors is None else torch.as_tensor(vectors)
    if features is not None and (features.dim() == 0 or features.shape[0] != graph.num_nodes):
        raise InvalidArgument(f"vectors: expected ({graph.num_nodes}, D), got {tuple(features.shape)}")
    data = HeteroData()
    kind, names = _kinds(graph)
    ids = np.array(graph.ids.to_pylist(), object)
    place = np.zeros(graph.num_nodes, np.int64)  # within its type
    for code, name in enumerate(names):
        mine = np.flatnonzero(kind == code)
        place[mine] = np.arange(len(mine))
        store, rows = data[name], torch.from_numpy(mine)
        store.num_nodes, store.node_id, store.row = len(mine), ids[mine].tolist(), rows
        if features is not None:
            store.x = features[rows]
    _edges(graph, data, kind, names, place)
    return data


def _kinds(graph: Graph) -> tuple[np.ndarray, list[str]]:
    """(N,) type of each node as a place in the names of the types."""
    labels = labels_of(graph)
    bare = np.diff(labels.indptr) == 0
    first = np.full(graph.num_nodes, len(labels.names))
    first[~bare] = labels.member[labels.indptr[:-1][~bare]]
    spelled = [*labels.names.to_pylist(), UNLABELLED]
    if UNLABELLED in spelled[:-1]:
        first[bare] = spelled.index(UNLABELLED)
    used, kind = np.unique(first, return_inverse=True)
    return kind, [spelled[i] for i in used.tolist()]


def _edges(graph: Graph, data: Any, kind: np.ndarray, names: list[str], place: np.ndarray) -> None:
    source, target, relation = (x.cpu().numpy().astype(np.int64) for x in (graph.source, graph.target, graph.relation))
    relations = [*graph.relation_names.to_pylist(), UNTYPED]
    unnamed = relations.index(UNTYPED)
    relation[relation < 0] = unnamed
    weight = None
    if "weight" in graph.edges.schema.names:
        column = graph.edges.column("weight")
        if column.null_count == 0 and str(column.type) in ("double", "float", "int64", "int32"):
            weight = torch.from_numpy(np.array(column.to_numpy(), np.float64))
    groups = np.stack([kind[source], relation, kind[target]], axis=1)
    keys, group = np.unique(groups, axis=0, return_inverse=True)
    order = np.argsort(group.reshape(-1), kind="stable")
    bounds = np.searchsorted(group.reshape(-1)[order], np.arange(len(keys) + 1))
    for i, (a, r, b) in enumerate(keys.tolist()):
        rows = order[bounds[i] : bounds[i + 1]]
        store = data[names[a], relations[r], names[b]]
        store.edge_index = torch.from_numpy(np.stack([place[source[rows]], place[target[rows]]]))
        store.row = torch.from_numpy(rows)
        if weight is not None:
            store.edge_weight = weight[store.row]
