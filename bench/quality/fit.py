"""Fit the weights of the multi-hop search: a softmax over each question's pool, on the tuning half of the questions.

Every set counts alike, whatever its number of questions. The second look is fitted on the passages that the first one,
fitted before it, finds.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from bench.quality.sets import QuestionSet, question_set
from tercet.multihop.settings import FIRST, SECOND, MultihopSettings

EVERY = 1 << 20  # passages: the whole pool
PENALTY = 1e-2  # on the squares of standardised weights
FOLDS = 5


@dataclass(frozen=True)
class Pools:
    """The pools of the tuning questions of a set."""

    name: str
    signals: list[np.ndarray]  # (T, S) float64 a question
    relevant: list[np.ndarray]  # (T,) bool
    gold: list[int]  # passages that each question needs
    weight: np.ndarray  # (B,)


def fit(names: list[str], cache: Path, out: Path) -> None:
    """Fit, print recall by cross-validation, and write the settings."""
    sets = [question_set(name, cache) for name in names]
    first = _fitted(sets, MultihopSettings(dict.fromkeys(FIRST, 1.0), {}), FIRST)
    second = _fitted(sets, MultihopSettings(first, dict.fromkeys(SECOND, 1.0)), SECOND)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(_toml(first, second, names), encoding="utf-8")
    print(f"written to {out}")


def _fitted(sets: list[QuestionSet], settings: MultihopSettings, signals: tuple[str, ...]) -> dict[str, float]:
    pools = [_pools(s, settings, signals) for s in sets]
    rng = np.random.default_rng(0)
    fold = [rng.integers(0, FOLDS, len(p.gold)) for p in pools]
    found: dict[str, list[np.ndarray]] = {p.name: [] for p in pools}
    for held_out in range(FOLDS):
        weights = _softmax([(p, np.flatnonzero(f != held_out)) for p, f in zip(pools, fold, strict=True)])
        for p, f in zip(pools, fold, strict=True):
            found[p.name].append(
                np.array([[*_recall(p, i, weights), p.weight[i]] for i in np.flatnonzero(f == held_out)])
            )
    for name, parts in found.items():
        rows = np.concatenate(parts)
        shown = " / ".join(f"{100 * x:.1f}" for x in np.average(rows[:, :-1], axis=0, weights=rows[:, -1]))
        print(f"{name}: R@2 / R@5 / R@10 {shown} by cross-validation, {len(rows)} questions")
    weights = _softmax([(p, np.arange(len(p.gold))) for p in pools])
    fitted = dict(zip(signals, (round(float(w), 3) for w in weights), strict=True))
    print("  " + ", ".join(f"{name} {value:g}" for name, value in fitted.items()))
    return fitted


def _pools(s: QuestionSet, settings: MultihopSettings, signals: tuple[str, ...]) -> Pools:
    places = s.half("tune")
    asked = [s.questions[i]["question"] for i in places]
    found = s.engine.passage_search(asked, EVERY, vectors=s.vectors[places], settings=settings)
    table = np.stack([found.parts[name] for name in signals], axis=1)
    parts = [slice(a, b) for a, b in zip(found.indptr[:-1], found.indptr[1:], strict=True)]
    gold = [s.engine.graph.rows(s.gold(i)) for i in places]
    return Pools(
        s.name, [table[p] for p in parts], [np.isin(found.node[p], g) for p, g in zip(parts, gold, strict=True)],
        [len(g) for g in gold], np.array([s.weight(i) for i in places]),
    )  # fmt: skip


def _softmax(chosen: list[tuple[Pools, np.ndarray]]) -> np.ndarray:
    """(S,) weights that make relevant passages likely, by L-BFGS."""
    rows = [(p.signals[i], p.relevant[i], p.weight[i] / len(places)) for p, places in chosen for i in places]
    every = np.concatenate([x for x, _, _ in rows])
    spread = every.std(axis=0) + 1e-9
    most = max(len(x) for x, _, _ in rows)
    value = torch.zeros(len(rows), most, every.shape[1], dtype=torch.float64)
    relevant, absent = torch.zeros(len(rows), most, dtype=torch.float64), torch.full((len(rows), most), -torch.inf)
    share = torch.tensor([w for _, _, w in rows], dtype=torch.float64)
    for i, (x, y, _) in enumerate(rows):
        value[i, : len(x)] = torch.from_numpy((x - every.mean(axis=0)) / spread)
        relevant[i, : len(x)], absent[i, : len(x)] = torch.from_numpy(y.astype(np.float64)), 0.0
    share = share * (relevant.sum(1) > 0)
    target = relevant / relevant.sum(1, keepdim=True).clamp(min=1)
    weights = torch.zeros(every.shape[1], dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.LBFGS([weights], max_iter=100, line_search_fn="strong_wolfe")

    def loss() -> torch.Tensor:
        optimiser.zero_grad()
        likely = torch.log_softmax(value @ weights + absent, dim=1).clamp(min=-50)
        out = -(likely * target).sum(1) @ share / share.sum() + PENALTY * weights @ weights
        out.backward()
        return out

    with torch.enable_grad():
        optimiser.step(loss)
    return weights.detach().numpy() / spread


def _recall(p: Pools, i: int, weights: np.ndarray) -> list[float]:
    order = np.argsort(-(p.signals[i] @ weights), kind="stable")
    return [p.relevant[i][order[:k]].sum() / p.gold[i] for k in (2, 5, 10)]


def _toml(first: Mapping[str, float], second: Mapping[str, float], names: list[str]) -> str:
    lines = [
        "# Weights of the multi-hop passage search, fitted by `python -m bench.quality fit` on the tuning halves of",
        f"# {', '.join(names)}; docs/quality.md has what it finds. All other settings are as by default.",
    ]
    for name, weights in (("first", first), ("second", second)):
        lines += ["", f"[multihop.{name}]", *(f"{signal} = {value!r}" for signal, value in weights.items())]
    return "\n".join(lines) + "\n"
