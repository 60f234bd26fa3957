import random
import sys
from typing import Any

import networkx as nx
import pytest

from tercet.analyse import Community, communities
from tercet.errors import InvalidArgument, MissingDependency
from tests.engine.grafito_cases import recorded, subgraph
from tests.engine.small import graph as graph_of

ALGORITHMS = ["louvain", "greedy", "lpa"]


@pytest.mark.parametrize(("graph", "call"), recorded("net_communities"))
def test_equals_what_grafito_recorded(graph: Any, call: Any) -> None:
    if "error" in call["expect"]:
        with pytest.raises(InvalidArgument):
            communities(subgraph(graph, call), *call["args"], **call["kwargs"])
        return
    got = communities(subgraph(graph, call), *call["args"], **call["kwargs"])
    want = [Community(c["id"], c["nodes"], c["size"], c["terms"], c["label"]) for c in call["expect"]["communities"]]
    assert got == want


def cliques(*sizes: int) -> list[tuple[str, str, str]]:
    """Complete groups a0, a1, ..., b0, ... with one edge from each group's first node to the next one's."""
    edges = []
    for g, size in enumerate(sizes):
        name = chr(ord("a") + g)
        edges += [(f"{name}{i}", "r", f"{name}{j}") for i in range(size) for j in range(i)]
        if g:
            edges.append((f"{chr(ord('a') + g - 1)}0", "r", f"{name}0"))
    return edges


@pytest.mark.parametrize("algorithm", [*ALGORITHMS, "label_propagation"])
def test_finds_cliques_in_every_form(algorithm: str) -> None:
    pytest.importorskip("igraph", reason="whole graphs need igraph")
    edges = [*cliques(4, 6, 5), ("a0", "r", "a0"), ("a1", "r", "a0")]
    networkx = nx.MultiDiGraph([(s, t) for s, _, t in edges])
    networkx.add_node("z")
    for form in (networkx, graph_of(edges, nodes=["z"])):
        got = communities(form, algorithm, seed=1)
        assert [c.nodes for c in got] == [
            [f"b{i}" for i in range(6)],
            [f"c{i}" for i in range(5)],
            [f"a{i}" for i in range(4)],
            ["z"],
        ]
        assert [(c.id, c.size) for c in got] == [(0, 6), (1, 5), (2, 4), (3, 1)]
        assert [c.size for c in communities(form, algorithm, seed=1, min_size=5)] == [6, 5]


def test_weights_decide_on_a_whole_graph() -> None:
    pytest.importorskip("igraph", reason="whole graphs need igraph")
    from tercet import Graph

    square = {"source": list("abcd"), "target": list("bcda"), "relation": ["r"] * 4, "weight": [9.0, 1.0, 9.0, 1.0]}
    graph = Graph.from_tables({"id": list("abcd")}, square)
    assert [c.nodes for c in communities(graph, weight="weight", seed=0)] == [["a", "b"], ["c", "d"]]


def test_a_seed_decides_and_the_generator_is_put_back() -> None:
    pytest.importorskip("igraph", reason="whole graphs need igraph")
    draw = random.Random(0)
    graph = graph_of([(f"n{draw.randrange(60)}", "r", f"n{draw.randrange(60)}") for _ in range(150)])
    for algorithm in ("louvain", "lpa"):
        assert communities(graph, algorithm, seed=5) == communities(graph, algorithm, seed=5)
    free = []
    for _ in range(2):  # without a seed of the call, the module `random` decides again
        random.seed(11)
        free.append(communities(graph, "lpa"))
    assert free[0] == free[1]
    random.seed(11)
    before = random.getstate()
    communities(graph, "lpa", seed=5)
    assert random.getstate() == before


def test_terms_by_hand() -> None:
    pytest.importorskip("igraph", reason="whole graphs need igraph")
    graph = graph_of(cliques(3, 3))
    texts = {f"a{i}": "Red1 red tea the" for i in range(3)} | {f"b{i}": "blue tea tea the ox" for i in range(3)}
    # a: red 2 / 4 * ln(3); the, tea 1 / 4 * ln(2). b: tea 2 / 4 * ln(2) = .347 > blue 1 / 4 * ln(3) = .275
    options: dict[str, Any] = {"algorithm": "greedy", "label_terms": 2}
    got = communities(graph, text=texts, **options)
    assert [(c.terms, c.label) for c in got] == [(["red", "tea"], "red, tea"), (["tea", "blue"], "tea, blue")]
    assert communities(graph, text=texts.get, **options) == got
    counted = communities(graph, text=texts, label_scoring="frequency", stopwords=["Tea"], **options)
    assert [c.terms for c in counted] == [["red", "the"], ["blue", "the"]]
    silent = communities(graph, text={}, **options)
    assert [(c.terms, c.label) for c in silent] == [([], None)] * 2


def test_terms_from_a_column_and_from_properties() -> None:
    pytest.importorskip("igraph", reason="whole graphs need igraph")
    from tercet import Graph

    table = {"id": ["a", "b"], "text": ["kiwi", "lime kiwi"], "motto": ["one two", None]}
    graph = Graph.from_tables(table, {"source": ["a"], "target": ["b"], "relation": ["r"]})
    assert [c.label for c in communities(graph, label_terms=1)] == ["kiwi"]
    assert [c.label for c in communities(graph, label_terms=2, text="motto")] == ["one, two"]
    with pytest.raises(InvalidArgument, match="text"):
        communities(graph, label_terms=1, text="nope")
    networkx = nx.Graph()
    networkx.add_node(1, text="kiwi", properties={"motto": "lime"})
    assert [c.label for c in communities(networkx, label_terms=1)] == ["kiwi"]
    assert [c.label for c in communities(networkx, label_terms=1, text="motto")] == ["lime"]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_without_edges_or_nodes(algorithm: str) -> None:
    pytest.importorskip("igraph", reason="whole graphs need igraph")
    assert communities(nx.MultiDiGraph(), algorithm) == []
    assert communities(graph_of([]), algorithm) == []
    alone = nx.MultiDiGraph()
    alone.add_nodes_from([2, 1])
    assert sorted(c.nodes for c in communities(alone, algorithm)) == [[1], [2]]
    assert sorted(c.nodes for c in communities(graph_of([], nodes=["y", "x"]), algorithm)) == [["x"], ["y"]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"algorithm": "nope"}, "algorithm"),
        ({"label_scoring": "bm25"}, "label_scoring"),
        ({"min_size": -1}, "min_size"),
        ({"label_terms": -1}, "label_terms"),
        ({"resolution": 0.0}, "resolution"),
        ({"algorithm": "greedy", "resolution": 2.0}, "resolution"),
    ],
)
def test_refuses(arguments: Any, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        communities(graph_of(cliques(3)), **arguments)


def test_names_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "igraph", None)
    with pytest.raises(MissingDependency, match="pip install igraph"):
        communities(graph_of(cliques(3)))
