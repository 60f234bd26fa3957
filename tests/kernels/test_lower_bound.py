"""Bisection in sorted texts, against Python's own."""

import pytest
import torch

from tercet_kernels.lower_bound import lower_bound, reference


@pytest.mark.parametrize("wanted", [0, 1, 64, 300])
@pytest.mark.parametrize("rows", [0, 1, 2, 63, 64, 65, 1000])
def test_equals_the_reference(rows: int, wanted: int) -> None:
    case = reference.example(rows, wanted, seed=rows + wanted)
    got, want = lower_bound(**case), reference.lower_bound(**case)
    assert torch.equal(got[0], want[0])
    assert torch.equal(got[1], want[1])


@pytest.mark.parametrize("rows", [0, 1, 64, 1000])
def test_texts_in_any_order(rows: int) -> None:
    case = reference.example(rows, 99, seed=rows)
    texts = reference._split(case["offsets"], case["data"])
    mixed = torch.randperm(rows, generator=torch.Generator().manual_seed(rows)).tolist()
    some = [texts[i] for i in mixed]
    order = torch.tensor(sorted(range(rows), key=lambda i: some[i]), dtype=torch.int32)
    given = case | {"offsets": reference._offsets(some), "data": reference._bytes(some), "order": order}
    for got, want in zip(lower_bound(**given), reference.lower_bound(**case), strict=True):
        assert torch.equal(got, want)
    assert torch.equal(reference.lower_bound(**given)[0], reference.lower_bound(**case)[0])


def test_by_hand() -> None:
    texts = [b"", b"a", b"ab", b"b", b"\xc3\xa9"]
    asked = [b"", b"aa", b"ab", b"abc", b"z", b"\xc3\xa9", b"\xff"]
    place, found = lower_bound(
        reference._offsets(texts), reference._bytes(texts), reference._offsets(asked), reference._bytes(asked)
    )
    assert place.tolist() == [0, 2, 2, 3, 4, 4, 5]
    assert found.tolist() == [True, False, True, False, False, True, False]


@pytest.mark.parametrize("name", ["offsets", "data", "wanted_offsets", "wanted"])
def test_refuses_other_dtypes_and_no_offsets(name: str) -> None:
    case = reference.example(8, 3)
    with pytest.raises(ValueError, match=f"^{name}: expected"):
        lower_bound(**{**case, name: case[name].float()})
    if name.endswith("offsets"):
        with pytest.raises(ValueError, match=f"^{name}: expected at least one"):
            lower_bound(**{**case, name: case[name][:0]})
