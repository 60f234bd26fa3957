"""Plain tables and OpenIE folders: columns found, ids kept as text, damaged files named."""

import csv
import gzip
import io
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tercet.errors import InvalidArgument, InvalidData
from tercet.formats import openie, tables
from tercet.graph import Graph

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"
needs_data = pytest.mark.skipif(not SHARED.is_dir(), reason="the shared data sets aren't beside the repository")

NODES = {"id": ["07", "7", "7 ", "NA"], "name": ["a", None, "1e5", "true"], "importance_weight": [0.5, None, 1.0, 0.0]}
EDGES = {"source": ["07", "7"], "target": ["7", "NA"], "relation": ["knows", "2020-01-01"], "edge_text": [None, "x\ny"]}


def as_csv(columns, delimiter=","):
    out = io.StringIO()
    writer = csv.writer(out, delimiter=delimiter, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    return out.getvalue().encode()


def as_json_lines(columns):
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return "".join(json.dumps({k: v for k, v in row.items() if v is not None}) + "\n" for row in rows).encode()


def write(columns, path):
    text = {".csv": as_csv, ".tsv": lambda c: as_csv(c, "\t"), ".jsonl": as_json_lines}
    ending = "." + path.name.split(".")[1]
    if ending in text:
        data = text[ending](columns)
        path.write_bytes(gzip.compress(data, mtime=0) if path.name.endswith(".gz") else data)
    elif ending == ".parquet":
        pyarrow.parquet.write_table(pa.table(columns), path)
    elif ending == ".feather":
        pyarrow.feather.write_feather(pa.table(columns), path)
    else:
        table = pa.table(columns)
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as stream:
            stream.write_table(table)


def rewritten(tmp_path, nodes=NODES, edges=EDGES, ending=".csv"):
    write(nodes, tmp_path / f"nodes{ending}")
    write(edges, tmp_path / f"edges{ending}")
    return tables.read(tmp_path)


ENDINGS = [".csv", ".tsv", ".jsonl", ".csv.gz", ".tsv.gz", ".jsonl.gz", ".parquet", ".feather", ".arrow"]


@pytest.mark.parametrize("ending", ENDINGS)
def test_every_format_gives_the_same(tmp_path, ending):
    nodes, edges = rewritten(tmp_path, ending=ending)
    assert nodes.to_pydict() == NODES
    assert edges.to_pydict() == EDGES
    assert nodes.schema.field("id").type == pa.large_string()
    assert nodes.schema.field("importance_weight").type == pa.float64()
    graph = Graph.from_tables(nodes, edges)
    assert (graph.num_nodes, graph.num_edges) == (4, 2)


def test_arrow_file_and_mixed_formats(tmp_path):
    table = pa.table({"id": pa.array([1, 2, None]).dictionary_encode()})
    with pa.OSFile(str(tmp_path / "nodes.arrow"), "wb") as sink, pa.ipc.new_file(sink, table.schema) as file:
        file.write_table(table)
    write(EDGES, tmp_path / "edges.csv")
    nodes, edges = tables.read(tmp_path)
    assert nodes["id"].to_pylist() == ["1", "2", None]
    assert edges.num_rows == 2


texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\r"), min_size=1, max_size=8)


@given(st.lists(texts, min_size=1, max_size=6, unique=True), st.sampled_from([".csv", ".tsv", ".jsonl"]))
def test_ids_are_never_changed(tmp_path_factory, ids, ending):
    columns = {"id": ids, "name": ids}
    edges = {"source": ids, "relation": ids, "target": ids[::-1]}
    nodes, got = rewritten(tmp_path_factory.mktemp("t"), columns, edges, ending)
    assert nodes.to_pydict() == columns
    assert got.to_pydict() == {name: edges[name] for name in ("source", "target", "relation")}


@pytest.mark.parametrize("alias", ["src", "HEAD", "From", "source_id", " Source "])
def test_common_column_names(tmp_path, alias):
    nodes, edges = rewritten(
        tmp_path,
        {"node_id": ["a", "b"], "Title": ["A", "B"], "lang": ["en", "de"]},
        {alias: ["a"], "dst": ["b"], "predicate": ["r"], "fact": ["A r B"], "since": ["1999"]},
    )
    assert nodes.to_pydict() == {"id": ["a", "b"], "name": ["A", "B"], "lang": ["en", "de"]}
    assert edges.column_names == ["source", "target", "relation", "edge_text", "since"]
    assert edges.to_pylist() == [{"source": "a", "target": "b", "relation": "r", "edge_text": "A r B", "since": "1999"}]


def test_our_own_name_wins(tmp_path):
    edges = {"source": ["a"], "source_id": ["chunk-1"], "target": ["a"], "relation": ["r"], "type": ["directed"]}
    _, got = rewritten(tmp_path, {"id": ["a"], "name": ["A"], "label": ["x"]}, edges)
    assert got.to_pylist()[0] == {name: values[0] for name, values in edges.items()}


def test_ambiguous_columns(tmp_path):
    with pytest.raises(InvalidData, match=r"edges\.csv: edges: the columns \['label', 'type'\] could all be 'rel"):
        rewritten(tmp_path, edges={"source": ["7"], "target": ["7"], "type": ["x"], "label": ["y"]})
    with pytest.raises(InvalidData, match=r"the columns \['ID', 'id'\] could all be 'id'"):
        rewritten(tmp_path, nodes={"ID": ["7"], "id": ["7"]})


def test_missing_column_names_what_was_found(tmp_path):
    with pytest.raises(InvalidData, match=r"a column 'target' \(or dst, tail.*got \['source', 'goal', 'type'\]"):
        rewritten(tmp_path, edges={"source": ["7"], "goal": ["7"], "type": ["x"]})
    with pytest.raises(InvalidData, match=r"nodes\.csv: nodes: expected a column 'id' \(or node_id"):
        rewritten(tmp_path, nodes={"name": ["7"]})


def test_columns_given_twice(tmp_path):
    (tmp_path / "nodes.csv").write_text("id,x,x\n1,2,3\n")
    write(EDGES, tmp_path / "edges.csv")
    with pytest.raises(InvalidData, match=r"the columns \['x'\] are there more than once"):
        tables.read(tmp_path)


def test_csv_corner_cases(tmp_path):
    """A byte order mark, quoted line breaks and an empty text (not null) are what they are."""
    (tmp_path / "nodes.csv").write_bytes('﻿id,name\r\n1,"two\nlines"\r\n2,""\r\n3,\r\n'.encode())
    write(EDGES, tmp_path / "edges.csv")
    nodes, _ = tables.read(tmp_path)
    assert nodes.to_pydict() == {"id": ["1", "2", "3"], "name": ["two\nlines", "", None]}


def test_json_lines_of_mixed_kinds(tmp_path):
    rows = [
        {"id": 7, "name": 1963, "extra": 1, "big": 2**70},
        {"id": "07", "name": "b", "extra": {"k": [1]}, "belongs_to_set": ["x", "y"]},
        {"id": 2**63, "extra": "é", "big": 1},
    ]
    (tmp_path / "nodes.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n\n")
    write(EDGES, tmp_path / "edges.jsonl")
    nodes, _ = tables.read(tmp_path)
    assert nodes["id"].to_pylist() == ["7", "07", str(2**63)]
    assert nodes["name"].to_pylist() == ["1963", "b", None]
    assert nodes["extra"].to_pylist() == ["1", '{"k": [1]}', "é"]
    assert nodes["big"].to_pylist() == [str(2**70), None, "1"]
    assert nodes["belongs_to_set"].to_pylist() == [None, ["x", "y"], None]


def test_sets_in_csv(tmp_path):
    nodes, _ = rewritten(tmp_path, {"id": ["1", "2", "3"], "node_set": ["one", '["x", "y"]', None]})
    assert nodes["belongs_to_set"].to_pylist() == [["one"], ["x", "y"], None]
    with pytest.raises(InvalidData, match="row 0: expected a name or a JSON list"):
        rewritten(tmp_path, {"id": ["1"], "node_set": ["[x"]})


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("nodes.jsonl", b'{"id": 1}\n\n{"id": \n', r"nodes\.jsonl line 3: not valid JSON"),
        ("nodes.jsonl", b'{"id": 1}\n[1]\n', r"nodes\.jsonl line 2: expected an object, got list"),
        ("nodes.jsonl", b'{"id": "\xff"}\n', r"nodes\.jsonl after line 0: not valid UTF-8"),
        ("nodes.jsonl", b'{"id": "\\ud800"}\n', r"column 'id' row 0: not valid Unicode"),
        ("nodes.jsonl", b'{"id": 1.5}\n', r"expected text or integers, got double"),
        ("nodes.jsonl.gz", b"no gzip", r"nodes\.jsonl\.gz after line 0: damaged gzip"),
        ("nodes.jsonl.gz", gzip.compress(b'{"id": 1}\n', mtime=0)[:-6], r"damaged gzip"),
        ("nodes.csv", b"", r"nodes\.csv: expected a header line"),
        ("nodes.csv", b"id,name\n1,a\n2\n", r"nodes\.csv: .*Expected 2 columns, got 1"),
        (
            "nodes.csv",
            b"id,importance_weight\n1,0.5\n2,high\n",
            r"'importance_weight' row 1: expected a number, got 'high'",
        ),
        ("nodes.csv", b"id\n" + b"a\n" * 9000 + b"\xff\n", r"(?i)nodes\.csv: .*utf-?8"),
        ("nodes.csv", b"id\n\xff\n", r"(?i)nodes\.csv: .*utf-?8"),
        ("nodes.parquet", b"PAR1 no", r"nodes\.parquet: "),
        ("nodes.arrow", b"no arrow", r"nodes\.arrow: "),
    ],
)
def test_damaged_files_are_named(tmp_path, name, data, message):
    (tmp_path / name).write_bytes(data)
    write(EDGES, tmp_path / "edges.csv")
    with pytest.raises(InvalidData, match=message):
        tables.read(tmp_path)


