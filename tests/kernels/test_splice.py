"""Arrays whose rows go and come, against plain slices."""

import pytest
import torch

from tercet_kernels import splice as op
from tercet_kernels.splice import located, numbered, reference, renumbered, splice


@pytest.fixture(autouse=True, params=[1, 1 << 16])
def block(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of one row make each thread begin somewhere in the middle."""
    monkeypatch.setattr(op, "BLOCK", request.param)
    monkeypatch.setattr(op, "threads", lambda items, steps=None: max(1, min(3, items)))


@pytest.mark.parametrize("dtype", [torch.int32, torch.float64, torch.int16, torch.uint8])
@pytest.mark.parametrize("changes", [0, 1, 7, 90])
@pytest.mark.parametrize("rows", [0, 1, 63, 64, 65, 1000])
def test_equals_the_reference(rows: int, changes: int, dtype: torch.dtype) -> None:
    case = reference.example(rows, changes, seed=rows + changes, dtype=dtype)
    assert torch.equal(splice(**case), reference.splice(**case))
    assert torch.equal(numbered(case["runs"], rows), reference.numbered(case["runs"], rows))
    if dtype == torch.int32:
        row = torch.arange(50, dtype=torch.int32).flip(0).contiguous()
        assert torch.equal(splice(**case, row=row), reference.splice(**case, row=row))


def test_by_hand() -> None:
    runs = torch.tensor([[1, 0, 2], [3, 4, 1]])
    old = torch.tensor([10, 11, 12, 13, -1], dtype=torch.int32)
    fresh, values = torch.tensor([4, 0]), torch.tensor([7, 8], dtype=torch.int32)
    assert splice(old, runs, fresh, values).tolist() == [8, 10, 11, -1, 7]
    row = torch.arange(20, dtype=torch.int32) + 100
    assert splice(old, runs, fresh, values, row).tolist() == [8, 110, 111, -1, 7]
    assert numbered(runs, 5).tolist() == [1, 2, -1, -1, 3]


@pytest.mark.parametrize("size", [0, 1, 65, 1000])
def test_located_equals_the_reference(size: int) -> None:
    order = torch.randperm(size, generator=torch.Generator().manual_seed(size)).int()
    rows = [torch.cat([order[: size // 3], torch.tensor([-1], dtype=torch.int32)]), order[size // 3 :], order[:0]]
    for got, want in zip(located(rows, size), reference.located(rows, size), strict=True):
        assert torch.equal(got, want)


def test_renumbered_by_hand() -> None:
    old, row = torch.tensor([2, -1, 0], dtype=torch.int32), torch.tensor([5, 6, -1], dtype=torch.int32)
    assert renumbered(old, row).tolist() == [-1, -1, 5]


@pytest.mark.parametrize("name", ["old", "runs", "fresh", "values", "row"])
def test_refuses_other_dtypes(name: str) -> None:
    case = reference.example(8, 3) | {"row": torch.zeros(50, dtype=torch.int32)}
    with pytest.raises(ValueError, match="expected"):
        splice(**{**case, name: case[name].to(torch.int16)})
