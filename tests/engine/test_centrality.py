import random
import sys
from typing import Any

import networkx as nx
import numpy as np
import pytest

from tercet import Graph
from tercet.analyse import centrality
from tercet.analyse.centrality import KINDS
from tercet.analyse.flat import flatten
from tercet.errors import InvalidArgument, MissingDependency, NotConverged
from tests.engine.grafito_cases import recorded, subgraph
from tests.engine.small import graph as graph_of


def random_pair(seed: int, nodes: int = 30, edges: int = 90) -> tuple[Graph, nx.MultiDiGraph]:
    """The same multigraph twice: parallel edges, self loops, isolated nodes; edges have a length."""
    draw = random.Random(seed)
    ids = [f"n{i:03}" for i in range(nodes)]
    ends = [(draw.choice(ids[:-2]), draw.choice(ids[:-2])) for _ in range(edges)]
    ends += [*ends[:5], (ids[0], ids[0])]
    length = [draw.choice([0.5, 1.0, 2.0, 3.5]) for _ in ends]
    table = {
        "source": [s for s, _ in ends],
        "target": [t for _, t in ends],
        "relation": ["r"] * len(ends),
        "id": [f"e{i:04}" for i in range(len(ends))],
        "weight": length,
    }
    networkx = nx.MultiDiGraph()
    networkx.add_nodes_from(ids)
    networkx.add_edges_from((s, t, {"weight": w}) for (s, t), w in zip(ends, length, strict=True))
    return Graph.from_tables({"id": ids}, table), networkx


@pytest.mark.parametrize(
    ("graph", "call"), recorded("net_centrality") + recorded("net_centrality_loops_parallel")
)  # fmt: skip
def test_equals_what_grafito_recorded(graph: Any, call: Any) -> None:
    options = dict(call["kwargs"])
    if "weight_property" in options:
        options["weight"] = options.pop("weight_property")
    expect = call["expect"]
    if "error" in expect:
        error = {"DatabaseError": (InvalidArgument, NotConverged), "TypeError": TypeError}[expect["error"]["type"]]
        with pytest.raises(error):
            centrality(subgraph(graph, call), *call["args"], compatible=True, **options)
        return
    got = centrality(subgraph(graph, call), *call["args"], compatible=True, **options)
    assert [node for node, _ in got] == [hit["id"] for hit in expect["hits"]]
    assert [score for _, score in got] == pytest.approx([hit["score"] for hit in expect["hits"]], rel=1e-9, abs=1e-14)


def test_pagerank_of_a_star_by_hand() -> None:
    star = nx.DiGraph([(1, 0), (2, 0), (3, 0)])  # the centre dangles
    # leaf = .05 / .85 ... : x_leaf = a, x_centre = c: a = .15 / 4 + .85 c / 4, c = a + 3 * .85 a, 3 a + c = 1
    leaf = 1 / (3 + 1 + 3 * 0.85)
    got = dict(centrality(star, tol=1e-14, max_iter=500))
    assert got == pytest.approx({0: 1 - 3 * leaf, 1: leaf, 2: leaf, 3: leaf}, abs=1e-12)


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("weight", [None, "weight"])
@pytest.mark.parametrize("options", [{}, {"personalization": {"n001": 2.0, "n028": 1.0}}], ids=["even", "personal"])
def test_pagerank_is_networkx_definition_for_every_form(directed: bool, weight: str | None, options: Any) -> None:
    graph, networkx = random_pair(3)
    reference = networkx if directed else nx.MultiGraph(list(networkx.edges(data=True)))
    reference.add_nodes_from(networkx)
    pytest.importorskip("scipy", reason="networkx's own pagerank needs scipy")
    want = nx.pagerank(reference, weight=weight, tol=1e-12, max_iter=1000, **options)
    for form in (graph, networkx):
        got = dict(centrality(form, weight=weight, directed=directed, tol=1e-12, max_iter=1000, **options))
        assert got == pytest.approx(want, abs=1e-9)


def test_pagerank_stops_where_networkx_stops() -> None:
    graph, networkx = random_pair(4)
    pytest.importorskip("scipy", reason="networkx's own pagerank needs scipy")
    want = nx.pagerank(networkx, weight=None)  # far from the fixed point at the default tolerance
    for form in (graph, networkx):
        assert dict(centrality(form)) == pytest.approx(want, abs=1e-12)


def test_pagerank_takes_dangling_and_a_start() -> None:
    _, networkx = random_pair(5)
    pytest.importorskip("scipy", reason="networkx's own pagerank needs scipy")
    options: dict[str, Any] = {"dangling": {"n002": 1.0}, "nstart": dict.fromkeys(networkx, 2.0)}
    want = nx.pagerank(networkx, weight=None, tol=1e-12, **options)
    assert dict(centrality(networkx, tol=1e-12, **options)) == pytest.approx(want, abs=1e-9)


def test_compatible_pagerank_leaves_self_loops_out_and_native_keeps_them() -> None:
    loop = nx.DiGraph([(1, 1), (1, 2), (2, 1)])
    native, compatible = dict(centrality(loop)), dict(centrality(loop, compatible=True))
    assert native[1] > native[2] + 0.1
    assert compatible == pytest.approx({1: 0.5, 2: 0.5})