def test_wrong_calls(tmp_path):
    with pytest.raises(InvalidArgument, match="expected a folder"):
        tables.read(tmp_path / "absent")
    with pytest.raises(InvalidArgument, match=r"expected one file nodes\.\* .*got nothing"):
        tables.read(tmp_path)
    write(NODES, tmp_path / "nodes.csv")
    write(NODES, tmp_path / "nodes.jsonl")
    with pytest.raises(InvalidArgument, match=r"got nodes\.csv, nodes\.jsonl"):
        tables.read(tmp_path)
    with pytest.raises(InvalidArgument, match="no such file"):
        tables.read_tables(tmp_path / "nodes.csv", tmp_path / "edges.csv")
    with pytest.raises(InvalidArgument, match="expected a file ending in"):
        tables.read_tables(tmp_path / "nodes.csv", tmp_path / "edges.xlsx")
    with pytest.raises(InvalidArgument, match="expected a file ending in"):
        tables.read_tables(tmp_path / "nodes.parquet.gz", tmp_path / "edges.csv")


PASSAGES = [{"id": 4, "title": "T", "text": "One."}, {"id": 9, "title": "U", "text": "Two."}]
EXTRACTED = [
    {
        "id": 4,
        "entities": ["b", "", "a"],
        "triples": [
            ["a", "r", "b"],
            ["a", "r"],
            ["a", "r", "c"],
            ["a", "r", "b"],
            ["a", " ", "b"],
            ["a", "r", 1],
            "arb",
        ],
    },
    {"id": 9, "entities": [], "triples": [["c", "r", "a "], ["a", "r", "b"], ["a", "r", "b", "c"]]},
]


