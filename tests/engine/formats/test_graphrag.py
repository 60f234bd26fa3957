"""Microsoft GraphRAG folders: both schemas, by hand and as the program wrote them."""

import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from tercet.errors import InvalidArgument, InvalidData, MissingDependency
from tercet.formats import graphrag
from tests.engine.formats.importing import built, counted, real, row

ENTITIES = {
    "id": ["e1", "e2", "e3"], "title": ["ALICE", "BOB", "ALICE"], "type": ["PERSON", "", "PLACE"],
    "description": ["a", None, "c"], "text_unit_ids": [["t1"], ["t1", "gone"], []], "degree": [1, 2, 0],
}  # fmt: skip
RELATIONSHIPS = {
    "id": ["r1", "r2"], "source": ["ALICE", "NOBODY"], "target": ["BOB", "BOB"], "description": ["knows", ""],
    "weight": [2.5, 1.0], "text_unit_ids": [["t1"], []],
}  # fmt: skip
UNITS = {
    "id": ["t1"],
    "text": ["Alice knows Bob."],
    "document_id": ["d1"],
    "covariate_ids": [[]],
    "human_readable_id": [0],
}
DOCUMENTS = {"id": ["d1"], "title": ["doc.txt"], "text": ["Alice knows Bob."], "raw_data": [None]}
COMMUNITIES = {
    "id": ["c0", "c1"], "community": [0, 1], "level": [0, 1], "parent": [-1, 0], "title": ["C0", "C1"],
    "entity_ids": [["e1", "e2"], ["e1"]],
}  # fmt: skip
REPORTS = {
    "id": ["h", "h"], "community": [0, 1], "level": [0, 1], "title": ["R", "R"], "summary": ["s", "s"],
    "full_content": ["full", "full"], "rank": [1.0, 2.0], "findings": [[{"summary": "x", "explanation": "y"}], []],
}  # fmt: skip
COVARIATES = {
    "id": ["v1"], "covariate_type": ["claim"], "type": ["CRIME"], "description": ["did it"], "subject_id": ["BOB"],
    "object_id": ["NONE"], "text_unit_id": ["t1"],
}  # fmt: skip
ALL = {
    "entities": ENTITIES, "relationships": RELATIONSHIPS, "text_units": UNITS, "documents": DOCUMENTS,
    "communities": COMMUNITIES, "community_reports": REPORTS, "covariates": COVARIATES,
}  # fmt: skip


def write(folder, tables=ALL, front="", **changes):
    for name, columns in {**tables, **changes}.items():
        pyarrow.parquet.write_table(pa.table(columns), folder / f"{front}{name}.parquet")
    return folder


def test_by_hand(tmp_path):
    got = graphrag.read(write(tmp_path))
    built(got)
    assert counted(got) == {
        "Entity": 4, "DocumentChunk": 1, "Document": 1, "Community": 2, "CommunityReport": 2, "Covariate": 1,
    }  # fmt: skip
    assert row(got.nodes, id="title:NOBODY")["name"] == "NOBODY"
    assert row(got.nodes, id="e1")["labels"] == ["Entity", "PERSON"]
    assert row(got.nodes, id="e2")["type"] == "Entity"
    assert row(got.nodes, id="h:1")["report_id"] == "h"
    assert row(got.nodes, id="h")["findings"] == '[{"summary": "x", "explanation": "y"}]'
    assert {(e["source"], e["relation"], e["target"]) for e in got.edges.to_pylist()} == {
        ("e1", "related to", "e2"), ("title:NOBODY", "related to", "e2"), ("e1", "mentioned in", "t1"),
        ("e2", "mentioned in", "t1"), ("t1", "part of", "d1"), ("c1", "part of", "c0"), ("e1", "member of", "c0"),
        ("e2", "member of", "c0"), ("e1", "member of", "c1"), ("h", "reports on", "c0"), ("h:1", "reports on", "c1"),
        ("v1", "about", "e2"), ("v1", "mentioned in", "t1"),
    }  # fmt: skip
    assert row(got.edges, id="r1")["chunks"] == ["t1"]
    assert got.report.problems == {
        "title of several entities; edges that name it go to the first": (1, ["entities.parquet:3"]),
        "text_unit_ids that names no row of text_units.parquet; no edge": (1, ["entities.parquet:2"]),
        "end of a relationship that no entity has the title of; made a node": (1, ["relationships.parquet:2"]),
        "report id that serves another community, too; made another id": (1, ["community_reports.parquet:2"]),
    }


def test_vectors_of_every_kind(tmp_path):
    write(tmp_path, entities=ENTITIES | {"description_embedding": [[1.0, 0.0], None, [0.0, 2.0]]})
    table = {"id": ["r1", "r2", "r9"], "embedding": [[1.0], [2.0], [3.0]]}
    pyarrow.parquet.write_table(pa.table(table), tmp_path / "embeddings.relationship.description.parquet")
    table = {"id": ["h"], "vector": [[1.0]]}
    pyarrow.parquet.write_table(pa.table(table), tmp_path / "embeddings.community_full_content.parquet")
    got = graphrag.read(tmp_path, model="m")
    built(got)
    held = {v.name: v for v in got.vectors}
    assert list(held) == ["Entity_description", "CommunityReport_text", "EdgeType_relationship_name"]
    assert held["Entity_description"].owner.to_pylist() == ["e1", "e3"]
    np.testing.assert_array_equal(held["Entity_description"].vectors, np.array([[1, 0], [0, 2]], np.float32))
    assert held["EdgeType_relationship_name"].kind == "relation"
    assert held["EdgeType_relationship_name"].owner.to_pylist() == ["knows"]
    assert {v.model for v in got.vectors} == {"m"}
    assert got.report.problems["vector of no row of its table; left out"][0] == 2
    assert got.report.problems["row without a vector"] == (1, ["entities.parquet:2"])


