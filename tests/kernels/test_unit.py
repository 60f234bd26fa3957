import math

import pytest
import torch

from tercet_kernels.cosine import norms
from tercet_kernels.unit import reference, unit
from tests.kernels.cases import assert_same


def test_by_hand(device: str) -> None:
    vectors = torch.tensor([[3.0, 4.0], [0.0, 0.0], [math.nan, 1.0], [math.inf, 1.0], [0.0, -2.0]], device=device)
    rows, lengths = unit(vectors)
    assert lengths.tolist()[:2] == [5.0, 0.0]
    assert lengths.tolist()[3:] == [math.inf, 2.0]
    assert math.isnan(lengths[2])
    assert rows[0].tolist() == [torch.tensor(3 / 5).item(), torch.tensor(4 / 5).item()]
    assert rows[1].tolist() == [0.0, 0.0]
    assert rows[3].tolist() == [math.inf, 1.0]
    assert rows[4].tolist() == [0.0, -1.0]


@pytest.mark.parametrize("rows", [0, 1, 300])
@pytest.mark.parametrize("dimension", [0, 1, 15, 16, 17, 384])
def test_equals_the_reference(device: str, rows: int, dimension: int) -> None:
    case = reference.example(rows, dimension, device=device)
    assert_same(unit(**case), reference.unit(**case))
    torch.testing.assert_close(unit(**case)[1], norms(**case), rtol=1e-15, atol=0)


def test_a_row_has_the_same_bits_alone(device: str) -> None:
    vectors = reference.example(50, 100, device=device)["vectors"]
    rows, lengths = unit(vectors)
    for i in range(50):
        assert_same(unit(vectors[i : i + 1]), (rows[i : i + 1], lengths[i : i + 1]))


def test_refuses_other_types() -> None:
    with pytest.raises(ValueError, match=r"vectors: expected torch\.float32"):
        unit(torch.zeros(1, 2, dtype=torch.float64))
    with pytest.raises(ValueError, match="vectors: expected shape"):
        unit(torch.zeros(2))
