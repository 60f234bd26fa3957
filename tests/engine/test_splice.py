"""Rows that go and come: against plain lists; what an update leaves alone is shared; larger graphs equal a rebuild."""

from dataclasses import fields

import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tercet import Collection, Engine, Graph, splice
from tercet.graph import Adjacency
from tercet.graph_update import changed
from tercet.splice import Splice
from tests.engine.test_graph_update import same

LISTS = ("source", "target", "out", "into", "oriented")
WEIGHTS = ("importance", "feedback", "edge_importance", "edge_feedback")


@st.composite
def changes(draw):
    """A number of rows, those that go, and the places of those that come."""
    size = draw(st.integers(0, 12))
    gone = draw(st.sets(st.integers(0, size - 1))) if size else set()
    return size, np.array(sorted(gone), np.int64), np.array(draw(st.lists(st.integers(0, size), max_size=6)), np.int64)


def plain(size: int, gone: np.ndarray, place: np.ndarray) -> list[int]:
    """Which of the old rows, then the new ones, stands in each row."""
    out: list[int] = []
    for i in range(size + 1):
        out += [size + int(k) for k in np.flatnonzero(place == i)]
        out += [i] * (i < size and i not in gone)
    return out


@given(changes(), st.booleans())
@settings(max_examples=300, deadline=None)
def test_equals_plain_lists(change, short) -> None:
    size, gone, place = change
    take = plain(*change)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(splice, "SHORT", 1000 if short else 0)
        patch.setattr(splice, "MOST", 1000 if short else 0)
        for made in (Splice.of(size, gone, place), Splice.taken(np.array(take, np.int64), size)):
            assert made.take.tolist() == take
            assert made.size == len(take)
            assert made.gone.tolist() == gone.tolist()
            assert made.row.tolist() == [take.index(i) if i in take else -1 for i in range(size)]
            assert made.rows(np.arange(size)).tolist() == made.row.tolist()
            assert made.moves == (len(gone) != len(place) or made.shifts)
            old, known = made.origin(np.arange(len(take)))
            assert [int(o) if k else None for o, k in zip(old, known, strict=True)] == [
                t if t < size else None for t in take
            ]
            both = [*range(100, 100 + size), *range(200, 200 + len(place))]
            want = [both[t] for t in take]
            values = torch.arange(100, 100 + size), np.arange(200, 200 + len(place))
            assert made.column(*values).tolist() == want
            texts = [pa.array([str(b) for b in part], pa.large_string()) for part in (both[:size], both[size:])]
            assert made.text(*texts).to_pylist() == [str(w) for w in want]


def test_values_that_look_alike_are_told_apart() -> None:
    made = Splice.of(2, np.array([1]), np.array([1]))
    column = made.column(torch.tensor([1.0, 0.0]), np.array([-0.0], np.float32))
    assert np.signbit(column.numpy()).tolist() == [False, True]
    assert np.signbit(made.text(pa.array([1.0, 0.0]), pa.array([-0.0])).to_numpy()).tolist() == [False, True]
    old = pa.array([1.0, 0.0])
    assert made.text(old, pa.array([0.0])) is old


