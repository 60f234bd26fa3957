"""RDF files: what becomes a node, a property, a label, an edge."""

import gzip

import pytest

from tercet.errors import InvalidArgument, InvalidData
from tercet.node import nodes_of
from tests.engine.formats.random_graphs import SHARED, graph_of, needs_files

pytest.importorskip("pyoxigraph", reason="pyoxigraph isn't installed")
from tercet.formats import rdf

TURTLE = """@prefix : <http://x.org/> . @prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix skos: <http://www.w3.org/2004/02/skos/core#> . @prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
:ada a :Person, :Writer ; rdfs:label "Ada"@en, "Adele"@de-AT, "A." ; skos:prefLabel "ignored" ;
  rdfs:comment "First." ; :age 36 ; :height 1.65 ; :alive false ; :born "1815-12-10"^^xsd:date ;
  :score 1, 2, "three" ; :bad "x"^^xsd:integer ; :other "p" ; <http://y.org/other> "q" ;
  :knows [ rdfs:label "nobody" ], _:z ; :says "line\\nbreak \\"quoted\\" \\u00e9" .
_:z :knows :ada . :ada :knows :Babbage .
"""


def written(tmp_path, text, name):
    data = text.encode()
    (tmp_path / name).write_bytes(gzip.compress(data, mtime=0) if name.endswith(".gz") else data)
    return tmp_path / name


@pytest.mark.parametrize("name", ["g.ttl", "g.ttl.gz", "g.trig"])
def test_by_hand(tmp_path, name):
    got = rdf.read(written(tmp_path, TURTLE, name))
    graph = graph_of(got)
    nodes = {node.id: node for node in nodes_of(graph, range(graph.num_nodes))}
    blank = sorted(i for i in nodes if i.startswith("_:"))
    assert blank == [f"_:{name}:b1", f"_:{name}:b2"]
    assert sorted(nodes) == sorted([*blank, "http://x.org/ada", "http://x.org/Babbage"])
    ada = nodes["http://x.org/ada"]
    assert ada.labels == ("Person", "Writer")
    assert ada.uri == ada.id
    assert nodes[blank[0]].uri is None
    assert ada.properties == {
        "name": "Ada", "type": "Person", "description": "First.",
        "types": ["http://x.org/Person", "http://x.org/Writer"],
        "label": {"en": "Ada", "de-at": "Adele", "und": "A."}, "prefLabel": "ignored", "age": 36, "height": 1.65,
        "alive": False, "born": "1815-12-10", "score": [1, 2, "three"], "bad": "x", "http://x.org/other": "p",
        "http://y.org/other": "q", "says": 'line\nbreak "quoted" é',
    }  # fmt: skip
    assert {nodes[i].properties.get("name") for i in blank} == {"nobody", None}
    assert set(got.edges["relation"].to_pylist()) == {"knows"}
    assert set(got.edges["predicate"].to_pylist()) == {"http://x.org/knows"}
    assert graph.num_edges == 4
    assert [kind for kind in got.report.problems] == ["literal that is no integer (kept as text)"]


@pytest.mark.parametrize(("language", "name"), [("en", "Ada"), ("de", "Adele"), ("fr", "A.")])
def test_language_of_names(tmp_path, language, name):
    got = rdf.read(written(tmp_path, TURTLE, "g.ttl"), language=language)
    assert got.nodes["name"].to_pylist()[0] == name


def test_named_graphs_and_several_files(tmp_path):
    one = written(tmp_path, "_:a <x:knows> <x:b> <x:g> .\n_:a <x:knows> <x:b> .\n", "one.nq")
    two = written(tmp_path, "_:a <x:knows> <x:b> .\n", "two.nt")
    got = rdf.read([one, two])
    assert got.nodes["id"].to_pylist() == ["_:one.nq:b1", "x:b", "_:two.nt:b1"]
    assert got.edges["graph"].to_pylist() == ["x:g", None, None]
    assert got.report.tables == {"one.nq": (2, 2), "two.nt": (1, 1)}


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("g.nt", '<a:a> <a:b> "x" .\n<a:a> <a:b\n', r"g\.nt:2: "),
        ("g.nt", '<a:a> <a:b> "\\uD800" .\n', r"g\.nt:1: .*D800"),
        ("g.ttl", "@prefix : <a:> .\n:a :b :c\n:d :e :f .\n", r"g\.ttl:\d: "),
        ("g.ttl", "a:b a:c a:d .", r"g\.ttl:1: .*prefix"),
    ],
)
def test_refusals_name_the_line(tmp_path, name, text, message):
    with pytest.raises(InvalidData, match=message):
        rdf.read(written(tmp_path, text, name))


def test_wrong_calls(tmp_path):
    with pytest.raises(InvalidArgument, match="no such file"):
        rdf.read(tmp_path / "absent.nt")
    with pytest.raises(InvalidArgument, match=r"expected a file ending in \.nt"):
        rdf.read(written(tmp_path, "", "g.rdf"))
    (tmp_path / "g.nt.gz").write_bytes(b"no gzip")
    with pytest.raises(InvalidData, match="damaged gzip"):
        rdf.read(tmp_path / "g.nt.gz")


@needs_files
def test_schema_org():
    got = rdf.read(SHARED / "schemaorg_ntriples" / "schemaorg-current-https.nt.gz")
    assert got.report.tables == {"schemaorg-current-https.nt.gz": (17_949, 17_949)}  # and one blank line
    assert got.nodes.num_rows - got.nodes["name"].null_count == 2_987
    assert got.nodes.num_rows - got.nodes["description"].null_count == 2_987
    graph = graph_of(got)
    person = nodes_of(graph, [graph.row("https://schema.org/Person")])[0]
    assert person.labels == ("Class",)
    assert person.properties["description"] == "A person (alive, dead, undead, or fictional)."
    assert (graph.num_nodes, graph.num_edges, len(graph.relation_names)) == (3_471, 8_748, 16)
    tagged = nodes_of(graph, [graph.row("https://schema.org/archiveHeld")])[0].properties
    assert tagged["comment"] == {"en": tagged["description"]}
