"""CSV files of Neo4j's bulk import, read and written."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from tercet.errors import InvalidArgument, InvalidData
from tercet.formats.imported import Imported, SourceReport
from tercet.formats.neo4j_files import (
    INTEGERS,
    TEXTS,
    Column,
    Group,
    character,
    columns_of,
    find_groups,
    group_of,
    has_rows,
    header_line,
)
from tercet.formats.property_columns import EDGE_ALIASES, NODE_ALIASES, refuse_repeats, rename, table_of
from tercet.formats.records import WEIGHTS
from tercet.formats.tables import BLOCK_BYTES


@dataclass
class _Part:
    """What was read of one file."""

    path: Path
    columns: tuple[Column, ...]
    names: tuple[str, ...]
    values: list[pa.Array]  # one a column
    first_row: int  # of the file's own data


@dataclass
class _Gathered:
    """Rows of nodes or relationships of all files, in order."""

    place: list[str] = field(default_factory=list)  # one a file
    first: list[int] = field(default_factory=list)  # its first row here
    offset: list[int] = field(default_factory=list)  # what its own rows begin with
    fixed: dict[str, list[Any]] = field(default_factory=dict)
    properties: list[dict[str, Any]] = field(default_factory=list)

    def row(self, i: int) -> str:
        at = int(np.searchsorted(self.first, i, side="right")) - 1
        return f"{self.place[at]}:{i - self.first[at] + self.offset[at]}"


def read(
    path: str | Path,
    *,
    nodes: Iterable[Any] | None = None,
    relationships: Iterable[Any] | None = None,
    delimiter: str | None = None,
    array_delimiter: str | None = None,
    quote: str | None = None,
    relation: str | None = None,
    ends: Literal["refuse", "add", "skip"] = "refuse",
) -> Imported:
    """The nodes and edges of the CSV files of a bulk import.

    A file whose header has `:ID` holds nodes, one with `:START_ID` and `:END_ID` relationships. Ids in different id
    spaces may be equal: with more than one space a node's id is "<space>:<id>". The property that an id column names is
    kept, but for `id`. An empty field is null, a quoted empty one an empty text or list. Temporal and spatial values
    stay text. Properties `uri`, `importance_weight`, `feedback_weight`, `belongs_to_set`, and `id` of a relationship,
    are what they say, `properties` may hold JSON objects; where a file has no property `name`, `type`, `text` or
    `description`, what `tables` knows as another name for one is taken.

    Args:
        path: a folder. Without `nodes` and `relationships` its file import.args says what belongs together (options as
            neo4j-admin takes them, one a line), else every .csv file is looked at: a header of its own
            ("movies-header.csv") belongs to the files whose names begin like its name.
        nodes, relationships: groups: a file, or a list of files that begins with the header; names within the folder.
        delimiter, array_delimiter, quote: one character; by default what import.args says, else `,`, `;` and `"`.
        relation: a property that holds the relation of edges; `:TYPE` then becomes the property `type`.
        ends: what happens to relationships whose ends are no nodes: an error, bare nodes added, or left out; the report
            counts the latter two.

    Raises:
        InvalidArgument: no such folder or file, no file of nodes, a wrong option.
        InvalidData: a header or a value that can't be read, a node id given twice, an end that is no node; names file
            and row (from 1, without the header).
    """
    folder = Path(path)
    if not folder.is_dir():
        raise InvalidArgument(f"{folder}: expected a folder")
    if ends not in ("refuse", "add", "skip"):
        raise InvalidArgument(f"ends: expected 'refuse', 'add' or 'skip', got {ends!r}")
    report = SourceReport("Neo4j CSV")
    told: dict[str, str] = {}
    if nodes is None and relationships is None:
        groups, told = find_groups(folder, report, character(delimiter or ",", "delimiter"))
    else:
        groups = [group_of(folder, given, ()) for given in (*(nodes or ()), *(relationships or ()))]
    marks = [
        character(given if given is not None else told.get(name, default), name)
        for name, given, default in (
            ("delimiter", delimiter, ","), ("array-delimiter", array_delimiter, ";"), ("quote", quote, '"')
        )
    ]  # fmt: skip
    parts = [part for group in groups for part in _parts(group, marks)]
    node_parts = [p for p in parts if any(c.type == "id" for c in p.columns)]
    edge_parts = [p for p in parts if any(c.type == "start_id" for c in p.columns)]
    if not node_parts:
        raise InvalidArgument(f"{folder}: expected a CSV file whose header has a column of type :ID")
    spaces = {c.space for p in parts for c in p.columns if c.type in ("id", "start_id", "end_id")}
    found = _gather_nodes(node_parts, marks[1], len(spaces) > 1)
    edges = _gather_edges(edge_parts, marks[1], len(spaces) > 1, relation)
    read_rows = len(edges.properties)
    _resolve(found, edges, ends, report)
    for rows, always in ((found, ("id",)), (edges, ("source", "target", "relation"))):
        rows.fixed = {
            name: values for name, values in rows.fixed.items()
            if name in always or any(value is not None for value in values)
        }  # fmt: skip
    given = sum(len(p.values[0]) for p in node_parts)
    report.tables = {"nodes": (given, given), "relationships": (read_rows, len(edges.properties))}
    return Imported(
        table_of(found.fixed, found.properties, "nodes", found.row, report),
        table_of(edges.fixed, edges.properties, "edges", edges.row, report),
        (),
        report,
    )


def _parts(group: Group, marks: list[str]) -> list[_Part]:
    columns = columns_of(group.files[0], header_line(group.files[0], marks[0], marks[2]))
    out = []
    for i, path in enumerate(group.files):
        if i == 0 and not has_rows(path, marks[0], marks[2]):
            continue
        options = pyarrow.csv.ConvertOptions(
            column_types={str(c): pa.large_string() for c in range(len(columns))},
            null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=False,
        )  # fmt: skip
        try:
            table = pyarrow.csv.read_csv(
                path,
                read_options=pyarrow.csv.ReadOptions(
                    block_size=BLOCK_BYTES, column_names=[str(c) for c in range(len(columns))], skip_rows=int(i == 0),
                    use_threads=False,
                ),
                parse_options=pyarrow.csv.ParseOptions(
                    delimiter=marks[0], quote_char=marks[2], newlines_in_values=True,
                    ignore_empty_lines=len(columns) > 1,
                ),
                convert_options=options,
            )  # fmt: skip
        except pa.ArrowInvalid as error:
            if "Empty CSV file" not in str(error):
                raise InvalidData(f"{path}: {error}") from error
            continue
        except (OSError, EOFError) as error:
            raise InvalidData(f"{path}: {error}") from error
        out.append(_Part(path, columns, group.names, [c.combine_chunks() for c in table.columns], 1))
    if not out:  # a header only
        out.append(_Part(group.files[0], columns, group.names, [pa.array([], pa.large_string()) for _ in columns], 1))
    return out


def _gather_nodes(parts: list[_Part], array_delimiter: str, prefixed: bool) -> _Gathered:
    out = _Gathered(fixed={name: [] for name in ("id", "labels", "uri", *WEIGHTS, "belongs_to_set")})
    for part in parts:
        size, rows = _begin(out, part)
        at = next(i for i, c in enumerate(part.columns) if c.type == "id")
        out.fixed["id"] += _ids(part, at, prefixed)
        labels: list[list[str]] = [list(part.names) for _ in range(size)]
        for column, values in zip(part.columns, part.values, strict=True):
            if column.type == "label":
                for mine, text in zip(labels, values.to_pylist(), strict=True):
                    mine.extend(x for x in (text or "").split(array_delimiter) if x)
            elif column.type == "id" and column.name and column.name != "id":
                _set(rows, column.name, values.to_pylist())
        out.fixed["labels"] += labels
        _properties(part, rows, array_delimiter)
        for name in ("uri", *WEIGHTS, "belongs_to_set"):
            out.fixed[name] += [row.pop(name, None) for row in rows]
        _finish(out, part, rows, NODE_ALIASES)
    return out


def _gather_edges(parts: list[_Part], array_delimiter: str, prefixed: bool, relation: str | None) -> _Gathered:
    names = ("source", "target", "relation", "id", "uri", *WEIGHTS)
    out = _Gathered(fixed={name: [] for name in names})
    for part in parts:
        size, rows = _begin(out, part)
        types: list[str | None] = [":".join(part.names) or None] * size
        for i, (column, values) in enumerate(zip(part.columns, part.values, strict=True)):
            if column.type in ("start_id", "end_id"):
                out.fixed["source" if column.type == "start_id" else "target"] += _ids(part, i, prefixed)
            elif column.type == "type":
                types = [own if own is not None else told for own, told in zip(values.to_pylist(), types, strict=True)]
        _properties(part, rows, array_delimiter)
        if relation is not None:
            if not any(c.name == relation for c in part.columns):
                raise InvalidArgument(f"relation: {part.path} has no property {relation!r}")
            _set(rows, "type", types)
            types = [row.pop(relation, None) for row in rows]
        out.fixed["relation"] += types
        for name in ("id", "uri", *WEIGHTS):
            out.fixed[name] += [row.pop(name, None) for row in rows]
        _finish(out, part, rows, EDGE_ALIASES)
    return out


def _begin(out: _Gathered, part: _Part) -> tuple[int, list[dict[str, Any]]]:
    size = len(part.values[0])
    if size:
        out.place.append(part.path.name)
        out.first.append(len(out.properties))
        out.offset.append(part.first_row)
    return size, [{} for _ in range(size)]


def _finish(out: _Gathered, part: _Part, rows: list[dict[str, Any]], aliases: dict[str, tuple[str, ...]]) -> None:
    """Unpack JSON objects; our names for what the file calls otherwise."""
    wanted = {name: others for name, others in aliases.items() if all(c.name != name for c in part.columns)}
    for row in rows:
        document = row.get("properties")
        if isinstance(document, str) and document.startswith("{"):
            try:
                inner = json.loads(document)
            except (ValueError, RecursionError):
                inner = None
            if isinstance(inner, dict):
                del row["properties"]
                row.update({key: value for key, value in inner.items() if key not in row})
        if wanted:
            rename(row, wanted)
    out.properties += rows


def _ids(part: _Part, at: int, prefixed: bool) -> list[str]:
    column, values = part.columns[at], part.values[at]
    if values.null_count:
        first = int(np.flatnonzero(np.asarray(pc.is_null(values)))[0])
        raise InvalidData(f"{part.path}:{part.first_row + first}: the :{column.type.upper()} is missing")
    texts = values.to_pylist()
    return [f"{column.space}:{x}" for x in texts] if prefixed and column.space else texts


def _properties(part: _Part, rows: list[dict[str, Any]], array_delimiter: str) -> None:
    for column, values in zip(part.columns, part.values, strict=True):
        if column.type in ("id", "label", "start_id", "end_id", "type", "ignore"):
            continue
        place = f"{column.name}:{column.type}{'[]' if column.many else ''}"
        if not column.name:
            raise InvalidData(f"{part.path}: header: a property without a name ({place!r})")
        if column.many:
            lists = pc.split_pattern(values, array_delimiter)
            lengths = np.asarray(pc.fill_null(pc.list_value_length(lists), 0))
            owner = np.repeat(np.arange(len(values)), lengths)
            flat = _typed(pc.list_flatten(lists), column, place, part, owner).to_pylist()
            bounds = np.concatenate([[0], np.cumsum(lengths)]).tolist()
            _set(rows, column.name, [
                None if text is None else [] if text == "" else flat[low:high]
                for text, low, high in zip(values.to_pylist(), bounds, bounds[1:], strict=False)
            ])  # fmt: skip
        else:
            _set(rows, column.name, _typed(values, column, place, part, np.arange(len(values))).to_pylist())


def _typed(values: pa.Array, column: Column, place: str, part: _Part, owner: np.ndarray) -> pa.Array:
    if column.type in TEXTS:
        return values
    empty = pc.equal(values, "")  # no number and no boolean: nothing
    values = pc.if_else(empty, pa.scalar(None, pa.large_string()), pc.utf8_trim_whitespace(values))
    wanted = pa.bool_() if column.type == "boolean" else pa.int64() if column.type in INTEGERS else pa.float64()
    try:
        return values.cast(wanted)
    except pa.ArrowInvalid as error:
        for i, text in enumerate(values.to_pylist()):
            try:
                pa.scalar(text, pa.large_string()).cast(wanted)
            except pa.ArrowInvalid:
                row = part.first_row + int(owner[i])
                raise InvalidData(f"{part.path}:{row}: {place}: not a value of this type: {text!r}") from error
        raise InvalidData(f"{part.path}: {place}: {error}") from error


def _set(rows: list[dict[str, Any]], name: str, values: list[Any]) -> None:
    for row, value in zip(rows, values, strict=True):
        if value is not None:
            row[name] = value


def _resolve(nodes: _Gathered, edges: _Gathered, ends: str, report: SourceReport) -> None:
    """Refuse repeated ids; deal with ends that are no nodes."""
    refuse_repeats(nodes.fixed["id"], nodes.row, "node")
    known = set(nodes.fixed["id"])
    unknown = [
        (i, end) for i, pair in enumerate(zip(edges.fixed["source"], edges.fixed["target"], strict=True))
        for end in pair if end not in known
    ]  # fmt: skip
    report.note("edge without a relation (kept)", [edges.row(i) for i, r in enumerate(edges.fixed["relation"])
                                                   if r is None])  # fmt: skip
    if not unknown:
        return
    if ends == "refuse":
        i, end = unknown[0]
        raise InvalidData(
            f"{edges.row(i)}: the end {end!r} is no node, and so are the ends of {len(unknown) - 1} others "
            "(ends='add' makes them nodes, 'skip' leaves the relationships out)"
        )
    if ends == "skip":
        gone = dict.fromkeys(i for i, _ in unknown)
        report.note("relationship whose end is no node, left out", [edges.row(i) for i in gone])
        kept = [i for i in range(len(edges.properties)) if i not in gone]
        edges.fixed = {name: [values[i] for i in kept] for name, values in edges.fixed.items()}
        edges.properties = [edges.properties[i] for i in kept]
        edges.place, edges.first, edges.offset = ["relationships"], [0], [1]
        return
    report.note("end of a relationship that is no node, added", [edges.row(i) for i, _ in unknown])
    new = list(dict.fromkeys(end for _, end in unknown))
    for name, values in nodes.fixed.items():
        values.extend(new if name == "id" else [None] * len(new))
    nodes.properties += [{} for _ in new]
    nodes.place.append("added nodes")
    nodes.first.append(len(nodes.properties) - len(new))
    nodes.offset.append(1)
