"""Saving what has changed: a store with deltas is the engine that was saved, at the cost of the change."""

import json
import os
import shutil
import threading
from dataclasses import fields
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import tercet
from tercet import Collection, Engine, Graph, store
from tercet.arrays import is_repeated
from tercet.errors import InvalidArgument, StoreError
from tercet.graph import Adjacency
from tercet.index import segmented
from tercet.index.segmented import SegmentedIndex
from tercet.retrieve.words import kept_index
from tercet.store_parts import SAME, WEIGHTS
from tercet.verify import verify
from tests.engine.small import engine, graph, names
from tests.engine.test_store import assert_same_answers, manifest_of, small
from tests.engine.test_store_damage import damaged, rewrite
from tests.engine.test_updates import IDS, POOL, answers, apply, histories, start


@pytest.fixture(autouse=True)
def deltas_of_small_stores(monkeypatch):
    """Small stores would be written whole, and their segments merged, because that costs little."""
    monkeypatch.setattr(store, "FEW", 10**6)
    monkeypatch.setattr(segmented, "SMALL", 0)


def assert_same_graph(a: Graph, b: Graph) -> None:
    for f in fields(Graph):
        x, y = getattr(a, f.name), getattr(b, f.name)
        if isinstance(x, torch.Tensor):
            assert x.dtype == y.dtype, f.name
            assert torch.equal(x, y), f.name
        elif isinstance(x, Adjacency):
            assert all(torch.equal(getattr(x, p), getattr(y, p)) for p in ("indptr", "edge", "other")), f.name
        elif isinstance(x, np.ndarray):
            assert x.tolist() == y.tolist(), f.name
        elif isinstance(x, (pa.Table, pa.Array)):
            assert x.equals(y), f.name
        elif f.name != "report":
            assert x == y, f.name


def assert_same_engine(a: Engine, b: Engine) -> None:
    """The same to the last bit: rows and their order, weights, vectors."""
    assert_same_graph(a.graph, b.graph)
    for x, y in zip(a.collections, b.collections, strict=True):
        assert (x.name, x.kind, x.fingerprint) == (y.name, y.kind, y.fingerprint)
        assert x.owner.equals(y.owner)
        assert x.zero_norm.tolist() == y.zero_norm.tolist()
        rows = [i.compact() if isinstance(i, SegmentedIndex) else i for i in (x.index, y.index)]
        assert torch.equal(rows[0].vectors, rows[1].vectors)
        assert rows[0].vectors.dtype == rows[1].vectors.dtype
        assert (rows[0].hidden is None) == (rows[1].hidden is None)


@given(histories(), st.lists(st.sampled_from(["save", "reopen", "go on"]), min_size=5, max_size=5), st.booleans())
@settings(max_examples=15, deadline=None, derandomize=True)
def test_what_was_saved_in_steps_is_the_engine_in_memory(tmp_path_factory, history, after, words) -> None:
    path = tmp_path_factory.mktemp("s") / "s.store"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "DELTAS", 2)
        model = start()
        engine = model.engine()
        memory = model.engine()
        engine.save(path)
        for step, then in zip(history, after, strict=False):
            copy = start()
            copy.nodes, copy.edges, copy.vectors = (
                {**model.nodes}, {**model.edges}, {k: {**v} for k, v in model.vectors.items()})  # fmt: skip
            apply(step, copy, memory)
            apply(step, model, engine)
            if words:
                engine.text_search("red")
            if then != "go on":
                engine.save(path)
            if then == "reopen":
                engine = tercet.open(path)
        engine.save(path)
        opened = tercet.open(path)
    assert_same_engine(opened, memory)
    assert_same_engine(opened, engine)
    assert answers(opened) == answers(model.engine())
    assert all(c.good for c in verify(path)), verify(path)
    named = {path / n for n in manifest_of(path)["files"]}
    assert {p for p in path.rglob("*") if p.is_file()} == {*named, path / "manifest.json", path / "manifest.lock"}


