"""Filters by label and property, with the nodes they find worked out by hand."""

import datetime
import json

import numpy as np
import pyarrow as pa
import pytest
import torch

from tercet import Graph, matching
from tercet.errors import InvalidArgument, InvalidData, InvalidFilter
from tercet.filters import both
from tercet.matching import LabelFilter, PropertyFilter, PropertyFilterGroup, filter_masks, match_nodes

F, G = PropertyFilter, PropertyFilterGroup
NO_EDGES = {"source": [], "target": [], "relation": []}
B = 2**53


def of(values, **columns):
    """A graph with a node for each dict of properties."""
    ids = {"id": list(range(len(values))), "properties": [json.dumps(v) for v in values], **columns}
    return Graph.from_tables(ids, NO_EDGES, order="input")


def rows(graph, labels=None, properties=None, mode="native"):
    mask = match_nodes(graph, labels, properties, mode=mode)
    assert (mask.dtype, mask.shape) == (bool, (graph.num_nodes,))
    return np.flatnonzero(mask).tolist()


P = [None, True, False, 0, 2, 2.0, 2.5, "2", "a", "Éa", "ÉA", "[1,2]", [1, 2], {"b": 1, "a": 2}, "", B + 1, float(B)]


@pytest.fixture(scope="module")
def made():
    return of([{"p": v} for v in P] + [{}])  # the last row, 17, has no p


@pytest.mark.parametrize(
    ("condition", "native", "grafito"),
    [
        (2, [4, 5], None), ("2", [7], None), (True, [1], None), (0, [2, 3], None), (None, [0, 17], None),
        (B, [16], None), (B + 1, [15], None), (float(B), [16], None), ("[1,2]", [11], [11, 12]),
        ([2, "a", None], [0, 4, 5, 8, 17], []), ([1, 2], [1, 4, 5], [11, 12]), ((1, 2), [1, 4, 5], [11, 12]),
        ([[1, 2]], [12], []), ([], [], []), ([[1.0, 2]], [12], []),
        ({"a": 2, "b": 1}, [13], []), ({"b": 1, "a": 2}, [13], []), ({"a": 2}, [], []),
        (F.gt(1), [4, 5, 6, 15, 16], None), (F.gte(True), [1, 4, 5, 6, 15, 16], None), (F.lt(2), [1, 2, 3], None),
        (F.lte(2), [1, 2, 3, 4, 5], None), (F.gt(B), [15], None), (F.gt(float(B)), [15], None),
        (F.lt(B + 1), [1, 2, 3, 4, 5, 6, 16], None), (F.gt(2**70), [], None),
        (F.gt(-(2**70)), [1, 2, 3, 4, 5, 6, 15, 16], None),
        (F.gt("2"), [8, 9, 10, 11], [8, 9, 10, 11, 12, 13]), (F.lte("2"), [7, 14], None),
        (F.gt("b"), [9, 10], [9, 10, 13]),
        (F.between(2, 2.5), [4, 5, 6], None), (F.between(2.5, 2), [], None),
        (F.between("", "a"), [7, 8, 11, 14], [7, 8, 11, 12, 14]),
        (F.ne(2), [i for i in range(18) if i not in (4, 5)], None), (F.ne("x"), list(range(18)), None),
        (F.ne(None), list(range(1, 17)), [0, 17]),
        (F.contains("2"), [4, 5, 6, 7, 11, 12, 13, 15, 16], None),
        (F.contains(""), list(range(3, 17)), list(range(1, 17))), (F.contains(".0"), [5, 16], None),
        (F.contains("1"), [11, 12, 13, 15, 16], [1, 11, 12, 13, 15, 16]), (F.contains("e+"), [], [16]),
        (F.contains("éA", case_sensitive=False), [9, 10], []), (F.contains("É"), [9, 10], None),
        (F.contains("A", case_sensitive=False), [8, 9, 10, 13], None), (F.contains('"b"'), [13], None),
        (F.contains("é", case_sensitive=False), [9, 10], []),
        (F.starts_with("2"), [4, 5, 6, 7], None), (F.starts_with("[1"), [11, 12], None),
        (F.starts_with("É", case_sensitive=False), [9, 10], []), (F.ends_with("A"), [10], None),
        (F.ends_with("A", case_sensitive=False), [8, 9, 10], None), (F.ends_with(""), list(range(3, 17)), [14]),
        (F.ends_with("", case_sensitive=False), list(range(3, 17)), list(range(1, 17))),
        (F.regex("^2$"), [4, 7], None), (F.regex("^[01]$"), [3], [1, 2, 3]), (F.regex("(?=.a)É"), [9], None),
        (F.regex("éa", case_sensitive=False), [9, 10], None), (F.regex(r"^2\.[05]"), [5, 6], None),
    ],
)  # fmt: skip
def test_conditions(made, condition, native, grafito):
    assert rows(made, properties={"p": condition}) == native
    assert rows(made, properties={"p": condition}, mode="grafito") == (native if grafito is None else grafito)