def tables(rng: np.random.Generator, nodes: int, edges: int, hub: bool) -> tuple[dict, dict]:
    ids = [f"{i:05d}" for i in rng.permutation(3 * nodes)[:nodes]]
    source, target = (rng.integers(0, nodes, edges) for _ in range(2))
    if hub:
        target[: edges // 3] = 0
    return (
        {"id": ids, "name": [f"name {i}" for i in ids], "importance_weight": rng.random(nodes).round(1).tolist(),
         "belongs_to_set": [["a"] if i % 3 else ["b", "a"] for i in range(nodes)]},
        {"source": [ids[i] for i in source], "target": [ids[i] for i in target],
         "relation": [f"r{i}" for i in rng.integers(0, 9, edges)], "edge_text": [None] * edges,
         "weight": rng.random(edges).tolist(), "feedback_weight": rng.random(edges).round(1).tolist()},
    )  # fmt: skip


@pytest.mark.parametrize("hub", [False, True])
@pytest.mark.parametrize("order", ["canonical", "input"])
def test_larger_graphs_equal_a_rebuild(order: str, hub: bool) -> None:
    rng = np.random.default_rng(3 + hub)
    node_table, edge_table = tables(rng, 700, 3000, hub)
    nodes = dict(zip(node_table["id"], zip(*node_table.values(), strict=True), strict=True))
    edges = {k[:3]: k for k in zip(*(edge_table[n] for n in ("source", "relation", "target", "edge_text", "weight",
                                                             "feedback_weight")), strict=True)}  # fmt: skip

    def built() -> Graph:
        columns = zip(*edges.values(), strict=True)
        return Graph.from_tables(
            dict(zip(node_table, zip(*nodes.values(), strict=True), strict=True)),
            dict(zip(("source", "relation", "target", "edge_text", "weight", "feedback_weight"), columns, strict=True)),
            order=order,
        )  # fmt: skip

    graph = built()
    for step in range(12):
        ids, keys = list(nodes), list(edges)
        if step % 3 == 0:  # new nodes with edges, and edges between others
            fresh = [f"{rng.integers(0, 99999):05d}x{step}" for _ in range(9)]
            table = {"id": fresh, "name": fresh, "importance_weight": [0.3] * 9, "belongs_to_set": [["c"]] * 9}
            ends = [(str(rng.choice(fresh)), f"r{i}", str(rng.choice(ids))) for i in range(12)]
            ends = list(dict.fromkeys(ends + [(b, r, a) for a, r, b in ends[:5]]))
            more = [(*k, None, 0.5, 0.25) for k in ends]
            nodes |= dict(zip(fresh, zip(*table.values(), strict=True), strict=True))
            edges |= {m[:3]: m for m in more}
            names = ("source", "relation", "target", "edge_text", "weight", "feedback_weight")
            graph = changed(graph, table, dict(zip(names, zip(*more, strict=True), strict=True))).graph
        elif step % 3 == 1:  # nodes go, and some edges, the last row among them
            gone = [str(i) for i in rng.choice(ids, 2, replace=False)] + ([ids[1]] if hub else [])
            rows = np.array([graph.num_edges - 1, 17, 18])
            lost = {graph.triplet(int(e)) for e in rows}
            graph = changed(graph, deleted_nodes=graph.rows(gone), deleted_edges=rows).graph
            nodes = {i: n for i, n in nodes.items() if i not in gone}
            edges = {k: e for k, e in edges.items() if k not in lost and k[0] not in gone and k[2] not in gone}
        else:  # other weights
            picked = [keys[int(i)] for i in rng.choice(len(keys), 20, replace=False)]
            more = [(*k, None, 0.75, 0.5) for k in picked]
            edges |= {m[:3]: m for m in more}
            names = ("source", "relation", "target", "edge_text", "weight", "feedback_weight")
            graph = changed(graph, edges=dict(zip(names, zip(*more, strict=True), strict=True))).graph
        same(graph, built())


def start(order: str) -> Graph:
    return Graph.from_tables(*tables(np.random.default_rng(1), 60, 300, hub=False), order=order)


def shared(before: Graph, after: Graph) -> set[str]:
    """The fields that are the same object in both."""
    return {f.name for f in fields(Graph) if getattr(before, f.name) is getattr(after, f.name)}


@pytest.mark.parametrize("order", ["canonical", "input"])
def test_other_attributes_leave_the_structure_alone(order: str) -> None:
    graph = start(order)
    some = graph.ids.take(pa.array([3, 40])).to_pylist()
    change = changed(graph, {"id": some, "name": ["other", "names"]})
    kept = {*LISTS, *WEIGHTS, "relation", "relation_key", "edges", "relation_names", "keys", "set_names", "set_indptr",
            "set_member"}  # fmt: skip
    assert kept <= shared(graph, change.graph)
    assert (change.node_rows, change.key_rows, change.edges.runs) == (None, None, None)
    assert change.nodes.changed.tolist() == [3, 40]
    for name in ("id", "type", "text", "description"):
        assert same_memory(graph.nodes[name], change.graph.nodes[name])
    assert not same_memory(graph.nodes["name"], change.graph.nodes["name"])
    weighed = changed(graph, {"id": some, "importance_weight": [0.45, 0.46]}).graph
    assert shared(graph, weighed) >= kept - {"importance"} | {"nodes"}
    assert weighed.importance[[3, 40]].tolist() == [0.45, 0.46]
    again = changed(graph, {"id": some}).graph
    assert shared(graph, again) >= kept | {"nodes"}


@pytest.mark.parametrize("order", ["canonical", "input"])
def test_other_weights_of_edges_leave_the_structure_alone(order: str) -> None:
    graph = start(order)
    source, relation, target = zip(*(graph.triplet(e) for e in (5, 250)), strict=True)
    ends = {"source": source, "relation": relation, "target": target}
    change = changed(graph, edges=ends | {"importance_weight": [0.1, 0.2]})
    kept = {*LISTS, *WEIGHTS, "relation", "relation_key", "nodes", "edges", "relation_names", "keys", "set_indptr"}
    assert shared(graph, change.graph) >= kept - {"edge_importance"}
    assert change.graph.edge_importance[[5, 250]].tolist() == [0.1, 0.2]
    assert change.nodes.runs is None


def test_nodes_at_the_end_renumber_nothing() -> None:
    graph = start("canonical")
    change = changed(graph, {"id": ["zz"], "name": ["last"]})
    assert shared(graph, change.graph) >= {"source", "target", "edges", "relation", "edge_importance"}
    for name in ("out", "into", "oriented"):
        old, new = getattr(graph, name), getattr(change.graph, name)
        assert isinstance(new, Adjacency)
        assert new.edge.data_ptr() == old.edge.data_ptr()
        assert len(new.indptr) == 62


def test_vectors_and_attributes_leave_owners_and_bindings_alone() -> None:
    graph = start("canonical")
    rng = np.random.default_rng(2)
    ids = graph.ids.to_pylist()
    engine = Engine(graph, [
        Collection.build("a", rng.normal(size=(60, 4)), ids), Collection.build("b", rng.normal(size=(30, 4)), ids[::2]),
        Collection.build("r", rng.normal(size=(9, 4)), graph.keys, "relation"),
    ])  # fmt: skip
    first, bound = engine.graph, engine.bound
    engine.upsert(vectors={"a": (ids[4:6], rng.normal(size=(2, 4)))})
    assert engine.graph is first
    assert engine.bound[1:] == bound[1:]
    assert engine.bound[0].owner is bound[0].owner
    assert engine.bound[0].by_owner is bound[0].by_owner
    assert engine.collections[0].owner is bound[0].collection.owner
    bound = engine.bound
    engine.upsert({"id": ids[4:6], "name": ["x", "y"]})
    assert engine.bound == bound
    assert engine.topology.source is first.source
    engine.upsert({"id": ["zz"]})  # one owner more, whom nothing has
    assert engine.bound != bound
    engine.delete(["zz"])
    want = Engine(engine.graph, engine.collections)
    for made, anew in zip(engine.bound, want.bound, strict=True):
        assert torch.equal(made.owner, anew.owner)
        assert all(torch.equal(x, y) for x, y in zip(made.by_owner, anew.by_owner, strict=True))
        assert (made.distinct, made.identity) == (anew.distinct, anew.identity)


def test_a_text_index_stays_where_no_text_changes() -> None:
    engine = Engine(start("canonical"), [])
    found = engine.text_search(["name 3"], k=5).to_arrow()
    index, ids = engine.graph.__dict__["_lexical"][1], engine.graph.ids.to_pylist()
    engine.upsert({"id": ids[:2], "type": ["a", "b"], "importance_weight": [0.1, 0.2]})
    engine.upsert(edges={"source": ids[:1], "target": ids[1:2], "relation": ["new"]})
    assert engine.graph.__dict__["_lexical"][1] is index
    assert engine.text_search(["name 3"], k=5).to_arrow().equals(found)
    engine.upsert({"id": ids[:1], "name": ["other"]})
    assert "_lexical" not in engine.graph.__dict__
    assert engine.text_search(["other"], k=5).to_arrow()["id"].to_pylist() == ids[:1]


def same_memory(a: pa.ChunkedArray, b: pa.ChunkedArray) -> bool:
    held = [[None if x is None else x.address for x in column.chunk(0).buffers()] for column in (a, b)]
    return held[0] == held[1]


def test_what_was_found_out_stays_right() -> None:
    graph = start("canonical")
    queries = torch.from_numpy(np.random.default_rng(5).normal(size=(3, 4)).astype(np.float32))
    ids = graph.ids.to_pylist()
    vectors = Collection.build("a", np.random.default_rng(6).normal(size=(60, 4)), ids)
    engine = Engine(graph, [vectors])
    calls = [{"wide_search_top_k": 5}, {"wide_search_top_k": None}, {"wide_search_top_k": 5, "feedback_influence": 0.5}]
    for step in range(6):
        if step % 2:  # first the edge that weighs most, then it goes
            engine.delete(edges={"source": [ids[1]], "relation": ["heavy"], "target": [ids[2]]})
        else:
            engine.upsert({"id": [ids[step]], "importance_weight": [0.9]}, {
                "source": [ids[1]], "relation": ["heavy"], "target": [ids[2]], "importance_weight": [1.0]})  # fmt: skip
        anew = Engine(Graph.from_tables(*given_tables(engine.graph)), [vectors])
        for call in calls:
            got, want = (e.recall(vectors=queries, top_k=9, **call) for e in (engine, anew))
            assert got.texts() == want.texts()
            assert np.array_equal(np.asarray(got.scores), np.asarray(want.scores), equal_nan=True)


def given_tables(graph: Graph) -> tuple[dict, dict]:
    """Tables that make the same graph."""
    ends = [graph.triplet(e) for e in range(graph.num_edges)]
    return (
        {"id": graph.ids, "name": graph.nodes["name"], "importance_weight": graph.importance.numpy()},
        {"source": [e[0] for e in ends], "relation": [e[1] for e in ends], "target": [e[2] for e in ends],
         "importance_weight": graph.edge_importance.numpy(), "feedback_weight": graph.edge_feedback.numpy()},
    )  # fmt: skip


def test_kept_unknown_owners_are_bound_once() -> None:
    rng = np.random.default_rng(4)
    graph = start("input")
    ids = graph.ids.to_pylist()
    held = Collection.build("a", rng.normal(size=(61, 4)), [*ids, "nobody"], order="input")
    engine = Engine(graph, [held], mode="cognee")
    bound = engine.bound
    engine.upsert({"id": ids[:2], "description": ["x", "y"]})
    assert engine.bound is bound
    engine.upsert({"id": ["nobody"]})
    assert engine.bound[0].owner.tolist() == [*range(60), 60]
    engine.upsert(vectors={"a": ([ids[0]], rng.normal(size=(1, 4)))})
    assert engine.bound[0].owner.tolist() == [*range(1, 60), 60, 0]