def test_old_schema(tmp_path):
    tables = {
        "entities": {"id": ["e1", "e2"], "name": ["A", "B"], "type": ["X", "X"], "description": ["a", "b"],
                     "human_readable_id": [0, 1], "graph_embedding": [None, None]},
        "nodes": {"id": ["e1", "e2", "e1"], "level": [0, 0, 1], "community": ["7", None, "8"], "degree": [3, 4, 3]},
        "communities": {"id": ["7", "8"], "title": ["c7", "c8"], "level": [0, 1], "text_unit_ids": [["t1,t2"], []]},
        "relationships": {"id": ["r"], "source": ["A"], "target": ["B"], "human_readable_id": ["0"]},
        "community_reports": {"id": ["p"], "community": ["8"], "full_content": ["f"]},
    }  # fmt: skip
    got = graphrag.read(write(tmp_path, tables, "create_final_"))
    built(got)
    assert row(got.nodes, id="community:7")["chunks"] == ["t1", "t2"]
    assert [n["degree"] for n in got.nodes.to_pylist()[:2]] == [3, 4]
    edges = {(e["source"], e["relation"], e["target"]) for e in got.edges.to_pylist()}
    assert edges == {
        ("e1", "related to", "e2"), ("e1", "member of", "community:7"), ("e1", "member of", "community:8"),
        ("p", "reports on", "community:8"),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"entities": ENTITIES | {"id": ["e1", "e2", "e1"]}}, r"'e1' in entities.parquet:1 and entities.parquet:3"),
        ({"entities": ENTITIES | {"id": ["e1", None, "e3"]}}, r"entities.parquet:2: no id"),
        ({"text_units": UNITS | {"id": ["e1"]}}, r"'e1' in entities.parquet:1 and text_units.parquet:1"),
        ({"relationships": RELATIONSHIPS | {"source": [None, "BOB"]}}, r"relationships.parquet:1: no source"),
        ({"relationships": {"id": ["r"]}}, r"relationships.parquet: expected the columns source, target, got \['id'\]"),
        (
            {"entities": ENTITIES | {"description_embedding": [[1.0], [1.0, 2.0], None]}},
            r"entities.parquet:2: a vector of 2",
        ),
    ],
)
def test_refuses(tmp_path, changes, message):
    with pytest.raises(InvalidData, match=message):
        graphrag.read(write(tmp_path, **changes))


def test_damaged_and_absent(tmp_path):
    with pytest.raises(InvalidArgument, match=r"expected entities\.parquet"):
        graphrag.read(tmp_path)
    (tmp_path / "entities.parquet").write_bytes(b"PAR1 cut")
    with pytest.raises(InvalidData, match=r"entities\.parquet: not a readable Parquet file"):
        graphrag.read(tmp_path)


def test_lance_tables_need_lancedb(tmp_path, monkeypatch):
    (tmp_path / "lancedb" / "default-entity-description.lance").mkdir(parents=True)
    monkeypatch.setitem(sys.modules, "lancedb", None)
    with pytest.raises(MissingDependency, match="pip install lancedb"):
        graphrag.read(write(tmp_path))


def test_lance_tables(tmp_path):
    lancedb = pytest.importorskip("lancedb", reason="lancedb isn't installed")
    write(tmp_path)
    table = pa.table({"id": ["e2", "e1"], "vector": pa.array([[1.0, 0], [0, 1.0]], pa.list_(pa.float32(), 2))})
    lancedb.connect(str(tmp_path / "lancedb")).create_table("default-entity-description", table)
    (got,) = graphrag.read(tmp_path).vectors
    assert (got.name, got.owner.to_pylist(), got.vectors.tolist()) == (
        "Entity_description",
        ["e2", "e1"],
        [[1, 0], [0, 1]],
    )


REAL = {  # entities with made ones, chunks, documents, communities and reports, covariates; edges; dangling; vectors
    "ms_graphrag_dulce_v3": (41, 5, 1, 10, 41, 107, 2, {"CommunityReport_text": (10, 3072)}),
    "ms_graphrag_verbs_v3": (561, 42, 1, 122, 406, 978, 84, {}),
    "ms_graphrag_vectors": (0, 42, 0, 0, 0, 0, 0, {"DocumentChunk_text": (42, 3072)}),
    "ms_graphrag_dulce_v0": (89, 50, 0, 20, 156, 373, 0, {"Entity_description": (89, 1536)}),
    "ms_graphrag_sengoku_ja": (2811, 216, 3, 366, 0, 2951, 210, {}),
}


@pytest.mark.parametrize("name", REAL)
def test_real(name):
    got = graphrag.read(real(name))
    graph = built(got)
    entities, chunks, documents, communities, covariates, edges, dangling, vectors = REAL[name]
    kinds = counted(got)
    assert (kinds["Entity"], kinds["DocumentChunk"], kinds["Document"]) == (entities, chunks, documents)
    assert (kinds["Community"], kinds["CommunityReport"], kinds["Covariate"]) == (communities, communities, covariates)
    assert got.edges["relation"].to_pylist().count("related to") == edges
    made = "end of a relationship that no entity has the title of; made a node"
    assert got.report.problems.get(made, (0,))[0] == dangling
    assert {v.name: v.vectors.shape for v in got.vectors} == vectors
    assert graph.num_nodes == got.nodes.num_rows
