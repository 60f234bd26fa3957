import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit

from tercet_kernels.effective import effective
from tercet_kernels.effective.cpu import effective as scalar

UNIT = st.floats(0, 1)
DISTANCES = st.floats(0, 2) | st.just(math.inf)


@njit
def compiled(distance, matched, importance, feedback, influence, penalty, cliff):
    return scalar(distance, matched, importance, feedback, influence, penalty, cliff)


def plain(
    d: float, w: float, g: float, influence: float, penalty: float, cliff: bool, p: float = math.nan, i: float = 0.3
) -> float:
    """The rule of the docstring, in Python floats."""
    matched = d < math.inf
    x = d if matched else penalty
    if cliff:
        x = (2 - w) * x
        open_ = 0 <= x <= 2 and x < penalty
        x = 2 * ((1 - influence) * (x / 2) + influence * (1 - g)) if open_ and influence > 0 else x
    else:
        open_ = matched
        x = 2 * ((1 - influence) * (x / 2) + influence * (1 - g)) if open_ and influence > 0 else x
        x = (2 - w) * x
    return x * (1 - i * (2 * p - 1)) if open_ and not math.isnan(p) and i > 0 else x


@given(
    d=DISTANCES,
    w=UNIT,
    g=UNIT,
    influence=UNIT,
    penalty=st.floats(0, 9),
    cliff=st.booleans(),
    p=UNIT | st.just(math.nan),
)
@settings(max_examples=200, deadline=None, derandomize=True)
def test_has_the_bits_of_plain_python(
    d: float, w: float, g: float, influence: float, penalty: float, cliff: bool, p: float
) -> None:
    def column(x: float) -> torch.Tensor:
        return torch.tensor([x], dtype=torch.float64)

    got = effective(
        column(d), column(w), column(g), influence=influence, penalty=penalty, cliff=cliff, personal=column(p)
    )
    assert got.tolist() == [plain(d, w, g, influence, penalty, cliff, p)]
    assert compiled(d, d < math.inf, w, g, influence, penalty, cliff) == plain(d, w, g, influence, penalty, cliff)


def test_by_hand(device: str) -> None:
    d = torch.tensor([0.5, 2.0, torch.inf], dtype=torch.float64, device=device)
    half = {"importance": 0.5, "penalty": 6.5}
    assert effective(d, feedback=0.5, influence=0.0, cliff=False, **half).tolist() == [0.75, 3.0, 9.75]
    assert effective(d, feedback=0.5, influence=0.0, cliff=True, **half).tolist() == [0.75, 3.0, 9.75]
    # feedback 0.5 pulls a matched distance towards 1: 0.5 * 0.5 + 0.5 * 1 = 0.75, 0.5 * 2 + 0.5 * 1 = 1.5
    assert effective(d, feedback=0.5, influence=0.5, cliff=False, **half).tolist() == [1.125, 2.25, 9.75]
    # the cliff: 0.75 is blended to 0.875, 3.0 is beyond 2 and stays
    assert effective(d, feedback=0.5, influence=0.5, cliff=True, **half).tolist() == [0.875, 3.0, 9.75]
    liked = torch.tensor([1.0, torch.nan, 1.0], dtype=torch.float64, device=device)
    personal = {"personal": liked, "personal_influence": 0.5}
    assert effective(d, feedback=0.5, influence=0.0, cliff=False, **half, **personal).tolist() == [0.375, 3.0, 9.75]


def test_without_the_cliff_a_smaller_distance_is_never_worse(device: str) -> None:
    d = torch.linspace(0, 2, 1000, dtype=torch.float64, device=device)
    for w, g, influence in itertools.product((0.0, 0.5, 1.0), (0.0, 0.5, 1.0), (0.0, 0.3, 1.0)):
        out = effective(d, w, g, influence=influence, penalty=6.5, cliff=False)
        assert (out.diff() >= 0).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("size", [0, 1, 65])
def test_keeps_shape_and_dtype_and_broadcasts(device: str, dtype: torch.dtype, size: int) -> None:
    d = torch.rand(3, size, device=device).to(dtype)
    weight = torch.rand(size, device=device).to(dtype)
    out = effective(d, weight, weight, influence=0.3, penalty=6.5, cliff=True)
    assert (out.shape, out.dtype, out.device) == (d.shape, dtype, d.device)
    for row in range(3):
        assert torch.equal(out[row], effective(d[row], weight, weight, influence=0.3, penalty=6.5, cliff=True))
