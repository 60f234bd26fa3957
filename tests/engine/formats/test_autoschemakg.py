"""AutoSchemaKG folders: by hand and as the program wrote them."""

import pytest

from tercet.errors import InvalidArgument, InvalidData
from tercet.formats import autoschemakg
from tests.engine.formats.importing import built, counted, real, row

FILES = {
    "triples_csv/triple_nodes_x_from_json_without_emb.csv":
        "name:ID,type,concepts,synsets,:LABEL\nAnn,entity,\"['woman', 'it\\'s']\",[],Node\nran,event,[],[],Node\n",
    "triples_csv/triple_edges_x_from_json_without_emb.csv":
        ":START_ID,:END_ID,relation,concepts,synsets,:TYPE\nAnn,ran,did,[],[],Relation\n",
    "concept_csv/triple_edges_x_from_json_with_concept.csv":
        '":START_ID",":END_ID","relation","concepts","synsets",":TYPE"\n"Ann","ran","did","[\'acted\']","[]","Relation"\n'
        '"Ann","gone","saw","[]","[]","Relation"\n',
    "triples_csv/text_nodes_x_from_json.csv": 'text_id:ID,original_text,:LABEL\nt1,"Ann\n\n""ran"", fast.",Text\n',
    "triples_csv/text_edges_x_from_json.csv": ":START_ID,:END_ID,:TYPE\nAnn,t1,Source\n",
    "concept_csv/concept_nodes_x_from_json_with_concept.csv": 'concept_id:ID,name,:LABEL\nc1,woman,Concept\n',
    "concept_csv/concept_edges_x_from_json_with_concept.csv":
        ":START_ID,:END_ID,relation,:TYPE\nAnn,c1,has_concept,Concept\n",
}  # fmt: skip
NODES, EDGES, CONCEPT_EDGES = list(FILES)[:3]


def write(folder, changes=None):
    for name, text in {**FILES, **(changes or {})}.items():
        if text is not None:
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8")
    return folder


def test_by_hand(tmp_path):
    got = autoschemakg.read(write(tmp_path))
    built(got)
    assert counted(got) == {"Entity": 3, "DocumentChunk": 1, "Concept": 1}
    assert row(got.nodes, id="Ann")["concepts"] == ["woman", "it's"]
    assert row(got.nodes, id="ran")["type"] == "event"
    assert row(got.nodes, id="t1")["text"] == 'Ann\n\n"ran", fast.'
    assert [(e["source"], e["relation"], e["target"]) for e in got.edges.to_pylist()] == [
        ("Ann", "did", "ran"), ("Ann", "saw", "gone"), ("Ann", "mentioned in", "t1"), ("Ann", "has_concept", "c1"),
    ]  # fmt: skip
    assert got.edges["concepts"].to_pylist() == [["acted"], [], None, None]
    place = ["triple_edges_x_from_json_with_concept.csv:2"]
    assert got.report.problems == {"end of an edge that no file describes; made a node": (1, place)}


def test_vectors(tmp_path):
    changes = {
        "triples_csv/triple_nodes_x_from_json_with_emb.csv":
            'name:ID,type,embedding:STRING,:LABEL\nAnn,entity,"[1.0, 2e0]",Node\nran,event,,Node\n',
        "triples_csv/triple_edges_x_from_json_with_emb.csv":
            ':START_ID,:END_ID,relation,embedding:STRING,:TYPE\nAnn,ran,did,"[3, 4]",Relation\n',
    }  # fmt: skip
    got = autoschemakg.read(write(tmp_path, changes), model="m")
    built(got)
    held = {v.name: (v.owner.to_pylist(), v.vectors.tolist(), v.model) for v in got.vectors}
    assert held == {
        "Entity_name": (["Ann"], [[1, 2]], "m"), "EdgeType_relationship_name": (["Ann did ran"], [[3, 4]], "m"),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            NODES,
            "name:ID,type,:LABEL\nAnn,entity,Node\nAnn,event,Node\n",
            r"'Ann' in triple_nodes\S+csv:1 and \S+csv:2",
        ),
        (NODES, "name,type\nAnn,entity\n", r"triple_nodes\S+csv: expected one column <name>:ID"),
        (NODES, "name:ID,type\nAnn\n", r"triple_nodes\S+csv: .*Expected 2 columns, got 1"),
        (NODES, "", r"expected a header line"),
        (NODES, 'name:ID,type\nAnn,"enti', r"triple_nodes\S+csv: the last field in quotes isn't closed"),
        (NODES, "name:ID,concepts\nAnn,nothing(\n", r"triple_nodes\S+csv:1: expected a list of texts, got 'nothing\('"),
        (CONCEPT_EDGES, ":START_ID,:END_ID,relation\n,ran,did\n", r"with_concept.csv:1: :START_ID is empty"),
        (CONCEPT_EDGES, ":START_ID,:END_ID\nAnn,ran\n", r"with_concept.csv: expected a column relation"),
    ],
)
def test_refuses(tmp_path, name, text, message):
    with pytest.raises(InvalidData, match=message):
        autoschemakg.read(write(tmp_path, {name: text}))


def test_absent(tmp_path):
    with pytest.raises(InvalidArgument, match=r"expected triples_csv/triple_nodes"):
        autoschemakg.read(tmp_path)


def test_real():
    got = autoschemakg.read(real("autoschemakg_dulce"))
    graph = built(got)
    assert counted(got) == {"Entity": 349, "DocumentChunk": 8, "Concept": 717}
    relations = got.edges["relation"].to_pylist()
    assert (len(relations), relations.count("mentioned in"), relations.count("has_concept")) == (2290, 349, 1521)
    assert got.report.problems == {}
    assert graph.num_edges == 418 + 349 + 1513  # without those given twice
    assert all("\n" in t for t in got.nodes["text"].to_pylist() if t)
