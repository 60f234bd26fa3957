import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tercet_kernels import merge as op
from tercet_kernels.merge import Listing, Merged, merge, reference
from tests.kernels.cases import assert_same, group, take, to

FAR = math.inf


def listings_of(listings: list) -> list[Listing]:
    return [Listing(*listing) for listing in listings]


def listing(rows: list[list[int]], distances: list[list[float]], owner: list[int], device: str) -> Listing:
    return to(
        Listing(torch.tensor(rows, dtype=torch.int32), torch.tensor(distances), torch.tensor(owner, dtype=torch.int32)),
        device,
    )


def test_by_hand(device: str) -> None:
    """Node 7 has two rows of the first collection and one of the second; row 3 stands for nothing."""
    first = listing([[0, 2, 3, 1]], [[0.25, 0.5, 0.5, 0.75]], [7, 9, 7, -1], device)
    second = listing([[1, 0, -1]], [[0.125, 0.5, FAR]], [4, 7], device)
    wide = torch.tensor([4], device=device)
    got = merge([first, second], wide)
    assert got.indptr.tolist() == [0, 3]
    assert got.element.tolist() == [4, 7, 9]
    assert got.distance.tolist() == [0.5, 0.125, 0.75]
    assert got.collection.tolist() == [1, 1, 0]
    assert got.rank.tolist() == [1, 0, 3]
    assert got.nearest.tolist() == [0.5, 0.125, 0.75]
    assert got.first.tolist() == [5, 0, 3]
    assert merge([first], wide, last=True).distance.tolist() == [0.5, 0.75]
    assert merge([first], wide, last=True).nearest.tolist() == [0.25, 0.75]
    assert merge([first, second], wide, last=True).rank.tolist() == [1, 0, 3]
    assert merge([first, second], torch.tensor([1], device=device)).element.tolist() == [7]
    assert merge([first, second], wide, 0.5).element.tolist() == [4, 7]


def test_a_tie_goes_to_the_earlier_listing(device: str) -> None:
    one = listing([[0]], [[0.5]], [3], device)
    assert merge([one, one], torch.tensor([1], device=device)).collection.tolist() == [0]
    assert merge([one, one], torch.tensor([1], device=device), last=True).collection.tolist() == [1]


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("limit", [None, 0.5, 0.3])
@pytest.mark.parametrize("elements", [1, 9, 255, 256, 257, 70_000])
@pytest.mark.parametrize("widths", [[], [0], [1], [5, 0, 3], [40, 30]])
def test_equals_the_reference(device: str, widths: list[int], elements: int, limit: float | None, last: bool) -> None:
    found, wide = reference.example(7, widths, elements, seed=elements, device=device)
    got = merge(listings_of(found), wide, limit, last=last)
    assert_same(got, reference.merge(found, wide, limit, last))


def test_no_queries(device: str) -> None:
    found, wide = reference.example(0, [3, 2], 5, device=device)
    assert_same(merge(listings_of(found), wide), reference.merge(found, wide, None, False))


@given(queries=st.integers(1, 9), widths=st.lists(st.integers(0, 6), max_size=3), seed=st.integers(0, 999))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_a_query_has_the_same_hits_alone(queries: int, widths: list[int], seed: int) -> None:
    found, wide = reference.example(queries, widths, 8, seed=seed)
    whole = merge(listings_of(found), wide)
    for q in range(queries):
        alone = [Listing(x.row[q : q + 1], x.distance[q : q + 1], x.owner) for x in listings_of(found)]
        assert_same(merge(alone, wide[q : q + 1]), take(whole, [q]))


def test_parts_give_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    found, wide = reference.example(11, [40, 30], 50)
    want = reference.merge(found, wide, None, False)
    for parts in (1, 2, 3, 16):
        monkeypatch.setattr(op, "threads", lambda items, steps, parts=parts: parts)
        assert_same(merge(listings_of(found), wide), want)


def test_elements_ascend(device: str) -> None:
    found, wide = reference.example(20, [50, 50], 4000, device=device)
    got: Merged = merge(listings_of(found), wide)
    assert all(part == sorted(set(part)) for part in group(got.indptr, got.element))


def test_refuses_what_does_not_fit() -> None:
    found, wide = reference.example(2, [3], 5)
    (row, distance, owner), size = found[0], wide
    with pytest.raises(ValueError, match=r"listings\[0\]\.distance: expected shape"):
        merge([Listing(row, distance[:, :2], owner)], size)
    with pytest.raises(ValueError, match=r"listings\[1\]\.row: expected shape"):
        merge([Listing(row, distance, owner), Listing(row[:1], distance[:1], owner)], size)
    with pytest.raises(ValueError, match="at most 127, got 128"):
        merge([Listing(row, distance, owner)] * 128, size)
