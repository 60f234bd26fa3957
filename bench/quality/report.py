"""The tables of docs/quality.md: every way of retrieving on the questions that nothing was tuned on."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

import tercet
from bench.quality.sets import PREFIX, QuestionSet, question_set
from tercet.evaluate import Report
from tercet.multihop.settings import MultihopSettings, settings_of

MEASURES = ("R@2", "R@5", "R@10", "nDCG@10", "RR@10", "all_recall@5")
SHOWN = ("R@2", "R@5", "R@10", "all_recall@5", "nDCG@10")
TRIPLETS = 100  # of a recall, mapped to passages
# Published R@2 / R@5 of HippoRAG with Contriever (arXiv 2405.14831, table 2), over all 1,000 questions of each set.
PUBLISHED = {"musique": (41.0, 52.1), "2wikimultihopqa": (71.5, 89.5), "hotpotqa": (59.0, 76.2)}


def report(names: list[str], cache: Path, half: str, settings: Path | None, out: Path | None) -> None:
    """Print a table for each set that has questions in the half, and write the run folders."""
    chosen = settings_of("multihop", settings)
    tables = {}
    for name in names:
        s = question_set(name, cache)
        places = s.half(half)
        if places:
            made = judged(s, places, modes(chosen), citations=s.citations)
            tables[name] = _table(name, made, len(places))
            if out is not None:
                tercet.evaluate.write_report(made, out / f"{name}-{half}")
    if out is not None:
        (out / "tables.json").write_text(json.dumps(tables, indent=1), encoding="utf-8")


def judged(s: QuestionSet, places: list[int], settings: Mapping[str, Any], citations: Any) -> Report:
    """The report of some questions of a set."""
    rows = [{"id": str(s.questions[i]["id"]), "text": s.questions[i]["question"], "type": s.questions[i]["type"],
             "rows": s.weight(i)} for i in places]  # fmt: skip
    queries = tercet.evaluate.Queries.of(rows).with_vectors(s.vectors[places])
    qrels = {str(s.questions[i]["id"]): [str(g) for g in s.questions[i]["gold"]] for i in places}
    return tercet.evaluate(
        s.engine, queries, qrels, settings, k=20, prefix=PREFIX, measures=MEASURES, weight="rows", citations=citations,
        triplets=TRIPLETS, resamples=2000,
    )  # fmt: skip


def modes(chosen: MultihopSettings) -> dict[str, Any]:
    """All ways of retrieving that the tables compare."""
    passages = pc.field("type") == "DocumentChunk"
    first = replace(chosen, second={})
    out: dict[str, Any] = {
        "recall-induced": {"verb": "recall"},
        "recall-incident": {"verb": "recall", "projection": "incident"},
        "recall-full": {"verb": "recall", "wide_search_top_k": None},
        "hybrid": {"verb": "hybrid_search", "filter": passages},
        "expansion": {"verb": "hybrid_subgraph", "k": 20, "expand": 1, "filter": passages, "max_nodes": 200},
        "walk-names": {"verb": "passage_search", "settings": only(chosen, "walk")},
        "walk-passages": {"verb": "passage_search", "settings": only(chosen, "walk_near")},
        "walk-both": {"verb": "passage_search", "settings": only(chosen, "walk", "walk_near")},
        "paths": {"verb": "passage_search", "settings": only(chosen, "path", "chain", "dense")},
        "dense+lexical": {"verb": "passage_search", "settings": only(chosen, "dense", "lexical")},
        "first": {"verb": "passage_search", "settings": first},
        "multihop": {"verb": "passage_search", "settings": chosen},
    }
    for signals in (
        ("walk", "walk_near", "mention"), ("path", "chain"), ("mention",), ("lexical",), ("dense",), ("residual",),
                    ("named", "named_by", "shared")):  # fmt: skip
        out[f"without-{signals[0]}"] = {"verb": "passage_search", "settings": without(chosen, *signals)}
    out["exact-names-only"] = {"verb": "passage_search", "settings": replace(chosen, near=0.0)}
    out["no-capitals"] = {"verb": "passage_search", "settings": replace(chosen, capital=1.0)}
    return out


def only(chosen: MultihopSettings, *signals: str) -> MultihopSettings:
    """The first look with some signals."""
    return replace(chosen, first={name: chosen.first[name] for name in signals}, second={})


def without(chosen: MultihopSettings, *signals: str) -> MultihopSettings:
    """Both looks without some signals, the other weights as they are."""
    kept = {part: {n: w for n, w in getattr(chosen, part).items() if n not in signals} for part in ("first", "second")}
    return replace(chosen, **kept)


def _table(name: str, made: Report, questions: int) -> dict[str, dict[str, float]]:
    print(f"\n{name}: {questions} questions\n")
    print(f"| way | {' | '.join(SHOWN)} | queries/s |\n|---|{'---:|' * (len(SHOWN) + 1)}")
    rows: dict[str, dict[str, float]] = {}
    for way in [*made.baselines, *(m for m in made.modes if m not in made.baselines)]:
        mode = made.modes[way]
        if mode.error is not None:
            print(f"| {way} | did not run: {mode.error} |")
            continue
        means = made.evaluations[way].means
        rows[way] = {**{m: float(means[m]) for m in SHOWN}, "queries_per_second": mode.queries_per_second}
        shown = " | ".join(f"{100 * means[m]:.1f}" for m in SHOWN)
        print(f"| {way} | {shown} | {mode.queries_per_second:,.0f} |", flush=True)
    if name in PUBLISHED:
        two, five = PUBLISHED[name]
        print(f"| HippoRAG (Contriever), published, all questions | {two} | {five} | | | | |")
    bad = {way: (len(e.failed), len(e.empty)) for way, e in made.evaluations.items() if len(e.failed) or len(e.empty)}
    if bad:
        print("\nfailed, empty: " + ", ".join(f"{way} {a}, {b}" for way, (a, b) in bad.items()))
    print("\n" + "\n".join(_differences(made)))
    return rows


def _differences(made: Report) -> list[str]:
    """How the multi-hop search differs from each baseline in R@5."""
    return [
        f"multihop - {row.baseline}: {100 * row.difference:+.1f} ({100 * row.low:+.1f} to {100 * row.high:+.1f})"
        for row in made.comparison.rows if row.system == "multihop" and row.measure == "R@5"
    ]  # fmt: skip
