"""A whole graph for PyTorch Geometric."""

import pytest
import torch

from tercet.errors import InvalidArgument
from tercet.formats.export import to_pyg
from tercet.graph import Graph

pytest.importorskip("torch_geometric", reason="PyTorch Geometric isn't installed")

GRAPH = Graph.from_tables(
    {"id": ["a", "b", "c", "d"], "labels": [["Y", "X"], ["Z"], None, ["Z"]]},
    {
        "source": ["a", "a", "b", "d", "c"], "target": ["b", "d", "d", "b", "c"],
        "relation": ["r", "r", "s", "s", None], "weight": [1.0, 2.0, 3.0, 4.0, 5.0],
    },
)  # fmt: skip


def test_by_hand():
    vectors = torch.arange(8.0).reshape(4, 2)
    data = to_pyg(GRAPH, vectors)
    data.validate()
    assert set(data.node_types) == {"X", "Z", "node"}
    assert data["Z"].node_id == ["b", "d"]
    assert data["Z"].row.tolist() == [1, 3]
    assert data["Z"].x.tolist() == [[2.0, 3.0], [6.0, 7.0]]
    assert set(data.edge_types) == {("X", "r", "Z"), ("Z", "s", "Z"), ("node", "relation", "node")}
    assert data["X", "r", "Z"].edge_index.tolist() == [[0, 0], [0, 1]]
    assert data["Z", "s", "Z"].edge_index.tolist() == [[0, 1], [1, 0]]
    assert data["Z", "s", "Z"].edge_weight.tolist() == [3.0, 4.0]
    rows = torch.cat([data[kind].row for kind in data.edge_types])
    assert sorted(rows.tolist()) == list(range(5))
    for kind in data.edge_types:
        store = data[kind]
        for (source, target), row in zip(store.edge_index.T.tolist(), store.row.tolist(), strict=True):
            assert data[kind[0]].row[source] == GRAPH.source[row]
            assert data[kind[2]].row[target] == GRAPH.target[row]


def test_without_vectors_or_nodes():
    assert "x" not in to_pyg(GRAPH)["X"]
    empty = Graph.from_tables({"id": []}, {"source": [], "target": [], "relation": []})
    assert to_pyg(empty).node_types == []
    with pytest.raises(InvalidArgument, match=r"vectors: expected \(4, D\), got \(3, 2\)"):
        to_pyg(GRAPH, torch.zeros(3, 2))
