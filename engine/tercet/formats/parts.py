"""Node and edge tables put together from several files: what the importers of other systems' folders share."""

import csv
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from tercet.errors import InvalidArgument, InvalidData
from tercet.formats.imported import SourceReport
from tercet.ids import text_column

RELATED = "related to"  # of an edge whose source names no relation
MENTIONED = "mentioned in"  # from what was extracted to the chunk it was read in
PART = "part of"  # from a chunk to its document, from a community to the one above
MEMBER = "member of"  # from an entity to its community
REPORTS = "reports on"  # from a report to its community
CHUNK, DOCUMENT, ENTITY, COMMUNITY, REPORT = "DocumentChunk", "Document", "Entity", "Community", "CommunityReport"
RELATION_VECTORS = "EdgeType_relationship_name"  # the collection of edge texts
SHOWN = 3  # pairs of rows named in a message
BLOCK_BYTES = 1 << 24  # a CSV row has to fit into one


@dataclass
class Parts:
    """Rows from several files, to become one table.

    Columns that a file lacks are null in its rows; columns of one name whose kinds differ between files become text.
    """

    kind: str  # "nodes" or "edges"
    needed: tuple[str, ...]
    tables: list[pa.Table] = field(default_factory=list)
    places: list[tuple[str, Sequence[int]]] = field(default_factory=list)  # file and row numbers of each table

    def add(self, file: str, columns: dict[str, Any], rows: Sequence[int] | None = None) -> None:
        """Add rows.

        Args:
            file: where they come from, for messages.
            columns: lists or Arrow columns of one length; what holds nothing at all is left out.
            rows: their numbers in the file, from 1; None: all of them in order.

        Raises:
            InvalidData: a text that isn't valid Unicode, or values that mix kinds.
        """
        made = {name: as_column(values, f"{file} column '{name}'") for name, values in columns.items()}
        kept = {n: c for n, c in made.items() if n in self.needed or not (pa.types.is_null(c.type) and len(c))}
        table = pa.table(kept)
        self.tables.append(table)
        self.places.append((file, range(1, table.num_rows + 1) if rows is None else rows))

    def table(self, *, ids: str | None = None) -> pa.Table:
        """One table of all rows.

        Args:
            ids: a column whose values have to be distinct and present.

        Raises:
            InvalidData: an id is missing or there twice; names the file and the row of both.
        """
        agreed = _agreed(self.tables)
        tables = [_cast(t, agreed) for t in self.tables]
        blank = pa.table({name: pa.array([], pa.large_string()) for name in self.needed})
        out = pa.concat_tables([blank, *tables], promote_options="permissive").combine_chunks()
        if ids is not None:
            self._check_ids(out.column(ids))
        return out

    def place(self, row: int) -> str:
        """The file and the row of a row of the whole table."""
        for (file, rows), table in zip(self.places, self.tables, strict=True):
            if row < table.num_rows:
                return f"{file}:{rows[row]}"
            row -= table.num_rows
        raise IndexError(row)

    def _check_ids(self, column: pa.ChunkedArray) -> None:
        missing = np.flatnonzero(np.asarray(pc.is_null(column)))
        if len(missing):
            raise InvalidData(f"{self.place(int(missing[0]))}: no id ({len(missing)} such rows)")
        codes = np.asarray(pc.dictionary_encode(column.combine_chunks()).indices)
        order = np.argsort(codes, kind="stable")
        again = np.flatnonzero(codes[order][1:] == codes[order][:-1]) + 1
        if len(again):
            shown = "; ".join(
                f"{column[int(order[i])].as_py()!r} in {self.place(int(order[i - 1]))} and {self.place(int(order[i]))}"
                for i in again[:SHOWN]
            )
            raise InvalidData(f"{self.kind}: {len(again)} ids are there twice: {shown}")