def openie_folder(tmp_path, passages=PASSAGES, extracted=EXTRACTED, ending=".jsonl"):
    for name, rows in (("passages", passages), ("openie", extracted)):
        data = "".join(json.dumps(row) + "\n" for row in rows).encode()
        (tmp_path / f"{name}{ending}").write_bytes(gzip.compress(data, mtime=0) if ending.endswith(".gz") else data)
    return tmp_path


@pytest.mark.parametrize("ending", [".jsonl", ".jsonl.gz"])
def test_openie_by_hand(tmp_path, ending):
    got = openie.read(openie_folder(tmp_path, ending=ending))
    assert got.nodes.to_pydict() == {
        "id": ["passage:4", "passage:9", "name:b", "name:a", "name:c", "name:a "],
        "name": ["T", "U", "b", "a", "c", "a "],
        "type": ["DocumentChunk"] * 2 + ["Entity"] * 4,
        "text": ["T\nOne.", "U\nTwo."] + [None] * 4,
    }
    assert [tuple(row.values()) for row in got.edges.to_pylist()] == [
        ("name:a", "name:b", "r", "passage:4"),
        ("name:a", "name:c", "r", "passage:4"),
        ("name:c", "name:a ", "r", "passage:9"),
        ("passage:4", "name:b", "mentions", "passage:4"),
        ("passage:4", "name:a", "mentions", "passage:4"),
        ("passage:4", "name:c", "mentions", "passage:4"),
        ("passage:9", "name:c", "mentions", "passage:9"),
        ("passage:9", "name:a ", "mentions", "passage:9"),
        ("passage:9", "name:a", "mentions", "passage:9"),
        ("passage:9", "name:b", "mentions", "passage:9"),
    ]
    report = got.report
    assert (report.passages, report.triples, report.kept, report.distinct, report.blank_entities) == (2, 10, 5, 3, 1)
    assert report.malformed == {
        "2 parts": (1, [1]),
        "blank part": (1, [1]),
        "part that isn't text": (1, [1]),
        "not a list": (1, [1]),
        "4 parts": (1, [2]),
    }
    assert "5 of 10 triples kept" in str(report)
    assert Graph.from_tables(got.nodes, got.edges).num_edges == 10


