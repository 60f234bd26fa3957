"""Graphs from tables: ids, order, repeats, weights, what is refused."""

import itertools
import random

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tercet import Graph
from tercet.errors import InvalidArgument, InvalidData, TercetError, UnknownId
from tests.engine.small import graph

NONE = {"source": [], "target": [], "relation": []}


def rows(made):
    return [made.triplet(e) for e in range(made.num_edges)]


@pytest.mark.parametrize("make", [dict, pa.table, pd.DataFrame, pl.DataFrame])
def test_any_kind_of_table(make):
    nodes = {"id": ["b", "a", "c"], "name": ["B", None, "C"], "importance_weight": [0.1, None, 0.9], "size": [2, 1, 3]}
    edges = {"source": ["b", "a"], "target": ["c", "b"], "relation": ["r", "s"], "weight": [7.5, -1.0]}
    made = Graph.from_tables(make(nodes), make(edges))
    assert made.ids.to_pylist() == ["a", "b", "c"]
    assert rows(made) == [("a", "s", "b"), ("b", "r", "c")]
    assert made.importance.tolist() == [0.5, 0.1, 0.9]
    assert made.feedback.tolist() == [0.5] * 3
    assert made.nodes.column("name").to_pylist() == [None, "B", "C"]
    assert made.nodes.column("size").to_pylist() == [1, 2, 3]
    assert made.edges.column("weight").to_pylist() == [-1.0, 7.5]


@pytest.mark.parametrize("kind", ["int64", "uint64", "int8"])
def test_integer_ids_are_decimal_strings(kind):
    made = Graph.from_tables({"id": np.array([10, 9, 2], kind)}, {"source": [10], "target": ["9"], "relation": ["r"]})
    assert made.ids.to_pylist() == ["10", "2", "9"]
    assert rows(made) == [("10", "r", "9")]
    assert made.rows([2, "10", 7]).tolist() == [1, 0, -1]
    with pytest.raises(UnknownId, match="7"):
        made.row(7)


@pytest.mark.parametrize("bad", [[1.0, 2.0], [True, False], [b"a", b"b"], [None, "a"], ["\ud800", "a"]])
def test_ids_that_are_none(bad):
    with pytest.raises(InvalidData, match="id"):
        Graph.from_tables({"id": bad}, NONE)


def test_float_id_columns_are_refused():
    for column in (np.array([1.0, 2.0]), pa.array([1.0, 2.0])):
        with pytest.raises(InvalidData):
            Graph.from_tables({"id": column}, NONE)


def test_rows_follow_ids_as_strings():
    edges = [("10", "b", "9"), ("10", "B", "9"), ("10", "b", "10"), ("2", "a", "9"), ("9", "a", "2", "x")]
    want = [("10", "B", "9"), ("10", "b", "10"), ("10", "b", "9"), ("2", "a", "9"), ("9", "a", "2")]
    for order in itertools.permutations(edges):
        made = graph(order)
        assert made.ids.to_pylist() == ["10", "2", "9"]
        assert rows(made) == want
    assert rows(graph(edges, order="input")) == [e[:3] for e in edges]
    assert graph(edges, order="input").ids.to_pylist() == ["10", "9", "2"]


def test_edge_ids_and_texts_decide_among_parallel_edges():
    table = {
        "source": ["a"] * 5, "target": ["b"] * 5, "relation": ["r"] * 5,
        "id": ["9", "10", None, None, None], "edge_text": ["z", "z", "n", "m", "M"],
    }  # fmt: skip
    for order in itertools.permutations(range(5)):
        made = Graph.from_tables({"id": ["a", "b"]}, {n: [c[i] for i in order] for n, c in table.items()})
        kept = list(zip(made.edges.column("id").to_pylist(), made.edges.column("edge_text").to_pylist(), strict=True))
        assert kept == [(None, "M"), (None, "m"), (None, "n"), ("10", "z"), ("9", "z")]


def test_repeated_edges():
    nodes = {"id": ["a", "b"]}
    edges = {
        "source": ["a", "a", "a"], "target": ["b", "b", "b"], "relation": ["r", "r", "r"],
        "importance_weight": [0.2, 0.9, None], "feedback_weight": [0.7, 0.1, 0.3],
    }  # fmt: skip
    made = Graph.from_tables(nodes, edges)
    assert made.num_edges == 1
    assert (made.edge_importance.tolist(), made.edge_feedback.tolist()) == ([0.9], [0.7])
    assert made.report.merged_edges == 2
    assert Graph.from_tables(nodes, edges, duplicates="keep").num_edges == 3
    assert Graph.from_tables(nodes, edges, order="input").num_edges == 3
    assert Graph.from_tables(nodes, edges, order="input", duplicates="merge").num_edges == 1
    with pytest.raises(InvalidData, match="twice"):
        Graph.from_tables(nodes, edges, duplicates="error")
    assert Graph.from_tables(nodes, {**edges, "edge_text": ["x", "y", "y"]}).num_edges == 2
    assert (
        Graph.from_tables(nodes, {**edges, "edge_text": ["A b", "a_b", "a b"]}).num_edges == 3
    )  # one key, three texts
    assert Graph.from_tables(nodes, {**edges, "id": ["1", "2", None]}).num_edges == 3
    with pytest.raises(InvalidData, match=r"edge id given twice.*first 1"):
        Graph.from_tables(nodes, {**edges, "id": ["1", "1", "2"]})