def test_a_dict_is_all_of_its_keys():
    graph = of([{"a": 1, "b": {"c": 1}}, {"a": 1}, {"b": {"c": 1}}, {"a": 1, "b": {"c": 2}}])
    for mode in ("native", "grafito"):
        assert rows(graph, None, {"a": 1, "b.c": 1}, mode) == [0]
        assert rows(graph, None, {"a": 1, "b.c": None}, mode) == [1]
        assert rows(graph, None, {"a": 1, "b": {"c": 2}}, mode) == [3]
        assert rows(graph, None, G.or_({"a": 1, "b": {"c": 2}}, {"a": None}), mode) == [2, 3]
        assert rows(graph, None, G.and_({"a": 1}, {"b.c": F.gt(0)}), mode) == [0, 3]
        assert rows(graph, None, G.and_(G.or_({"a": None}, {"b": None}), {"b.c": 1}), mode) == [2]
        assert rows(graph, None, {}, mode) == rows(graph, None, None, mode) == [0, 1, 2, 3]


def test_groups_that_only_grafito_takes():
    graph = of([{"p": 1}, {"p": 2}])
    for properties, wanted in (
        ({"x": G.or_({"p": 1})}, [0]), (G.or_({}, {"p": 1}), [0]), (G.or_({}), [0, 1]), (G.and_({}, {"p": 2}), [1]),
        ({"p": F.gt(None)}, []), ({"p": F.between(1, "a")}, [0, 1]), ({"p": F.between("", 5)}, []),
        ({"p": F.between(None, 5)}, []), ({"p": F.ne(float("nan"))}, []), ({"p": F.lt(float("nan"))}, []),
    ):  # fmt: skip
        assert rows(graph, None, properties, "grafito") == wanted
        with pytest.raises(InvalidFilter, match="properties"):
            match_nodes(graph, None, properties)


LABELS = [["A"], ["A", "B"], ["b"], [], ["É"]]


@pytest.mark.parametrize(
    ("labels", "native", "grafito"),
    [
        (["a"], [0, 1], None), (["A", "b"], [1], None), (("B",), [1, 2], None), (["A", "a"], [0, 1], []),
        (["A", "A"], [0, 1], []), (LabelFilter.all(["a", "A"]), [0, 1], []),
        (LabelFilter.any(["a", "A", "b"]), [0, 1, 2], None), (["A", "nope"], [], None),
        (LabelFilter.any(["nope", "B"]), [1, 2], None),
        (["é"], [], None), (["É"], [4], None),
        ([], [0, 1, 2, 3, 4], None), (None, [0, 1, 2, 3, 4], None),
    ],
)  # fmt: skip
def test_labels(labels, native, grafito):
    graph = of([{}] * 5, labels=LABELS)
    assert rows(graph, labels) == native
    assert rows(graph, labels, mode="grafito") == (native if grafito is None else grafito)


