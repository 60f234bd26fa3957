"""GraphML: typed keys, defaults, other writers' habits, what is refused with its line, and the way back."""

import gzip
import re

import networkx as nx
import pytest
from hypothesis import given

from tercet.errors import InvalidArgument, InvalidData
from tercet.formats import graphml
from tercet.formats.export import to_graphml
from tercet.graph import Graph
from tercet.node import nodes_of
from tests.engine.formats.random_graphs import SHARED, XML_TEXT, facts, graph_of, graphs, needs_files, round_trips

KEYS = """<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
<key id="d0" for="node" attr.name="title" attr.type="string"/>
<key id="d1" for="node" attr.name="age" attr.type="int"><default>30</default></key>
<key id="d2" for="edge" attr.name="weight" attr.type="double"/>
<key id="d3" for="all" attr.name="ok" attr.type="boolean"/>
"""
BODY = """<graph edgedefault="undirected">
<node id="a"><data key="d0">A &amp; B&#13;</data><data key="d1">7</data><data key="d3">1</data></node>
<node id="b" labels=":Person:Actor"/>
<edge source="a" target="b" id="e" label="KNOWS"><data key="d2">INF</data></edge>
<edge source="b" target="a" directed="true"><data key="d3">false</data></edge>
</graph></graphml>
"""


def read(tmp_path, text, name="g.graphml"):
    data = text if isinstance(text, bytes) else text.encode()
    (tmp_path / name).write_bytes(gzip.compress(data, mtime=0) if name.endswith(".gz") else data)
    return graphml.read(tmp_path / name)


@round_trips
@given(graphs(XML_TEXT))
def test_there_and_back(tmp_path_factory, graph):
    path = tmp_path_factory.mktemp("graphml") / "g.graphml"
    to_graphml(graph, path)
    assert facts(graph_of(graphml.read(path))) == facts(graph)
    assert nx.read_graphml(path).number_of_nodes() == graph.num_nodes  # another reader takes it


@pytest.mark.parametrize("name", ["g.graphml", "g.graphml.gz"])
def test_by_hand(tmp_path, name):
    got = read(tmp_path, KEYS + BODY, name)
    assert got.nodes.to_pydict() == {
        "id": ["a", "b"],
        "labels": [None, ["Person", "Actor"]],
        "age": [7, 30],
        "ok": [True, None],
        "name": ["A & B\r", None],
    }
    assert got.edges.to_pydict() == {
        "source": ["a", "b"], "target": ["b", "a"], "relation": ["KNOWS", None], "id": ["e", None],
        "weight": [float("inf"), None], "ok": [None, False],
    }  # fmt: skip
    assert "1 undirected edges are taken once" in str(got.report)
    assert got.report.problems == {"edge without a relation (kept)": (1, [f"{name}:10"])}
    assert graph_of(got).num_edges == 2


def test_files_of_networkx(tmp_path):
    graph = nx.MultiDiGraph()
    graph.add_node(1, label="one", size=1.5)
    graph.add_edge(1, 2, key="k", relation="r")
    nx.write_graphml(graph, tmp_path / "g.graphml")
    got = graphml.read(tmp_path / "g.graphml")
    assert got.nodes.to_pydict() == {"id": ["1", "2"], "size": [1.5, None], "name": ["one", None]}
    assert got.edges["relation"].to_pylist() == ["r"]


