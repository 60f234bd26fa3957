"""Changed graphs: equal, bit for bit, to graphs built from the changed tables."""

from dataclasses import fields

import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tercet import Graph, neighbour_lists, splice
from tercet.errors import InvalidArgument, InvalidData
from tercet.graph import Adjacency
from tercet.graph_update import Change, changed

NODE_COLUMNS = {
    "id": pa.large_string(), "name": pa.large_string(), "type": pa.large_string(), "text": pa.large_string(),
    "description": pa.large_string(), "size": pa.int64(), "labels": pa.list_(pa.string()),
    "importance_weight": pa.float64(), "feedback_weight": pa.float64(),
    "belongs_to_set": pa.large_list(pa.large_string()),
}  # fmt: skip
EDGE_COLUMNS = {
    "source": pa.large_string(), "target": pa.large_string(), "relation": pa.large_string(), "id": pa.large_string(),
    "edge_text": pa.large_string(), "status": pa.large_string(), "superseded": pa.bool_(), "weight": pa.float64(),
    "importance_weight": pa.float64(), "feedback_weight": pa.float64(),
}  # fmt: skip
IDS = ["", "a", "aa", "b", "é", "z", "10", "9"]
maybe = lambda *values: st.sampled_from([None, *values])  # noqa: E731
NODE = {
    "name": maybe("", "A", "B"), "type": maybe("T"), "text": maybe("some words about some words", ""),
    "description": maybe("d"), "size": maybe(1, 2), "labels": maybe([], ["x"], ["x", "y"]),
    "importance_weight": maybe(0.1, 1.0), "feedback_weight": maybe(0.9),
    "belongs_to_set": maybe([], ["s"], ["t", "s"], ["t", "t"]),
}  # fmt: skip
EDGE = {
    "edge_text": maybe("", " ", "It is", "it_is", "long text"), "status": maybe("[current]"),
    "superseded": st.booleans(), "weight": maybe(1.5, -2.0), "importance_weight": maybe(0.0, 0.7),
    "feedback_weight": maybe(0.3),
}  # fmt: skip


def same(a: Graph, b: Graph) -> None:
    """Every field of two graphs is equal, to the last bit."""
    for f in fields(Graph):
        if f.name in ("report", "options"):
            continue
        x, y = getattr(a, f.name), getattr(b, f.name)
        pairs = [(x, y)]
        if isinstance(x, Adjacency):
            pairs = [(getattr(x, n), getattr(y, n)) for n in ("indptr", "edge", "other")]
        for one, other in pairs:
            if isinstance(one, (torch.Tensor, np.ndarray)):
                assert one.dtype == other.dtype, f.name
                assert np.array_equal(
                    np.asarray(one), np.asarray(other), equal_nan=np.asarray(one).dtype.kind == "f"
                ), f.name
            elif isinstance(one, (pa.Table, pa.Array)):
                assert one.equals(other), (f.name, one, other)
            else:
                assert one == other, f.name


def table(rows: list[dict], columns: dict) -> pa.Table:
    return pa.table({n: pa.array([r.get(n) for r in rows], kind) for n, kind in columns.items()})


def build(nodes: dict, edges: dict, **options) -> Graph:
    return Graph.from_tables(
        table(list(nodes.values()), NODE_COLUMNS), table(list(edges.values()), EDGE_COLUMNS), **options
    )


def identity(edge: dict):
    return ("id", edge["id"]) if edge.get("id") is not None else tuple(
        edge.get(n) for n in ("source", "relation", "target", "edge_text"))  # fmt: skip


@st.composite
def steps(draw):
    """A few updates: what is deleted, then what is given, as far as it makes sense when its turn comes."""
    some = lambda columns: {n: draw(s) for n, s in columns.items()}  # noqa: E731
    end, label, edge_id = st.sampled_from(IDS), maybe("r", "R", "works at", ""), maybe("e1", "e2", "e3")
    out = []
    for _ in range(draw(st.integers(1, 4))):
        if draw(st.booleans()):
            out.append(("delete", draw(st.lists(end, max_size=3)), draw(st.lists(st.integers(0, 20), max_size=3))))
        else:
            kept = draw(st.sets(st.sampled_from(sorted(NODE)), max_size=9))
            nodes = [{"id": i} | {n: v for n, v in some(NODE).items() if n in kept}
                     for i in draw(st.lists(end, max_size=4, unique=True))]  # fmt: skip
            named = draw(st.sets(st.sampled_from(sorted(EDGE)), max_size=6))
            edges = [
                {"source": draw(end), "relation": draw(label), "target": draw(end), "id": draw(edge_id)}
                | {n: v for n, v in some(EDGE).items() if n in named}
                for _ in range(draw(st.integers(0, 5)))
            ]
            out.append(("upsert", nodes, kept, edges, named))
    return out


