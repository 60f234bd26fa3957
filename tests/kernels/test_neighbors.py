import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tercet_kernels.neighbors import cpu, neighbors, reference
from tests.kernels.cases import Case, assert_same, cases, group, node_hits, to, topology_of


def plain_level(case: Case, selected: list[int], begin: int, direction: str, order: str, rank: list[int]) -> list:
    """(node, edge) by a loop over the edges."""
    frontier, best = set(selected[begin:]), {}
    for e, (s, t, _) in enumerate(case.edges):
        ways = [(s, t)] * (direction != "in") + [(t, s)] * (direction != "out")
        for u, v in ways:
            if u in frontier and v not in selected:
                key = (rank[e] if order == "rank" else 0, e)
                best[v] = min(best.get(v, key), key)
    keys = {"edge": lambda v: best[v][1], "rank": lambda v: (best[v][0], v), "node": lambda v: v}
    return [(v, best[v][1]) for v in sorted(best, key=keys[order])]


def forms(topology, indptr, node, begin, **options) -> list:
    names = ("direction", "order", "rank", "relation", "walkable", "allowed", "allowed_row", "limit")
    given = {"direction": "both", "order": "node", **options}
    return [
        neighbors(topology, indptr, node, begin, **options),
        reference.neighbors(topology, indptr, node, begin, *(given.get(n) for n in names)),
    ]


@given(
    case=cases(), direction=st.sampled_from(["both", "out", "in"]), order=st.sampled_from(["edge", "rank", "node"]),
    part=st.integers(0, 3), ranks=st.lists(st.integers(0, 2), min_size=14, max_size=14),
)  # fmt: skip
@settings(max_examples=60, deadline=None, derandomize=True)
def test_equals_a_loop_over_the_edges(case: Case, direction: str, order: str, part: int, ranks: list[int]) -> None:
    hits = node_hits(case.selected)
    begin = torch.minimum(hits.indptr[:-1] + part, hits.indptr[1:])
    rank = torch.tensor(ranks[: len(case.edges)], dtype=torch.int32) if order == "rank" else None
    want = [plain_level(case, nodes, part, direction, order, ranks) for nodes in case.selected]
    for got in forms(topology_of(case), hits.indptr, hits.node, begin, direction=direction, order=order, rank=rank):
        assert [list(zip(*x, strict=True)) for x in zip(group(*got[:2]), group(got[0], got[2]), strict=True)] == want
        assert got.available.tolist() == [len(w) for w in want]


@pytest.mark.parametrize("size", [0, 1, 63, 64, 65, 1000])
@pytest.mark.parametrize("order", ["edge", "rank", "node"])
def test_equals_the_reference(device: str, size: int, order: str) -> None:
    case = reference.example(5, max(size, 1), 3 * size, max(size // 20, 1), size, device)
    rank = case.pop("rank")
    limit = torch.tensor([0, 1, 3, 10**6, -1], device=device)
    for direction in ("both", "out", "in"):
        options = {**case, "direction": direction, "order": order, "rank": rank if order == "rank" else None}
        whole, reference_ = forms(**options)
        assert_same(whole, reference_)
        cut, reference_ = forms(**options, limit=limit)
        assert_same(cut, reference_)
        for mine, every, most in zip(
            group(cut.indptr, cut.node), group(whole.indptr, whole.node), limit.tolist(), strict=True
        ):
            assert mine == every[: max(most, 0)]  # a prefix
        assert_same([cut.available], [whole.available])


def test_a_star_is_read_in_the_order_of_its_edges(device: str) -> None:
    star = Case(6, [(0, 5, 0), (3, 0, 0), (0, 1, 0), (0, 1, 0), (0, 0, 0), (4, 0, 0), (1, 5, 0)], [[0], [0, 5]])
    hits = to(node_hits(star.selected), device)
    begin = hits.indptr[:-1]
    got = neighbors(to(topology_of(star), device), hits.indptr, hits.node, begin, order="edge")
    assert group(got.indptr, got.node) == [[5, 3, 1, 4], [3, 1, 4]]
    assert group(got.indptr, got.edge) == [[0, 1, 2, 5], [1, 2, 5]]
    out = neighbors(to(topology_of(star), device), hits.indptr, hits.node, begin, direction="out", order="edge")
    assert group(out.indptr, out.node) == [[5, 1], [1]]


def test_groups_of_queries_give_what_one_group_gives(monkeypatch) -> None:
    case = reference.example(7, 60, 200, 8, seed=3)
    case.pop("rank")
    want = neighbors(**case, order="edge")
    monkeypatch.setattr("tercet_kernels.neighbors.ROOM", 5)
    assert_same(neighbors(**case, order="edge"), want)


def test_a_query_reaches_the_same_alone_and_in_any_order(device: str) -> None:
    case = reference.example(6, 60, 150, seed=2, device=device)
    whole = neighbors(**case, order="rank")
    nodes = group(case["indptr"], case["node"])
    for queries in ([5, 3, 0, 1, 4, 2], [4], [2, 2]):
        part = to(node_hits([nodes[q] for q in queries]), device)
        offset = case["begin"] - case["indptr"][:-1]
        got = neighbors(
            case["topology"], part.indptr, part.node, part.indptr[:-1] + offset[queries], order="rank",
            rank=case["rank"], relation=case["relation"], walkable=case["walkable"], allowed=case["allowed"],
            allowed_row=case["allowed_row"][queries],
        )  # fmt: skip
        for field in ("node", "edge"):
            mine, all_ = group(got.indptr, getattr(got, field)), group(whole.indptr, getattr(whole, field))
            assert mine == [all_[q] for q in queries]


def test_does_not_depend_on_the_number_of_threads(monkeypatch) -> None:
    case = reference.example(9, 60, 200, 8, seed=5)
    want = neighbors(**case, order="rank")
    for count in (1, 2, 4):
        monkeypatch.setattr("tercet_kernels.neighbors.threads", lambda items, steps, count=count: count)
        assert_same(neighbors(**case, order="rank"), want)
    assert cpu.SELECTED < 0


def test_no_queries(device: str) -> None:
    topology = to(topology_of(Case(2, [(0, 1, 0)], [])), device)
    none = torch.zeros(0, dtype=torch.int64, device=device)
    got = neighbors(topology, torch.zeros(1, dtype=torch.int64, device=device), none.int(), none)
    assert [x.tolist() for x in got] == [[0], [], [], []]


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("indptr", lambda x: x.int()), ("node", lambda x: x.long()), ("begin", lambda x: x[1:]),
        ("direction", lambda x: "up"), ("order", lambda x: "best"), ("rank", lambda x: x[1:]),
        ("relation", lambda x: x.long()), ("walkable", lambda x: None), ("allowed", lambda x: x[:, 1:]),
        ("allowed_row", lambda x: x[1:]), ("limit", lambda x: x.int()),
    ],
)  # fmt: skip
def test_refuses_other_shapes_and_options(device: str, name: str, change) -> None:
    case = reference.example(device=device) | {"direction": "both", "order": "rank"}
    case["limit"] = torch.ones(4, dtype=torch.int64, device=device)
    with pytest.raises(ValueError, match=f"^{name}: expected"):
        neighbors(**case | {name: change(case[name])})