@pytest.mark.parametrize(
    ("passages", "extracted", "message"),
    [
        (PASSAGES[:1], EXTRACTED, r"openie\.jsonl line 2: no passage has the id 9"),
        (PASSAGES * 2, EXTRACTED, r"passages\.jsonl line 3: the passage id 4 is there already"),
        ([{"id": 1, "title": "T"}], [], r"passages\.jsonl line 1: expected an object with id, title, text"),
        ([{"id": 1, "title": "T", "text": None}], [], r"line 1: expected title and text to be strings"),
        (PASSAGES, [{"id": 4, "entities": None, "triples": []}], r"line 1: expected entities to be a list of strings"),
        (PASSAGES, [{"id": 4, "entities": [], "triples": {}}], r"line 1: expected triples to be a list, got dict"),
        (PASSAGES, [[]], r"openie\.jsonl line 1: expected an object with id, entities, triples, got list"),
    ],
)
def test_openie_refuses(tmp_path, passages, extracted, message):
    with pytest.raises(InvalidData, match=message):
        openie.read(openie_folder(tmp_path, passages, extracted))


def test_openie_absent(tmp_path):
    with pytest.raises(InvalidArgument, match=r"expected a file passages\.jsonl"):
        openie.read(tmp_path)
    with pytest.raises(InvalidArgument, match="no vectors of the set 'x'"):
        openie.vectors(tmp_path, "x")


