"""A collection after some of its rows have gone and others have come."""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch

from tercet.collection import Collection
from tercet.errors import DimensionMismatch
from tercet.ids import canonical_ids
from tercet.index.raw import RawIndex
from tercet.index.segmented import SegmentedIndex, segmented
from tercet.normalise import fold
from tercet.sorted_text import positions
from tercet.splice import Splice

SORTED = "_sorted_by_owner"  # kept with a collection under this name


class Moved(NamedTuple):
    """A changed collection, and where its rows come from."""

    collection: Collection
    splice: Splice


def added_rows(collection: Collection, vectors: Any, owner: Any, *, strip: bool) -> Collection:
    """Rows for a collection, checked and brought to unit norm as at `Collection.build`.

    Raises:
        DimensionMismatch: names the collection and both widths.
        InvalidData: see `Collection.build`.
    """
    index, place = collection.index, f"collection {collection.name!r}"
    order = "canonical" if _by_owner(collection) else "input"
    fold_owner = collection.kind == "relation"
    if fold_owner and not strip:
        owner, fold_owner = fold(canonical_ids(owner, f"{place}: owner")), False
    half = getattr(_rows(index), "dtype", None) == torch.float16
    made = Collection.build(
        collection.name, vectors, owner, collection.kind, dtype="float16" if half else "float32",
        order=order, fold_owner=fold_owner, zero_vectors="hide" if index.hides else "worst",  # type: ignore[arg-type]
        fingerprint=collection.fingerprint,
    )  # fmt: skip
    if made.size and made.dimension != collection.dimension:
        raise DimensionMismatch(
            f"{place}: expected vectors of dimension {collection.dimension}, got dimension {made.dimension}"
        )
    if isinstance(index, RawIndex):
        made = replace(made, index=RawIndex.build(torch.as_tensor(np.asarray(vectors)), index.metric))
    return made


def rows_of_owners(collection: Collection, owner: pa.LargeStringArray) -> np.ndarray:
    """(G,) int64 the rows that belong to some owners, ascending."""
    if not _by_owner(collection):
        return np.flatnonzero(np.asarray(pc.is_in(collection.owner, value_set=owner), bool))
    owner = owner.unique()
    low, found = positions(collection.owner, owner)
    at = low[found]
    rows = [at]
    while len(at):  # as often as an owner has rows
        at = at[at + 1 < collection.size] + 1
        at = at[
            np.asarray(pc.equal(collection.owner.take(pa.array(at)), collection.owner.take(pa.array(at - 1))), bool)
        ]
        rows.append(at)
    return np.sort(np.concatenate(rows))


def changed_rows(collection: Collection, gone: np.ndarray, added: Collection | None) -> Moved:
    """The collection without some rows and with others.

    Rows of a collection that is sorted by owner go where their owners belong, those of any other to the end. A row that
    came later has no node sets of its own.

    Args:
        gone: (G,) ascending rows; all those of the owners that are added are among them.
    """
    size = collection.size
    new_owner = pa.array([], pa.large_string()) if added is None else added.owner
    sorted_ = _by_owner(collection)
    place = np.full(len(new_owner), size, np.int64)
    if sorted_:
        place, _ = positions(collection.owner, new_owner)  # equal owners are gone, so any place among them is right
    splice = Splice.of(size, gone, place)
    zero = splice.rows(collection.zero_norm.astype(np.int64))
    new_zero = splice.fresh[:0] if added is None else splice.fresh[added.zero_norm]
    sets: dict[str, Any] = {}
    if collection.set_indptr is not None:
        sets = carried_sets(collection, splice.take)
    out = replace(
        collection, index=_index(collection, splice, added), owner=splice.text(collection.owner, new_owner),
        zero_norm=np.sort(np.concatenate([zero[zero >= 0], new_zero])), **sets,
    )  # fmt: skip
    if sorted_:
        out.__dict__[SORTED] = True
    return Moved(out, splice)


def compacted(collection: Collection) -> Collection:
    """The collection with one segment."""
    index = collection.index
    return replace(collection, index=index.compact()) if isinstance(index, SegmentedIndex) else collection


def _by_owner(collection: Collection) -> bool:
    """Whether rows ascend by owner, as those of a canonical collection do; found out once."""
    owner = collection.owner
    if isinstance(collection.index, RawIndex):  # its ties keep the order in which rows were given
        return False
    if SORTED not in collection.__dict__:
        ascending = len(owner) < 2 or bool(pc.all(pc.less_equal(owner[:-1], owner[1:])).as_py())
        collection.__dict__[SORTED] = ascending
    return bool(collection.__dict__[SORTED])


def _rows(index: Any) -> Any:
    if isinstance(index, SegmentedIndex):
        index = index.segments[0].index
    return getattr(index, "vectors", None) if hasattr(index, "vectors") else index.inner.vectors


def _index(collection: Collection, splice: Splice, added: Collection | None) -> Any:
    index = collection.index
    if isinstance(index, RawIndex):
        rows = index.vectors
        if added is not None and isinstance(added.index, RawIndex):
            rows = torch.cat([rows, added.index.vectors.to(rows.device)])
        return RawIndex(rows[torch.from_numpy(splice.take).to(rows.device)], index.metric)
    held = segmented(index)
    assert held is not None
    return held.changed(splice.row, None if added is None else added.index, torch.from_numpy(splice.fresh).int())  # type: ignore[arg-type]


def carried_sets(collection: Collection, take: np.ndarray) -> dict[str, Any]:
    assert collection.set_indptr is not None
    assert collection.set_member is not None
    old = take < collection.size
    size = np.zeros(len(take), np.int64)
    size[old] = np.diff(collection.set_indptr)[take[old]]
    start = np.zeros(len(take), np.int64)
    start[old] = collection.set_indptr[:-1][take[old]]
    indptr = np.zeros(len(take) + 1, np.int64)
    np.cumsum(size, out=indptr[1:])
    inside = np.arange(indptr[-1]) + np.repeat(start - indptr[:-1], size)
    member = collection.set_member.take(pa.array(inside))
    return {"set_indptr": indptr, "set_member": member, "set_names": pc.unique(member)}
