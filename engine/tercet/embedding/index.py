"""The sorted index over the segments of one encoder."""

from itertools import pairwise

import numpy as np

from tercet.embedding.checksum import checksums
from tercet.embedding.segment import Segment

ROWS = 8192  # rows read at a time


class Index:
    """Finds stored vectors by the digest of their text; where there are several, the latest comes first.

    Args:
        segments: of one encoder, oldest first.
    """

    def __init__(self, segments: list[Segment]) -> None:
        self.segments = segments
        counts = [len(s.keys) for s in segments]
        keys = np.concatenate([s.keys["digest"] for s in segments]) if segments else np.empty((0, 2), np.uint64)
        latest = np.arange(len(keys))[::-1]
        order = latest[np.argsort(keys[::-1, 0], kind="stable")]
        self.high, self.low = keys[order, 0], keys[order, 1]  # (M,) uint64 halves of the digests, sorted by `high`
        begin = np.cumsum([0, *counts])
        self.segment = np.repeat(np.arange(len(counts), dtype=np.int32), counts)[order]
        self.row = order - begin[self.segment]
        self.problems: list[str] = []  # what didn't fit its checksum, found by `read`

    def __len__(self) -> int:
        return len(self.high)

    def read(self, digest: np.ndarray, out: np.ndarray) -> np.ndarray:
        """Read the vectors of digests.

        A row that doesn't fit its checksum is passed over, for an earlier one of the same digest if there is one.

        Args:
            digest: (B, 2) uint64.
            out: (B, D) float32; the rows that are found are filled.

        Returns:
            (B,) bool, which are found.

        Raises:
            FileNotFoundError: a segment was removed meanwhile.
        """
        found = np.zeros(len(digest), bool)
        wanted = np.arange(len(digest))
        place = np.searchsorted(self.high, digest[:, 0])
        while len(wanted):
            inside = place < len(self.high)
            wanted, place = wanted[inside], place[inside]
            same = self.high[place] == digest[wanted, 0]
            wanted, place = wanted[same], place[same]
            good = self.low[place] == digest[wanted, 1]
            hit = np.flatnonzero(good)
            good[hit] = self._copy(place[hit], wanted[hit], digest, out)
            found[wanted[good]] = True
            wanted, place = wanted[~good], place[~good] + 1
        return found

    def latest(self) -> np.ndarray:
        """(M,) bool: entries that are the first of their digest."""
        order = np.lexsort((np.arange(len(self)), self.low, self.high))
        first = np.ones(len(self), bool)
        high, low = self.high[order], self.low[order]
        first[order[1:]] = (high[1:] != high[:-1]) | (low[1:] != low[:-1])
        return first

    def _copy(self, place: np.ndarray, wanted: np.ndarray, digest: np.ndarray, out: np.ndarray) -> np.ndarray:
        """Copy the rows at `place` to out[wanted] where they fit their checksums; which do."""
        good = np.zeros(len(place), bool)
        order = np.lexsort((self.row[place], self.segment[place]))
        bounds = np.flatnonzero(np.diff(self.segment[place[order]], prepend=-1, append=-1))
        for low, high in pairwise(bounds):
            segment = self.segments[self.segment[place[order[low]]]]
            rows = segment.rows()
            for start in range(low, high, ROWS):
                chosen = order[start : min(start + ROWS, high)]
                row = self.row[place[chosen]]
                there = row < len(rows)  # fewer where the file was cut
                chosen, row = chosen[there], row[there]
                block, check = rows[row], segment.keys["check"][row]
                sums = checksums(digest[wanted[chosen]], block)
                fits = sums == check
                out[wanted[chosen[fits]]] = block[fits]
                good[chosen] = fits
                self._note(segment, row[~fits], check[~fits], sums[~fits])
        return good

    def _note(self, segment: Segment, row: np.ndarray, check: np.ndarray, sums: np.ndarray) -> None:
        if len(row):
            self.problems.append(
                f"{segment.file}: row {row[0]}: expected checksum {check[0]:016x}, found {sums[0]:016x}; "
                f"{len(row)} row{'s' * (len(row) > 1)} ignored"
            )
