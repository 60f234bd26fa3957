"""Evaluation: the measures of one run, a value a query, with what became of every query."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tercet.errors import InvalidArgument, InvalidData
from tercet.evaluate.lines import some
from tercet.evaluate.measures import DEFAULT, judged_entries, measure_values, positions
from tercet.evaluate.qrels import Qrels
from tercet.evaluate.queries import Queries
from tercet.evaluate.run import Outcome, Run

Policy = Literal["zero", "skip", "error"]
RETURNED, TOKENS, PER_1K = "returned", "context_tokens", "recall_per_1k_tokens"
TIE_CUTS = (1, 5, 10, 100)


@dataclass(frozen=True, eq=False)
class Context:
    """The text that a query's answer would put before a language model."""

    tokens: np.ndarray  # (B,) int64 by position in the run
    documents: np.ndarray  # (B,) int64 how many of the first documents of the ranking the text is made of


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The measures of one run over Q judged queries. Made by `score_run`."""

    name: str
    queries: pa.LargeStringArray  # (Q,) judged queries, in the order of the queries (or the qrels)
    measures: tuple[str, ...]  # (M,)
    values: np.ndarray  # (Q, M) float64, NaN: left out of the means
    state: np.ndarray  # (Q,) int8 `Outcome`
    weights: np.ndarray  # (Q,) float64
    fields: pa.Table | None = None  # (Q,) rows
    errors: dict[int, str] = field(default_factory=dict)  # by position here, of failed queries
    unjudged: tuple[str, ...] = ()  # of the run, without a relevant document in the qrels: left out
    not_asked: tuple[str, ...] = ()  # of the qrels, not among the queries: left out
    ties: dict[int, int] = field(default_factory=dict)  # cut to the queries whose documents there are tied
    notes: tuple[str, ...] = ()
    policy: Policy = "zero"

    @property
    def scored(self) -> np.ndarray:
        """(Q,) bool: queries that count in the means."""
        return ~np.isnan(self.values[:, 0]) if len(self.measures) else np.zeros(len(self), bool)

    @property
    def n(self) -> int:
        """How many queries count in the means."""
        return int(self.scored.sum())

    @property
    def means(self) -> dict[str, float]:
        """The weighted mean of each measure over the queries that count; NaN where none does."""
        out = {}
        for name, column in zip(self.measures, self.values.T, strict=True):
            kept = ~np.isnan(column)
            total = self.weights[kept].sum()
            out[name] = float((column[kept] * self.weights[kept]).sum() / total) if total > 0 else float("nan")
        return out

    def __getitem__(self, measure: str) -> np.ndarray:
        """(Q,) values of one measure."""
        if measure not in self.measures:
            raise InvalidArgument(f"measure: {self.name!r} has no {measure!r}, only {', '.join(self.measures)}")
        return self.values[:, self.measures.index(measure)]

    @property
    def empty(self) -> list[str]:
        """Queries that were answered with nothing."""
        return self._in_state(Outcome.empty)

    @property
    def failed(self) -> list[str]:
        """Queries that weren't answered."""
        return self._in_state(Outcome.failed)

    @property
    def missing(self) -> list[str]:
        """Judged queries that the run says nothing about."""
        return self._in_state(Outcome.missing)

    @property
    def counts(self) -> dict[str, int]:
        """Judged, scored, empty, failed, missing, unjudged and not asked queries."""
        states = {o.name: int((self.state == o).sum()) for o in (Outcome.empty, Outcome.failed, Outcome.missing)}
        return {"judged": len(self), "scored": self.n, **states, "unjudged": len(self.unjudged),
                "not_asked": len(self.not_asked)}  # fmt: skip

    def slices(self, by: str) -> dict[str, "Evaluation"]:
        """The evaluation of the queries that have each value of a field, ascending; "(none)" where it is null.

        Raises:
            InvalidArgument: there is no such field.
        """
        if self.fields is None or by not in self.fields.column_names:
            have = "no fields" if self.fields is None else f"only {', '.join(self.fields.column_names)}"
            raise InvalidArgument(f"field: the queries have no {by!r}, {have}")
        values = self.fields.column(by).to_pylist()
        keys = np.array(["(none)" if v is None else str(v) for v in values], object)
        distinct = {str(v): v for v in values if v is not None}
        numbers = all(isinstance(v, (int, float)) for v in distinct.values())
        ordered = sorted(distinct, key=(lambda s: distinct[s]) if numbers else None)
        return {k: self.take(np.flatnonzero(keys == k)) for k in [*ordered, *(["(none)"] * (None in values))]}

    def take(self, rows: np.ndarray) -> "Evaluation":
        """The same over some of the queries; counts of what was left out, and of ties, are those of the whole."""
        place = {int(r): i for i, r in enumerate(rows)}
        return replace(
            self, queries=self.queries.take(pa.array(rows)), values=self.values[rows], state=self.state[rows],
            weights=self.weights[rows], fields=None if self.fields is None else self.fields.take(pa.array(rows)),
            errors={place[i]: e for i, e in self.errors.items() if i in place},
        )  # fmt: skip

    def to_arrow(self) -> pa.Table:
        """A row a query: query, status, error, weight, and each measure (null where it doesn't count)."""
        table: dict[str, Any] = {
            "query": self.queries, "status": [Outcome(int(s)).name for s in self.state],
            "error": pa.array([self.errors.get(i) for i in range(len(self))], pa.large_string()),
            "weight": self.weights,
        }  # fmt: skip
        for name, column in zip(self.measures, self.values.T, strict=True):
            table[name] = pa.array(column, mask=np.isnan(column))
        return pa.table(table)

    def summary(self) -> dict[str, Any]:
        """What fits into JSON: means, counts, failed and missing queries, ties, notes."""
        return {
            "name": self.name, "n": self.n,
            "means": {k: None if np.isnan(v) else v for k, v in self.means.items()},
            "counts": self.counts, "policy": self.policy, "failed": {
                self.queries[i].as_py(): e for i, e in sorted(self.errors.items())
            }, "missing": self.missing, "unjudged": list(self.unjudged), "not_asked": list(self.not_asked),
            "tied_at_cut": {str(k): v for k, v in self.ties.items()}, "notes": list(self.notes),
        }  # fmt: skip

    def _in_state(self, outcome: Outcome) -> list[str]:
        return self.queries.filter(pa.array(self.state == outcome)).to_pylist()

    def __len__(self) -> int:
        return len(self.queries)

    def __repr__(self) -> str:
        return f"Evaluation({self.name!r}, {self.n} of {len(self)} queries, {len(self.measures)} measures)"

    def __str__(self) -> str:
        lines = [f"{self.name}: {self.n} of {len(self)} judged queries scored"]
        lines += [f"  {name:<22}{value:>10.4f}" for name, value in self.means.items()]
        lines += [f"  {text}" for text in self.remarks()]
        return "\n".join(lines)

    def remarks(self) -> list[str]:
        """What a reader of the means must know: queries that failed, were missing or left out, ties, notes."""
        counted = {"zero": "count as 0", "skip": "left out", "error": ""}[self.policy]
        out = [
            f"{len(ids)} queries {what}: {some(ids)}" for what, ids in (
                (f"failed ({counted})", self.failed), (f"missing from the run ({counted})", self.missing),
                ("empty (count as 0)", self.empty), ("without a relevant document in the qrels (left out)",
                                                     self.unjudged),
                ("judged but not asked (left out)", self.not_asked),
            ) if ids
        ]  # fmt: skip
        tied = ", ".join(f"{n} at {k}" for k, n in self.ties.items() if n)
        return out + ([f"queries tied at a cut: {tied}"] if tied else []) + list(self.notes)


