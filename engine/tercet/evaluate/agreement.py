"""Agreement of two runs: how far one ranking is the other, whatever is relevant."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from tercet.errors import InvalidArgument, InvalidData
from tercet.evaluate.lines import some
from tercet.evaluate.measures import positions
from tercet.evaluate.run import Outcome, Run

PAIRS = 1 << 22  # pairs of ranks compared at a time


@dataclass(frozen=True, eq=False)
class Agreement:
    """How a run agrees with a reference, a value for each of the Q queries that both answered. Made by `agreement`."""

    run: str
    reference: str
    k: int
    p: float
    queries: pa.LargeStringArray  # (Q,)
    overlap: np.ndarray  # (Q,) float64 share of the first k that both have
    exact: np.ndarray  # (Q,) bool: the first k are the same in the same order
    rbo: np.ndarray  # (Q,) float64
    tau: np.ndarray  # (Q,) float64, NaN below two documents in common
    score_difference: np.ndarray  # (Q,) float64 the largest of documents in common; NaN without any, or without scores
    failed: tuple[str, ...]  # queries that failed in either run: left out
    only_run: tuple[str, ...]  # queries that the other one doesn't have: left out
    only_reference: tuple[str, ...]

    @property
    def means(self) -> dict[str, float]:
        """Means over the queries, and the largest score difference of all."""
        known = self.score_difference[~np.isnan(self.score_difference)]
        tau = self.tau[~np.isnan(self.tau)]
        return {
            f"overlap@{self.k}": _mean(self.overlap), "exact_order": _mean(self.exact), "rbo": _mean(self.rbo),
            "tau": _mean(tau), "max_score_difference": float(known.max()) if len(known) else float("nan"),
        }  # fmt: skip

    def to_arrow(self) -> pa.Table:
        """A row a query."""
        return pa.table({
            "query": self.queries, "overlap": self.overlap, "exact": self.exact, "rbo": self.rbo,
            "tau": pa.array(self.tau, mask=np.isnan(self.tau)),
            "score_difference": pa.array(self.score_difference, mask=np.isnan(self.score_difference)),
        })  # fmt: skip

    def summary(self) -> dict[str, Any]:
        """What fits into JSON."""
        means = {k: None if np.isnan(v) else v for k, v in self.means.items()}
        return {"run": self.run, "reference": self.reference, "k": self.k, "p": self.p, "n": len(self.queries),
                **means, "failed": list(self.failed), "only_run": list(self.only_run),
                "only_reference": list(self.only_reference)}  # fmt: skip

    def __str__(self) -> str:
        values = ", ".join(f"{name} {value:.6g}" for name, value in self.means.items())
        text = f"{self.run} against {self.reference}, {len(self.queries)} queries: {values}"
        for what, ids in (("failed", self.failed), ("only in the run", self.only_run),
                          ("only in the reference", self.only_reference)):  # fmt: skip
            text += f"\n  {len(ids)} queries {what} (left out): {some(ids)}" if ids else ""
        return text


def agreement(run: Run, reference: Run, k: int = 10, *, p: float = 0.9) -> Agreement:
    """Compare a run with a reference, query by query.

    - overlap: documents that both have among the first k, over the larger number that either has there; 1 if both have
      none;
    - exact order: the first k are the same documents in the same order;
    - RBO: extrapolated rank-biased overlap of the whole rankings (Webber, Moffat and Zobel 2010, equation 32); 1 if
      both are empty, 0 if one is;
    - Kendall's tau of the documents that both have (no ties in ranks);
    - the largest difference of the scores of one document.

    Places without a document id never agree.

    Args:
        k: the cut of overlap and exact order.
        p: persistence of RBO, in (0, 1).

    Raises:
        InvalidArgument: k below 1, or p outside (0, 1).
        InvalidData: no query in common.
    """
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        raise InvalidArgument(f"k: expected an integer of at least 1, got {k!r}")
    if not 0 < p < 1:
        raise InvalidArgument(f"p: expected a number in (0, 1), got {p!r}")
    at = positions(run.queries, reference.queries)
    if not (at >= 0).any():
        raise InvalidData(f"runs {run.name!r} and {reference.name!r} have no query in common: "
                          f"{some(run.queries.to_pylist())} against {some(reference.queries.to_pylist())}")  # fmt: skip
    broken = (at >= 0) & ((run.state == Outcome.failed) | (reference.state[at] == Outcome.failed))
    mine = np.flatnonzero((at >= 0) & ~broken)
    theirs = at[mine]
    rows = _common(run, reference, mine, theirs)
    lengths = np.diff(run.indptr)[mine], np.diff(reference.indptr)[theirs]
    overlap, exact = _first(rows, lengths, k)
    return Agreement(
        run.name, reference.name, k, p, run.queries.take(pa.array(mine)), overlap, exact, _rbo(rows, lengths, p),
        _tau(rows, len(mine)), _score_difference(run, reference, rows, len(mine)),
        tuple(run.queries.filter(pa.array(broken)).to_pylist()),
        tuple(run.queries.filter(pa.array(at < 0)).to_pylist()),
        tuple(reference.queries.filter(pa.array(positions(reference.queries, run.queries) < 0)).to_pylist()),
    )  # fmt: skip


Rows = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]  # query, both ranks, both entries


def _common(run: Run, reference: Run, mine: np.ndarray, theirs: np.ndarray) -> Rows:
    """Documents that both have, in the order of the run: query (position in `mine`), ranks from 1, entries."""
    code = np.append(positions(run.documents, reference.documents), -1)[run.document]
    place, back = np.full(len(run), -1), np.full(len(reference), -1)
    place[mine], back[theirs] = np.arange(len(mine)), np.arange(len(mine))
    span = len(reference.documents) + 1
    there = np.flatnonzero((back[reference.query] >= 0) & (reference.document >= 0))
    keys = back[reference.query[there]] * span + reference.document[there]
    order = np.argsort(keys, kind="stable")
    here = np.flatnonzero((place[run.query] >= 0) & (code >= 0))
    wanted = place[run.query[here]] * span + code[here]
    near = np.searchsorted(keys[order], wanted)
    held = near < len(keys)
    held[held] = keys[order[near[held]]] == wanted[held]
    entry, other = here[held], there[order[near[held]]]
    return place[run.query[entry]], run.rank[entry], reference.rank[other], entry, other


def _first(rows: Rows, lengths: tuple[np.ndarray, np.ndarray], k: int) -> tuple[np.ndarray, np.ndarray]:
    query, a, b = rows[:3]
    short = [np.minimum(x, k) for x in lengths]
    most = np.maximum(*short)
    both = np.bincount(query[(a <= k) & (b <= k)], minlength=len(most))
    same = np.bincount(query[(a == b) & (a <= k)], minlength=len(most))
    overlap = np.divide(both, most, out=np.ones(len(most)), where=most > 0)
    return overlap, (short[0] == short[1]) & (same == most)


def _rbo(rows: Rows, lengths: tuple[np.ndarray, np.ndarray], p: float) -> np.ndarray:
    query, a, b = rows[:3]
    short, long = np.minimum(*lengths), np.maximum(*lengths)
    depth = int(long.max(initial=0))
    if depth == 0:
        return np.ones(len(long))
    agreed = np.bincount(query * depth + np.maximum(a, b) - 1, minlength=len(long) * depth)
    x = np.cumsum(agreed.reshape(len(long), depth), axis=1).astype(np.float64)  # (Q, depth) overlap at each depth
    d = np.arange(1, depth + 1)
    weight = p**d
    at = np.arange(len(long))
    x_s, x_l = x[at, np.maximum(short, 1) - 1], x[at, np.maximum(long, 1) - 1]
    s, l = np.maximum(short, 1)[:, None], np.maximum(long, 1)  # noqa: E741
    seen = (x / d * weight * (d <= long[:, None])).sum(axis=1)
    beyond = (x_s[:, None] * (d - s) / (s * d) * weight * ((d > s) & (d <= long[:, None]))).sum(axis=1)
    out = (1 - p) / p * (seen + beyond) + ((x_l - x_s) / l + x_s / s[:, 0]) * p**l
    return np.where(long == 0, 1.0, np.where(short == 0, 0.0, out))


def _tau(rows: Rows, queries: int) -> np.ndarray:
    query, _, b = rows[:3]
    counts = np.bincount(query, minlength=queries)
    most = int(counts.max(initial=0))
    out = np.full(queries, np.nan)
    if most < 2:
        return out
    starts = np.concatenate([[0], np.cumsum(counts)])
    step = max(1, PAIRS // (most * most))
    for low in range(0, queries, step):
        part = slice(low, min(low + step, queries))
        held = np.arange(most) < counts[part, None]
        rank = np.where(held, 0, np.nan)
        rank[held] = b[starts[low] : starts[part.stop]]
        above = np.triu(np.ones((most, most), bool), 1)
        gap = np.sign(rank[:, None, :] - rank[:, :, None]) * above  # entries come in the order of the run
        pairs = counts[part] * (counts[part] - 1) / 2
        out[part] = np.divide(np.nansum(gap, axis=(1, 2)), pairs, out=out[part], where=pairs > 0)
    return out


def _score_difference(run: Run, reference: Run, rows: Rows, queries: int) -> np.ndarray:
    out = np.full(queries, np.nan)
    if "ranks" in (run.scores_are, reference.scores_are):
        return out
    query, _, _, entry, other = rows
    worst = np.full(queries, -1.0)
    np.maximum.at(worst, query, np.abs(run.score[entry] - reference.score[other]))
    return np.where(worst < 0, np.nan, worst)


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if len(values) else float("nan")
