"""Properties of nodes and edges, from columns and from JSON objects."""

import datetime
import decimal
import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tercet import Graph
from tercet.errors import InvalidArgument, InvalidData, InvalidFilter
from tercet.properties import edge_properties, edge_property_column, node_properties, property_column
from tercet.property_values import BOOLEAN, MISSING, NESTED, NUMBER, TEXT

NO_EDGES = {"source": [], "target": [], "relation": []}
BIG = 2**53 + 1


def of(columns, **options):
    size = len(next(iter(columns.values())))
    return Graph.from_tables({"id": [f"{i:04d}" for i in range(size)], **columns}, NO_EDGES, order="input", **options)


def documents(values, **columns):
    return of({"properties": [v if v is None or isinstance(v, str) else json.dumps(v) for v in values], **columns})


def kinds(prop):
    assert prop.kind.dtype == np.int8
    return prop.kind.tolist()


def test_a_key_of_json_objects():
    values = [{"p": v} for v in (None, True, 2, 2.5, 2.0, "2", [1, {"é": None}], {"b": 1, "a": "x"}, BIG, 10**400)]
    prop = property_column(documents([*values, {}, None, "", "null", {"q": 1}]), "p")
    n = NUMBER
    assert kinds(prop) == [0, BOOLEAN, n, n, n, TEXT, NESTED, NESTED, n, n, 0, 0, 0, 0, 0]
    assert prop.number[[1, 2, 3, 4, 9]].tolist() == [1.0, 2.0, 2.5, 2.0, np.inf]
    assert np.isnan(prop.number[[0, 5, 6, 10]]).all()
    assert np.flatnonzero(prop.whole).tolist() == [2, 8]
    assert prop.integer[8] == BIG
    texts = prop.text.to_pylist()
    assert texts[:9] == [None, "1", "2", "2.5", "2.0", "2", '[1,{"é":null}]', '{"b":1,"a":"x"}', str(BIG)]
    assert prop.words.null_count == 12


def test_nested_keys():
    graph = documents([{"a": {"b": {"c": 1}, "d": [1]}}, {"a": {"b": 2}}, {"a": [1]}, {"a.b": 3}, {"a": {"b": None}}])
    assert kinds(property_column(graph, "a.b")) == [NESTED, NUMBER, 0, 0, 0]
    assert property_column(graph, "a.b.c").number[0] == 1
    assert kinds(property_column(graph, "a.d.0")) == [0] * 5


def test_a_key_written_with_escapes_is_found_later_too():
    graph = documents(['{"\\u0061b": 1}', '{"ab": 2}', '{"x": "ab"}'])
    assert kinds(property_column(graph, "x")) == [0, 0, TEXT]
    assert kinds(property_column(graph, "ab")) == [NUMBER, NUMBER, 0]


@pytest.mark.parametrize(
    ("column", "kind", "texts"),
    [
        ([True, None, False], BOOLEAN, ["1", None, "0"]),
        ([2, None, BIG], NUMBER, ["2", None, str(BIG)]),
        (pa.array([2**64 - 1, None, 2**63 - 1], pa.uint64()), NUMBER, ["1.8446744073709552e+19", None, str(2**63 - 1)]),
        (pa.array([1, None, 2], pa.int8()), NUMBER, ["1", None, "2"]),
        (pa.array([0.1, None, 2.0], pa.float64()), NUMBER, ["0.1", None, "2.0"]),
        (np.array([0.1, np.nan, 2.0]), NUMBER, ["0.1", None, "2.0"]),
        (pa.array([decimal.Decimal("1.5"), None, decimal.Decimal("2")]), NUMBER, ["1.5", None, "2.0"]),
        (["a", None, ""], TEXT, ["a", None, ""]),
        (pa.array(["a", None, "b"]).dictionary_encode(), TEXT, ["a", None, "b"]),
        ([[1, 2], None, []], NESTED, ["[1,2]", None, "[]"]),
        ([{"a": 1}, None, {"b": "é"}], NESTED, ['{"a":1}', None, '{"b":"é"}']),
        ([datetime.date(2024, 2, 29), None, datetime.date(1, 1, 1)], TEXT, ["2024-02-29", None, "0001-01-01"]),
        ([datetime.datetime(2024, 2, 29, 1, 2), None, datetime.datetime(2024, 1, 1, 0, 0, 0, 5)], TEXT,
         ["2024-02-29T01:02:00", None, "2024-01-01T00:00:00.000005"]),
        (pa.array([1, None, 10**9], pa.timestamp("ns")), TEXT, ["1970-01-01T00:00:00", None, "1970-01-01T00:00:01"]),
        (pa.array([1, None, 2], pa.time32("s")), TEXT, ["00:00:01", None, "00:00:02"]),
    ],
)  # fmt: skip
def test_columns(column, kind, texts):
    graph = of({"p": column})
    prop = property_column(graph, "p")
    assert kinds(prop) == [kind, MISSING, kind]
    assert prop.text.to_pylist() == texts
    assert property_column(graph, "p") is prop


