"""External ids: one canonical string for each, whatever kind it came as."""

import uuid
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tercet.errors import InvalidData
from tercet.sorted_text import positions


def canonical(value: Any, place: str) -> str:
    """The string an id is known by: text as it is, integers in decimal, UUIDs hyphenated in lower case.

    Raises:
        InvalidData: the value is of another kind (floats would round, booleans and None name nothing).
    """
    if isinstance(value, str):
        return value
    if isinstance(value, (int, np.integer)) and not isinstance(value, (bool, np.bool_)):
        return str(int(value))
    if isinstance(value, uuid.UUID):
        return str(value)
    raise InvalidData(f"{place}: an id must be a string, an integer or a UUID, got {value!r} ({type(value).__name__})")


def canonical_ids(values: Any, place: str) -> pa.LargeStringArray:
    """Ids of any accepted kind as one Arrow column of strings.

    Args:
        values: an Arrow array of strings or integers, or any iterable of strings, integers and UUIDs (mixed is fine).
        place: names the column in error messages, such as "nodes.id".

    Returns:
        large_string of the same length; nulls stay null, so the caller can refuse or skip those rows.

    Raises:
        InvalidData: a value of another kind, or a string that isn't valid Unicode.
    """
    if isinstance(values, (pa.Array, pa.ChunkedArray)):
        column = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        kind = column.type
        if pa.types.is_large_string(kind):
            return column
        if pa.types.is_string(kind) or pa.types.is_string_view(kind) or pa.types.is_integer(kind):
            return column.cast(pa.large_string())
        if pa.types.is_null(kind):
            return pa.nulls(len(column), pa.large_string())
        raise InvalidData(f"{place}: ids must be strings or integers, got an Arrow column of {kind}")
    if isinstance(values, np.ndarray) and np.issubdtype(values.dtype, np.integer):
        return pa.array(values).cast(pa.large_string())
    texts = [None if v is None else canonical(v, f"{place} row {i}") for i, v in enumerate(_objects(values))]
    return text_column(texts, place)


def text_column(values: Iterable[str | None], place: str) -> pa.LargeStringArray:
    """Python strings as an Arrow column.

    Raises:
        InvalidData: names the first row whose text can't be stored as UTF-8 (a lone surrogate) or isn't a string.
    """
    rows = values if isinstance(values, list) else list(values)
    try:
        return pa.array(rows, pa.large_string())
    except (pa.ArrowInvalid, pa.ArrowTypeError, UnicodeEncodeError) as error:
        for i, value in enumerate(rows):
            if value is None:
                continue
            if not isinstance(value, str):
                raise InvalidData(f"{place} row {i}: expected text, got {value!r} ({type(value).__name__})") from error
            try:
                value.encode()
            except UnicodeEncodeError as bad:
                raise InvalidData(f"{place} row {i}: not valid Unicode ({bad.reason} at {bad.start})") from bad
        raise


class IdIndex:
    """Finds the rows of external ids in a column of distinct strings.

    Few ids are found by bisection in the sorted column, many by one hash join; no Python object is kept per id.
    """

    def __init__(self, ids: pa.LargeStringArray, *, is_sorted: bool, order: np.ndarray | None = None) -> None:
        self.ids = ids
        if order is None and not is_sorted:
            order = np.asarray(pc.sort_indices(ids)).astype(np.int32)
        self.order = order  # (n,) int32 rows ascending by id; None: they do so already

    def rows(self, wanted: pa.LargeStringArray) -> np.ndarray:
        """(len(wanted),) int32 rows, -1 where an id is unknown or null."""
        if len(wanted) == len(self.ids) and wanted.equals(self.ids):  # all in order, as owners of vectors often are
            return np.arange(len(wanted), dtype=np.int32)
        if len(wanted) * 24 < len(self.ids):
            return self.few(wanted)
        found = pc.index_in(wanted, value_set=self.ids, skip_nulls=True)
        return np.array(pc.fill_null(found, -1), np.int32)

    def few(self, wanted: pa.LargeStringArray) -> np.ndarray:
        """The same by bisection, which costs what is wanted."""
        place, found = positions(self.ids, wanted.fill_null("") if wanted.null_count else wanted, self.order)
        row = place if self.order is None or not len(self.ids) else self.order[np.minimum(place, len(self.ids) - 1)]
        return np.where(found & np.asarray(wanted.is_valid()), row, -1).astype(np.int32)


def _objects(values: Any) -> list[Any]:
    tolist = getattr(values, "tolist", None)
    return list(tolist()) if callable(tolist) else list(values)
