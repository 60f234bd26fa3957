"""Queries as texts and vectors, and the arguments of a recall."""

import math

import numpy as np
import pytest
import torch

from tercet import Collection, Engine
from tercet.errors import DimensionMismatch, InvalidArgument, TercetError
from tercet.query import embed
from tests.engine.small import QUERY, at, engine, graph, names, relations, same, triplets


def of(queries=None, vectors=None, encoder=None, dimension=2, raise_blank=False):
    return embed(queries, vectors, encoder, dimension, raise_blank=raise_blank)


class Lookup:
    """An encoder that records the texts it was asked for."""

    dimension = 2

    def __init__(self):
        self.asked = []

    def encode(self, texts):
        self.asked.append(list(texts))
        return torch.tensor([[1.0, 0.0] if "left" in t else [0.0, 1.0] for t in texts])


@pytest.mark.parametrize(
    ("vectors", "size", "single"),
    [
        ([3.0, 4.0], 1, True),
        (np.array([3, 4]), 1, True),
        (np.array([3, 4], np.float16), 1, True),
        (torch.tensor([3.0, 4.0], dtype=torch.float64), 1, True),
        ([[3.0, 4.0], [3.0, 4.0]], 2, False),
        (((3, 4), (3, 4)), 2, False),
        (np.array([[3, 4]] * 3), 3, False),
        (torch.tensor([[3.0, 4.0]] * 2, requires_grad=True), 2, False),
        ([torch.tensor([3.0, 4.0]), np.array([3.0, 4.0])], 2, False),
        (np.zeros((0, 2)), 0, False),
        ([], 0, False),
    ],
)
def test_vectors_of_any_kind(vectors, size, single):
    batch = of(vectors=vectors)
    assert (len(batch), batch.single, batch.errors) == (size, single, {})
    assert batch.text == [None] * size
    assert batch.embedding.dtype == torch.float32
    assert batch.embedding.tolist() == [[pytest.approx(0.6), pytest.approx(0.8)]] * size


def test_rows_that_fail_alone():
    bad = [
        [0.0, 0.0],
        [math.nan, 1.0],
        [1.0, math.inf],
        [1.0],
        [1.0, 2.0, 3.0],
        "text",
        None,
        [[1.0, 2.0]],
        [1.0, None],
    ]
    batch = of(vectors=[[1.0, 0.0], *bad, [0.0, 1.0]])
    assert sorted(batch.errors) == list(range(1, len(bad) + 1))
    assert all(batch.errors.values())
    assert batch.embedding[0].tolist() == [1.0, 0.0]
    assert batch.embedding[-1].tolist() == [0.0, 1.0]
    assert not batch.embedding[1:-1].any()
    assert "zero" in batch.errors[1]
    assert "finite" in batch.errors[2]
    assert "dimension 2" in batch.errors[4]


def test_texts():
    encoder = Lookup()
    batch = of(["left", " ", None, "right", 7, "left"], encoder=encoder)
    assert sorted(batch.errors) == [1, 2, 4]
    assert encoder.asked == [["left", "right", "left"]]
    assert batch.text == ["left", " ", None, "right", None, "left"]
    assert batch.embedding.tolist() == [[1, 0], [0, 0], [0, 0], [0, 1], [0, 0], [1, 0]]
    assert of("left", encoder=encoder).single
    assert not of(["left"], encoder=encoder).single
    assert len(of((t for t in ("left", "right")), encoder=encoder)) == 2


def test_vectors_go_with_texts():
    batch = of(["a", "b"], [[1.0, 0.0], [0.0, 1.0]])
    assert (batch.text, batch.embedding.tolist()) == (["a", "b"], [[1, 0], [0, 1]])
    assert of("a", [1.0, 0.0]).text == ["a"]


@pytest.mark.parametrize(
    ("queries", "vectors", "message"),
    [
        (None, None, "neither"),
        (["a", "b"], [[1.0, 0.0]], "2 queries but 1 vectors"),
        ("a", None, "encoder"),
        (5, None, "int"),
        (b"text", None, "bytes"),
    ],
)
def test_wrong_calls(queries, vectors, message):
    with pytest.raises(InvalidArgument, match=message):
        of(queries, vectors)


def test_a_matrix_of_another_width():
    with pytest.raises(DimensionMismatch, match="2, got 3"):
        of(vectors=np.ones((4, 3)))
    with pytest.raises(DimensionMismatch, match="2"):
        of(["a"], encoder=type("Wide", (Lookup,), {"encode": lambda self, texts: torch.ones(len(texts), 3)})())


