"""A limited search end to end, beside plain torch on the same graph and vectors."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch

from bench.baselines.torch_plain import Pipeline
from bench.prepare import batch_of, engine_of
from bench.records import Cell, cell, describe
from bench.suites import Bench
from bench.suites.recall import TESTS as RECALL_TESTS
from bench.suites.recall import timed
from bench.timing import Timing
from tercet import Engine

TESTS = RECALL_TESTS
AGREEMENT = 1e-5  # scores whose float32 cosines are summed in another order
Ranked = tuple[torch.Tensor, torch.Tensor]  # edges (B, k), scores (B, k)


def cells(bench: Bench) -> Iterator[Cell]:
    wide, top_k = bench.run["wide"], bench.run["top_k"]
    for spec in bench.own["workloads"]:
        given = bench.workload(spec)
        about, engine = describe(given), engine_of(given)
        plain = plain_of(engine)
        for batch in bench.own["batches"]:
            queries = batch_of(given, batch)
            yield timed(bench, engine, about, queries, wide)
            ranked, timing = plain_timed(bench, partial(plain.limited, queries, wide, top_k))
            agree = agreement(engine, queries, ranked, top_k, wide)
            yield cell("torch", about, {"batch": batch, "wide": wide, "top_k": top_k}, timing, agreement=agree)


def plain_timed(bench: Bench, call: Callable[[], Any]) -> tuple[Ranked, Timing]:
    """The other system's answer and time."""
    found: list[Ranked] = []

    def run() -> None:
        edges, scores, *_ = call()
        found[:] = [(edges, scores)]

    timing = bench.measure(run, memory=True)
    return found[0], timing


def plain_of(engine: Engine) -> Pipeline:
    """The same graph and vectors in plain torch."""
    pairs = [(b.collection.index.vectors, b.owner, b.collection.kind) for b in engine.bound]  # type: ignore[attr-defined]
    nodes = [(v, o) for v, o, kind in pairs if kind == "node"]
    relations = next((v, o) for v, o, kind in pairs if kind == "relation")
    return Pipeline(engine.topology, nodes, relations)


def agreement(engine: Engine, queries: torch.Tensor, other: Ranked, top_k: int, wide: int) -> dict[str, Any]:
    """Queries with the same ranking, up to edges whose scores are equal within rounding."""
    got = engine.recall(vectors=queries, top_k=top_k, wide_search_top_k=wide or None)
    edges, scores = got.edges.cpu(), got.scores.cpu()
    width = min(edges.shape[1], other[0].shape[1])
    there = edges[:, :width] >= 0
    gap = (scores[:, :width] - other[1][:, :width]).abs().masked_fill(~there, 0)
    moved = edges[:, :width] != other[0][:, :width].int()
    same = (~moved | (gap <= AGREEMENT)).all(dim=1) & (gap <= AGREEMENT).all(dim=1)
    return {"same": int(same.sum()), "queries": len(edges), "largest_score_difference": float(gap.max())}