def carried(before: Graph, change: Change) -> None:
    """Rows that are said to be those of before hold the same, and ascend."""
    for rows, old, new in (
        (change.nodes, before.nodes, change.graph.nodes),
        (change.edges, before.edges, change.graph.edges),
    ):
        row = np.arange(new.num_rows) if rows.row is None else rows.row
        assert len(row) == new.num_rows
        at = np.flatnonzero(row >= 0)
        assert (np.diff(row[at]) > 0).all()
        for name in old.schema.names:
            assert old[name].take(pa.array(row[at])).to_pylist() == new[name].take(pa.array(at)).to_pylist()
        if rows is change.edges:
            ends = [[g.triplet(int(e)) for e in r] for g, r in ((before, row[at]), (change.graph, at))]
            assert ends[0] == ends[1]
        assert rows.changed.tolist() == np.flatnonzero(row < 0).tolist()


@given(steps(), st.sampled_from(["canonical", "input"]), st.sampled_from(["text", "edge"]), st.sampled_from(
    ["fallback", "none"]), st.booleans(), st.booleans())  # fmt: skip
@settings(max_examples=400, deadline=None, derandomize=True)
def test_equals_a_rebuild(given_steps, order, edge_keys, missing, strip, few) -> None:
    with pytest.MonkeyPatch.context() as patch:
        if few:  # as in large graphs: all lists are kept up, all columns copied in stretches
            patch.setattr(neighbour_lists, "FEW", 0)
            patch.setattr(splice, "SHORT", 0)
        follow(given_steps, order, edge_keys, missing, strip)


def follow(given_steps, order, edge_keys, missing, strip) -> None:
    """Make the changes, and build each graph anew beside them."""
    options = {"order": order, "edge_keys": edge_keys, "missing": missing, "strip": strip}
    nodes = {i: {"id": i, "name": i.upper()} for i in IDS[:4]}
    edges = {identity(e): e for e in [
        {"source": "a", "relation": "r", "target": "b", "superseded": False},
        {"source": "a", "relation": "r", "target": "b", "edge_text": "It is", "id": "e2", "superseded": True},
    ]}  # fmt: skip
    graph = build(nodes, edges, **options)
    assert "_index" in graph.__dict__ or graph.index
    for step in given_steps:
        assert "_index" in graph.__dict__  # handed from version to version
        before = graph.ids.to_pylist(), graph.keys.to_pylist()
        if step[0] == "delete":
            gone = [i for i in dict.fromkeys(step[1]) if i in nodes]
            dropped = sorted({e for e in step[2] if e < graph.num_edges})
            keys = {e: identity(dict(zip(("source", "relation", "target"), graph.triplet(e), strict=True)) | {
                "id": graph.edges["id"][e].as_py(), "edge_text": graph.edges["edge_text"][e].as_py(),
                "relation": graph.relation_column[e].as_py(),
            }) for e in dropped}  # fmt: skip
            got = changed(graph, deleted_nodes=graph.rows(gone), deleted_edges=np.array(dropped, np.int64))
            for key in keys.values():
                del edges[key]
            nodes = {i: n for i, n in nodes.items() if i not in gone}
            edges = {k: e for k, e in edges.items() if e["source"] not in gone and e["target"] not in gone}
        else:
            _, fresh, kept, more, named = step
            known = {*nodes, *(n["id"] for n in fresh)}
            more = [e for e in more if e["source"] in known and e["target"] in known]
            seen: dict = {}
            for e in more:
                seen.setdefault(identity(e), e)  # each edge once in a call
            more = list(seen.values())
            node_table = table(fresh, {n: k for n, k in NODE_COLUMNS.items() if n in {"id", *kept}})
            edge_table = table(
                more, {n: k for n, k in EDGE_COLUMNS.items() if n in {"source", "relation", "target", "id", *named}}
            )
            got = changed(graph, node_table, edge_table)
            for n in fresh:
                nodes[n["id"]] = nodes.get(n["id"], {}) | n
            for e in more:
                edges[identity(e)] = edges.get(identity(e), {"superseded": False}) | e
        if graph.options == got.graph.options:
            carried(graph, got)
        graph = got.graph
        want = build(nodes, edges, **options)
        same(graph, want)
        assert graph.index.ids.equals(want.ids)
        assert order == "canonical" or graph.index.order.tolist() == want.index.order.tolist()
        for rows, old, after in (
            (got.node_rows, before[0], graph.ids.to_pylist()), (got.key_rows, before[1], graph.keys.to_pylist()),
        ):  # fmt: skip
            now = range(len(old)) if rows is None else rows
            assert [after[k] if k >= 0 else None for k in now] == [x if x in after else None for x in old]


