"""CSV files of Neo4j's bulk import: headers, types, id spaces, groups of files, and the way back."""

import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tercet.errors import InvalidArgument, InvalidData
from tercet.formats import neo4j_csv
from tercet.formats.export import to_neo4j_csv
from tercet.graph import Graph
from tercet.node import nodes_of
from tests.engine.formats.random_graphs import SHARED, TEXT, facts, graph_of, graphs, needs_files, round_trips

MOVIES = (
    "movieId:ID(Film),title,year:int,:LABEL,cast:string[],ratings:float[],seen:boolean,secret:IGNORE\n"
    '1,"The ""Matrix""",1999,Movie;SciFi,Neo;Trinity,8.5;9,true,x\n'
    '2,"two\nlines",,Movie,"",,FALSE,y\n'
)
PEOPLE = "name:ID(Person),born:date,:LABEL\n1,1964-09-02,Person\nCarrie,,\n"
ROLES = ':START_ID(Person),:END_ID(Film),:TYPE,since:long\n1,1,ACTED_IN,1999\nCarrie,1,"",\n'


def folder_of(tmp_path, **files):
    for name, text in files.items():
        (tmp_path / f"{name}.csv").write_text(text, encoding="utf-8")
    return tmp_path


@round_trips
@given(graphs(TEXT, relations=TEXT.filter(bool), ids=TEXT.filter(bool)))
def test_there_and_back(tmp_path_factory, graph):
    folder = tmp_path_factory.mktemp("neo4j")
    to_neo4j_csv(graph, folder)
    assert facts(graph_of(neo4j_csv.read(folder))) == facts(graph)


@round_trips
@given(st.lists(st.lists(st.text(';|\x1f",\n', min_size=1, max_size=3), max_size=3), min_size=1, max_size=4))
def test_array_delimiter_is_one_that_no_text_holds(tmp_path_factory, lists):
    nodes = {"id": [str(i) for i in range(len(lists))], "labels": lists, "words": lists}
    graph = Graph.from_tables(nodes, {"source": [], "target": [], "relation": []})
    folder = tmp_path_factory.mktemp("neo4j")
    to_neo4j_csv(graph, folder)
    assert facts(graph_of(neo4j_csv.read(folder))) == facts(graph)


def test_files_by_hand(tmp_path):
    graph = Graph.from_tables(
        {"id": ["b", "a"], "labels": [["X", "Y"], None], "name": ['say "hi"', ""], "tags": [["p", "q"], []]},
        {"source": ["a"], "target": ["b"], "relation": ["R S"], "weight": [float("inf")]},
    )
    report = to_neo4j_csv(graph, tmp_path / "out")
    texts = {file.name: file.read_text() for file in (tmp_path / "out").iterdir()}
    assert texts == {
        "nodes-header.csv": ":ID,:LABEL,importance_weight:double,feedback_weight:double,name:string,type:string,"
        "text:string,description:string,tags:string[]\n",
        "nodes.csv": '"a",,"0.5","0.5","",,,,""\n"b","X;Y","0.5","0.5","say ""hi""",,,,"p;q"\n',
        "relationships-header.csv": ":START_ID,:END_ID,:TYPE,importance_weight:double,feedback_weight:double,"
        "edge_text:string,weight:double\n",
        "relationships.csv": '"a","b","R S","0.5","0.5",,"Infinity"\n',
        "import.args": "--nodes=nodes-header.csv,nodes.csv\n"
        "--relationships=relationships-header.csv,relationships.csv\n"
        '--delimiter=","\n--array-delimiter=";"\n--multiline-fields=true\n',
    }
    assert report.tables == {"nodes": (2, 2), "relationships": (1, 1)}


def test_export_refusals(tmp_path):
    edges = {"source": ["a"], "target": ["a"], "relation": [None]}
    graph = Graph.from_tables({"id": ["a"]}, edges)
    with pytest.raises(InvalidData, match="edges row 0: no relation, which Neo4j needs"):
        to_neo4j_csv(graph, tmp_path / "out")
    report = to_neo4j_csv(graph, tmp_path / "out", untyped="RELATED")
    assert report.problems == {"edge without a relation, written as RELATED": (1, ["edges row 0"])}
    assert neo4j_csv.read(tmp_path / "out").edges["relation"].to_pylist() == ["RELATED"]
    with pytest.raises(InvalidArgument, match="expected a new or an empty folder"):
        to_neo4j_csv(graph, tmp_path / "out", untyped="RELATED")
    every = Graph.from_tables({"id": ["a"], "labels": [[";|\x1f\x1e\x1d\x1c"]]}, {**edges, "relation": ["r"]})
    with pytest.raises(InvalidData, match="contain every array delimiter"):
        to_neo4j_csv(every, tmp_path / "new")
    empty = Graph.from_tables({"id": [""]}, {"source": [], "target": [], "relation": []})
    with pytest.raises(InvalidData, match="nodes row 0: Neo4j has no empty ids"):
        to_neo4j_csv(empty, tmp_path / "new")


