"""Cognee 1.6.5's `brute_force_triplet_search` beside `Engine.recall` on the same graph and vectors.

Cognee's stores are replaced by prepared answers whose time is subtracted, so its vector search costs nothing here,
while Tercet's time includes an exact search of all vectors. Cognee has no batch form of a limited search.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from bench.baselines.peers import ask, find_python
from bench.prepare import batch_of, engine_of
from bench.records import Cell, cell, describe, skipped
from bench.suites import Bench
from bench.suites.recall import TESTS as RECALL_TESTS
from bench.suites.recall import timed
from bench.timing import Timing
from bench.workloads import Workload
from tercet import Engine

TESTS = (*RECALL_TESTS, "tests/engine/test_cognee.py")
AGREEMENT = 1e-6  # scores of two systems that sum float32 products in different orders


def cells(bench: Bench) -> Iterator[Cell]:
    for spec in bench.own["workloads"]:
        given = bench.workload(spec, num_queries=max(bench.own["batches"]))
        about = describe(given)
        engine = engine_of(given)
        for wide in (bench.run["wide"], 0) if bench.own["limited"] else (0,):
            for batch in bench.own["batches"]:
                yield timed(bench, engine, about, batch_of(given, batch), wide)
        yield from _peer(bench, given, about)


def _peer(bench: Bench, given: Workload, about: dict[str, Any]) -> Iterator[Cell]:
    own, wide, top_k = bench.own, bench.run["wide"], bench.run["top_k"]
    python, reason = find_python("cognee", "cognee")
    if python is None:
        yield skipped("cognee", about, {}, reason)
        return
    arguments = [
        "--budget", str(own["budget_s"]), "--top-k", str(top_k), "--wide", str(wide), "--max-hits",
        str(own["max_hits"]), "--limited" if own["limited"] else "--no-limited", "--batches",
        *map(str, own["batches"]),
    ]  # fmt: skip
    engine = engine_of(given, "cognee")
    for line in ask(python, "cognee_search.py", given, arguments, own["timeout_s"]):
        asked = line.get("cell", {})
        limit = asked.get("wide_search_top_k")
        settings = {"batch": line.get("batch"), "wide": limit or 0, "top_k": top_k} if asked else {}
        if "skipped" in line:
            yield skipped("cognee", about, settings, line["skipped"])
            continue
        samples = tuple(line["samples_s"])
        timing = Timing(line["p20_s"], line["median_s"], line["p80_s"], line["cpu_s"], len(samples), 1, None, samples)
        yield cell(
            "cognee", about, settings, timing, asked_batch=asked["asked_batch"], stages=line["stages"],
            version=line["version"], subtracted_s=line["subtracted_s"],
            agreement=agreement(engine, given, line, limit),
        )  # fmt: skip


def agreement(engine: Engine, given: Workload, line: dict[str, Any], wide: int | None) -> dict[str, Any]:
    """How many of the other system's rankings Tercet's cognee mode repeats, up to ties within rounding."""
    same, largest = 0, 0.0
    for query, ranking, scores in zip(line["queries"], line["rankings"], line["scores"], strict=True):
        vector = torch.from_numpy(given.query_vectors[query])
        got = engine.recall(vectors=vector, top_k=max(len(ranking), 1), wide_search_top_k=wide)[0]
        mine = triples(engine, got.edges)
        differences = np.abs(got.scores[: len(scores)] - np.array(scores)[: len(got.scores)])
        largest = max(largest, float(differences.max(initial=0.0)))
        moved = [i for i, (a, b) in enumerate(zip(mine, map(tuple, ranking), strict=False)) if a != b]
        same += len(mine) == len(ranking) and all(differences[i] <= AGREEMENT for i in moved)
    return {"queries": len(line["queries"]), "same": same, "largest_score_difference": largest}


def triples(engine: Engine, edges: np.ndarray) -> list[tuple[int, int, int]]:
    """Edges as rows of (source, relation, target), in the workload's numbers."""
    source, target, relation = (
        x.cpu().numpy()[edges] for x in (engine.graph.source, engine.graph.target, engine.graph.relation)
    )
    names = [int(n.split(" ")[-1]) for n in engine.graph.relation_names.take(relation).to_pylist()]
    return list(zip(source.tolist(), names, target.tolist(), strict=True))
