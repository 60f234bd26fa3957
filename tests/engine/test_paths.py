"""Routes between waypoints: against networkx, by hand, and the same in any batch."""

from itertools import pairwise

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tercet.errors import InvalidArgument
from tests.engine import small
from tests.engine.test_expansion import answers, engine_of, networkx_of, random_graph


def node(i: int) -> dict:
    return {"node": f"{i:04d}"}


@given(
    nodes=st.integers(2, 10), edges=st.integers(0, 24), seed=st.integers(0, 50), max_hops=st.integers(1, 5),
    direction=st.sampled_from(["both", "out", "in"]),
)  # fmt: skip
@settings(max_examples=30, deadline=None, derandomize=True)
def test_finds_all_shortest_routes_of_every_pair(nodes, edges, seed, max_hops, direction) -> None:
    graph = random_graph(nodes, edges, seed)
    engine = engine_of(graph)
    walked = networkx_of(graph, direction)
    simple = nx.Graph(walked) if direction == "both" else nx.DiGraph(walked)
    items = [[node(a), node(b)] for a in range(nodes) for b in range(nodes)]
    got = engine.path_context(items, max_hops=max_hops, direction=direction, max_paths=1000)
    for (a, b), sub in zip(((a, b) for a in range(nodes) for b in range(nodes)), got, strict=True):
        far = nx.shortest_path_length(simple, a, b) if nx.has_path(simple, a, b) else 99
        report = sub.pairs[0]
        want = "same_node" if a == b else "ok" if far <= max_hops else "no_route"
        assert report["status"] == want
        assert report["hops"] == (far if want in ("ok", "same_node") else None)
        routes = {tuple(map(int, p)) for p in sub.paths}
        assert routes == ({tuple(p) for p in nx.all_shortest_paths(simple, a, b)} if want == "ok" else set())
        assert report["routes"] == len(sub.paths)
        assert sub.status == ("ok" if want == "ok" else "no_route")
        assert set(sub.node_ids()) == {i for p in sub.paths for i in p}


def chain_engine():
    """a - b - c - d - e, and a shortcut b - x - d; z is alone."""
    graph = small.graph(
        [("a", "r", "b"), ("b", "r", "c"), ("c", "r", "d"), ("d", "r", "e"), ("b", "s", "x"), ("x", "s", "d")],
        nodes=["z"],
    )
    return small.engine(graph, small.names({"a": 0.0, "e": 1.0, "c": 0.4, "z": 2.0, "x": 0.6}))


def test_what_a_route_says_by_hand() -> None:
    got = chain_engine().path_context([{"node": "a"}, {"node": "e"}, {"node": "x"}], max_hops=4)[0]
    assert got.paths == [list("abcde"), list("abxde"), list("edx")]
    assert got.node_ids() == list("abcdex")
    assert got.hops == {"a": 0, "b": 1, "c": 2, "d": 1, "e": 0, "x": 2}
    assert got.seed_ids() == ["a", "e", "x"]
    assert [r.type for r in got.relationships] == ["r", "r", "s", "r", "r", "s"]
    assert [(p["segment"], p["start"], p["end"], p["status"], p["hops"], p["routes"]) for p in got.pairs] == [
        (0, "a", "e", "ok", 4, 2), (1, "e", "x", "ok", 2, 1),
    ]  # fmt: skip
    one = chain_engine().path_context([{"node": "a"}, {"node": "e"}], max_hops=4, max_paths=1)[0]
    assert (one.paths, one.pairs[0]["truncated"]) == ([list("abcde")], True)
    assert chain_engine().path_context([{"node": "a"}, {"node": "e"}], max_hops=3).status == ["no_route"]
    without = chain_engine().path_context([{"node": "a"}, {"node": "e"}], max_hops=4, exclude_rel_types=["s"])
    assert without.paths == [list("abcde")]
    around = chain_engine().path_context([{"node": "a"}, {"node": "c"}], expand=1)[0]
    assert around.hops == {"a": 0, "b": 1, "c": 2, "d": 3, "x": 3}


def test_a_waypoint_is_located_by_its_nearest_nodes() -> None:
    got = chain_engine().path_context([[1.0, 0.0], [0.0, 1.0]], k=2, max_hops=4)[0]
    assert {(p["start"], p["end"]) for p in got.pairs} == {("a", "e"), ("a", "x"), ("c", "e"), ("c", "x")}
    assert got.scores["a"] == pytest.approx(1.0)
    assert set(got.seed_ids()) == {"a", "c", "e", "x"}


def test_joined_chains_begin_where_the_last_segment_ended() -> None:
    engine = chain_engine()
    got = engine.path_context([{"node": "a"}, {"node": "c"}, {"node": "e"}], max_hops=4, joined=True)[0]
    assert got.paths == [list("abcde")]
    assert got.hops == dict(zip("abcde", range(5), strict=True))
    free = engine.path_context([[1.0, 0.0], [0.0, 1.0], {"node": "d"}], k=2, max_hops=4, joined=True, max_paths=3)[0]
    # candidates a, c; then e, x: chains over e or x to d; the shortest first
    assert free.paths[:2] == [
        ["c", "d", "e", "d"],
        ["a", "b", "x", "d"],
    ]  # of three hops both
    lengths = [len(p) for p in free.paths]
    assert lengths == sorted(lengths)
    assert len(free.paths) == 3
    none = engine.path_context([{"node": "a"}, {"node": "z"}, {"node": "e"}], joined=True)
    assert none.status == ["no_route"]
    assert none.paths == []


