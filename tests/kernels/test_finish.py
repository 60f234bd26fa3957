import math

import pytest
import torch

from tercet_kernels._types import Top
from tercet_kernels.finish import counted, finish, reference, touched
from tests.kernels.cases import assert_same, to


def fresh(case: dict) -> dict:
    """The same case with arrays that the op may take over."""
    return {**case, "top": Top(*(x.clone() for x in case["top"]))}


def test_by_hand(device: str) -> None:
    """Query 0 keeps one of two edges, query 1 found nothing; slot 1 is listed without a distance."""
    top = Top(
        torch.tensor([[4, 2], [7, -1]], dtype=torch.int32), torch.tensor([[1.0, 2.0], [3.0, math.inf]]).double(),
        torch.tensor([[[0, 1, 0], [0, 0, 0]], [[-1, 0, -1], [-1, -1, -1]]], dtype=torch.int32), torch.tensor([2, 1]),
    )  # fmt: skip
    rest = {"top_k": torch.tensor([1, 2]), "touched": torch.tensor([True, False]),
            "nodes": torch.tensor([0.25, math.inf]), "relations": torch.tensor([0.5])}  # fmt: skip
    got = finish(to(top, device), **{name: x.to(device) for name, x in rest.items()})
    assert got.edge.tolist() == [[4, -1], [-1, -1]]
    assert got.score.tolist() == [[1.0, math.inf], [math.inf] * 2]
    assert got.distance[0].tolist() == [[0.25, math.inf, 0.5], [math.inf] * 3]
    assert got.distance[1].tolist() == [[math.inf, 0.25, math.inf], [math.inf] * 3]
    assert got.slot[0].tolist() == [[0, -1, 0], [-1, -1, -1]]


@pytest.mark.parametrize("queries", [0, 1, 65])
@pytest.mark.parametrize("k", [1, 7])
@pytest.mark.parametrize("hits", [0, 1, 100])
def test_equals_the_reference(device: str, queries: int, k: int, hits: int) -> None:
    case = reference.example(queries, k, hits, seed=hits, device=device)
    want = reference.finish(**case)
    assert_same(finish(**fresh(case)), want)


def test_counts(device: str) -> None:
    indptr = torch.tensor([0, 2, 2, 5], device=device)
    distance = torch.tensor([0.0, math.inf, 1.0, 2.0, math.inf], device=device)
    assert counted(indptr, distance).tolist() == [1, 0, 2]
    assert_same([counted(indptr, distance)], [reference.counted(indptr, distance)])


def test_refuses_what_does_not_fit() -> None:
    case = reference.example(2, 3, 4)
    with pytest.raises(ValueError, match="top_k: expected shape"):
        finish(**{**case, "top_k": case["top_k"][:1]})
    with pytest.raises(ValueError, match="touched: expected"):
        finish(**{**case, "touched": case["touched"].long()})


def test_touched_where_either_table_has_a_distance(device: str) -> None:
    indptr, other = (torch.tensor(x, device=device) for x in ([0, 2, 2, 3, 3], [0, 0, 1, 2, 2]))
    distance, others = (torch.tensor(x, device=device) for x in ([math.inf, 1.0, math.inf], [0.5, math.inf]))
    got = touched(indptr, distance, other, others)
    assert got.tolist() == [True, True, False, False]
    assert torch.equal(got, (counted(indptr, distance) + counted(other, others)) > 0)
    with pytest.raises(ValueError, match="other_indptr: expected shape"):
        touched(indptr, distance, other[:2], others)
