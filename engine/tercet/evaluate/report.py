"""Evaluation of an engine: modes and baselines over a batch of queries, judged, compared, timed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tercet.errors import InvalidArgument
from tercet.evaluate.agreement import Agreement, agreement
from tercet.evaluate.baselines import BASELINES
from tercet.evaluate.checks import constant_run, constant_scorer_passes
from tercet.evaluate.files import read_run
from tercet.evaluate.job import PARTITION, Job, Spec, described
from tercet.evaluate.measures import DEFAULT
from tercet.evaluate.metrics import TOKENS, Evaluation, Policy, score_run
from tercet.evaluate.modes import Mode, check_modes
from tercet.evaluate.passages import PASSAGE
from tercet.evaluate.qrels import Qrels
from tercet.evaluate.queries import Queries
from tercet.evaluate.run import Run
from tercet.evaluate.running import Progress, asked_of, exact_of, run_all
from tercet.evaluate.significance import Comparison, compare, interval
from tercet.evaluate.target import LEVELS, Level, check_judged, target_of
from tercet.evaluate.work import Work, check_out
from tercet.tokens import Counter

FEW_VALUES = 12  # of a field of the queries that makes slices
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
    job: Job | None = None  # what was run on which engine
    options: Mapping[str, Any] = field(default_factory=dict)  # of `evaluate`, besides the modes
    latency: pa.Table | None = None  # mode, query, seconds: of single queries, one in flight

    @property
    def did_not_run(self) -> dict[str, str]:
        """Modes that raised, and what."""
        return {name: m.error for name, m in self.modes.items() if m.error is not None}

    @cached_property
    def intervals(self) -> dict[str, dict[str, tuple[float, float]]]:
        """By mode and measure shown, the bounds of the 95 % bootstrap interval of the mean."""
        out: dict[str, dict[str, tuple[float, float]]] = {name: {} for name in self.evaluations}
        groups: dict[bytes, list[tuple[str, str]]] = {}
        for name, e in self.evaluations.items():
            for m in (m for m in SHOWN if m in e.measures):
                groups.setdefault((~np.isnan(e[m])).tobytes(), []).append((name, m))
        for kept, columns in groups.items():
            inside = np.frombuffer(kept, bool)
            weights = self.evaluations[columns[0][0]].weights[inside]
            values = np.stack([self.evaluations[n][m][inside] for n, m in columns], axis=1)
            low, high = interval(values, weights, self.comparison.resamples, self.comparison.seed)
            for (n, m), bounds in zip(columns, zip(low.tolist(), high.tolist(), strict=True), strict=True):
                out[n][m] = bounds
        return out

    @cached_property
    def slices(self) -> dict[str, dict[str, dict[str, Any]]]:
        """By field with few values, value and mode, how many queries and the means of the measures shown."""
        out: dict[str, dict[str, dict[str, Any]]] = {}
        fields = self.queries.fields
        for name in fields.column_names:
            values = [] if pa.types.is_nested(fields.schema.field(name).type) else fields.column(name).to_pylist()
            if not 1 < len(set(values)) <= FEW_VALUES or values == self.queries.texts.to_pylist():
                continue
            for mode, e in self.evaluations.items():
                for value, part in e.slices(name).items():
                    means = {m: v for m, v in part.means.items() if m in SHOWN and not np.isnan(v)}
                    out.setdefault(name, {}).setdefault(value, {})[mode] = {"n": part.n, "means": means}
        return out

    @cached_property
    def quantiles(self) -> dict[str, dict[str, float]]:
        """By mode, quantiles of the seconds of single queries."""
        if self.latency is None:
            return {}
        names = np.asarray(self.latency.column("mode").to_pylist(), object)
        seconds = self.latency.column("seconds").to_numpy()
        out = {}
        for name in dict.fromkeys(names.tolist()):
            some = seconds[names == name]
            at = np.quantile(some, [0.5, 0.95, 0.99, 0.999])
            out[name] = {"n": len(some), "p50": at[0], "p95": at[1], "p99": at[2], "p99.9": at[3], "max": some.max()}
        return {name: {k: float(v) for k, v in q.items()} for name, q in out.items()}

    def summary(self) -> dict[str, Any]:
        """What fits into JSON."""
        modes = {
            name: {
                "verb": m.verb, "arguments": described(m.arguments), "error": m.error,
                "seconds": m.seconds, "seconds_charged": m.charged, "stages": dict(m.stages),
                "queries_per_second": None if m.run is None or not m.seconds else m.queries_per_second,
                "scores_are": None if m.run is None else m.run.scores_are,
                "evaluation": self.evaluations[name].summary() if name in self.evaluations else None,
                "intervals": {k: list(v) for k, v in self.intervals.get(name, {}).items()},
                "latency": self.quantiles.get(name),
            } for name, m in self.modes.items()
        }  # fmt: skip
        return {
            "level": self.level, "k": self.k, "queries": len(self.queries), "judged_queries": len(self.qrels),
            "baselines": list(self.baselines), "encode_seconds": self.encode_seconds, "modes": modes,
            "constant": self.constant.summary(), "comparison": self.comparison.summary(), "slices": self.slices,
            "agreements": {name: a.summary() for name, a in self.agreements.items()}, "checks": self.checks,
            "notes": list(self.notes),
        }  # fmt: skip

    def __str__(self) -> str:
        columns = [m for m in SHOWN if all(m in e.measures for e in self.evaluations.values())]
        lines = [f"{len(self.queries)} queries, judged by {self.level}, first {self.k} documents"]
        wide = max(20, *(len(name) + 2 for name in self.modes))
        lines.append(
            f"{'':<{wide}}" + "".join(f"{c:>15}" for c in columns) + f"{'failed':>8}{'empty':>7}{'queries/s':>11}"
        )
        for name, mode in self.modes.items():
            if mode.error is not None:
                lines.append(f"{name:<{wide}}did not run: {mode.error}")
                continue
            e = self.evaluations[name]
            shown = "".join(f"{e.means[c]:>15.{1 if c == TOKENS else 4}f}" for c in columns)
            lines.append(f"{name:<{wide}}{shown}{len(e.failed):>8}{len(e.empty):>7}{mode.queries_per_second:>11,.0f}")
        known = [c for c in columns if c in self.constant.measures]
        lines.append(f"{'constant':<{wide}}" + "".join(
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
    partition: int | None = None,
    reuse: bool = True,
    latency: int = 0,
    out: str | Path | None = None,
    resume: bool = False,
    ray: str | None = None,
    actors: int = 2,
    progress: Progress | None = None,
) -> Report:
    """Run an engine over queries and judge what it retrieves, beside baselines on the same documents.

    All queries are encoded once, and retrieved in one call a mode and partition. A query that fails is counted and
    listed; a mode that raises is reported as one that did not run, and takes no part in tests. A mode that raises in
    some partitions only has failed for the queries in them.

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
        partition: queries that all modes are run on at a time; None: all of them, with `out` or `ray` 256. Results
            don't depend on it.
        reuse: recalls that differ in what happens after the search share one, see `tercet.evaluate.reuse`.
        latency: this many queries, spread over all, are run one by one too, to see how long single ones take.
        out: a new folder for the results, see `tercet.evaluate.folder`. Each partition is kept there when it is done.
        resume: go on with a folder that a stopped evaluation left, at the first partition that isn't there.
        ray: the address of a Ray cluster, "auto" or "local", to run partitions on; the engine's store must be readable
            from all of its machines.
        actors: engines on that cluster, one an actor.
        progress: called with the queries done, all queries, the seconds left if known, and what is running.

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
    triplets = triplets if triplets is not None else 5 * k if level == "passage" else k
    size = partition if partition is not None else PARTITION if out is not None or ray is not None else None
    for name, value, least in (("k", k, 1), ("context_k", context_k, 1), ("triplets", triplets, 1),
                               ("partition", 1 if size is None else size, 1), ("latency", latency, 0),
                               ("actors", actors, 1)):  # fmt: skip
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise InvalidArgument(f"{name}: expected an integer of at least {least}, got {value!r}")
    work = None if out is None else Work(check_out(out, resume))
    asked_for, judged = Queries.of(queries), Qrels.of(qrels, gold=gold)
    if weight is not None:
        asked_for.weights(weight)
    engine = engine.view()  # one version from beginning to end, whatever is updated meanwhile
    target = target_of(engine.graph, level, prefix=prefix, passage_type=passage_type, citations=citations)
    notes = check_judged(target, judged)
    if target.citations is not None and target.citations.unknown:
        notes.append(f"{target.citations.unknown} citations name no passage or triplet of the graph: left out")
    if level == "triplet" and baselines:
        notes.append("triplets have neither vectors nor texts of their own, so there are no baselines for them")
        baselines = ()
    exact = exact_of(modes) if against == "exact" else {}
    spec = Spec(
        asked_of(engine, asked_for, work), modes | {n: given for n, given in exact.values()}, tuple(baselines), level,
        prefix, passage_type, citations, k, triplets, context_k, count_tokens, size or max(len(asked_for), 1), reuse,
    )  # fmt: skip
    job = Job.of(engine, spec, target)
    every = run_all(job, work, ray, actors, progress)
    found = {name: every[name] for name in [*modes, *baselines]}
    notes += [f"{name}: {note}" for name, m in found.items() for note in m.notes]
    if any(m.charged for m in found.values()):
        notes.append("recalls shared a search; each is charged the time that its own would have taken")
    measured = job.one_by_one(latency) if latency else None
    options: dict[str, Any] = {"measures": measures, "queries": asked_for, "weight": weight, "missing": missing}
    evaluations = {name: score_run(m.run, judged, context=m.context, **options)
                   for name, m in found.items() if m.run is not None}  # fmt: skip
    constant = score_run(constant_run(asked_for.ids, target.documents, k), judged, **options)
    results: dict[str, Evaluation | str] = {
        name: evaluations.get(name, f"did not run: {m.error}") for name, m in found.items()
    }
    comparison = compare(results, tuple(baselines), resamples=resamples, seed=seed)
    agreements = _agreements(found, against, {name: every[n] for name, (n, _) in exact.items()})
    checks = {"constant scorer isn't rewarded for the order of its input": constant_scorer_passes(judged)}
    report = Report(
        level, k, asked_for, judged, found, tuple(baselines), evaluations, constant, comparison, agreements,
        spec.asked.seconds, checks, tuple(notes), job, {
            "level": level, "prefix": prefix, "passage_type": passage_type, "k": k, "baselines": list(baselines),
            "measures": list(measures), "weight": weight, "missing": missing, "triplets": triplets,
            "context_k": context_k, "reference": reference if isinstance(reference, str) else None, "gold": gold,
            "resamples": resamples, "seed": seed, "partition": spec.partition, "reuse": reuse, "latency": latency,
        }, measured,
    )  # fmt: skip
    if work is not None:
        from tercet.evaluate.folder import finish

        finish(report, work)
    return report


def _reference(given: Any, names: Sequence[str]) -> Run | str | None:
    """A run, or the name of a mode or "exact"; a file is read."""
    if given is None or isinstance(given, Run) or given == "exact" or given in names:
        return given
    if isinstance(given, (str, Path)):
        return read_run(given)
    raise InvalidArgument(f"reference: expected 'exact', a mode, a Run or a file, got {type(given).__name__}")


def _agreements(
    found: Mapping[str, Mode], reference: Run | str | None, exact: Mapping[str, Mode]
) -> dict[str, Agreement]:
    """How the modes agree with the reference; a recall's "exact" one was run for it."""
    out = {}
    for name, m in found.items():
        other = reference
        if reference == "exact":
            run = exact[name].run if name in exact else None
            other = None if run is None else replace(run, name=f"{name}-exact")
        elif isinstance(reference, str):
            other = found[reference].run if reference in found and reference != name else None
        if m.run is not None and isinstance(other, Run):
            out[name] = agreement(m.run, other)
    return out
