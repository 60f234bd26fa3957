"""Grafito's files: written by hand to its schema, from its recorded cases, and by the library where it is installed."""

import json
import sqlite3
from pathlib import Path

import numpy as np
import pytest

from tercet.errors import InvalidArgument, InvalidData
from tercet.formats import grafito
from tests.engine.formats.importing import built, counted, row
from tests.replay_grafito import Case

GOLDEN = Path(__file__).parents[2] / "golden" / "grafito"
SCHEMA = """
CREATE TABLE nodes (id INTEGER PRIMARY KEY AUTOINCREMENT, created_at REAL, properties TEXT DEFAULT '{}', uri TEXT);
CREATE TABLE labels (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE COLLATE NOCASE);
CREATE TABLE node_labels (node_id INTEGER NOT NULL, label_id INTEGER NOT NULL, PRIMARY KEY (node_id, label_id));
CREATE TABLE relationships (id INTEGER PRIMARY KEY AUTOINCREMENT, source_node_id INTEGER NOT NULL,
    target_node_id INTEGER NOT NULL, type TEXT NOT NULL, created_at REAL, properties TEXT DEFAULT '{}', uri TEXT);
CREATE TABLE vector_indexes (name TEXT PRIMARY KEY, dim INTEGER NOT NULL, backend TEXT NOT NULL, method TEXT NOT NULL,
    options TEXT, created_at REAL);
CREATE TABLE vector_entries (index_name TEXT NOT NULL, node_id INTEGER NOT NULL, vector TEXT NOT NULL, updated_at REAL,
    PRIMARY KEY (index_name, node_id));
CREATE VIRTUAL TABLE fts_index USING fts5(entity_type, entity_id UNINDEXED, label_type, content,
    tokenize = 'unicode61');
CREATE TABLE fts_config (entity_type TEXT NOT NULL, label_type TEXT, property TEXT NOT NULL, weight REAL);
"""
NODES = [
    {"id": 3, "labels": ["Person", "Author"], "properties": {"name": "Ann", "born": 1970}, "uri": "x:ann"},
    {"id": 10, "labels": [], "properties": {"title": "Book", "text": "A tale.", "name": 7}, "uri": None},
]
RELATIONSHIPS = [{"id": 1, "source": 3, "target": 10, "type": "WROTE", "properties": {"year": 1999}, "uri": None}]


def write_file(path, nodes=NODES, relationships=RELATIONSHIPS, vectors=None, text=(), config=()):
    """A file of Grafito's schema; `vectors` by name: ids, vectors, backend, options."""
    connection = sqlite3.connect(path)
    connection.executescript(SCHEMA)
    label_ids: dict[str, int] = {}
    for n in nodes:
        values = (n["id"], json.dumps(n["properties"]), n.get("uri"))
        connection.execute("INSERT INTO nodes (id, properties, uri) VALUES (?, ?, ?)", values)
        for label in n["labels"]:
            if label not in label_ids:
                label_ids[label] = connection.execute("INSERT INTO labels (name) VALUES (?)", (label,)).lastrowid
            connection.execute("INSERT INTO node_labels VALUES (?, ?)", (n["id"], label_ids[label]))
    for r in relationships:
        values = (r["id"], r["source"], r["target"], r["type"], json.dumps(r["properties"]), r.get("uri"))
        connection.execute("INSERT INTO relationships (id, source_node_id, target_node_id, type, properties, uri)"
                           " VALUES (?, ?, ?, ?, ?, ?)", values)  # fmt: skip
    for name, (ids, rows, backend, options) in (vectors or {}).items():
        values = (name, len(rows[0]), backend, "flat", json.dumps(options))
        connection.execute(
            "INSERT INTO vector_indexes (name, dim, backend, method, options) VALUES (?, ?, ?, ?, ?)", values
        )
        entries = [(name, i, json.dumps(list(map(float, v)))) for i, v in zip(ids, rows, strict=True)]
        connection.executemany("INSERT INTO vector_entries (index_name, node_id, vector) VALUES (?, ?, ?)", entries)
    connection.executemany("INSERT INTO fts_index VALUES (?, ?, ?, ?)", text)
    connection.executemany("INSERT INTO fts_config VALUES (?, ?, ?, ?)", config)
    connection.commit()
    connection.close()
    return path


