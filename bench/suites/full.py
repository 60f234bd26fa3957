"""A search without a limit: every edge counts, beside one dense pass in torch."""

from collections.abc import Iterator
from functools import partial
from statistics import fmean

from bench.prepare import batch_of, engine_of
from bench.records import Cell, cell, describe
from bench.suites import Bench
from bench.suites.pipeline import agreement, plain_of, plain_timed
from bench.suites.recall import TESTS as RECALL_TESTS
from bench.suites.recall import timed

TESTS = RECALL_TESTS


def cells(bench: Bench) -> Iterator[Cell]:
    top_k = bench.run["top_k"]
    for spec in bench.own["workloads"]:
        given = bench.workload(spec)
        about, engine = describe(given), engine_of(given)
        plain = plain_of(engine)
        for batch in bench.own["batches"]:
            queries = batch_of(given, batch)
            row = timed(bench, engine, about, queries, 0)
            got = engine.recall(vectors=queries, top_k=top_k, wide_search_top_k=None)
            row["share_read"] = fmean(r.explain()["counts"]["share_read"] for r in got[:16])
            yield row
            ranked, timing = plain_timed(bench, partial(plain.full, queries, top_k))
            agree = agreement(engine, queries, ranked, top_k, 0)
            yield cell("torch", about, {"batch": batch, "wide": 0, "top_k": top_k}, timing, agreement=agree)