def as_column(values: Any, place: str) -> pa.Array:
    """Values as a column: text as large_string, lists of text as such lists, structs and other lists as JSON text.

    Raises:
        InvalidData: a text that isn't valid Unicode, or values that mix kinds.
    """
    if not isinstance(values, (pa.Array, pa.ChunkedArray)):
        values = list(values)
        first = next((v for v in values if v is not None), None)
        if isinstance(first, str):
            return text_column(values, place)
        if isinstance(first, list):
            return _text_lists(values, place)
        if isinstance(first, dict):
            return text_column([None if v is None else json.dumps(v, ensure_ascii=False) for v in values], place)
        try:
            return pa.array(values)
        except (pa.ArrowException, OverflowError) as error:
            raise InvalidData(f"{place}: the values are of several kinds: {error}") from error
    column = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    if isinstance(column, pa.ChunkedArray):  # one of no chunks at all
        column = pa.array([], column.type)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    kind = column.type
    if is_text(kind):
        return column.cast(pa.large_string())
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        if is_text(kind.value_type) or pa.types.is_null(kind.value_type):
            empty = pa.types.is_null(kind.value_type)
            return pa.nulls(len(column)) if empty else column.cast(pa.list_(pa.large_string()))
        return text_column(_json_texts(column), place)
    return text_column(_json_texts(column), place) if pa.types.is_struct(kind) else column


def is_text(kind: pa.DataType) -> bool:
    """Whether an Arrow type is one of the string types."""
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


def read_parquet(path: Path, needed: Iterable[str] = ()) -> pa.Table:
    """A Parquet file with the needed columns.

    Raises:
        InvalidArgument: no such file.
        InvalidData: damaged, or a column is missing.
    """
    if not path.is_file():
        raise InvalidArgument(f"{path}: no such file")
    try:
        table = pyarrow.parquet.ParquetFile(path).read()
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise InvalidData(f"{path}: not a readable Parquet file: {error}") from error
    return _with(table, needed, path)


def read_csv(path: Path, needed: Iterable[str] = ()) -> pa.Table:
    """A CSV file with the needed columns, all of them text; fields in quotes may span lines, empty fields are null.

    Raises:
        InvalidData: damaged (with the row), not UTF-8, or a column is missing.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            header = next(csv.reader(stream), None)
        if header is None:
            raise InvalidData(f"{path}: expected a header line, got an empty file")
        with path.open("rb") as raw:  # Arrow takes a field that the end of the file cuts short for a whole one
            if sum(block.count(b'"') for block in iter(lambda: raw.read(BLOCK_BYTES), b"")) % 2:
                raise InvalidData(f"{path}: the last field in quotes isn't closed; was the file cut short?")
        table = pyarrow.csv.read_csv(
            path,
            read_options=pyarrow.csv.ReadOptions(block_size=BLOCK_BYTES),
            parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True),
            convert_options=pyarrow.csv.ConvertOptions(
                column_types=dict.fromkeys(header, pa.string()), null_values=[""], strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )  # fmt: skip
    except (pa.ArrowException, OSError, UnicodeDecodeError, csv.Error) as error:
        raise InvalidData(f"{path}: {error}") from error
    return _with(table, needed, path)


def read_json(path: Path) -> Any:
    """The value of a JSON file.

    Raises:
        InvalidArgument: no such file.
        InvalidData: not JSON (with line and column; a file cut short is one), nested too deeply, or not UTF-8.
    """
    if not path.is_file():
        raise InvalidArgument(f"{path}: no such file")
    try:
        return json.loads(path.read_text("utf-8-sig"))
    except json.JSONDecodeError as error:
        raise InvalidData(f"{path} line {error.lineno} column {error.colno}: not valid JSON: {error.msg}") from error
    except UnicodeDecodeError as error:
        raise InvalidData(f"{path} byte {error.start}: not valid UTF-8: {error.reason}") from error
    except RecursionError as error:
        raise InvalidData(f"{path}: nested too deeply") from error


def vector_rows(column: Any, file: str, report: SourceReport) -> tuple[np.ndarray, np.ndarray]:
    """The vectors of a list column.

    Returns:
        (V, D) float32 and the (V,) rows that have one; rows without are counted in the report.

    Raises:
        InvalidData: not lists of numbers, or of different lengths (names two rows).
    """
    held = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    lists = pa.types.is_list(held.type) or pa.types.is_large_list(held.type) or pa.types.is_fixed_size_list(held.type)
    if not lists:
        raise InvalidData(f"{file}: expected a column of vectors, got {held.type}")
    lengths = np.asarray(pc.fill_null(pc.list_value_length(held), 0)).astype(np.int64)
    kept = np.flatnonzero(lengths)
    report.note("row without a vector", [f"{file}:{i + 1}" for i in np.flatnonzero(lengths == 0)])
    if not len(kept):
        return np.zeros((0, 0), np.float32), kept
    odd = kept[lengths[kept] != lengths[kept[0]]]
    if len(odd):
        raise InvalidData(
            f"{file}:{odd[0] + 1}: a vector of {lengths[odd[0]]} numbers, but that of row {kept[0] + 1} has "
            f"{lengths[kept[0]]}"
        )
    flat = pc.list_flatten(held.take(pa.array(kept)))
    if flat.null_count:
        first = int(np.flatnonzero(np.asarray(pc.is_null(flat)))[0]) // int(lengths[kept[0]])
        raise InvalidData(f"{file}:{kept[first] + 1}: a number of the vector is missing")
    try:
        return np.asarray(flat.cast(pa.float32(), safe=False)).reshape(len(kept), -1), kept
    except (pa.ArrowException, ValueError) as error:
        raise InvalidData(f"{file}: expected vectors of numbers: {error}") from error


def lookup(wanted: Any, known: Any) -> np.ndarray:
    """(len(wanted),) int64 first rows of texts in a column of texts, -1 where one is null or unknown."""
    if not len(wanted):
        return np.zeros(0, np.int64)
    texts = as_column(wanted, "wanted")
    if pa.types.is_null(texts.type):
        return np.full(len(texts), -1, np.int64)
    found = pc.index_in(texts, value_set=as_column(known, "known").cast(pa.large_string()), skip_nulls=True)
    return np.asarray(pc.fill_null(found, -1)).astype(np.int64)


def prefixed(prefix: str, column: Any) -> pa.Array:
    """The texts with something in front; nulls stay null."""
    texts = column.cast(pa.large_string())
    front, nothing = (pa.scalar(text, pa.large_string()) for text in (prefix, ""))
    return pc.binary_join_element_wise(front, texts, nothing)


def exploded(column: Any) -> tuple[np.ndarray, pa.Array]:
    """(row of each element, elements) of a list column."""
    held = as_column(column, "lists")
    if pa.types.is_null(held.type):
        return np.zeros(0, np.int64), pa.array([], pa.large_string())
    lengths = np.asarray(pc.fill_null(pc.list_value_length(held), 0))
    return np.repeat(np.arange(len(held)), lengths), pc.list_flatten(held)


def labels(kind: str, types: Iterable[str | None]) -> list[list[str]]:
    """The labels of nodes of a kind with types of their own."""
    return [[kind, t] if t and t != kind else [kind] for t in types]


def _agreed(tables: list[pa.Table]) -> dict[str, pa.DataType]:
    """The types of columns whose tables don't agree on one: a number if all are numbers, else text."""
    seen: dict[str, set[pa.DataType]] = {}
    for table in tables:
        for column in table.schema:
            if not pa.types.is_null(column.type):
                seen.setdefault(column.name, set()).add(column.type)
    out = {}
    for name, kinds in seen.items():
        if len(kinds) > 1:
            numeric = all(pa.types.is_integer(k) or pa.types.is_floating(k) for k in kinds)
            whole = all(pa.types.is_integer(k) for k in kinds)
            out[name] = pa.int64() if whole else pa.float64() if numeric else pa.large_string()
    return out