def test_labels_of_yed(tmp_path):
    text = """<graphml xmlns="http://graphml.graphdrawing.org/xmlns" xmlns:y="urn:y">
    <key for="node" id="d6" yfiles.type="nodegraphics"/>
    <graph edgedefault="directed"><node id="n0"><data key="d6"><y:ShapeNode><y:Geometry/>
    <y:NodeLabel> Ada </y:NodeLabel></y:ShapeNode></data></node>
    <node id="n1"><data key="d6"><y:ShapeNode><y:Geometry/></y:ShapeNode></data></node></graph></graphml>"""
    got = read(tmp_path, text)
    assert got.nodes.to_pydict() == {"id": ["n0", "n1"], "name": ["Ada", None]}
    assert got.report.problems == {"data with foreign elements, left out": (1, ["g.graphml:5"])}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("<graphml xmlns", '<!DOCTYPE x [<!ENTITY a "b">]>\n<graphml xmlns', r"g\.graphml:1: a document type decl"),
        ("</graphml>", "", r"g\.graphml:\d+: not well-formed XML: no element found"),
        ("A &amp; B", "A & B", r"g\.graphml:7: not well-formed XML"),
        ("&#13;", "&#0;", r"g\.graphml:7: not well-formed XML"),
        ('<node id="b" labels=":Person:Actor"/>', '<node id="b"><graph edgedefault="directed"/></node>',
         r"g\.graphml:8: a nested or second graph"),
        ("</graph></graphml>", '<hyperedge/></graph></graphml>', r"g\.graphml:11: a hyperedge"),
        ('node id="b"', 'node id="a"', r"g\.graphml:8: the node id 'a' is there already, in g\.graphml:7"),
        ('target="b" id', 'target="x" id', r"g\.graphml:9: the target 'x' is no node of the file"),
        ('target="b" id', "id", r"g\.graphml:9: edge: the attribute target is missing"),
        (">7<", ">seven<", r"g\.graphml:7: data 'age': expected a value of type int, got 'seven'"),
        (">7<", ">1_000<", r"g\.graphml:7: data 'age': expected a value of type int"),
        ('<data key="d3">1', '<data key="d9">1', r"g\.graphml:7: data: no key is declared with the id 'd9'"),
        ('attr.type="int"', 'attr.type="integer"', r"g\.graphml:3: key 'd1': expected attr\.type to be one of"),
        ('id="d2"', 'id="d1"', r"g\.graphml:4: key: expected an id of its own, got 'd1' again"),
        ('edgedefault="undirected"', "", r"g\.graphml:6: graph: expected edgedefault"),
        ('<graphml xmlns="http://graphml.graphdrawing.org/xmlns">', "<html>", r"g\.graphml:1: expected the element gr"),
    ],
)  # fmt: skip
def test_refusals_name_the_line(tmp_path, old, new, message):
    assert old in KEYS + BODY
    with pytest.raises(InvalidData, match=message):
        read(tmp_path, (KEYS + BODY).replace(old, new, 1))


def test_damaged_files(tmp_path):
    with pytest.raises(InvalidArgument, match="no such file"):
        graphml.read(tmp_path / "absent.graphml")
    (tmp_path / "g.graphml.gz").write_bytes(b"no gzip")
    with pytest.raises(InvalidData, match="damaged gzip"):
        graphml.read(tmp_path / "g.graphml.gz")


def test_characters_that_xml_lacks(tmp_path):
    nodes = {"id": ["a", "b"], "name": ["fine", "bell\x07"]}
    graph = Graph.from_tables(nodes, {"source": [], "target": [], "relation": []})
    with pytest.raises(InvalidData, match=re.escape(r"nodes row 1: XML can't hold U+0007 (at 4 of 'bell\x07')")):
        to_graphml(graph, tmp_path / "g.graphml")
    report = to_graphml(graph, tmp_path / "g.graphml", illegal="replace")
    assert report.problems == {"characters XML can't hold, replaced by U+FFFD": (1, ["nodes row 1"])}
    assert graphml.read(tmp_path / "g.graphml").nodes["name"].to_pylist() == ["fine", "bell\ufffd"]
    with pytest.raises(InvalidArgument, match="illegal"):
        to_graphml(graph, tmp_path / "g.graphml", illegal="drop")


@needs_files
@pytest.mark.parametrize(
    ("path", "nodes", "edges"),
    [
        ("lightrag_christmas_carol/graph_chunk_entity_relation.graphml", 322, 359),
        ("lightrag_v14_covid/graph_chunk_entity_relation.graphml", 710, 603),
        ("nano_graphrag_christmas_carol/graph_chunk_entity_relation.graphml", 374, 186),
        ("ms_graphrag_sengoku_ja/graph.graphml", 2161, 2791),
    ],
)
def test_files_of_others(tmp_path, path, nodes, edges):
    got = graphml.read(SHARED / path)
    graph = graph_of(got)
    assert (got.nodes.num_rows, got.edges.num_rows) == (graph.num_nodes, graph.num_edges) == (nodes, edges)
    assert f"{edges} undirected edges" in str(got.report)
    if "lightrag" in path:
        assert got.nodes["type"].null_count == 0
        assert got.edges["edge_text"].null_count == 0
    if "nano" in path:
        assert all(node.id.startswith('"') and node.id.endswith('"') for node in nodes_of(graph, range(nodes)))
    to_graphml(graph, tmp_path / "g.graphml")
    assert facts(graph_of(graphml.read(tmp_path / "g.graphml"))) == facts(graph)
