"""Places among sorted edges, against Python's own bisection."""

import pytest
import torch

from tercet_kernels.edge_bounds import edge_bounds, reference


@pytest.mark.parametrize("wanted", [0, 1, 300])
@pytest.mark.parametrize(("nodes", "edges"), [(1, 0), (1, 30), (5, 64), (9, 200), (1000, 1000)])
def test_equals_the_reference(nodes: int, edges: int, wanted: int) -> None:
    case = reference.example(nodes, edges, wanted, seed=edges + wanted)
    got, want = edge_bounds(**case), reference.edge_bounds(**case)
    assert torch.equal(got[0], want[0])
    assert torch.equal(got[1], want[1])


def test_behind_all_sources() -> None:
    case = reference.example(3, 10, 1)
    low, high = edge_bounds(**{**case, "source_at": torch.tensor([5])})
    assert (low.tolist(), high.tolist()) == ([10], [10])


@pytest.mark.parametrize("name", ["indptr", "relation", "target", "source_at", "relation_at", "target_at"])
def test_refuses_other_dtypes(name: str) -> None:
    case = reference.example(4, 8, 3)
    with pytest.raises(ValueError, match=f"^{name}: expected"):
        edge_bounds(**{**case, name: case[name].float()})
