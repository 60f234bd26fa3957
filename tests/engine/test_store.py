"""Stores: what was saved comes back, and what was damaged is named."""

import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tercet
from tercet import Collection, Engine, Graph, store_files, store_parts
from tercet.cognee import graph_from_records
from tercet.errors import StoreError
from tercet.fingerprint import Fingerprint
from tests.engine.small import QUERY, at, engine, graph, names, relations, same


def small(shift=0.0):
    nodes = {
        "id": ["a", "b", "c", "é \u0000"], "name": ["A", None, "C", ""], "importance_weight": [0.1, None, 1.0, 0.0],
        "belongs_to_set": [["s"], ["s", "t"], None, []], "size": [1, 2, 3, None],
    }  # fmt: skip
    edges = {
        "source": ["a", "b", "c", "a"], "target": ["b", "c", "é \u0000", "a"], "relation": ["r", None, "s", "r"],
        "id": ["e1", None, None, None], "edge_text": [None, None, "a text", None],
        "superseded": [False, True, False, False], "status": [None, "[superseded]", None, None],
    }  # fmt: skip
    with pytest.warns(UserWarning, match="zero"):
        hidden = Collection.build("Half", [*at([0.3]), [0.0, 0.0]], ["a", "b"], dtype="float16", zero_vectors="hide")
    found = names({"a": 0.1 + shift, "b": 0.2, "é \u0000": 0.4}), hidden, relations({"r": 0.3, "a text": 0.1})
    return engine(Graph.from_tables(nodes, edges), *found)


ASKED = [
    {}, {"wide_search_top_k": None}, {"projection": "incident"}, {"node_name": ["s"]}, {"filter": ["a", "b"]},
    {"neighborhood_depth": 1}, {"top_k": 1, "max_context_tokens": 20},
]  # fmt: skip


def assert_same_answers(a, b):
    for options in ASKED:
        x, y = (e.recall(vectors=QUERY, **options)[0] for e in (a, b))
        assert same(x, y)
        assert (x.text, x.triplets, x.seeds, x.explain()["triplets"]) == (
            y.text, y.triplets, y.seeds, y.explain()["triplets"]
        )  # fmt: skip


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "a store"
    small().save(path)
    return path


def manifest_of(path):
    return json.loads((path / "manifest.json").read_text())


def data_of(path):
    """The data folder of the graph's base; a store that was saved once has no other."""
    return (path / manifest_of(path)["graph"]["folder"]).parent


def test_round_trip(saved):
    before, after = small(), tercet.open(saved)
    assert_same_answers(before, after)
    assert after.graph.nodes.equals(before.graph.nodes)
    assert after.graph.edges.equals(before.graph.edges)
    for a, b in zip(after.collections, before.collections, strict=True):
        assert (a.name, a.kind, a.owner, a.zero_norm.tolist()) == (b.name, b.kind, b.owner, b.zero_norm.tolist())
        assert a.index.vectors.dtype == b.index.vectors.dtype
    again = saved.parent / "again"
    after.save(again)
    assert_same_answers(before, tercet.open(again, verify=False))


def test_kept_with_the_store(tmp_path):
    strange = Fingerprint.named("model-x", 2)
    found = replace(names({"a": 0.1}, order="input"), fingerprint=strange)
    sets = Collection.build("Sets", at([0.1]), ["b"], order="input", belongs_to_set=[["s", "t"]])
    engine(graph([("a", "r", "b")], order="input"), found, sets, mode="cognee").save(tmp_path / "s")
    opened = tercet.open(str(tmp_path / "s"))
    assert (opened.rules.name, opened.graph.order) == ("cognee", "input")
    assert opened.collections[0].fingerprint == strange
    assert opened.collections[1].set_rows(["s", "t"], "AND").tolist() == [True]
    assert tercet.open(tmp_path / "s", mode="native").rules.name == "native"