def test_pagerank_does_not_need_scipy(monkeypatch: pytest.MonkeyPatch) -> None:
    _, networkx = random_pair(6)
    want = centrality(networkx)
    monkeypatch.setitem(sys.modules, "scipy", None)
    assert centrality(networkx) == want


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize(
    ("kind", "weight", "options"),
    [
        ("betweenness", None, {}),
        ("betweenness", "weight", {}),
        ("betweenness", None, {"k": 7, "seed": 2}),
        ("betweenness", None, {"k": 7, "seed": 2, "normalized": False}),
        ("betweenness", None, {"normalized": False}),
        ("closeness", None, {}),
        ("closeness", "weight", {"wf_improved": False}),
        ("harmonic", None, {}),
        ("harmonic", "weight", {}),
        ("degree", None, {}),
        ("eigenvector", None, {"max_iter": 1000}),
        ("eigenvector", "weight", {"max_iter": 1000}),
    ],
)
def test_whole_graphs_agree_with_networkx(directed: bool, kind: str, weight: str | None, options: Any) -> None:
    pytest.importorskip("igraph", reason="whole graphs need igraph")
    for seed in range(3):
        graph, networkx = random_pair(seed)
        got = dict(centrality(graph, kind, weight=weight, directed=directed, **options))
        want = dict(centrality(networkx, kind, weight=weight, directed=directed, **options))
        assert got == pytest.approx(want, abs=1e-6)


def test_in_and_out_degree_of_a_whole_graph() -> None:
    graph, networkx = random_pair(1)
    for kind in ("in_degree", "out_degree"):
        want = getattr(nx, f"{kind}_centrality")(networkx)
        assert dict(centrality(graph, kind)) == pytest.approx(want)


def test_large_networkx_graphs_use_igraph(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("igraph", reason="large graphs need igraph")
    _, networkx = random_pair(2)
    want = dict(centrality(networkx, "closeness"))
    monkeypatch.setattr("tercet.analyse.flat.SMALL", 10)
    monkeypatch.setattr(nx, "closeness_centrality", None)
    assert dict(centrality(networkx, "closeness")) == pytest.approx(want)


def test_ties_go_to_the_smaller_id_numbers_as_numbers() -> None:
    numbers, words = nx.cycle_graph([10, 9, 100]), nx.cycle_graph(["10", "9", "100"])
    assert [node for node, _ in centrality(numbers, "degree")] == [9, 10, 100]
    assert [node for node, _ in centrality(words, "degree")] == ["10", "100", "9"]
    whole = graph_of([("10", "r", "9"), ("9", "r", "100"), ("100", "r", "10")], order="input")
    assert [node for node, _ in centrality(whole, "degree")] == ["10", "100", "9"]


def test_reads_results_and_properties() -> None:
    class Result:
        def to_networkx(self, *, directed: bool) -> nx.MultiDiGraph | nx.MultiGraph:
            made = nx.MultiDiGraph() if directed else nx.MultiGraph()
            made.add_edge(1, 2, properties={"length": 4})
            return made

    assert dict(centrality(Result(), "closeness", weight="length")) == {2: 0.25, 1: 0.0}
    assert dict(centrality(Result(), "closeness", weight="length", directed=False)) == {1: 0.25, 2: 0.25}


def test_limit_and_empty() -> None:
    path = nx.path_graph(4)
    assert [node for node, _ in centrality(path, "degree", limit=2)] == [1, 2]
    assert centrality(path, "degree", limit=0) == []
    assert [node for node, _ in centrality(path, "degree", limit=-1, compatible=True)] == [1, 2, 0]
    assert [centrality(nx.MultiDiGraph(), kind) for kind in KINDS] == [[]] * len(KINDS)
    assert centrality(graph_of([]), "pagerank") == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"kind": "nope"}, "kind"),
        ({"kind": "in_degree", "directed": False}, "directed"),
        ({"kind": "degree", "weight": "weight"}, "weight"),
        ({"limit": -1}, "limit"),
        ({"personalization": {"nobody": 1.0}}, "nobody"),
        ({"personalization": {"n001": 0.0}}, "personalization"),
        ({"personalization": {"n001": -1.0}}, "personalization"),
        ({"alpha": 1.5}, "alpha"),
    ],
)
def test_refuses(arguments: Any, message: str) -> None:
    for graph in random_pair(0):
        with pytest.raises(InvalidArgument, match=message):
            centrality(graph, **arguments)


def test_refuses_weights_that_are_no_numbers() -> None:
    for value in ("heavy", -1.0, float("nan"), True):
        graph = nx.DiGraph()
        graph.add_edge(1, 2, weight=value)
        with pytest.raises(InvalidArgument, match="weight"):
            centrality(graph, weight="weight")
    with pytest.raises(InvalidArgument, match="column"):
        centrality(random_pair(0)[0], weight="nope")
    with pytest.raises(InvalidArgument, match="graph"):
        centrality([1, 2])


def test_not_converged_and_unknown_options() -> None:
    for graph in random_pair(0):
        for kind in ("pagerank", "eigenvector"):
            with pytest.raises(NotConverged, match="max_iter"):
                centrality(graph, kind, max_iter=1)
        with pytest.raises(TypeError):
            centrality(graph, "degree", unknown=1)


def test_names_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "igraph", None)
    with pytest.raises(MissingDependency, match="pip install igraph"):
        centrality(random_pair(0)[0], "closeness")


def test_flat_edges_both_ways_have_a_self_loop_once() -> None:
    flat = flatten(nx.MultiGraph([(0, 1), (1, 1)]), None, None)
    source, target, _ = flat.both_ways()
    assert sorted(zip(source.tolist(), target.tolist(), strict=True)) == [(0, 1), (1, 0), (1, 1)]
    assert np.array_equal(flat.places(), [0, 1])
