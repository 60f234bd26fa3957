"""Without a limit: pruning and lazy relation distances rank exactly as scoring every edge does."""

import numpy as np
import pytest
import torch

from tercet import Collection, Engine, Graph, floors, full, reach


@pytest.fixture(autouse=True)
def without_floors(monkeypatch):
    """Byte floors have tests of their own."""
    monkeypatch.setattr(floors, "LEAST", 1 << 60)


def engine_of(seed, nodes=300, edges=3000, relations=40, own_texts=False, **columns):
    rng = np.random.default_rng(seed)
    ids = [f"n{i:04d}" for i in range(nodes)]
    unit = lambda x: x / np.linalg.norm(x, axis=1, keepdims=True)  # noqa: E731
    centres = rng.standard_normal((12, 24))
    near = lambda count: unit(centres[rng.integers(0, 12, count)] + 0.8 * rng.standard_normal((count, 24)))  # noqa: E731
    texts = [f"text {i}" for i in range(edges if own_texts else relations)]
    chosen = np.arange(edges) if own_texts else rng.integers(0, relations, edges)
    table = {
        "source": rng.choice(ids, edges), "target": rng.choice(ids, edges), "relation": np.array(texts)[chosen],
        "edge_text": np.array(texts)[chosen],
    }  # fmt: skip
    node_columns = {name: make(rng, nodes) for name, make in columns.items() if not name.startswith("edge_")}
    table.update({name[5:]: make(rng, edges) for name, make in columns.items() if name.startswith("edge_")})
    graph = Graph.from_tables({"id": ids, **node_columns}, table)
    collections = [
        Collection.build("names", near(nodes).astype(np.float32), ids),
        Collection.build("relations", near(len(texts)).astype(np.float32), texts, "relation"),
    ]
    return Engine(graph, collections), near(9).astype(np.float32)


def both(monkeypatch, engine, queries, lazy=False, **options):
    """Answers with pruning, and with every edge scored."""
    answers = []
    for small in (0, 1 << 40):
        monkeypatch.setattr(reach, "SMALL", small)
        monkeypatch.setattr(reach, "LAZY_KEYS", 0 if lazy and small == 0 else 1 << 40)
        answers.append(engine.recall(vectors=queries, wide_search_top_k=None, **options))
    return answers


def same(a, b):
    assert torch.equal(a.edges, b.edges)
    np.testing.assert_array_equal(np.asarray(a.scores), np.asarray(b.scores))
    assert [r.status for r in a] == [r.status for r in b]


@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize(
    "options", [{}, {"top_k": 200}, {"feedback_influence": 0.5}, {"triplet_distance_penalty": 0.3}]
)
def test_pruned_equals_everything(monkeypatch, options, lazy):
    for seed in range(3):
        engine, queries = engine_of(seed)
        same(*both(monkeypatch, engine, queries, lazy, **options))


@pytest.mark.parametrize("lazy", [False, True])
def test_weights_of_nodes_and_edges(monkeypatch, lazy):
    weights = lambda rng, n: rng.choice([0.0, 0.5, 1.0], n)  # noqa: E731
    engine, queries = engine_of(
        5, importance_weight=weights, feedback_weight=weights, edge_importance_weight=weights,
        edge_feedback_weight=weights,
    )  # fmt: skip
    for influence in (0.0, 0.7, 1.0):
        same(*both(monkeypatch, engine, queries, lazy, top_k=20, feedback_influence=influence))


def test_a_text_an_edge(monkeypatch):
    engine, queries = engine_of(6, own_texts=True)
    same(*both(monkeypatch, engine, queries, lazy=True, top_k=15))


def test_filters_and_distance_limits(monkeypatch):
    engine, queries = engine_of(7)
    mask = np.arange(300) % 3 == 0
    same(*both(monkeypatch, engine, queries, filter=mask, top_k=10))
    same(*both(monkeypatch, engine, queries, max_distance=0.6, top_k=10))
    same(*both(monkeypatch, engine, queries, lazy=True, filter=mask, top_k=10))


def test_limited_candidates_over_the_whole_graph(monkeypatch):
    engine, queries = engine_of(8)
    got = []
    for small in (0, 1 << 40):
        monkeypatch.setattr(reach, "SMALL", small)
        got.append(engine.recall(vectors=queries, wide_search_top_k=10, projection="full", top_k=30))
    same(*got)


@pytest.mark.parametrize("options", [{}, {"filter": np.arange(300) % 4 > 0}, {"triplet_distance_penalty": 1.0},
                                     {"max_distance": 0.5}, {"feedback_influence": 0.5}])  # fmt: skip
def test_edges_of_which_nothing_is_matched(monkeypatch, options):
    """They tie, and of a limited search they are most of the graph: no more of them than asked for are looked at."""
    engine, queries = engine_of(10)
    looked = []
    plain, own = full.reach, full._tied
    monkeypatch.setattr(full, "reach", lambda *a: looked.append(plain(*a)) or looked[-1])
    for top_k in (5, 400, 5000):
        got = []
        for tied in (own, lambda *_: None):
            monkeypatch.setattr(full, "_tied", tied)
            got.append(engine.recall(vectors=queries, wide_search_top_k=3, projection="full", top_k=top_k, **options))
        same(*got)
    few, many = (x.edge.shape[0] for x in looked[2:4])
    assert few <= many
    if not options:
        assert many == 9 * engine.graph.num_edges
        assert few < many // 3


def test_alone_and_in_a_batch(monkeypatch):
    monkeypatch.setattr(reach, "SMALL", 0)
    engine, queries = engine_of(9)
    together = engine.recall(vectors=queries, wide_search_top_k=None, top_k=12)
    for i, query in enumerate(queries):
        alone = engine.recall(vectors=query, wide_search_top_k=None, top_k=12)
        assert torch.equal(alone.edges[0], together.edges[i])
        np.testing.assert_array_equal(np.asarray(alone.scores[0]), np.asarray(together.scores[i]))


def test_pruning_is_taken(monkeypatch):
    """The comparison above means something: clustered vectors are answered from a part of the edges."""
    monkeypatch.setattr(reach, "SMALL", 0)
    seen = []
    inner = reach.edge_prune
    monkeypatch.setattr(reach, "edge_prune", lambda *a, **k: seen.append(inner(*a, **k)) or seen[-1])
    engine, queries = engine_of(0, nodes=2000, edges=8000)
    engine.recall(vectors=queries, wide_search_top_k=None)
    assert not seen[0].open.any()
    assert (seen[0].read < 8000).all()


def test_the_share_of_the_graph_that_was_read_is_told(monkeypatch):
    engine, queries = engine_of(0, nodes=2000, edges=8000)
    for small, low, high in ((0, 0.0, 0.5), (1 << 40, 1.0, 1.0)):
        monkeypatch.setattr(reach, "SMALL", small)
        for result in engine.recall(vectors=queries, wide_search_top_k=None):
            assert low <= result.explain()["counts"]["share_read"] <= high
    assert "share_read" not in engine.recall(vectors=queries)[0].explain()["counts"]
