"""The command line, run in this process on small stores with a toy encoder."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import tercet
from tercet import cli
from tercet.errors import InvalidArgument, InvalidData, StoreError

VECTORS = {"alice": [1.0, 0.0, 0.0], "bob": [0.0, 1.0, 0.0], "works at": [0.6, 0.8, 0.0]}


def toy(texts: list[str]) -> np.ndarray:
    """Vectors by the words that a text holds."""
    rows = [sum((np.array(v) for w, v in VECTORS.items() if w in t.lower()), np.full(3, 0.01)) for t in texts]
    return np.array(rows)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A saved engine."""
    graph = tercet.Graph.from_tables(
        {"id": ["a", "b"], "name": ["Alice", "Bob"], "description": ["An engineer.", None]},
        {"source": ["a"], "target": ["b"], "relation": ["works_with"]},
    )
    names = tercet.Collection.build("name", toy(["alice", "bob"]), ["a", "b"])
    relations = tercet.Collection.build("relation", toy(["works at"]), ["works_with"], "relation")
    tercet.Engine(graph, [names, relations]).save(tmp_path / "g.store")
    return tmp_path / "g.store"


@pytest.fixture(autouse=True)
def toy_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    """`tercet.open` with the toy encoder."""
    opened = tercet.open
    monkeypatch.setattr(
        tercet, "open", lambda path, encoder=None, **more: opened(path, encoder=toy, **more), raising=False
    )


def run(*arguments: str) -> str:
    result = CliRunner().invoke(cli.app, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_info_json_names_the_collections(store: Path) -> None:
    about = json.loads(run("info", str(store), "--json"))
    assert about["graph"] == {"nodes": 2, "edges": 1, "order": "canonical"}
    assert [(c["name"], c["rows"], c["dimension"]) for c in about["collections"]] == [
        ("name", 2, 3),
        ("relation", 1, 3),
    ]
    assert about["bytes"] > 0


def test_recall_prints_facts_and_context(store: Path) -> None:
    out = run("recall", str(store), "Who works with Bob?")
    assert "Alice --[works_with]--> Bob" in out
    assert "__node_content_start__\nAn engineer.\n" in out


def test_recall_json_is_one_line_a_question(store: Path) -> None:
    lines = run("recall", str(store), "alice", " ", "bob", "--json").strip().splitlines()
    rows = [json.loads(line) for line in lines]
    assert [r["status"] for r in rows] == ["ok", "failed", "ok"]
    assert rows[1]["error"] == "the query is blank"
    assert rows[0]["triplets"][0]["source"] == "a"


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_queries_file_in_results_file_out(store: Path, tmp_path: Path, suffix: str) -> None:
    questions = tmp_path / "q.jsonl"
    questions.write_text('{"id": "x", "question": "alice"}\n{"_id": 7, "query": "bob"}\n', encoding="utf-8")
    out = tmp_path / f"r.{suffix}"
    run("recall", str(store), "--queries", str(questions), "--out", str(out))
    if suffix == "parquet":
        rows = pq.read_table(out).to_pylist()
    else:
        rows = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    assert [r["id"] for r in rows] == ["x", "7"]
    assert all(r["text"].startswith("Nodes:\n") for r in rows)


def test_explain_prints_every_part(store: Path) -> None:
    row = json.loads(run("recall", str(store), "alice", "--json", "--explain"))
    parts = row["explain"]["triplets"][0]["parts"]
    assert set(parts) == {"source", "target", "relation"}
    assert parts["source"]["collection"] == "name"


def test_build_from_tables_with_vectors_needs_no_encoder(tmp_path: Path) -> None:
    folder = tmp_path / "tables"
    folder.mkdir()
    vectors = pa.array([[1.0, 0.0], [0.0, 1.0]], pa.list_(pa.float32()))
    pq.write_table(pa.table({"id": ["a", "b"], "vector": vectors}), folder / "nodes.parquet")
    pq.write_table(pa.table({"source": ["a"], "target": ["b"], "relation": ["r"]}), folder / "edges.parquet")
    from tercet.build import from_tables
    from tercet.formats import tables

    engine = from_tables(*tables.read(folder), None)
    assert [c.name for c in engine.collections] == ["vector"]
    assert [t.source for t in engine.recall(vectors=[1.0, 0.0])[0].triplets] == ["a"]


def test_wrong_use_is_told_apart_from_failed_work(store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def status(*arguments: str) -> int | str | None:
        monkeypatch.setattr("sys.argv", ["tercet", *arguments])
        with pytest.raises(SystemExit) as end:
            cli.main()
        return end.value.code

    assert status("recall", str(store)) == 2  # no question
    assert status("recall", str(store), "x", "--top-k", "0") == 2
    assert status("info", str(tmp_path / "nothing")) == 1
    (store / "manifest.json").write_text("{}", encoding="utf-8")
    assert status("info", str(store)) == 1


@pytest.mark.parametrize(
    ("line", "error"),
    [("[1]\n", InvalidData), ('{"question": 5}\n', InvalidData), ("not json\n", InvalidData)],
)
def test_a_bad_line_is_named(store: Path, tmp_path: Path, line: str, error: type[Exception]) -> None:
    file = tmp_path / "q.jsonl"
    file.write_text('{"query": "alice"}\n' + line, encoding="utf-8")
    with pytest.raises(error, match="line 2"):
        run("recall", str(store), "--queries", str(file))


def test_an_unknown_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="expected one of"):
        run("build", str(tmp_path), "--out", str(tmp_path / "o"))
    with pytest.raises(StoreError, match="not a store"):
        run("info", str(tmp_path))
