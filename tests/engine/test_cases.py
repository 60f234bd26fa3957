"""Small inputs that a naive engine gets wrong, with answers worked out by hand."""

import random

import numpy as np
import pytest
import torch

from tercet import Collection, Graph
from tercet.cognee import graph_from_records
from tercet.errors import InvalidData
from tests.engine.small import QUERY, engine, graph, names, relations, same, triplets

close = pytest.approx


def as_in_cognee(edges, *collections, nodes=()):
    """An engine in cognee mode over the same edges in their given order; collections in visiting order."""
    made = graph(edges, nodes, order="input")
    return engine(made, *collections, mode="cognee")


class TestBatchSeesNoMoreThanOne:
    """C1."""

    EDGES = (("a", "r1", "b"), ("c", "r2", "d"))

    def collections(self, **options):
        return (
            names({"a": 0.10, "b": 0.40, "c": 0.50, "d": 0.60}, **options),
            relations({"r1": 0.30, "r2": 0.35}, **options),
        )

    @pytest.fixture
    def native(self, device):
        return engine(graph(self.EDGES), *self.collections(), device=device)

    def test_either_end(self, native):
        result = native.recall(vectors=QUERY, wide_search_top_k=1, top_k=2, projection="incident")[0]
        assert triplets(result) == [("a", "r1", "b")]
        assert result.scores == close([10.35], abs=1e-6)
        assert result.status == "ok"

    def test_both_ends(self, native):
        result = native.recall(vectors=QUERY, wide_search_top_k=1, top_k=2)[0]
        assert (triplets(result), result.status) == ([], "empty_fragment")

    def test_no_limit(self, native):
        for projection in (None, "induced", "incident", "full"):
            result = native.recall(vectors=QUERY, wide_search_top_k=None, top_k=2, projection=projection)[0]
            assert triplets(result) == [("a", "r1", "b"), ("c", "r2", "d")]
            assert result.scores == close([1.2, 2.175], abs=1e-6)

    @pytest.mark.parametrize("projection", ["incident", "induced"])
    def test_the_same_at_any_place(self, native, projection):
        other = [np.array([0.0, 1.0]), np.array([-1.0, 0.2])]
        options = {"wide_search_top_k": 1, "top_k": 2, "projection": projection}
        alone = native.recall(vectors=QUERY, **options)[0]
        for place in range(3):
            batch = [*other[:place], QUERY, *other[place:]]
            assert same(native.recall(vectors=np.stack(batch), **options)[place], alone)
        assert same(native.recall(vectors=QUERY[None], **options)[0], alone)

    def test_cognee(self):
        made = as_in_cognee(self.EDGES, *self.collections(order="input"))
        single = made.recall(vectors=QUERY, wide_search_top_k=1, top_k=2)[0]
        assert triplets(single) == [("a", "r1", "b")]
        assert single.scores == close([10.35], abs=1e-6)
        batch = made.recall(vectors=np.stack([QUERY, QUERY]), wide_search_top_k=1, top_k=2)
        assert [len(r.edges) for r in batch] == [2, 2]  # its lists know no limit
        assert batch[1].scores == close([1.2, 2.175], abs=1e-6)


class TestAdmission:
    """C2."""

    EDGES = (("s", "r", "t"), ("u", "r", "v"))

    def test_native(self):
        made = engine(graph(self.EDGES), names({"s": 0.2}), relations({"r": 0.3}))
        either = made.recall(vectors=QUERY, projection="incident")[0]
        assert triplets(either) == [("s", "r", "t")]
        assert either.scores == close([10.5], abs=1e-6)
        both = made.recall(vectors=QUERY)[0]
        assert (triplets(both), both.status) == ([], "empty_fragment")

    def test_cognee(self):
        made = as_in_cognee(self.EDGES, names({"s": 0.2}, order="input"), relations({"r": 0.3}, order="input"))
        result = made.recall(vectors=QUERY)[0]
        assert triplets(result) == [("s", "r", "t")]
        assert result.scores == close([10.5], abs=1e-6)