def test_a_plain_string_for_labels():
    graph = of([{}] * 5, labels=LABELS)
    assert rows(graph, "AB", mode="grafito") == [1]
    with pytest.raises(InvalidArgument, match="labels"):
        match_nodes(graph, "AB")


def test_columns_and_labels_together():
    columns = {
        "year": pa.array([1999, 2001, None, B + 1, 2**62 + 1]),
        "day": [datetime.date(2024, 1, i + 1) for i in range(5)],
    }
    graph = of([{"year": "no"}] * 5, labels=LABELS, **columns)
    assert rows(graph, ["A"], {"year": F.gt(2000)}) == [1]
    assert rows(graph, None, {"year": F.gt(float(B))}) == [3, 4]
    assert rows(graph, None, {"year": 2**62}) == []
    assert rows(graph, None, {"year": np.int64(2**62 + 1)}) == [4]
    assert rows(graph, None, {"year": "no"}) == [2]
    assert rows(graph, None, {"day": F.gte(datetime.date(2024, 1, 4))}) == [3, 4]
    assert rows(graph, None, {"day": datetime.date(2024, 1, 1)}) == [0]


@pytest.mark.parametrize(
    "make",
    [
        lambda: F.gt([1]), lambda: F.ne({"a": 1}), lambda: F.between(1, object()), lambda: F.contains(2),
        lambda: F.contains(None), lambda: F.regex("("), lambda: F.regex(3), lambda: F.gt("1", expected_type=int),
        lambda: F.between(1, "a", expected_type=int), lambda: F.gt(1, expected_type="int"), G.or_, G.and_,
        lambda: G.or_("x"), lambda: G.or_({"bad key": 1}), lambda: G.or_({1: 1}), lambda: G.or_({"a": object()}),
        lambda: G.or_({"a": [object()]}), lambda: LabelFilter.any([]), lambda: LabelFilter.all("AB"),
        lambda: LabelFilter.any([1]), lambda: F("above", (1,)), lambda: G("xor", ()),
    ],
)  # fmt: skip
def test_filters_that_cannot_be_made(make):
    with pytest.raises(InvalidFilter):
        make()


def test_expected_types():
    assert F.gt(True, expected_type=int) == F.gt(True)
    assert F.gt(1, expected_type=(int, float)) == F.gt(1)


@pytest.mark.parametrize("mode", ["native", "grafito"])
@pytest.mark.parametrize(
    ("properties", "error"),
    [
        ({"bad key": 1}, InvalidFilter),
        ([{"a": 1}], InvalidFilter),
        ("a", InvalidFilter),
        ({"a": {1, 2}}, InvalidFilter),
    ],
)
def test_what_is_no_filter(made, mode, properties, error):
    with pytest.raises(error, match=r"propert|bad key"):
        match_nodes(made, None, properties, mode=mode)


def test_an_unknown_mode(made):
    for call in (lambda: match_nodes(made, mode="neo"), lambda: filter_masks(made, 1, mode="neo")):
        with pytest.raises(InvalidArgument, match="mode"):
            call()


def test_filters_are_values():
    tags = ["x"]
    one = G.or_({"b": F.gt(1), "a": tags}, {"c": {"d": 1}})
    assert one == G.or_({"a": ["x"], "b": F.gt(1)}, {"c": {"d": 1}})
    assert hash(one) == hash(G.or_({"a": ["x"], "b": F.gt(1)}, {"c": {"d": 1}}))
    assert one != G("and", one.of)
    assert one != G.or_({"a": ["y"], "b": F.gt(1)}, {"c": {"d": 1}})
    tags.append("y")
    assert one == G.or_({"a": ["x"], "b": F.gt(1)}, {"c": {"d": 1}})


