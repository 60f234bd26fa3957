import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tercet_kernels import csr
from tercet_kernels.csr import reference
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


def test_no_groups(device: str) -> None:
    got = csr.group(torch.zeros(0, dtype=torch.int32, device=device), 0)
    assert [x.tolist() for x in got] == [[0], []]


@pytest.mark.parametrize("change", [torch.Tensor.long, torch.Tensor.float, lambda x: x[:, None], lambda x: x[::2]])
def test_refuses_other_shapes_and_dtypes(device: str, change) -> None:
    key = torch.zeros(8, dtype=torch.int32, device=device)
    with pytest.raises(ValueError, match=r"^key: expected"):
        csr.group(change(key), 3)
