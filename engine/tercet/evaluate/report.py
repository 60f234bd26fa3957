"""Evaluation of an engine: modes and baselines over a batch of queries, judged, compared, timed."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tercet.errors import InvalidArgument
from tercet.evaluate.agreement import Agreement, agreement
from tercet.evaluate.baselines import BASELINES
from tercet.evaluate.checks import constant_run, constant_scorer_passes
from tercet.evaluate.files import read_run
from tercet.evaluate.measures import DEFAULT
from tercet.evaluate.metrics import TOKENS, Evaluation, Policy, score_run
from tercet.evaluate.modes import Asked, Mode, check_modes, run_baseline, run_mode
from tercet.evaluate.passages import PASSAGE
from tercet.evaluate.qrels import Qrels
from tercet.evaluate.queries import Queries
from tercet.evaluate.run import Run
from tercet.evaluate.significance import Comparison, compare
from tercet.evaluate.target import LEVELS, Level, check_judged, target_of
from tercet.tokens import Counter

SHOWN = ("nDCG@10", "R@2", "R@5", "R@10", "RR@10", "AP", "all_recall@5", TOKENS)


@dataclass(frozen=True, eq=False)
class Report:
    """What an evaluation found. Made by `evaluate`."""

    level: Level
    k: int
    queries: Queries
    qrels: Qrels
    modes: dict[str, Mode]  # what was asked for, then the baselines
    baselines: tuple[str, ...]
    evaluations: dict[str, Evaluation]  # of the modes that ran
    constant: Evaluation  # a scorer that gives every document the same score: what knowing nothing is worth
    comparison: Comparison
    agreements: dict[str, Agreement]  # of the modes with the reference, where one was named
    encode_seconds: float  # of all queries, once
    checks: dict[str, bool]
    notes: tuple[str, ...]

    @property
    def did_not_run(self) -> dict[str, str]:
        """Modes that raised, and what."""
        return {name: m.error for name, m in self.modes.items() if m.error is not None}

    def summary(self) -> dict[str, Any]:
        """What fits into JSON."""
        modes = {
            name: {
                "verb": m.verb, "arguments": {k: _plain(v) for k, v in m.arguments.items()}, "error": m.error,
                "seconds": m.seconds, "stages": dict(m.stages),
                "queries_per_second": None if m.run is None else m.queries_per_second,
                "scores_are": None if m.run is None else m.run.scores_are,
                "evaluation": self.evaluations[name].summary() if name in self.evaluations else None,
            } for name, m in self.modes.items()
        }  # fmt: skip
        return {
            "level": self.level, "k": self.k, "queries": len(self.queries), "judged_queries": len(self.qrels),
            "baselines": list(self.baselines), "encode_seconds": self.encode_seconds, "modes": modes,
            "constant": self.constant.summary(), "comparison": self.comparison.summary(),
            "agreements": {name: a.summary() for name, a in self.agreements.items()}, "checks": self.checks,
            "notes": list(self.notes),
        }  # fmt: skip

    def __str__(self) -> str:
        columns = [m for m in SHOWN if all(m in e.measures for e in self.evaluations.values())]
        lines = [f"{len(self.queries)} queries, judged by {self.level}, first {self.k} documents"]
        lines.append(f"{'':<20}" + "".join(f"{c:>15}" for c in columns) + f"{'failed':>8}{'empty':>7}{'queries/s':>11}")
        for name, mode in self.modes.items():
            if mode.error is not None:
                lines.append(f"{name:<20}did not run: {mode.error}")
                continue
            e = self.evaluations[name]
            shown = "".join(f"{e.means[c]:>15.{1 if c == TOKENS else 4}f}" for c in columns)
            lines.append(f"{name:<20}{shown}{len(e.failed):>8}{len(e.empty):>7}{mode.queries_per_second:>11,.0f}")
        known = [c for c in columns if c in self.constant.measures]
        lines.append(f"{'constant':<20}" + "".join(
            f"{self.constant.means[c]:>15.4f}" if c in known else f"{'':>15}" for c in columns))  # fmt: skip
        lines.append(f"encoded in {self.encode_seconds:.2f} s, not counted in queries/s")
        for name, e in self.evaluations.items():
            lines += [f"{name}: {text}" for text in e.remarks()]
        lines += [f"check failed: {name}" for name, good in self.checks.items() if not good]
        lines += [str(a) for a in self.agreements.values()]
        return "\n".join([*lines, *self.notes, *([str(self.comparison)] if self.comparison.rows else [])])

    def __repr__(self) -> str:
        return f"Report({self.level}, {', '.join(self.modes)}, {len(self.queries)} queries)"


def evaluate(
    engine: Any,
    queries: Any,
    qrels: Any,
    settings: Mapping[str, Any] | None = None,
    *,
    level: Level = "passage",
    k: int = 100,
    prefix: str = "",
    baselines: Sequence[str] = BASELINES,
    measures: Sequence[str] = DEFAULT,
    weight: str | None = None,
    missing: Policy = "zero",
    passage_type: str = PASSAGE,
    citations: Any = None,
    triplets: int | None = None,
    context_k: int = 5,
    reference: Any = None,
    count_tokens: Counter | None = None,
    gold: str = "gold",
    resamples: int = 10_000,
    seed: int = 0,
) -> Report:
    """Run an engine over queries and judge what it retrieves, beside baselines on the same documents.

    All queries are encoded once and retrieved in one call a mode. A query that fails is counted and listed; a mode
    that raises is reported as one that did not run, and takes no part in tests.

    Args:
        engine: the engine.
        queries: `Queries`, or what `Queries.of` takes; with vectors, those are used instead of encoding.
        qrels: `Qrels`, or what `Qrels.of` takes.
        settings: a name for each mode, and its arguments: `{"recall": {"wide_search_top_k": 200}}`; another name goes
            with `verb`: `{"wide": {"verb": "recall", …}}`. The verbs are recall, the searches and the subgraphs of
            queries. A mode may be a function instead, of (engine, `QueryBatch`, k), that returns what a verb returns or
            a `Run`. None: recall as it is.
        level: what the qrels judge: "passage" (nodes of the type `passage_type`; triplets count for the passages that
            they cite, see `tercet.evaluate.passages`), "node" or "triplet" (see `target_of`).
        k: documents of each query that are judged.
        prefix: of node ids, where the qrels leave it out.
        baselines: of "dense" (exact cosine similarity) and "bm25", both over the documents that are judged alone.
        measures: names, see `measure_values`.
        weight: a field of the queries that says how much each counts.
        missing: what queries count as that failed: "zero", "skip" or "error".
        citations: a table of which passages hold which triplet, such as `OpenIE.citations`.
        triplets: how many triplets of a recall are ranked for judging; None: k, for passages five times k.
        context_k: results whose text is counted as the context, where a mode's own `top_k` or `k` doesn't say.
        reference: what rankings are compared with, whatever is relevant: "exact" (each recall without a limit on
            candidates, `wide_search_top_k=None`), the name of a mode or a baseline, a `Run`, or the file of one.
        count_tokens: counts the tokens of each of some texts; None counts words and signs.
        gold: the key of the list of relevant ids, where the qrels are JSON lines.
        resamples, seed: of bootstrap and randomisation.

    Raises:
        InvalidArgument: the call is wrong: names the argument.
        InvalidData: queries, qrels or citations can't be taken, or have no id in common with each other or the graph.
        MissingDependency: what 'tercet[eval]' installs is missing.
    """
    modes = {"recall": {}} if settings is None else dict(settings)
    check_modes(modes)
    against = _reference(reference, [*modes, *baselines])
    unknown = [b for b in baselines if b not in BASELINES]
    if unknown or level not in LEVELS:
        raise InvalidArgument(f"baselines: expected some of {', '.join(BASELINES)}, got {', '.join(unknown)}"
                              if unknown else f"level: expected one of {', '.join(LEVELS)}, got {level!r}")  # fmt: skip
    for name, value in (("k", k), ("context_k", context_k), ("triplets", k if triplets is None else triplets)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise InvalidArgument(f"{name}: expected an integer of at least 1, got {value!r}")
    asked_for, judged = Queries.of(queries), Qrels.of(qrels, gold=gold)
    if weight is not None:
        asked_for.weights(weight)
    engine = engine.view()  # one version from beginning to end, whatever is updated meanwhile
    target = target_of(engine.graph, level, prefix=prefix, passage_type=passage_type, citations=citations)
    notes = check_judged(target, judged)
    if target.citations is not None and target.citations.unknown:
        notes.append(f"{target.citations.unknown} citations name no passage or triplet of the graph: left out")
    asked = Asked.by(engine, asked_for)
    ranked = triplets if triplets is not None else 5 * k if level == "passage" else k
    common: dict[str, Any] = {"k": k, "triplets": ranked, "context_k": context_k, "counter": count_tokens}
    found = {name: run_mode(engine, target, asked, name, given, **common) for name, given in modes.items()}
    if level == "triplet" and baselines:
        notes.append("triplets have neither vectors nor texts of their own, so there are no baselines for them")
        baselines = ()
    found |= {name: run_baseline(engine, target, asked, name, k=k, context_k=context_k, counter=count_tokens)
              for name in baselines}  # fmt: skip
    options: dict[str, Any] = {"measures": measures, "queries": asked_for, "weight": weight, "missing": missing}
    evaluations = {name: score_run(m.run, judged, context=m.context, **options)
                   for name, m in found.items() if m.run is not None}  # fmt: skip
    constant = score_run(constant_run(asked_for.ids, target.documents, k), judged, **options)
    results: dict[str, Evaluation | str] = {
        name: evaluations.get(name, f"did not run: {m.error}") for name, m in found.items()
    }
    comparison = compare(results, tuple(baselines), resamples=resamples, seed=seed)
    agreements = _agreements(
        found, against, lambda name, given: run_mode(engine, target, asked, name, given, **common).run
    )
    checks = {"constant scorer isn't rewarded for the order of its input": constant_scorer_passes(judged)}
    return Report(level, k, asked_for, judged, found, tuple(baselines), evaluations, constant, comparison,
                  agreements, asked.seconds, checks, tuple(notes))  # fmt: skip


def _reference(given: Any, names: Sequence[str]) -> Run | str | None:
    """A run, or the name of a mode or "exact"; a file is read."""
    if given is None or isinstance(given, Run) or given == "exact" or given in names:
        return given
    if isinstance(given, (str, Path)):
        return read_run(given)
    raise InvalidArgument(f"reference: expected 'exact', a mode, a Run or a file, got {type(given).__name__}")


def _agreements(
    found: Mapping[str, Mode], reference: Run | str | None, again: Callable[[str, Mapping[str, Any]], Run | None]
) -> dict[str, Agreement]:
    """How the modes agree with the reference; a recall's "exact" one is run for it."""
    out = {}
    for name, m in found.items():
        other = reference
        if reference == "exact":
            unlimited = {**m.arguments, "verb": "recall", "wide_search_top_k": None}
            other = again(f"{name}-exact", unlimited) if m.verb == "recall" and m.run is not None else None
        elif isinstance(reference, str):
            other = found[reference].run if reference in found and reference != name else None
        if m.run is not None and isinstance(other, Run):
            out[name] = agreement(m.run, other)
    return out


def _plain(value: Any) -> Any:
    """A value as JSON has it, or how it shows."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    return value.item() if isinstance(value, np.generic) else repr(value)
