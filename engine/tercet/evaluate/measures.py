"""Measures of one ranking: those of trec_eval through ir-measures, and ours beside them."""

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tercet.errors import InvalidArgument, MissingDependency
from tercet.evaluate.lines import offsets
from tercet.evaluate.qrels import Qrels
from tercet.evaluate.run import Run

DEFAULT = (
    "nDCG@10", "R@1", "R@2", "R@5", "R@10", "R@20", "R@50", "R@100", "RR@10", "AP", "hit@1", "hit@10",
    "all_recall@2", "all_recall@5", "all_recall@10",
)  # fmt: skip
BY_RELEVANT = ("nDCG", "R", "RR", "AP", "P", "Rprec", "Success")  # what follows the last judged document can't matter
OWN = re.compile(r"(hit|all_recall|RR)@(\d+)")


def measure_values(run: Run, qrels: Qrels, at: np.ndarray, measures: Sequence[str]) -> np.ndarray:
    """Values of measures for some judged queries of a run.

    Names are those of ir-measures, computed by pytrec_eval (so by trec_eval's code): nDCG@k with the grades as gains,
    R@k, RR, AP, AP@k, P@k, Rprec, Bpref, …. Ours are
    - `RR@k`: 1 / rank of the first relevant document, 0 beyond rank k;
    - `hit@k`: 1 if one of the first k documents is relevant;
    - `all_recall@k`: 1 if all relevant documents are among the first k.

    Documents count in the order of the run, ties or not. A grade of at least 1 is relevant; those below 0 count as 0.

    Args:
        at: (Q,) int64 position in the run of each query of the qrels, -1 where the run has none: its values are 0.

    Returns:
        (Q, M) float64.

    Raises:
        InvalidArgument: an unknown measure.
        MissingDependency: ir-measures or pytrec-eval-terrier isn't installed.
    """
    out = np.zeros((len(qrels), len(measures)))
    ours = {m: OWN.fullmatch(m) for m in measures}
    theirs = [m for m in measures if not ours[m]]
    if theirs:
        columns = [list(measures).index(m) for m in theirs]
        out[:, columns] = _by_trec_eval(run, qrels, at, theirs)
    matched = {m: found for m, found in ours.items() if found}
    if matched:
        query, rank, grade = judged_entries(run, qrels, at)
        for m, found in matched.items():
            out[:, list(measures).index(m)] = _own(found[1], int(found[2]), qrels, query[grade >= 1], rank[grade >= 1])
    return out


