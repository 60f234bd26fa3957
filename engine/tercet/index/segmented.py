"""An index that changes: segments that are never touched, and a map from their rows to those of the collection.

An update hides the rows that go and adds a segment with those that come, so it costs what it changes and one pass over
the maps. Rows of a segment keep the collection's order, and distances are exact in each, so merging by (distance, row)
gives what an index over all the rows gives.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import torch

from tercet.index.exact import ExactIndex
from tercet_kernels.nearest import Codes, dense
from tercet_kernels.splice import located, renumbered

if TYPE_CHECKING:
    from tercet.index import Index
    from tercet.index.approx import FaissIndex

    Whole: TypeAlias = ExactIndex | FaissIndex

GONE = 0x7FFFFFFF  # as a row: after all others
SMALL = 4096  # rows; copying so many costs less than searching one segment more


@dataclass(frozen=True, eq=False)
class _Hiding(ExactIndex):
    """The rows of another index, some more of them hidden; its codes serve both."""

    origin: ExactIndex | None = None

    @property
    def codes(self) -> Codes:  # type: ignore[override]
        assert self.origin is not None
        return self.origin.codes


@dataclass(frozen=True, eq=False)
class Segment:
    """An index and the rows of the collection that its rows are."""

    index: "Whole"
    row: torch.Tensor  # (v,) int32 ascending but for -1: gone

    @cached_property
    def live(self) -> "Whole":
        """The index without what is gone."""
        gone = self.row < 0
        if not bool(gone.any()):
            return self.index
        exact = rows_of(self.index)
        hidden = gone if exact.hidden is None else gone | exact.hidden
        hiding = _Hiding(exact.vectors, exact.scale, hidden, origin=exact)
        return hiding if isinstance(self.index, ExactIndex) else replace(self.index, inner=hiding)

    @cached_property
    def shown(self) -> torch.Tensor:
        """(v,) int32 rows of the collection, -1 for what is gone or never returned."""
        hidden = rows_of(self.index).hidden
        return self.row if hidden is None else torch.where(hidden, -1, self.row)

    @cached_property
    def size(self) -> int:
        """Rows that aren't gone."""
        return int((self.row >= 0).sum())


def rows_of(index: "Whole") -> ExactIndex:
    """The exact index with the rows themselves."""
    return index if isinstance(index, ExactIndex) else index.inner


