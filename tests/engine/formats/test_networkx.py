"""networkx graphs: the four classes, what attributes mean, and the way back."""

import datetime
import enum
import uuid

import networkx as nx
import numpy as np
import pytest
from hypothesis import given

from tercet.errors import InvalidArgument, InvalidData
from tercet.formats import networkx_graph
from tercet.formats.export import to_networkx
from tercet.graph import Graph
from tercet.node import nodes_of
from tests.engine.formats.random_graphs import facts, graph_of, graphs, round_trips


class Colour(enum.StrEnum):
    RED = "red"


@round_trips
@given(graphs())
def test_there_and_back(graph):
    assert facts(graph_of(networkx_graph.read(to_networkx(graph)))) == facts(graph)


def test_no_node():
    empty = Graph.from_tables({"id": []}, {"source": [], "target": [], "relation": []})
    assert graph_of(networkx_graph.read(to_networkx(empty))).num_nodes == 0


@pytest.mark.parametrize("kind", [nx.Graph, nx.DiGraph, nx.MultiGraph, nx.MultiDiGraph])
def test_four_classes(kind):
    graph = kind()
    graph.add_edge("a", "b", relation="r", weight=2)
    graph.add_edge("b", "a", relation="s")
    graph.add_edge("a", "a", relation="r")
    got = networkx_graph.read(graph)
    triples = list(zip(*(got.edges[name].to_pylist() for name in ("source", "relation", "target")), strict=True))
    expected = {
        nx.Graph: [("a", "s", "b"), ("a", "r", "a")],
        nx.DiGraph: [("a", "r", "b"), ("a", "r", "a"), ("b", "s", "a")],
        nx.MultiGraph: [("a", "r", "b"), ("a", "s", "b"), ("a", "r", "a")],
        nx.MultiDiGraph: [("a", "r", "b"), ("a", "r", "a"), ("b", "s", "a")],
    }[kind]
    assert triples == expected
    assert graph_of(got).num_edges == len(expected)
    assert ("undirected" in str(got.report)) == (not graph.is_directed())
    assert got.report.version == kind.__name__


def test_what_attributes_mean():
    graph = nx.MultiDiGraph()
    key = uuid.UUID(int=5)
    graph.add_node(key, title="T", kind="Person", content="body", labels=["A", "B"], age=np.int64(7), colour=Colour.RED,
                   born=datetime.date(2020, 1, 2), seen={3, 1}, vector=np.array([0.5, 1.0]), pair=(1, "x"))  # fmt: skip
    graph.add_node("07", name="own", title="other", labels="C", properties={"age": "seven", "name": "inner"})
    graph.add_node(7)
    graph.add_edge(key, "07", "likes", fact="K likes it", weight=1)
    graph.add_edge(key, "07", type="hates", weight=1.5, label="not the relation")
    graph.add_edge(7, 7)
    got = networkx_graph.read(graph)
    nodes = {node.id: node for node in nodes_of(graph_of(got), range(3))}
    first = nodes[str(key)]
    assert first.labels == ("A", "B")
    assert first.properties == {
        "name": "T", "type": "Person", "text": "body", "age": 7, "colour": "red", "born": "2020-01-02", "seen": [1, 3],
        "vector": [0.5, 1.0], "pair": [1, "x"],
    }  # fmt: skip
    assert nodes["07"].labels == ("C",)
    assert nodes["07"].properties == {"name": "inner", "title": "other", "age": "seven"}
    assert nodes["7"].properties == {}
    assert got.edges["relation"].to_pylist() == ["likes", "hates", None]
    assert got.edges["edge_text"].to_pylist() == ["K likes it", None, None]
    assert got.edges["weight"].to_pylist() == [1.0, 1.5, None]
    assert got.edges["label"].to_pylist() == [None, "not the relation", None]
    assert got.report.problems == {"edge without a relation (kept)": (1, ["edges:3"])}


def test_what_is_left_out_is_said():
    graph = nx.Graph()
    graph.add_node("a", thing=object(), name="fine")
    graph.add_node("b", text="bell\x07")
    got = networkx_graph.read(graph)
    assert got.report.problems == {
        "attribute 'thing' of object, left out": (1, ["nodes:1"]),
        "control characters in nodes.text (kept)": (1, ["nodes:2"]),
    }
    assert got.nodes["name"].to_pylist() == ["fine", None]


def test_refusals():
    with pytest.raises(InvalidArgument, match="expected a networkx graph, got dict"):
        networkx_graph.read({})
    same = nx.Graph()
    same.add_nodes_from(["7", "07", 7])
    with pytest.raises(InvalidData, match=r"nodes:3: the node id '7' is there already, in nodes:1"):
        networkx_graph.read(same)
    with pytest.raises(InvalidData, match=r"nodes:1: an id must be a string, an integer or a UUID, got 1\.5"):
        networkx_graph.read(nx.Graph([(1.5, 2)]))
    for attributes in ({"name": "\ud800"}, {"\ud800": 1}, {"tags": ["a", "\ud800"]}, {"deep": {"k": ["\ud800"]}}):
        wrong = nx.Graph()
        wrong.add_node("a")
        wrong.add_node("b", **attributes)
        with pytest.raises(InvalidData, match=r"nodes:2: .*not valid Unicode"):
            networkx_graph.read(wrong)
    with pytest.raises(InvalidData, match=r"nodes:1: nodes\.id: not valid Unicode"):
        networkx_graph.read(nx.path_graph(["\ud800"]))
