import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tercet_kernels._types import EdgeRule
from tercet_kernels.edge_filter import cpu, edge_filter, reference
from tercet_kernels.fragment.reference import make_topology
from tests.kernels.cases import assert_same, group, to

CASES = st.tuples(st.integers(0, 10_000), st.integers(1, 30), st.integers(0, 60), st.integers(1, 70))


def rule_of(edges: int, seed: int, device: str = "cpu") -> EdgeRule:
    g = torch.Generator().manual_seed(seed)
    weights = [torch.rand(edges, generator=g, dtype=torch.float64).mul(4).round().div(4).to(device) for _ in range(2)]
    return EdgeRule(*weights, 0.3, 6.1, False)


def matched_of(case: dict, seed: int) -> torch.Tensor:
    g = torch.Generator().manual_seed(seed)
    return (torch.rand(case["node_term"].shape, generator=g) < 0.2).to(case["node_term"].device)


def plain_filter(case: dict, k: int) -> list[list[int]]:
    """The edges within the margin of the k-th smallest approximate score, in Python."""
    topology, out = case["topology"], []
    ends = list(zip(topology.source.tolist(), topology.target.tolist(), topology.key.tolist(), strict=True))
    for q, margin in enumerate(case["margin"].tolist()):
        term, value = case["node_term"][q].tolist(), case["key_value"][q].tolist()
        scores = [(term[s] + term[t]) + value[r] for s, t, r in ends]  # sums of quarters: exact; -1 is the last column
        limit = sorted(scores)[k - 1] + margin if k <= len(scores) else math.inf
        out.append([e for e, score in enumerate(scores) if score <= limit and score < math.inf])
    return out


@given(drawn=CASES)
@settings(max_examples=50, deadline=None, derandomize=True)
def test_keeps_what_plain_python_keeps(drawn: tuple) -> None:
    seed, nodes, edges, k = drawn
    case = reference.example(3, nodes, edges, seed)
    case["margin"] = torch.full((3,), 0.25)
    for form in (edge_filter, reference.edge_filter):
        assert group(*form(**case, k=k)) == plain_filter(case, k)


@given(drawn=CASES)
@settings(max_examples=50, deadline=None, derandomize=True)
def test_of_tied_edges_the_first_are_kept(drawn: tuple) -> None:
    seed, nodes, edges, k = drawn
    case = reference.example(3, nodes, edges, seed)
    scores = reference.scores(case["topology"], case["node_term"], case["key_value"], None, None, slice(None))
    finite = [row[torch.isfinite(row)] for row in scores]
    tied = torch.tensor([float(row.mode().values) if len(row) else math.nan for row in finite])
    wanted = []
    for row, kept, score in zip(scores, group(*edge_filter(**case, k=k)), tied.tolist(), strict=True):
        same = [e for e in kept if float(row[e]) == score]
        wanted.append([e for e in kept if e not in same[k:]])
    assert group(*edge_filter(**case, k=k, tied=tied)) == wanted


@given(drawn=CASES, weighted=st.booleans(), restricted=st.booleans())
@settings(max_examples=50, deadline=None, derandomize=True)
def test_keeps_the_best_by_exact_scores(drawn: tuple, weighted: bool, restricted: bool) -> None:
    """Exact scores are within half the margin of the approximate ones; their k best, ties included, are kept."""
    seed, nodes, edges, k = drawn
    case = reference.example(3, nodes, edges, seed)
    case["rule"] = rule_of(edges, seed) if weighted else None
    case["matched"] = matched_of(case, seed) if restricted else None
    g = torch.Generator().manual_seed(seed)
    near = reference.scores(
        *(case[x] for x in ("topology", "node_term", "key_value", "rule", "matched")), slice(None)
    ).double()
    bound = case["margin"].double()[:, None] / 2 * 0.999  # less what float32 rounds off
    # errors of exactly the bound, either way, and in between
    exact = near + bound * torch.randint(-2, 3, near.shape, generator=g) / 2
    for q, kept in enumerate(group(*edge_filter(**case, k=k))):
        order = exact[q].sort().values
        limit = float(order[min(k, edges) - 1]) if edges else math.inf
        best = torch.nonzero((exact[q] <= limit) & torch.isfinite(exact[q])).flatten().tolist()
        assert set(best) <= set(kept)


