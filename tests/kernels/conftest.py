"""Devices, the Triton forms and poisoned memory for the tests of the kernels."""

import importlib
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest
import torch

DEVICES = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> str:
    """Each device that is here."""
    return request.param


@pytest.fixture
def triton_device() -> str:
    """Where the Triton forms run: on CUDA, or interpreted on tensors of the CPU."""
    pytest.importorskip("triton")
    return "cuda" if torch.cuda.is_available() else "cpu"


@pytest.fixture
def triton_form(triton_device: str) -> Callable[[str], ModuleType]:
    """The module with the Triton form of an op."""
    return lambda op: importlib.import_module(f"tercet_kernels.{op}.cuda")


@pytest.fixture(scope="module", autouse=True)
def poisoned() -> Iterator[None]:
    """New memory is full of NaN, or of the smallest integer, so that a place left unwritten shows."""
    empty = torch.empty

    def full_of_poison(*size: Any, **options: Any) -> torch.Tensor:
        out = empty(*size, **options)
        if out.dtype == torch.bool:
            return out.fill_(True)
        return out.fill_(torch.nan if out.dtype.is_floating_point else torch.iinfo(out.dtype).min)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch, "empty", full_of_poison)
        yield
