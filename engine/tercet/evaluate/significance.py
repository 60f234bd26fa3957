"""Differences between systems: paired over queries, with intervals and tests.

The effect comes first: a mean difference and its bootstrap interval (Efron 1979). Tests are the randomisation test on
the mean (Fisher's; signs of the differences flipped) and the paired t-test, with Holm's correction (1979) over all
comparisons.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from tercet.errors import InvalidArgument, InvalidData, MissingDependency
from tercet.evaluate.measures import positions
from tercet.evaluate.metrics import Evaluation

FEW = 25  # queries below which no test is worth its name
CELLS = 1 << 22  # drawn at a time
COMPARED = ("nDCG@10", "R@5", "R@10", "AP")
MOST = 40  # rows of a table as text, of more only those of the first measure


@dataclass(frozen=True)
class Difference:
    """One system against one baseline in one measure."""

    system: str
    baseline: str
    measure: str
    n: int  # queries that both have a value for
    mean: float  # of the system
    baseline_mean: float
    difference: float
    low: float  # bounds of the 95 % bootstrap interval
    high: float
    wins: int
    ties: int
    losses: int
    p: float  # randomisation, two-sided; NaN with too few queries
    p_t: float  # paired t; NaN with too few queries or without any difference
    p_holm: float  # p after Holm's correction over all rows
    note: str  # "too few" below 25 queries, "small" where the difference is below the least one of practical use


@dataclass(frozen=True)
class Comparison:
    """All systems against all baselines. Made by `compare`."""

    rows: tuple[Difference, ...]
    left_out: dict[str, str]  # systems that weren't compared, and why
    resamples: int
    seed: int
    least: float

    def to_arrow(self) -> pa.Table:
        """A row a comparison, columns as the fields of `Difference`."""
        names = list(Difference.__dataclass_fields__)
        return pa.table({n: [getattr(r, n) for r in self.rows] for n in names})

    def summary(self) -> dict[str, Any]:
        """What fits into JSON."""
        rows = [{k: None if v != v else v for k, v in asdict(r).items()} for r in self.rows]  # noqa: PLR0124
        return {"rows": rows, "left_out": self.left_out, "resamples": self.resamples, "seed": self.seed,
                "least": self.least}  # fmt: skip

    def __str__(self) -> str:
        wide = max([20, *(len(r.system) + 2 for r in self.rows)])
        head = f"{'measure':<14}{'system':<{wide}}{'against':<14}{'difference':>11}  {'95 % interval':<20}"
        lines = [head + f"{'p Holm':>8}{'win/tie/loss':>16}{'n':>7}"]
        first = [r for r in self.rows if r.measure == self.rows[0].measure]
        shown = self.rows if len(self.rows) <= MOST else tuple(first)
        for r in shown:
            p = "-" if np.isnan(r.p_holm) else f"{r.p_holm:.4f}"
            lines.append(
                f"{r.measure:<14}{r.system:<{wide}}{r.baseline:<14}{r.difference:>+11.4f}  "
                f"{f'[{r.low:+.4f}, {r.high:+.4f}]':<20}{p:>8}{f'{r.wins}/{r.ties}/{r.losses}':>16}{r.n:>7} {r.note}"
            )
        if len(shown) < len(self.rows):
            lines.append(
                f"{len(self.rows) - len(shown)} more, of other measures: `to_arrow`, summary.md of a run folder"
            )
        return "\n".join(lines + [f"{name}: not compared, {why}" for name, why in self.left_out.items()])


def compare(
    evaluations: Mapping[str, Evaluation | str],
    baselines: Sequence[str],
    *,
    measures: Sequence[str] | None = None,
    resamples: int = 10_000,
    seed: int = 0,
    least: float = 0.01,
) -> Comparison:
    """Compare systems with baselines, paired over the queries that both have a value for.

    Args:
        evaluations: by name; a text instead says why a system did not run: it is left out, not counted as 0.
        baselines: names among them; each other system is compared with each, baselines not with each other.
        measures: None: those of nDCG@10, R@5, R@10 and AP that all have.
        resamples: of bootstrap and randomisation, drawn once for all systems with the same queries.
        least: the smallest difference that counts as of practical use.

    Raises:
        InvalidArgument: an unknown baseline or measure, a number below 1, or nobody to compare.
        InvalidData: systems were judged on other queries (the qrels differ).
        MissingDependency: SciPy isn't installed.
    """
    if resamples < 1:
        raise InvalidArgument(f"resamples: expected a number of at least 1, got {resamples!r}")
    unknown = [b for b in baselines if b not in evaluations]
    if unknown:
        raise InvalidArgument(f"baselines: no {', '.join(map(repr, unknown))}; there are {', '.join(evaluations)}")
    left_out = {name: why for name, why in evaluations.items() if isinstance(why, str)}
    found = {name: e for name, e in evaluations.items() if isinstance(e, Evaluation)}
    if measures is None:
        measures = [m for m in COMPARED if all(m in e.measures for e in found.values())]
    pairs = [(s, b) for s in found if s not in baselines for b in baselines if b in found]
    parts = [_Part.of(s, b, found[s], found[b], measures) for s, b in pairs]
    rows: list[Difference] = []
    groups: dict[bytes, list[_Part]] = {}
    for part in parts:
        groups.setdefault(part.key, []).append(part)
    for group in groups.values():
        rows += _differences(group, list(measures), resamples, seed, least)
    order = {(s, b, m): i for i, (s, b, m) in enumerate((s, b, m) for m in measures for s, b in pairs)}
    rows.sort(key=lambda r: order[r.system, r.baseline, r.measure])
    return Comparison(corrected(rows), left_out, resamples, seed, least)


def corrected(rows: Sequence[Difference]) -> tuple[Difference, ...]:
    """The rows with Holm's correction over all of them."""
    adjusted = holm(np.array([r.p for r in rows]))
    return tuple(replace(r, p_holm=float(p)) for r, p in zip(rows, adjusted, strict=True))


