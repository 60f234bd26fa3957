"""A weight that stands in every row may be one number expanded over them: results are those of the whole column."""

from dataclasses import dataclass
from typing import Any

import pytest
import torch

from tercet_kernels._checks import check, held
from tercet_kernels._types import EdgeRule, NodeRule
from tercet_kernels.edge_filter import edge_filter
from tercet_kernels.edge_filter import reference as filters
from tercet_kernels.node_terms import node_terms
from tercet_kernels.node_terms import reference as terms
from tercet_kernels.triplet_topk import reference as triplets
from tercet_kernels.triplet_topk import triplet_topk

NUMBERS = (0.25, 0.75)


@dataclass(frozen=True)
class Columns:
    """Columns of one number each, expanded and written down."""

    expanded: list[torch.Tensor]
    whole: list[torch.Tensor]


def columns(rows: int) -> Columns:
    expanded = [torch.tensor([x], dtype=torch.float64).expand(rows) for x in NUMBERS]
    return Columns(expanded, [x.contiguous() for x in expanded])


def assert_equal(a: Any, b: Any) -> None:
    for x, y in zip(a, b, strict=True):
        assert torch.equal(x, y)


def test_triplet_topk() -> None:
    case = triplets.example(4, nodes=40, edges=120)
    rules, missing = columns(120), columns(40)
    got = [
        triplet_topk(**case | {"rule": EdgeRule(*weights, 0.3, 6.5, False), "missing": m}, k=9)
        for weights, m in ((rules.expanded, missing.expanded[0]), (rules.whole, missing.whole[0]))
    ]
    assert_equal(*got)


def test_edge_filter() -> None:
    case, rules = filters.example(edges=120), columns(120)
    got = [
        edge_filter(**case | {"rule": EdgeRule(*w, 0.3, 6.5, False)}, k=5) for w in (rules.expanded, rules.whole)
    ]  # fmt: skip
    assert_equal(*got)
    assert got[0][1].shape[0] > 10


@pytest.mark.parametrize("personal", [True, False])
def test_node_terms(personal: bool) -> None:
    case, weights = terms.example(50, 200), columns(50)
    own = case["rule"].personal if personal else None
    got = [
        node_terms(case["node"], case["distance"], NodeRule(*w, 0.3, 1.5, False, own, 0.4))
        for w in (weights.expanded, weights.whole)
    ]
    assert torch.equal(*got)


def test_only_a_column_may_be_expanded() -> None:
    column, cpu = columns(5).expanded[0], torch.device("cpu")
    assert held(column).shape == (1,)
    assert held(column.contiguous()).shape == (5,)
    check("x", column, (5,), torch.float64, cpu, repeated=True)
    for wrong, repeated in ((column, False), (torch.zeros(10).double()[::2], True)):
        with pytest.raises(ValueError, match="contiguous"):
            check("x", wrong, (5,), torch.float64, cpu, repeated=repeated)