def test_fields_of_structs():
    graph = of({"a": [{"b": {"c": BIG}}, None, {"b": None}], "x.y": [1, 2, 3], "x": [{"y": "no"}] * 3})
    prop = property_column(graph, "a.b.c")
    assert (kinds(prop), prop.text.to_pylist()) == ([NUMBER, 0, 0], [str(BIG), None, None])
    assert kinds(property_column(graph, "a.b.z")) == kinds(property_column(graph, "a.b.c.d")) == [0] * 3
    assert property_column(graph, "x.y").number.tolist() == [1, 2, 3]  # a column of the whole name comes first


def test_a_column_wins_where_it_has_a_value():
    names = ["column", None, None, "1"]
    graph = documents([{"name": "json"}, {"name": "json"}, {"name": 2**60 + 1}, {"name": [1]}], name=names)
    prop = property_column(graph, "name")
    assert kinds(prop) == [TEXT, TEXT, NUMBER, TEXT]
    assert prop.text.to_pylist() == ["column", "json", str(2**60 + 1), "1"]
    assert [p["name"] for p in node_properties(graph, range(4))] == ["column", "json", 2**60 + 1, "1"]


def test_a_number_column_over_json_text():
    graph = documents([{"p": "text"}, {"p": "text"}, {"p": 7}], p=[BIG, None, None])
    prop = property_column(graph, "p")
    assert prop.text.to_pylist() == [str(BIG), "text", "7"]
    assert prop.words.to_pylist() == [None, "text", None]


def test_reserved_columns_are_no_properties():
    graph = documents([{"uri": "u", "labels": 1}], uri=["http://x"], labels=[["A"]])
    assert node_properties(graph, [0]) == [{"uri": "u", "labels": 1}]
    assert property_column(graph, "uri").text.to_pylist() == ["u"]
    for key in ("id", "context_title", "context_block", "properties"):
        assert not property_column(graph, key).kind.any()


def test_nan_is_missing_everywhere():
    graph = documents(['{"q": NaN, "r": Infinity}', {"q": 1.5}], p=np.array([np.nan, 1.0]))
    assert kinds(property_column(graph, "p")) == kinds(property_column(graph, "q")) == [0, NUMBER]
    assert node_properties(graph, [0, 1]) == [{"r": float("inf")}, {"p": 1.0, "q": 1.5}]


def test_properties_of_rows():
    table = {"n": [1, None, 3], "day": [datetime.date(2024, 1, 2)] * 3, "s": [{"a": 1, "b": None}, None, {"b": 2}]}
    graph = documents([{"k": [1, None]}, {"k": None}, None], type=["T", None, None], **table)
    wanted = [
        {"type": "T", "n": 1, "day": "2024-01-02", "s": {"a": 1}, "k": [1, None]},
        {"day": "2024-01-02"},
        {"n": 3, "day": "2024-01-02", "s": {"b": 2}},
    ]
    assert node_properties(graph, [2, 0, 1, 0]) == [wanted[2], wanted[0], wanted[1], wanted[0]]
    assert node_properties(graph, []) == []


@pytest.mark.parametrize("row", ["{'p': 1}", "[1]", "3", "{", '{"p": 1}, {"p": 2}', '{"p": 1}, "\\u0000 next row", {}'])
def test_what_is_no_json_object(row):
    graph = documents([{"p": 1}, row, {"p": 1}])
    with pytest.raises(InvalidData, match=r"nodes\.properties row 1"):
        property_column(graph, "q")
    with pytest.raises(InvalidData, match=r"nodes\.properties row 1"):
        node_properties(graph, [0, 1])
    assert node_properties(graph, [2]) == [{"p": 1}]


