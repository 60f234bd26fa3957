"""LightRAG folders: by hand and as the program wrote them."""

import base64
import json

import numpy as np
import pytest

from tercet.errors import InvalidArgument, InvalidData
from tercet.formats import lightrag
from tests.engine.formats.importing import built, counted, real, row

GRAPHML = """<?xml version='1.0' encoding='utf-8'?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
  <key id="d0" for="node" attr.name="entity_type" attr.type="string" />
  <key id="d1" for="node" attr.name="description" attr.type="string" />
  <key id="d2" for="node" attr.name="source_id" attr.type="string" />
  <key id="d3" for="edge" attr.name="weight" attr.type="double" />
  <key id="d4" for="edge" attr.name="description" attr.type="string" />
  <key id="d5" for="edge" attr.name="keywords" attr.type="string" />
  <key id="d6" for="edge" attr.name="source_id" attr.type="string" />
  <key id="d7" for="node" attr.name="file_path" attr.type="string" />
  <graph edgedefault="undirected">
    <node id="A &amp; B"><data key="d0">person</data><data key="d1">one&lt;SEP&gt;two</data>
      <data key="d2">chunk-1&lt;SEP&gt;chunk-9</data><data key="d7">a.txt&lt;SEP&gt;b.txt</data></node>
    <node id="C"><data key="d0" /></node>
    <edge source="C" target="A &amp; B"><data key="d3">2.5</data><data key="d4">like</data>
      <data key="d5">x,y</data><data key="d6">chunk-1</data></edge>
    <edge source="C" target="gone"><data key="d3" /></edge>
  </graph>
</graphml>
"""
CHUNKS = {"chunk-1": {"content": "Text.", "chunk_order_index": 0, "tokens": 2, "full_doc_id": "doc-1"}}
DOCUMENTS = {"doc-1": {"content": "Text."}}


def vdb(records, matrix):
    matrix = np.asarray(matrix, np.float32)
    packed = base64.b64encode(matrix.tobytes()).decode()
    return {"embedding_dim": matrix.shape[1], "data": records, "matrix": packed}


def write(folder, graphml=GRAPHML, **files):
    (folder / "graph_chunk_entity_relation.graphml").write_text(graphml, encoding="utf-8")
    for name, value in {"kv_store_text_chunks": CHUNKS, "kv_store_full_docs": DOCUMENTS, **files}.items():
        (folder / f"{name}.json").write_text(value if isinstance(value, str) else json.dumps(value))
    return folder


def test_by_hand(tmp_path):
    write(
        tmp_path,
        vdb_entities=vdb([{"entity_name": "C"}, {"entity_name": "stale"}], [[1, 2], [3, 4]]),
        vdb_relationships=vdb([{"src_id": "A & B", "tgt_id": "C"}], [[5, 6]]),
        vdb_chunks=vdb([{"__id__": "chunk-1"}], [[7, 8]]),
    )
    got = lightrag.read(tmp_path, model="m")
    built(got)
    assert counted(got) == {"Entity": 3, "DocumentChunk": 1, "Document": 1}
    node = row(got.nodes, id="A & B")
    assert (node["type"], node["description"], node["file_path"]) == ("person", "one\ntwo", ["a.txt", "b.txt"])
    assert row(got.nodes, id="C")["type"] == "Entity"
    assert row(got.nodes, id="chunk-1")["text"] == "Text."
    edge = row(got.edges, source="C", target="A & B")
    assert (edge["edge_text"], edge["keywords"], edge["weight"], edge["chunks"]) == ("like", "x,y", 2.5, ["chunk-1"])
    links = {(e["source"], e["relation"], e["target"]) for e in got.edges.to_pylist() if e["relation"] != "related to"}
    assert links == {("A & B", "mentioned in", "chunk-1"), ("chunk-1", "part of", "doc-1")}
    held = {v.name: (v.owner.to_pylist(), v.vectors.tolist(), v.model) for v in got.vectors}
    assert held == {
        "Entity_description": (["C"], [[1, 2]], "m"), "EdgeType_relationship_name": (["like"], [[5, 6]], "m"),
        "DocumentChunk_text": (["chunk-1"], [[7, 8]], "m"),
    }  # fmt: skip
    assert got.report.problems == {
        "end of an edge that is no node; made a node": (1, ["graph_chunk_entity_relation.graphml:17"]),
        "chunk of an entity that isn't in kv_store_text_chunks.json; no edge":
            (1, ["graph_chunk_entity_relation.graphml:12"]),
        "vector of nothing in the graph; left out": (1, ["vdb_entities.json:2"]),
    }  # fmt: skip


