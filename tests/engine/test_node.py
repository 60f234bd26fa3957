"""Nodes and relationships as values."""

import dataclasses

import numpy as np
import pytest
import torch

from tercet import Graph
from tercet.node import Node, Relationship, nodes_of, relationships_of


@pytest.fixture(scope="module")
def graph():
    nodes = {
        "id": [7, 5, 6], "labels": [["Z", "A"], [], ["B"]], "uri": ["u:7", None, None],
        "properties": ['{"name": "seven", "title": "no"}', '{"title": "five"}', "{}"],
    }  # fmt: skip
    edges = {
        "source": [7, 5, 5], "target": [5, 6, 5], "relation": ["r", None, "s"], "id": [70, None, None],
        "uri": [None, "e:1", None], "properties": ['{"w": 1}', None, None],
    }  # fmt: skip
    return Graph.from_tables(nodes, edges, order="input")


def test_nodes(graph):
    made = nodes_of(graph, [2, 0, 0, 1])
    assert made == [
        Node("6", ("B",), {}),
        Node("7", ("A", "Z"), {"name": "seven", "title": "no"}, "u:7"),
        Node("7", ("A", "Z"), {"name": "seven", "title": "no"}, "u:7"),
        Node("5", (), {"title": "five"}),
    ]
    assert [n.row for n in made] == [2, 0, 0, 1]
    assert [n.title for n in made] == ["6", "seven", "seven", "five"]
    assert len(set(made)) == 3
    assert nodes_of(graph, []) == nodes_of(graph, np.zeros(0, np.int64)) == []
    assert nodes_of(graph, torch.tensor([1], dtype=torch.int32)) == made[3:]


def test_equal_by_content(graph):
    one = nodes_of(graph, [0])[0]
    assert one == dataclasses.replace(one, row=9)
    for change in ({"id": "8"}, {"labels": ("A",)}, {"properties": {}}, {"uri": None}):
        assert one != dataclasses.replace(one, **change)
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.id = "8"


def test_relationships(graph):
    made = relationships_of(graph, [1, 0, 2])
    assert made == [
        Relationship(1, "5", "6", None, {}, "e:1"),
        Relationship("70", "7", "5", "r", {"w": 1}, None),
        Relationship(2, "5", "5", "s", {}, None),
    ]
    assert [r.row for r in made] == [1, 0, 2]
    assert len({*made, *relationships_of(graph, [0])}) == 3
    assert relationships_of(graph, []) == []


def test_without_labels_properties_and_edges():
    graph = Graph.from_tables({"id": ["a"], "type": ["T"]}, {"source": [], "target": [], "relation": []})
    assert nodes_of(graph, [0]) == [Node("a", ("T",), {"type": "T"})]
    assert relationships_of(graph, []) == []
