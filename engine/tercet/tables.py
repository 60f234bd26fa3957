"""Columns from the tables that users hold: pyarrow, pandas, polars, anything with the Arrow interface, or a dict."""

import mmap
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tercet.errors import InvalidArgument, InvalidData
from tercet.ids import text_column

SHOWN = 5  # rows named for each kind of problem in a message


@dataclass
class ImportReport:
    """What an import took and what it left out.

    `problems` maps a kind of problem to (count, first row numbers); `rows` are 0-based positions in the given table.
    """

    nodes: int = 0
    edges: int = 0
    merged_edges: int = 0
    skipped_nodes: list[int] = field(default_factory=list)
    skipped_edges: list[int] = field(default_factory=list)
    problems: dict[str, tuple[int, list[int]]] = field(default_factory=dict)

    def note(self, problem: str, rows: np.ndarray) -> None:
        """Record rows with a problem; nothing happens for an empty array."""
        if len(rows):
            self.problems[problem] = (len(rows), [int(r) for r in rows[:SHOWN]])

    def __str__(self) -> str:
        lines = [f"{self.nodes} nodes, {self.edges} edges ({self.merged_edges} repeated edges merged)"]
        for problem, (count, first) in self.problems.items():
            lines.append(f"{problem}: {count} row{'s' * (count > 1)}, first {', '.join(map(str, first))}")
        return "\n".join(lines)


def one_piece(column: pa.ChunkedArray) -> pa.Array:
    """A column as one array, which is a copy only where it is in several pieces: `combine_chunks` always copies."""
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def no_texts(count: int) -> pa.LargeStringArray:
    """Nulls that take no memory: their offsets and marks are zeros that nobody writes, so the system fills no page."""
    size = 8 * (count + 1)
    private = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_PRIVATE") else {}  # not on Windows
    zeros = pa.py_buffer(mmap.mmap(-1, size, **private))  # memory of an allocator may have been used before
    return pa.LargeStringArray.from_buffers(count, zeros, pa.py_buffer(b""), zeros, count)


def as_columns(table: Any, place: str) -> dict[str, Any]:
    """The columns of a table by name; a dict keeps its values as they are (lists may mix kinds of ids).

    Raises:
        InvalidArgument: not a table.
        InvalidData: columns of unequal length.
    """
    if isinstance(table, Mapping):
        columns = dict(table)
    elif isinstance(table, (pa.Table, pa.RecordBatch)):
        columns = {name: table.column(name) for name in table.schema.names}
    elif hasattr(table, "dtypes") and hasattr(table, "iloc"):  # pandas: object columns may mix kinds, so stay lists
        columns = {
            str(name): table[name].tolist() if table[name].dtype == object else pa.array(table[name], from_pandas=True)
            for name in table.columns
        }
    elif hasattr(table, "__arrow_c_stream__"):
        arrow = pa.table(table)
        columns = {name: arrow.column(name) for name in arrow.schema.names}
    else:
        raise InvalidArgument(
            f"{place}: expected a pyarrow, pandas or polars table or a dict of columns, got {type(table).__name__}"
        )
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        raise InvalidData(f"{place}: columns of unequal length: {lengths}")
    return columns


def texts(values: Any, place: str) -> pa.LargeStringArray:
    """A column of text, nulls kept.

    Raises:
        InvalidData: names the first row that isn't text.
    """
    if isinstance(values, (pa.Array, pa.ChunkedArray)):
        column = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        if pa.types.is_nested(column.type) or pa.types.is_binary(column.type):
            raise InvalidData(f"{place}: expected text, got an Arrow column of {column.type}")
        return column if pa.types.is_large_string(column.type) else column.cast(pa.large_string())
    if isinstance(values, np.ndarray):
        values = values.tolist()
    return text_column(values, place)


def numbers(values: Any, place: str) -> tuple[np.ndarray, np.ndarray]:
    """A column of numbers as float64.

    Returns:
        (values, bad): NaN where the value is missing, and a mask of the rows that hold something else than a number
        (text, booleans, NaN itself).
    """
    if isinstance(values, (pa.Array, pa.ChunkedArray)):
        column = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
        kind = column.type
        if pa.types.is_null(kind):
            return np.full(len(column), np.nan), np.zeros(len(column), bool)
        if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
            known = np.asarray(pc.is_valid(column))
            got = np.asarray(pc.fill_null(column.cast(pa.float64()), np.nan))
            return got, known & np.isnan(got)
        values = column.to_pylist()
    if isinstance(values, np.ndarray) and values.dtype.kind in "iuf":
        got = values.astype(np.float64)
        return got, np.isnan(got)
    out = np.full(len(values), np.nan)
    bad = np.zeros(len(values), bool)
    for i, value in enumerate(values):
        if value is None:
            continue
        if isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool):
            out[i] = value
            bad[i] = out[i] != out[i]
        else:
            bad[i] = True
    return out, bad


def name_lists(values: Any, place: str) -> tuple[np.ndarray, pa.LargeStringArray]:
    """A column of lists of names (`belongs_to_set`) as offsets and one flat column; a null is an empty list.

    Raises:
        InvalidData: a row is neither a list of text nor null.
    """
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if not isinstance(values, pa.Array):
        for i, row in enumerate(values):
            if isinstance(row, str) or not (row is None or hasattr(row, "__iter__")):
                raise InvalidData(f"{place} row {i}: expected a list of names, got {row!r}")
        try:
            values = pa.array([None if row is None else list(row) for row in values], pa.large_list(pa.large_string()))
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise InvalidData(f"{place}: expected lists of names: {error}") from error
    if pa.types.is_null(values.type):
        return np.zeros(len(values) + 1, np.int64), pa.array([], pa.large_string())
    if not pa.types.is_list(values.type) and not pa.types.is_large_list(values.type):
        raise InvalidData(f"{place}: expected lists of names, got an Arrow column of {values.type}")
    lengths = np.asarray(pc.fill_null(pc.list_value_length(values), 0))
    indptr = np.zeros(len(values) + 1, np.int64)
    np.cumsum(lengths, out=indptr[1:])
    return indptr, pc.list_flatten(values).cast(pa.large_string())