@pytest.mark.parametrize("values", [['{"p": [1', "2]}"], ['{}, "x", {}', '{"p": [1', "2]}"]])
def test_rows_that_make_sense_only_together(values):
    with pytest.raises(InvalidData, match="row 0"):
        property_column(documents(values), "p")


@pytest.mark.parametrize("large", [2**63, -(2**63) - 1, 2**64, 10**400])
def test_integers_beyond_64_bits(large):
    prop = property_column(documents([{"p": large}, {"p": 2**63 - 1}, {"p": -(2**63)}]), "p")
    assert prop.whole.tolist() == [False, True, True]
    assert prop.integer[1:].tolist() == [2**63 - 1, -(2**63)]
    assert prop.number[0] == (float(large) if large < 2**999 else np.inf)


def test_text_that_utf8_cannot_hold():
    with pytest.raises(InvalidData, match="not valid Unicode"):
        property_column(documents([{"p": "x"}, '{"p": "\\ud800"}']), "p")


@pytest.mark.parametrize("key", ["", "a b", "a-b", ".a", "a.", "a..b", "é", 7, None, "a\n"])
def test_keys(key):
    with pytest.raises(InvalidFilter, match="property key"):
        property_column(documents([{}]), key)


def test_columns_that_cannot_be_compared():
    graph = of({"b": [b"x"]})
    with pytest.raises(InvalidArgument, match=r"nodes\.b"):
        property_column(graph, "b")
    assert node_properties(graph, [0]) == [{"b": b"x"}]
    with pytest.raises(InvalidData, match=r"nodes\.properties"):
        property_column(of({"properties": [{"a": 1}]}), "a")


def test_edges():
    table = {
        "source": list("aaa"), "target": list("bbb"), "relation": list("rst"), "id": ["e", None, None],
        "edge_text": ["says", None, None], "superseded": [True, False, False], "weight": [0.5, None, 2.0],
        "properties": ['{"since": 2020}', '{"superseded": false}', None],
    }  # fmt: skip
    graph = Graph.from_tables({"id": list("ab")}, table)
    assert edge_properties(graph, [2, 1, 0]) == [
        {"weight": 2.0},
        {"superseded": False},
        {"edge_text": "says", "superseded": True, "weight": 0.5, "since": 2020},
    ]
    assert edge_property_column(graph, "since").number.tolist()[0] == 2020
    assert kinds(edge_property_column(graph, "weight")) == [NUMBER, 0, NUMBER]
    bare = Graph.from_tables({"id": list("ab")}, {name: table[name] for name in ("source", "target", "relation")})
    assert edge_properties(bare, [0, 1]) == [{}, {}]
    assert edge_properties(Graph.from_tables({"id": ["a"]}, NO_EDGES), []) == []


def test_an_empty_graph():
    graph = Graph.from_tables({"id": [], "properties": []}, NO_EDGES)
    assert len(property_column(graph, "p").kind) == 0


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=5,
)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.dictionaries(st.sampled_from(["p", "q"]), JSON), min_size=1, max_size=8))
def test_what_goes_in_comes_out(values):
    graph = documents(values)
    assert node_properties(graph, range(len(values))) == [
        {k: v for k, v in value.items() if v is not None} for value in values
    ]
    for key in ("q", "p"):
        prop = property_column(graph, key)
        for i, value in enumerate(value.get(key) for value in values):
            match value:
                case None:
                    assert (prop.kind[i], prop.text[i].as_py()) == (MISSING, None)
                case bool():
                    assert (prop.kind[i], prop.number[i]) == (BOOLEAN, value)
                case int() if -(2**63) <= value < 2**63:
                    assert (prop.kind[i], prop.text[i].as_py()) == (NUMBER, str(value))
                case int() | float():
                    assert (prop.kind[i], prop.number[i]) == (NUMBER, float(value))
                case str():
                    assert (prop.kind[i], prop.text[i].as_py()) == (TEXT, value)
                case _:
                    assert (prop.kind[i], json.loads(prop.text[i].as_py())) == (NESTED, value)
