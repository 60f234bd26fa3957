"""Data sets as workloads, on small files of the same form."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from bench import real
from tercet.errors import InvalidArgument, MissingDependency

SIZES = {"seed": 0, "num_queries": 3, "dimension": 8}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TERCET_BENCH_DATA", str(tmp_path))
    return tmp_path


def pack(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.write(text)


def test_tables(folder: Path) -> None:
    pack(folder / "wordnet30/nodes.tsv.gz", "x\tn\tw\tw\tg\ny\tn\tw\tw\tg\nz\tn\tw\tw\tg\n")
    pack(folder / "wordnet30/edges.tsv.gz", "z\thas\tx\nx\tis\tz\nz\thas\tx\n")
    got = real.load("wordnet30", **SIZES)
    assert got.num_nodes == 3  # y has no edge
    edges = list(zip(got.source.tolist(), got.target.tolist(), got.relation.tolist(), strict=True))
    assert edges == [(0, 2, 1), (2, 0, 0)]
    assert got.vectors == "clustered, seeded"
    assert got.node_vectors.shape == (3, 8)
    assert got.query_vectors.shape == (3, 8)
    np.testing.assert_array_equal(got.node_vectors, real.load("wordnet30", **SIZES).node_vectors)


def test_openie_with_given_vectors(folder: Path) -> None:
    triples = [["a", "r", "b"], ["b", "r", "a"], ["a", "r"], ["a", " ", "b"], ["a", "s", "c"]]
    pack(folder / "musique/openie.jsonl.gz", json.dumps({"id": 0, "entities": [], "triples": triples}) + "\n")
    pack(folder / "minilm/musique.names.jsonl.gz", '"c"\n"a"\n"b"\n')
    pack(folder / "minilm/musique.relations.jsonl.gz", '"r"\n"s"\n')
    for name, rows in (("names", 3), ("relations", 2)):
        codes = np.arange(1, rows * 4 + 1, dtype=np.int8).reshape(rows, 4)
        np.savez(folder / f"minilm/musique.{name}.i8.npz", codes=codes, scale=np.full(rows, 0.5, np.float32))
    np.save(folder / "minilm/musique.questions.f16.npy", np.ones((2, 4), np.float16))
    got = real.load("musique", **SIZES)
    edges = list(zip(got.source.tolist(), got.target.tolist(), got.relation.tolist(), strict=True))
    assert edges == [(1, 0, 1), (1, 2, 0), (2, 1, 0)]
    np.testing.assert_allclose(got.node_vectors[1], np.array([5, 6, 7, 8]) / np.linalg.norm([5, 6, 7, 8]), rtol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(got.query_vectors, axis=1), 1, rtol=1e-6)
    assert got.vectors == "MiniLM, given"


def test_missing_and_unknown(folder: Path) -> None:
    with pytest.raises(MissingDependency, match="TERCET_BENCH_DATA"):
        real.load("metaqa", **SIZES)
    with pytest.raises(InvalidArgument, match="musique"):
        real.load("nosuch", **SIZES)
