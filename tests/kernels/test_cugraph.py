"""cuGraph's induced subgraph against our own fragment; runs only beside a GPU with pylibcugraph."""

import pytest
import torch

from tercet_kernels.fragment import cugraph, fragment
from tercet_kernels.fragment.reference import example


def test_cugraph_needs_cuda_tensors() -> None:
    inputs = example(queries=3)
    with pytest.raises(ValueError, match="CUDA"):
        fragment(inputs["topology"], inputs["hits"], backend="cugraph")


@pytest.mark.skipif(not cugraph.has_cugraph(), reason="needs a GPU and pylibcugraph")
@pytest.mark.parametrize("seed", range(5))
def test_cugraph_gives_our_fragment(seed: int) -> None:
    inputs = example(queries=7, nodes=200, edges=2000, hits=40, seed=seed, device="cuda")
    ours = fragment(inputs["topology"], inputs["hits"])
    theirs = fragment(inputs["topology"], inputs["hits"], backend="cugraph")
    for a, b in zip(ours, theirs, strict=True):
        assert torch.equal(a, b)