def test_types_and_id_spaces(tmp_path):
    got = neo4j_csv.read(folder_of(tmp_path, movies=MOVIES, people=PEOPLE, roles=ROLES, other="a,b\n1,2\n"))
    assert {name: values for name, values in got.nodes.to_pydict().items() if name != "cast"} == {
        "id": ["Film:1", "Film:2", "Person:1", "Person:Carrie"],
        "labels": [["Movie", "SciFi"], ["Movie"], ["Person"], []],
        "movieId": ["1", "2", None, None],
        "name": ['The "Matrix"', "two\nlines", "1", "Carrie"],
        "year": [1999, None, None, None],
        "ratings": [[8.5, 9.0], None, None, None],
        "seen": [True, False, None, None],
        "born": [None, None, "1964-09-02", None],
    }
    assert got.nodes["cast"].to_pylist() == [["Neo", "Trinity"], [], None, None]
    assert got.edges.to_pydict() == {
        "source": ["Person:1", "Person:Carrie"], "target": ["Film:1"] * 2, "relation": ["ACTED_IN", ""],
        "since": [1999, None],
    }  # fmt: skip
    assert got.report.notes == ["other.csv: no column of type :ID or :START_ID, left out"]
    assert graph_of(got).num_edges == 2


def test_headers_apart_and_many_files(tmp_path):
    folder_of(tmp_path, **{"people-header": "id:ID|name|tags:string[]|:LABEL", "people-1": "a|A|x,y|P,Q\n",
                           "knows_header": ":START_ID|:END_ID|note"})  # fmt: skip
    (tmp_path / "people-2.csv.gz").write_bytes(gzip.compress(b"b|B||\n"))
    (tmp_path / "knows_1.csv").write_text("a|b|'it | is'\n")
    got = neo4j_csv.read(tmp_path, delimiter="|", array_delimiter=",", quote="'")
    assert got.nodes.to_pydict() == {
        "id": ["a", "b"], "labels": [["P", "Q"], []], "name": ["A", "B"], "tags": [["x", "y"], None],
    }  # fmt: skip
    assert got.edges.to_pydict() == {"source": ["a"], "target": ["b"], "relation": [None], "note": ["it | is"]}
    assert got.report.problems == {"edge without a relation (kept)": (1, ["knows_1.csv:1"])}


def test_arguments_of_an_import(tmp_path):
    folder_of(tmp_path, h=":ID\tn:int", p="1\t5\n", q="2\t6\n", e=":START_ID\t:END_ID\n1\t2\n")
    (tmp_path / "import.args").write_text(
        "# options\n--nodes=Person:Human=h.csv,p.csv\n--nodes=Dog=h.csv,q.csv --relationships=OWNS=e.csv\n"
        "--delimiter=TAB\n--array-delimiter=U+007C\n"
    )
    got = neo4j_csv.read(tmp_path)
    assert got.nodes["labels"].to_pylist() == [["Person", "Human"], ["Dog"]]
    assert got.nodes["n"].to_pylist() == [5, 6]
    assert got.edges.to_pydict() == {"source": ["1"], "target": ["2"], "relation": ["OWNS"]}
    (tmp_path / "import.args").write_text("nodes h.csv\n")
    with pytest.raises(InvalidData, match=r"import\.args:1: expected --option=value, got 'nodes'"):
        neo4j_csv.read(tmp_path)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("1999,Movie", "MCM,Movie", r"movies\.csv:1: year:int: not a value of this type: 'MCM'"),
        ("8.5;9", "8.5;good", r"movies\.csv:1: ratings:float\[\]: not a value of this type: 'good'"),
        (",FALSE", ",perhaps", r"movies\.csv:2: seen:boolean: not a value of this type: 'perhaps'"),
        ("\n2,", "\n1,", r"movies\.csv:2: the node id 'Film:1' is there already, in movies\.csv:1"),
        ("\n2,", "\n,", r"movies\.csv:2: the :ID is missing"),
        ("year:int", "year:number", r"movies\.csv: header: expected <name>:<type>.* got 'year:number'"),
        ("title,year", "year,year", r"movies\.csv: header: a column is there twice"),
        (",x\n", "\n", r"movies\.csv: CSV parse error: .*Expected 8 columns, got 7"),
        (":ID(Film),title", ":ID(Film),:START_ID", r"movies\.csv: header: expected :ID, or :START_ID"),
    ],
)
def test_refusals_name_file_and_row(tmp_path, old, new, message):
    assert old in MOVIES
    with pytest.raises(InvalidData, match=message):
        neo4j_csv.read(folder_of(tmp_path, movies=MOVIES.replace(old, new, 1), people=PEOPLE, roles=ROLES))