def test_nothing_to_save(tmp_path):
    empty = Graph.from_tables({"id": []}, {"source": [], "target": [], "relation": []})
    for i, found in enumerate(([], [Collection.build("n", np.zeros((0, 2)), [])])):
        Engine(empty, found, device="cpu").save(tmp_path / str(i))
        opened = tercet.open(tmp_path / str(i))
        assert opened.recall(vectors=QUERY).status == ["empty_graph"]
    engine(graph([], "ab"), names({"a": 0.1})).save(tmp_path / "no edges")
    assert tercet.open(tmp_path / "no edges").recall(vectors=QUERY).status == ["no_edges"]


def test_ends_that_were_left_out(tmp_path):
    records = [("a", {}), ("b", {})], [("a", "b", "r", {}), ("a", "gone", "r", {})]
    made = engine(graph_from_records(*records), names({"a": 0.1, "gone": 0.0}, order="input"), mode="cognee")
    made.save(tmp_path / "s")
    opened = tercet.open(tmp_path / "s")
    assert opened.graph.unread_ends.to_pylist() == made.graph.unread_ends.to_pylist()
    assert_same_answers(made, opened)


def test_saving_over_a_store(saved):
    reader = tercet.open(saved)
    small(0.5).save(saved)
    assert len(list(saved.glob("data-*"))) == 1
    assert_same_answers(tercet.open(saved), small(0.5))
    assert_same_answers(reader, small())  # what was opened before goes on


@pytest.mark.parametrize("fail", ["replace", "fsync", "write_table", "digest"])
def test_an_interrupted_save_leaves_a_store(saved, monkeypatch, fail):
    """Whatever step breaks, the old store or the new one is there."""
    place = next(p for p in (os, store_parts, store_files) if hasattr(p, fail))
    works, calls = getattr(place, fail), [0]
    for broken in range(1, 120):
        calls[0] = 0

        def breaks(*args, broken=broken):
            calls[0] += 1
            if calls[0] == broken:
                raise KeyboardInterrupt
            return works(*args)

        monkeypatch.setattr(place, fail, breaks)
        try:
            small(0.5).save(saved)
        except KeyboardInterrupt:
            monkeypatch.setattr(place, fail, works)
            opened = tercet.open(saved)
            first = opened.recall(vectors=QUERY, projection="full")[0].scores[0]
            assert first in [small(s).recall(vectors=QUERY, projection="full")[0].scores[0] for s in (0.0, 0.5)]
            assert len(list(saved.glob("data-*"))) <= 2
        else:
            assert broken > 1
            break
    monkeypatch.undo()
    assert_same_answers(tercet.open(saved), small(0.5))
    assert len(list(saved.glob("data-*"))) == 1


@pytest.mark.parametrize("fail", ["replace", "fsync"])
def test_a_first_save_can_be_interrupted(tmp_path, monkeypatch, fail):
    def breaks(*args):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, fail, breaks)
        with pytest.raises(KeyboardInterrupt):
            small().save(tmp_path / "new")
    with pytest.raises(StoreError):
        tercet.open(tmp_path / "new")
    small().save(tmp_path / "new")
    assert_same_answers(tercet.open(tmp_path / "new"), small())


def test_what_is_no_store(tmp_path, saved):
    file = tmp_path / "file"
    file.write_text("text")
    full = tmp_path / "folder"
    full.mkdir()
    (full / "precious.txt").write_text("text")
    for path in (file, full):
        with pytest.raises(StoreError, match=path.name):
            small().save(path)
        with pytest.raises(StoreError, match=path.name):
            tercet.open(path)
    assert (full / "precious.txt").read_text() == "text"
    assert len(list(full.iterdir())) == 1
    with pytest.raises(StoreError, match="nowhere"):
        tercet.open(tmp_path / "nowhere")
    with pytest.raises(OSError, match="nowhere"):
        tercet.open(tmp_path / "nowhere")


def test_stores_hold_plain_files_only(saved):
    assert {p.suffix for p in saved.rglob("*") if p.is_file()} == {".json", ".npy", ".arrow", ".lock"}
    assert (saved / "manifest.lock").stat().st_size == 0
    for file in saved.rglob("*.npy"):
        np.load(file, allow_pickle=False)
    assert Path("/work").as_posix() not in (saved / "manifest.json").read_text()
