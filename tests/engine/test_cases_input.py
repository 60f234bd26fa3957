"""More small inputs that a naive engine gets wrong: vectors, widths, ids, empties and bad queries."""

import math
import uuid

import numpy as np
import pytest
import torch

from tercet import Collection, Engine, Graph
from tercet.errors import DimensionMismatch, FingerprintMismatch, InvalidArgument, InvalidData
from tercet.fingerprint import Fingerprint
from tests.engine.small import QUERY, engine, graph, names, relations, same, triplets

close = pytest.approx


VECTORS = {"alpha": [1.0, 0.0], "beta": [0.0, 1.0]}


class Model:
    """An encoder with a name and a width, and whether it was asked for a vector."""

    def __init__(self, name, dimension):
        self.name, self.dimension, self.used = name, dimension, False

    def encode(self, texts):
        self.used = True
        return torch.eye(self.dimension)[:1].expand(len(texts), -1).clone()

    def fingerprint(self):
        return Fingerprint.named(self.name, self.dimension)


class TestBadVectors:
    """C8."""

    ROWS = ((1.0, 0.0), (0.6, 0.8), (0.0, 0.0), (math.nan, 0.0))

    @pytest.mark.parametrize("order", ["canonical", "input"])
    def test_not_finite_is_refused(self, order):
        for owner in ("0123", "3210"):
            with pytest.raises(InvalidData, match=r"'Entity_name'.*first 3"):
                Collection.build("Entity_name", self.ROWS, owner=list(owner), order=order)
        with pytest.raises(InvalidData, match=r"'c'.*first 0"):
            Collection.build("c", [(math.inf, 0.0), (1.0, 0.0)], owner=["b", "a"], order=order)

    def test_zero_is_kept_at_the_worst_distance(self):
        for owner in ("012", "210"):
            with pytest.warns(UserWarning, match=r"'Entity_name'.*row 2"):
                made = Collection.build("Entity_name", self.ROWS[:3], owner=list(owner))
            assert [made.owner[int(i)].as_py() for i in made.zero_norm] == [owner[2]]
            row, distance = made.index.search(torch.tensor([[1.0, 0.0]]), 2)
            assert [made.owner[i].as_py() for i in row[0].tolist()] == [owner[0], owner[1]]
            assert distance[0].tolist() == close([0.0, 0.4], abs=1e-6)
            row, distance = made.index.search(torch.tensor([[1.0, 0.0]]), 3)
            assert made.owner[int(row[0, 2])].as_py() == owner[2]
            assert distance[0, 2] == 1.0

    def test_a_zero_query_fails_alone(self):
        made = engine(graph([("0", "r", "1")]), names({"0": 0.0, "1": 0.4}))
        recall = made.recall(vectors=np.array([[0.0, 0.0], QUERY, [math.nan, 1.0], [math.inf, 0.0]]))
        assert recall.status == ["failed", "ok", "failed", "failed"]
        assert [bool(r.error) for r in recall] == [True, False, True, True]
        assert same(recall[1], made.recall(vectors=QUERY)[0])
        assert recall[0].triplets == []


class TestWidths:
    """C9."""

    NARROW = Collection.build("narrow", np.eye(3), owner=list("abc"), fingerprint="model-n")
    WIDE = Collection.build("wide", np.eye(4), owner=list("abcd"), fingerprint="model-w")
    GRAPH = graph([("a", "r", "b"), ("c", "r", "d")])

    def test_the_query_is_of_another_width(self):
        model = Model("model-q", 3)
        with pytest.raises(DimensionMismatch) as raised:
            Engine(self.GRAPH, [self.WIDE], model, "cpu")
        assert all(part in str(raised.value) for part in ("'wide'", "4", "model-w", "3", "model-q"))
        assert not model.used
        made = engine(self.GRAPH, self.WIDE)
        with pytest.raises(DimensionMismatch, match=r"'wide'.*dimension 4.*model-w.*dimension 3"):
            made.recall(vectors=np.eye(3))

    def test_collections_of_two_widths(self):
        with pytest.raises(DimensionMismatch) as raised:
            engine(self.GRAPH, self.WIDE, self.NARROW)
        assert all(part in str(raised.value) for part in ("'wide'", "'narrow'", "4", "3", "model-w", "model-n"))

    def test_another_model_of_the_same_width(self):
        with pytest.raises(FingerprintMismatch) as raised:
            Engine(self.GRAPH, [self.WIDE], Model("model-q", 4), "cpu")
        assert all(part in str(raised.value) for part in ("'wide'", "model-w", "model-q"))
        made = Engine(self.GRAPH, [self.WIDE], Model("model-q", 4), "cpu", check_fingerprint=False)
        assert made.recall("a question").status == ["ok"]
        assert Engine(self.GRAPH, [self.WIDE], Model("model-w", 4), "cpu").recall("a question").status == ["ok"]

    def test_one_wrong_row_among_right_ones(self):
        made = engine(self.GRAPH, self.WIDE)
        right = np.eye(4)[0]
        recall = made.recall(vectors=[right, [1.0, 0.0, 0.0], right])
        assert recall.status == ["ok", "failed", "ok"]
        assert "dimension 4" in recall[1].error
        assert "3" in recall[1].error
        alone = made.recall(vectors=right)[0]
        assert same(recall[0], alone)
        assert same(recall[2], alone)


