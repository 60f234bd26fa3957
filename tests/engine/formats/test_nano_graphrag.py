"""nano-graphrag folders: by hand and as the program wrote them."""

import json

import pytest

from tercet.errors import InvalidData
from tercet.formats import nano_graphrag
from tests.engine.formats.importing import built, counted, real, row
from tests.engine.formats.test_lightrag import vdb, write

CLUSTERS = json.dumps([{"level": 0, "cluster": 1}, {"level": 1, "cluster": 2}]).replace('"', "&quot;")
GRAPHML = f"""<graphml><key id="t" for="node" attr.name="entity_type" attr.type="string" />
<key id="c" for="node" attr.name="clusters" attr.type="string" />
<key id="d" for="all" attr.name="description" attr.type="string" />
<key id="s" for="all" attr.name="source_id" attr.type="string" /><graph edgedefault="undirected">
<node id="&quot;ANN&quot;"><data key="t">"PERSON"</data><data key="c">{CLUSTERS}</data>
<data key="d">"one"&lt;SEP&gt;"two"</data><data key="s">chunk-1</data></node>
<node id="ANN"><data key="t">"PERSON"</data></node><node id="&quot;&quot;" />
<edge source="&quot;ANN&quot;" target="ANN"><data key="d">"same"</data></edge></graph></graphml>"""
REPORTS = {
    "1": {"report_string": "# R", "report_json": {"title": "T", "summary": "S", "rating": "7.5", "findings": [1]},
          "level": 0, "title": "Cluster 1", "chunk_ids": ["chunk-1"], "occurrence": 1.0, "sub_communities": ["2", "5"]},
    "2": {"report_string": "# Q", "report_json": {"rating": "high"}, "level": 1, "title": "Cluster 2"},
}  # fmt: skip


def test_by_hand(tmp_path):
    files = {"kv_store_community_reports": REPORTS, "vdb_entities": vdb([{"entity_name": '"ANN"'}], [[1, 0]])}
    got = nano_graphrag.read(write(tmp_path, GRAPHML, **files))
    built(got)
    assert counted(got) == {"Entity": 3, "DocumentChunk": 1, "Document": 1, "Community": 2, "CommunityReport": 2}
    node = row(got.nodes, id='"ANN"')
    assert (node["name"], node["type"], node["description"]) == ("ANN", "PERSON", "one\ntwo")
    assert row(got.nodes, id="ANN")["name"] == "ANN"  # another node
    assert row(got.nodes, id='""')["name"] == '""'
    report = row(got.nodes, id="report:1")
    assert (report["name"], report["description"], report["text"], report["rank"]) == ("T", "S", "# R", 7.5)
    assert row(got.nodes, id="community:1")["chunks"] == ["chunk-1"]
    links = {(e["source"], e["relation"], e["target"]) for e in got.edges.to_pylist()}
    assert links == {
        ('"ANN"', "related to", "ANN"), ('"ANN"', "mentioned in", "chunk-1"), ("chunk-1", "part of", "doc-1"),
        ('"ANN"', "member of", "community:1"), ('"ANN"', "member of", "community:2"),
        ("community:2", "part of", "community:1"), ("report:1", "reports on", "community:1"),
        ("report:2", "reports on", "community:2"),
    }  # fmt: skip
    assert got.vectors[0].owner.to_pylist() == ['"ANN"']
    assert got.report.problems == {
        "sub-community that isn't there; no edge": (1, ["kv_store_community_reports.json '1'"]),
        "rating that isn't a number; left out": (1, ["kv_store_community_reports.json '2'"]),
    }


def test_refuses(tmp_path):
    with pytest.raises(InvalidData, match=r"graph_chunk_entity_relation.graphml line 5: clusters: expected a list"):
        nano_graphrag.read(write(tmp_path, GRAPHML.replace("cluster&quot;", "group&quot;")))
    with pytest.raises(InvalidData, match=r"entry 1 \('1'\): report_json: expected an object, got str"):
        nano_graphrag.read(write(tmp_path, GRAPHML, kv_store_community_reports={"1": {"report_json": "x"}}))


def test_real():
    got = nano_graphrag.read(real("nano_graphrag_christmas_carol"))
    built(got)
    assert counted(got) == {"Entity": 374, "DocumentChunk": 42, "Document": 1, "Community": 32, "CommunityReport": 32}
    assert got.edges["relation"].to_pylist().count("related to") == 186
    assert [(v.name, v.vectors.shape) for v in got.vectors] == [("Entity_description", (358, 1536))]
    assert got.report.problems == {}
    assert "374 of 374 names are in double quotes; `name` goes without them" in got.report.notes
    entities = [n for n in got.nodes.to_pylist() if n["labels"][0] == "Entity"]
    assert all(n["id"] == f'"{n["name"]}"' for n in entities)