@dataclass(frozen=True, eq=False)
class SegmentedIndex:
    """An index of segments; the first is the one it began with. Made by `SegmentedIndex.of` and `changed`."""

    segments: tuple[Segment, ...]
    segment: torch.Tensor  # (V,) int16 which segment a row is in
    local: torch.Tensor  # (V,) int32 its row there

    @staticmethod
    def of(index: "Whole") -> "SegmentedIndex":
        """An index as the only segment."""
        row = torch.arange(index.size, dtype=torch.int32, device=rows_of(index).vectors.device)
        return _mapped((Segment(index, row),), index.size)

    def changed(self, row: torch.Tensor, added: ExactIndex | None, added_row: torch.Tensor) -> "SegmentedIndex":
        """The index after rows have gone and come.

        The last segments are merged with the new one as long as they are small or no larger, so that there are few: one
        small one, and a row beyond is copied once for each doubling of what has been added.

        Args:
            row: (V,) int32 new row of each row, ascending but for -1: gone.
            added: rows that come; added_row: (A,) int32 ascending, their new rows.
        """
        device = self.segment.device
        row, added_row = row.to(device), added_row.to(device)
        moved = [Segment(s.index, _through(row, s.row)) for s in self.segments]
        segments = [moved[0], *(s for s in moved[1:] if s.size)]
        if added is not None and added.size:
            new = Segment(added.to(device), added_row)
            _push(segments, new)
        size = int((row >= 0).sum()) + (0 if added is None else added.size)  # host sync
        return _mapped(tuple(segments), size)

    @staticmethod
    def restored(first: "Whole", added: Sequence[ExactIndex], row: torch.Tensor) -> "SegmentedIndex":
        """The index after several changes, merged as `changed` does.

        Args:
            row: int32 row of each of the first index's rows, then of those that were added; ascending within each
                index but for -1: gone.
        """
        sizes = [first.size, *(a.size for a in added)]
        rows = row.split(sizes)
        segments = [Segment(first, rows[0])]
        for index, at in zip(added, rows[1:], strict=True):
            new = Segment(index, at)
            if new.size:
                _push(segments, new)
        return _mapped(tuple(segments), int((row >= 0).sum()))

    def picked(self, rows: torch.Tensor) -> ExactIndex:
        """A copy of some rows, (n,) int64."""
        of, local = self.segment[rows], self.local[rows].long()
        exact = [rows_of(s.index) for s in self.segments]
        vectors = exact[0].vectors.new_empty(len(rows), self.dimension)
        scale = None if exact[0].scale is None else exact[0].scale.new_empty(len(rows))
        hidden = torch.zeros(len(rows), dtype=torch.bool, device=rows.device)
        for i, part in enumerate(exact):
            at = torch.nonzero(of == i).flatten()
            vectors[at] = part.vectors[local[at]]
            if scale is not None and part.scale is not None:
                scale[at] = part.scale[local[at]]
            if part.hidden is not None:
                hidden[at] = part.hidden[local[at]]
        return ExactIndex(vectors, scale, hidden if bool(hidden.any()) else None)

    def compact(self) -> "Whole":
        """One index over all rows, of the kind that this one began as."""
        rows = rows_of(_joined(self.segments).index)
        first = self.segments[0].index
        if isinstance(first, ExactIndex):
            return rows
        options = {name: value for name, value in first.options.items() if value is not None}
        return type(first).build(first.kind, rows.vectors, rows.scale, rows.hidden, **options)

    @property
    def kind(self) -> str:
        return self.segments[0].index.kind

    @property
    def size(self) -> int:
        return self.segment.shape[0]

    @property
    def dimension(self) -> int:
        return self.segments[0].index.dimension

    @cached_property
    def hides(self) -> bool:
        """Whether some rows are never returned."""
        return any(rows_of(s.index).hides and bool(((s.shown < 0) & (s.row >= 0)).any()) for s in self.segments)

    @property
    def error(self) -> float:
        """A bound on |approximate - exact distance|."""
        return max(s.index.error for s in self.segments)

    @property
    def hidden(self) -> torch.Tensor:
        """(V,) bool rows that are never returned."""
        out = torch.ones(self.size, dtype=torch.bool, device=self.segment.device)
        for s in self.segments:
            out[s.shown[s.shown >= 0].long()] = False
        return out

    def search(
        self,
        queries: torch.Tensor,
        k: int,
        allowed: torch.Tensor | None = None,
        allowed_row: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The k nearest rows of each query; arguments and results as in `ExactIndex.search`."""
        k = min(k, self.size)
        rows, distances = [], []
        for s in self.segments:
            if not s.size and len(self.segments) > 1:
                continue
            mask = None if allowed is None else allowed[:, s.row.clamp(min=0).long()].contiguous()
            near, distance = s.live.search(queries, min(k, s.size), mask, allowed_row)
            inside = s.row[near.clamp(min=0).long()] if s.row.shape[0] else near
            rows.append(torch.where(near < 0, GONE, inside))
            distances.append(distance)
        row, distance = torch.cat(rows, dim=1), torch.cat(distances, dim=1)
        if len(rows) > 1:
            # distances aren't negative, so the bits of a float32 ascend with it; 0.0 is added for those of -0.0
            key = ((distance + 0.0).view(torch.int32).long() << 32) | row.long()
            order = key.sort(dim=1).indices[:, :k]
            row, distance = row.gather(1, order), distance.gather(1, order)
        return torch.where(row == GONE, -1, row).int(), distance

    def outranked(self, queries: torch.Tensor, distance: torch.Tensor, wide: torch.Tensor) -> torch.Tensor | None:
        """As `ExactIndex.outranked`: the first segment's rows say it alone, where they can."""
        first = self.segments[0].live
        return first.outranked(queries, distance, wide) if isinstance(first, ExactIndex) else None

    def pairs(self, queries: torch.Tensor, query: torch.Tensor, row: torch.Tensor) -> torch.Tensor:
        """(P,) float32 exact distances of (query, row) pairs; +inf for hidden rows."""
        out = torch.empty(query.shape[0], device=queries.device)
        of, local = self.segment[row.long()], self.local[row.long()]
        for i, s in enumerate(self.segments):
            at = torch.nonzero(of == i).flatten()
            out[at] = s.index.pairs(queries, query[at].contiguous(), local[at].contiguous())
        return out

    def least_distances(self, queries: torch.Tensor, indptr: torch.Tensor, row: torch.Tensor) -> torch.Tensor:
        """As `ExactIndex.least_distances`, but that hidden rows may count or not."""
        query = torch.repeat_interleave(torch.arange(queries.shape[0], device=row.device), indptr.diff())
        out = torch.full((queries.shape[0],), torch.inf, device=row.device)
        return out.scatter_reduce_(0, query, self.pairs(queries, query.int(), row), "amin")

    def approximate(self, queries: torch.Tensor) -> torch.Tensor:
        """(B, V) float32 distances within `error` of the exact ones; +inf for hidden rows."""
        out = torch.empty(queries.shape[0], self.size, device=queries.device)
        if self.enter(queries, out, None):
            return out
        for s in self.segments:
            self._columns(out, s, s.index.approximate(queries))
        return out

    def dense(self, queries: torch.Tensor) -> torch.Tensor:
        """(B, V) float32 exact distances; +inf for hidden rows."""
        out = torch.empty(queries.shape[0], self.size, device=queries.device)
        for s in self.segments:
            self._columns(out, s, s.index.dense(queries))
        return out

    def enter(self, queries: torch.Tensor, out: torch.Tensor, owner: torch.Tensor | None) -> bool:
        """Enter approximate distances in the columns of the rows' owners; see `ExactIndex.enter`."""
        if queries.device.type != "cpu" or any(rows_of(s.index).scale is not None for s in self.segments):
            return False
        if owner is None:
            out.fill_(torch.inf)
        for s in self.segments:
            at = s.shown
            if owner is not None and owner.shape[0]:
                at = torch.where(at < 0, -1, owner[at.clamp(min=0).long()])
            dense(rows_of(s.index).vectors, queries, out, at)
        return True

    def to(self, device: torch.device) -> "SegmentedIndex":
        moved = tuple(Segment(s.index.to(device), s.row.to(device)) for s in self.segments)
        return SegmentedIndex(moved, self.segment.to(device), self.local.to(device))

    def save(self, folder: Path, *, codes: bool = False) -> None:
        """Write what one index over all rows writes; `codes` for exact ones, see `ExactIndex.save`."""
        whole = self.compact()
        if isinstance(whole, ExactIndex):
            whole.save(folder, codes=codes)
        else:
            whole.save(folder)

    def _columns(self, out: torch.Tensor, segment: Segment, got: torch.Tensor) -> None:
        kept = torch.nonzero(segment.row >= 0).flatten()
        out[:, segment.row[kept].long()] = got[:, kept]


def _push(segments: list[Segment], new: Segment) -> None:
    """Add a segment, merged with the last ones as long as they are small or no larger."""
    while len(segments) > 1 and segments[-1].size <= max(new.size, SMALL):
        new = _joined([segments.pop(), new])
    segments.append(new)


def _through(row: torch.Tensor, inner: torch.Tensor) -> torch.Tensor:
    if not row.shape[0]:
        return torch.full_like(inner, -1)
    if row.device.type == "cpu":
        return renumbered(inner.contiguous(), row)
    return torch.where(inner < 0, -1, row[inner.clamp(min=0).long()])


def _mapped(segments: tuple[Segment, ...], size: int) -> SegmentedIndex:
    device = segments[0].row.device
    if device.type == "cpu":
        return SegmentedIndex(segments, *located([s.row for s in segments], size))
    segment = torch.zeros(size, dtype=torch.int16, device=device)
    local = torch.zeros(size, dtype=torch.int32, device=device)
    for i, s in enumerate(segments):
        kept = torch.nonzero(s.row >= 0).flatten()
        at = s.row[kept].long()
        segment[at] = i
        local[at] = kept.int()
    return SegmentedIndex(segments, segment, local)


def _joined(segments: Sequence[Segment]) -> Segment:
    """One segment with the rows of several that aren't gone, in the collection's order."""
    kept = [torch.nonzero(s.row >= 0).flatten() for s in segments]
    row = torch.cat([s.row[k] for s, k in zip(segments, kept, strict=True)])
    order = torch.argsort(row)
    exact = [rows_of(s.index) for s in segments]

    def joined(parts: list[torch.Tensor]) -> torch.Tensor:
        out = torch.cat([p[k] for p, k in zip(parts, kept, strict=True)])
        return out[order] if len(parts) > 1 else out

    scale = None if exact[0].scale is None else joined([e.scale for e in exact if e.scale is not None])
    hidden = None
    if any(e.hidden is not None for e in exact):
        hidden = joined([torch.zeros_like(s.row, dtype=torch.bool) if e.hidden is None else e.hidden
                         for s, e in zip(segments, exact, strict=True)])  # fmt: skip
    return Segment(ExactIndex.build(joined([e.vectors for e in exact]), scale, hidden), row[order])


def segmented(index: "Index") -> "SegmentedIndex | None":
    """An index that can change; None for one that can't (`RawIndex`)."""
    if isinstance(index, SegmentedIndex):
        return index
    if isinstance(index, ExactIndex):
        return SegmentedIndex.of(index)
    from tercet.index.approx import FaissIndex

    return SegmentedIndex.of(index) if isinstance(index, FaissIndex) else None
