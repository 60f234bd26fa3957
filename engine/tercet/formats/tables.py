"""Plain tables of nodes and edges: Parquet, Arrow, Feather, CSV, TSV and JSON lines, with the usual column names."""

import csv
import gzip
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.feather
import pyarrow.ipc
import pyarrow.parquet

from tercet.errors import InvalidArgument, InvalidData
from tercet.ids import text_column

# Our name first, then what others call the same thing. Case and spaces around don't matter.
NODE_COLUMNS = {
    "id": ("node_id", "_id", "uuid"),
    "name": ("title", "label"),
    "type": ("node_type", "entity_type", "kind", "category"),
    "text": ("content", "body"),
    "description": ("desc",),
    "importance_weight": ("importance",),
    "feedback_weight": (),
    "belongs_to_set": ("node_set", "nodeset"),
}
EDGE_COLUMNS = {
    "source": ("src", "head", "from", "source_id", "source_node_id", "subject"),
    "target": ("dst", "tail", "to", "target_id", "target_node_id", "object"),
    "relation": ("relationship", "relationship_name", "relationship_type", "predicate", "rel_type", "label", "type"),
    "edge_text": ("fact", "description"),
    "id": ("edge_id", "_id", "uuid"),
    "importance_weight": ("importance",),
    "feedback_weight": (),
    "weight": (),
}
NEEDED = {"nodes": ("id",), "edges": ("source", "target", "relation")}
TEXTS = frozenset({"id", "source", "target", "name", "type", "text", "description", "relation", "edge_text"})
NUMBERS = frozenset({"importance_weight", "feedback_weight", "weight"})
BLOCK_BYTES = 1 << 24  # a CSV row has to fit into one


def read(path: str | Path) -> tuple[pa.Table, pa.Table]:
    """The tables of a folder that holds one file `nodes.*` and one `edges.*`; see `read_tables`.

    Raises:
        InvalidArgument: not a folder, or not exactly one file of each.
        InvalidData: as `read_tables`.
    """
    folder = Path(path)
    if not folder.is_dir():
        raise InvalidArgument(f"{folder}: expected a folder with nodes.* and edges.*")
    return read_tables(_only(folder, "nodes"), _only(folder, "edges"))


def read_tables(nodes_path: str | Path, edges_path: str | Path) -> tuple[pa.Table, pa.Table]:
    """The nodes and the edges of two files, with our column names and types.

    The format is known by the ending: .parquet, .arrow, .feather, .csv, .tsv, .jsonl, the last three also with .gz.
    Columns with a common other name are renamed (NODE_COLUMNS, EDGE_COLUMNS); a column with our own name wins over
    others that could mean the same. All further columns are kept. Ids and text are never parsed: "07" stays "07".

    Returns:
        (nodes, edges): ids and text as large_string, weights as float64, `belongs_to_set` as lists. Integers among ids
        and text are written in decimal. An empty field of a CSV is null. Further columns are text from CSV, else what
        the file holds; values of mixed kinds in JSON lines become JSON text.

    Raises:
        InvalidArgument: no such file, or an ending that isn't known.
        InvalidData: the file is damaged (JSON lines: with the line), a needed column is missing, two columns could be
            the same, or an id or a text has the wrong type.
    """
    return (
        _named(_load(Path(nodes_path)), NODE_COLUMNS, "nodes", Path(nodes_path)),
        _named(_load(Path(edges_path)), EDGE_COLUMNS, "edges", Path(edges_path)),
    )


def read_json_lines(path: Path) -> Iterator[tuple[int, Any]]:
    """(line number from 1, value) of each line that isn't blank, from a file that may be gzipped.

    Raises:
        InvalidArgument: no such file.
        InvalidData: a line isn't JSON, or the file isn't UTF-8 or gzip.
    """
    if not path.is_file():
        raise InvalidArgument(f"{path}: no such file")
    number = 0
    try:
        with _open(path) as stream:
            for number, line in enumerate(stream, 1):
                if line.strip():
                    yield number, json.loads(line)
    except json.JSONDecodeError as error:
        raise InvalidData(f"{path} line {number}: not valid JSON: {error.msg} (column {error.colno})") from error
    except UnicodeDecodeError as error:
        raise InvalidData(f"{path} after line {number}: not valid UTF-8: {error.reason}") from error
    except (gzip.BadGzipFile, EOFError) as error:
        raise InvalidData(f"{path} after line {number}: damaged gzip file: {error}") from error


def _only(folder: Path, stem: str) -> Path:
    found = sorted(p for p in folder.glob(f"{stem}.*") if p.is_file() and _reader(p) is not None)
    if len(found) == 1:
        return found[0]
    got = ", ".join(p.name for p in (found or sorted(folder.iterdir())[:10])) or "nothing"
    raise InvalidArgument(f"{folder}: expected one file {stem}.* of {', '.join(READERS)}, got {got}")


def _reader(path: Path) -> "Callable[[Path], pa.Table] | None":
    name = path.name.lower()
    if name.endswith(".gz"):
        name = name.removesuffix(".gz")
        if not name.endswith(LINE_FORMATS):
            return None
    return next((reader for ending, reader in READERS.items() if name.endswith(ending)), None)


def _load(path: Path) -> pa.Table:
    reader = _reader(path)
    if reader is None:
        raise InvalidArgument(
            f"{path}: expected a file ending in {', '.join(READERS)} ({', '.join(LINE_FORMATS)} also with .gz)"
        )
    if not path.is_file():
        raise InvalidArgument(f"{path}: no such file")
    try:
        return reader(path)
    except (pa.ArrowException, OSError, EOFError, UnicodeDecodeError, csv.Error) as error:
        raise InvalidData(f"{path}: {error}") from error