def test_relation_keys():
    edges = {
        "source": ["a"] * 6, "target": ["b"] * 6, "relation": ["Works At", "works_at", "WORKS'AT", None, " ", "x"],
        "edge_text": [None, "", None, None, None, " It's so "],
    }  # fmt: skip
    made = Graph.from_tables({"id": ["a", "b"]}, edges)
    keys = made.keys.to_pylist()
    assert keys == sorted(keys)
    of = {made.triplet(e)[1]: int(made.relation_key[e]) for e in range(made.num_edges)}
    assert {label: keys[k] if k >= 0 else None for label, k in of.items()} == {
        "Works At": "works_at", "works_at": "works_at", "WORKS'AT": "worksat", "": None, " ": None, "x": "its_so",
    }  # fmt: skip


@pytest.mark.parametrize("column", ["importance_weight", "feedback_weight"])
@pytest.mark.parametrize("bad", [1.001, -0.001, float("inf"), float("nan"), "0.5", True])
def test_weights_outside_their_range(column, bad):
    for good in (0, 1, 0.5, None, np.float32(0.25)):
        Graph.from_tables({"id": ["a"], column: [good]}, NONE)
    with pytest.raises(InvalidData, match=rf"{column}.*first 1"):
        Graph.from_tables({"id": ["a", "b"], column: [0.5, bad]}, NONE)
    edges = {"source": ["a"] * 2, "target": ["b"] * 2, "relation": ["r", "s"], column: [None, bad]}
    with pytest.raises(InvalidData, match=rf"{column}.*first 1"):
        Graph.from_tables({"id": ["a", "b"]}, edges)


def test_edges_without_an_end():
    edges = {"source": ["a", "x", "a", None], "target": ["b", "b", "y", "b"], "relation": ["r"] * 4}
    with pytest.raises(InvalidData, match=r"source is no node: 2 rows, first 1, 3.*target is no node: 1 row, first 2"):
        Graph.from_tables({"id": ["a", "b"]}, edges)
    made = Graph.from_tables({"id": ["a", "b"]}, edges, bad_rows="skip")
    assert rows(made) == [("a", "r", "b")]
    assert made.report.skipped_edges == [1, 2, 3]
    assert "first 1, 3" in str(made.report)


def test_messages_count_and_show_the_first_rows():
    with pytest.raises(InvalidData, match=r"100 rows, first 0, 1, 2, 3, 4 \(bad_rows"):
        Graph.from_tables({"id": list(range(100)), "importance_weight": [2.0] * 100}, NONE)


@pytest.mark.parametrize(
    ("nodes", "edges", "options"),
    [
        ({"name": ["a"]}, NONE, {}),
        ({"id": ["a"]}, {"source": ["a"], "target": ["a"]}, {}),
        ({"id": ["a"]}, NONE, {"order": "sorted"}),
        ({"id": ["a"]}, NONE, {"duplicates": "drop"}),
        ({"id": ["a"]}, NONE, {"bad_rows": "ignore"}),
        ({"id": ["a"]}, NONE, {"missing": "raise"}),
        ([["a"]], NONE, {}),
        ({"id": ["a", "b"], "name": ["a"]}, NONE, {}),
        ({"id": ["a"], "name": [5]}, NONE, {}),
        ({"id": ["a"], "belongs_to_set": ["s"]}, NONE, {}),
    ],
)
def test_wrong_calls(nodes, edges, options):
    with pytest.raises((InvalidArgument, InvalidData)):
        Graph.from_tables(nodes, edges, **options)


def test_sets():
    nodes = {"id": ["a", "b", "c", "d"], "belongs_to_set": [["s", "t"], ["s", "s"], None, ["t"]]}
    made = Graph.from_tables(nodes, NONE)
    assert made.set_mask(["s"], "OR").tolist() == [True, True, False, False]
    assert made.set_mask(["s", "t"], "OR").tolist() == [True, True, False, True]
    assert made.set_mask(["s", "t"], "AND").tolist() == [True, False, False, False]
    assert made.set_mask(["s", "s"], "AND").tolist() == [True, True, False, False]
    assert made.set_mask(["s", "no"], "AND").tolist() == [False] * 4
    assert made.set_mask(["no"], "OR").tolist() == [False] * 4


@given(st.integers(0, 2**32), st.integers(1, 12), st.integers(0, 40))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_adjacency(seed, size, count):
    rng = random.Random(seed)
    table = [(f"n{rng.randrange(size)}", f"r{rng.randrange(3)}", f"n{rng.randrange(size)}") for _ in range(count)]
    made = graph(table, [f"n{i}" for i in range(size)])
    source, target = made.source.tolist(), made.target.tolist()
    seen = []
    for lists, near, far in ((made.out, source, target), (made.into, target, source)):
        assert lists.indptr[-1] == made.num_edges
        for node in range(size):
            part = slice(int(lists.indptr[node]), int(lists.indptr[node + 1]))
            assert lists.edge[part].tolist() == [e for e in range(made.num_edges) if near[e] == node]
            assert lists.other[part].tolist() == [far[e] for e in lists.edge[part].tolist()]
    degree = np.bincount(source + target, minlength=size)
    for node in range(size):
        part = slice(int(made.oriented.indptr[node]), int(made.oriented.indptr[node + 1]))
        for e, other in zip(made.oriented.edge[part].tolist(), made.oriented.other[part].tolist(), strict=True):
            seen.append(e)
            assert sorted((node, other)) == sorted((source[e], target[e]))
            assert (degree[node], node) <= (degree[other], other)
    assert sorted(seen) == list(range(made.num_edges))
    assert rows(made) == sorted(set(table))


def test_errors_are_also_of_the_built_in_kind():
    with pytest.raises(ValueError, match="id") as raised:
        Graph.from_tables({"id": [1.5]}, NONE)
    assert isinstance(raised.value, TercetError)
    with pytest.raises(KeyError, match="no node"):
        graph([("a", "r", "b")]).row("c")
