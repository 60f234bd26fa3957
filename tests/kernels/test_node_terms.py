import pytest
import torch

from tercet_kernels import node_terms as op
from tercet_kernels._types import NodeRule
from tercet_kernels.node_terms import node_terms, reference
from tests.kernels.cases import assert_same, to


def moved(case: dict, device: str, **rule: object) -> dict:
    return {**case, "rule": to(case["rule"]._replace(**rule), device)}


def test_by_hand(device: str) -> None:
    """2 - w times the distance or the penalty; node 5 is beyond the graph, so it weighs 0.5."""
    weights = torch.tensor([0.5, 1.0], dtype=torch.float64, device=device)
    liked = torch.tensor([1.0, torch.nan], dtype=torch.float64, device=device)
    node = torch.tensor([0, 1, 5, 0], dtype=torch.int32, device=device)
    distance = torch.tensor([0.5, 0.5, 0.5, torch.inf], device=device)
    rule = NodeRule(weights, weights, 0.0, 6.5, False)
    assert node_terms(node, distance, rule).tolist() == [0.75, 0.5, 0.75, 9.75]
    personal = rule._replace(personal=liked, personal_influence=0.5)
    assert node_terms(node, distance, personal).tolist() == [0.375, 0.5, 0.75, 9.75]


@pytest.mark.parametrize("cliff", [False, True])
@pytest.mark.parametrize("influence", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("pull", [0.0, 0.4])
@pytest.mark.parametrize(("nodes", "hits"), [(0, 0), (0, 3), (1, 1), (50, 1000)])
def test_equals_the_reference(device: str, nodes: int, hits: int, pull: float, influence: float, cliff: bool) -> None:
    case = reference.example(nodes, hits, seed=hits, device=device)
    case = moved(case, device, cliff=cliff, influence=influence, personal_influence=pull)
    assert_same([node_terms(**case)], [reference.node_terms(**case)])
    case = moved(case, device, personal=None)
    assert_same([node_terms(**case)], [reference.node_terms(**case)])


def test_parts_give_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    case = reference.example(20, 1000)
    want = reference.node_terms(**case)
    for parts in (1, 2, 3, 7):
        monkeypatch.setattr(op, "threads", lambda items, steps, parts=parts: parts)
        assert_same([node_terms(**case)], [want])


def test_refuses_what_does_not_fit() -> None:
    case = reference.example(5, 4)
    with pytest.raises(ValueError, match="distance: expected shape"):
        node_terms(case["node"], case["distance"][:2], case["rule"])
    with pytest.raises(ValueError, match=r"rule\.feedback: expected shape"):
        node_terms(case["node"], case["distance"], case["rule"]._replace(feedback=torch.zeros(3, dtype=torch.float64)))