def _open(path: Path) -> IO[str]:
    if path.name.lower().endswith(".gz"):
        return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
    return path.open(encoding="utf-8-sig", newline="")


def _read_parquet(path: Path) -> pa.Table:
    return pyarrow.parquet.ParquetFile(path).read()


def _read_arrow(path: Path) -> pa.Table:
    """An Arrow file (which Feather is) or an Arrow stream."""
    try:
        return pyarrow.feather.read_table(path)
    except pa.ArrowInvalid:
        with pa.OSFile(str(path)) as source, pa.ipc.open_stream(source) as stream:
            return stream.read_all()


def _read_csv(path: Path) -> pa.Table:
    return _delimited(path, ",")


def _read_tsv(path: Path) -> pa.Table:
    return _delimited(path, "\t")


def _delimited(path: Path, delimiter: str) -> pa.Table:
    with _open(path) as stream:
        header = next(csv.reader(stream, delimiter=delimiter), None)
    if header is None:
        raise InvalidData(f"{path}: expected a header line, got an empty file")
    options = pyarrow.csv.ConvertOptions(
        column_types=dict.fromkeys(header, pa.string()),
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    return pyarrow.csv.read_csv(
        path,
        read_options=pyarrow.csv.ReadOptions(block_size=BLOCK_BYTES),
        parse_options=pyarrow.csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
        convert_options=options,
    )


def _read_json(path: Path) -> pa.Table:
    rows: list[dict[str, Any]] = []
    names: dict[str, None] = {}
    for number, row in read_json_lines(path):
        if not isinstance(row, dict):
            raise InvalidData(f"{path} line {number}: expected an object, got {type(row).__name__}")
        rows.append(row)
        names.update(dict.fromkeys(row))
    return pa.table({name: _column([row.get(name) for row in rows], f"{path} column '{name}'") for name in names})


def _column(values: list[Any], place: str) -> pa.Array:
    """Values as Arrow makes them if they are of one kind; else text, and JSON text for what isn't text."""
    try:
        return pa.array(values)
    except (pa.ArrowException, OverflowError, UnicodeEncodeError):
        texts = [v if v is None or isinstance(v, str) else json.dumps(v, ensure_ascii=False) for v in values]
        return text_column(texts, place)


READERS: dict[str, Callable[[Path], pa.Table]] = {
    ".parquet": _read_parquet,
    ".arrow": _read_arrow,
    ".feather": _read_arrow,
    ".csv": _read_csv,
    ".tsv": _read_tsv,
    ".jsonl": _read_json,
}
LINE_FORMATS = (".csv", ".tsv", ".jsonl")


def _named(table: pa.Table, known: dict[str, tuple[str, ...]], kind: str, path: Path) -> pa.Table:
    """The table under our column names, our columns first."""
    twice = sorted({column for column in table.column_names if table.column_names.count(column) > 1})
    if twice:
        raise InvalidData(f"{path}: {kind}: the columns {twice} are there more than once")
    folded: dict[str, list[str]] = {}
    for column in table.column_names:
        folded.setdefault(column.strip().casefold(), []).append(column)
    columns: dict[str, Any] = {}
    for name, others in known.items():
        found = folded.get(name) or [column for other in others for column in folded.get(other, ())]
        if len(found) > 1:
            raise InvalidData(f"{path}: {kind}: the columns {found} could all be '{name}'; rename all but one")
        if found:
            columns[name] = _typed(table.column(found[0]), name, f"{path}: {kind} column '{found[0]}'")
            del folded[found[0].strip().casefold()]
    missing = [name for name in NEEDED[kind] if name not in columns]
    if missing:
        wanted = "; ".join(f"'{name}' (or {', '.join(known[name])})" for name in missing)
        raise InvalidData(f"{path}: {kind}: expected a column {wanted}, got {table.column_names}")
    for rest in folded.values():
        columns.update((column, table.column(column)) for column in rest)
    return pa.table(columns)


def _typed(column: pa.ChunkedArray, name: str, place: str) -> pa.ChunkedArray:
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if name in TEXTS:
        if not (_is_text(kind) or pa.types.is_null(kind) or pa.types.is_integer(kind)):
            raise InvalidData(f"{place}: expected text or integers, got {kind}")
        return column.cast(pa.large_string())
    if name in NUMBERS and _is_text(kind):
        return _numbers(column.cast(pa.large_string()), place)
    if name == "belongs_to_set" and _is_text(kind):
        return pa.chunked_array([[_names(x, f"{place} row {i}") for i, x in enumerate(column.to_pylist())]],
                                pa.list_(pa.large_string()))  # fmt: skip
    return column


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


def _numbers(column: pa.ChunkedArray, place: str) -> pa.ChunkedArray:
    try:
        return pc.cast(column, pa.float64())
    except pa.ArrowInvalid as error:
        for row, text in enumerate(column.to_pylist()):
            try:
                float(text or 0)
            except ValueError:
                raise InvalidData(f"{place} row {row}: expected a number, got {text!r}") from error
        raise InvalidData(f"{place}: expected numbers: {error}") from error


def _names(text: str | None, place: str) -> list[str] | None:
    """A cell of `belongs_to_set`: one name, or a JSON list of names."""
    if text is None or not text.lstrip().startswith("["):
        return text if text is None else [text]
    try:
        names = json.loads(text)
    except json.JSONDecodeError as error:
        raise InvalidData(f"{place}: expected a name or a JSON list of names, got {text!r}") from error
    if not all(isinstance(name, str) for name in names):
        raise InvalidData(f"{place}: expected a list of names, got {text!r}")
    return list(names)