def test_masks_are_kept_and_bounded(monkeypatch):
    graph = of([{"p": i} for i in range(5)])
    first = match_nodes(graph, None, {"p": F.gt(1)})
    assert match_nodes(graph, None, G.and_({"p": F.gt(1)})) is first
    assert match_nodes(graph, None, {"p": F.gt(1)}, mode="grafito") is not first
    with pytest.raises(ValueError, match="read-only"):
        first[0] = True
    monkeypatch.setattr(matching, "_KEPT_BYTES", 100)
    masks = [match_nodes(graph, None, {"p": i}) for i in range(30)]
    assert len(graph.__dict__["_filter_masks"]) == 100 // 5
    assert match_nodes(graph, None, {"p": 29}) is masks[29]
    assert match_nodes(graph, None, {"p": 0}) is not masks[0]


class TestForEachQuery:
    @pytest.fixture
    def graph(self):
        return of([{"p": i} for i in range(5)], labels=LABELS)

    def held(self, filters, queries):
        assert filters.row.dtype == torch.int32
        return [None if r < 0 else filters.masks[r].nonzero().flatten().tolist() for r in filters.row.tolist()][
            :queries
        ]

    def test_one_for_all(self, graph):
        for labels in (["A"], ("A",), LabelFilter.any(["A"])):
            filters = filter_masks(graph, 3, labels, {"p": F.gt(0)})
            assert filters.masks.shape == (1, 5)
            assert self.held(filters, 3) == [[1]] * 3

    def test_none(self, graph):
        for labels, properties in (
            (None, None),
            ([], {}),
            ([None] * 3, [{}, None, {}]),
            ([[], None, ()], None),
            ([], []),
        ):
            filters = filter_masks(graph, 3, labels, properties)
            assert filters.masks.shape == (0, 5)
            assert self.held(filters, 3) == [None] * 3

    def test_a_list(self, graph):
        labels = [["A"], None, LabelFilter.any(["A", "B"]), ["A"], None]
        properties = [{"p": 1}, None, G.or_({"p": F.lt(2)}, {"p": 4}), {"p": 1}, {"p": 3}]
        filters = filter_masks(graph, 5, labels, properties)
        assert self.held(filters, 5) == [[1], None, [0, 1], [1], [3]]
        assert filters.masks.shape == (3, 5)
        assert self.held(filter_masks(graph, 5, labels, {"p": F.gt(0)}), 5) == [
            [1],
            [1, 2, 3, 4],
            [1, 2],
            [1],
            [1, 2, 3, 4],
        ]
        assert self.held(filter_masks(graph, 2, "AB", mode="grafito"), 2) == [[1], [1]]

    @pytest.mark.parametrize(
        ("labels", "properties", "message"),
        [
            ([["A"]], None, "filter_labels: .* 2 queries, got 1"),
            (None, [{}] * 3, "filter_props: .* 2 queries, got 3"),
            ([["A"], [1]], None, "filter_labels of query 1"), ([["A"], "A"], None, "filter_labels of query 1"),
            (None, [{}, {"p": object()}], "filter_props of query 1"), (None, [None, 7], "filter_props of query 1"),
            ("A", None, "filter_labels"), ([1], None, "filter_labels"), (None, "p", "filter_props"),
        ],
    )  # fmt: skip
    def test_what_is_refused(self, graph, labels, properties, message):
        with pytest.raises(InvalidArgument, match=message):
            filter_masks(graph, 2, labels, properties)

    def test_with_other_filters(self, graph):
        first = filter_masks(graph, 4, [["A"], None, ["A"], None])
        second = filter_masks(graph, 4, None, [{"p": F.gt(0)}, {"p": F.gt(0)}, None, None])
        for pair in ((first, second), (second, first)):
            assert self.held(both(*pair), 4) == [[1], [1, 2, 3, 4], [0, 1], None]
        nothing = filter_masks(graph, 4)
        assert self.held(both(first, nothing), 4) == self.held(both(nothing, first), 4) == self.held(first, 4)
        assert self.held(both(nothing, nothing), 4) == [None] * 4


def test_a_broken_row_is_an_error_in_filters():
    graph = Graph.from_tables({"id": [1, 2], "properties": ['{"p": 1}', "{"]}, NO_EDGES)
    with pytest.raises(InvalidData, match="row 1"):
        match_nodes(graph, None, {"p": 1})
