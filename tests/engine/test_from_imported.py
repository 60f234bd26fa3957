"""Engines from imported files: vectors that came along, what is encoded besides, and what the report says."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from typer.testing import CliRunner

from tercet import build, cli, encoder
from tercet.embedding import EmbeddingCache
from tercet.encoder import CallableEncoder
from tercet.engine import Engine
from tercet.errors import DimensionMismatch, FingerprintMismatch, InvalidArgument, InvalidData
from tercet.formats.imported import Imported, ImportedVectors, SourceReport
from tests.engine.embedding_worker import vectors_of

NODES = {
    "id": ["a", "b", "p", "s"],
    "name": ["Alice", "Bob", None, "group"],
    "type": ["Person", "Person", "Chunk", "NodeSet"],
    "text": [None, None, "Alice met Bob.", None],
    "description": ["An engineer", None, None, None],
}
EDGES = {"source": ["a", "p"], "target": ["b", "a"], "relation": ["works_with", "mentions"]}


def imported(*vectors: ImportedVectors, nodes: Mapping[str, Any] = NODES) -> Imported:
    return Imported(pa.table(dict(nodes)), pa.table(EDGES), vectors, SourceReport("Test"))


def given(name: str, owner: list[str], rows: Any, kind: Any = "node", **more: Any) -> ImportedVectors:
    return ImportedVectors(name, kind, pa.array(owner, pa.large_string()), np.asarray(rows, np.float32), **more)


class Toy(CallableEncoder):
    """Keeps what it encoded."""

    def __init__(self) -> None:
        super().__init__(self.made, "toy")
        self.seen: list[str] = []

    def made(self, texts: list[str]) -> np.ndarray:
        self.seen += texts
        return vectors_of(texts)

    def fingerprint(self) -> Any:
        before = list(self.seen)
        out = super().fingerprint()
        self.seen = before
        return out


def rows_of(engine: Engine) -> dict[str, dict[str, np.ndarray]]:
    """Vectors by collection and owner."""
    return {
        c.name: dict(zip(c.owner.to_pylist(), np.asarray(c.index.vectors), strict=True))  # type: ignore[attr-defined]
        for c in engine.collections
    }


def unit(rows: Any) -> np.ndarray:
    rows = np.asarray(rows, np.float64)
    return (rows / np.linalg.norm(rows, axis=-1, keepdims=True)).astype(np.float32)


def test_kept_vectors_become_collections_as_they_are() -> None:
    rows = np.arange(1, 7).reshape(2, 3)
    source = imported(
        given("Entity", ["b", "a"], rows, model="their-model"),
        given("Edges", ["Works With", "mentions"], rows + 1, "relation"),
        given("empty", [], np.empty((0, 3))),
    )
    engine = build.from_imported(source)
    assert [(c.name, c.kind, c.size, c.dimension) for c in engine.collections] == [
        ("Entity", "node", 2, 3), ("Edges", "relation", 2, 3),
    ]  # fmt: skip
    got = rows_of(engine)
    np.testing.assert_array_equal(got["Entity"]["b"], unit(rows[0]))
    np.testing.assert_array_equal(got["Edges"]["works_with"], unit(rows[0] + 1))
    fingerprint = engine.collections[0].fingerprint
    assert fingerprint is not None
    assert (fingerprint.name, fingerprint.dimension) == ("their-model", 3)
    assert engine.collections[1].fingerprint is None
    assert source.report.notes == [
        "2 of 4 nodes have a vector: a search reaches the others over edges only",
        "node sets that no node belongs to: 'group'",
    ]


def test_what_has_no_vector_is_encoded() -> None:
    toy = Toy()
    kept = vectors_of(["whatever"])
    source = imported(given("name", ["b"], kept), given("relations", ["mentions"], kept, "relation"))
    engine = build.from_imported(source, toy)
    assert sorted(toy.seen) == ["Alice met Bob.", "Alice: An engineer", "group", "works with"]
    got = rows_of(engine)
    assert {name: sorted(rows) for name, rows in got.items()} == {
        "name": ["a", "b", "s"], "relations": ["mentions"], "text": ["p"], build.RELATIONS: ["works_with"],
    }  # fmt: skip
    np.testing.assert_array_equal(got["name"]["b"], unit(kept[0]))
    np.testing.assert_allclose(got["name"]["a"], unit(vectors_of(["Alice: An engineer"])[0]), rtol=1e-6)
    np.testing.assert_allclose(got[build.RELATIONS]["works_with"], unit(vectors_of(["works with"])[0]), rtol=1e-6)
    assert all(c.fingerprint == toy.fingerprint() for c in engine.collections if c.name != "relations")
    assert source.report.notes == ["node sets that no node belongs to: 'group'"]
    assert engine.recall("Alice met Bob.", top_k=1)[0].status == "ok"


def test_recompute_leaves_the_vectors_out(tmp_path: Path) -> None:
    source = imported(given("Entity", ["a"], [[1.0, 2.0]], model="another"))
    cache = EmbeddingCache(tmp_path)
    first, second = Toy(), Toy()
    engine = build.from_imported(source, first, vectors="recompute", cache=cache)
    again = build.from_imported(source, second, vectors="recompute", cache=cache, dtype="float16")
    assert {c.name: c.size for c in engine.collections} == {"name": 3, "text": 1, build.RELATIONS: 2}
    assert len(first.seen) == 9  # six texts, and the three probes for the cache
    assert len(second.seen) == 3  # the probes
    plain = build.from_tables(source.nodes, source.edges, Toy())
    for name, rows in rows_of(plain).items():
        for owner, row in rows.items():
            np.testing.assert_array_equal(rows_of(engine)[name][owner], row)
    assert all(c.index.vectors.dtype == torch.float16 for c in again.collections)  # type: ignore[attr-defined]
    with pytest.raises(InvalidArgument, match="vectors='recompute': expected an encoder, got None"):
        build.from_imported(source, vectors="recompute")
    with pytest.raises(InvalidArgument, match="expected 'keep' or 'recompute', got 'new'"):
        build.from_imported(source, vectors="new")  # type: ignore[arg-type]


def test_widths_and_models_that_differ_are_refused_before_anything_is_encoded() -> None:
    two, three, wide = [[1.0, 2.0]], [[1.0, 2.0, 3.0]], np.ones((1, 16))
    toy = Toy()
    for vectors, used, kind, message in (
        (
            (given("x", ["a"], two, model="m"), given("y", ["b"], three)), None, DimensionMismatch,
            r"'x' of dimension 2 \(model: m\) and 'y' of dimension 3 \(model: unknown\)",
        ),
        ((given("x", ["a"], two),), toy, DimensionMismatch, r"'x' of dimension 2 .* the encoder is toy \(dimension 16"),
        ((given("x", ["a"], wide, model="m"),), toy, FingerprintMismatch, r"'x' of dimension 16 \(model: m\).* toy"),
        ((given("x", ["a"], two), given("x", ["b"], two)), None, InvalidData, "expected one collection 'x', got 2"),
        ((given("x", ["a", "b"], two),), None, InvalidData, r"'x': expected shape \(2, D\), got \(1, 2\)"),
        ((given("x", ["a", "b"], [[1, 2], [np.inf, 0]]),), None, InvalidData, r"'x': row 1, of 'b', isn't finite"),
    ):  # fmt: skip
        with pytest.raises(kind, match=message):
            build.from_imported(imported(*vectors), used)
    assert toy.seen == []
    build.from_imported(imported(given("x", ["a"], wide, model="org/TOY")), toy)


def test_vectors_of_nothing_in_the_graph_are_left_out_and_told() -> None:
    source = imported(
        given("x", ["a", "gone", "away"], [[1, 0], [0, 1], [1, 1]], metric="l2"),
        given("y", ["unknown"], [[1, 0]], "relation"),
    )
    engine = build.from_imported(source)
    assert [(c.name, c.owner.to_pylist()) for c in engine.collections] == [("x", ["a"])]
    assert source.report.notes[:4] == [
        "x: 2 of 3 vectors are of no node of the graph and were left out, first 'gone', 'away'",
        "x: stored for the metric l2, compared by cosine here",
        "y: 1 of 1 vectors are of no relation text of the graph and were left out, first 'unknown'",
        "1 of 4 nodes have a vector: a search reaches the others over edges only",
    ]
    before = list(source.report.notes)
    build.from_imported(source)
    assert source.report.notes == before


def test_report_without_any_vector() -> None:
    source = imported()
    engine = build.from_imported(source)
    assert engine.collections == []
    assert source.report.notes[:2] == [
        "0 of 4 nodes have a vector: a search reaches the others over edges only",
        "0 of 2 relation texts have a vector: the others never match a query",
    ]


def test_sets_with_members_are_not_told() -> None:
    for change in ({"belongs_to_set": [["group"], None, None, None]}, {"id": ["a", "b", "x", "p"]}):
        source = imported(nodes=NODES | change)
        build.from_imported(source)
        assert not any("sets" in note for note in source.report.notes)


def test_collections_are_those_of_plain_encoding_and_progress_is_told() -> None:
    told: list[tuple[str, int, int]] = []
    engine = build.from_tables(NODES, EDGES, Toy(), progress=lambda *now: told.append(now))
    assert told == [
        ("name", 0, 3), ("name", 3, 3), ("text", 0, 1), ("text", 1, 1),
        (build.RELATIONS, 0, 2), (build.RELATIONS, 2, 2),
    ]  # fmt: skip
    for name, rows in rows_of(engine).items():
        assert name in ("name", "text", build.RELATIONS)
        assert all(np.isclose(np.linalg.norm(row), 1) for row in rows.values())


def test_build_command_goes_on_from_its_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Toy] = []

    def shared(model: str, device: str) -> Toy:
        made.append(Toy())
        return made[-1]

    monkeypatch.setattr(encoder, "_shared", shared)
    source = tmp_path / "source"
    source.mkdir()
    (source / "nodes.jsonl").write_text('{"id": "a", "name": "Alice"}\n{"id": "b", "name": "Bob"}\n')
    (source / "edges.jsonl").write_text('{"source": "a", "target": "b", "relation": "knows"}\n')
    for i, (options, environment) in enumerate((
        (["--cache", str(tmp_path / "cache")], {}), ([], {"TERCET_CACHE": str(tmp_path / "cache")}),
    )):  # fmt: skip
        made.clear()
        call = ["build", str(source), "--out", str(tmp_path / f"{i}.store"), "--encoder", "toy", "--json", *options]
        out = CliRunner().invoke(cli.app, call, env=environment, catch_exceptions=False)
        assert out.exit_code == 0, out.output
        assert [c["rows"] for c in json.loads(out.output)["collections"]] == [2, 1]
        encoded = {t for toy in made for t in toy.seen}
        assert ({"Alice", "Bob", "knows"} <= encoded) == (i == 0)
        assert encoded.isdisjoint({"Alice", "Bob", "knows"}) == (i == 1)
