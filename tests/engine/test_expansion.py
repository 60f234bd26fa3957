"""Subgraphs around seeds: against networkx, by hand, and the same in any batch."""

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tercet import Collection, Engine, Graph
from tercet.errors import InvalidArgument, UnknownId
from tests.engine import small


def random_graph(nodes: int, edges: int, seed: int, **columns) -> Graph:
    """A multigraph with self loops, parallel edges and isolated nodes; ids are zero-padded so that rows are numbers."""
    rng = np.random.default_rng(seed)
    ends = rng.integers(0, nodes, (2, edges))
    ids = [f"{i:04d}" for i in range(nodes)]
    labels = [[["A"], ["B"], ["A", "C"], []][i] for i in rng.integers(0, 4, nodes)]
    table = {"source": [ids[i] for i in ends[0]], "target": [ids[i] for i in ends[1]],
             "relation": [f"R{i}" for i in rng.integers(0, 3, edges)], "id": [f"e{i:05d}" for i in range(edges)],
             **columns}  # fmt: skip
    return Graph.from_tables({"id": ids, "labels": labels}, table)


def engine_of(graph: Graph, device: str = "cpu", dimension: int = 8, seed: int = 0) -> Engine:
    vectors = np.random.default_rng(seed).normal(size=(graph.num_nodes, dimension)).astype(np.float32)
    names = Collection.build("names", vectors, owner=graph.ids)
    return Engine(graph, [names], device=device)


def networkx_of(graph: Graph, direction: str) -> nx.MultiDiGraph:
    made = nx.MultiDiGraph()
    made.add_nodes_from(range(graph.num_nodes))
    made.add_edges_from(zip(graph.source.tolist(), graph.target.tolist(), range(graph.num_edges), strict=True))
    return {"out": made, "in": made.reverse(), "both": made.to_undirected()}[direction]


@given(
    nodes=st.integers(1, 12), edges=st.integers(0, 24), seed=st.integers(0, 50), hops=st.integers(0, 4),
    direction=st.sampled_from(["both", "out", "in"]), data=st.data(),
)  # fmt: skip
@settings(max_examples=40, deadline=None, derandomize=True)
def test_reaches_what_networkx_reaches(nodes, edges, seed, hops, direction, data) -> None:
    graph = random_graph(nodes, edges, seed)
    engine = Engine(graph, [], device="cpu")
    lists = data.draw(st.lists(st.lists(st.integers(0, nodes - 1), max_size=4), min_size=1, max_size=4))
    got = engine.subgraph([[f"{i:04d}" for i in seeds] for seeds in lists], expand=hops, direction=direction)
    walked = networkx_of(graph, direction)
    for seeds, sub in zip(lists, got, strict=True):
        want = {}
        for s in seeds:
            for v, d in nx.single_source_shortest_path_length(walked, s, cutoff=hops).items():
                want[v] = min(want.get(v, d), d)
        assert {int(i): h for i, h in sub.hops.items()} == want
        assert [int(i) for i in sub.seed_ids()] == list(dict.fromkeys(seeds))
        assert sub.node_ids()[: len(sub.seeds)] == sub.seed_ids()
        inside = [e for e in range(graph.num_edges) if {int(graph.source[e]), int(graph.target[e])} <= set(want)]
        assert sub.edge_rows.tolist() == inside  # parallel ones and self loops too
        assert sub.status == ("ok" if seeds else "no_hits")


def test_levels_come_by_node_row_and_a_budget_keeps_a_prefix() -> None:
    graph = random_graph(60, 200, 1)
    engine = Engine(graph, [], device="cpu")
    seeds = ["0005", "0011"]
    whole = engine.subgraph(seeds, expand=3)[0]
    hops = list(whole.hops.values())
    assert hops == sorted(hops)
    for level in set(hops) - {0}:
        rows = [r for r, h in zip(whole.node_rows.tolist(), hops, strict=True) if h == level]
        assert rows == sorted(rows)
    assert (whole.truncated, whole.available) == (False, len(whole))
    for budget in range(1, len(whole) + 2):
        cut = engine.subgraph(seeds, expand=3, max_nodes=budget)[0]
        assert cut.node_ids() == whole.node_ids()[: max(budget, 2)]
        assert cut.truncated == (budget < len(whole))
        assert cut.taken == len(cut)
        assert cut.available > cut.taken or not cut.truncated