def test_strict_batches():
    for options in ({"vectors": [[1.0, 0.0], [0.0, 0.0]]}, {"queries": ["left", ""], "encoder": Lookup()}):
        with pytest.raises(InvalidArgument, match="query 1"):
            of(**options, raise_blank=True)


@pytest.fixture(scope="module")
def made():
    edges = [("a", "r", "b"), ("b", "r", "c"), ("c", "s", "d"), ("d", "s", "e"), ("e", "r", "a")]
    found = names({"a": 0.1, "b": 0.2, "c": 0.3, "d": 0.4, "e": 0.5}), relations({"r": 0.2, "s": 0.1})
    return engine(graph(edges, ["f"]), *found)


@pytest.mark.parametrize(
    "wrong",
    [
        {"top_k": 0}, {"top_k": -1}, {"top_k": 2.0}, {"top_k": True}, {"top_k": None}, {"top_k": "5"},
        {"top_k": [5]}, {"top_k": [5, 0]}, {"wide_search_top_k": 0}, {"wide_search_top_k": 1.5},
        {"wide_search_top_k": [None, -1]}, {"wide_search_top_k": [1, 2, 3]}, {"projection": "all"},
        {"projection": "neighborhood"}, {"projection": "nodeset"}, {"neighborhood_depth": 0},
        {"neighborhood_depth": 1.0}, {"neighborhood_depth": True},
        {"node_name": ["s"], "node_name_filter_operator": "XOR"}, {"node_name": [["s"]]}, {"node_name": [["s"], 5]},
        {"triplet_distance_penalty": None}, {"triplet_distance_penalty": math.nan}, {"triplet_distance_penalty": "6"},
        {"feedback_influence": 1.1}, {"feedback_influence": -0.1}, {"feedback_influence": math.nan},
        {"feedback_influence": None}, {"max_distance": math.nan}, {"max_distance": "near"},
        {"personal_weights": {"a": "high"}}, {"personal_weights": {"a": math.nan}}, {"personal_weights": {"a": None}},
        {"personal_influence": math.nan, "personal_weights": {"a": 1.0}}, {"personal_influence": "0.3"},
        {"collections": ["no such"]}, {"batch_size": 0}, {"max_context_tokens": -1}, {"max_context_tokens": 1.5},
        {"neighborhood_depth": 1, "neighborhood_seed_top_k": 1.5}, {"neighborhood_seed_top_k": "x"},
        {"neighborhood_seed_top_k": -1},
        {"filter": 5}, {"filter": [None]}, {"filter": [["a"], ["b"], ["c"]]},
    ],
)  # fmt: skip
def test_wrong_arguments(made, wrong):
    with pytest.raises(TercetError) as raised:
        made.recall(vectors=np.stack([QUERY, QUERY]), **wrong)
    assert isinstance(raised.value, ValueError)
    assert any(name.partition("_")[0] in str(raised.value) for name in wrong)


def test_wrong_engines(made):
    for wrong in ({"mode": "cogny"}, {"device": "abacus"}, {"encoder": 5}):
        with pytest.raises(InvalidArgument):
            Engine(made.graph, made.collections, **wrong)


def test_each_query_has_its_own_settings(made):
    vectors = np.stack([QUERY] * 4)
    options = {"top_k": [1, 5, 2, 3], "wide_search_top_k": [2, None, 3, 100]}
    recall = made.recall(vectors=vectors, **options)
    assert [len(r.edges) for r in recall] == [1, 5, 2, 3]
    for i, result in enumerate(recall):
        alone = made.recall(vectors=QUERY, **{name: values[i] for name, values in options.items()})
        assert same(result, alone[0])
    for kind in (tuple, np.array, torch.tensor):
        again = made.recall(vectors=vectors, top_k=kind([1, 5, 2, 3]), wide_search_top_k=kind([2, 9, 3, 100]))
        assert [len(r.edges) for r in again] == [1, 5, 2, 3]


def test_collections_are_searched_by_name(made):
    alone = made.recall(vectors=QUERY, collections=["Entity_name"])[0]
    assert np.isinf(alone.distances[:, 2]).all()
    assert made.recall(vectors=QUERY, collections=[])[0].status == "no_hits"
    both = ["EdgeType_relationship_name", "Entity_name", "Entity_name"]
    assert same(made.recall(vectors=QUERY, collections=both)[0], made.recall(vectors=QUERY)[0])


