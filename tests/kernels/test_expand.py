import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tercet_kernels.expand import cpu, expand, reference
from tests.kernels.cases import Case, assert_same, cases, group, node_hits, to, topology_of


def plain_walk(case: Case, seeds: list[int], depth: int, allowed: list[bool] | None) -> list[int]:
    """Breadth-first search over a dictionary of neighbours."""
    near: dict[int, set[int]] = {}
    for s, t, _ in case.edges:
        near.setdefault(s, set()).add(t)
        near.setdefault(t, set()).add(s)
    reached, frontier = set(seeds), set(seeds)
    for _ in range(depth):
        frontier = {v for u in frontier for v in near.get(u, ()) if allowed is None or allowed[v]} - reached
        reached |= frontier
    return sorted(reached)


def all_forms(case: Case, depth: int, *mask: torch.Tensor) -> list[tuple[torch.Tensor, torch.Tensor]]:
    topology, hits = topology_of(case), node_hits(case.selected)
    no_mask = (
        torch.ones(1, case.num_nodes, dtype=torch.bool),
        torch.full((len(case.selected),), -1, dtype=torch.int32),
    )
    return [
        expand(topology, hits.indptr, hits.node, depth, *mask),
        reference.expand(topology, hits.indptr, hits.node, depth, *(mask or no_mask)),
    ]


@given(case=cases(), depth=st.integers(0, 4))
@settings(max_examples=40, deadline=None, derandomize=True)
def test_reaches_what_plain_python_reaches(case: Case, depth: int) -> None:
    want = [plain_walk(case, seeds, depth, None) for seeds in case.selected]
    for got in all_forms(case, depth):
        assert group(*got) == want


@given(
    case=cases(),
    depth=st.integers(1, 3),
    bits=st.lists(st.booleans(), min_size=14, max_size=14),
    first=st.integers(-1, 1),
)
@settings(max_examples=40, deadline=None, derandomize=True)
def test_enters_only_what_the_filter_allows(case: Case, depth: int, bits: list[bool], first: int) -> None:
    allowed = torch.tensor(bits[: 2 * case.num_nodes]).reshape(2, case.num_nodes)
    rows = [(first + 1 + i) % 3 - 1 for i in range(len(case.selected))]
    want = [
        plain_walk(case, seeds, depth, None if row < 0 else allowed[row].tolist())
        for seeds, row in zip(case.selected, rows, strict=True)
    ]
    for got in all_forms(case, depth, allowed, torch.tensor(rows, dtype=torch.int32)):
        assert group(*got) == want


