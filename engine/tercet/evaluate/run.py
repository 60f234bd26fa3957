"""Runs: what one system returned for each query, best first, as flat arrays."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from tercet.errors import InvalidData
from tercet.evaluate.lines import coded, id_of, offsets, some
from tercet.ids import text_column

Repeats = Literal["error", "first"]
SUBNORMAL = 0x007FFFFF  # the bits of the largest subnormal float32


class Outcome(IntEnum):
    """What became of a query."""

    ok = 0
    empty = 1  # it was answered, and nothing was found
    failed = 2  # it wasn't answered
    missing = 3  # it is judged, but the run says nothing about it


@dataclass(frozen=True, eq=False)
class Run:
    """The ranked documents of B queries.

    The order is the ranking; scores never rise within a query, and are equal where the system told no difference.
    Made by `Run.of_arrays`, `Run.of_dict`, `Run.of_lists`, or the readers of `tercet.evaluate.files`.
    """

    name: str
    queries: pa.LargeStringArray  # (B,) distinct
    indptr: np.ndarray  # (B + 1,) int64
    document: np.ndarray  # (T,) int32 rows of documents, -1: something without an id that holds a place
    documents: pa.LargeStringArray  # (D,) distinct
    score: np.ndarray  # (T,) float64, higher is better
    state: np.ndarray  # (B,) int8 `Outcome`
    errors: dict[int, str] = field(default_factory=dict)  # by position, of failed queries
    scores_are: Literal["scores", "negated distances", "ranks"] = "scores"
    cut_ties: np.ndarray | None = None  # (B,) bool: what was cut off has the score of the last that stayed

    @staticmethod
    def of_arrays(
        name: str,
        queries: Any,
        indptr: np.ndarray,
        document: np.ndarray,
        documents: Any,
        score: np.ndarray | None,
        *,
        errors: Mapping[int, str] | None = None,
        distances: bool = False,
    ) -> "Run":
        """A run of flat arrays that are in rank order already.

        Args:
            name: of the system.
            queries: (B,) ids.
            indptr: (B + 1,) offsets.
            document: (T,) rows of `documents` (D,) ids, -1 for a place without one.
            score: (T,), never rising within a query; None: ranks only.
            errors: by position, the queries that failed.
            distances: scores are distances, lower is better: they are negated.

        Raises:
            InvalidData: a repeated query, a document twice for a query, or scores that rise or aren't numbers.
        """
        ids = queries if isinstance(queries, pa.Array) else text_column(list(queries), f"run {name!r}: queries")
        indptr = np.asarray(indptr, np.int64)
        counts = np.diff(indptr)
        made = _rank_scores(indptr) if score is None else np.asarray(score, np.float64) * (-1.0 if distances else 1.0)
        state = np.where(counts > 0, int(Outcome.ok), int(Outcome.empty)).astype(np.int8)
        failed = dict(errors or {})
        state[list(failed)] = int(Outcome.failed)
        out = Run(
            name, ids, indptr, np.asarray(document, np.int32),
            documents if isinstance(documents, pa.Array) else text_column(list(documents), f"run {name!r}: documents"),
            made, state, failed,
            "ranks" if score is None else "negated distances" if distances else "scores",
        )  # fmt: skip
        _check(out)
        return out

    @staticmethod
    def of_dict(name: str, found: Mapping[Any, Mapping[Any, float]], *, distances: bool = False) -> "Run":
        """A run of `{query: {document: score}}`.

        Documents are ordered by score, ties by document id descending, as trec_eval orders them, whatever order they
        come in.

        Args:
            distances: lower is better.

        Raises:
            InvalidData: a blank id, or a score that isn't a number.
        """
        queries: list[str] = []
        documents: list[str] = []
        scores: list[float] = []
        counts = []
        for query, scored in found.items():
            place = f"run {name!r}[{query!r}]"
            queries.append(id_of(query, place))
            if not isinstance(scored, Mapping):
                raise InvalidData(f"{place}: expected a mapping of documents to scores, got {scored!r:.100}")
            documents += [id_of(d, place) for d in scored]
            scores += [_number(s, place, d) for d, s in scored.items()]
            counts.append(len(scored))
        at = np.repeat(np.arange(len(queries)), np.array(counts, np.int64))
        return of_scored(name, queries, at, documents, np.array(scores, np.float64), distances=distances)

    @staticmethod
    def of_lists(
        name: str,
        found: Mapping[Any, Sequence[Any]],
        *,
        errors: Mapping[Any, str] | None = None,
        repeats: Repeats = "error",
    ) -> "Run":
        """A run of ranked lists of document ids without scores.

        Args:
            found: query id to documents, best first; None holds a place for something that has no id.
            errors: query id to what went wrong, of queries that failed.
            repeats: a document that comes twice for a query is an error, or counts at its "first" place only; what
                follows it moves up.

        Raises:
            InvalidData: a blank id, or a repeated document.
        """
        ids: list[str] = []
        code_of: dict[str, int] = {}
        codes: list[int] = []
        counts: list[int] = []
        failures = {}
        for query, ranked in found.items():
            place = f"run {name!r}[{query!r}]"
            if errors and query in errors:
                failures[len(ids)] = errors[query]
            ids.append(id_of(query, place))
            row: dict[int, None] = {}
            before = len(codes)
            for rank, one in enumerate(ranked, 1):
                code = -1 if one is None else code_of.setdefault(id_of(one, place), len(code_of))
                if code >= 0 and code in row:
                    if repeats == "error":
                        raise InvalidData(f"{place}: the document {one!r} is there twice, again at rank {rank}")
                    continue
                row[code] = None
                codes.append(code)
            counts.append(len(codes) - before)
        return Run.of_arrays(name, ids, offsets(counts), np.array(codes, np.int32), list(code_of), None,
                             errors=failures)  # fmt: skip

    @cached_property
    def query(self) -> np.ndarray:
        """(T,) int64 the query of each entry, by position."""
        return np.repeat(np.arange(len(self)), np.diff(self.indptr))

    @cached_property
    def rank(self) -> np.ndarray:
        """(T,) int64 ranks from 1."""
        return np.arange(1, len(self.document) + 1) - np.repeat(self.indptr[:-1], np.diff(self.indptr))

    @property
    def strict_scores(self) -> np.ndarray:
        """(T,) float32 scores that fall strictly in rank order, so that no tool orders ties by a rule of its own.

        Each is the score as it is, or the largest number below the one before where that isn't smaller; trec_eval
        reads single precision, so the numbers differ there as well.
        """
        return strictly_falling(self.score.astype(np.float32), self.query)

    def cut(self, k: int) -> "Run":
        """The first k documents of each query; `cut_ties` says whether the next one has the score of the last."""
        counts = np.minimum(np.diff(self.indptr), k)
        return replace(self, indptr=offsets(counts), document=self.document[self.rank <= k],
                       score=self.score[self.rank <= k], cut_ties=self.tied_at(k))  # fmt: skip

    def tied_at(self, k: int) -> np.ndarray:
        """(B,) bool: the documents at ranks k and k + 1 have one score, so that which of them is within k is a rule.

        A run that was cut at k itself remembers; one of ranks only has no ties.
        """
        counts = np.diff(self.indptr)
        tied = np.zeros(len(self), bool)
        longer = np.flatnonzero(counts > k)
        at = self.indptr[longer] + k
        tied[longer] = self.score[at] == self.score[at - 1]
        if self.cut_ties is not None:
            tied |= self.cut_ties & (counts == k)
        return tied

    def to_dict(self) -> dict[str, dict[str, float]]:
        """`{query: {document: score}}` with strictly falling scores; places without an id are left out."""
        kept = self.document >= 0
        names = self.documents.take(pa.array(self.document, mask=~kept)).to_pylist()
        scores, bounds = self.strict_scores.tolist(), self.indptr.tolist()
        parts = zip(self.queries.to_pylist(), bounds[:-1], bounds[1:], strict=True)
        return {q: {d: s for d, s in zip(names[i:j], scores[i:j], strict=True) if d is not None} for q, i, j in parts}

    def to_arrow(self) -> pa.Table:
        """A row an entry: query, rank (from 1), document id (null for a place without one), score."""
        return pa.table({
            "query": self.queries.take(pa.array(self.query)), "rank": self.rank.astype(np.int32),
            "id": self.documents.take(pa.array(self.document, mask=self.document < 0)), "score": self.score,
        })  # fmt: skip

    def __len__(self) -> int:
        return len(self.queries)

    def __repr__(self) -> str:
        empty, failed = (int((self.state == o).sum()) for o in (Outcome.empty, Outcome.failed))
        return f"Run({self.name!r}, {len(self)} queries, {len(self.document)} entries, {empty} empty, {failed} failed)"


def of_scored(
    name: str,
    queries: list[str],
    query: np.ndarray,
    documents: list[str],
    score: np.ndarray,
    *,
    distances: bool = False,
) -> Run:
    """A run of entries in any order: (T,) positions of their queries, document ids, scores; ties by id descending."""
    code, distinct = coded(documents)
    place = np.empty(len(distinct), np.int64)  # of each id among all, by code points as trec_eval's strcmp has it
    place[np.argsort(np.array(distinct.to_pylist(), object), kind="stable")] = np.arange(len(distinct))
    at = np.lexsort((-place[code], score if distances else -score, query))
    counts = np.bincount(query, minlength=len(queries))
    return Run.of_arrays(name, queries, offsets(counts), code[at], distinct, score[at], distances=distances)


def strictly_falling(score: np.ndarray, query: np.ndarray) -> np.ndarray:
    """(T,) float32: the largest numbers that fall strictly within each query and never exceed `score`.

    Subnormal numbers count as 0 and aren't used: processes that flush them to 0 would see ties.
    """
    bits = score.view(np.int32).astype(np.int64)
    size = np.maximum((bits & 0x7FFFFFFF) - SUBNORMAL, 0)
    key = np.where(bits < 0, -size, size)  # ascends with the number; neighbours differ by 1
    place = np.arange(len(key))
    # the smallest of what came before, less one a step; a query's keys lie below those of all earlier ones
    apart = query.astype(np.int64) << 34
    key = np.minimum.accumulate(key + place - apart) - place + apart if len(key) else key
    size = np.where(key == 0, 0, np.abs(key) + SUBNORMAL)
    return (size | np.where(key < 0, -0x80000000, 0)).astype(np.int32).view(np.float32)


def _rank_scores(indptr: np.ndarray) -> np.ndarray:
    place = np.arange(1, indptr[-1] + 1) - np.repeat(indptr[:-1], np.diff(indptr))
    return -place.astype(np.float64)


def _number(value: Any, place: str, document: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = np.nan
    if not np.isfinite(number):
        raise InvalidData(f"{place}: expected a number as the score of {document!r}, got {value!r}")
    return number


def _check(run: Run) -> None:
    names = run.queries.to_pylist()
    if len(set(names)) < len(names):
        twice = [q for i, q in enumerate(names) if q in set(names[:i])] if len(names) < 1000 else ["…"]
        raise InvalidData(f"run {run.name!r}: repeated query ids: {some(twice)}")
    if len(run.indptr) != len(names) + 1 or run.indptr[-1] != len(run.document) or len(run.score) != len(run.document):
        raise InvalidData(f"run {run.name!r}: {len(names)} queries, {len(run.document)} documents and "
                          f"{len(run.score)} scores don't fit the offsets")  # fmt: skip
    if not np.isfinite(run.score).all():
        at = int(run.query[np.flatnonzero(~np.isfinite(run.score))[0]])
        raise InvalidData(f"run {run.name!r}: the query {names[at]!r} has a score that isn't a number")
    inside = run.rank[1:] > 1
    rising = np.flatnonzero(inside & (np.diff(run.score) > 0))
    if len(rising):
        at = int(rising[0]) + 1
        raise InvalidData(
            f"run {run.name!r}: the query {names[int(run.query[at])]!r} has a higher score at rank {int(run.rank[at])} "
            f"than before it; are they distances?"
        )
    known = run.document >= 0
    key = run.query[known] * (len(run.documents) + 1) + run.document[known]
    ordered = np.sort(key)
    double = np.flatnonzero(ordered[1:] == ordered[:-1])
    if len(double):
        q, d = divmod(int(ordered[double[0]]), len(run.documents) + 1)
        raise InvalidData(f"run {run.name!r}: the query {names[q]!r} has the document "
                          f"{run.documents[d].as_py()!r} twice")  # fmt: skip
