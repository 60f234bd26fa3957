"""The measures, slowly: plain lists and loops."""

import math


def measures(ranked: list[str], grades: dict[str, int]) -> dict[str, float]:
    """Measures of one ranking; a grade of at least 1 is relevant."""
    relevant = {d for d, g in grades.items() if g >= 1}
    hits = [d in relevant for d in ranked]
    gains = [max(grades.get(d, 0), 0) for d in ranked]
    ideal = sorted((g for g in grades.values() if g > 0), reverse=True)
    first = next((i for i, hit in enumerate(hits, 1) if hit), None)
    out = {"RR": 1 / first if first else 0.0}
    out["AP"] = sum(sum(hits[:i]) / i for i, hit in enumerate(hits, 1) if hit) / len(relevant)
    for k in (1, 2, 5, 10):
        out[f"R@{k}"] = sum(hits[:k]) / len(relevant)
        out[f"nDCG@{k}"] = dcg(gains[:k]) / dcg(ideal[:k])
        out[f"RR@{k}"] = 1 / first if first and first <= k else 0.0
        out[f"hit@{k}"] = float(any(hits[:k]))
        out[f"all_recall@{k}"] = float(sum(hits[:k]) == len(relevant))
    return out


def dcg(gains: list[int]) -> float:
    return sum(g / math.log2(i + 1) for i, g in enumerate(gains, 1))


def rbo(a: list[str], b: list[str], p: float) -> float:
    """Extrapolated rank-biased overlap, equation 32 of Webber, Moffat and Zobel (2010), term by term."""
    short, long = sorted((a, b), key=len)
    if not long:
        return 1.0
    if not short:
        return 0.0
    s, l = len(short), len(long)  # noqa: E741
    overlap = {d: len(set(short[:d]) & set(long[:d])) for d in range(1, l + 1)}
    total = sum(overlap[d] / d * p**d for d in range(1, l + 1))
    total += sum(overlap[s] * (d - s) / (s * d) * p**d for d in range(s + 1, l + 1))
    return (1 - p) / p * total + ((overlap[l] - overlap[s]) / l + overlap[s] / s) * p**l


def tau(a: list[str], b: list[str]) -> float | None:
    common = [d for d in a if d in b]
    pairs = [(i, j) for i in range(len(common)) for j in range(i + 1, len(common))]
    if not pairs:
        return None
    good = sum(b.index(common[i]) < b.index(common[j]) for i, j in pairs)
    return (2 * good - len(pairs)) / len(pairs)