@pytest.mark.parametrize("size", [0, 1, 63, 64, 65, 1000])
def test_equals_the_reference(device: str, size: int) -> None:
    case = reference.example(5, nodes=max(size, 1), edges=size, seeds=max(size // 20, 1), seed=size, device=device)
    g = torch.Generator().manual_seed(size)
    allowed = (torch.rand(2, max(size, 1), generator=g) < 0.5).to(device)
    row = torch.tensor([-1, 0, 1, 0, -1], dtype=torch.int32, device=device)
    for depth in (0, 1, 2, 50):
        got, want = (
            expand(**case, depth=depth, allowed=allowed, allowed_row=row),
            reference.expand(**case, depth=depth, allowed=allowed, allowed_row=row),
        )
        assert_same(got, want)


def test_the_whole_component_is_reached_and_no_more(device: str) -> None:
    ring = Case(7, [(i, (i + 1) % 5, 0) for i in range(5)] + [(6, 6, 0)], [[0], [5], [6], [8], []])
    hits = to(node_hits(ring.selected), device)
    got = expand(to(topology_of(ring), device), hits.indptr, hits.node, 9)
    assert group(*got) == [[0, 1, 2, 3, 4], [5], [6], [8], []]


@pytest.mark.parametrize("filtered", [False, True])
@pytest.mark.parametrize("depth", [0, 1, 3])
def test_triton_form_equals_the_reference(
    triton_device: str, triton_form, monkeypatch, depth: int, filtered: bool
) -> None:
    form = triton_form("expand")
    monkeypatch.setattr(form, "BLOCK_J", 64)  # several steps, and several lists in one
    monkeypatch.setattr(form, "BLOCK_W", 2)  # the last word of a row is masked
    case = reference.example(4, nodes=70, edges=90, seeds=5, seed=3, device=triton_device)
    g = torch.Generator().manual_seed(depth)
    allowed = (torch.rand(2, 70, generator=g) < 0.6).to(triton_device)
    row = torch.tensor([-1, 0, 1, 0] if filtered else [-1] * 4, dtype=torch.int32, device=triton_device)
    mask = {"allowed": allowed, "allowed_row": row}
    want = reference.expand(**case, depth=depth, **mask)
    assert_same(form.expand(**case, depth=depth, **mask, filtered=filtered), want)
    assert depth == 0 or want[1].shape[0] > 2 * case["seed"].shape[0]


def test_triton_form_walks_hubs_ghosts_and_groups_of_queries(triton_device: str, triton_form, monkeypatch) -> None:
    """Row 40 is beyond the graph, the hub's list takes several steps, and each query is a group of its own."""
    form = triton_form("expand")
    monkeypatch.setattr(form, "BLOCK_J", 16)
    monkeypatch.setattr(form, "BITMAP_BYTES", 8)
    star = Case(36, [(0, i, 0) for i in range(1, 34)] + [(34, 1, 0), (0, 0, 0)], [[0], [1, 40], [], [35]])
    topology, hits = to(topology_of(star), triton_device), to(node_hits(star.selected), triton_device)
    none = torch.ones(1, 1, dtype=torch.bool), torch.full((4,), -1, dtype=torch.int32)
    got = form.expand(topology, hits.indptr, hits.node, 1, *(x.to(triton_device) for x in none), False)
    assert group(*got) == [list(range(34)), [0, 1, 34, 40], [], [35]]
    deeper = form.expand(topology, hits.indptr, hits.node, 9, *(x.to(triton_device) for x in none), False)
    assert group(*deeper) == [list(range(35)), [*range(35), 40], [], [35]]


def test_triton_form_of_nothing(triton_device: str, triton_form) -> None:
    form = triton_form("expand")
    for case in (Case(2, [(0, 1, 0)], []), Case(2, [(0, 1, 0)], [[], []]), Case(1, [], [[0]])):
        topology, hits = to(topology_of(case), triton_device), to(node_hits(case.selected), triton_device)
        none = torch.ones(1, 1, dtype=torch.bool, device=triton_device), hits.indptr[1:].int() * 0 - 1
        assert group(*form.expand(topology, hits.indptr, hits.node, 2, *none, False)) == case.selected


def test_repeated_seeds_count_once_in_any_order(device: str) -> None:
    case = Case(4, [(0, 1, 0), (1, 2, 0), (2, 3, 0)], [])
    indptr = torch.tensor([0, 4, 5], device=device)
    seed = torch.tensor([3, 0, 3, 9, 2], dtype=torch.int32, device=device)
    got = expand(to(topology_of(case), device), indptr, seed, 1)
    assert group(*got) == [[0, 1, 2, 3, 9], [1, 2, 3]]


def test_no_queries(device: str) -> None:
    topology = to(topology_of(Case(2, [(0, 1, 0)], [])), device)
    indptr, seed = torch.zeros(1, dtype=torch.int64, device=device), torch.zeros(0, dtype=torch.int32, device=device)
    got = expand(topology, indptr, seed, 2)
    assert [x.tolist() for x in got] == [[0], []]


def test_a_query_reaches_the_same_alone_and_in_any_order(device: str) -> None:
    case = reference.example(6, nodes=60, edges=80, seed=2)
    topology, seeds = to(case["topology"], device), group(case["indptr"], case["seed"])
    whole = group(*expand(topology, case["indptr"].to(device), case["seed"].to(device), 2))
    for queries in ([5, 3, 0, 1, 4, 2], [4], [2, 2]):
        part = to(node_hits([seeds[q] for q in queries]), device)
        assert group(*expand(topology, part.indptr, part.node, 2)) == [whole[q] for q in queries]


def test_does_not_depend_on_the_number_of_threads() -> None:
    case = reference.example(7, nodes=60, edges=80)
    t = case["topology"]
    allowed, row = torch.ones(1, 60, dtype=torch.bool), torch.zeros(7, dtype=torch.int32)
    columns = (t.source, t.target, t.out_indptr, t.out_edge, t.in_indptr, t.in_edge, case["indptr"], case["seed"])
    for count in (1, 2, 7, 9):
        got = cpu.expand(*(x.numpy() for x in (*columns, allowed, row)), 2, count)
        assert_same(
            [torch.from_numpy(x) for x in got], reference.expand(**case, depth=2, allowed=allowed, allowed_row=row)
        )


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("indptr", lambda x: x.int()),
        ("seed", lambda x: x.long()),
        ("seed", lambda x: x[:, None]),
        ("depth", lambda x: -1),
        ("allowed", lambda x: x.int()),
        ("allowed", lambda x: x[:, 1:]),
        ("allowed_row", lambda x: x.long()),
        ("allowed_row", lambda x: x[1:]),
        ("allowed_row", lambda x: None),
    ],
)
def test_refuses_other_shapes_and_dtypes(device: str, name: str, change) -> None:
    case = reference.example(device=device) | {"depth": 1}
    case["allowed"] = torch.ones(1, 40, dtype=torch.bool, device=device)
    case["allowed_row"] = torch.zeros(4, dtype=torch.int32, device=device)
    with pytest.raises(ValueError, match=f"^{name}: expected"):
        expand(**case | {name: change(case[name])})
