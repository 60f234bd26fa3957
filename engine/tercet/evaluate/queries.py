"""Queries: ids, texts, every other field that came with them, and vectors where they are given."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tercet.errors import InvalidArgument, InvalidData
from tercet.evaluate.lines import ending, id_of, read_lines, some
from tercet.formats.tables import read_json_lines
from tercet.ids import text_column

IDS = ("_id", "id", "query-id", "query_id", "qid")
TEXTS = ("text", "question", "query")
ENDINGS = (".jsonl", ".json", ".tsv", ".txt")


@dataclass(frozen=True, eq=False)
class Queries:
    """B queries. Made by `Queries.read` or `Queries.of`."""

    ids: pa.LargeStringArray  # (B,) distinct
    texts: pa.LargeStringArray  # (B,)
    fields: pa.Table  # (B,) rows: what else the source held, for slices
    vectors: np.ndarray | None = None  # (B, D) float32, instead of encoding the texts

    @staticmethod
    def read(path: str | Path, *, vectors: Any = None) -> "Queries":
        """Read queries from JSON lines or TSV, plain or gzipped.

        JSON lines hold an id (`_id`, `id`, `query-id`, `query_id` or `qid`) and a text (`text`, `question` or `query`),
        as BEIR's `queries.jsonl` does; a TSV holds two columns without a header, or a header with those names. All
        other fields are kept. The known endings are .jsonl, .json (of lines), .tsv and .txt.

        Args:
            vectors: (B, D) numbers in file order, or the .npy file that holds them.

        Raises:
            InvalidArgument: no such file, or an unknown ending.
            InvalidData: names the line: no id or text, a repeated id, an empty file; or vectors of another number.
        """
        path = Path(path)
        if ending(path) not in ENDINGS:
            raise InvalidArgument(f"{path}: expected queries in a file ending in {', '.join(ENDINGS)} (also with .gz)")
        rows = _tsv(path) if ending(path) in (".tsv", ".txt") else read_json_lines(path)
        made = _made(((f"{path} line {line}", row) for line, row in rows), str(path))
        return made if vectors is None else made.with_vectors(vectors)

    @staticmethod
    def of(source: Any) -> "Queries":
        """Queries of anything that stands for them.

        Args:
            source: `Queries`, a path, a mapping of id to text, or a list of mappings as in `read`.

        Raises:
            InvalidArgument: something else.
            InvalidData: as `read`, with the place in the list for the line.
        """
        if isinstance(source, Queries):
            return source
        if isinstance(source, (str, Path)):
            return Queries.read(source)
        if isinstance(source, Mapping):
            source = [{"id": i, "text": text} for i, text in source.items()]
        if isinstance(source, Sequence):
            return _made(((f"queries[{i}]", row) for i, row in enumerate(source)), "queries")
        raise InvalidArgument(
            f"queries: expected Queries, a path, a mapping of id to text or a list of records, "
            f"got {type(source).__name__}"
        )

    def with_vectors(self, vectors: Any) -> "Queries":
        """The same queries with a vector each, (B, D) numbers or an .npy file.

        Raises:
            InvalidData: another number of vectors, or not a matrix.
        """
        if isinstance(vectors, (str, Path)):
            try:
                vectors = np.load(vectors, allow_pickle=False)
            except (OSError, ValueError, EOFError) as error:
                raise InvalidData(f"{vectors}: not a readable .npy file: {error}") from error
        rows = np.asarray(vectors, np.float32)
        if rows.ndim != 2 or len(rows) != len(self):
            raise InvalidData(f"vectors: expected a row for each of {len(self)} queries, got the shape {rows.shape}")
        return replace(self, vectors=rows)

    def take(self, rows: Any) -> "Queries":
        """Some of the queries, by position."""
        at = pa.array(np.asarray(rows, np.int64))
        vectors = None if self.vectors is None else self.vectors[np.asarray(rows, np.int64)]
        return Queries(self.ids.take(at), self.texts.take(at), self.fields.take(at), vectors)

    def column(self, field: str) -> pa.Array:
        """(B,) one of the fields.

        Raises:
            InvalidArgument: there is no such field.
        """
        if field not in self.fields.column_names:
            raise InvalidArgument(f"field: the queries have no {field!r}, only {', '.join(self.fields.column_names)}")
        column = self.fields.column(field)
        return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column

    def weights(self, field: str) -> np.ndarray:
        """(B,) float64: how much each query counts in a mean, such as how often it was asked.

        Raises:
            InvalidData: a value isn't a number above 0; names the query.
        """
        values = self.column(field)
        if not (pa.types.is_integer(values.type) or pa.types.is_floating(values.type)):
            raise InvalidData(f"field {field!r}: expected numbers to weigh by, got {values.type}")
        out = np.asarray(values.cast(pa.float64()).fill_null(np.nan))
        bad = np.flatnonzero(~(np.isfinite(out) & (out > 0)))
        if len(bad):
            first = int(bad[0])
            raise InvalidData(
                f"field {field!r}: expected weights above 0, got {values[first].as_py()!r} for query "
                f"{self.ids[first].as_py()!r} ({len(bad)} such)"
            )
        return out

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        return f"Queries({len(self)}, fields {self.fields.column_names})"


def _tsv(path: Path) -> Iterator[tuple[int, Any]]:
    """Rows of a TSV as mappings; nothing is unquoted, a text may hold quotes."""
    header: list[str] | None = None
    first = True
    for number, line in read_lines(path):
        cells = line.split("\t")
        if first and cells[0].strip().lower() in IDS:
            header = [c.strip() for c in cells]
        else:
            if header is None and len(cells) != 2:
                raise InvalidData(f"{path} line {number}: expected an id, a tab and a text, got {len(cells)} columns")
            if header is not None and len(cells) != len(header):
                raise InvalidData(f"{path} line {number}: expected {len(header)} columns, got {len(cells)}")
            yield number, dict(zip(header or ("id", "text"), cells, strict=True))
        first = False


def _made(rows: Any, source: str) -> Queries:
    ids: dict[str, str] = {}  # id to place
    texts, rest = [], []
    for place, row in rows:
        if not isinstance(row, Mapping):
            raise InvalidData(f"{place}: expected an object with an id and a text, got {type(row).__name__}")
        id_key, text_key = (next((k for k in keys if k in row), None) for keys in (IDS, TEXTS))
        if id_key is None or text_key is None:
            raise InvalidData(f"{place}: expected one of {IDS} and one of {TEXTS}, got {list(row)}")
        one = id_of(row[id_key], place)
        if one in ids:
            raise InvalidData(f"{place}: the query id {one!r} is there already ({ids[one]})")
        if not isinstance(row[text_key], str):
            raise InvalidData(f"{place}: expected a text as {text_key!r}, got {row[text_key]!r:.100}")
        ids[one] = place
        texts.append(row[text_key])
        rest.append({k: v for k, v in row.items() if k not in (id_key, text_key)})
    if not ids:
        raise InvalidData(f"{source}: no queries")
    names = dict.fromkeys(name for row in rest for name in row)
    columns = {name: _column([row.get(name) for row in rest], f"{source}: field {name!r}") for name in names}
    # a table without columns has no length of its own, and `take` needs one
    fields = pa.table(columns) if columns else pa.table({"query": text_column(texts, source)})
    return Queries(text_column(list(ids), f"{source}: id"), text_column(texts, f"{source}: text"), fields)


def _column(values: list[Any], place: str) -> pa.Array:
    """Values of one kind as Arrow has them; else as JSON text."""
    try:
        return pa.array(values)
    except (pa.ArrowException, OverflowError, UnicodeEncodeError):
        return text_column([None if v is None else json.dumps(v, ensure_ascii=False) for v in values], place)


def same_ids(queries: Queries, known: pa.Array, what: str) -> None:
    """Refuse queries of which none is known: the ids are written differently."""
    import pyarrow.compute as pc

    if not pc.any(pc.is_in(queries.ids, value_set=known)).as_py():
        raise InvalidData(
            f"queries and {what} have no id in common: {some(queries.ids.to_pylist())} against "
            f"{some(known.to_pylist())}"
        )
