"""Vectors of passages and of the parts of facts, by the nodes and relations that they belong to."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from tercet.candidates import Bound
from tercet.collection import Collection
from tercet.errors import InvalidArgument
from tercet.index.raw import RawIndex
from tercet.index.segmented import SegmentedIndex, rows_of
from tercet.multihop.lists import Lists, expanded, taken
from tercet_kernels.cosine import pair_distances


@dataclass(frozen=True, eq=False)
class PassageVectors:
    """The collection that has vectors of the passages, and its rows of each."""

    bound: Bound
    rows: Lists  # of each passage; one without a vector has none

    @cached_property
    def table(self) -> torch.Tensor:
        """(V, D) float32 the collection's vectors on the host."""
        return torch.from_numpy(vectors_of(self.bound.collection))

    def nearest(self, queries: torch.Tensor, query: np.ndarray, passage: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The row of each passage that is nearest to its query, by the distances of the engine's searches.

        Args:
            queries: (b, D) float32 of unit norm, on the host.
            query, passage: (T,) int64.

        Returns:
            row (T,) int64, -1 for a passage without a vector, the first of several as near; similarity (T,) float64,
            0 without a row.
        """
        at, row = expanded(self.rows, passage)
        device = self.bound.owner.device
        given = (torch.from_numpy(x.astype(np.int32)).to(device) for x in (query[at], row))
        distance = self.bound.collection.index.pairs(queries.to(device), *given).cpu().numpy()
        kept = np.flatnonzero(np.isfinite(distance))  # a vector of zeros is never found
        at, row, distance = at[kept], row[kept], distance[kept]
        if not self.bound.distinct:
            order = np.lexsort((distance, at))
            order = order[np.diff(at[order], prepend=-1) > 0]
            at, row, distance = at[order], row[order], distance[order]
        best, similarity = np.full(len(query), -1, np.int64), np.zeros(len(query))
        best[at] = row
        similarity[at] = 1.0 - distance.astype(np.float64)
        return best, similarity

    def between(self, one: np.ndarray, two: np.ndarray) -> np.ndarray:
        """(X,) float64 cosine of two rows each; 0 where one is -1."""
        out = np.zeros(len(one))
        has = np.flatnonzero((one >= 0) & (two >= 0))
        left, right = (torch.from_numpy(x[has].astype(np.int32)) for x in (one, two))
        out[has] = 1.0 - pair_distances(self.table, self.table, left, right).double().numpy()
        return out


def passage_vectors(bound: Sequence[Bound], passage: np.ndarray, num_nodes: int) -> PassageVectors:
    """The vectors of the node collection that has some of most passages; of several, the first.

    Args:
        passage: (P,) int32 node rows.

    Raises:
        InvalidArgument: no collection has any, or it keeps vectors as they were given.
    """
    found = covering(bound, passage, num_nodes)
    if found is None:
        names = ", ".join(b.collection.name for b in bound) or "none"
        raise InvalidArgument(f"passage_search: no collection has vectors of passages; there are {names}")
    _check_unit(found.collection)
    indptr, row = (x.cpu().numpy() for x in found.by_owner)
    return PassageVectors(found, taken((indptr, row), passage))


def covering(bound: Sequence[Bound], nodes: np.ndarray, num_nodes: int) -> Bound | None:
    """The node collection that has vectors of most of the nodes, the first of several; None if none has any."""
    best, most = None, 0
    for b in bound:
        if b.collection.kind == "node":
            count = int((first_rows(b, num_nodes)[nodes] >= 0).sum())
            if count > most:
                best, most = b, count
    return best


def first_rows(b: Bound, size: int) -> np.ndarray:
    """(size,) int32 the first row of each owner, -1 without one."""
    out = np.full(size, -1, np.int32)
    indptr, row = (x.cpu().numpy() for x in b.by_owner)
    has = np.flatnonzero(np.diff(indptr)[:size])
    out[has] = row[indptr[has]]
    return out


def vectors_of(collection: Collection) -> np.ndarray:
    """(V, D) float32 vectors of unit norm of a collection, on the host; shared with it where they are kept like that.

    Raises:
        InvalidArgument: the index keeps vectors as they were given.
    """
    index = collection.index
    _check_unit(collection)
    exact = index.picked(torch.arange(index.size, device=index.segment.device)) if isinstance(
        index, SegmentedIndex) else rows_of(index)  # type: ignore[arg-type]  # fmt: skip
    vectors, scale = exact.vectors, exact.scale
    wide = vectors.float() if scale is None else (vectors.double() * scale[:, None]).float()
    return wide.cpu().contiguous().numpy()


def _check_unit(collection: Collection) -> None:
    if isinstance(collection.index, RawIndex):
        raise InvalidArgument(
            f"passage_search: expected vectors of unit norm, collection {collection.name!r} keeps them as given"
        )
