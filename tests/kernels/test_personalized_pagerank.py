from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tercet_kernels._types import Topology
from tercet_kernels.fragment.reference import make_topology
from tercet_kernels.personalized_pagerank import PageRanks, cpu, personalized_pagerank, reference, walk_of
from tests.kernels.cases import assert_same, to

ERROR = 1e-9


class Case(NamedTuple):
    """A graph and the seeds of some queries, as plain lists."""

    num_nodes: int
    edges: list[tuple[int, int, float]]  # source, target, weight
    seeds: list[list[tuple[int, float]]]
    inside: list[list[int]]  # nodes of each query


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Multigraphs with self loops, parallel edges, dangling and isolated nodes, weights of 0; seeds may repeat."""
    num_nodes = draw(st.integers(1, 9))
    node = st.integers(0, num_nodes - 1)
    weight = st.sampled_from([0.0, 1e-3, 0.5, 1.0, 1.0, 3.0, 1e200])
    edges = draw(st.lists(st.tuples(node, node, weight), max_size=16))
    mass = st.sampled_from([0.25, 1.0, 2.0, 1e-250])
    seeds = draw(st.lists(st.lists(st.tuples(node, mass), min_size=1, max_size=4), max_size=11))
    inside = [sorted(draw(st.sets(node)) | {nodes[0][0]}) for nodes in seeds]
    return Case(num_nodes, edges, seeds, inside)


def topology_of(case: Case) -> Topology:
    ends = torch.tensor([(s, t) for s, t, _ in case.edges], dtype=torch.int32).reshape(-1, 2).T.contiguous()
    return make_topology(ends[0].contiguous(), ends[1].contiguous(), torch.zeros_like(ends[0]), case.num_nodes, 1)


def weights_of(case: Case) -> torch.Tensor:
    return torch.tensor([w for _, _, w in case.edges], dtype=torch.float64)


def seeds_of(seeds: Sequence[Sequence[tuple[int, float]]]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    flat = [pair for pairs in seeds for pair in pairs]
    indptr = torch.tensor([0, *(len(pairs) for pairs in seeds)]).cumsum(0)
    return (
        indptr,
        torch.tensor([n for n, _ in flat], dtype=torch.int32),
        torch.tensor([m for _, m in flat], dtype=torch.float64),
    )


def members_of(inside: list[list[int]]) -> tuple[torch.Tensor, torch.Tensor]:
    indptr = torch.tensor([0, *(len(nodes) for nodes in inside)]).cumsum(0)
    return indptr, torch.tensor([n for nodes in inside for n in nodes], dtype=torch.int32)


def solved(
    case: Case, direction: str, weighted: bool, damping: float, inside: list[list[int]] | None = None
) -> np.ndarray:
    """(B, N): (I - d P') y = s by elimination, y scaled to a sum of 1; that is the fixed point."""
    n, out = case.num_nodes, np.zeros((len(case.seeds), case.num_nodes))
    for q, seeds in enumerate(case.seeds):
        kept = set(range(n)) if inside is None else set(inside[q])
        step = np.zeros((n, n))
        for s, t, w in case.edges:
            if s in kept and t in kept:
                if direction != "in":
                    step[s, t] += w if weighted else 1.0
                if direction == "in" or (direction == "both" and s != t):
                    step[t, s] += w if weighted else 1.0
        total = step.sum(axis=1, keepdims=True)
        step = np.divide(step, total, out=np.zeros_like(step), where=total > 0)
        start = np.zeros(n)
        top = max(m for node, m in seeds if node in kept)
        for node, m in seeds:
            start[node] += m / top if node in kept else 0.0
        y = np.linalg.solve(np.eye(n) - damping * step.T, start / start.sum())
        out[q] = y / y.sum()
    return out


def all_forms(topology: Topology, *arguments: Any, device: str = "cpu", **options: Any) -> list[PageRanks]:
    """By the public function on a device, and by the reference on the CPU."""
    moved = {k: v.to(device) if isinstance(v, torch.Tensor) else v for k, v in options.items()}
    if "inside" in options:
        moved["inside"] = tuple(x.to(device) for x in options["inside"])
    got = personalized_pagerank(to(topology, device), *(a.to(device) for a in arguments), **moved)
    o = {"direction": "both", "weight": None, "damping": 0.85, "tolerance": 1e-6, "max_iterations": 200, "top_k": 20}
    o |= options
    damping = o["damping"]
    if not isinstance(damping, torch.Tensor):
        damping = torch.full((arguments[0].shape[0] - 1,), damping, dtype=torch.float64)
    end = (damping, o["tolerance"], o["max_iterations"], o["top_k"])
    if "inside" in options:
        plain = reference.inside(topology, o["direction"], o["weight"], o["inside"], *arguments, *end)
    else:
        plain = reference.personalized_pagerank(
            topology, reference.walk(topology, o["direction"], o["weight"]), *arguments, *end, o.get("first")
        )
    return [PageRanks(*(x if x is None else x.cpu() for x in got)), plain]


@given(
    case=cases(), direction=st.sampled_from(["out", "in", "both"]), weighted=st.booleans(),
    damping=st.sampled_from([0.1, 0.5, 0.85]), restricted=st.booleans(),
)  # fmt: skip
@settings(max_examples=80, deadline=None, derandomize=True)
def test_is_what_a_dense_solve_gives(
    case: Case, direction: str, weighted: bool, damping: float, restricted: bool
) -> None:
    options: dict[str, Any] = {"inside": members_of(case.inside)} if restricted else {}
    weight = weights_of(case) if weighted else None
    want = solved(case, direction, weighted, damping, case.inside if restricted else None)
    for got in all_forms(
        topology_of(case), *seeds_of(case.seeds), direction=direction, weight=weight, damping=damping,
        tolerance=1e-13, max_iterations=1000, top_k=None, **options,
    ):  # fmt: skip
        score = got.score.numpy()
        assert np.allclose(score, want, rtol=0, atol=ERROR)
        assert np.allclose(score.sum(axis=1), 1.0, atol=1e-12)
        assert (score >= 0).all()
        assert not score[want == 0].any()  # exactly zero where nothing leads
        assert got.converged.all()
        assert (got.residual <= 1e-13).all()
        assert got.node is None


@given(case=cases(), direction=st.sampled_from(["out", "in", "both"]), weighted=st.booleans(), k=st.integers(1, 12))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_the_best_are_those_of_all(case: Case, direction: str, weighted: bool, k: int) -> None:
    weight = weights_of(case) if weighted else None
    options: dict[str, Any] = {"direction": direction, "weight": weight}
    for extra in ({}, {"inside": members_of(case.inside)}):
        every = all_forms(topology_of(case), *seeds_of(case.seeds), top_k=None, **options, **extra)
        best = all_forms(topology_of(case), *seeds_of(case.seeds), top_k=k, **options, **extra)
        for whole, top in zip(every, best, strict=True):
            assert top.node is not None
            for q, score in enumerate(whole.score.tolist()):
                order = sorted((n for n, s in enumerate(score) if s > 0), key=lambda n: (-score[n], n))[:k]
                pad = k - len(order)
                assert top.node[q].tolist() == order + [-1] * pad
                assert top.score[q].tolist() == [score[n] for n in order] + [0.0] * pad
            assert_same(top[2:], whole[2:])


def mixed(queries: int, seed: int, nodes: int = 1500, edges: int = 6000) -> dict[str, Any]:
    """Queries of different sizes on a graph of several blocks."""
    made = reference.example(queries, nodes, edges, 6, seed)
    g = torch.Generator().manual_seed(seed)
    counts = torch.randint(1, 6, (queries,), generator=g)
    made["indptr"] = torch.cat([torch.zeros(1, dtype=torch.int64), counts.cumsum(0)])
    made["seed"], made["mass"] = made["seed"][: int(counts.sum())], made["mass"][: int(counts.sum())]
    return made


def taken(made: dict[str, Any], queries: Sequence[int]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Chosen queries as a batch of their own."""
    at = [torch.arange(int(made["indptr"][q]), int(made["indptr"][q + 1])) for q in queries]
    rows = torch.cat(at)
    indptr = torch.tensor([0, *(len(a) for a in at)]).cumsum(0)
    return indptr, made["seed"][rows], made["mass"][rows]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("top_k", [None, 7])
def test_a_query_alone_is_the_query_in_any_batch(weighted: bool, top_k: int | None) -> None:
    made = mixed(37, 3)
    damping = torch.linspace(0.2, 0.9, 37, dtype=torch.float64)  # so that queries leave the tile at different steps
    options: dict[str, Any] = {"weight": made["weight"] if weighted else None, "top_k": top_k, "tolerance": 1e-8}
    run = lambda queries: all_forms(  # noqa: E731
        made["topology"], *taken(made, queries), damping=damping[torch.tensor(queries)].contiguous(), **options
    )
    everything = run(range(37))
    assert everything[0].iterations.unique().numel() > 3
    for queries in ([5], [36, 0], [7, 3, 7, 9, 30, 11, 12, 13, 14], list(range(36, -1, -1))):
        for whole, some in zip(everything, run(queries), strict=True):
            assert_same([x for x in some if x is not None], [x[torch.tensor(queries)] for x in whole if x is not None])


def test_threads_and_tiles_leave_the_bits_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    made = mixed(40, 4)
    arguments = (made["topology"], made["indptr"], made["seed"], made["mass"])
    called = []
    for name in ("together", "apart"):
        kernel = getattr(cpu, name)
        monkeypatch.setattr(
            cpu, name, lambda *a, kernel=kernel, name=name: (called.append((name, a[-1], a[4].shape[-1])), kernel(*a))
        )
    module = "tercet_kernels.personalized_pagerank"
    results = []
    for parts, room in ((1, 1 << 30), (2, 1 << 30), (2, 2 << 20), (2, 1)):
        monkeypatch.setattr(f"{module}.threads", lambda items, steps=None, parts=parts: parts)
        monkeypatch.setattr(f"{module}.TILE_BYTES", room)
        for weight in (None, made["weight"]):
            results.append(personalized_pagerank(*arguments, weight=weight, top_k=None))
    # 192,000 bytes hold a tile of 8: all threads' tiles fit, or a single one, or that of one query alone
    assert set(called) == {("apart", 1, 8), ("apart", 2, 8), ("together", 2, 1)}
    monkeypatch.setattr(f"{module}.TILE_BYTES", 300_000)
    results += [personalized_pagerank(*arguments, weight=w, top_k=None) for w in (None, made["weight"])]
    assert called[-1] == ("together", 2, 8)
    for i, result in enumerate(results):
        assert_same(result[1:], results[i % 2][1:])


def test_a_bad_query_fails_alone() -> None:
    made = mixed(1, 5, nodes=20, edges=60)
    nan, inf = float("nan"), float("inf")
    good = [(3, 1.0), (4, 2.0)]
    seeds = [
        good, [], good, [(3, nan)], [(3, -1.0), (4, 2.0)], [(3, 0.0)], [(20, 1.0)], [(-1, 1.0)], [(2, inf)], good, good,
    ]  # fmt: skip
    damping = torch.full((len(seeds),), 0.85, dtype=torch.float64)
    damping[9] = nan
    want = personalized_pagerank(made["topology"], *seeds_of([good]), top_k=5)
    assert want.node is not None
    inside = members_of([list(range(20))] * 10 + [[4, 3]])
    for restricted in (False, True):
        extra = {"inside": inside} if restricted else {}
        for got in all_forms(made["topology"], *seeds_of(seeds), damping=damping, top_k=5, **extra):
            assert got.node is not None
            for q in range(len(seeds)):
                if q in (0, 2) or (q == 10 and not restricted):
                    assert got.node[q].tolist() == want.node[0].tolist()
                    assert torch.allclose(got.score[q], want.score[0], rtol=0, atol=1e-5)
                    assert bool(got.converged[q])
                else:
                    assert got.node[q].tolist() == [-1] * 5
                    assert got.score[q].isnan().all()
                    assert bool(got.residual[q].isnan())
                    assert (int(got.iterations[q]), bool(got.converged[q])) == (0, False)
    for got in all_forms(made["topology"], *seeds_of([[(3, 1.0)]]), inside=members_of([[4, 5]]), top_k=None):
        assert got.score.isnan().all()  # no seed inside


def test_two_nodes_by_hand() -> None:
    # a -> b, b dangles: x_b = .5 x_a, x_a = 1 - x_b
    topology = topology_of(Case(2, [(0, 1, 1.0)], [], []))
    for got in all_forms(
        topology, *seeds_of([[(0, 7.0)], [(1, 1.0)]]), direction="out", damping=0.5, tolerance=1e-15, top_k=None
    ):
        assert got.score.tolist() == [pytest.approx([2 / 3, 1 / 3], abs=1e-14), [0.0, 1.0]]
        assert int(got.iterations[1]) == 1


def test_steps_run_out() -> None:
    made = mixed(9, 6)
    for got in all_forms(made["topology"], made["indptr"], made["seed"], made["mass"], max_iterations=3):
        assert not got.converged.any()
        assert got.iterations.tolist() == [3] * 9
        assert (got.residual > 1e-6).all()
        assert (got.score > 0).any(dim=1).all()


def test_a_walk_can_be_kept(device: str) -> None:
    made = mixed(4, 7)
    arguments = (made["topology"], made["indptr"], made["seed"], made["mass"])
    arguments = (to(arguments[0], device), *(x.to(device) for x in arguments[1:]))
    for weight in (None, made["weight"].to(device)):
        walk = walk_of(arguments[0], "out", weight)
        fresh = personalized_pagerank(*arguments, direction="out", weight=weight)
        assert_same(personalized_pagerank(*arguments, walk=walk), fresh)


def test_the_first_rows_alone_are_those_of_all() -> None:
    made = mixed(12, 9)
    arguments = (made["topology"], made["indptr"], made["seed"], made["mass"])
    for weight in (None, made["weight"]):
        every = all_forms(*arguments, weight=weight, top_k=None)
        for first in (0, 1, 700, 1500):
            for some, whole in zip(all_forms(*arguments, weight=weight, top_k=None, first=first), every, strict=True):
                assert some.score.shape == (12, first)
                assert torch.equal(some.score, whole.score[:, :first])
                assert torch.equal(some.residual, whole.residual)


def test_devices_agree(device: str) -> None:
    made = mixed(9, 8)
    for got in all_forms(
        made["topology"], made["indptr"], made["seed"], made["mass"], weight=made["weight"], tolerance=1e-12,
        top_k=None, device=device,
    ):  # fmt: skip
        want = personalized_pagerank(
            made["topology"], made["indptr"], made["seed"], made["mass"], weight=made["weight"], tolerance=1e-12,
            top_k=None,
        )  # fmt: skip
        assert torch.allclose(got.score, want.score, rtol=0, atol=1e-11)


def test_nothing_to_do() -> None:
    empty = topology_of(Case(0, [], [], []))
    for got in all_forms(empty, *seeds_of([[], []]), top_k=None):
        assert got.score.shape == (2, 0)
        assert not got.converged.any()
    for got in all_forms(topology_of(Case(3, [], [], [])), *seeds_of([]), top_k=4):
        assert got.score.shape == (0, 4)
    for got in all_forms(topology_of(Case(3, [], [], [])), *seeds_of([[(1, 1.0)]]), top_k=2):
        assert got.node is not None
        assert got.node.tolist() == [[1, -1]]
        assert got.score.tolist() == [[1.0, 0.0]]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"damping": 1.0}, "damping"),
        ({"damping": torch.ones(3, dtype=torch.float64)}, "damping"),
        ({"tolerance": 0.0}, "tolerance"),
        ({"max_iterations": 0}, "max_iterations"),
        ({"top_k": 0}, "top_k"),
        ({"top_k": 2, "first": 2}, "first: expected None beside top_k"),
        ({"top_k": None, "first": 2, "inside": members_of([[1], [2]])}, "first: expected None beside inside"),
        ({"top_k": None, "first": 21}, "first: expected at most 20"),
        ({"top_k": None, "first": -1}, "first"),
        ({"direction": "up"}, "direction"),
        ({"weight": torch.ones(2, dtype=torch.float64)}, "weight"),
        ({"weight": -torch.ones(60, dtype=torch.float64)}, "weight"),
        ({"weight": torch.full((60,), torch.nan, dtype=torch.float64)}, "weight"),
        ({"inside": members_of([[1]])}, "inside"),
        ({"inside": members_of([[1], [2]]), "direction": "up"}, "direction"),
    ],
)
def test_refuses(change: dict[str, Any], message: str) -> None:
    made = reference.example(2, 20, 60)
    with pytest.raises(ValueError, match=message):
        personalized_pagerank(made["topology"], made["indptr"], made["seed"], made["mass"], **change)


def test_refuses_masses_of_another_size_and_a_walk_beside_members() -> None:
    made = reference.example(2, 20, 60)
    with pytest.raises(ValueError, match="mass"):
        personalized_pagerank(made["topology"], made["indptr"], made["seed"], made["mass"][:1])
    with pytest.raises(ValueError, match="walk"):
        personalized_pagerank(
            made["topology"], made["indptr"], made["seed"], made["mass"], inside=members_of([[1], [2]]),
            walk=walk_of(made["topology"]),
        )  # fmt: skip
