import pytest
import torch
from hypothesis import given, settings

from tercet_kernels.induced import induced, reference
from tests.kernels.cases import Case, assert_same, cases, group, node_hits, to, topology_of


@given(case=cases())
@settings(max_examples=60, deadline=None, derandomize=True)
def test_equals_a_loop_over_the_edges(case: Case) -> None:
    hits = node_hits([nodes[::-1] for nodes in case.selected])
    want = [[e for e, (s, t, _) in enumerate(case.edges) if s in nodes and t in nodes] for nodes in case.selected]
    topology = topology_of(case)
    assert group(*induced(topology, hits.indptr, hits.node)) == want
    assert group(*reference.induced(topology, hits.indptr, hits.node, None, None)) == want


@pytest.mark.parametrize("size", [0, 1, 63, 64, 65, 1000])
def test_equals_the_reference(device: str, size: int, monkeypatch) -> None:
    case = reference.example(5, max(size, 1), 9 * size, max(size // 5, 1), size, device)
    want = reference.induced(**case)
    assert_same(induced(**case), want)
    monkeypatch.setattr("tercet_kernels.induced.ROOM", 0)
    assert_same(induced(**case), want)


def test_does_not_depend_on_the_number_of_threads(monkeypatch) -> None:
    case = reference.example(9, 60, 400, 20, seed=5)
    want = reference.induced(**case)
    for count in (1, 2, 4):
        monkeypatch.setattr("tercet_kernels.induced.threads", lambda items, steps, count=count: count)
        assert_same(induced(**case), want)


@pytest.mark.parametrize(
    ("name", "change"),
    [("indptr", lambda x: x.int()), ("node", lambda x: x.long()), ("relation", lambda x: x.long()),
     ("walkable", lambda x: None)],
)  # fmt: skip
def test_refuses_other_shapes_and_dtypes(device: str, name: str, change) -> None:
    case = reference.example(device=device)
    with pytest.raises(ValueError, match=f"^{name}: expected"):
        induced(**case | {name: change(case[name])})


def test_no_queries(device: str) -> None:
    none = torch.zeros(0, dtype=torch.int32, device=device)
    topology = to(topology_of(Case(2, [(0, 1, 0)], [])), device)
    assert [x.tolist() for x in induced(topology, torch.zeros(1, dtype=torch.int64, device=device), none)] == [[0], []]