def score_run(
    run: Run,
    qrels: Qrels,
    *,
    measures: Sequence[str] = DEFAULT,
    queries: Queries | None = None,
    weight: str | None = None,
    missing: Policy = "zero",
    context: Context | None = None,
) -> Evaluation:
    """Judge a run.

    Queries of the qrels without a relevant document say nothing about a system: they are left out and counted.

    Args:
        measures: names, see `measure_values`.
        queries: restricts the judged queries to these, and brings their fields for slices.
        weight: a field of `queries` that says how much each counts in means.
        missing: what judged queries count as that the run doesn't have, or that failed: 0 ("zero"), nothing ("skip"),
            or an "error". They are listed either way.
        context: tokens of the text of each query; adds `context_tokens` and `recall_per_1k_tokens`: the share of the
            relevant documents that the text is made of, times 1,000 / tokens (0 where the text is empty).

    Returns:
        the measures, and `returned`: how many documents came back.

    Raises:
        InvalidArgument: an unknown measure or policy.
        InvalidData: run, qrels and queries have no query in common; or queries are missing or failed under "error".
        MissingDependency: ir-measures isn't installed.
    """
    if missing not in ("zero", "skip", "error"):
        raise InvalidArgument(f"missing: expected 'zero', 'skip' or 'error', got {missing!r}")
    if weight is not None and queries is None:
        raise InvalidArgument(f"weight: {weight!r} is a field of queries, and none were given")
    judged, rows, not_asked = _judged(qrels, queries)
    at = positions(judged.queries, run.queries)
    _check_common(run, qrels, at)
    state = np.where(at < 0, int(Outcome.missing), run.state[at]).astype(np.int8)
    lost = (state == Outcome.missing) | (state == Outcome.failed)
    if missing == "error" and lost.any():
        raise InvalidData(f"run {run.name!r}: {int(lost.sum())} judged queries are missing or failed: "
                          f"{some(judged.queries.filter(pa.array(lost)).to_pylist())}")  # fmt: skip
    names, values = _values(run, judged, at, measures, context)
    values[lost] = np.nan if missing == "skip" else 0.0
    back = positions(run.queries, judged.queries)
    known = positions(run.queries, qrels.queries.filter(pa.array(qrels.relevant > 0)))
    return Evaluation(
        run.name, judged.queries, names, values, state,
        np.ones(len(judged)) if weight is None or queries is None else queries.weights(weight)[rows],
        None if queries is None else queries.fields.take(pa.array(rows)),
        {int(back[i]): e for i, e in run.errors.items() if back[i] >= 0},
        tuple(run.queries.filter(pa.array(known < 0)).to_pylist()), not_asked,
        {k: int(run.tied_at(k)[at[at >= 0]].sum()) for k in TIE_CUTS}, _notes(run, judged, at), missing,
    )  # fmt: skip