@pytest.mark.parametrize("options", [
    {"order": "input"}, {"order": "input", "duplicates": "merge"}, {"edge_keys": "edge"}, {"missing": "none"},
])  # fmt: skip
@pytest.mark.parametrize("seed", range(3))
def test_graphs_of_every_kind_come_back(tmp_path, options, seed) -> None:
    """Orders, keys and titles; sets, ids of edges and columns that come later, lose their values or change."""
    rng = np.random.default_rng(seed)
    pool = [f"k{i}" for i in rng.permutation(12)]
    nodes = {"id": pool[:6], "name": [None, "A", "B", None, "A", "C"],
             "belongs_to_set": [["s"], None, ["t", "s"], [], None, ["u"]]}  # fmt: skip
    edges = {"source": [*pool[:5], pool[0]], "target": [*pool[1:6], pool[1]],
             "relation": ["r", "s", None, "r", "t", "r"], "id": ["1", None, "2", None, None, "3"],
             "edge_text": [None, "Text", None, "x", None, None]}  # fmt: skip
    engine = Engine(Graph.from_tables(nodes, edges, **options), [], device="cpu")
    path = tmp_path / "s"
    engine.save(path)
    for step in range(7):
        held = engine.graph.ids.to_pylist()
        if step % 3 == 2:
            engine.delete([held[int(rng.integers(len(held)))]])
        else:
            ids = [pool[i] for i in rng.choice(12, 3, replace=False)]
            more = {"size": rng.normal(size=3)} if step == 3 else {"name": [f"n{step}", None, "A"]} if step else {}
            if step == 4:
                more["belongs_to_set"] = [["new"], None, ["s"]]
            ends = sorted({*held, *ids})
            far = [[ends[int(i)] for i in rng.integers(len(ends), size=3)] for _ in range(2)]
            new = {"source": far[0], "relation": ["r", f"q{step}", None], "target": far[1],
                   "id": [None, f"e{step}", None], "edge_text": [None, None, f"t{step}"],
                   "weight": [1.0, None, 2.0]}  # fmt: skip
            engine.upsert({"id": ids} | more, new)
        engine.save(path)
        assert_same_graph(tercet.open(path).graph, engine.graph)
        if step == 4:
            engine = tercet.open(path)
    assert len(manifest_of(path)["graph"]["deltas"]) > 1


def test_rows_of_own_kinds_come_back(tmp_path) -> None:
    """float16 rows, hidden zero vectors, node sets of the rows themselves, owners the graph doesn't have."""
    ids = ["a", "b", "c"]
    graph = Graph.from_tables({"id": ids}, {"source": ["a"], "target": ["b"], "relation": ["r"]}, order="input")
    with pytest.warns(UserWarning, match="zero"):
        half = Collection.build("half", [[1, 2], [0, 0], [3, 4]], ids, dtype="float16", zero_vectors="hide")
    sets = Collection.build("sets", [[1, 2], [4, 3], [1, 1]], ["ghost", "b", "a"], order="input",
                            belongs_to_set=[["s"], ["s", "t"], None])  # fmt: skip
    engine = Engine(graph, [half, sets], device="cpu", mode="cognee")
    engine.save(tmp_path / "s")
    with pytest.warns(UserWarning, match="zero"):
        engine.upsert(vectors={"half": (["c", "a"], [[0.0, 0.0], [5, 1]]), "sets": (["other", "a"], [[2, 1], [1, 3]])})
    engine.save(tmp_path / "s")
    opened = tercet.open(tmp_path / "s")
    for a, b in zip(opened.collections, engine.collections, strict=True):
        x, y = a.index, b.index
        assert isinstance(x, SegmentedIndex)
        assert x.hidden.tolist() == y.hidden.tolist()
        assert a.owner.equals(b.owner)
        assert a.zero_norm.tolist() == b.zero_norm.tolist()
        query = torch.tensor([[0.6, 0.8]])
        assert all(torch.equal(p, q) for p, q in zip(x.search(query, 9), y.search(query, 9), strict=True))
    for operator in ("OR", "AND"):
        masks = [e.collections[1].set_rows(["s", "t"], operator).tolist() for e in (opened, engine)]
        assert masks[0] == masks[1]
    assert engine.collections[1].set_rows(["s"], "OR").any()
    assert opened.bound[1].owner.tolist() == engine.bound[1].owner.tolist()


