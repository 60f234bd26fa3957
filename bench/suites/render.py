"""Texts and tables of ranked triplets; each call renders a fresh `Recall`, retrieved before the clock starts."""

from collections.abc import Iterator

import torch

from bench.prepare import batch_of, engine_of
from bench.records import Cell, cell, describe
from bench.suites import Bench
from tercet import Engine
from tercet.recall import Recall

TESTS = ("tests/engine/test_context.py", "tests/engine/test_recall.py")


def cells(bench: Bench) -> Iterator[Cell]:
    own = bench.own
    for spec in own["workloads"]:
        given = bench.workload(spec)
        about, engine = describe(given), engine_of(given, described=True)
        queries = batch_of(given, own["batch"])

        def fresh(engine: Engine = engine, queries: torch.Tensor = queries) -> Recall:
            got = engine.recall(vectors=queries, top_k=own["top_k"], wide_search_top_k=own["wide"] or None)
            got.scores.cpu()
            return got

        length = sum(len(text) for text in fresh().texts())
        table = fresh().to_arrow()
        settings = {"batch": own["batch"], "top_k": own["top_k"], "wide": own["wide"]}
        for call, size in (("texts", length), ("to_arrow", table.nbytes)):
            timing = bench.measure(lambda got, call=call: getattr(got, call)(), before=fresh)
            yield cell("tercet", about, {**settings, "call": call}, timing, triplets=table.num_rows, written_bytes=size)