@dataclass(frozen=True, eq=False)
class _Part:
    """The values of a pair over the queries that both have."""

    system: str
    baseline: str
    mine: np.ndarray  # (n, M)
    theirs: np.ndarray  # (n, M)
    weights: np.ndarray  # (n,)
    key: bytes  # which queries, and what they weigh

    @staticmethod
    def of(system: str, baseline: str, a: Evaluation, b: Evaluation, measures: Sequence[str]) -> "_Part":
        at = positions(a.queries, b.queries)
        if (at < 0).any() or len(a) != len(b):
            raise InvalidData(f"compare: {system!r} and {baseline!r} were judged on different queries "
                              f"({len(a)} and {len(b)}, {int((at >= 0).sum())} in common)")  # fmt: skip
        mine = np.stack([a[m] for m in measures], 1) if measures else np.zeros((len(a), 0))
        theirs = np.stack([b[m] for m in measures], 1)[at] if measures else np.zeros((len(a), 0))
        kept = ~(np.isnan(mine) | np.isnan(theirs)).any(axis=1)
        return _Part(system, baseline, mine[kept], theirs[kept], a.weights[kept],
                     kept.tobytes() + a.weights.tobytes())  # fmt: skip


def _differences(group: list[_Part], measures: list[str], resamples: int, seed: int, least: float) -> list[Difference]:
    """Rows of pairs that have the same queries; bootstrap and signs are drawn once for all of them."""
    delta = np.concatenate([p.mine - p.theirs for p in group], axis=1)  # (n, pairs * M)
    n, weights = len(delta), group[0].weights
    observed = weights @ delta / weights.sum() if n else np.full(delta.shape[1], np.nan)
    low, high = interval(delta, weights, resamples, seed)
    enough = n >= FEW
    p = randomisation(delta, weights, resamples, seed) if enough else np.full(delta.shape[1], np.nan)
    p_t = paired_t(delta) if enough else np.full(delta.shape[1], np.nan)
    rows = []
    for c in range(delta.shape[1]):
        part, measure = group[c // len(measures)], measures[c % len(measures)]
        column = delta[:, c]
        mean, against = (_weighted(x[:, c % len(measures)], weights) for x in (part.mine, part.theirs))
        note = "too few" if not enough else "small" if abs(observed[c]) < least else ""
        rows.append(Difference(
            part.system, part.baseline, measure, n, mean, against, float(observed[c]), float(low[c]), float(high[c]),
            int((column > 0).sum()), int((column == 0).sum()), int((column < 0).sum()), float(p[c]), float(p_t[c]),
            float("nan"), note,
        ))  # fmt: skip
    return rows


def _weighted(values: np.ndarray, weights: np.ndarray) -> float:
    return float(weights @ values / weights.sum()) if len(values) else float("nan")


def interval(
    delta: np.ndarray, weights: np.ndarray, resamples: int, seed: int, level: float = 0.95
) -> tuple[np.ndarray, np.ndarray]:
    """Bounds of the percentile bootstrap interval of weighted means of (n, C) values, each (C,).

    Queries are drawn with replacement and bring their weights along.
    """
    n = len(delta)
    if not n:
        return np.full(delta.shape[1], np.nan), np.full(delta.shape[1], np.nan)
    rng = np.random.default_rng([seed, 1])
    weighted = np.concatenate([delta * weights[:, None], weights[:, None]], axis=1)
    means = []
    for size in _chunks(resamples, n):
        drawn = rng.integers(0, n, (size, n)) + np.arange(size)[:, None] * n
        counts = np.bincount(drawn.ravel(), minlength=size * n).reshape(size, n)
        sums = counts.astype(np.float64) @ weighted
        means.append(sums[:, :-1] / sums[:, -1:])
    bounds = np.quantile(np.concatenate(means), [(1 - level) / 2, (1 + level) / 2], axis=0)
    return bounds[0], bounds[1]


def randomisation(delta: np.ndarray, weights: np.ndarray, resamples: int, seed: int) -> np.ndarray:
    """(C,) two-sided p of (n, C) paired differences: (1 + as extreme ones) / (1 + resamples) with signs at random."""
    n = len(delta)
    rng = np.random.default_rng([seed, 2])
    weighted = delta * weights[:, None]
    least = np.abs(weighted.sum(axis=0)) - 1e-12 * np.abs(weighted).sum(axis=0)  # sums in another order still tie
    extreme = np.zeros(delta.shape[1], np.int64)
    for size in _chunks(resamples, n):
        signs = rng.integers(0, 2, (size, n), dtype=np.int8).astype(np.float64) * 2 - 1
        extreme += (np.abs(signs @ weighted) >= least).sum(axis=0)
    return (1 + extreme) / (1 + resamples)


def paired_t(delta: np.ndarray) -> np.ndarray:
    """(C,) two-sided p of Student's paired t-test on (n, C) differences, unweighted; NaN where all are equal."""
    try:
        from scipy import stats
    except ImportError as error:
        raise MissingDependency("the t-test needs SciPy: install 'tercet[eval]'") from error
    out = np.full(delta.shape[1], np.nan)
    varied = np.ptp(delta, axis=0) > 0
    if varied.any():
        out[varied] = stats.ttest_1samp(delta[:, varied], 0.0, axis=0).pvalue
    return out


def holm(p: np.ndarray) -> np.ndarray:
    """p after Holm's step-down correction; NaN stay, and don't count."""
    out = np.full(len(p), np.nan)
    known = np.flatnonzero(~np.isnan(p))
    order = known[np.argsort(p[known], kind="stable")]
    steps = np.maximum.accumulate(p[order] * np.arange(len(order), 0, -1)) if len(order) else p[order]
    out[order] = np.minimum(steps, 1.0)
    return out


def _chunks(total: int, n: int) -> list[int]:
    size = max(1, CELLS // max(n, 1))
    return [min(size, total - low) for low in range(0, total, size)]
