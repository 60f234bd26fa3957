"""A table after some of its rows have gone and others have come: what stays is copied stretch by stretch.

Few changes leave few stretches, and what is computed of them follows the changes. A column is copied once, by a pass
over its bytes, and not at all where neither its rows nor its values change.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import torch

from tercet.arrays import is_repeated
from tercet.carried import Carried, gaps, stretches, taken_by
from tercet.tables import no_texts, one_piece
from tercet_kernels.splice import numbered, splice

MOST = 4  # where more than one row in so many goes, what stays is looked through instead of what goes
SHORT = 16  # rows: stretches that are shorter on average are taken row by row
NONE = np.zeros(0, np.int64)


@dataclass(frozen=True, eq=False)
class Splice:
    """Where the rows of a changed table come from. Made by `of` and `taken`."""

    before: int  # rows before
    size: int  # rows now
    runs: np.ndarray  # (r, 3) int64 first row now, first row before, length: what stays; both ascend
    fresh: np.ndarray  # (K,) int64 the row of each new or changed one, in the order in which they are given

    @staticmethod
    def of(before: int, gone: np.ndarray, place: np.ndarray) -> "Splice":
        """From the rows that go and the places of those that come.

        Args:
            gone: (G,) ascending. place: (K,) the old row that each new one stands before, up to `before`; several at
                one place keep their order.
        """
        if not len(place) and len(gone) * MOST > before:
            kept = np.ones(before, bool)
            kept[gone] = False
            made = Splice.taken(np.flatnonzero(kept), before)
            made.__dict__["gone"] = gone
            return made
        order = np.argsort(place, kind="stable")
        at = place[order]
        fresh = np.empty(len(place), np.int64)
        fresh[order] = at - np.searchsorted(gone, at) + np.arange(len(at))
        start = np.concatenate([[0], gone + 1]).astype(np.int64)
        if len(at):
            start = np.unique(np.concatenate([start, at]))
        start = start[start < before]
        left = np.searchsorted(gone, start) if len(at) else np.arange(len(start))
        end = np.minimum(np.append(start[1:], before), np.append(gone, before)[left]) if len(start) else start
        kept = end > start
        first = (start - left + np.searchsorted(at, start, side="right"))[kept]
        runs = np.stack([first, start[kept], (end - start)[kept]], axis=1).astype(np.int64)
        return Splice(before, before - len(gone) + len(place), runs, fresh)

    @staticmethod
    def taken(take: np.ndarray, before: int) -> "Splice":
        """From (n,) which of the old rows, then the changed ones, stands in each row; old ones ascend."""
        fresh = np.empty(int((take >= before).sum()), np.int64)
        at = np.flatnonzero(take >= before)
        fresh[take[at] - before] = at
        return Splice(before, len(take), stretches(take, take < before), fresh)

    @cached_property
    def shifts(self) -> bool:
        """Whether a row that stays has another number."""
        return bool((self.runs[:, 0] != self.runs[:, 1]).any())

    @property
    def moves(self) -> bool:
        """Whether more happens than that rows change in their places."""
        return self.shifts or self.size != self.before

    @property
    def carried(self) -> Carried:
        """Which row of before each row still is."""
        whole = self.size == self.before and not len(self.fresh)
        return Carried() if whole else Carried(self.runs, self.size)

    @cached_property
    def gone(self) -> np.ndarray:
        """(G,) int64 the old rows that don't stay, ascending."""
        return taken_by(gaps(self.runs[:, [1, 0, 2]], self.before))

    @cached_property
    def row(self) -> torch.Tensor:
        """(before,) int32 where each old row has gone, -1: it doesn't stay."""
        return numbered(torch.from_numpy(self.runs), self.before)

    @cached_property
    def take(self) -> np.ndarray:
        """(n,) int64 which of the old rows, then the changed ones, stands in each row."""
        rows = torch.arange(self.before + len(self.fresh))
        runs, fresh = torch.from_numpy(self.runs), torch.from_numpy(self.fresh)
        return splice(rows[: self.before], runs, fresh, rows[self.before :]).numpy()

    def rows(self, old: np.ndarray) -> np.ndarray:
        """Where some old rows have gone, -1: they don't stay; the cost follows their number."""
        return _through(self.runs[:, [1, 0, 2]], old)

    def origin(self, new: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The old rows that some rows are, or else stand before; and which of them are old rows."""
        old = _through(self.runs, new)
        later = np.searchsorted(self.runs[:, 0], new, side="right")
        following = np.append(self.runs[:, 1], self.before)[later]
        return np.where(old >= 0, old, following), old >= 0

    def column(self, old: torch.Tensor, values: np.ndarray, row: torch.Tensor | None = None) -> torch.Tensor:
        """A flat column of the changed table; the old one itself where nothing changes in it.

        Args:
            values: (K,) those of the changed rows. row: of int32 columns: where the rows that they name have gone.
        """
        own, fresh = torch.from_numpy(np.ascontiguousarray(values)), torch.from_numpy(self.fresh)
        if is_repeated(old) and own.numpy().tobytes() == old[:1].numpy().tobytes() * len(own):
            one = torch.from_numpy(old[:1].numpy().copy())  # with a stride
            return old if len(old) == self.size else one.expand(self.size) if self.size else one[:0]
        if row is None and not self.moves:
            if old[fresh].numpy().tobytes() == own.numpy().tobytes():
                return old
            out = torch.from_numpy(old.numpy().copy())
            out[fresh] = own
            return out
        return splice(old.contiguous(), torch.from_numpy(self.runs), fresh, own, row)

    def text(self, old: pa.Array, new: pa.Array | None) -> pa.Array:
        """An Arrow column of the changed table, in one piece; the old one itself where nothing changes in it."""
        if old.null_count == len(old) and (new is None or new.null_count == len(new)):
            kind = old.type if new is None or pa.types.is_null(new.type) else new.type
            if not self.moves and kind == old.type:
                return old
            return no_texts(self.size) if pa.types.is_large_string(kind) else pa.nulls(self.size, kind)
        if new is not None and old.type != new.type:
            kind = new.type if pa.types.is_null(old.type) else old.type
            cast, old, new = old.type != kind, old.cast(kind), new.cast(kind)
        else:
            cast = False
        if not self.moves and not cast and (new is None or _equal(old.take(pa.array(self.fresh)), new)):
            return old
        if len(self.runs) * SHORT > self.size:
            both = old if new is None else pa.concat_arrays([old, new])
            return both.take(pa.array(self.take))
        return pa.concat_arrays(self._pieces(old, new)) if self.size else old[:0]

    def _pieces(self, old: pa.Array, new: pa.Array | None) -> list[pa.Array]:
        if new is None or not len(new):
            return [old.slice(start, length) for _, start, length in self.runs.tolist()]
        if (self.fresh[1:] < self.fresh[:-1]).any():
            new = new.take(pa.array(np.argsort(self.fresh)))
        out, at = [], 0
        upto = np.searchsorted(np.sort(self.fresh), self.runs[:, 0]).tolist()
        for (_, start, length), end in zip(self.runs.tolist(), upto, strict=True):
            if end > at:
                out.append(new.slice(at, end - at))
                at = end
            out.append(old.slice(start, length))
        return [*out, new.slice(at)]

    def table(self, old: pa.Table, new: pa.Table | None, made: Mapping[str, pa.Array] | None = None) -> pa.Table:
        """The changed table, with the columns of `new`; a column that one of them lacks is null there.

        Args:
            made: columns that are made already.
        """
        names = old.schema.names if new is None else new.schema.names
        out, same = dict(made or {}), names == old.schema.names
        for name in names:
            if name in out:
                continue
            held = one_piece(old.column(name)) if name in old.schema.names else pa.nulls(old.num_rows)
            out[name] = self.text(held, None if new is None else one_piece(new.column(name)))
            same &= out[name] is held
        return old if same and not self.moves else pa.table({name: out[name] for name in names})


def ascending(rows: np.ndarray) -> np.ndarray:
    """Distinct rows in ascending order; the same array where they are so already."""
    return rows if (rows[1:] > rows[:-1]).all() else np.unique(rows)


def _through(runs: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Rows by runs of (first, first of the result, length), -1 outside."""
    if not len(runs):
        return np.full(len(rows), -1, np.int64)
    at = np.searchsorted(runs[:, 0], rows, side="right") - 1
    inside = rows - runs[at, 0]
    return np.where((at >= 0) & (inside < runs[at, 2]), runs[at, 1] + inside, -1)


def _equal(a: pa.Array, b: pa.Array) -> bool:
    """Whether two columns are the same to the last bit; False where that isn't easily known."""
    if pa.types.is_floating(a.type):
        whole = {16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[a.type.bit_width]
        a, b = a.view(whole), b.view(whole)
    return _exact(a.type) and a.equals(b)


def _exact(kind: pa.DataType) -> bool:
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _exact(kind.value_type)
    return not (pa.types.is_floating(kind) or pa.types.is_nested(kind) or pa.types.is_dictionary(kind))