def test_newer_stores_complete_the_chunks(tmp_path):
    more = {"chunk-2": {"content": "More.", "full_doc_id": "doc-1"}}
    write(
        tmp_path,
        kv_store_text_chunks=CHUNKS | more,
        kv_store_entity_chunks={"C": {"chunk_ids": ["chunk-2"]}},
        kv_store_relation_chunks={"A & B<SEP>C": {"chunk_ids": ["chunk-1", "chunk-2"]}},
    )
    got = lightrag.read(tmp_path)
    assert got.report.version == "of 1.4"
    assert row(got.edges, source="C", relation="mentioned in")["target"] == "chunk-2"
    assert row(got.edges, source="C", target="A & B")["chunks"] == ["chunk-1", "chunk-2"]


BOMB = '<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]>'


@pytest.mark.parametrize(
    ("graphml", "message"),
    [
        (GRAPHML.replace("<graphml ", f"{BOMB}<graphml ", 1), r"line 2: document types aren't read"),
        (GRAPHML[:900], r"line \d+: not well-formed XML"),
        (GRAPHML.replace("2.5", "heavy"), r"line 15: weight: expected double, got 'heavy'"),
        (GRAPHML.replace('<node id="C">', '<node id="A &amp; B">'),
         r"'A & B' in graph_chunk_entity_relation.graphml:12 and graph_chunk_entity_relation.graphml:14"),
        (GRAPHML.replace('<node id="C">', '<node id="chunk-1">'), r"'chunk-1' in graph_.*:14 and kv_store_text_chunks"),
        (GRAPHML.replace('key="d4"', 'key="d44"'), r"line 15: the key 'd44' isn't declared"),
        ("<graphml />", r"expected a graph element"),
    ],
)  # fmt: skip
def test_refuses_graphs(tmp_path, graphml, message):
    with pytest.raises(InvalidData, match=message):
        lightrag.read(write(tmp_path, graphml))


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (
            {"kv_store_text_chunks": '{"chunk-1": {"content": "T'},
            r"kv_store_text_chunks.json line 1 column 25: not valid JSON",
        ),
        ({"kv_store_text_chunks": {"c": {}}}, r"entry 1 \('c'\): expected an object with the texts content"),
        ({"kv_store_text_chunks": [1]}, r"expected an object, got list"),
        ({"kv_store_text_chunks": '{"c": {"content": "\\ud800"}}'}, r"column 'text' row 0: not valid Unicode"),
        ({"vdb_entities": vdb([{"entity_name": "C"}], [[1, 2], [3, 4]])}, r"expected 1 x 2 float32.*8 bytes, got 16"),
        ({"vdb_entities": {"embedding_dim": 2, "data": [], "matrix": "???"}}, r"not valid base64"),
        ({"vdb_entities": {"embedding_dim": 2, "data": []}}, r"expected an object with data, matrix"),
        ({"vdb_entities": {"embedding_dim": "2", "data": [], "matrix": ""}}, r"embedding_dim: expected a positive"),
    ],
)
def test_refuses_stores(tmp_path, files, message):
    with pytest.raises(InvalidData, match=message):
        lightrag.read(write(tmp_path, **files))


def test_absent(tmp_path):
    with pytest.raises(InvalidArgument, match=r"expected a working folder of LightRAG"):
        lightrag.read(tmp_path)


def test_real_christmas_carol():
    got = lightrag.read(real("lightrag_christmas_carol"))
    graph = built(got)
    assert counted(got) == {"Entity": 322, "DocumentChunk": 42, "Document": 1}
    assert got.edges["relation"].to_pylist().count("related to") == 359
    assert {v.name: v.vectors.shape for v in got.vectors} == {
        "Entity_description": (319, 1536), "EdgeType_relationship_name": (359, 1536), "DocumentChunk_text": (42, 1536),
    }  # fmt: skip
    assert got.report.problems == {}
    assert sorted(n for n in got.nodes["chunk_order_index"].to_pylist() if n is not None) == list(range(42))
    assert not any("<SEP>" in d for d in got.nodes["description"].to_pylist() if d)
    assert graph.num_edges == 359 + 486 + 42


def test_real_covid():
    got = lightrag.read(real("lightrag_v14_covid"))
    built(got)
    assert counted(got) == {"Entity": 710, "DocumentChunk": 68, "Document": 1}
    assert got.edges["relation"].to_pylist().count("related to") == 603
    assert got.vectors == ()
    assert got.report.version == "of 1.4"
