"""Grafito 0.8.6's searches for subgraphs beside Tercet's, and personalised PageRank beside igraph's and networkx's.

Grafito has no batch form, so its rate is that of single calls. It returns objects; Tercet returns flat arrays and makes
objects when they are read, so both are timed. Cells with mode "grafito" follow Grafito's rules and are what its answers
are compared with; "native" ones follow Tercet's: its text side finds nodes with any word of the query instead of all of
them, and `path_context` takes up to 20 shortest routes of each pair of candidates instead of one.
"""

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from bench.baselines import igraph_pagerank, networkx_pagerank
from bench.baselines.peers import ask, find_python
from bench.records import Cell, cell, describe, skipped
from bench.subgraphs import PREPARED, Asker, Call, asker, compare, timed
from bench.suites import Bench
from bench.texts import TextWorkload, with_texts
from bench.timing import Timing
from tercet import Engine
from tercet.analyse import PageRanks, rank

TESTS = (
    "tests/kernels/test_neighbors.py", "tests/kernels/test_routes.py", "tests/kernels/test_fragment.py",
    "tests/kernels/test_nearest.py", "tests/kernels/test_cosine.py", "tests/kernels/test_lexical_topk.py",
    "tests/kernels/test_personalized_pagerank.py", "tests/engine/test_expansion.py", "tests/engine/test_paths.py",
    "tests/engine/test_hybrid.py", "tests/engine/test_lexical.py", "tests/engine/test_fts.py",
    "tests/engine/test_fusion.py", "tests/engine/test_pagerank.py",
)  # fmt: skip
RANKERS = {"igraph": igraph_pagerank, "networkx": networkx_pagerank}
DAMPING = 0.85
CLOSE = 1e-5  # scores of iterations that stop at an L1 change of 1e-6
TOP = 20  # nodes of a ranking


def cells(bench: Bench) -> Iterator[Cell]:
    own = bench.own
    for spec in own["workloads"]:
        drawn = bench.workload(spec, num_queries=max(own["batches"]))
        given = with_texts(drawn, own["waypoints"], bench.run["seed"])
        about = describe(given)
        askers = {mode: asker(given, mode) for mode in own["modes"]}
        for mode, asked in askers.items():
            for call in calls(own):
                for batch in own["batches"]:
                    for objects in (False, True) if mode == "native" else (False,):
                        yield timed(bench.measure, about, asked, call, batch, objects=objects, singles=own["queries"])
        yield from _ranks(bench, about, next(iter(askers.values())))
        yield from _peer(bench, given, about, askers)


def calls(own: dict[str, Any]) -> list[Call]:
    """The calls that are timed, as both sides take them."""
    return [
        {"call": "semantic_subgraph", "k": own["semantic_k"], "expand": own["expand"]},
        {"call": "hybrid_subgraph", "k": own["hybrid_k"], "expand": own["expand"]},
        *({"call": "path_context", "k": own["path_k"], "max_hops": hops} for hops in own["max_hops"]),
    ]


def _ranks(bench: Bench, about: dict[str, Any], asked: Asker) -> Iterator[Cell]:
    """Personalised PageRank from the nodes nearest to each query."""
    own, given = bench.own, asked.given
    found = asked.engine.semantic_search(vectors=given.query_vectors, k=own["seeds"])
    seeds = np.split(found.node, found.indptr[1:-1])
    base = {"call": "pagerank", "seeds": own["seeds"], "top_k": TOP}
    for batch in own["batches"]:
        chosen = [seeds[i % len(seeds)] for i in range(batch)]
        ranked(asked.engine, chosen[:PREPARED])
        timing = bench.measure(lambda chosen=chosen: ranked(asked.engine, chosen))
        yield cell("tercet", about, {**base, "batch": batch}, timing)
    best = ranked(asked.engine, seeds[: own["queries"]])
    for name in own["rankers"]:
        settings = {**base, "batch": 1}
        try:
            ranker = RANKERS[name].ranker(given, DAMPING)
        except ImportError as error:
            yield skipped(name, about, settings, f"{error.name} isn't installed")
            continue
        scores: list[np.ndarray] = []
        turn = {"next": 0}

        def one(ranker: Any = ranker, scores: Any = scores, turn: Any = turn) -> None:
            scores.append(ranker(seeds[turn["next"] % own["queries"]]))
            turn["next"] += 1

        timing = bench.measure(one, warmup=0, repeats=own["queries"])
        yield cell(name, about, settings, timing, agreement=_close(best, scores[: own["queries"]]))


def ranked(engine: Engine, seeds: list[np.ndarray]) -> PageRanks:
    """The best nodes of walks that return to the seeds of each query."""
    indptr = torch.from_numpy(np.cumsum([0, *map(len, seeds)]).astype(np.int64))
    node = torch.from_numpy(np.concatenate(seeds).astype(np.int32))
    return rank(
        engine.graph, engine.topology, indptr, node, torch.ones(len(node), dtype=torch.float64), damping=DAMPING,
        top_k=TOP,
    )  # fmt: skip


def _close(best: PageRanks, scores: list[np.ndarray]) -> dict[str, Any]:
    """Queries whose best nodes have the scores that the other side gives them, and the best ones it gives to any."""
    assert best.node is not None
    same, largest = 0, 0.0
    for nodes, mine, theirs in zip(best.node.numpy(), best.score.numpy(), scores, strict=False):
        kept = nodes >= 0
        top = np.sort(theirs)[::-1][: int(kept.sum())]
        off = max(np.abs(theirs[nodes[kept]] - mine[kept]).max(), np.abs(top - mine[kept]).max())
        same, largest = same + bool(off <= CLOSE), max(largest, float(off))
    return {"same": same, "queries": len(scores), "largest_score_difference": largest}


def _peer(bench: Bench, given: TextWorkload, about: dict[str, Any], askers: dict[str, Asker]) -> Iterator[Cell]:
    own = bench.own
    python, reason = find_python("grafito", "grafitodb")
    if python is None:
        yield skipped("grafito", about, {}, reason)
        return
    backends = [b for b in own["backends"] if b == "faiss" or given.num_nodes <= own["bruteforce_nodes"]]
    arguments = [
        "--calls", json.dumps(calls(own)), "--queries", str(own["queries"]), "--budget", str(own["budget_s"]),
        "--longer", json.dumps({"path_context": own["path_budgets"]}), "--backends", *backends,
    ]  # fmt: skip
    for line in ask(python, "grafito_search.py", given, arguments, own["timeout_s"]):
        if "skipped" in line:
            yield skipped("grafito", about, {}, line["skipped"])
            continue
        yield _told(about, askers, line)


def _told(about: dict[str, Any], askers: dict[str, Asker], line: dict[str, Any]) -> Cell:
    """A cell of Grafito, with how its answers compare with Tercet's."""
    samples = tuple(line["samples_s"])
    p20, median, p80 = np.quantile(samples, (0.2, 0.5, 0.8)).tolist()
    timing = Timing(p20, median, p80, median, len(samples), 1, None, samples)
    compared = {mode: compare(asked, line["asked"], line["answers"]) for mode, asked in askers.items()}
    agreement = compared.get("grafito") or compared["native"]
    return cell(
        "grafito", about, {**line["asked"], "batch": 1, "backend": line["backend"]}, timing, version=line["version"],
        build_s=line["build_s"], routes=sum(len(a["paths"]) for a in line["answers"]) / len(samples),
        agreement=agreement, native=compared.get("native"),
    )  # fmt: skip
