"""Grafito 0.8.6's `semantic_search` and `semantic_subgraph` beside Tercet, one query a call.

Tercet has no verb that returns the same subgraph. What stands beside Grafito's is `recall` with a neighbourhood of one
step around the k nearest nodes, which also scores and ranks the edges; the rows say so. The fragments are compared: the
number of edges that Tercet could rank is the number of relationships that Grafito returns.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from bench.baselines.peers import ask, find_python
from bench.prepare import RELATIONS, batch_of, engine_of
from bench.records import Cell, cell, describe, skipped
from bench.suites import Bench
from bench.suites.recall import TESTS as RECALL_TESTS
from bench.timing import Timing
from bench.workloads import Workload
from tercet import Engine

TESTS = RECALL_TESTS
NOTE = "recall in a neighbourhood of one step: also scores and ranks, returns the best edges instead of all"


def cells(bench: Bench) -> Iterator[Cell]:
    own = bench.own
    for spec in own["workloads"]:
        given = bench.workload(spec, num_queries=own["queries"])
        about, engine = describe(given), engine_of(given)
        settings = {"batch": 1, "k": own["k"]}
        index = engine.collections[0].index
        queries = batch_of(given, own["queries"])
        each = {"warmup": 1, "repeats": own["queries"]}
        timing = bench.measure(_in_turn(queries, lambda q, index=index: index.search(q[None], own["k"])), **each)
        yield cell("tercet", about, {**settings, "call": "search"}, timing)
        timing = bench.measure(_in_turn(queries, lambda q, engine=engine: near(engine, q, own["k"])), **each)
        yield cell("tercet", about, {**settings, "call": "subgraph"}, timing, note=NOTE)
        yield from _peer(bench, given, about, engine)


def near(engine: Engine, queries: torch.Tensor, k: int) -> Any:
    """The best edges among the nodes within a step of the k nearest."""
    names = [c.name for c in engine.collections if c.name != RELATIONS]
    got = engine.recall(
        vectors=queries, top_k=k, wide_search_top_k=k, collections=names, projection="neighborhood",
        neighborhood_depth=1, neighborhood_seed_top_k=k,
    )  # fmt: skip
    got.scores.cpu()
    return got


def _in_turn(queries: torch.Tensor, call: Any) -> Any:
    state = {"next": 0}

    def run() -> None:
        call(queries[state["next"] % len(queries)])
        state["next"] += 1

    return run


def _peer(bench: Bench, given: Workload, about: dict[str, Any], engine: Engine) -> Iterator[Cell]:
    own = bench.own
    python, reason = find_python("grafito", "grafitodb")
    if python is None:
        yield skipped("grafito", about, {}, reason)
        return
    arguments = ["--k", str(own["k"]), "--queries", str(own["queries"]), "--budget", str(own["budget_s"])]
    for line in ask(python, "grafito_search.py", given, [*arguments, "--backends", *own["backends"]], own["timeout_s"]):
        if "skipped" in line:
            yield skipped("grafito", about, {}, line["skipped"])
            continue
        samples = tuple(line["samples_s"])
        p20, median, p80 = np.quantile(samples, (0.2, 0.5, 0.8)).tolist()
        timing = Timing(p20, median, p80, median, len(samples), 1, None, samples)
        call = "search" if line["call"] == "semantic_search" else "subgraph"
        settings = {"batch": 1, "k": own["k"], "call": call, "backend": line["backend"]}
        yield cell(
            "grafito", about, settings, timing, version=line["version"], build_s=line["build_s"],
            agreement=agreement(engine, given, line),
        )  # fmt: skip


def agreement(engine: Engine, given: Workload, line: dict[str, Any]) -> dict[str, Any]:
    """Queries with the same k nearest nodes (as a set) and, for subgraphs, as many edges among the same nodes."""
    same = 0
    for row, nodes in enumerate(line["nodes"]):
        got = near(engine, torch.from_numpy(given.query_vectors[row])[None], line["k"])
        mine = {int(name[1:]) for name, _ in got[0].seeds}
        edges = got[0].explain()["counts"]["available"]
        same += mine == set(nodes) and (not line["sizes"] or edges == line["sizes"][row][1])
    return {"same": same, "queries": len(line["nodes"])}
