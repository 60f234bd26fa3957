"""Plain Python form of `name_spans`: what tests compare with."""

from itertools import pairwise

import numpy as np


def name_spans(
    names: tuple[np.ndarray, np.ndarray], indptr: np.ndarray, word: np.ndarray, lone: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """See `tercet_kernels.name_spans`."""
    rows = _rows(names)
    end, name = np.zeros(len(word), np.int64), np.full(len(word), -1, np.int64)
    for low, high in pairwise(indptr):
        found = [
            (i, j, rows[tuple(word[i:j].tolist())])
            for i in range(low, high) for j in range(i + 1, high + 1)
            if tuple(word[i:j].tolist()) in rows and not (j == i + 1 and lone[i])
        ]  # fmt: skip
        for i, j, row in _outer(found):
            end[i], name[i] = j, row
    return end, name


def key_spans(
    keys: tuple[np.ndarray, np.ndarray], indptr: np.ndarray, stem: np.ndarray, blank: np.ndarray, marked: np.ndarray,
    covered: np.ndarray, most: int = 8,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """See `tercet_kernels.key_spans`."""
    rows = _rows(keys)
    end, key = np.zeros(len(stem), np.int64), np.full(len(stem), -1, np.int64)
    for low, high in pairwise(indptr):
        taken = [(i, covered[i]) for i in range(low, high) if covered[i]]
        found = []
        for i in range(low, high):
            for j in range(i + 2, min(high, i + most) + 1):
                part = range(i, j)
                counted = tuple(sorted(stem[p] for p in part if not blank[p]))
                inside = any(a <= i and j <= b for a, b in taken)
                if not (blank[i] or blank[j - 1] or inside) and any(marked[p] for p in part) and counted in rows:
                    found += [(i, j, rows[counted])] if len(counted) > 1 else []
        for i, j, row in _outer(found):
            end[i], key[i] = j, row
    return end, key


def _rows(names: tuple[np.ndarray, np.ndarray]) -> dict[tuple[int, ...], int]:
    indptr, word = names
    return {tuple(word[indptr[g] : indptr[g + 1]].tolist()): g for g in range(len(indptr) - 1)}


def _outer(found: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    return [s for s in found if not any(t != s and t[0] <= s[0] and s[1] <= t[1] for t in found)]
