"""Cognee's embedded stores, written through the packages that Cognee uses where they are installed."""

import json
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from tercet import Engine
from tercet.cognee import brute_force_triplet_search, edge_type_id, graph_from_records
from tercet.errors import InvalidArgument, InvalidData, MissingDependency
from tercet.formats import cognee_store
from tercet.formats.cognee_store import CogneeStore
from tercet.formats.imported import SourceReport
from tests.engine.formats.importing import built, row

NODES = [
    ("a", {"name": "Ann", "type": "Entity", "description": "d", "importance_weight": 0.9, "feedback_weight": 3}),
    ("b", {"name": "Bob", "type": "Entity", "belongs_to_set": ["s", {"name": "t"}], "ontology_valid": True}),
    ("c", {"name": "", "type": "DocumentChunk", "text": "Ann knows Bob."}),
]
EDGES = [
    ("a", "b", "knows", {"edge_text": "Ann knows Bob", "weight": 0.5, "weights": {"x": 1}}),
    ("c", "a", "contains", {}),
]
TEXTS = ("Ann knows Bob", "contains", "old")
VECTORS = {
    "EdgeType_relationship_name": ([edge_type_id(t) for t in TEXTS], [[1, 0], [0, 1], [1, 1]], [[], [], []]),
    "Entity_name": (["a", "b", "gone"], [[1, 0], [0, 1], [1, 1]], [["s"], [], []]),
}  # fmt: skip
TABLES = [
    "CREATE NODE TABLE Node(id STRING PRIMARY KEY, name STRING, type STRING, created_at TIMESTAMP, properties STRING)",
    "CREATE REL TABLE EDGE(FROM Node TO Node, relationship_name STRING, created_at TIMESTAMP, properties STRING)",
]


def collections():
    made = {}
    for name, (ids, rows, sets) in VECTORS.items():
        vectors = pa.array([list(map(float, r)) for r in rows], pa.list_(pa.float32(), 2))
        payload = pa.array([{"id": i, "belongs_to_set": s} for i, s in zip(ids, sets, strict=True)])
        made[name] = pa.table({"id": ids, "vector": vectors, "payload": payload})
    return made


def store():
    held = {name: cognee_store._collection(name, table) for name, table in collections().items()}
    return CogneeStore(list(NODES), list(EDGES), held, SourceReport("Cognee"))


@pytest.fixture
def written(tmp_path):
    """A system folder, written as Cognee writes it."""
    ladybug = pytest.importorskip("ladybug", reason="ladybug isn't installed")
    lancedb = pytest.importorskip("lancedb", reason="lancedb isn't installed")
    (tmp_path / "databases").mkdir()
    database = ladybug.Database(str(tmp_path / "databases" / "cognee_graph_ladybug"))
    connection = ladybug.Connection(database)
    for statement in TABLES:
        connection.execute(statement)
    for node, props in NODES:
        rest = {k: v for k, v in props.items() if k not in ("name", "type")}
        values = {"id": node, "name": props["name"], "type": props["type"], "p": json.dumps(rest)}
        connection.execute("CREATE (n:Node {id: $id, name: $name, type: $type, properties: $p})", values)
    for source, target, name, props in EDGES:
        values = {"s": source, "t": target, "n": name, "p": json.dumps(props)}
        connection.execute("MATCH (a:Node {id: $s}), (b:Node {id: $t})"
                           " CREATE (a)-[:EDGE {relationship_name: $n, properties: $p}]->(b)", values)  # fmt: skip
    connection.close()
    database.close()
    db = lancedb.connect(str(tmp_path / "databases" / "cognee.lancedb"))
    for name, table in collections().items():
        db.create_table(name, table)
    return tmp_path


def check_import(got):
    built(got)
    ann, bob = row(got.nodes, id="a"), row(got.nodes, id="b")
    assert (ann["importance_weight"], ann["feedback_weight"]) == (0.9, None)
    assert bob["belongs_to_set"] == ["s", "t"]
    assert json.loads(bob["properties"]) == {"ontology_valid": True}
    assert row(got.nodes, id="c")["text"] == "Ann knows Bob."
    edge = row(got.edges, source="a")
    assert (edge["relation"], edge["edge_text"], edge["weight"]) == ("knows", "Ann knows Bob", 0.5)
    held = {v.name: (v.kind, v.owner.to_pylist(), v.vectors.tolist()) for v in got.vectors}
    assert held == {
        "Entity_name": ("node", ["a", "b"], [[1, 0], [0, 1]]),
        "EdgeType_relationship_name": ("relation", ["Ann knows Bob", "contains"], [[1, 0], [0, 1]]),
    }
    assert got.report.problems == {
        "feedback_weight that isn't a number in [0, 1]; cleared": (1, ["Node:1"]),
        "vector of nothing in the graph; left out": (2, ["EdgeType_relationship_name:3", "Entity_name:3"]),
    }


def test_tables_of_records():
    check_import(cognee_store.tables(store()))


def test_engine_of_records():
    held = store()
    graph = held.graph()
    engine = Engine(graph, held.searched(graph), mode="cognee", device="cpu")
    got = brute_force_triplet_search(engine, "q", vectors=[1.0, 0.0], top_k=1)
    assert [(t.source, t.relation, t.target) for t in got[0].triplets] == [("a", "knows", "b")]


def test_written_by_its_packages(written):
    check_import(cognee_store.read(written, model="m"))
    held = cognee_store.load(written / "databases")
    assert sorted(held.nodes) == sorted((i, {**p}) for i, p in NODES)
    assert held.graph().num_edges == graph_from_records(NODES, EDGES).num_edges


def test_several_datasets(tmp_path):
    for name in ("one.lbug", "two.lbug"):
        (tmp_path / name).touch()
    with pytest.raises(InvalidArgument, match=r"several stores, choose one by graph=: one.lbug, two.lbug"):
        cognee_store.load(tmp_path)
    with pytest.raises(InvalidArgument, match="expected a graph file of Cognee"):
        cognee_store.load(tmp_path, graph="three.lbug")


def test_packages_are_needed(tmp_path, monkeypatch):
    (tmp_path / "cognee_graph_ladybug").touch()
    for name in ("ladybug", "kuzu"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingDependency, match="pip install ladybug"):
        cognee_store.read(tmp_path)


def test_damaged(written):
    file: Path = written / "databases" / "cognee_graph_ladybug"
    file.write_bytes(b"no graph at all" * 1000)
    with pytest.raises(InvalidData, match="not a graph file that ladybug can read"):
        cognee_store.read(written)
    with pytest.raises(InvalidData, match=r"Node row 3: properties: not valid JSON"):
        cognee_store._object("{", "Node row 3")
    with pytest.raises(InvalidData, match=r"expected the columns id, vector, payload"):
        cognee_store._collection("X_name", pa.table({"id": ["a"]}))