def judged_entries(run: Run, qrels: Qrels, at: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Query (position in the qrels), rank and grade of each entry of the run that is judged, in run order."""
    found = pc.index_in(run.documents, value_set=qrels.documents)
    code_of = np.append(np.asarray(pc.fill_null(found, -1)), -1)  # the last for places without an id
    place = np.full(len(run), -1, np.int64)
    place[at[at >= 0]] = np.flatnonzero(at >= 0)
    query, code = place[run.query], code_of[run.document]
    span = len(qrels.documents) + 1
    keys = qrels.query * span + qrels.document
    order = np.argsort(keys, kind="stable")
    wanted = np.where((query >= 0) & (code >= 0), query * span + code, -1)
    near = np.searchsorted(keys[order], wanted).clip(max=max(len(keys) - 1, 0))
    judged = np.flatnonzero(keys[order][near] == wanted)
    return query[judged], run.rank[judged], qrels.grade[order[near[judged]]]


def _own(kind: str, k: int, qrels: Qrels, query: np.ndarray, rank: np.ndarray) -> np.ndarray:
    """(Q,) values, given the queries and the ranks of all relevant documents that were found."""
    if k < 1:
        raise InvalidArgument(f"measure: expected a cut of at least 1, got {kind}@{k}")
    within = rank <= k
    if kind == "RR":
        first = np.full(len(qrels), np.inf)
        np.minimum.at(first, query[within], rank[within].astype(np.float64))
        return 1.0 / first
    count = np.bincount(query[within], minlength=len(qrels))
    return (count > 0 if kind == "hit" else (count >= qrels.relevant) & (qrels.relevant > 0)).astype(np.float64)


def _by_trec_eval(run: Run, qrels: Qrels, at: np.ndarray, measures: list[str]) -> np.ndarray:
    try:
        import ir_measures
        from ir_measures.providers import registry
    except ImportError as error:
        raise MissingDependency("measures need ir-measures and pytrec-eval-terrier: install 'tercet[eval]'") from error
    provider: Any = registry["pytrec_eval"]  # pinned: providers break ties by rules of their own
    if not provider.is_available():
        raise MissingDependency("measures need pytrec-eval-terrier: install 'tercet[eval]'")
    parsed = {}
    for name in measures:
        try:
            made = ir_measures.parse_measure(name)
            known = provider.supports(made)
        except (NameError, ValueError, SyntaxError, AssertionError) as error:
            raise InvalidArgument(f"measure: {name!r} is unknown; the usual ones are {', '.join(DEFAULT)}") from error
        if not known:
            raise InvalidArgument(f"measure: pytrec_eval doesn't compute {name!r}")
        parsed[made] = measures.index(name)
    out = np.zeros((len(qrels), len(measures)))
    evaluator = provider.evaluator(list(parsed), _judgements(qrels))
    if all(m.NAME in BY_RELEVANT for m in parsed):
        run = _until_last_judged(run, qrels, at)
    # the public `iter_calc` hashes every (query, measure) by its text, which takes longer than the measures themselves
    column = {id(m): place for m, place in parsed.items()}
    for query, measure, value in evaluator._iter_calc(_rankings(run, qrels, at)):
        out[int(query), column[id(measure)]] = value
    return out


def _until_last_judged(run: Run, qrels: Qrels, at: np.ndarray) -> Run:
    """The run without what follows the last judged document of each query, most of it as a rule."""
    query, rank, _ = judged_entries(run, qrels, at)
    last = np.zeros(len(run), np.int64)
    np.maximum.at(last, at[query], rank)
    kept = run.rank <= last[run.query]
    return replace(run, indptr=offsets(last), document=run.document[kept], score=run.score[kept])


# trec_eval orders by single-precision score, then by document id, and its strings end at a NUL. Queries, documents and
# scores go in under names of ours: positions, and scores that fall by 1, so that the order of the run can't change.
def _judgements(qrels: Qrels) -> dict[str, dict[str, int]]:
    documents = [str(code) for code in qrels.document.tolist()]
    grades, bounds = np.maximum(qrels.grade, 0).tolist(), qrels.indptr.tolist()
    return {
        str(q): dict(zip(documents[i:j], grades[i:j], strict=True)) for q, (i, j) in enumerate(pairwise(bounds))
    }  # fmt: skip


def _rankings(run: Run, qrels: Qrels, at: np.ndarray) -> dict[str, dict[str, int]]:
    code = positions(run.documents, qrels.documents).tolist()
    names = [str(c) if c >= 0 else f"x{i}" for i, c in enumerate(code)]  # x: judged for no query
    ranks, bounds = run.rank.tolist(), run.indptr.tolist()
    documents = [names[i] if i >= 0 else f"-{rank}" for i, rank in zip(run.document.tolist(), ranks, strict=True)]
    most = int(np.diff(run.indptr).max(initial=0))
    scores = (most - run.rank).tolist()
    return {
        str(q): dict(zip(documents[bounds[b] : bounds[b + 1]], scores[bounds[b] : bounds[b + 1]], strict=True))
        for q, b in enumerate(at.tolist()) if b >= 0
    }  # fmt: skip


def positions(ids: pa.Array, among: pa.Array) -> np.ndarray:
    """(len(ids),) int64 where each id is among others, -1 where it isn't."""
    return np.asarray(pc.fill_null(pc.index_in(ids, value_set=among), -1)).astype(np.int64)
