"""Full-text queries in the language of SQLite FTS5: AND, OR, NOT, phrases, prefixes, NEAR and column filters.

Scores are FTS5's bm25(): negative, smaller is better.
"""

import json
import re
import sqlite3
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from tercet.errors import InvalidArgument, MissingDependency, StoreError
from tercet.graph import Graph
from tercet.retrieve.lexical import COLUMNS

_NODE, _RELATIONSHIP = "node", "relationship"
_RESERVED = ("rank", "rowid")
_LAYOUT = "CREATE TABLE layout (kind TEXT NOT NULL)"


class FtsHit(NamedTuple):
    """An entity that a query matched."""

    kind: str  # "node" or "relationship"
    entity: int
    score: float


class FtsIndex:
    """A full-text table. Made by `FtsIndex.build`, `FtsIndex.of_graph` or `FtsIndex.open`; safe to share by threads."""

    def __init__(self, connection: sqlite3.Connection, layout: Literal["flat", "columns"]) -> None:
        self._connection = connection
        self._layout = layout
        self._lock = threading.Lock()  # one connection holds a table in memory, and it runs one query at a time

    @staticmethod
    def build(
        kind: Sequence[str],
        entity: Sequence[int],
        label: Sequence[str],
        content: Sequence[str],
        path: str | Path | None = None,
    ) -> "FtsIndex":
        """Index rows as they are given: one a (node, label) pair and one a relationship, say.

        The columns are `entity_type`, `entity_id` (not searchable), `label_type` and `content`, so words of the kind
        and of the label are found too, and every row counts in the lengths and frequencies of BM25.

        Args:
            kind: (T,) "node" or "relationship".
            entity: (T,) whole numbers.
            label: (T,) label or type.
            content: (T,) text. The order of the rows decides ties.
            path: a file that doesn't exist yet; None keeps the table in memory.

        Raises:
            InvalidArgument: columns of different lengths, another kind, or a file that exists.
        """
        columns = {"kind": kind, "entity": entity, "label": label, "content": content}
        lengths = {name: len(column) for name, column in columns.items()}
        if len(set(lengths.values())) > 1:
            raise InvalidArgument(f"rows: expected columns of one length, got {lengths}")
        for i, one in enumerate(kind):
            if one not in (_NODE, _RELATIONSHIP):
                raise InvalidArgument(f"kind row {i}: expected {_NODE!r} or {_RELATIONSHIP!r}, got {one!r}")
        names = ["entity_type", "entity_id UNINDEXED", "label_type", "content"]
        rows = zip(kind, map(int, entity), label, content, strict=True)
        return _fill(path, "flat", names, ((i + 1, *row) for i, row in enumerate(rows)))

    @staticmethod
    def of_graph(graph: Graph, columns: Sequence[str] = COLUMNS, path: str | Path | None = None) -> "FtsIndex":
        """Index the node table: one row a node, one searchable column a column, so `name : river` works.

        Raises:
            InvalidArgument: a column that the node table doesn't have, a name that SQLite keeps for itself, or a file
                that exists.
        """
        names = list(columns)
        for name in names:
            if name not in graph.nodes.schema.names:
                raise InvalidArgument(
                    f"columns: the node table has no column {name!r}, only {graph.nodes.schema.names}"
                )
            if name.lower() in _RESERVED:
                raise InvalidArgument(f"columns: SQLite keeps the name {name!r} for itself")
        if not names or len({name.lower() for name in names}) < len(names):
            raise InvalidArgument(f"columns: expected distinct columns of the node table, got {names}")
        texts = zip(*(graph.nodes.column(name).to_pylist() for name in names), strict=True)
        quoted = ['"' + name.replace('"', '""') + '"' for name in names]
        return _fill(path, "columns", quoted, ((i + 1, *row) for i, row in enumerate(texts)))

    @staticmethod
    def open(path: str | Path) -> "FtsIndex":
        """The index that was built into a file.

        Raises:
            StoreError: no such file, or not one of these.
        """
        if not Path(path).is_file():
            raise StoreError(f"{path}: no such file")
        connection = sqlite3.connect(path, check_same_thread=False)
        try:
            layout = connection.execute("SELECT kind FROM layout").fetchone()
            connection.execute("SELECT rowid FROM words LIMIT 1")
        except sqlite3.DatabaseError as error:
            connection.close()
            raise StoreError(f"{path}: not a full-text index ({error})") from error
        if layout is None or layout[0] not in ("flat", "columns"):
            connection.close()
            raise StoreError(f"{path}: a full-text index of an unknown layout")
        return FtsIndex(connection, layout[0])

    def search(self, query: str, k: int, labels: list[str] | None = None) -> list[FtsHit]:
        """The best matches of a query, by score ascending, ties nodes first, then in the order of the rows.

        A node that has several rows is listed once for each, and each uses up one of the k places.

        Args:
            query: handed to FTS5 as it is; bare words must all occur.
            k: matches, at least 1.
            labels: only nodes that have one of these labels, spelled as they are stored; None or empty: everything.

        Raises:
            InvalidArgument: a blank query or one that FTS5 rejects, k below 1, labels that aren't a list of texts, or
                labels for an index of the node table.
        """
        if not isinstance(query, str) or not query.strip():
            raise InvalidArgument(f"query: expected a text that isn't blank, got {query!r}")
        if isinstance(k, bool) or not isinstance(k, (int, np.integer)) or k < 1:
            raise InvalidArgument(f"k: expected at least 1, got {k!r}")
        if labels is not None and not (
            isinstance(labels, list) and all(isinstance(one, str) and one.strip() for one in labels)
        ):
            raise InvalidArgument(f"labels: expected a list of labels, got {labels!r}")
        if labels and self._layout != "flat":
            raise InvalidArgument("labels: this index holds the node table, which has no labels")
        return [FtsHit(*row) for row in self._rows(query, int(k), labels or [])]

    def _rows(self, query: str, k: int, labels: list[str]) -> list[Any]:
        flat = self._layout == "flat"
        what = "entity_type, entity_id" if flat else f"'{_NODE}', rowid - 1"
        chosen = f" AND entity_type = '{_NODE}' AND label_type IN (SELECT value FROM json_each(?))" if labels else ""
        ties = f"entity_type = '{_RELATIONSHIP}', rowid" if flat else "rowid"
        ask = (
            f"SELECT {what}, bm25(words) AS score FROM words WHERE words MATCH ?{chosen} ORDER BY score, {ties} LIMIT ?"
        )
        try:
            with self._lock:
                given = (query, *([json.dumps(labels)] if labels else []), min(k, 2**63 - 1))
                return self._connection.execute(ask, given).fetchall()
        except UnicodeEncodeError as error:
            raise InvalidArgument(f"query: not valid Unicode ({error.reason} at {error.start})") from error
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_ERROR:
                raise StoreError(f"full-text index: {error}") from error
            raise InvalidArgument(f"query: FTS5 rejects {query!r}: {error}") from error

    @staticmethod
    def literal(query: str) -> str | None:
        """The words of a query, each in quotes, so that all of them must occur as they are; None without any word."""
        words = re.findall(r"\w+", query)
        return " ".join(f'"{word}"' for word in words) if words else None

    def search_words(self, query: str, k: int, labels: list[str] | None = None) -> list[FtsHit]:
        """`search`, and where that refuses, once more with the literal words of the query.

        Raises:
            InvalidArgument: the first refusal if the query has no words, else the second.
        """
        try:
            return self.search(query, k, labels)
        except InvalidArgument:
            words = FtsIndex.literal(query) if isinstance(query, str) else None
            if words is None:
                raise
            return self.search(words, k, labels)

    def close(self) -> None:
        """Let go of the table; a table in memory is gone."""
        with self._lock:
            self._connection.close()


def _fill(
    path: str | Path | None, layout: Literal["flat", "columns"], columns: list[str], rows: Iterable[tuple[Any, ...]]
) -> FtsIndex:
    if path is not None and Path(path).exists():
        raise InvalidArgument(f"path: {path} exists")
    connection = sqlite3.connect(":memory:" if path is None else path, check_same_thread=False)
    marks = ", ".join("?" * (len(columns) + 1))
    names = ", ".join(name.removesuffix(" UNINDEXED") for name in columns)
    try:
        with connection:
            connection.execute(f"CREATE VIRTUAL TABLE words USING fts5({', '.join(columns)}, tokenize='unicode61')")
            connection.execute(_LAYOUT)
            connection.execute("INSERT INTO layout VALUES (?)", (layout,))
            connection.executemany(f"INSERT INTO words (rowid, {names}) VALUES ({marks})", rows)
    except sqlite3.OperationalError as error:
        connection.close()
        if "fts5" in str(error):
            raise MissingDependency("full-text queries need a Python whose sqlite3 was built with FTS5") from error
        raise StoreError(f"full-text index: {error}") from error
    return FtsIndex(connection, layout)
