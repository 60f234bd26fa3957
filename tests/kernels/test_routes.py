from itertools import pairwise

import networkx as nx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tercet_kernels.routes import reference, routes
from tests.kernels.cases import Case, assert_same, cases, group, to, topology_of


def of_pairs(got) -> list[list[list[int]]]:
    """The routes of every pair, as node lists."""
    each = group(got.offsets, got.node)
    return [each[low:high] for low, high in zip(got.indptr[:-1].tolist(), got.indptr[1:].tolist(), strict=True)]


def forms(topology, start, end, max_hops, direction="both", limit=1, relation=None, walkable=None) -> list:
    options = {"direction": direction, "limit": limit, "relation": relation, "walkable": walkable}
    return [
        routes(topology, start, end, max_hops, **options),
        reference.routes(topology, start, end, max_hops, direction, limit, relation, walkable),
    ]


def all_pairs(nodes: int) -> tuple[torch.Tensor, torch.Tensor]:
    every = torch.arange(nodes, dtype=torch.int32)
    return every.repeat_interleave(nodes), every.repeat(nodes)


@given(case=cases(), direction=st.sampled_from(["both", "out", "in"]), max_hops=st.integers(1, 6))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_finds_all_shortest_paths_of_networkx(case: Case, direction: str, max_hops: int) -> None:
    graph = nx.MultiDiGraph()
    graph.add_nodes_from(range(case.num_nodes))
    graph.add_edges_from((s, t) for s, t, _ in case.edges)
    walked = {"both": graph.to_undirected(), "out": graph, "in": graph.reverse()}[direction]
    start, end = all_pairs(case.num_nodes)
    for got in forms(topology_of(case), start, end, max_hops, direction, limit=100):
        for s, e, hops, found in zip(start.tolist(), end.tolist(), got.hops.tolist(), of_pairs(got), strict=True):
            length = nx.shortest_path_length(walked, s, e) if nx.has_path(walked, s, e) else -1
            assert hops == (length if length <= max_hops else -1)
            want = [] if hops <= 0 else {tuple(p) for p in nx.all_shortest_paths(nx.Graph(walked)
                                         if direction == "both" else nx.DiGraph(walked), s, e)}  # fmt: skip
            assert len(found) == len(want)
            assert {tuple(p) for p in found} == set(want)


def first_by_search(case: Case, start: int, end: int, max_hops: int) -> list[int]:
    """Breadth first from the start, each level's edges by ascending row, the first mention of a node is its parent."""
    parent, frontier = {start: start}, {start}
    for _ in range(max_hops):
        reached = {}
        for s, t, _ in case.edges:
            for u, v in ((s, t), (t, s)):
                if u in frontier and v not in parent and v not in reached:
                    reached[v] = u
        parent |= reached
        frontier = set(reached)
        if end in parent:
            route = [end]
            while route[-1] != start:
                route.append(parent[route[-1]])
            return route[::-1]
    return []


@given(case=cases(), max_hops=st.integers(1, 6))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_the_first_route_is_that_of_a_search_by_ascending_edges(case: Case, max_hops: int) -> None:
    start, end = all_pairs(case.num_nodes)
    for got in forms(topology_of(case), start, end, max_hops):
        for s, e, found in zip(start.tolist(), end.tolist(), of_pairs(got), strict=True):
            want = first_by_search(case, s, e, max_hops) if s != e else []
            assert found == ([want] if want else [])


@pytest.mark.parametrize("size", [1, 63, 64, 65, 1000])
@pytest.mark.parametrize("limit", [1, 3, 50])
def test_equals_the_reference(device: str, size: int, limit: int) -> None:
    case = reference.example(40, size, 2 * size, seed=size, device=device)
    for direction in ("both", "out", "in"):
        got, want = forms(**case, direction=direction, limit=limit)
        assert_same(got, want)


def test_a_limit_gives_a_prefix_and_says_so(device: str) -> None:
    """A grid of layers: 3 * 3 routes of the same length."""
    layers = [[0], [1, 2, 3], [4, 5, 6], [7]]
    edges = [(u, v, 0) for a, b in pairwise(layers) for u in a for v in b]
    topology = to(topology_of(Case(8, edges, [])), device)
    ends = torch.tensor([0], dtype=torch.int32, device=device), torch.tensor([7], dtype=torch.int32, device=device)
    whole = routes(topology, *ends, 5, direction="out", limit=100)
    assert of_pairs(whole)[0][:4] == [[0, 1, 4, 7], [0, 2, 4, 7], [0, 3, 4, 7], [0, 1, 5, 7]]
    assert (len(of_pairs(whole)[0]), whole.truncated.tolist()) == (9, [False])
    for limit in (1, 2, 8, 9):
        cut = routes(topology, *ends, 5, direction="out", limit=limit)
        assert of_pairs(cut)[0] == of_pairs(whole)[0][:limit]
        assert cut.truncated.tolist() == [limit < 9]


def test_parallel_edges_and_loops_make_no_further_routes(device: str) -> None:
    case = Case(3, [(0, 0, 0), (0, 1, 0), (0, 1, 0), (1, 2, 0), (2, 1, 0), (1, 1, 0)], [])
    start, end = (torch.tensor([x], dtype=torch.int32, device=device) for x in (0, 2))
    got = routes(to(topology_of(case), device), start, end, 3, limit=10)
    assert of_pairs(got) == [[[0, 1, 2]]]


def test_a_pair_is_answered_the_same_in_any_batch(device: str, monkeypatch) -> None:
    case = reference.example(30, 80, 160, seed=4, device=device)
    whole = of_pairs(routes(**case, limit=5))
    order = torch.randperm(30, generator=torch.Generator().manual_seed(1))
    shuffled = case | {name: case[name][order.to(device)].contiguous() for name in ("start", "end")}
    assert of_pairs(routes(**shuffled, limit=5)) == [whole[i] for i in order.tolist()]
    monkeypatch.setattr("tercet_kernels.routes.ROOM", 1)  # a group a pair
    assert of_pairs(routes(**case, limit=5)) == whole


def test_no_pairs_and_no_edges(device: str) -> None:
    none = torch.zeros(0, dtype=torch.int32, device=device)
    got = routes(to(topology_of(Case(2, [], [])), device), none, none, 2)
    assert [x.tolist() for x in got] == [[], [0], [0], [], []]
    one = torch.tensor([0, 1], dtype=torch.int32, device=device)
    got = routes(to(topology_of(Case(2, [], [])), device), one, one.flip(0).contiguous(), 2)
    assert got.hops.tolist() == [-1, -1]


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("start", lambda x: x.long()), ("end", lambda x: x[1:]), ("max_hops", lambda x: 0),
        ("direction", lambda x: "up"), ("relation", lambda x: x.long()), ("walkable", lambda x: None),
    ],
)  # fmt: skip
def test_refuses_other_shapes_and_options(device: str, name: str, change) -> None:
    case = reference.example(device=device) | {"direction": "both"}
    with pytest.raises(ValueError, match=f"^{name}[:,].*expected"):
        routes(**case | {name: change(case[name])})