class TestEmpties:
    """C10."""

    @pytest.mark.parametrize("batch", [1, 3])
    @pytest.mark.parametrize("wide", [100, None])
    @pytest.mark.parametrize("mode", ["native", "cognee"])
    def test_no_node(self, batch, wide, mode):
        nothing = Graph.from_tables({"id": []}, {"source": [], "target": [], "relation": []})
        for found in ([], [Collection.build("Entity_name", np.zeros((0, 2)), owner=[])]):
            made = engine(nothing, *found, mode=mode)
            recall = made.recall(vectors=np.stack([QUERY] * batch), wide_search_top_k=wide)
            assert recall.status == ["empty_graph"] * batch
            assert recall.texts() == [""] * batch
            assert all(r.triplets == [] and r.seeds == [] for r in recall)

    @pytest.mark.parametrize("wide", [100, None])
    @pytest.mark.parametrize("projection", [None, "incident", "full"])
    def test_no_edge(self, wide, projection):
        made = engine(graph([], "abc"), names({"a": 0.5, "b": 0.1, "c": 0.3}))
        recall = made.recall(vectors=np.stack([QUERY] * 2), wide_search_top_k=wide, projection=projection)
        assert recall.status == ["no_edges"] * 2
        for result in recall:
            assert result.triplets == []
            assert [node for node, _ in result.seeds] == ["b", "c", "a"]
            assert [distance for _, distance in result.seeds] == close([0.1, 0.3, 0.5], abs=1e-6)

    @pytest.mark.parametrize("wide", [100, None])
    @pytest.mark.parametrize("projection", [None, "incident", "full"])
    def test_nothing_near_enough(self, wide, projection):
        made = engine(graph([("a", "r", "b")]), names({"a": 0.5, "b": 0.6}), relations({"r": 0.7}))
        options = {"wide_search_top_k": wide, "projection": projection}
        recall = made.recall(vectors=np.stack([QUERY] * 2), max_distance=0.4, **options)
        assert recall.status == ["no_hits"] * 2
        assert all(r.triplets == [] and r.seeds == [] for r in recall)
        assert made.recall(vectors=QUERY, max_distance=0.6, **options).status == ["ok"]

    def test_every_query_bad(self):
        made = engine(graph([("a", "r", "b")]), names({"a": 0.5, "b": 0.6}), encoder=lambda texts: [QUERY] * len(texts))
        for recall in (made.recall(["", "  "]), made.recall(vectors=np.zeros((2, 2)))):
            assert recall.status == ["failed", "failed"]
            assert recall.edges.shape == recall.scores.shape == (2, 0)
            assert recall.texts() == ["", ""]
            assert recall.to_arrow().num_rows == 0
            assert [r.explain()["triplets"] for r in recall] == [[], []]
        assert len(made.recall([])) == 0


class TestIds:
    """C11."""

    UUID = uuid.UUID("12345678-1234-5678-1234-567812345678")
    BIG = 2**63 - 1

    def test_all_references_resolve(self):
        made = Graph.from_tables(
            {"id": [self.UUID, "7", "07", "7 ", self.BIG]},
            {"source": [str(self.UUID), "7"], "target": ["9223372036854775807", "7 "], "relation": ["r", "r"]},
        )
        assert sorted(made.ids.to_pylist()) == sorted([str(self.UUID), "7", "07", "7 ", "9223372036854775807"])
        assert made.num_edges == 2
        found = Collection.build("n", [[1, 0], [1, 0], [0, 1], [0, 1]], owner=[self.UUID, self.BIG, "7", "7 "])
        result = engine(made, found).recall(vectors=QUERY)[0]
        assert triplets(result) == [(str(self.UUID), "r", "9223372036854775807"), ("7", "r", "7 ")]
        assert isinstance(result.triplets[0].target, str)
        assert made.row(self.BIG) == made.row("9223372036854775807")
        assert len({made.row(x) for x in ("7", "07", "7 ")}) == 3

    def test_two_inputs_of_one_id(self):
        with pytest.raises(InvalidData, match=r"'7' in rows 0 and 2"):
            Graph.from_tables({"id": [7, "8", "7"]}, {"source": [], "target": [], "relation": []})
        with pytest.raises(InvalidData, match="row 1"):
            Graph.from_tables({"id": ["8", 7.0]}, {"source": [], "target": [], "relation": []})


class TestOneBadQuery:
    """C12."""

    TEXTS = ("alpha", "", "alpha", "   ", "beta")

    @pytest.fixture
    def made(self):
        found = Collection.build("n", np.eye(2)[[0, 0, 1, 1]], owner=list("abcd"))
        encoder = lambda texts: [VECTORS[t] for t in texts]  # noqa: E731
        return engine(graph([("a", "r", "b"), ("c", "r", "d")]), found, encoder=encoder)

    def check(self, recall):
        assert recall.status == ["ok", "failed", "ok", "failed", "ok"]
        assert [r.error is None for r in recall] == [True, False, True, False, True]
        assert [len(r.edges) for r in recall] == [2, 0, 2, 0, 2]
        assert same(recall[0], recall[2])
        assert triplets(recall[0])[0] == ("a", "r", "b")
        assert triplets(recall[4])[0] == ("c", "r", "d")

    def test_texts(self, made):
        recall = made.recall(list(self.TEXTS))
        self.check(recall)
        assert [r.query for r in recall] == list(self.TEXTS)
        assert same(recall[4], made.recall("beta")[0])

    def test_vectors(self, made):
        self.check(made.recall(vectors=[VECTORS.get(t, [0.0, 0.0]) for t in self.TEXTS]))

    def test_not_even_text(self, made):
        recall = made.recall(["alpha", None, 5, "beta"])
        assert recall.status == ["ok", "failed", "failed", "ok"]
        assert "5" in recall[2].error

    def test_cognee_refuses_the_call(self, made):
        strict = Engine(made.graph, made.collections, made.encoder, "cpu", "cognee")
        with pytest.raises(InvalidArgument, match="query 1"):
            strict.recall(list(self.TEXTS))
