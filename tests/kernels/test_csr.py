import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tercet_kernels import csr
from tercet_kernels.csr import reference
from tercet_kernels.splice.reference import example as splice_example
from tests.kernels.cases import assert_same, group


@given(keys=st.lists(st.integers(0, 8), max_size=40))
@settings(max_examples=40, deadline=None, derandomize=True)
def test_groups_as_plain_python_does(keys: list[int]) -> None:
    key = torch.tensor(keys, dtype=torch.int32)
    want = [[e for e, k in enumerate(keys) if k == g] for g in range(9)]
    assert group(*csr.group(key, 9)) == want
    assert group(*reference.group(key, 9)) == want


@pytest.mark.parametrize("size", [1, 7, 2000])
@pytest.mark.parametrize("edges", [0, 1, 63, 64, 65, 1000])
def test_equals_the_reference(device: str, edges: int, size: int) -> None:
    case = reference.example(edges, size, seed=edges, device=device)
    indptr, order = csr.group(**case)
    assert_same([indptr, order], reference.group(**case))
    assert (indptr.shape, order.shape) == ((size + 1,), (edges,))
    assert torch.equal(order.sort().values, torch.arange(edges, dtype=torch.int32, device=device))


def test_rows_in_no_group(device: str) -> None:
    key = torch.tensor([1, -1, 0, 1, -1], dtype=torch.int32, device=device)
    for form in (csr.group, reference.group):
        assert [x.tolist() for x in form(key, 3)] == [[0, 1, 3, 3], [2, 0, 3]]


def test_the_largest_group() -> None:
    assert csr.most(torch.tensor([0, 2, 2, 5])) == 3
    assert csr.most(torch.tensor([0])) == 0


def test_no_groups(device: str) -> None:
    got = csr.group(torch.zeros(0, dtype=torch.int32, device=device), 0)
    assert [x.tolist() for x in got] == [[0], []]


@pytest.mark.parametrize("change", [torch.Tensor.long, torch.Tensor.float, lambda x: x[:, None], lambda x: x[::2]])
def test_refuses_other_shapes_and_dtypes(device: str, change) -> None:
    key = torch.zeros(8, dtype=torch.int32, device=device)
    with pytest.raises(ValueError, match=r"^key: expected"):
        csr.group(change(key), 3)


@pytest.mark.parametrize(("groups", "changes"), [(0, 0), (0, 3), (1, 0), (64, 1), (65, 9), (1000, 90)])
def test_offsets_equal_the_reference(groups: int, changes: int) -> None:
    case = splice_example(groups, changes, seed=groups)
    runs, size = case["runs"], int(case["runs"][:, 2].sum()) + len(case["fresh"])
    indptr = torch.cat([torch.zeros(1, dtype=torch.int64), (case["old"] + 1).long().cumsum(0)])
    more = torch.arange(size, dtype=torch.int32) % 3
    assert torch.equal(csr.offsets(indptr, runs, more), reference.offsets(indptr, runs, more))


@pytest.mark.parametrize(("edges", "size"), [(0, 1), (65, 1), (1000, 7), (1000, 2000)])
def test_places_equal_the_reference(edges: int, size: int) -> None:
    indptr, order = csr.group(**reference.example(edges, size, seed=edges))
    group, wanted = torch.arange(2 * size + 1) % (size + 1), torch.arange(2 * size + 1) * 31 % (edges + 1)
    got = csr.places(indptr, order, group, wanted)
    assert torch.equal(got, reference.places(indptr, order, group, wanted))


def test_upkeep_refuses_other_dtypes() -> None:
    indptr, order = csr.group(**reference.example(9, 3))
    one = torch.zeros(1, dtype=torch.int64)
    with pytest.raises(ValueError, match=r"^row: expected"):
        csr.places(indptr, order.long(), one, one)
    with pytest.raises(ValueError, match=r"^more: expected"):
        csr.offsets(indptr, torch.zeros(0, 3, dtype=torch.int64), one)
