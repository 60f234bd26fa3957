"""Cognee's rules: recorded cases, its arguments, its ids."""

import json
import uuid
from pathlib import Path

import numpy as np
import pytest

from tercet.cognee import InvalidFeedbackInfluence, brute_force_triplet_search, edge_type_id, graph_from_records
from tercet.errors import InvalidArgument, InvalidData
from tests.engine.small import QUERY, engine, graph, names, relations, triplets
from tests.replay import cases
from tests.replay_cognee import replay
from tests.tally import Tally

GOLDEN = Path(__file__).parents[1] / "golden" / "cognee"
CASES = cases(GOLDEN)
DECIDED = {"broken_records": 5, "neighborhood": 2, "penalties": 1}  # docs/differences.md
RETRIEVERS = "retrievers"


def test_all_cases_are_here():
    assert len(CASES) == 46


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_recorded(case):
    tally = Tally()
    replay(case, tally)
    assert tally.failed == []
    assert len(tally.decided) == DECIDED.get(case.name, 0)
    runs = len(json.loads((case / "case.json").read_text(encoding="utf-8"))["runs"])
    skipped = json.loads((case / "case.json").read_text(encoding="utf-8")).get("kind") == RETRIEVERS
    assert tally.passed == (0 if skipped else runs - len(tally.decided))


def test_edge_type_ids_are_those_that_were_recorded():
    checked = 0
    for case in CASES:
        with np.load(case / "vectors.npz", allow_pickle=False) as held:
            if "EdgeType_relationship_name__ids" not in held.files:
                continue
            stored = set(held["EdgeType_relationship_name__ids"].tolist())
        edges = json.loads((case / "graph.json").read_text(encoding="utf-8"))["edges"]
        for _, _, name, props in edges:
            text = (props or {}).get("edge_text") or name
            checked += isinstance(text, str) and edge_type_id(text) in stored
    assert checked > 1000


def test_edge_type_id():
    assert edge_type_id("works_at") == str(uuid.uuid5(uuid.NAMESPACE_OID, "EdgeType:works_at"))
    assert edge_type_id("It's Works At") == edge_type_id("its_works_at")
    assert edge_type_id(" knows ") != edge_type_id("knows")


@pytest.fixture
def made():
    edges = [("a", "r", "b"), ("b", "r", "c")]
    found = names({"a": 0.1, "b": 0.4, "c": 0.6}, order="input"), relations({"r": 0.3}, order="input")
    return engine(graph(edges, order="input"), *found, mode="cognee", encoder=lambda texts: [QUERY] * len(texts))


ONE = "The query must be a non-empty string."
MANY = "query_batch must be a non-empty list of strings."
EACH = "All items in query_batch must be non-empty strings."
TOP_K = "top_k must be a positive integer."
INFLUENCE = "feedback_influence must be in range [0, 1]"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"query": "a", "query_batch": ["b"]}, "Cannot provide both 'query' and 'query_batch'; use exactly one."),
        ({}, "Must provide either 'query' or 'query_batch'."),
        ({"query": ""}, ONE), ({"query": " \n"}, ONE), ({"query": 5}, ONE), ({"query": "", "top_k": 0}, ONE),
        ({"query_batch": []}, MANY), ({"query_batch": "abc"}, MANY), ({"query_batch": ("a",)}, MANY),
        ({"query_batch": ["a", " "]}, EACH), ({"query_batch": ["a", 3]}, EACH),
        ({"query": "a", "top_k": 0}, TOP_K), ({"query": "a", "top_k": -1, "feedback_influence": 2}, TOP_K),
        ({"query": "a", "feedback_influence": 1.5}, INFLUENCE), ({"query": "a", "feedback_influence": -0.1}, INFLUENCE),
        ({"query": "a", "feedback_influence": float("nan")}, INFLUENCE),
    ],
)  # fmt: skip
def test_arguments_are_refused_in_the_same_words(made, arguments, message):
    with pytest.raises(InvalidArgument) as raised:
        brute_force_triplet_search(made, **arguments)
    assert str(raised.value) == message
    assert isinstance(raised.value, InvalidFeedbackInfluence) == (message == INFLUENCE)


def test_needs_an_engine_in_its_mode(made):
    native = engine(graph([("a", "r", "b")]), names({"a": 0.1}))
    with pytest.raises(InvalidArgument, match="cognee"):
        brute_force_triplet_search(native, "a", vectors=QUERY)
    for wrong in ({"triplet_distance_penalty": None}, {"neighborhood_depth": 0}):
        with pytest.raises(InvalidArgument):
            brute_force_triplet_search(made, "a", **wrong)


def test_a_limit_holds_for_a_single_query_only(made):
    single = brute_force_triplet_search(made, "a", wide_search_top_k=1)
    assert triplets(single[0]) == [("a", "r", "b")]
    assert single[0].scores == pytest.approx([0.15 + 9.75 + 0.45], abs=1e-6)
    batch = brute_force_triplet_search(made, query_batch=["a", "a"], wide_search_top_k=1)
    assert [triplets(r) for r in batch] == [[("a", "r", "b"), ("b", "r", "c")]] * 2


def test_collections_that_are_missing_count_as_empty(made):
    result = brute_force_triplet_search(made, "a", collections=["no such", "Entity_name"])[0]
    assert triplets(result) == [("a", "r", "b"), ("b", "r", "c")]
    assert not np.isinf(result.distances).any()  # the edge collection is searched unasked
    only = brute_force_triplet_search(made, "a", collections=["no such"])[0]
    assert np.isinf(only.distances[:, :2]).all()
    assert not np.isinf(only.distances[:, 2]).any()


def test_records():
    nodes = [
        ("a", {"name": "A", "importance_weight": "0.25", "feedback_weight": 3}),
        (uuid.UUID(int=5), {"name": None, "is_internal": False}),
        ("hidden", {"is_internal": True}),
        ("a", {"name": "again"}),
    ]
    edges = [("a", uuid.UUID(int=5), "r", {"feedback_weight": -1}), ("a", "hidden", "r", {}), ("a", "a", None, {})]
    made = graph_from_records(nodes, edges)
    five = str(uuid.UUID(int=5))
    assert made.ids.to_pylist() == ["a", five]
    assert made.importance.tolist() == [0.25, 0.5]
    assert made.feedback.tolist() == [1.0, 0.5]
    assert made.edge_feedback.tolist() == [0.0, 0.5]
    assert [made.triplet(e) for e in range(2)] == [("a", "r", five), ("a", "", "a")]
    assert made.unread_ends.to_pylist() == ["a", "hidden"]
    assert made.nodes.column("name").to_pylist() == ["A", None]
    with pytest.raises(InvalidData, match="edge record 0"):
        graph_from_records(nodes, [("a", "a", "r", None)])
    with pytest.raises(InvalidData, match="node record 1"):
        graph_from_records([("a", {}), ("b", None)], [])
