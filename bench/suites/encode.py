"""Texts a second with the encoder's cache off, and recall on texts, where the encoder is part of what is timed."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from bench.prepare import engine_of
from bench.records import Cell, cell, describe, skipped
from bench.suites import Bench
from tercet.errors import MissingDependency

TESTS = ("tests/engine/test_encoder.py",)
MODEL = "minilm"


def cells(bench: Bench) -> Iterator[Cell]:
    own = bench.own
    try:
        from tercet.demo.stdlib import questions
        from tercet.encoder import resolve_encoder
        from tercet.sentence_model import load_model

        encoder: Any = resolve_encoder(MODEL)
        plain = load_model(MODEL, "cpu")[1]
        texts = questions(max(own["batches"]))
    except (ImportError, MissingDependency) as error:
        yield skipped("tercet", None, {}, f"the demo extra isn't installed: {error}")
        return
    for batch in own["batches"]:
        settings = {"batch": batch, "model": MODEL}
        few = {"warmup": 1, "repeats": own["repeats"]}
        yield cell("tercet", None, settings, bench.measure(lambda batch=batch: encoder.encode(texts[:batch]), **few))
        timing = bench.measure(
            lambda batch=batch: plain.encode(
                texts[:batch], batch_size=own["plain_batch"], normalize_embeddings=True, show_progress_bar=False
            ),
            **few,
        )
        note = f"batches of {own['plain_batch']}; a text's bits change with its batch"
        yield cell("sentence-transformers", None, settings, timing, note=note)
    for spec in own["workloads"]:
        given = bench.workload(spec)
        engine = engine_of(given)
        engine.encoder = encoder
        for batch in own["batches"]:
            yield recall_cell(bench, engine, describe(given), texts[:batch])


def recall_cell(bench: Bench, engine: Any, about: dict[str, Any], texts: list[str]) -> Cell:
    """`recall` on texts, the encoder's share among the stages."""
    stages: list[dict[str, float]] = []

    def call() -> None:
        got = engine.recall(texts, top_k=bench.run["top_k"], wide_search_top_k=bench.run["wide"])
        got.scores.cpu()
        stages.append(got.timings)

    timing = bench.measure(call, warmup=1, repeats=bench.own["repeats"])
    kept = stages[-timing.repeats :]
    settings = {"batch": len(texts), "model": MODEL, "input": "texts", "wide": bench.run["wide"]}
    return cell("tercet", about, settings, timing, stages={s: float(np.median([k[s] for k in kept])) for s in kept[0]})
