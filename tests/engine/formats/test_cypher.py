"""Cypher scripts: run by an engine that needs no schema; statements told apart, the outside world shut."""

from collections import Counter

import pytest

from tercet.errors import InvalidArgument, InvalidData
from tercet.formats.cypher import read, statements
from tercet.node import nodes_of, relationships_of
from tests.engine.formats.random_graphs import SHARED, graph_of, needs_files

needs_engine = pytest.mark.usefixtures("engine")


@pytest.fixture
def engine():
    pytest.importorskip("grafito", reason="grafitodb isn't installed")


SCRIPT = """// people; and a comment
:begin
CREATE CONSTRAINT IF NOT EXISTS FOR (p:Person) REQUIRE (p.name) IS UNIQUE;
CREATE (a:Person:Author {name: 'A; "B"', born: 1900, tags: ['x', 'y'], ok: true, r: 1.5}) /* one;
two */ CREATE (f:Film {title: "It's"})
CREATE (a)-[:MADE {year: 1950, fact: 'A made it'}]->(f), (a)-[:MADE]->(f);

MATCH (a:Person) CREATE (a)-[:KNOWS]->(a);
"""


def script(tmp_path, text):
    (tmp_path / "s.cypher").write_text(text, encoding="utf-8")
    return tmp_path / "s.cypher"


def test_statements():
    assert list(statements("a ';' `;` \";\\\";\" ;\n// x;\n\nb /* ;\n */ c;;\n:begin\n d")) == [
        (1, "a ';' `;` \";\\\";\""), (4, "b  \n c"), (7, "d"),
    ]  # fmt: skip
    assert list(statements(" \n")) == []


@needs_engine
def test_by_hand(tmp_path):
    got = read(script(tmp_path, SCRIPT))
    graph = graph_of(got)
    assert [(n.id, n.labels, n.properties) for n in nodes_of(graph, range(2))] == [
        ("1", ("Author", "Person"), {"name": 'A; "B"', "born": 1900, "tags": ["x", "y"], "ok": True, "r": 1.5}),
        ("2", ("Film",), {"name": "It's", "title": "It's"}),
    ]
    assert [(e.source_id, e.type, e.target_id, e.properties) for e in relationships_of(graph, range(4 - 1))] == [
        ("1", "KNOWS", "1", {}),
        ("1", "MADE", "2", {"year": 1950, "fact": "A made it", "edge_text": "A made it"}),
        ("1", "MADE", "2", {}),
    ]
    assert "3 statements" in got.report.notes


@needs_engine
def test_ids_from_a_property(tmp_path):
    path = script(tmp_path, "CREATE (a:X {k: 7})-[:R]->(b:X {k: 'b'});")
    got = read(path, id_property="k")
    assert got.nodes["id"].to_pylist() == ["7", "b"]
    assert got.edges.select(["source", "target"]).to_pylist() == [{"source": "7", "target": "b"}]
    with pytest.raises(InvalidData, match=r"node 1: expected text or an integer in 'name', got None"):
        read(path, id_property="name")
    with pytest.raises(InvalidData, match=r"node 2: the node id '7' is there already, in .*node 1"):
        read(script(tmp_path, "CREATE (a {k: 7}), (b {k: '7'});"), id_property="k")


@needs_engine
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("CREATE (a:X);\n\nCREATE (a:X\n;", r"s\.cypher:3: Syntax error"),
        ("CREATE (a:X);\nLOAD CSV FROM 'file:///etc/hostname' AS line CREATE (:L);", r"s\.cypher:2: CALL of proced"),
        ("CALL apoc.load.json('http://localhost/x') YIELD value RETURN value;", r"s\.cypher:1: CALL of proced"),
        ("CALL { LOAD CSV FROM 'x' AS line RETURN line } CREATE (:L);", r"s\.cypher:1: "),
        ("CREATE CONSTRAINT IF NOT EXISTS FOR (p:P) REQUIRE (p.n) IS UNIQUE;\nCREATE (:P {n: 1});\nCREATE (:P {n: 1});",
         r"s\.cypher:3: "),
    ],
)  # fmt: skip
def test_refusals_name_the_line(tmp_path, text, message):
    with pytest.raises(InvalidData, match=message):
        read(script(tmp_path, text))


def test_wrong_calls(tmp_path):
    with pytest.raises(InvalidArgument, match="no such file"):
        read(tmp_path / "absent.cypher")
    (tmp_path / "s.cypher").write_bytes(b"CREATE ('\xff')")
    with pytest.raises(InvalidData, match="not valid UTF-8"):
        read(tmp_path / "s.cypher")


@needs_files
@needs_engine
def test_movies():
    got = read(SHARED / "neo4j_movies_cypher" / "movies.cypher")
    graph = graph_of(got)
    nodes = nodes_of(graph, range(graph.num_nodes))
    assert Counter(node.labels for node in nodes) == {("Movie",): 38, ("Person",): 133}
    edges = relationships_of(graph, range(graph.num_edges))
    assert Counter(edge.type for edge in edges) == {
        "ACTED_IN": 172, "DIRECTED": 44, "PRODUCED": 15, "WROTE": 10, "REVIEWED": 9, "FOLLOWS": 3,
    }  # fmt: skip
    names = {node.id: node.title for node in nodes}
    assert all(node.properties["name"] for node in nodes)
    keanu = [e for e in edges if names[e.source_id] == "Keanu Reeves" and names[e.target_id] == "The Matrix"]
    assert [e.properties for e in keanu] == [{"roles": ["Neo"]}]
    assert sum("summary" in e.properties for e in edges if e.type == "REVIEWED") == 9