def test_rows_kept_as_given_are_written_whole(tmp_path) -> None:
    from tercet.index.raw import RawIndex

    graph = Graph.from_tables({"id": ["a", "b"]}, {"source": ["a"], "target": ["b"], "relation": ["r"]})
    built = Collection.build("raw", [[1.0, 2.0], [3.0, 4.0]], ["a", "b"])
    raw = Collection(
        "raw", "node", RawIndex.build(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), "l2"), built.owner, built.zero_norm
    )
    engine = Engine(graph, [raw], device="cpu")
    engine.save(tmp_path / "s")
    assert manifest_of(tmp_path / "s")["collections"][0]["metric"] == "l2"
    engine.upsert(vectors={"raw": (["b"], [[7.0, 8.0]])})
    engine.save(tmp_path / "s")
    assert tercet.open(tmp_path / "s").collections[0].index.vectors.tolist() == [[1.0, 2.0], [7.0, 8.0]]
    assert manifest_of(tmp_path / "s")["collections"][0]["deltas"] == []


def test_approximate_indexes_keep_their_base(tmp_path) -> None:
    pytest.importorskip("faiss", reason="faiss isn't installed")
    rng = np.random.default_rng(0)
    ids = [f"{i:03d}" for i in range(400)]
    graph = Graph.from_tables({"id": ids}, {"source": ids[:-1], "target": ids[1:], "relation": ["r"] * 399})
    engine = Engine(graph, [Collection.build("n", rng.normal(size=(400, 8)), ids, index="hnsw")], device="cpu")
    engine.save(tmp_path / "s")
    engine.upsert(vectors={"n": (ids[:5], rng.normal(size=(5, 8)))})
    engine.save(tmp_path / "s")
    opened = tercet.open(tmp_path / "s")
    assert opened.collections[0].index.segments[0].index.kind == "hnsw"
    queries = torch.nn.functional.normalize(torch.from_numpy(rng.normal(size=(4, 8)).astype(np.float32)))
    want = engine.collections[0].index.search(queries, 10)
    assert all(torch.equal(a, b) for a, b in zip(opened.collections[0].index.search(queries, 10), want, strict=True))


def big(rows: int = 20_000) -> tuple[Engine, list[str]]:
    rng = np.random.default_rng(0)
    ids = [f"{i:06d}" for i in range(rows)]
    graph = Graph.from_tables(
        {"id": ids, "name": [f"name {i}" for i in range(rows)]},
        {"source": ids, "target": ids[1:] + ids[:1], "relation": ["r"] * rows},
    )
    return Engine(graph, [Collection.build("n", rng.normal(size=(rows, 64)), ids)], device="cpu"), ids


def sizes(path: Path) -> dict[str, int]:
    return {str(p): p.stat().st_size for p in path.rglob("*") if p.is_file() and p.suffix in (".npy", ".arrow")}