def test_weights_rank_a_level_and_similarity_goes_before() -> None:
    edges = {
        "source": list("hhhhh"),
        "target": list("abcda"),
        "relation": ["r"] * 5,
        "weight": [1.0, 5.0, None, 3.0, 4.0],
    }
    graph = Graph.from_tables({"id": list("habcd")}, {**edges, "id": list("12345")})
    engine = small.engine(graph, small.names({"h": 0.0, "a": 0.9, "b": 0.8, "c": 0.1, "d": 0.5}))
    assert engine.subgraph(["h"], expand=1).node_ids() == list("hbadc")  # 5, 4, 3, none
    assert engine.subgraph(["h"], expand=1, rank="id").node_ids() == list("habcd")
    assert engine.subgraph(["h"], expand=1, max_nodes=3).node_ids() == list("hba")
    near = engine.semantic_subgraph(vectors=small.QUERY, k=1)
    assert near.node_ids() == list("hcdba")
    assert engine.semantic_subgraph(vectors=small.QUERY, k=1, max_nodes=3).node_ids() == list("hcd")
    assert engine.semantic_subgraph(vectors=small.QUERY, k=1, rank="weight").node_ids() == list("hbadc")
    with pytest.raises(InvalidArgument, match=r"^rank: 'similarity' needs"):
        engine.subgraph(["h"], rank="similarity")
    with pytest.raises(InvalidArgument, match=r"^rank: 'weight' needs a column"):
        Engine(random_graph(3, 3, 0), [], device="cpu").subgraph(["0000"], rank="weight")


def test_type_filters_restrict_the_walk_and_the_relationships_only_when_asked() -> None:
    graph = small.graph([("a", "K", "b"), ("b", "L", "c"), ("c", "K", "a"), ("a", "M", "b")])
    engine = small.engine(graph)
    got = engine.subgraph(["a"], expand=1, rel_types=["K"])[0]
    assert got.node_ids() == ["a", "b", "c"]
    assert [r.type for r in got.relationships] == ["K", "M", "L", "K"]
    only = engine.subgraph(["a"], expand=1, rel_types=["K"], filter_edges=True)[0]
    assert [r.type for r in only.relationships] == ["K", "K"]
    assert engine.subgraph(["a"], expand=1, exclude_rel_types=["K", "M"]).node_ids() == ["a"]
    assert engine.subgraph(["a"], expand=2, exclude_rel_types=["K"]).hops == {"a": 0, "b": 1, "c": 2}
    assert engine.subgraph(["a"], expand=1, rel_types=["nothing"]).node_ids() == ["a"]
    assert engine.subgraph(["a"], expand=1, rel_types=[], include_edges=False).relationships == []


def test_labels_block_the_way_and_seeds_are_exempt() -> None:
    graph = Graph.from_tables(
        {"id": list("abcd"), "labels": [[], ["X"], ["Y"], ["Y"]]},
        {"source": list("abc"), "target": list("bcd"), "relation": ["r"] * 3},
    )
    engine = small.engine(graph)
    assert engine.subgraph(["a"], expand=3, labels=["y"]).node_ids() == ["a"]
    assert engine.subgraph(["a"], expand=3, labels=["X", "Y"]).node_ids() == list("abcd")
    assert engine.subgraph(["b"], expand=3, labels=["Y"]).hops == {"b": 0, "c": 1, "d": 2}


def test_a_hub_costs_what_the_budget_asks_for() -> None:
    size = 300_000
    ids = np.arange(size)
    graph = Graph.from_tables(
        {"id": ids}, {"source": np.zeros(size - 1, int), "target": ids[1:], "relation": ["r"] * (size - 1)}
    )
    engine = Engine(graph, [], device="cpu")
    got = engine.subgraph([["0"], ["1"]], expand=2, max_nodes=50)
    assert [len(s) for s in got] == [50, 50]
    assert [s.truncated for s in got] == [True, True]
    assert got[0].available == size
    assert [len(s.relationships) for s in got] == [49, 49]
    assert sum(x.nbytes for x in (got.node, got.hop, got.edge)) < 2000


