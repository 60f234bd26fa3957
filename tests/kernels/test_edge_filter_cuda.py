"""The Triton form of `edge_filter`, on CUDA or interpreted."""

from collections.abc import Callable
from types import ModuleType

import pytest
import torch

from tercet_kernels.edge_filter import reference
from tercet_kernels.fragment.reference import make_topology
from tests.kernels.cases import assert_same, group, to
from tests.kernels.test_edge_filter import matched_of, rule_of

Form = Callable[[str], ModuleType]


def without(case: dict) -> dict:
    return {"matched": None} | case


@pytest.mark.parametrize(("weighted", "restricted"), [(False, False), (True, False), (True, True)])
@pytest.mark.parametrize("size", [0, 1, 64, 65])
def test_equals_the_reference(triton_device: str, triton_form: Form, size: int, weighted: bool, restricted: bool):
    case = reference.example(3, nodes=max(size // 3, 3), edges=size, seed=size, device=triton_device)
    case["rule"] = rule_of(size, size, triton_device) if weighted else None
    case["matched"] = matched_of(case, size) if restricted else None
    for k in (1, 3, 70):  # a bound of runs, and none
        assert_same(triton_form("edge_filter").edge_filter(**case, k=k), reference.edge_filter(**case, k=k))


def test_tiles_of_queries_and_groups_don_t_show(triton_device: str, triton_form: Form, monkeypatch) -> None:
    form = triton_form("edge_filter")
    case = without(reference.example(5, nodes=20, edges=90, seed=4, device=triton_device))
    want = reference.edge_filter(**case, k=2)
    monkeypatch.setattr(form, "BLOCK_Q", 2)
    monkeypatch.setattr(form, "BLOCK", 16)  # two steps a run
    assert_same(form.edge_filter(**case, k=2), want)
    monkeypatch.setattr(form, "SCRATCH_BYTES", 1 << 10)  # two groups of four and one
    assert_same(form.edge_filter(**case, k=2), want)


def test_only_runs_within_reach_are_collected(triton_device: str, triton_form: Form, monkeypatch) -> None:
    """Scores rise with the edge: the bound of two runs is met by 17 edges, of which the exact cut leaves 2."""
    form = triton_form("edge_filter")
    case = without(reference.example(1, nodes=160, edges=160, device=triton_device))
    edge = torch.arange(160, dtype=torch.int32)
    case["topology"] = to(make_topology(edge, edge, torch.zeros_like(edge), 160, 6), triton_device)
    case["node_term"][:] = edge.to(triton_device) / 2
    case["key_value"][:] = 0.0
    case["margin"][:] = 0.5
    seen = []
    cut = form._cut
    monkeypatch.setattr(form, "_cut", lambda indptr, edge, *rest: seen.append(edge) or cut(indptr, edge, *rest))
    assert group(*form.edge_filter(**case, k=2)) == [[0, 1]]
    assert seen[0].tolist() == list(range(17))


def test_scores_that_are_not_finite_are_left_out(triton_device: str, triton_form: Form) -> None:
    form = triton_form("edge_filter")
    case = without(reference.example(3, nodes=10, edges=50, device=triton_device))
    case["node_term"][0] = torch.inf
    case["node_term"][1, 2:] = torch.nan
    for k in (1, 100):
        got = group(*form.edge_filter(**case, k=k))
        assert got[:2] == [[], []]
        assert len(got[2]) >= min(k, 10)


def test_ties_at_the_cut_are_all_kept(triton_device: str, triton_form: Form) -> None:
    case = without(reference.example(2, nodes=30, edges=100, device=triton_device))
    case["node_term"][:] = -1.0
    case["key_value"][:] = 1.0
    case["margin"][:] = 0.0
    assert group(*triton_form("edge_filter").edge_filter(**case, k=1)) == [list(range(100))] * 2
