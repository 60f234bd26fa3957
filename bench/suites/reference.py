"""The reference workload: the same torch call in every run, at its beginning."""

from collections.abc import Iterator

import torch

from bench.records import Cell, cell
from bench.suites import Bench

TESTS = ()
ROWS, WIDTH, BATCH, TAKE = 20_000, 384, 64, 100


def call() -> tuple[torch.Tensor, torch.Tensor]:
    """The two operands, seeded."""
    generator = torch.Generator().manual_seed(0)
    return torch.randn(ROWS, WIDTH, generator=generator), torch.randn(BATCH, WIDTH, generator=generator)


def cells(bench: Bench) -> Iterator[Cell]:
    vectors, queries = call()
    timing = bench.measure(lambda: (queries @ vectors.T).topk(TAKE, dim=1), warmup=3, repeats=31)
    yield cell("torch", None, {"batch": BATCH, "rows": ROWS, "k": TAKE}, timing)