VECTORS = {
    "by_name": ([3, 10], [[1, 0], [0, 2]], "bruteforce", {
        "store_embeddings": True, "default_k": 1,
        "embedding_function": {"name": "sentence_transformer", "config": {"model_name": "mini"}},
    }),
    "far": ([10], [[3, 4]], "faiss", {"store_embeddings": True, "index_path": "far.faiss"}),
}  # fmt: skip
TEXT = [("node", 3, "Author", "Ann"), ("node", 3, "Person", "old words"), ("relationship", 1, "WROTE", None)]


def test_by_hand(tmp_path):
    path = write_file(tmp_path / "g.db", vectors=VECTORS, text=TEXT, config=[("node", None, "name", 2.0)])
    before = path.read_bytes()
    got = grafito.read(path)
    built(got)
    assert path.read_bytes() == before
    ann, book = row(got.nodes, id="3"), row(got.nodes, id="10")
    assert (ann["name"], ann["labels"], ann["type"], ann["uri"]) == ("Ann", ["Author", "Person"], "Author", "x:ann")
    assert (book["name"], book["text"], book["labels"], book["type"]) == ("Book", "A tale.", [], None)
    assert json.loads(book["properties"]) == NODES[1]["properties"]
    assert row(got.edges, id="1") == {
        "source": "3", "target": "10", "relation": "WROTE", "id": "1", "uri": None, "properties": '{"year":1999}',
    }  # fmt: skip
    held = {v.name: (v.owner.to_pylist(), v.vectors.tolist(), v.model, v.metric) for v in got.vectors}
    assert held == {
        "by_name": (["3", "10"], [[1, 0], [0, 2]], "mini", "cosine"), "far": (["10"], [[3, 4]], None, "l2"),
    }  # fmt: skip
    assert "text index: name of nodes, any label" in got.report.notes
    assert counted(grafito.read(write_file(tmp_path / "e.db", nodes=NODES[:1], relationships=[]))) == {"Author": 1}
    assert grafito.read(write_file(tmp_path / "none.db", [], [])).nodes.num_rows == 0


def test_database_searches_the_stored_text_rows(tmp_path):
    path = write_file(tmp_path / "g.db", vectors=VECTORS, text=TEXT)
    db = grafito.database(path, embed={"by_name": lambda texts: [[0, 1]] * len(texts)}, device="cpu")
    assert [h["entity"].id for h in db.text_search("words")] == [3]
    assert [h["node"].id for h in db.semantic_search("anything", index="by_name")] == [10]  # default_k = 1
    assert db.semantic_search([3, 4], index="far")[0]["score"] == 0.0
    assert db.match_nodes(["Author"])[0].properties == NODES[0]["properties"]
    other = {"odd": ([3], [[1.0]], "annoy", {})}
    path = write_file(tmp_path / "odd.db", vectors=other)
    with pytest.raises(InvalidArgument, match=r"'odd': annoy with cosine can't be searched as Grafito does"):
        grafito.database(path)
    assert grafito.database(path, indexes=[], device="cpu").indexes == {}
    with pytest.raises(InvalidArgument, match=r"no vector index 'none', only \['odd'\]"):
        grafito.database(path, indexes=["none"])


@pytest.mark.parametrize("name", ["sem_basic_batch", "sem_l2_metric", "sem_directions", "path_basic"])
def test_recorded_cases_answer_the_same_from_a_file(tmp_path, name):
    if not (GOLDEN / name).is_dir():
        pytest.skip("the recorded cases aren't here")
    case = Case(GOLDEN / name)
    graph = json.loads((GOLDEN / name / "graph.json").read_text(encoding="utf-8"))
    vectors = {}
    for c in case.db.engine.collections:
        rows = np.asarray(c.index.vectors)
        backend, metric = case.db.indexes[c.name].backend, {"squared_l2": "l2"}.get(c.index.metric, c.index.metric)
        ids = [int(i) for i in c.owner.to_pylist()]
        options = {"metric": metric, "default_k": case.db.indexes[c.name].default_k or 10}
        vectors[c.name] = (ids, rows.tolist(), backend, options)
    path = write_file(tmp_path / "g.db", graph["nodes"], graph["relationships"], vectors)
    embed = {i.name: i.embed for i in case.db.indexes.values() if i.embed}
    db = grafito.database(path, embed=embed, device="cpu")
    compared = 0
    for call in case.calls:
        if call["call"] not in ("semantic_search", "semantic_subgraph", "path_context") or "error" in call["expect"]:
            continue
        args = [[case.decode(b) for b in a] if isinstance(a, list) else case.decode(a) for a in call["args"]]
        got, want = (getattr(d, call["call"])(*args, **call["kwargs"]) for d in (db, case.db))
        assert got == want
        compared += 1
    assert compared > 3


