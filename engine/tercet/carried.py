"""Rows that stay while others come and go: where each row of a changed table was in the one before."""

from dataclasses import dataclass, replace

import numpy as np


@dataclass(frozen=True, eq=False)
class Carried:
    """Which row of an earlier table each row of a later one still is."""

    row: np.ndarray | None = None  # (n,) int32 ascending but for -1: new or changed; None: all rows, in their order

    def then(self, take: np.ndarray | None, size: int) -> "Carried":
        """The same after another change.

        Args:
            take: (n',) which of the `size` rows, then of the rows that came, stands in each row; None: no change.
        """
        if take is None:
            return self
        held = np.where(take < size, take, -1).astype(np.int32)
        return Carried(held) if self.row is None else Carried(np.where(held < 0, -1, _at(self.row, held)))

    def through(self, later: "Carried") -> "Carried":
        """This step, then a later one."""
        if later.row is None or self.row is None:
            return self if later.row is None else later
        return Carried(np.where(later.row < 0, -1, _at(self.row, later.row)))

    @property
    def changed(self) -> np.ndarray:
        """(m,) int64 rows that are new or changed."""
        return np.zeros(0, np.int64) if self.row is None else np.flatnonzero(self.row < 0)


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


def _at(values: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Values of rows; any value for rows below 0."""
    return values[rows] if len(values) else rows
