"""Rows that stay while others come and go: where each row of a changed table was in the one before."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np


@dataclass(frozen=True, eq=False)
class Carried:
    """Which row of an earlier table each row of a later one still is."""

    runs: np.ndarray | None = None  # (r, 3) int64 first row now, first row before, length; None: all, in their order
    size: int = 0  # rows now, where there are runs

    @staticmethod
    def of(row: np.ndarray) -> "Carried":
        """From (n,) rows of the earlier table, ascending but for -1: new or changed."""
        return Carried(stretches(row, row >= 0), len(row))

    def through(self, later: "Carried") -> "Carried":
        """This step, then a later one."""
        if later.runs is None or self.runs is None:
            return self if later.runs is None else later
        held, runs = self.runs, later.runs
        if not len(held) or not len(runs):
            return Carried(np.zeros((0, 3), np.int64), later.size)
        begin, end = runs[:, 1], runs[:, 1] + runs[:, 2]
        first = np.maximum(np.searchsorted(held[:, 0], begin, side="right") - 1, 0)
        parts = np.searchsorted(held[:, 0], end, side="left") - first
        which = np.repeat(np.arange(len(runs)), parts)
        inside = np.arange(len(which)) - np.repeat(np.cumsum(parts) - parts, parts) + first[which]
        low = np.maximum(held[inside, 0], begin[which])
        high = np.minimum(held[inside, 0] + held[inside, 2], end[which])
        now, before = runs[which, 0] + low - begin[which], held[inside, 1] + low - held[inside, 0]
        return Carried(np.stack([now, before, high - low], axis=1)[high > low], later.size)

    @cached_property
    def row(self) -> np.ndarray | None:
        """(n,) int32 rows of the earlier table, -1 for new or changed ones; None: all rows, in their order."""
        if self.runs is None:
            return None
        out = np.full(self.size, -1, np.int32)
        out[taken_by(self.runs[:, [0, 2]])] = taken_by(self.runs[:, 1:])
        return out

    @property
    def changed(self) -> np.ndarray:
        """(m,) int64 rows that are new or changed."""
        return taken_by(gaps(self.runs, self.size)) if self.runs is not None else np.zeros(0, np.int64)

    def choice(self, before: int) -> np.ndarray:
        """(r, 2) int64 first value and length of stretches: rows of the `before` earlier ones, then of the changed."""
        if self.runs is None:
            return np.array([[0, before]] if before else [], np.int64).reshape(-1, 2)
        new = gaps(self.runs, self.size)
        started = before + np.cumsum(new[:, 1]) - new[:, 1]
        at = np.concatenate([self.runs[:, 0], new[:, 0]])
        parts = np.concatenate([self.runs[:, 1:], np.stack([started, new[:, 1]], axis=1)])
        return np.ascontiguousarray(parts[np.argsort(at)])


@dataclass(frozen=True, eq=False)
class Since:
    """What became of an engine's rows since a moment, such as the last time it was saved."""

    collections: tuple[Carried, ...]
    nodes: Carried = Carried()
    edges: Carried = Carried()
    anew: bool = False  # rows that stay may differ all the same: nothing of the graph can be relied on
    compacted: bool = False  # whoever keeps pieces is to put them together

    def through(self, later: "Since") -> "Since":
        """This, then what happened later."""
        return Since(
            tuple(a.through(b) for a, b in zip(self.collections, later.collections, strict=True)),
            self.nodes.through(later.nodes), self.edges.through(later.edges),
            self.anew or later.anew, self.compacted or later.compacted,
        )  # fmt: skip

    def moved(self, at: int, carried: Carried) -> "Since":
        """With another history of one collection."""
        return replace(self, collections=(*self.collections[:at], carried, *self.collections[at + 1 :]))


def stretches(values: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """(r, 3) int64 first place, first value and length of each stretch of chosen places whose values rise by one."""
    if not chosen.any():
        return np.zeros((0, 3), np.int64)
    joined = chosen[1:] & chosen[:-1] & (values[1:] == values[:-1] + 1)
    begin = np.flatnonzero(np.concatenate([[True], ~joined]))
    length = np.diff(begin, append=len(values))
    return np.stack([begin, values[begin], length], axis=1).astype(np.int64)[chosen[begin]]


def gaps(runs: np.ndarray, size: int) -> np.ndarray:
    """(r, 2) int64 first row and length of what ascending runs, (r, 3), leave out of `size` rows."""
    first = np.concatenate([[0], runs[:, 0] + runs[:, 2]])
    length = np.concatenate([runs[:, 0], [size]]) - first
    return np.stack([first, length], axis=1)[length > 0].astype(np.int64)


def runs_of(take: np.ndarray) -> np.ndarray:
    """(r, 2) int64 first value and length of each stretch in which values rise by one."""
    if not len(take):
        return np.zeros((0, 2), np.int64)
    begin = np.flatnonzero(np.concatenate([[True], take[1:] != take[:-1] + 1]))
    return np.stack([take[begin], np.diff(begin, append=len(take))], axis=1).astype(np.int64)


def taken_by(runs: np.ndarray) -> np.ndarray:
    """(n,) int64 the values that runs stand for."""
    length = runs[:, 1]
    ends = np.cumsum(length)
    return np.arange(ends[-1] if len(ends) else 0) + np.repeat(runs[:, 0] - ends + length, length)


def through(runs: np.ndarray, later: np.ndarray) -> np.ndarray:
    """(r, 2) the values that runs have at the places that later runs choose.

    Args:
        later: runs of places among the values that `runs` stands for.
    """
    runs, later = runs[runs[:, 1] > 0], later[later[:, 1] > 0]
    if not len(later):
        return later
    place = np.cumsum(runs[:, 1]) - runs[:, 1]
    begin, end = later[:, 0], later.sum(axis=1)
    first = np.searchsorted(place, begin, side="right") - 1  # the run that each later one begins in
    parts = np.searchsorted(place, end, side="left") - first
    which = np.repeat(np.arange(len(later)), parts)
    inside = np.arange(len(which)) - np.repeat(np.cumsum(parts) - parts, parts) + first[which]
    low = np.maximum(place[inside], begin[which])
    high = np.minimum(place[inside] + runs[inside, 1], end[which])
    return np.stack([runs[inside, 0] + low - place[inside], high - low], axis=1)