@given(seed=st.integers(0, 40), waypoints=st.integers(2, 4), k=st.integers(1, 3), limit=st.integers(1, 5))
@settings(max_examples=25, deadline=None, derandomize=True)
def test_joined_chains_are_the_shortest_there_are(seed, waypoints, k, limit) -> None:
    graph = random_graph(12, 20, seed)
    engine = engine_of(graph, seed=seed)
    simple = nx.Graph(networkx_of(graph, "both"))
    queries = np.random.default_rng(seed).normal(size=(waypoints, 8)).astype(np.float32)
    got = engine.path_context(list(queries), k=k, max_hops=3, joined=True, max_paths=limit)[0]
    found = [[int(i) for i in hits.ids()] for hits in engine.semantic_search(vectors=queries, k=k)]
    totals = {(c,): 0 for c in found[0]}
    for options in found[1:]:
        longer = {}
        for done, total in totals.items():
            for c in options:
                far = nx.shortest_path_length(simple, done[-1], c) if nx.has_path(simple, done[-1], c) else 99
                if 1 <= far <= 3:
                    longer[(*done, c)] = total + far
        totals = longer
    assert [len(p) - 1 for p in got.paths] == sorted(totals.values())[:limit]
    for path in got.paths:
        assert all(simple.has_edge(int(a), int(b)) for a, b in pairwise(path))


@pytest.mark.parametrize("joined", [False, True])
def test_an_item_gets_the_same_routes_alone_and_in_any_batch(joined: bool) -> None:
    engine = engine_of(random_graph(60, 130, 9))
    rng = np.random.default_rng(3)
    items = [list(rng.normal(size=(n, 8)).astype(np.float32)) for n in (2, 3, 2, 4, 3, 2)]
    options = {"k": 2, "max_hops": 4, "joined": joined, "expand": 1}
    got = engine.path_context(items, **options)
    whole, reports = answers(got), [s.pairs for s in got]
    for i, item in enumerate(items):
        alone = engine.path_context(item, **options)
        assert answers(alone) == [whole[i]]
        assert alone.pairs == reports[i]
    order = [4, 2, 0, 5, 1, 3]
    assert answers(engine.path_context([items[i] for i in order], **options)) == [whole[i] for i in order]


def test_a_bad_item_fails_alone_and_a_bad_call_is_refused() -> None:
    engine = chain_engine()
    good = [{"node": "a"}, {"node": "c"}]
    got = engine.path_context(
        [
            good,
            [{"node": "a"}],
            [],
            [{"node": "a"}, {"node": "nobody"}],
            [[1.0], {"node": "a"}],
            [{"node": "a"}, None],
            good,
        ]
    )
    assert got.status == ["ok", "failed", "failed", "failed", "failed", "failed", "ok"]
    assert got[1].error == "expected at least 2 waypoints, got 1"
    assert "waypoint 1: the graph has no node with the id 'nobody'" in (got[3].error or "")
    assert "waypoint 0: expected a vector of dimension 2" in (got[4].error or "")
    assert "waypoint 1: expected a text, a vector or a node, got None" in (got[5].error or "")
    assert got[0].paths == got[6].paths == [["a", "b", "c"]]
    for waypoints, message in (
        ("abc", "waypoints: expected a list of texts"), ([], "waypoints: expected at least 2 waypoints, got 0"),
        ([{"node": "a"}], "waypoints: expected at least 2"), (5, "waypoints: expected a list"),
        ([{"node": "a"}, {"node": "nobody"}], "waypoints: waypoint 1: the graph has no node"),
    ):  # fmt: skip
        with pytest.raises(InvalidArgument, match=r"^" + message):
            engine.path_context(waypoints)
    for name in ("k", "max_hops", "max_paths"):
        for value in (0, -1, None, 1.5):
            with pytest.raises(InvalidArgument, match=f"^{name}: expected an integer"):
                engine.path_context(good, **{name: value})
    with pytest.raises(InvalidArgument, match=r"^direction"):
        engine.path_context(good, direction="up")
    with pytest.raises(InvalidArgument, match=r"^rel_types and exclude"):
        engine.path_context(good, rel_types=["r"], exclude_rel_types=["r"])


def test_an_id_of_a_wrong_kind_fails_its_own_item() -> None:
    good = [{"node": "a"}, {"node": "c"}]
    got = chain_engine().path_context([good, [{"node": 1.5}, {"node": "c"}]])
    assert got.status == ["ok", "failed"]
    assert "an id must be a string" in (got[1].error or "")


def test_a_waypoint_without_hits_is_reported() -> None:
    engine = chain_engine()
    got = engine.path_context([[1.0, 0.0], {"node": "e"}], filter=["z"], k=1)[0]
    assert got.pairs[0]["status"] == "no_route"
    nobody = np.zeros(engine.graph.num_nodes, bool)
    got = engine.path_context([[1.0, 0.0], {"node": "e"}], filter=nobody)[0]
    assert [p["status"] for p in got.pairs] == ["no_hits"]
    assert got.status == "no_hits"