def _judged(qrels: Qrels, queries: Queries | None) -> tuple[Qrels, np.ndarray, tuple[str, ...]]:
    """The qrels of the queries to score, the row of each in `queries`, and queries that are judged but not asked."""
    good = qrels.relevant > 0
    if queries is None:
        rows, kept = np.zeros(0, np.int64), np.flatnonzero(good)
        not_asked: tuple[str, ...] = ()
    else:
        at = positions(queries.ids, qrels.queries)
        rows = np.flatnonzero((at >= 0) & good[at])
        kept = at[rows]
        rest = np.setdiff1d(np.flatnonzero(good), kept)
        not_asked = tuple(qrels.queries.take(pa.array(rest)).to_pylist())
        if not len(kept):
            raise InvalidData(f"queries and qrels have no query in common: {some(queries.ids.to_pylist())} against "
                              f"{some(qrels.queries.to_pylist())}")  # fmt: skip
    if not len(kept):
        raise InvalidData(f"the qrels have no relevant document: none of {len(qrels.grade)} has a grade of at least 1")
    counts = np.diff(qrels.indptr)[kept]
    indptr = np.concatenate([[0], np.cumsum(counts)])
    inside = np.arange(indptr[-1]) + np.repeat(qrels.indptr[kept] - indptr[:-1], counts)
    part = Qrels(qrels.queries.take(pa.array(kept)), indptr, qrels.document[inside], qrels.documents,
                 qrels.grade[inside])  # fmt: skip
    return part, rows, not_asked


def _check_common(run: Run, qrels: Qrels, at: np.ndarray) -> None:
    if not (at >= 0).any():
        raise InvalidData(f"run {run.name!r} and qrels have no query in common: {some(run.queries.to_pylist())} "
                          f"against {some(qrels.queries.to_pylist())}")  # fmt: skip


def _values(
    run: Run, judged: Qrels, at: np.ndarray, measures: Sequence[str], context: Context | None
) -> tuple[tuple[str, ...], np.ndarray]:
    columns = [measure_values(run, judged, at, list(measures))]
    names = [*measures, RETURNED]
    columns.append(np.where(at >= 0, np.diff(run.indptr)[at], 0)[:, None].astype(np.float64))
    if context is not None:
        tokens = np.where(at >= 0, context.tokens[at], 0)
        depth = np.where(at >= 0, context.documents[at], 0)
        query, rank, grade = judged_entries(run, judged, at)
        held = (grade >= 1) & (rank <= depth[query])
        share = np.bincount(query[held], minlength=len(judged)) / judged.relevant
        per = np.divide(1000.0 * share, tokens, out=np.zeros(len(share)), where=tokens > 0)
        columns.append(np.stack([tokens.astype(np.float64), per], 1))
        names += [TOKENS, PER_1K]
    return tuple(names), np.concatenate(columns, axis=1)


def _notes(run: Run, judged: Qrels, at: np.ndarray) -> tuple[str, ...]:
    notes = []
    if len(run.documents) and not pc.any(pc.is_in(run.documents, value_set=judged.documents)).as_py():
        shown = " against ".join(some(ids.slice(0, 2).to_pylist()) for ids in (run.documents, judged.documents))
        notes.append(f"no document of the run is judged for any query; are their ids written alike? {shown}")
    alike = shared_share(run, 10)
    if len(run) > 1 and alike > 0.5:
        notes.append(f"near-identical rankings: two queries share {alike:.0%} of their first 10 documents on average")
    return tuple(notes)


def shared_share(run: Run, k: int) -> float:
    """The share of their first k documents that two different queries have in common, over all pairs that found any.

    With c_d the queries that have document d among the first k, and n queries with a result, it is the sum of
    c_d (c_d - 1) over n (n - 1), divided by the mean number of documents they have there. NaN below two queries.
    """
    inside = (run.rank <= k) & (run.document >= 0)
    count = np.bincount(run.document[inside], minlength=1).astype(np.float64)
    n = int((run.state == Outcome.ok).sum())
    return float((count * (count - 1)).sum() / (n - 1) / count.sum()) if n > 1 and count.sum() else float("nan")
