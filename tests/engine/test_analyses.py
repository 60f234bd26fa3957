"""Ranking within a result and over the whole graph, by an engine's verbs."""

import networkx as nx
import numpy as np
import pytest

from tercet import Engine, Graph
from tercet.errors import InvalidArgument
from tests.engine import small
from tests.engine.test_expansion import engine_of, random_graph


def barbell() -> Engine:
    """Two triangles with a bridge; the texts of a side share a word."""
    edges = [("a", "b"), ("b", "c"), ("c", "a"), ("c", "x"), ("x", "y"), ("y", "z"), ("z", "x")]
    graph = Graph.from_tables(
        {"id": list("abcxyz"), "text": ["apple pie"] * 3 + ["boat trip"] * 3},
        {"source": [s for s, _ in edges], "target": [t for _, t in edges], "relation": ["r"] * 7,
         "weight": [1.0, 1.0, 1.0, 0.0, 1.0, 1.0, 1.0]},
    )  # fmt: skip
    return small.engine(graph, small.names({"a": 0.0, "b": 0.5, "x": 1.5}))


def test_centrality_of_the_graph_and_of_a_result() -> None:
    engine = barbell()
    whole = engine.centrality("degree")
    assert [h["node"].id for h in whole][:2] == ["c", "x"]
    sub = engine.subgraph(["a"], expand=1)
    inside = engine.centrality("degree", graph=sub)
    assert {h["node"].id for h in inside} == {"a", "b", "c"}
    assert inside[0]["score"] == pytest.approx(1.0)
    assert engine.centrality("pagerank", graph=sub[0], limit=1)[0]["node"].id in "abc"
    with pytest.raises(InvalidArgument, match="one subgraph"):
        engine.centrality(graph=engine.subgraph([["a"], ["b"]]))
    with pytest.raises(InvalidArgument, match="kind"):
        engine.centrality("nope")


def test_communities_of_the_graph_and_of_a_result() -> None:
    engine = barbell()
    whole = engine.communities("greedy", label_terms=1)
    assert [set(c.nodes) for c in whole] == [set("abc"), set("xyz")]
    assert {c.label for c in whole} == {"apple", "boat"}
    sub = engine.subgraph(list("abcxyz"))
    assert [set(c.nodes) for c in engine.communities("louvain", graph=sub, seed=1)] == [set("abc"), set("xyz")]


def test_personalised_pagerank_of_every_query_at_once() -> None:
    engine = engine_of(random_graph(40, 120, 4))
    queries = np.random.default_rng(2).normal(size=(5, 8)).astype(np.float32)
    hits = engine.semantic_search(vectors=queries, k=4)
    got = engine.rank_subgraph(hits, top_k=40, tolerance=1e-12, max_iterations=500)
    made = nx.MultiGraph()
    made.add_nodes_from(range(40))
    made.add_edges_from(zip(engine.graph.source.tolist(), engine.graph.target.tolist(), strict=True))
    for found, ranked in zip(hits, got, strict=True):
        scores = np.maximum(found.scores, 0)
        wanted = dict(zip(found.node_rows.tolist(), scores.tolist(), strict=True))
        assert ranked.details["converged"]
        assert sum(ranked.scores) == pytest.approx(1.0, abs=1e-9)
        assert ranked.scores.tolist() == sorted(ranked.scores, reverse=True)
        reached = set().union(*(nx.node_connected_component(made, s) for s, m in wanted.items() if m > 0))
        assert {r for r, s in zip(ranked.node_rows.tolist(), ranked.scores, strict=True) if s > 0} <= reached
    for i in range(5):  # the same alone
        alone = engine.rank_subgraph(engine.semantic_search(vectors=queries[i], k=4), top_k=40, tolerance=1e-12,
                                     max_iterations=500)  # fmt: skip
        assert alone[0].scores.tolist() == got[i].scores.tolist()
        assert alone[0].ids() == got[i].ids()


def test_pagerank_stays_inside_a_subgraph_and_follows_weights() -> None:
    engine = barbell()
    subs = engine.subgraph([["a"], ["x"]], expand=1)
    got = engine.rank_subgraph(subs)
    assert set(got[0].ids()) == {"a", "b", "c"}
    assert set(got[1].ids()) == {"c", "x", "y", "z"}
    out = engine.rank_subgraph(subs, inside=False)
    assert len(out[0]) == 6
    cut = engine.rank_subgraph(["a"], weight="weight")[0]  # the bridge weighs nothing
    assert {i for i, s in zip(cut.ids(), cut.scores, strict=True) if s > 0} == set("abc")
    assert engine.rank_subgraph(subs[0]).status == ["ok"]
    one_way = engine.rank_subgraph(["x"], direction="out")[0]
    assert {i for i, s in zip(one_way.ids(), one_way.scores, strict=True) if s > 0} == set("xyz")


def test_a_bad_query_fails_alone_and_a_bad_call_is_refused() -> None:
    engine = barbell()
    got = engine.rank_subgraph([["a"], ["nobody"], []])
    assert got.status == ["ok", "failed", "no_hits"]
    assert [len(h) for h in got][1:] == [0, 0]
    for arguments, message in (
        ({"damping": 1.5}, "damping"), ({"direction": "up"}, "direction"), ({"top_k": 0}, "top_k"),
        ({"mass": "x"}, "mass"), ({"weight": "nothing"}, "weight"), ({"inside": True}, "inside"),
    ):  # fmt: skip
        with pytest.raises(InvalidArgument, match=f"^{message}"):
            engine.rank_subgraph(["a"], **arguments)