class TestOneNodeInTwoCollections:
    """C3."""

    EDGES = (("X", "r", "Z"), ("Y", "r", "Z"))

    def collections(self, **options):
        return (
            names({"X": 0.2, "Y": 0.4, "Z": 0.2}, "Entity_name", **options),
            names({"X": 0.9}, "TextSummary_text", **options),
            relations({"r": 0.3}, **options),
        )

    @pytest.mark.parametrize("wide", [100, None])
    def test_native_takes_the_best(self, wide):
        first, second, keys = self.collections()
        for order in ((first, second, keys), (second, first, keys)):
            result = engine(graph(self.EDGES), *order).recall(vectors=QUERY, wide_search_top_k=wide)[0]
            assert triplets(result) == [("X", "r", "Z"), ("Y", "r", "Z")]
            assert result.scores == close([1.05, 1.35], abs=1e-6)
            assert result.explain()["triplets"][0]["parts"]["source"]["collection"] == "Entity_name"

    @pytest.mark.parametrize("wide", [100, None])
    def test_cognee_takes_the_last_visited(self, wide):
        made = as_in_cognee(self.EDGES, *self.collections(order="input"))
        order = ["Entity_name", "TextSummary_text", "EdgeType_relationship_name"]
        result = made.recall(vectors=QUERY, wide_search_top_k=wide, collections=order)[0]
        assert triplets(result) == [("Y", "r", "Z"), ("X", "r", "Z")]
        assert result.scores == close([1.35, 2.1], abs=1e-6)
        turned = made.recall(vectors=QUERY, wide_search_top_k=wide, collections=[order[1], order[0], order[2]])[0]
        assert turned.scores == close([1.05, 1.35], abs=1e-6)


class TestImportanceOutsideItsRange:
    """C4."""

    @pytest.mark.parametrize("weight", [3.0, -0.1, float("nan"), "high"])
    def test_refused_with_the_row(self, weight):
        nodes = {"id": ["a", "b", "c"], "importance_weight": [0.5, None, weight]}
        edges = {"source": ["a"], "target": ["b"], "relation": ["r"]}
        with pytest.raises(InvalidData, match=r"importance_weight.*1 row, first 2"):
            Graph.from_tables(nodes, edges)
        made = Graph.from_tables(nodes, edges, bad_rows="skip")
        assert made.ids.to_pylist() == ["a", "b"]
        assert made.report.skipped_nodes == [2]
        edges["importance_weight"] = [weight]
        with pytest.raises(InvalidData, match=r"edge importance_weight.*first 0"):
            Graph.from_tables({"id": ["a", "b"]}, edges)

    def test_the_good_triplet(self):
        made = engine(graph([("a", "r", "b")]), names({"a": 0.1, "b": 0.1}), relations({"r": 0.1}))
        assert made.recall(vectors=QUERY)[0].scores == close([0.45], abs=1e-6)

    def test_cognee_lets_it_win(self):
        heavy = {"importance_weight": 3.0}
        nodes = [("a", {}), ("b", {}), ("x", heavy), ("y", heavy)]
        edges = [("a", "b", "good", {}), ("x", "y", "bad", heavy)]
        made = engine(
            graph_from_records(nodes, edges, edge_importance=True),
            names({"a": 0.1, "b": 0.1, "x": 1.5, "y": 1.5}, order="input"),
            relations({"good": 0.1, "bad": 1.5}, order="input"),
            mode="cognee",
        )
        result = made.recall(vectors=QUERY)[0]
        assert triplets(result) == [("x", "bad", "y"), ("a", "good", "b")]
        assert result.scores == close([-4.5, 0.45], abs=1e-6)


class TestRepeatedEdges:
    """C5."""

    ROWS = (("A", "founded", "B"), ("A", "founded", "B"), ("A", "left", "B"), ("B", "founded", "A"))
    FOUND = (names({"A": 0.2, "B": 0.2}), relations({"founded": 0.2, "left": 0.2}))

    def test_merged_without_ids(self):
        made = graph(self.ROWS)
        result = engine(made, *self.FOUND).recall(vectors=QUERY, top_k=10)[0]
        assert triplets(result) == [("A", "founded", "B"), ("A", "left", "B"), ("B", "founded", "A")]
        assert made.report.merged_edges == 1

    def test_kept_with_ids(self):
        made = graph([(*row, f"e{i}") for i, row in enumerate(self.ROWS)])
        result = engine(made, *self.FOUND).recall(vectors=QUERY, top_k=10)[0]
        assert [t.edge_id for t in result.triplets] == ["e0", "e1", "e2", "e3"]
        assert triplets(result) == list(self.ROWS)

    def test_cognee_keeps_all(self):
        found = [names({"A": 0.2, "B": 0.2}, order="input"), relations({"founded": 0.2, "left": 0.2}, order="input")]
        result = as_in_cognee(self.ROWS, *found).recall(vectors=QUERY, top_k=10)[0]
        assert triplets(result) == list(self.ROWS)


