"""HippoRAG folders, written by hand to the layout of its own stores."""

import hashlib
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from tercet.errors import InvalidArgument, InvalidData
from tercet.formats import hipporag
from tests.engine.formats.importing import built, counted, row

DOCS = [
    {"idx": "chunk-1", "passage": "Radio City\nIndia's first.", "extracted_entities": ["Radio City", "", 7],
     "extracted_triples": [["Radio City", "located in", "India"], ["radio city!", "located  in", "INDIA"], ["x", "y"]]},
    {"idx": "chunk-2", "passage": "No title.", "extracted_entities": ["東京", "大阪"],
     "extracted_triples": [["Radio City", "Located in", "India"], ["a", " ", "b"]]},
]  # fmt: skip


def digest(kind, text):
    return f"{kind}-{hashlib.md5(text.encode()).hexdigest()}"


CITY, INDIA = digest("entity", "radio city"), digest("entity", "india")


def write(folder, docs=DOCS, stores=True):
    (folder / "openie_results_ner_gpt_4o.json").write_text(json.dumps({"docs": docs, "avg_ent_chars": 3}))
    if stores:
        fact = str(("radio city", "located in", "india"))
        for kind, ids in (("chunk", ["chunk-1", "chunk-2"]), ("entity", [CITY, "entity-stale"]),
                          ("fact", [digest("fact", fact)])):  # fmt: skip
            inner = folder / "gpt_4o_org_model" / f"{kind}_embeddings"
            inner.mkdir(parents=True)
            vectors = [np.arange(2.0, dtype=np.float32) + i for i in range(1, len(ids) + 1)]
            table = pa.table({"hash_id": ids, "content": ids, "embedding": vectors})
            pyarrow.parquet.write_table(table, inner / f"vdb_{kind}.parquet")
        (folder / "gpt_4o_org_model" / "graph.pickle").write_bytes(b"cos\nsystem\n(S'exit 1'\ntR.")
    return folder


def test_by_hand(tmp_path):
    got = hipporag.read(write(tmp_path))
    built(got)
    assert counted(got) == {"DocumentChunk": 2, "Entity": 4}
    assert row(got.nodes, id="chunk-1")["name"] == "Radio City"
    assert row(got.nodes, id="chunk-2")["name"] is None
    assert row(got.nodes, id=CITY)["name"] == "Radio City"
    assert row(got.nodes, id="name:東京")["name"] == "東京"
    facts = [e for e in got.edges.to_pylist() if e["relation"] != "mentioned in"]
    assert [(e["source"], e["relation"], e["target"], e["edge_text"], e["chunks"]) for e in facts] == [
        (CITY, "located in", INDIA, "Radio City located in India", ["chunk-1", "chunk-2"]),
        (CITY, "located  in", INDIA, "Radio City located  in India", ["chunk-1"]),
    ]
    assert {(e["source"], e["target"]) for e in got.edges.to_pylist() if e["relation"] == "mentioned in"} == {
        (CITY, "chunk-1"), (INDIA, "chunk-1"), (CITY, "chunk-2"), (INDIA, "chunk-2"),
        ("name:東京", "chunk-2"), ("name:大阪", "chunk-2"),
    }  # fmt: skip
    held = {v.name: (v.kind, v.owner.to_pylist(), v.vectors.tolist(), v.model) for v in got.vectors}
    assert held == {
        "DocumentChunk_text": ("node", ["chunk-1", "chunk-2"], [[1, 2], [2, 3]], "org_model"),
        "Entity_name": ("node", [CITY], [[1, 2]], "org_model"),
        "EdgeType_relationship_name": ("relation", ["Radio City located in India"], [[1, 2]], "org_model"),
    }
    file = "openie_results_ner_gpt_4o.json"
    assert got.report.problems == {
        "entity that is blank or no text; left out": (2, [f"{file}:1"] * 2),
        "triple that isn't of three parts; left out": (1, [f"{file}:1"]),
        "triple with a part that is blank or no text; left out": (1, [f"{file}:2"]),
        "vector of nothing in the results; left out": (1, ["vdb_entity.parquet:2"]),
    }
    assert got.report.tables[f"{file} triples"] == (5, 3)
    assert any("graph.pickle wasn't opened" in note for note in got.report.notes)


def test_the_inner_folder_is_the_same(tmp_path):
    whole = hipporag.read(write(tmp_path))
    inner = hipporag.read(tmp_path / "gpt_4o_org_model")
    assert inner.nodes.equals(whole.nodes)
    assert len(inner.vectors) == 3


@pytest.mark.parametrize(
    ("docs", "message"),
    [
        (DOCS[:1] * 2, r"openie_results_ner_gpt_4o.json:2: the passage id 'chunk-1' is there already, in \S+json:1"),
        ([{"idx": "c"}], r"json:1: expected an object with idx, passage"),
        ([DOCS[0], DOCS[1] | {"extracted_triples": {}}], r"json:2: extracted_triples: expected a list, got dict"),
        ([DOCS[0] | {"idx": 1}], r"json:1: expected idx and passage to be text"),
        ([DOCS[0] | {"passage": "\ud800"}], r"not valid Unicode"),
        ("none", r"expected an object with a list docs"),
    ],
)
def test_refuses(tmp_path, docs, message):
    with pytest.raises(InvalidData, match=message):
        hipporag.read(write(tmp_path, docs, stores=False))


def test_choices(tmp_path):
    with pytest.raises(InvalidArgument, match="expected a file openie_results"):
        hipporag.read(tmp_path)
    write(tmp_path)
    (tmp_path / "openie_results_ner_other.json").write_text('{"docs": []}')
    with pytest.raises(InvalidArgument, match=r"choose one by results=: \['openie_results_ner_gpt_4o.json', "):
        hipporag.read(tmp_path)
    assert hipporag.read(tmp_path, results="openie_results_ner_other.json").nodes.num_rows == 0
    (tmp_path / "gpt_4o_other" / "chunk_embeddings").mkdir(parents=True)
    with pytest.raises(InvalidArgument, match=r"choose one by store=: \['gpt_4o_org_model', 'gpt_4o_other'\]"):
        hipporag.read(tmp_path, results="openie_results_ner_gpt_4o.json")


def test_phrases_are_compared_as_hipporag_does():
    assert hipporag.phrase("Müller's  (CO2)") == "m ller s   co2"