@pytest.mark.parametrize(("weighted", "restricted"), [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("size", [0, 1, 63, 64, 65, 1000, 5000])
def test_equals_the_reference(device: str, size: int, weighted: bool, restricted: bool) -> None:
    case = reference.example(4, nodes=max(size // 3, 3), edges=size, seed=size, device=device)
    case["rule"] = rule_of(size, size, device) if weighted else None
    case["matched"] = matched_of(case, size) if restricted else None
    case["key_value"][:, 2] = torch.inf  # an unmatched key
    for k in (1, 10, 300, 2000):
        got, want = edge_filter(**case, k=k), reference.edge_filter(**case, k=k)
        assert_same(got, want)
    assert size < 63 or 0 < want[1].shape[0] < 4 * size


def test_a_query_keeps_the_same_alone_and_in_any_order(device: str) -> None:
    case = reference.example(6, nodes=30, edges=200, device=device) | {"rule": rule_of(200, 0, device)}
    whole = group(*edge_filter(**case, k=5))
    for queries in ([5, 3, 0, 1, 4, 2], [4], [2, 2]):
        part = case | {name: case[name][queries] for name in ("node_term", "key_value", "margin")}
        assert group(*edge_filter(**part, k=5)) == [whole[q] for q in queries]


def test_more_results_keep_a_superset(device: str) -> None:
    case = reference.example(4, nodes=30, edges=300, device=device)
    previous: list[set[int]] = [set()] * 4
    for k in (1, 2, 10, 100, 300, 301):
        kept = [set(edges) for edges in group(*edge_filter(**case, k=k))]
        assert all(a <= b for a, b in zip(previous, kept, strict=True))
        previous = kept


def test_more_ties_than_there_is_room_for(device: str) -> None:
    case = reference.example(2, nodes=30, edges=3000, device=device)
    case["node_term"][:] = 1.0
    case["key_value"][:] = 1.0
    case["margin"][:] = 0.0
    assert group(*edge_filter(**case, k=1)) == [list(range(3000))] * 2


@pytest.mark.parametrize(("margin", "count"), [(0.0, 3), (10.0, 13), (1500.0, 1503)])
def test_scores_that_fall_to_the_end(device: str, margin: float, count: int) -> None:
    """Every edge is among the best when it is met, so what was collected is thrown out again and again."""
    case = reference.example(2, nodes=4000, edges=4000, device=device)
    edge = torch.arange(4000, dtype=torch.int32)
    case["topology"] = to(make_topology(edge, edge, torch.zeros_like(edge), 4000, 6), device)
    case["node_term"][:] = (4000.0 - edge) / 2
    case["key_value"][:] = 1.0
    case["margin"][:] = margin
    assert group(*edge_filter(**case, k=3)) == [list(range(4000 - count, 4000))] * 2


def test_nothing_finite_and_nothing_matched(device: str) -> None:
    case = reference.example(3, nodes=10, edges=50, device=device)
    shut = case | {"node_term": torch.full_like(case["node_term"], torch.inf)}
    unmatched = case | {"matched": torch.zeros_like(case["node_term"], dtype=torch.bool)}
    for k in (1, 100):
        for part in (shut, unmatched):
            assert group(*edge_filter(**part, k=k)) == [[], [], []]


def test_does_not_depend_on_tiles_or_threads(monkeypatch) -> None:
    case = reference.example(7, nodes=30, edges=200) | {"rule": rule_of(200, 0)}
    want = reference.edge_filter(**case, k=5)
    t, rule = case["topology"], case["rule"]
    columns = (t.source, t.target, t.key, case["node_term"], case["key_value"], rule.importance, rule.feedback)
    for count in (1, 2, 7, 9):
        got = cpu.edge_filter(
            *(x.numpy() for x in columns), True, *rule[2:5], case["margin"].numpy(), 5,
            torch.ones(1, 1, dtype=torch.bool).numpy(), False, np.full(7, np.nan, np.float32), count,
        )  # fmt: skip
        assert_same([torch.from_numpy(x) for x in got], want)
    monkeypatch.setattr(reference, "TILE", 33)
    assert_same(reference.edge_filter(**case, k=5), want)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("node_term", lambda x: x.double()),
        ("node_term", lambda x: x[:, 1:]),
        ("key_value", lambda x: x.double()),
        ("key_value", lambda x: x[:, 1:].contiguous()),
        ("margin", lambda x: x.double()),
        ("margin", lambda x: x[:, None]),
        ("matched", lambda x: x.int()),
        ("matched", lambda x: x[1:]),
        ("k", lambda x: 0),
    ],
)
def test_refuses_other_shapes_and_dtypes(device: str, name: str, change) -> None:
    case = reference.example(device=device) | {"k": 1}
    case["matched"] = matched_of(case, 0)
    with pytest.raises(ValueError, match=f"^{name}: expected"):
        edge_filter(**case | {name: change(case[name])})


def test_refuses_weights_of_another_shape(device: str) -> None:
    case = reference.example(device=device) | {"rule": rule_of(119, 0, device)}
    with pytest.raises(ValueError, match=r"^rule\.importance: expected shape \(120\), got \(119,\)"):
        edge_filter(**case, k=1)
