"""`Engine.recall` on vectors, end to end: warm in this process, cold in a fresh one."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from bench.prepare import batch_of, engine_of
from bench.probe import probe
from bench.records import Cell, cell, describe
from bench.suites import Bench
from tercet import Engine

TESTS = ("tests/kernels/test_*.py", "tests/engine/test_oracle.py")  # it runs nearly all kernels
ALONE = 64  # queries whose answers in batches are compared with those they get alone


def cells(bench: Bench) -> Iterator[Cell]:
    for spec in bench.own["workloads"]:
        given = bench.workload(spec)
        about = describe(given)
        engine = engine_of(given, device=bench.run["device"])
        for wide in bench.own["wide"]:
            for batch in bench.own["batches"]:
                yield timed(bench, engine, about, batch_of(given, batch), wide)
            if bench.own["cold"]:
                for batch in bench.own["cold_batches"]:
                    yield from probe(bench, given, batch, wide, bench.own["cold_repeats"])


def timed(
    bench: Bench, engine: Engine, about: dict[str, Any], queries: torch.Tensor, wide: int, **options: Any
) -> Cell:
    """One warm cell; what ends the clock is the ranking on the host."""
    top_k, batch = bench.run["top_k"], len(queries)
    stages: list[dict[str, float]] = []
    last: dict[str, Any] = {}

    def call() -> None:
        got = engine.recall(vectors=queries, top_k=top_k, wide_search_top_k=wide or None, **options)
        last["edges"], last["scores"] = got.edges.cpu(), got.scores.cpu()
        stages.append(got.timings)

    timing = bench.measure(call, memory=True)
    kept = stages[-timing.repeats :]
    return cell(
        "tercet", about, {"batch": batch, "wide": wide, "top_k": top_k, **options}, timing,
        stages={name: float(np.median([k[name] for k in kept])) for name in kept[0]},
        ranking={"edges": last["edges"].numpy(), "scores": last["scores"].numpy()},
        alone_same=alone(engine, queries, last, top_k, wide, options),
    )  # fmt: skip


def alone(
    engine: Engine, queries: torch.Tensor, last: dict[str, Any], top_k: int, wide: int, options: dict[str, Any]
) -> str:
    """How many of some queries have the same edges and score bits alone as in the batch."""
    places = np.unique(np.linspace(0, len(queries) - 1, min(len(queries), ALONE if wide else ALONE // 8)).astype(int))
    same = 0
    for i in places.tolist():
        got = engine.recall(vectors=queries[i], top_k=top_k, wide_search_top_k=wide or None, **options)
        same += torch.equal(got.edges.cpu()[0], last["edges"][i]) and torch.equal(
            got.scores.cpu()[0].nan_to_num(nan=-1), last["scores"][i].nan_to_num(nan=-1)
        )
    return f"{same}/{len(places)}"
