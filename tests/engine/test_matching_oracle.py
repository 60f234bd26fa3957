"""Filters against a plain evaluation of one node at a time, and against answers recorded from Grafito 0.8.6."""

import json
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tercet import Graph
from tercet.compare import sqlite_real
from tercet.errors import InvalidFilter
from tercet.matching import LabelFilter, PropertyFilter, match_nodes
from tests.engine.test_matching import NO_EDGES, B, F, G, of, rows

GOLDEN = Path(__file__).resolve().parents[3] / "shared" / "grafito" / "golden"
CASES = ("sem_filter_props", "sem_filter_labels", "sem_filters_versus_labels")


def as_text(value, mode):
    if isinstance(value, (list, dict)):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    if isinstance(value, bool):
        return str(int(value))
    return sqlite_real(value) if isinstance(value, float) and mode == "grafito" else str(value)


def ascii_lower(text):
    return "".join(c.lower() if c.isascii() else c for c in text)


def same_class(value, other, mode):
    """Both as something to compare, or None."""
    if isinstance(value, (list, dict)) and mode == "grafito":
        value = as_text(value, mode)
    if isinstance(value, str) and isinstance(other, str):
        return value, other
    if isinstance(value, (bool, int, float)) and isinstance(other, (bool, int, float)):
        return value, other
    return None


def is_equal(value, wanted, mode):
    if wanted is None or value is None:
        return value is None and wanted is None
    if isinstance(wanted, (list, dict)):
        if mode == "native":
            return type(value) is type(wanted) and value == wanted
        wanted = json.dumps(wanted, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    pair = same_class(value, wanted, mode)
    return pair is not None and pair[0] == pair[1]


def holds(value, condition, mode):
    if not isinstance(condition, PropertyFilter):
        if isinstance(condition, list) and mode == "native":
            return any(is_equal(value, one, mode) for one in condition)
        return is_equal(value, condition, mode)
    name, (wanted, *more) = condition.operator, condition.values
    if name == "ne":
        return value is None if wanted is None and mode == "grafito" else not is_equal(value, wanted, mode)
    if value is None or (
        isinstance(value, bool) and mode == "native" and name in ("contains", "starts_with", "ends_with", "regex")
    ):
        return False
    if name == "regex":
        return re.search(wanted, as_text(value, "native")) is not None
    if name in ("contains", "starts_with", "ends_with"):
        text = as_text(value, mode)
        if not condition.case_sensitive:
            text, wanted = (
                (text.casefold(), wanted.casefold()) if mode == "native" else (ascii_lower(text), wanted.lower())
            )
        elif mode == "grafito" and name == "ends_with" and not wanted:
            return text == ""
        return {"contains": wanted in text, "starts_with": text.startswith(wanted), "ends_with": text.endswith(wanted)}[
            name
        ]
    pairs = [same_class(value, bound, mode) for bound in (wanted, *more)]
    if any(pair is None for pair in pairs):
        return False
    (x, low), (_, high) = pairs[0], pairs[-1]
    return {"gt": x > low, "gte": x >= low, "lt": x < low, "lte": x <= low, "between": low <= x <= high}[name]


def satisfies(properties, wanted, mode):
    if isinstance(wanted, tuple):
        operator, parts = wanted
        return {"or": any, "and": all}[operator](satisfies(properties, part, mode) for part in parts)
    for key, condition in wanted.items():
        value = properties
        for step in key.split("."):
            value = value.get(step) if isinstance(value, dict) else None
        if not holds(value, condition, mode):
            return False
    return True


def as_filter(wanted):
    return getattr(G, f"{wanted[0]}_")(*map(as_filter, wanted[1])) if isinstance(wanted, tuple) else wanted


NUMBERS = st.sampled_from(
    [True, False, 0, 1, 2, 2.0, 2.5, -1, B, B + 1, float(B), 2**63 - 1, -(2**63), 1e20, 1e-7, 0.1 + 0.2]
)
WORDS = st.sampled_from(["", "a", "A", "2", "2.5", "é", "É", "ßx", "SS", "1", "[1,2]", "0", "e", "."])
SCALARS = NUMBERS | WORDS
NESTED = st.lists(SCALARS | st.none(), max_size=2) | st.dictionaries(st.sampled_from("xy"), SCALARS, max_size=2)
VALUES = st.none() | SCALARS | NESTED
DOCUMENTS = st.dictionaries(st.sampled_from("pq"), VALUES, max_size=2)
PARTS = st.builds(lambda name, part, fold: getattr(F, name)(part, case_sensitive=fold),
                  st.sampled_from(["contains", "starts_with", "ends_with"]), WORDS, st.booleans())  # fmt: skip
FILTERS = (
    st.builds(lambda name, value: getattr(F, name)(value), st.sampled_from(["gt", "gte", "lt", "lte", "ne"]), SCALARS)
    | st.builds(F.between, NUMBERS, NUMBERS) | st.builds(F.between, WORDS, WORDS) | PARTS
    | st.builds(F.regex, st.sampled_from(["^2", "a|É", "[0-9]$", r"\[", "(?i)é", "^$", "(.).*\\1"]))
)  # fmt: skip
DICTS = st.dictionaries(st.sampled_from(["p", "q", "p.x"]), VALUES | FILTERS, min_size=1, max_size=2)
GROUPS = st.recursive(
    DICTS,
    lambda inner: st.tuples(st.sampled_from(["or", "and"]), st.lists(inner, min_size=1, max_size=3)),
    max_leaves=4,
)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(DOCUMENTS, min_size=1, max_size=12),
    st.lists(GROUPS, min_size=1, max_size=4),
    st.sampled_from(["native", "grafito"]),
)
def test_as_one_node_at_a_time(documents, filters, mode):
    graph = of(documents)
    for wanted in filters:
        got = rows(graph, None, as_filter(wanted), mode)
        assert got == [i for i, properties in enumerate(documents) if satisfies(properties, wanted, mode)]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(NUMBERS | st.none(), min_size=1, max_size=8), NUMBERS,
    st.sampled_from(["gt", "gte", "lt", "lte", "ne"]), st.sampled_from(["native", "grafito"]),
)  # fmt: skip
def test_columns_compare_as_json_does(values, bound, name, mode):
    wanted = {"p": getattr(F, name)(bound)}
    whole = [v if type(v) is int else None for v in values]
    real = [v if type(v) is float else None for v in values]
    for column, kind in ((whole, pa.int64()), (real, pa.float64())):
        table = Graph.from_tables({"id": range(len(values)), "p": pa.array(column, kind)}, NO_EDGES, order="input")
        assert rows(table, None, wanted, mode) == rows(of([{"p": v} for v in column]), None, wanted, mode)