def damaged(path, statement):
    connection = sqlite3.connect(write_file(path, vectors=VECTORS))
    connection.execute(statement)
    connection.commit()
    connection.close()
    return path


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("UPDATE nodes SET properties = '[1]' WHERE id = 3", r"nodes id 3: properties: expected an object, got list"),
        ("UPDATE relationships SET properties = '{' ", r"relationships id 1: properties: not valid JSON"),
        ("UPDATE relationships SET target_node_id = 4", r"relationships id 1: there is no node 4"),
        (
            "UPDATE vector_entries SET vector = '[1]' WHERE index_name = 'far'",
            r"'far' node 10: expected 2 numbers, got 1",
        ),
        ("UPDATE vector_entries SET vector = '[\"a\", 1]'", r"expected a list of numbers"),
        ("DROP TABLE labels", r"not a file of Grafito: the tables labels are missing"),
    ],
)
def test_refuses(tmp_path, statement, message):
    with pytest.raises(InvalidData, match=message):
        grafito.read(damaged(tmp_path / "g.db", statement))


def test_refuses_other_files(tmp_path):
    with pytest.raises(InvalidArgument, match="no such file"):
        grafito.read(tmp_path / "absent.db")
    (tmp_path / "text.db").write_text("hello")
    with pytest.raises(InvalidData, match="not an SQLite file"):
        grafito.read(tmp_path / "text.db")
    path = write_file(tmp_path / "g.db")
    path.write_bytes(path.read_bytes()[:5000])
    with pytest.raises(InvalidData, match="not readable as an SQLite file"):
        grafito.read(path)


def test_against_the_library(tmp_path):
    """Where grafitodb is installed: a file of its own, and the same answers from it."""
    library = pytest.importorskip("grafito", reason="grafitodb isn't installed")
    path = tmp_path / "own.db"
    theirs = library.GrafitoDatabase(str(path))
    theirs.create_text_index("node", None, ["name", "text"])
    rng = np.random.default_rng(5)
    words = ["ann", "book", "tale", "sea", "river"]
    nodes = [
        theirs.create_node(labels=["N", "M"][: i % 3], properties={"name": words[i % 5], "text": f"{words[i % 4]} {i}"})
        for i in range(12)
    ]
    for i in range(30):
        theirs.create_relationship(nodes[i % 12].id, nodes[(i * 5 + 1) % 12].id, f"R{i % 3}", {"i": i})
    theirs.create_vector_index("v", dim=4)
    vectors = rng.standard_normal((12, 4)).tolist()
    theirs.upsert_embeddings_batch([n.id for n in nodes], vectors, index="v")
    theirs.update_node_properties(nodes[2].id, {"text": "sea and sea"})
    ours = grafito.database(path, device="cpu")
    built(grafito.read(path))
    for query in rng.standard_normal((5, 4)).tolist():
        want = [(h["node"].id, pytest.approx(h["score"])) for h in theirs.semantic_search(query, k=5, index="v")]
        assert [(h["node"].id, h["score"]) for h in ours.semantic_search(query, k=5, index="v")] == want
    for query in ("sea", "ann tale", "book"):
        want = [(h["entity"].id, pytest.approx(h["score"])) for h in theirs.text_search(query, k=9)]
        assert [(h["entity"].id, h["score"]) for h in ours.text_search(query, k=9)] == want
        sub = theirs.text_subgraph(query, k=3, expand=1)
        assert ours.text_subgraph(query, k=3, expand=1).node_ids() == sub.node_ids()
    theirs.close()