def test_which_projection_is_meant(made):
    by_name = lambda p, **o: made.recall(vectors=QUERY, projection=p, top_k=9, **o)[0]  # noqa: E731
    assert same(by_name(None, wide_search_top_k=2), by_name("induced", wide_search_top_k=2))
    assert same(by_name(None, wide_search_top_k=None), by_name("full", wide_search_top_k=None))
    near = {"neighborhood_depth": 1, "wide_search_top_k": 2}
    assert same(by_name(None, **near), by_name("neighborhood", **near))
    assert len(by_name("incident", wide_search_top_k=2).edges) == 3
    assert len(by_name("induced", wide_search_top_k=2).edges) == 1
    assert len(by_name("full", wide_search_top_k=2).edges) == 5


def test_neighborhood_seeds_are_nodes(made):
    """A node with many near rows is one seed."""
    rows = {"a": [0.01, 0.02, 0.03, 0.04], "c": [0.3], "e": [0.9]}
    owners = [n for n, near in rows.items() for _ in near]
    found = Collection.build("n", at([d for near in rows.values() for d in near]), owner=owners)
    one = engine(graph([("a", "r", "b"), ("c", "r", "d"), ("e", "r", "f")]), found)
    for wide in (None, 100):
        options = {"wide_search_top_k": wide, "neighborhood_depth": 1, "top_k": 9}
        for seeds, want in ((1, 1), (2, 2), (3, 3), (None, 3)):
            result = one.recall(vectors=QUERY, neighborhood_seed_top_k=seeds, **options)[0]
            assert triplets(result) == [("a", "r", "b"), ("c", "r", "d"), ("e", "r", "f")][:want]
            assert result.scores[0] == pytest.approx(1.5 * 0.01 + 9.75 * 2)
        nothing = one.recall(vectors=QUERY, neighborhood_seed_top_k=0, **options)[0]
        assert (triplets(nothing), nothing.status) == ([], "empty_fragment")


def test_neighborhood_takes_the_best_distance_of_each_node():
    """What the search for seeds saw of a node doesn't hide a nearer row of it."""
    found = names({"x": 0.4}, "A"), names({"s": 0.1, "x": 0.2}, "B")
    near = engine(graph([("s", "r", "x")]), *found)
    for wide in (None, 100):
        options = {"wide_search_top_k": wide, "neighborhood_depth": 1, "neighborhood_seed_top_k": 1}
        assert near.recall(vectors=QUERY, **options)[0].distances[0, 1] == pytest.approx(0.2)


def test_neighborhood_depth_counts_steps_either_way():
    line = engine(graph([("b", "r", "a"), ("b", "r", "c"), ("d", "r", "c"), ("d", "r", "e")]), names({"a": 0.1}))
    for depth in (1, 2, 3, 4, 9):
        result = line.recall(vectors=QUERY, neighborhood_depth=depth, top_k=9)[0]
        assert len(result.edges) == min(depth, 4)


def test_smooth_feedback_by_hand():
    """2 x ((1 - f) x d / 2 + f x (1 - g)), then times 2 - importance; what isn't matched stays at the penalty."""
    from tercet import Graph

    nodes = {"id": ["a", "b", "c"], "feedback_weight": [1.0, 0.0, 0.9], "importance_weight": [1.0, 0.5, 0.5]}
    edges = {"source": ["a", "a"], "target": ["b", "c"], "relation": ["r", "r"], "feedback_weight": [0.25, None]}
    found = names({"a": 0.2, "b": 1.8}), relations({"r": 0.4})
    both = engine(Graph.from_tables(nodes, edges), *found)
    result = both.recall(vectors=QUERY, feedback_influence=0.5, projection="full")[0]
    a, b, r = 1.0 * 0.1, 1.5 * (0.9 + 1.0), 1.5 * (0.2 + 0.75)
    assert triplets(result) == [("a", "r", "b"), ("a", "r", "c")]
    assert result.scores.tolist() == pytest.approx([a + b + r, a + 1.5 * 6.5 + 1.5 * (0.2 + 0.5)], abs=1e-6)
    personal = both.recall(vectors=QUERY, projection="full", personal_weights={"a": 1.0, "b": 0.0, "c": 1.0})[0]
    want = [0.2 * 0.7 + 2.7 * 1.3 + 0.6, 0.2 * 0.7 + 9.75 + 0.6]
    assert personal.scores.tolist() == pytest.approx(want, abs=1e-6)