def _cast(table: pa.Table, agreed: dict[str, pa.DataType]) -> pa.Table:
    for name in set(table.column_names) & set(agreed):
        column, kind = table.column(name), agreed[name]
        if pa.types.is_nested(column.type):
            column = text_column(_json_texts(column), name)
        table = table.set_column(table.column_names.index(name), name, column.cast(kind))
    return table


def _json_texts(column: Any) -> list[str | None]:
    return [None if v is None else json.dumps(v, ensure_ascii=False, default=str) for v in column.to_pylist()]


def _text_lists(values: list[Any], place: str) -> pa.Array:
    flat: list[str | None] = []
    offsets: list[int | None] = []
    for i, row in enumerate(values):
        if row is not None and not isinstance(row, list):
            raise InvalidData(f"{place} row {i}: expected a list, got {row!r}")
        offsets.append(None if row is None else len(flat))
        flat += [v if v is None or isinstance(v, str) else json.dumps(v, ensure_ascii=False) for v in row or ()]
    return pa.ListArray.from_arrays(pa.array([*offsets, len(flat)], pa.int32()), text_column(flat, place))


def _with(table: pa.Table, needed: Iterable[str], path: Path) -> pa.Table:
    missing = [name for name in needed if name not in table.column_names]
    if missing:
        raise InvalidData(f"{path}: expected the columns {', '.join(missing)}, got {table.column_names}")
    return table