def test_seeds_come_in_any_form() -> None:
    engine = engine_of(random_graph(12, 30, 3))
    node = engine.subgraph(["0003"])[0].nodes[0]
    got = engine.subgraph(
        [node, {"node": "0004", "score": 0.5}, {"entity": node, "score": 9.0}, "0004", {"node": node}]
    )[0]
    assert got.seed_ids() == ["0003", "0004"]  # a repeat keeps what came first
    assert got.scores == {"0004": 0.5}
    assert [s["score"] for s in got.seeds] == [None, 0.5]
    rows = engine.subgraph(torch.tensor([[3, 4, -1], [4, 4, 5]]))
    assert [s.seed_ids() for s in rows] == [["0003", "0004"], ["0004", "0005"]]
    assert engine.subgraph(torch.tensor([3, 4])).seed_ids() == ["0003", "0004"]
    hits = engine.semantic_search(vectors=np.eye(8)[:3], k=4)
    grown = engine.subgraph(hits, expand=1)
    direct = engine.semantic_subgraph(vectors=np.eye(8)[:3], k=4, rank="id")
    assert [s.node_ids() for s in grown] == [s.node_ids() for s in direct]
    assert [s.scores for s in grown] == [s.scores for s in direct]
    assert engine.subgraph(hits[1], expand=1).node_ids() == direct[1].node_ids()
    assert engine.subgraph([hits[2], list(hits[0])])[1].seed_ids() == direct[0].seed_ids()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"direction": "up"}, "direction: expected one of 'both', 'out', 'in', got 'up'"),
        ({"expand": -1}, "expand: expected an integer of at least 0"),
        ({"expand": 1.5}, "expand: expected an integer"), ({"expand": None}, "expand: expected an integer"),
        ({"max_nodes": 0}, "max_nodes: expected an integer of at least 1"),
        ({"rel_types": ["a"], "exclude_rel_types": ["a", "b"]}, "rel_types and exclude_rel_types"),
        ({"rel_types": "abc"}, "rel_types"), ({"labels": "abc"}, "labels: expected a list of labels"),
        ({"rank": "best"}, "rank: expected one of"),
        ({"seeds": "0001"}, "seeds: expected a list"), ({"seeds": None}, "seeds: expected a list"),
        ({"seeds": [1.5]}, "seeds: entry 0: an id must be"), ({"seeds": [None]}, "seeds: entry 0: an id must be"),
        ({"seeds": [{"score": 1}]}, "seeds: entry 0: expected a hit with a 'node'"),
        ({"seeds": [{"node": "0001", "score": "high"}]}, "seeds: entry 0: expected a score that is a number"),
        ({"seeds": torch.rand(3)}, "seeds: expected a tensor of node rows"),
    ],
)  # fmt: skip
def test_wrong_calls_are_refused_by_name(arguments: dict, message: str) -> None:
    engine = engine_of(random_graph(5, 5, 0))
    with pytest.raises(InvalidArgument, match=r"^" + message):
        engine.subgraph(**{"seeds": ["0001"], **arguments})


def test_an_unknown_id_fails_its_own_query() -> None:
    engine = engine_of(random_graph(5, 9, 0))
    got = engine.subgraph([["0001"], ["0002", "nobody"], [3], [None]], expand=1)
    assert got.status == ["ok", "failed", "failed", "failed"]
    assert "entry 1: the graph has no node with the id 'nobody'" in (got[1].error or "")
    assert got[0].node_ids() == engine.subgraph(["0001"], expand=1).node_ids()
    assert got[1].is_empty()
    with pytest.raises(UnknownId, match=r"^seeds: entry 0"):
        engine.subgraph(["nobody"])
    with pytest.raises(UnknownId, match=r"^seeds: expected node rows"):
        engine.subgraph(torch.tensor([5]))
    assert len(engine.subgraph([[], ["0001"]])) == 2
    assert engine.subgraph([]).status == ["no_hits"]


def answers(got) -> list:
    return [
        (s.status, s.node_ids(), s.hops, s.seeds, s.edge_rows.tolist(), s.paths, s.available, s.truncated) for s in got
    ]


@pytest.mark.parametrize(
    "options", [{}, {"expand": 2, "max_nodes": 20}, {"direction": "out", "rank": "id", "labels": ["A"]}]
)
def test_a_query_gets_the_same_subgraph_alone_and_in_any_batch(options: dict) -> None:
    engine = engine_of(random_graph(80, 300, 5))
    queries = np.random.default_rng(7).normal(size=(9, 8)).astype(np.float32)
    whole = answers(engine.semantic_subgraph(vectors=queries, k=[1, 2, 3, 4, 5, 6, 7, 8, 9], **options))
    for i in range(9):
        assert answers(engine.semantic_subgraph(vectors=queries[i], k=i + 1, **options)) == [whole[i]]
    order = np.random.default_rng(1).permutation(9)
    shuffled = engine.semantic_subgraph(vectors=queries[order], k=(order + 1).tolist(), **options)
    assert answers(shuffled) == [whole[i] for i in order]


def test_the_reference_kernels_give_the_same_subgraphs(monkeypatch) -> None:
    """What serves CUDA without Triton, on the CPU."""
    from tercet_kernels.extend import reference

    engine = engine_of(random_graph(80, 300, 6))
    queries = np.random.default_rng(7).normal(size=(5, 8)).astype(np.float32)
    options = {"vectors": queries, "k": 3, "expand": 2, "max_nodes": 30}
    want = answers(engine.semantic_subgraph(**options))
    names = ("direction", "order", "rank", "near", "relation", "walkable", "allowed", "allowed_row", "limit")
    plain = lambda *given, **o: reference.extend(*given, *(o.get(n) for n in names))  # noqa: E731
    monkeypatch.setattr("tercet.retrieve.expansion.extend", plain)
    assert answers(engine.semantic_subgraph(**options)) == want
    monkeypatch.setattr("tercet.retrieve.nearness.Nearness.near", lambda self, size: None)
    assert answers(engine.semantic_subgraph(**options)) == want  # what several collections take


def test_an_attribute_of_a_larger_batch_says_what_to_do() -> None:
    engine = engine_of(random_graph(5, 5, 0))
    got = engine.subgraph([["0001"], ["0002"]])
    with pytest.raises(AttributeError, match=r"nodes: this result holds 2 subgraphs; take one of them: result\[i\]"):
        got.nodes  # noqa: B018
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        got.nonsense  # noqa: B018
