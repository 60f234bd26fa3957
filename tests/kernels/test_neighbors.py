import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tercet_kernels._arena import arena
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


@pytest.fixture
def triton_neighbors(triton_device: str, triton_form, monkeypatch):
    """The Triton form in small blocks, with full bitmaps in the arena, as the last caller might leave them."""
    form = triton_form("neighbors")
    monkeypatch.setattr(form, "BLOCK_J", 64)  # several steps, and several lists in one
    monkeypatch.setattr(form, "BLOCK_W", 2)  # the last block of a row is masked
    for name in ("neighbors.selected", "neighbors.reached"):
        with arena.lend(name, (1 << 10,), torch.int32, torch.device(triton_device)) as buffer:
            buffer.fill_(-1)
    none = dict.fromkeys(("rank", "relation", "walkable", "allowed", "allowed_row", "limit"))
    return lambda **case: form.neighbors(**none | {"direction": "both", "order": "node"} | case)


@pytest.mark.parametrize("direction", ["both", "out", "in"])
@pytest.mark.parametrize("order", ["edge", "rank", "node"])
def test_triton_form_equals_the_reference(triton_device: str, triton_neighbors, order: str, direction: str) -> None:
    case = reference.example(5, 70, 300, 9, seed=4, device=triton_device)
    rank = case.pop("rank")
    options = {**case, "direction": direction, "order": order, "rank": rank if order == "rank" else None}
    for limit in (None, torch.tensor([3, 10**6, 0, 1, -1], device=triton_device)):
        want = reference.neighbors(**options, limit=limit)
        assert_same(triton_neighbors(**options, limit=limit), want)
        assert limit is None or (want.available > limit).tolist() == [True, False, True, True, True]


def test_triton_form_reads_only_the_masks_that_are_given(triton_device: str, triton_neighbors) -> None:
    case = reference.example(4, 70, 200, 8, seed=6, device=triton_device)
    case.pop("rank")
    masks = {name: case.pop(name) for name in ("relation", "walkable", "allowed", "allowed_row")}
    masks["walkable"] = torch.tensor([True, False, True, True, False], device=triton_device)  # none without a label
    nothing = dict.fromkeys(("rank", "limit", *masks))
    found = []
    for names in ((), ("relation", "walkable"), ("allowed", "allowed_row")):
        options = {**case, **{name: masks[name] for name in names}}
        found.append(triton_neighbors(**options, order="edge"))
        assert_same(found[-1], reference.neighbors(**nothing | options, direction="both", order="edge"))
    assert found[0].node.shape[0] > max(part.node.shape[0] for part in found[1:])
    unfiltered = torch.ones(0, 70, dtype=torch.bool, device=triton_device), masks["allowed_row"] * 0 - 1
    got = triton_neighbors(**case, allowed=unfiltered[0], allowed_row=unfiltered[1], order="edge")
    assert_same(got, found[0])


@pytest.mark.parametrize("queries", [1, 2, 9])
def test_triton_form_walks_hubs_ghosts_and_groups_of_queries(
    triton_device: str, triton_form, triton_neighbors, monkeypatch, queries: int
) -> None:
    """Rows 40 and 65 are beyond the graph, the hub's list takes several steps, and a group has so many queries.

    A bit for row 65 would be that of row 1 for the next query.
    """
    form = triton_form("neighbors")
    monkeypatch.setattr(form, "BLOCK_J", 16)
    monkeypatch.setattr(form, "BITMAP_BYTES", 8 * queries)
    edges = [(0, i, 0) for i in range(33, 0, -1)] + [(34, 1, 0), (0, 0, 0), (0, 5, 0), (1, 33, 0)]
    hub = Case(36, edges, [[0], [1, 40], [], [35], [65], [5, 0, 34]])
    hits = to(node_hits(hub.selected), triton_device)
    case = {"topology": to(topology_of(hub), triton_device), "indptr": hits.indptr, "node": hits.node}
    got = triton_neighbors(**case, begin=hits.indptr[:-1], order="edge")
    assert group(got.indptr, got.node) == [
        [*range(33, 0, -1)], [0, 34, 33], [], [], [], [*range(33, 5, -1), 4, 3, 2, 1],
    ]  # fmt: skip
    assert group(got.indptr, got.edge)[:2] == [[*range(33)], [32, 33, 36]]
    rank = torch.arange(37, 0, -1, dtype=torch.int32, device=triton_device)  # the later edge is the better one
    limit = torch.tensor([2, 9, 0, 9, 9, 1], device=triton_device)
    ranked = triton_neighbors(**case, begin=hits.indptr[:-1], order="rank", rank=rank, limit=limit)
    assert group(ranked.indptr, ranked.node) == [[5, 1], [33, 34, 0], [], [], [], [1]]
    assert group(ranked.indptr, ranked.edge) == [[35, 32], [36, 33, 32], [], [], [], [33]]
    assert ranked.available.tolist() == got.available.tolist() == [33, 3, 0, 0, 0, 32]
    later = triton_neighbors(**case, begin=hits.indptr[:-1] + torch.tensor([1, 1, 0, 0, 0, 2], device=triton_device))
    assert group(later.indptr, later.node) == [[], [], [], [], [], [1]]  # the hub isn't in a frontier


def test_triton_form_tells_every_bit_of_a_word(triton_device: str, triton_neighbors) -> None:
    """Each node is reached by an edge of its own, over word and block borders, so a shifted place would show."""
    ring = Case(131, [(i, (i + 1) % 131, 0) for i in range(131)], [[*range(0, 131, 2)], [30, 31, 32, 63, 64, 127]])
    hits = to(node_hits(ring.selected), triton_device)
    got = triton_neighbors(
        topology=to(topology_of(ring), triton_device), indptr=hits.indptr, node=hits.node, begin=hits.indptr[:-1]
    )
    ways = [(29, 29), (33, 32), (62, 62), (65, 64), (126, 126), (128, 127)]
    assert [list(zip(*x, strict=True)) for x in zip(group(*got[:2]), group(got[0], got[2]), strict=True)] == [
        [(v, v - 1) for v in range(1, 131, 2)], ways,
    ]  # fmt: skip


def test_triton_form_of_nothing(triton_device: str, triton_neighbors) -> None:
    for case in (Case(2, [(0, 1, 0)], []), Case(2, [(0, 1, 0)], [[], []]), Case(1, [], [[0]]), Case(0, [], [[3]])):
        hits = to(node_hits(case.selected), triton_device)
        got = triton_neighbors(
            topology=to(topology_of(case), triton_device), indptr=hits.indptr, node=hits.node, begin=hits.indptr[:-1]
        )
        none = [0] * len(case.selected)
        assert [x.tolist() for x in got] == [[0, *none], [], [], none]
        assert [x.dtype for x in got] == [torch.int64, torch.int32, torch.int32, torch.int64]


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
