import networkx as nx
import numpy as np
import pytest
import torch

from tercet import Graph
from tercet.analyse import PageRanks, rank
from tercet.errors import InvalidArgument
from tercet.plan import topology_of
from tests.engine.small import graph as graph_of


def seeds_of(graph: Graph, *queries: dict[str, float]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    indptr = torch.tensor([0, *(len(q) for q in queries)]).cumsum(0)
    rows = torch.from_numpy(graph.rows([key for q in queries for key in q]))
    return indptr, rows, torch.tensor([m for q in queries for m in q.values()], dtype=torch.float64)


@pytest.fixture
def chain() -> Graph:
    return graph_of([("a", "r", "b"), ("b", "r", "c"), ("c", "r", "d"), ("x", "r", "y")])


def test_what_lies_nearer_ranks_higher(chain: Graph, device: str) -> None:
    graph = chain.to(device)
    seeds = [x.to(device) for x in seeds_of(graph, {"a": 1.0}, {"y": 1.0})]
    got = rank(graph, topology_of(graph), *seeds, direction="out", top_k=5)
    assert isinstance(got, PageRanks)
    assert got.node is not None
    names = [[graph.ids[i].as_py() if i >= 0 else None for i in row] for row in got.node.tolist()]
    assert names == [["a", "b", "c", "d", None], ["y", None, None, None, None]]


def test_equals_networkx() -> None:
    pytest.importorskip("scipy", reason="networkx's own pagerank needs scipy")
    edges = [("a", "r", "b"), ("a", "s", "b"), ("b", "r", "c"), ("c", "r", "a"), ("c", "r", "d"), ("d", "r", "d")]
    graph = graph_of([*edges, ("e", "r", "f")])
    weight = [2.0, 1.0, 0.5, 1.0, 3.0, 1.0, 1.0]
    networkx = nx.MultiDiGraph()
    networkx.add_nodes_from(graph.ids.to_pylist())
    for i, (s, t) in enumerate(zip(graph.source.tolist(), graph.target.tolist(), strict=True)):
        networkx.add_edge(graph.ids[s].as_py(), graph.ids[t].as_py(), weight=weight[i])
    for direction, reference in (("out", networkx), ("in", networkx.reverse())):
        got = rank(
            graph, topology_of(graph), *seeds_of(graph, {"a": 3.0, "d": 1.0}), direction=direction,
            weight=np.array(weight), damping=0.7, tolerance=1e-14, top_k=None,
        )  # fmt: skip
        want = nx.pagerank(reference, alpha=0.7, personalization={"a": 3.0, "d": 1.0}, tol=1e-14, max_iter=1000)
        assert dict(zip(graph.ids.to_pylist(), got.score[0].tolist(), strict=True)) == pytest.approx(want, abs=1e-9)


def test_members_only_and_later_calls(chain: Graph) -> None:
    topology, seeds = topology_of(chain), seeds_of(chain, {"a": 1.0})
    inside = (torch.tensor([0, 2]), torch.from_numpy(chain.rows(["a", "c"])))
    got = rank(chain, topology, *seeds, inside=inside, top_k=None)
    assert got.score[0].tolist() == [float(i == chain.row("a")) for i in range(chain.num_nodes)]
    for direction in ("out", "in", "out"):  # a walk that was kept for one direction isn't used for another
        first = rank(chain, topology, *seeds_of(chain, {"b": 1.0}), direction=direction, top_k=None)
        assert float(first.score[0, chain.row("c" if direction == "out" else "a")]) > 0
        assert float(first.score[0, chain.row("a" if direction == "out" else "c")]) == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"direction": "sideways"}, "direction"),
        ({"damping": 0.0}, "damping"),
        ({"top_k": 0}, "top_k"),
        ({"weight": [1.0]}, "weight"),
        ({"weight": [1.0, -1.0, 1.0, 1.0]}, "weight"),
        ({"tolerance": -1.0}, "tolerance"),
        ({"max_iterations": 0}, "max_iterations"),
        ({"inside": (torch.tensor([0]), torch.tensor([0], dtype=torch.int32))}, "inside"),
    ],
)
def test_names_the_argument(chain: Graph, change: dict, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        rank(chain, topology_of(chain), *seeds_of(chain, {"a": 1.0}), **change)