def decoded(value):
    if isinstance(value, list):
        return [decoded(v) for v in value]
    if not isinstance(value, dict):
        return value
    if "$filter" in value:
        fold = {"case_sensitive": value["case_sensitive"]} if "case_sensitive" in value else {}
        return getattr(F, value["$filter"])(*value["values"], **fold)
    if "$group" in value:
        return getattr(G, value["$group"] + "_")(*map(decoded, value["of"]))
    for name in ("any", "all"):
        if f"$labels_{name}" in value:
            return getattr(LabelFilter, name)(value[f"$labels_{name}"])
    return {k: decoded(v) for k, v in value.items()}


def golden(name):
    """The graph and the calls of a case."""
    stored = json.loads((GOLDEN / name / "graph.json").read_text())
    nodes, edges = stored["nodes"], stored["relationships"]
    graph = Graph.from_tables(
        {"id": [n["id"] for n in nodes], "labels": [n["labels"] for n in nodes], "uri": [n["uri"] for n in nodes],
         "properties": [json.dumps(n["properties"]) for n in nodes]},
        {"id": [e["id"] for e in edges], "source": [e["source"] for e in edges], "target": [e["target"] for e in edges],
         "relation": [e["type"] for e in edges], "uri": [e["uri"] for e in edges],
         "properties": [json.dumps(e["properties"]) for e in edges]},
        order="input",
    )  # fmt: skip
    return graph, json.loads((GOLDEN / name / "case.json").read_text())["calls"]


@pytest.mark.skipif(not GOLDEN.is_dir(), reason="the recorded cases aren't beside the repository")
@pytest.mark.parametrize("name", CASES)
def test_recorded_answers(name):
    graph, calls = golden(name)
    vectors = np.load(GOLDEN / name / "vectors.npz")
    unit = {
        k: vectors[k] / np.linalg.norm(vectors[k], axis=1, keepdims=True) for k in ("node_vectors", "query_vectors")
    }
    checked = 0
    for call in calls:
        given, expect = call["kwargs"], call["expect"]
        if call["call"] == "match_nodes":
            mask = match_nodes(graph, decoded(given.get("labels")), decoded(given["properties"]), mode="grafito")
            assert [int(i) for i in graph.ids.filter(pa.array(mask)).to_pylist()] == expect["ids"]
        elif "error" in expect:
            with pytest.raises(InvalidFilter):
                match_nodes(graph, None, decoded(given["filter_props"]), mode="grafito")
        else:  # the k nearest among the nodes that the filters leave
            labels, properties = decoded(given.get("filter_labels")), decoded(given.get("filter_props"))
            allowed = match_nodes(graph, labels, properties, mode="grafito")
            score = unit["node_vectors"] @ unit["query_vectors"][call["args"][0]["$vector"]]
            ids = vectors["node_ids"]
            open_ = allowed[graph.rows(ids)]
            best = ids[open_][np.argsort(-score[open_], kind="stable")][: given["k"]]
            assert best.tolist() == [seed["id"] for seed in expect["seeds"]]
        checked += 1
    assert checked == len(calls) > 0