class TestTies:
    """C6."""

    ROWS = (
        ("10", "r", "x"), ("2", "r", "9", "10"), ("2", "r", "9", "9"), ("2", "s", "10"), ("9", "a", "10"),
        ("x", "a", "x"),
    )  # fmt: skip
    TIED = ("10", "2", "9", "x")

    @pytest.mark.parametrize("wide", [100, None])
    @pytest.mark.parametrize("projection", [None, "induced", "incident", "full"])
    def test_any_load_order(self, device, wide, projection):
        want = [row[:3] for row in self.ROWS[:3]]
        for seed in range(3):
            rng = random.Random(seed)
            rows, ids, keys = list(self.ROWS), list(self.TIED), ["r", "s", "a"]
            for part in (rows, ids, keys):
                rng.shuffle(part)
            found = names(dict.fromkeys(ids, 0.25)), relations(dict.fromkeys(keys, 0.5))
            made = engine(graph(rows, ids), *found, device=device)
            options = {"top_k": 3, "wide_search_top_k": wide, "projection": projection}
            result = made.recall(vectors=QUERY, **options)[0]
            assert triplets(result) == want
            assert [t.edge_id for t in result.triplets] == [None, "10", "9"]
            assert len(set(result.scores.tolist())) == 1
            batch = made.recall(vectors=np.stack([QUERY] * 5), **options)
            assert all(same(r, result) for r in batch)


class TestPrefix:
    """C7."""

    KS = (10, 1024, 1025, 2048, 2049, 3000, 10000)

    @pytest.fixture
    def rows(self):
        rng = np.random.default_rng(7)
        rows = rng.normal(size=(5000, 16))
        rows[rng.choice(5000, 2000, replace=False)] = rows[rng.integers(0, 50, 2000)]
        return rows

    def test_index(self, rows, device):
        queries = torch.nn.functional.normalize(torch.randn(4, 16, generator=torch.Generator().manual_seed(1)), dim=1)
        index = Collection.build("c", rows, owner=np.arange(5000), order="input").index.to(torch.device(device))
        queries = queries.to(device)
        most, distance = index.search(queries, 10000)
        assert most.shape == (4, 5000)
        assert torch.equal(most.sort(dim=1).values.cpu(), torch.arange(5000, dtype=torch.int32).expand(4, -1))
        assert bool((distance.diff(dim=1) >= 0).all())
        tied = distance.diff(dim=1) == 0
        assert int(tied.sum()) > 4000
        assert bool((most.diff(dim=1)[tied] > 0).all())
        unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        assert np.abs((1 - queries.cpu().numpy() @ unit.T) - index.dense(queries).cpu().numpy()).max() < 1e-6
        for k in self.KS:
            row, near = index.search(queries, k)
            assert torch.equal(row, most[:, :k])
            assert torch.equal(near, distance[:, :k])

    def test_recall(self, rows, device):
        ids = [f"n{i}" for i in range(5000)]
        edges = [(ids[i], "r", ids[(i * 7 + 1) % 5000]) for i in range(3000)]
        made = engine(graph(edges, ids), Collection.build("n", rows, owner=ids), device=device)
        query = rows[:2]
        for wide in (None, 3000):
            most = made.recall(vectors=query, top_k=10000, wide_search_top_k=wide)
            assert wide or [len(r.edges) for r in most] == [3000, 3000]
            for k in (10, 1024, 2049, 3000):
                for got, every in zip(made.recall(vectors=query, top_k=k, wide_search_top_k=wide), most, strict=True):
                    assert np.array_equal(got.edges, every.edges[:k])
                    assert np.array_equal(got.scores, every.scores[:k])