def edges_of(graph: Graph) -> list[tuple]:
    return [(*graph.triplet(e), graph.edges["id"][e].as_py()) for e in range(graph.num_edges)]


def test_what_stays_and_what_is_replaced() -> None:
    graph = Graph.from_tables(
        {"id": ["a", "b"], "name": ["A", "B"], "size": [1, 2], "importance_weight": [0.1, 0.2]},
        {"source": ["a"], "target": ["b"], "relation": ["r"], "weight": [3.0]},
    )
    got = changed(graph, {"id": ["b", "aa"], "size": [5, None], "colour": ["red", None]}).graph
    assert got.nodes.select(["id", "name", "size", "colour", "context_title"]).to_pylist() == [
        {"id": "a", "name": "A", "size": 1, "colour": None, "context_title": "A"},
        {"id": "aa", "name": None, "size": None, "colour": None, "context_title": "aa"},
        {"id": "b", "name": "B", "size": 5, "colour": "red", "context_title": "B"},
    ]
    assert got.importance.tolist() == [0.1, 0.5, 0.2]
    assert edges_of(got) == [("a", "r", "b", None)]
    assert graph.num_nodes == 2  # the graph before is as it was
    with pytest.raises(InvalidData, match=r"nodes\.size: the graph's column holds int64"):
        changed(graph, {"id": ["a"], "size": ["large"]})


def test_kept_repeats_are_replaced_together() -> None:
    edges = {"source": ["a", "b", "a"], "relation": ["r"] * 3, "target": ["b", "a", "b"], "weight": [1.0, 2.0, 3.0]}
    graph = Graph.from_tables({"id": ["b", "a"]}, edges, order="input")
    one = {"source": ["a"], "relation": ["r"], "target": ["b"], "weight": [9.0]}
    got = changed(graph, edges=one).graph
    assert got.edges["weight"].to_pylist() == [9.0, 2.0]
    twice = {n: v * 2 for n, v in one.items()} | {"weight": [7.0, 8.0]}
    assert changed(graph, edges=twice).graph.edges["weight"].to_pylist() == [7.0, 2.0, 8.0]
    merged = changed(Graph.from_tables({"id": ["b", "a"]}, one), edges=twice | {"importance_weight": [0.2, 0.3]}).graph
    assert (merged.num_edges, merged.edge_importance.tolist()) == (1, [0.3])
    strict = Graph.from_tables({"id": ["b", "a"]}, one, duplicates="error")
    assert changed(strict, edges=one).graph.num_edges == 1
    with pytest.raises(InvalidData, match="twice"):
        changed(strict, edges=twice)


def test_deleting_and_giving_at_once() -> None:
    graph = Graph.from_tables({"id": ["a", "b", "c"]}, {"source": ["a"], "relation": ["r"], "target": ["b"]})
    got = changed(graph, {"id": ["a0"]}, {"source": ["a0"], "relation": ["s"], "target": ["c"]}, graph.rows(["a"]))
    assert got.node_rows.tolist() == [-1, 1, 2]
    assert got.key_rows.tolist() == [-1]
    assert edges_of(got.graph) == [("a0", "s", "c", None)]
    with pytest.raises(InvalidArgument, match="CPU"):
        changed(graph.to("meta"), {"id": ["a"]})