def test_ends_that_are_no_nodes(tmp_path):
    folder = folder_of(tmp_path, n=":ID\na\n", e=":START_ID,:END_ID,:TYPE,k\na,a,R,1\na,x,R,2\ny,x,R,3\na,a,S,4\n")
    with pytest.raises(InvalidData, match=r"e\.csv:2: the end 'x' is no node, and so are the ends of 2 others"):
        neo4j_csv.read(folder)
    added = neo4j_csv.read(folder, ends="add")
    assert added.nodes["id"].to_pylist() == ["a", "x", "y"]
    assert added.edges.num_rows == 4
    assert added.report.problems == {
        "end of a relationship that is no node, added": (3, ["e.csv:2", "e.csv:3", "e.csv:3"])
    }
    skipped = neo4j_csv.read(folder, ends="skip")
    assert skipped.edges["k"].to_pylist() == ["1", "4"]
    assert skipped.report.tables["relationships"] == (4, 2)
    assert skipped.report.problems == {"relationship whose end is no node, left out": (2, ["e.csv:2", "e.csv:3"])}
    assert [graph_of(got).num_nodes for got in (added, skipped)] == [3, 1]


def test_relation_from_a_property(tmp_path):
    folder = folder_of(tmp_path, n=":ID\na\n", e=":START_ID,:END_ID,:TYPE,relation\na,a,Relation,was\n")
    plain = graph_of(neo4j_csv.read(folder))
    assert plain.relation_names.to_pylist() == ["Relation"]
    named = neo4j_csv.read(folder, relation="relation")
    assert named.edges.to_pydict() == {"source": ["a"], "target": ["a"], "relation": ["was"], "type": ["Relation"]}
    with pytest.raises(InvalidArgument, match="has no property 'verb'"):
        neo4j_csv.read(folder, relation="verb")


def test_wrong_calls(tmp_path):
    with pytest.raises(InvalidArgument, match="expected a folder"):
        neo4j_csv.read(tmp_path / "absent")
    with pytest.raises(InvalidArgument, match="expected a CSV file whose header has a column of type :ID"):
        neo4j_csv.read(tmp_path)
    with pytest.raises(InvalidArgument, match="ends: expected"):
        neo4j_csv.read(tmp_path, ends="drop")
    with pytest.raises(InvalidArgument, match="no such file"):
        neo4j_csv.read(tmp_path, nodes=["absent.csv"])
    with pytest.raises(InvalidArgument, match="delimiter: expected one character, got 'ab'"):
        neo4j_csv.read(folder_of(tmp_path, n=":ID\na\n"), delimiter="ab")


@needs_files
def test_files_of_autoschemakg(tmp_path):
    got = neo4j_csv.read(
        SHARED / "autoschemakg_dulce",
        nodes=[
            "triples_csv/triple_nodes_Dulce_from_json_without_emb.csv",
            "triples_csv/text_nodes_Dulce_from_json.csv",
            "concept_csv/concept_nodes_Dulce_from_json_with_concept.csv",
        ],
        relationships=[
            "triples_csv/triple_edges_Dulce_from_json_without_emb.csv",
            "triples_csv/text_edges_Dulce_from_json.csv",
        ],
    )
    assert got.nodes.num_rows == 349 + 8 + 717
    assert got.edges.num_rows == 420 + 349
    graph = graph_of(got)
    assert {label for node in nodes_of(graph, range(graph.num_nodes)) for label in node.labels} == {
        "Node", "Text", "Concept",
    }  # fmt: skip
    texts = [text for text in got.nodes["original_text"].to_pylist() if text is not None]
    assert len(texts) == 8
    assert sum("\n" in text for text in texts) == 8
    concepts = neo4j_csv.read(
        SHARED / "autoschemakg_dulce" / "concept_csv",
        nodes=[
            "../triples_csv/triple_nodes_Dulce_from_json_without_emb.csv",
            "concept_nodes_Dulce_from_json_with_concept.csv",
        ],
        relationships=["concept_edges_Dulce_from_json_with_concept.csv"],
        relation="relation",
    )
    assert concepts.edges["relation"].to_pylist() == ["has_concept"] * 1521
    to_neo4j_csv(graph, tmp_path / "out")
    assert facts(graph_of(neo4j_csv.read(tmp_path / "out"))) == facts(graph)
    with pytest.raises(InvalidData, match=r"is there already, in text_nodes_Dulce_from_json\.csv:1"):
        neo4j_csv.read(SHARED / "autoschemakg_dulce" / "triples_csv")  # holds some tables twice