def vector_files(tmp_path, codes, scale, texts):
    np.savez(tmp_path / "x.names.i8.npz", codes=codes, scale=scale)
    (tmp_path / "x.names.jsonl.gz").write_bytes(gzip.compress("".join(json.dumps(t) + "\n" for t in texts).encode()))


def test_vectors_by_hand(tmp_path):
    np.save(tmp_path / "x.passages.f16.npy", np.array([[3, 4], [0, 2]], np.float16))
    vector_files(tmp_path, np.array([[-6, 8]], np.int8), np.array([0.25], np.float32), ["a"])
    got = openie.vectors(tmp_path, "x")
    assert list(got) == ["passages", "names", "names_text"]
    np.testing.assert_allclose(got["passages"], [[0.6, 0.8], [0, 1]], rtol=1e-6)
    np.testing.assert_allclose(got["names"], [[-0.6, 0.8]], rtol=1e-6)
    assert got["names"].dtype == np.float32
    assert got["names_text"].tolist() == ["a"]


def test_vectors_refuse(tmp_path):
    vector_files(tmp_path, np.ones((1, 2), np.int8), np.ones(1, np.float32), ["a", "b"])
    with pytest.raises(InvalidData, match=r"expected codes \(2, D\) int8 and scale \(2,\) for 2 texts, got \(1, 2\)"):
        openie.vectors(tmp_path, "x")
    vector_files(tmp_path, np.zeros((1, 2), np.int8), np.ones(1, np.float32), ["a"])
    with pytest.raises(InvalidData, match="1 vectors are zero or not finite, first in row 0"):
        openie.vectors(tmp_path, "x")
    (tmp_path / "x.names.i8.npz").write_bytes(b"PK\x03\x04")
    with pytest.raises(InvalidData, match="not a readable NumPy file"):
        openie.vectors(tmp_path, "x")
    np.save(tmp_path / "x.questions.f16.npy", np.array([{}], object), allow_pickle=True)
    with pytest.raises(InvalidData, match="not a readable NumPy file"):
        openie.vectors(tmp_path, "x")


def ends_of_triples(got):
    ends = zip(got.edges["source"].to_pylist(), got.edges["target"].to_pylist(), strict=True)
    return len({name for pair in ends if pair[0].startswith("name:") for name in pair})


@needs_data
def test_small_real_set():
    got = openie.read(SHARED / "musique_train100")
    assert (got.report.passages, got.report.triples, got.report.kept) == (1_890, 17_419, 17_234)
    assert got.nodes["type"].to_pylist().count("DocumentChunk") == 1_890
    assert ends_of_triples(got) == 16_337
    questions = openie.questions(SHARED / "musique_train100")
    assert len(questions) == 70
    vectors = openie.vectors(SHARED / "minilm", "musique_train100")
    assert vectors["names_text"].tolist() == got.nodes["name"].to_pylist()[1_890:]
    assert set(vectors["relations_text"]) == set(got.edges["relation"].to_pylist())
    assert vectors["passages"].shape == (1_890, 384)
    assert vectors["questions"].shape == (70, 384)
    assert vectors["names"].shape == (got.nodes.num_rows - 1_890, 384)
    # Passages of one question are about one thing: the nearest passage to most questions is one of its own.
    best = (vectors["questions"] @ vectors["passages"].T).argmax(1)
    assert sum(int(p) in q["gold"] for p, q in zip(best, questions, strict=True)) > 35


@needs_data
def test_large_real_set():
    got = openie.read(SHARED / "musique")
    assert (got.report.passages, got.report.triples, got.report.kept) == (11_656, 110_281, 109_139)
    assert got.report.distinct == 107_488
    assert ends_of_triples(got) == 92_789
    counts = {kind: count for kind, (count, _) in got.report.malformed.items()}
    assert counts == {
        "2 parts": 533,
        "4 parts": 575,
        "5 parts": 27,
        "6 parts": 1,
        "blank part": 5,
        "part that isn't text": 1,
    }
