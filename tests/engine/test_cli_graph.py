"""The commands that answer with subgraphs, run in this process on a small store with a toy encoder."""

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import tercet
from tercet import cli
from tercet.errors import InvalidArgument, MissingDependency

WORDS = ("roman", "saxon", "viking", "hastings")


def toy(texts: list[str]) -> np.ndarray:
    """Vectors by the words that a text holds."""
    return np.array([[float(w in t.lower()) for w in WORDS] + [0.01] for t in texts])


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    names = ["Roman Empire", "Saxons", "Vikings", "Battle of Hastings", "</script><b>"]
    graph = tercet.Graph.from_tables(
        {"id": list("abcde"), "name": names, "labels": [["Empire"], ["People"], ["People"], ["Battle"], []]},
        {"source": list("abcd"), "target": list("bcde"), "relation": ["met", "fought", "near", "named"]},
    )
    collection = tercet.Collection.build("name", toy(names), list("abcde"))
    tercet.Engine(graph, [collection]).save(tmp_path / "g.store")
    opened = tercet.open
    monkeypatch.setattr(
        tercet, "open", lambda path, encoder=None, **more: opened(path, encoder=toy, **more), raising=False
    )
    return tmp_path / "g.store"


def run(*arguments: str) -> str:
    result = CliRunner().invoke(cli.app, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_subgraph_as_json_and_as_a_table(store: Path) -> None:
    row = json.loads(run("subgraph", "the viking age", "--store", str(store), "--k", "1", "--json"))
    assert row["status"] == "ok"
    assert [(n["id"], n["hops"]) for n in row["nodes"]] == [("c", 0), ("b", 1), ("d", 1)]
    assert [(r["source"], r["type"], r["target"]) for r in row["relationships"]] == [
        ("b", "fought", "c"),
        ("c", "near", "d"),
    ]
    assert row["missing"] == {"text": "no node holds a word of the query"}
    shown = run("subgraph", "vikings", "--store", str(store), "--k", "1", "--by", "text", "--max-nodes", "2")
    assert "Vikings" in shown
    assert "1 more were left" in shown
    text = run("subgraph", "roman", "--store", str(store), "--k", "1", "--by", "vector", "--context")
    assert "Roman Empire --[met]--> Saxons" in text


def test_filters_and_walks_are_options(store: Path) -> None:
    only = json.loads(run("subgraph", "viking", "--store", str(store), "--k", "1", "--label", "people", "--json"))
    assert [n["id"] for n in only["nodes"]] == ["c", "b"]
    seeds = json.loads(
        run("subgraph", "viking", "--store", str(store), "--k", "1", "--filter-label", "Battle", "--json")
    )
    assert [s["id"] for s in seeds["seeds"]] == ["d"]
    walked = json.loads(run("subgraph", "viking", "--store", str(store), "--k", "1", "--rel-type", "near", "--json"))
    assert [n["id"] for n in walked["nodes"]] == ["c", "d"]


def test_path_prints_routes_or_why_there_are_none(store: Path) -> None:
    out = run("path", "roman", "viking", "hastings", "--store", str(store), "--k", "1")
    assert "Roman Empire → Saxons → Vikings" in out
    assert "Vikings → Battle of Hastings" in out
    joined = run("path", "roman", "viking", "hastings", "--store", str(store), "--k", "1", "--joined", "--json")
    assert json.loads(joined)["paths"] == [list("abcd")]
    assert "no_route (waypoints 0 and 1)" in run(
        "path", "roman", "hastings", "--store", str(store), "--k", "1", "--max-hops", "2"
    )


def test_a_picture_is_one_harmless_page(store: Path, tmp_path: Path) -> None:
    page = tmp_path / "out.html"
    try:
        run("subgraph", "hastings", "--store", str(store), "--k", "1", "--html", str(page))
    except MissingDependency as error:
        pytest.skip(str(error))
    text = page.read_text(encoding="utf-8")
    assert "</script><b>" not in text
    assert "Battle of Hastings" in text


@pytest.mark.parametrize("format", ["parquet", "graphml", "neo4j-csv"])
def test_what_is_exported_is_built_again(store: Path, tmp_path: Path, format: str) -> None:
    out = tmp_path / ("out.graphml" if format == "graphml" else "out")
    assert "5 nodes and 4 edges" in run("export", str(store), str(out), "--format", format)
    built = json.loads(run("build", str(out), "--out", str(tmp_path / "b.store"), "--encoder", "none", "--json"))
    assert (built["graph"]["nodes"], built["graph"]["edges"]) == (5, 4)
    assert built["format"] == {"parquet": "parquet-folder"}.get(format, format)
    assert bool(built["collections"]) == (format == "parquet")
    again = tercet.open(tmp_path / "b.store").graph
    assert again.ids.to_pylist() == list("abcde")
    assert again.relation_column.to_pylist() == ["met", "fought", "near", "named"]


def test_wrong_use_is_refused(store: Path) -> None:
    for arguments, message in (
        (["subgraph", "a", "--store", str(store), "--by", "magic"], "--by: expected"),
        (["subgraph", "a", "b", "--store", str(store), "--html", "x.html"], "--html: expected one question"),
        (["path", "roman", "--store", str(store)], "waypoints: expected at least 2"),
        (["path", "roman", "viking", "--store", str(store), "--direction", "up"], "direction: expected"),
    ):
        with pytest.raises(InvalidArgument, match=f"^{message}"):
            CliRunner().invoke(cli.app, arguments, catch_exceptions=False)
    assert CliRunner().invoke(cli.app, ["subgraph", "a"]).exit_code == 2