def test_a_save_costs_what_the_update_brings(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(store, "FEW", 1000)
    engine, ids = big()
    engine.text_search("name")
    engine.save(tmp_path)
    whole = sizes(tmp_path)
    hashed = []
    digest = tercet.store_files.digest
    monkeypatch.setattr(tercet.store_files, "digest", lambda f, *piece: hashed.append(f) or digest(f, *piece))
    written = []
    for count in (10, 1000, 1000):
        some = [*ids[:: len(ids) // count][: count // 2], *(f"x{len(written)}-{i}" for i in range(count // 2))]
        engine.upsert({"id": some, "name": ["changed"] * count},
                      {"source": some, "target": ids[:count], "relation": ["r"] * count},
                      {"n": (some, np.random.default_rng(1).normal(size=(count, 64)))})  # fmt: skip
        before = sizes(tmp_path)
        hashed.clear()
        engine.save(tmp_path)
        after = sizes(tmp_path)
        new = {f: s for f, s in after.items() if f not in before}
        assert {str(f) for f in hashed} == set(new)  # what was there isn't read again
        assert before.items() <= after.items()
        written.append(sum(new.values()))
    assert written[0] < 20_000
    assert 1000 * 64 * 4 < written[1] < 3 * 1000 * 64 * 4 < sum(whole.values()) / 10
    assert abs(written[2] - written[1]) < 0.1 * written[1]  # and doesn't grow with what was saved before
    engine.delete([f"x2-{i}" for i in range(500)])
    before = sizes(tmp_path)
    engine.save(tmp_path)
    assert sum(s for f, s in sizes(tmp_path).items() if f not in before) < 40_000
    opened = tercet.open(tmp_path)
    assert_same_graph(opened.graph, engine.graph)
    assert_same_graph(opened.graph, Graph.from_tables(*tables_of(engine.graph)))


def tables_of(graph: Graph):
    source, target = (graph.ids.take(pa.array(x.numpy())) for x in (graph.source, graph.target))
    nodes = {"id": graph.ids, "name": graph.nodes["name"]}
    return nodes, {"source": source, "target": target, "relation": graph.relation_column}


def test_nothing_changed_nothing_written(tmp_path) -> None:
    small().save(tmp_path / "s")
    engine = tercet.open(tmp_path / "s")
    before = (tmp_path / "s" / "manifest.json").read_bytes()
    engine.save(tmp_path / "s")
    assert (tmp_path / "s" / "manifest.json").read_bytes() == before
    engine.upsert({"id": ["new"]})
    engine.save(tmp_path / "s")
    now = manifest_of(tmp_path / "s")
    assert [len(now["graph"]["deltas"]), *(len(c["deltas"]) for c in now["collections"])] == [1, 0, 0, 0]
    assert now["commit"] != json.loads(before)["commit"]
    assert now["store"] == json.loads(before)["store"]


def test_compacting_and_a_large_change_write_a_base(tmp_path, monkeypatch) -> None:
    engine, ids = big(300)
    engine.save(tmp_path)
    engine.upsert({"id": ["x"]}, vectors={"n": (["x"], np.ones((1, 64)))})
    engine.save(tmp_path)
    engine.compact()
    engine.save(tmp_path)
    about = manifest_of(tmp_path)
    assert (about["graph"]["deltas"], about["collections"][0]["deltas"]) == ([], [])
    assert about["collections"][0]["base_rows"] == 301
    assert_same_graph(tercet.open(tmp_path).graph, engine.graph)
    monkeypatch.setattr(store, "FEW", 10)
    engine.delete(ids[:100])
    engine.save(tmp_path)
    about = manifest_of(tmp_path)
    assert (about["graph"]["deltas"], about["graph"]["base_nodes"]) == ([], 201)
    assert len(about["collections"][0]["deltas"]) == 1  # vectors wait for `compact`
    assert_same_graph(tercet.open(tmp_path).graph, engine.graph)


def test_many_saves_are_folded(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(store, "DELTAS", 4)
    engine, ids = big(300)
    engine.text_search("name")
    for i in range(11):
        engine.save(tmp_path)
        engine.upsert(
            {"id": [f"x{i}", ids[i]], "name": ["new", "other"]}, vectors={"n": ([f"x{i}"], POOL[:1].repeat(16, 1))}
        )
    engine.save(tmp_path)
    about = manifest_of(tmp_path)
    assert len(about["graph"]["deltas"]) == len(about["collections"][0]["deltas"]) == 3
    opened = tercet.open(tmp_path)
    assert_same_graph(opened.graph, engine.graph)
    assert opened.text_search("new", k=20)[0].ids() == engine.text_search("new", k=20)[0].ids()


def test_two_writers_and_the_second_is_told(tmp_path) -> None:
    small().save(tmp_path / "s")
    first, second = tercet.open(tmp_path / "s"), tercet.open(tmp_path / "s")
    first.upsert({"id": ["first"]})
    second.upsert({"id": ["second"]})
    first.save(tmp_path / "s")
    for _ in range(2):
        with pytest.raises(StoreError, match="somebody committed"):
            second.save(tmp_path / "s")
    assert "first" in tercet.open(tmp_path / "s").graph.ids.to_pylist()
    second.save(tmp_path / "elsewhere")
    assert "second" in tercet.open(tmp_path / "elsewhere").graph.ids.to_pylist()
    third = tercet.open(tmp_path / "s")
    third.upsert({"id": ["second"]})
    third.save(tmp_path / "s")
    assert {"first", "second"} <= set(tercet.open(tmp_path / "s").graph.ids.to_pylist())
    first.upsert({"id": ["again"]})
    with pytest.raises(StoreError, match="somebody committed"):
        first.save(str(tmp_path / "s") + "/../s")
    small(0.5).save(tmp_path / "s")  # an engine that was made elsewhere takes the store's place, as it always did
    with pytest.raises(StoreError, match="somebody committed"):
        third.save(tmp_path / "s")


def test_a_save_that_waited_for_another_is_told(tmp_path, monkeypatch) -> None:
    small().save(tmp_path / "s")
    inside, go = threading.Event(), threading.Event()
    works, failures = store.settled, []

    def slow(*args):
        inside.set()
        assert go.wait(20)
        return works(*args)

    def save(engine) -> None:
        try:
            engine.save(tmp_path / "s")
        except StoreError as error:
            failures.append(str(error))

    monkeypatch.setattr(store, "settled", slow)
    first = threading.Thread(target=save, args=(small(0.5),))
    first.start()
    assert inside.wait(20)
    held, counted = store._held, threading.Event()
    monkeypatch.setattr(store, "_held", lambda root: (held(root), counted.set())[0])
    second = threading.Thread(target=save, args=(small(1.0),))
    second.start()
    assert counted.wait(20)
    go.set()
    first.join()
    second.join()
    assert len(failures) == 1
    assert "somebody committed" in failures[0]
    assert_same_answers(tercet.open(tmp_path / "s"), small(0.5))


def test_a_copied_store_goes_its_own_way(tmp_path) -> None:
    engine = small()
    engine.save(tmp_path / "a")
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    engine.upsert({"id": ["x"]})
    engine.save(tmp_path / "b")
    assert len(manifest_of(tmp_path / "b")["graph"]["deltas"]) == 1
    assert_same_graph(tercet.open(tmp_path / "b").graph, engine.graph)
    assert "x" not in tercet.open(tmp_path / "a").graph.ids.to_pylist()


def test_old_readers_go_on(tmp_path) -> None:
    engine = small()
    engine.save(tmp_path / "s")
    reader = tercet.open(tmp_path / "s")
    engine.delete(["a"])
    engine.compact()
    engine.save(tmp_path / "s")
    assert_same_answers(reader, small())


def test_a_save_goes_with_no_open_transaction(tmp_path) -> None:
    engine = small()
    with engine.transaction() as t:
        t.upsert({"id": ["x"]})
        with pytest.raises(InvalidArgument, match="transaction open"):
            engine.save(tmp_path / "s")
    engine.save(tmp_path / "s")
    view = engine.view()
    engine.upsert({"id": ["y"]})
    view.save(tmp_path / "view")
    assert "y" not in tercet.open(tmp_path / "view").graph.ids.to_pylist()
    with engine.transaction() as t:  # what failed isn't saved
        with pytest.raises(InvalidArgument):
            t.upsert({"id": ["z"]}, {"source": ["z"]})
        t.delete([IDS[0]], missing="ignore")
    engine.save(tmp_path / "s")
    assert_same_graph(tercet.open(tmp_path / "s").graph, engine.graph)


@pytest.mark.parametrize("fail", ["replace", "fsync"])
def test_an_interrupted_save_of_changes_leaves_a_store(tmp_path, monkeypatch, fail) -> None:
    path = tmp_path / "s"
    start().engine().save(path)
    engine = tercet.open(path)
    engine.upsert(
        {"id": ["x"]}, {"source": ["x"], "target": [IDS[0]], "relation": ["new"]}, {"names": (["x"], POOL[:1])}
    )
    works = getattr(os, fail)
    for broken in range(1, 60):
        calls = [0]

        def breaks(*args, broken=broken, calls=calls):
            calls[0] += 1
            if calls[0] == broken:
                raise KeyboardInterrupt
            return works(*args)

        monkeypatch.setattr(os, fail, breaks)
        try:
            engine.save(path)
        except (KeyboardInterrupt, StoreError) as error:
            monkeypatch.setattr(os, fail, works)
            opened = tercet.open(path)
            assert opened.graph.num_nodes in (5, 6)
            if isinstance(error, StoreError) or opened.graph.num_nodes == 6:
                # broken after the commit: the engine doesn't know that it succeeded, and is told
                engine = tercet.open(path)
                engine.delete(["x"], missing="ignore")
                engine.save(path)
                engine.upsert({"id": ["x"]}, {"source": ["x"], "target": [IDS[0]], "relation": ["new"]},
                              {"names": (["x"], POOL[:1])})  # fmt: skip
        else:
            break
    monkeypatch.undo()
    assert broken > 1
    assert_same_graph(tercet.open(path).graph, engine.graph)


@pytest.fixture
def with_deltas(tmp_path):
    engine = start().engine()
    engine.text_search("red")
    engine.save(tmp_path / "s")
    for name in ("x", "y"):
        edges = {"source": [name], "target": [IDS[0]], "relation": ["new"]}
        nodes = {"id": [name], "name": ["red"], "belongs_to_set": [["red"]]}
        engine.upsert(nodes, edges, {"names": ([name], POOL[:1])})
        engine.save(tmp_path / "s")
    return tmp_path / "s"


def delta_files(path: Path) -> list[str]:
    about = manifest_of(path)
    inside = [d["folder"] for part in (about["graph"], *about["collections"]) for d in part["deltas"]]
    return [n for n in about["files"] if n.startswith((*inside, about["lexical"]["folder"]))]


@pytest.mark.parametrize("kind", ["flipped", "cut", "missing", "longer"])
def test_damage_to_what_has_changed_is_named(with_deltas, kind) -> None:
    backup = with_deltas.parent / "backup"
    shutil.copytree(with_deltas, backup)
    names = delta_files(with_deltas)
    assert len({Path(n).name for n in names}) == 13  # runs and rows of nodes and edges, rows and vectors, text index
    for name in names:
        damaged(with_deltas / name, kind)
        with pytest.raises(StoreError, match=Path(name).name.replace(".", r"\.")):
            tercet.open(with_deltas)
        assert any(Path(name).name in c.what for c in verify(with_deltas) if not c.good)
        shutil.copyfile(backup / name, with_deltas / name)
    tercet.open(with_deltas)


@pytest.mark.parametrize("change", [
    lambda a: a[:-1], lambda a: a[:, ::-1].copy(), lambda a: a + 1, lambda a: a.astype(np.int32), lambda a: a.ravel(),
    lambda a: np.concatenate([a, a[:1]]), lambda a: a - 3, lambda a: a * 2**40,
])  # fmt: skip
@pytest.mark.parametrize("name", ["nodes.rows.npy", "edges.rows.npy", "rows.npy"])
def test_choices_of_rows_that_lead_elsewhere(with_deltas, name, change) -> None:
    file = with_deltas / next(n for n in delta_files(with_deltas) if n.endswith("/" + name))
    np.save(file, change(np.load(file)))
    rewrite(with_deltas, lambda manifest: None)
    with pytest.raises(StoreError, match=name.replace(".", r"\.")):
        tercet.open(with_deltas)


@pytest.mark.parametrize("name", ["nodes.arrow", "edges.arrow", "rows.arrow"])
def test_delta_tables_that_do_not_fit(with_deltas, name) -> None:
    file = with_deltas / next(n for n in reversed(delta_files(with_deltas)) if n.endswith("/" + name))
    table = tercet.store_files.read_table(file)
    strange = [table.slice(0, 0), pa.table({"a": [1]})]
    if name == "edges.arrow":
        at = table.schema.get_field_index("source")
        strange.append(table.set_column(at, "source", pa.array(["nobody"], pa.large_string())))
    for bad in strange:
        tercet.store_files.write_table(file, bad)
        rewrite(with_deltas, lambda manifest: None)
        with pytest.raises(StoreError):
            tercet.open(with_deltas)
        assert not all(c.good for c in verify(with_deltas))


def test_large_files_are_hashed_in_pieces(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(tercet.store_files, "PIECE", 100)
    small().save(tmp_path)
    name, about = next(
        (n, f) for n, f in manifest_of(tmp_path)["files"].items() if n.endswith("collection-0/vectors.npy")
    )
    assert len(about["sha256"]) == -(-about["bytes"] // 100) == 2
    assert_same_answers(tercet.open(tmp_path), small())
    content = (tmp_path / name).read_bytes()
    for at in (5, len(content) - 1):
        (tmp_path / name).write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
        with pytest.raises(StoreError, match=rf"vectors\.npy.*from byte {at // 100 * 100} on"):
            tercet.open(tmp_path)
    (tmp_path / name).write_bytes(content)
    text = (tmp_path / "manifest.json").read_text()
    (tmp_path / "manifest.json").write_text(text.replace(f'"{about["sha256"][0]}",', ""))
    with pytest.raises(StoreError, match="2 pieces, but there are 1"):
        tercet.open(tmp_path)


def test_equal_weights_and_shared_columns_are_written_once(tmp_path) -> None:
    whole = engine(graph([("a", "r", "b"), ("b", "s", "c"), ("c", "r", "a")]), names({"a": 0.1, "b": 0.2}))
    whole.save(tmp_path / "s")
    inside = tmp_path / "s" / manifest_of(tmp_path / "s")["graph"]["folder"]
    assert [len(np.load(inside / f"{n}.npy")) for n in WEIGHTS] == [1, 1, 1, 1]
    assert not any((inside / f"{n}.npy").exists() for n in SAME)
    opened = tercet.open(tmp_path / "s")
    assert_same_graph(opened.graph, whole.graph)
    assert_same_answers(opened, whole)
    for one in (opened, whole):
        one.upsert(edges={"source": ["a"], "target": ["c"], "relation": ["r"]})
        assert is_repeated(one.graph.edge_importance)
        assert one.graph.edge_importance.tolist() == [0.5] * 4
        one.upsert({"id": ["d"]}, {"source": ["a"], "target": ["d"], "relation": ["t"], "importance_weight": [0.9]})
        assert sorted(one.graph.edge_importance.tolist()) == [0.5] * 4 + [0.9]
        assert one.graph.importance.tolist() == [0.5] * 4
    opened.save(tmp_path / "s")
    assert_same_graph(tercet.open(tmp_path / "s").graph, whole.graph)


def test_codes_come_with_the_store_and_stay_through_updates(tmp_path, monkeypatch) -> None:
    rng = np.random.default_rng(0)
    ids = [f"n{i}" for i in range(300)]
    nodes = {"id": ids}, {"source": ids, "target": ids[1:] + ids[:1], "relation": ["r"] * 300}
    for dtype in ("float32", "float16"):
        path = tmp_path / dtype
        made = Collection.build("v", rng.standard_normal((300, 70), np.float32), ids, dtype=dtype)
        before = tercet.Engine(Graph.from_tables(*nodes), [made], device="cpu")
        before.save(path)
        opened = tercet.open(path)
        stored = opened.collections[0].index.stored
        for a, b in zip(stored, made.index.codes, strict=True):
            assert a == b if isinstance(a, float) else torch.equal(a, b)
        query = rng.standard_normal((20, 70), np.float32)
        with monkeypatch.context() as patch:
            patch.setattr("tercet.index.exact.encode", lambda *args: pytest.fail("codes were made"))
            assert torch.equal(opened.recall(vectors=query).scores, before.recall(vectors=query).scores)
        opened.upsert(vectors={"v": (ids[:2], rng.standard_normal((2, 70), np.float32))})
        assert opened.collections[0].index.segments[0].index.stored is stored
        opened.save(path)
        again = tercet.open(path)
        assert again.collections[0].index.segments[0].index.stored is not None
        assert torch.equal(again.recall(vectors=query).scores, opened.recall(vectors=query).scores)
        assert all(c.good for c in verify(path))
        opened.compact()
        opened.save(path)
        assert tercet.open(path).collections[0].index.stored is not None


def test_codes_that_do_not_fit_are_refused(tmp_path) -> None:
    small().save(tmp_path)
    file = tmp_path / manifest_of(tmp_path)["collections"][0]["folder"] / "codes.step.npy"
    np.save(file, np.load(file)[:-1])
    rewrite(tmp_path, lambda manifest: None)
    with pytest.raises(StoreError, match=r"codes.step.npy: expected \(3,\) float32, found \(2,\) float32"):
        tercet.open(tmp_path)


@pytest.mark.parametrize("version", [1, 2])
def test_a_store_of_an_earlier_format_opens_and_goes_on(tmp_path, version: int) -> None:
    path = tmp_path / "old"
    small().save(path)
    as_format_2(path)
    if version == 1:
        as_format_1(path)
    engine = tercet.open(path)
    assert_same_answers(engine, small())
    assert all(c.good for c in verify(path))
    engine.upsert({"id": ["new"]})
    engine.save(path)
    about = manifest_of(path)
    assert (about["format"], len(about["graph"]["deltas"])) == (3, 1)
    assert_same_graph(tercet.open(path).graph, engine.graph)


def as_format_2(path: Path) -> None:
    """What the version before wrote: a file for each column, with all rows, and no codes."""
    about = manifest_of(path)
    inside = path / about["graph"]["folder"]
    for name, of in SAME.items():
        if not (inside / f"{name}.npy").exists():
            shutil.copy(inside / f"{of}.npy", inside / f"{name}.npy")
    for name in WEIGHTS:
        rows, size = np.load(inside / f"{name}.npy"), about["graph"]["edges" if name.startswith("edge_") else "nodes"]
        np.save(inside / f"{name}.npy", np.broadcast_to(rows, size))
    for file in path.rglob("codes*.npy"):
        file.unlink()
    there = {p.relative_to(path).as_posix(): {} for p in path.glob("data-*/**/*") if p.is_file()}
    (path / "manifest.json").write_text(json.dumps(about | {"format": 2, "files": there}))
    rewrite(path, lambda manifest: None)


def as_format_1(path: Path) -> None:
    """What the version before wrote: one data folder, files named inside it."""
    about = manifest_of(path)
    data = about["graph"]["folder"].split("/")[0]
    new = ("base_nodes", "base_edges", "base_rows", "deltas", "folder", "dtype", "scale")
    old = lambda part: {k: v for k, v in part.items() if k not in new}  # noqa: E731
    files = {n.removeprefix(f"{data}/"): f for n, f in about["files"].items()}
    (path / "manifest.json").write_text(json.dumps({
        "format": 1, "mode": about["mode"], "encoder": about["encoder"], "data": data, "graph": old(about["graph"]),
        "collections": [old(c) for c in about["collections"]], "files": files,
    }))  # fmt: skip
    (path / "manifest.lock").unlink()


def test_the_text_index_is_saved_and_mapped(tmp_path, monkeypatch) -> None:
    engine = start().engine()
    engine.save(tmp_path)
    assert manifest_of(tmp_path)["lexical"] is None
    engine.text_search("red")
    engine.save(tmp_path)
    engine.upsert({"id": ["x"], "name": ["red fox"]})
    engine.save(tmp_path)
    assert manifest_of(tmp_path)["lexical"]["version"] == 0
    build = tercet.LexicalIndex.build
    made = build(engine.graph)

    def never(*args, **kwargs):
        raise AssertionError("built again")

    monkeypatch.setattr(tercet.LexicalIndex, "build", never)
    opened = tercet.open(tmp_path)
    assert opened.text_search("fox")[0].ids() == ["x"]
    index = kept_index(opened.graph)[1]
    assert index.vocabulary.equals(made.vocabulary)
    for name, array in made.arrays().items():
        assert array.dtype == index.arrays()[name].dtype
        assert (array == index.arrays()[name]).all()
    assert tercet.open(tmp_path, lexical=False).text_search("fox").status == ["no_hits"]
    with pytest.raises(AssertionError, match="built again"):
        tercet.open(tmp_path, lexical=["id"]).text_search("fox")
    opened.compact()
    opened.save(tmp_path)
    assert manifest_of(tmp_path)["lexical"]["version"] == 0
    again = tercet.open(tmp_path)
    assert isinstance(again.graph.__dict__["_lexical"][1].frequency, np.memmap)
    assert again.text_search("fox")[0].ids() == ["x"]
