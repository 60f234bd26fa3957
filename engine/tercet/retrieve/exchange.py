"""A subgraph in the forms of other libraries; each is imported here only."""

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from tercet.errors import MissingDependency

if TYPE_CHECKING:
    from tercet.retrieve.subgraph import Subgraph


def to_networkx(sub: "Subgraph", directed: bool) -> Any:
    """See `Subgraph.to_networkx`."""
    import networkx as nx

    graph = nx.MultiDiGraph() if directed else nx.MultiGraph()
    scores, hops = sub.scores, sub.hops
    title, block = (column.take(sub.node_rows).to_pylist() for column in sub.batch.graph.text_columns[:2])
    for node, name, text in zip(sub.nodes, title, block, strict=True):
        graph.add_node(
            node.id, labels=list(node.labels), properties=dict(node.properties), uri=node.uri,
            score=scores.get(node.id), hops=hops.get(node.id), title=name, text=text,
        )  # fmt: skip
    for r in sub.relationships:
        graph.add_edge(
            r.source_id, r.target_id, key=r.id, id=r.id, type=r.type, properties=dict(r.properties), uri=r.uri
        )
    return graph


def to_pyg(sub: "Subgraph", vectors: Any) -> Any:
    """See `Subgraph.to_pyg`."""
    try:
        from torch_geometric.data import HeteroData
    except ImportError as error:
        raise MissingDependency("to_pyg needs PyTorch Geometric: pip install torch_geometric") from error
    data = HeteroData()
    rows = sub.node_rows
    kind = np.array([node.labels[0] if node.labels else "node" for node in sub.nodes], object)
    hops = sub._slice(sub.batch.indptr, sub.batch.hop)
    score = np.array([sub.scores.get(i, np.nan) for i in sub.node_ids()], np.float64)
    ids = np.array(sub.node_ids(), object)
    place: dict[int, int] = {}  # node row to its place within its type
    for name in dict.fromkeys(kind.tolist()):
        mine = np.flatnonzero(kind == name)
        place.update(zip(rows[mine].tolist(), range(len(mine)), strict=True))
        store = data[name]
        store.num_nodes = len(mine)
        store.node_id = ids[mine].tolist()
        store.row = torch.from_numpy(rows[mine].astype(np.int64))
        store.hops = torch.from_numpy(hops[mine].astype(np.int64))
        store.score = torch.from_numpy(score[mine])
        if vectors is not None:
            store.x = torch.as_tensor(vectors)[torch.from_numpy(rows[mine].astype(np.int64))]
    type_of = dict(zip(rows.tolist(), kind.tolist(), strict=True))
    graph, edges = sub.batch.graph, sub.edge_rows
    ends = [x.cpu().numpy()[edges].tolist() for x in (graph.source, graph.target)]
    groups: dict[tuple[str, str, str], list[tuple[int, int, int]]] = {}
    for r, s, t, e in zip(sub.relationships, *ends, edges.tolist(), strict=True):
        groups.setdefault((type_of[s], r.type or "relation", type_of[t]), []).append((place[s], place[t], e))
    for key, triples in groups.items():
        columns = torch.tensor(triples, dtype=torch.int64).T
        data[key].edge_index, data[key].row = columns[:2].contiguous(), columns[2]
    return data
