"""SQLite files of Grafito (grafitodb 0.8), read through sqlite3 without ever writing to them."""

import json
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tercet.engine import Engine
from tercet.errors import InvalidArgument, InvalidData
from tercet.formats.imported import Imported, ImportedVectors, SourceReport
from tercet.formats.parts import as_column
from tercet.grafito import METRICS, Database
from tercet.ids import text_column
from tercet.retrieve.fts import FtsIndex

HEADER = b"SQLite format 3\0"
NEEDED = ("nodes", "labels", "node_labels", "relationships", "fts_config", "vector_indexes", "vector_entries")
TEXTS = {"name": ("name", "title"), "text": ("text", "content"), "description": ("description",)}
DEFAULT_METRICS = {"bruteforce": "cosine", "faiss": "l2"}


@dataclass(frozen=True)
class GrafitoIndex:
    """A vector index as the file describes it."""

    name: str
    backend: str
    method: str
    metric: str
    default_k: int | None
    model: str | None  # of the embedding function that it names
    ids: list[int]
    vectors: np.ndarray  # (V, D) float32


@dataclass(frozen=True)
class GrafitoFile:
    """What a file holds, nodes and relationships in order of id."""

    nodes: list[dict[str, Any]]  # id, labels, properties, uri
    relationships: list[dict[str, Any]]  # id, source, target, type, properties, uri
    indexes: list[GrafitoIndex]
    text_index: list[dict[str, Any]]  # entity, label_or_type, properties (one), weight
    text_rows: list[tuple[str, int, str, str]]  # kind, id, label or type, content, in the order of the rows
    report: SourceReport


def read(path: str | Path) -> Imported:
    """Read a file of Grafito as tables.

    Ids stay, as text. Nodes keep all labels, their properties as JSON objects and their uri; `type` is the first label,
    and `name`, `text` and `description` are the properties of that name (or `title`, `content`) where they are texts.
    Each named vector index with vectors in the file becomes an entry; `database` gives one that searches as Grafito.

    Raises:
        InvalidArgument: no such file.
        InvalidData: not a file of Grafito, damaged, or properties that aren't a JSON object; names table and id.
    """
    file = load(path)
    held = [n["properties"] for n in file.nodes]
    columns: dict[str, list[Any]] = {
        "id": [str(n["id"]) for n in file.nodes],
        **{name: [_first_text(p, keys) for p in held] for name, keys in TEXTS.items()},
        "type": [n["labels"][0] if n["labels"] else None for n in file.nodes],
        "properties": [_json(p) for p in held],
        "uri": [n["uri"] for n in file.nodes],
    }
    nodes = {name: text_column(values, f"nodes.{name}") for name, values in columns.items()}
    nodes["labels"] = as_column([n["labels"] for n in file.nodes], "nodes.labels")
    edges = {}
    for name, key in (("source", "source"), ("target", "target"), ("relation", "type"), ("id", "id"), ("uri", "uri")):
        values = [None if r[key] is None else str(r[key]) for r in file.relationships]
        edges[name] = text_column(values, f"relationships.{key}")
    edges["properties"] = text_column([_json(r["properties"]) for r in file.relationships], "relationships.properties")
    vectors = tuple(
        ImportedVectors(i.name, "node", text_column([str(n) for n in i.ids], i.name), i.vectors, i.model, i.metric)
        for i in file.indexes if len(i.ids)
    )  # fmt: skip
    if not file.nodes:
        nodes["labels"] = pa.array([], pa.list_(pa.large_string()))
    return Imported(pa.table(nodes), pa.table(edges), vectors, file.report)


def database(
    path: str | Path,
    *,
    embed: Mapping[str, Callable[[list[str]], Any]] | None = None,
    indexes: list[str] | None = None,
    default_top_k: int = 10,
    device: str = "auto",
) -> Database:
    """A database that answers the searches of Grafito as the file does.

    Its text index is the one in the file, row by row, also where that is older than the nodes or the configuration.

    Args:
        embed: by name of a vector index, the function from texts to vectors that its queries go through.
        indexes: names of the vector indexes to take; None: all of them.
        default_top_k: Grafito's own argument, which the file doesn't hold.

    Raises:
        InvalidArgument: no such file or index, or an index of a kind that can't be searched as Grafito does (backends
            other than bruteforce and faiss; metrics that they don't have).
        InvalidData: as `read`.
    """
    file = load(path)
    named = {i.name: i for i in file.indexes}
    for name in [*(indexes or ()), *(embed or {})]:
        if name not in named:
            raise InvalidArgument(f"{path}: no vector index {name!r}, only {sorted(named)}")
    vectors: dict[str, dict[str, Any]] = {}
    for name in named if indexes is None else indexes:
        index = named[name]
        if (index.backend, index.metric) not in METRICS:
            known = ", ".join(f"{b} with {m}" for b, m in sorted(METRICS))
            raise InvalidArgument(
                f"{path}: vector index {name!r}: {index.backend} with {index.metric} can't be searched as Grafito "
                f"does, only {known} (indexes= leaves it out)"
            )
        vectors[name] = {
            "ids": index.ids, "vectors": index.vectors, "backend": index.backend, "metric": index.metric,
            "default_k": index.default_k, "embed": (embed or {}).get(name),
        }  # fmt: skip
    made = Database.from_records(file.nodes, file.relationships, vectors=vectors, device=device)
    places = {"node": _places(file.nodes), "relationship": _places(file.relationships)}
    found = [(k, places[k][one], label, content) for k, one, label, content in file.text_rows if one in places[k]]
    kinds, rows, labels, contents = [list(c) for c in zip(*found, strict=True)] if found else ([], [], [], [])
    lexical = FtsIndex.build(kinds, rows, labels, contents)
    engine = Engine(made.engine.graph, made.engine.collections, device=device, mode="grafito", lexical=lexical)
    return Database(engine, list(made.indexes.values()), default_top_k=default_top_k)


def load(path: str | Path) -> GrafitoFile:
    """The records of a file.

    Raises:
        InvalidArgument, InvalidData: as `read`.
    """
    file = Path(path)
    if not file.is_file():
        raise InvalidArgument(f"{file}: no such file")
    report = SourceReport("Grafito")
    with _opened(file) as connection:
        tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        missing = [name for name in NEEDED if name not in tables]
        if missing:
            raise InvalidData(f"{file}: not a file of Grafito: the tables {', '.join(missing)} are missing")
        nodes = _nodes(connection, file)
        relationships = _relationships(connection, file, {n["id"] for n in nodes})
        indexes = _indexes(connection, file, {n["id"] for n in nodes}, report)
        wanted = "SELECT entity_type, label_type, property, weight FROM fts_config ORDER BY rowid"
        text_index = [
            {"entity": entity, "label_or_type": label, "properties": [prop], "weight": weight}
            for entity, label, prop, weight in connection.execute(wanted)
        ]
        text_rows = _text_rows(connection) if "fts_index" in tables else []
    report.tables |= {"nodes": (len(nodes), len(nodes)), "relationships": (len(relationships), len(relationships))}
    if any(t["weight"] is not None for t in text_index):
        report.notes.append("weights of text properties are stored but Grafito's search doesn't use them")
    for t in text_index:
        report.notes.append(f"text index: {t['properties'][0]} of {t['entity']}s, {t['label_or_type'] or 'any label'}")
    return GrafitoFile(nodes, relationships, indexes, text_index, text_rows, report)


def is_grafito(path: Path) -> bool:
    """Whether a file is an SQLite file with Grafito's tables; a damaged one counts as none."""
    with path.open("rb") as stream:
        if stream.read(len(HEADER)) != HEADER:
            return False
    try:
        with _opened(path) as connection:
            rows = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    except InvalidData:
        return False
    return set(NEEDED) <= {row[0] for row in rows}


@contextmanager
def _opened(file: Path) -> Iterator[sqlite3.Connection]:
    """The file, opened for reading only; what sqlite3 can't read is InvalidData."""
    with file.open("rb") as stream:
        if stream.read(len(HEADER)) != HEADER:
            raise InvalidData(f"{file}: not an SQLite file")
    connection = sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True)
    try:
        yield connection
    except sqlite3.Error as error:
        raise InvalidData(f"{file}: not readable as an SQLite file: {error}") from error
    finally:
        connection.close()


def _nodes(connection: sqlite3.Connection, file: Path) -> list[dict[str, Any]]:
    named: dict[int, list[str]] = {}
    ask = (
        "SELECT nl.node_id, l.name FROM node_labels nl JOIN labels l ON l.id = nl.label_id ORDER BY nl.node_id, l.name"
    )
    for node, label in connection.execute(ask):
        named.setdefault(node, []).append(label)
    uri = _uri(connection, "nodes")
    return [
        {"id": one, "labels": named.get(one, []), "properties": _properties(held, file, "nodes", one), "uri": uri_}
        for one, held, uri_ in connection.execute(f"SELECT id, properties, {uri} FROM nodes ORDER BY id")
    ]


def _relationships(connection: sqlite3.Connection, file: Path, known: set[int]) -> list[dict[str, Any]]:
    out = []
    uri = _uri(connection, "relationships")
    ask = f"SELECT id, source_node_id, target_node_id, type, properties, {uri} FROM relationships ORDER BY id"
    for one, source, target, kind, held, uri_ in connection.execute(ask):
        for end in (source, target):
            if end not in known:
                raise InvalidData(f"{file}: relationships id {one}: there is no node {end}")
        properties = _properties(held, file, "relationships", one)
        out.append({"id": one, "source": source, "target": target, "type": kind, "properties": properties, "uri": uri_})
    return out


def _uri(connection: sqlite3.Connection, table: str) -> str:
    """The column, which files of before 0.4 lack."""
    return "uri" if "uri" in {row[1] for row in connection.execute(f"PRAGMA table_info({table})")} else "NULL"


def _properties(text: str | None, file: Path, table: str, one: int) -> dict[str, Any]:
    try:
        value = json.loads(text or "{}")
    except (json.JSONDecodeError, TypeError, RecursionError) as error:
        raise InvalidData(f"{file}: {table} id {one}: properties: not valid JSON: {error}") from error
    if not isinstance(value, dict):
        raise InvalidData(f"{file}: {table} id {one}: properties: expected an object, got {type(value).__name__}")
    return value


def _indexes(connection: sqlite3.Connection, file: Path, known: set[int], report: SourceReport) -> list[GrafitoIndex]:
    out = []
    ask = "SELECT name, dim, backend, method, options FROM vector_indexes ORDER BY rowid"
    for name, width, backend, method, text in connection.execute(ask).fetchall():
        options = _properties(text, file, "vector_indexes", name)
        made_by = options.get("embedding_function") or {}
        model = (made_by.get("config") or {}).get("model_name") or made_by.get("name")
        metric = str(options.get("metric") or DEFAULT_METRICS.get(backend, "cosine")).lower()
        ids, vectors = _entries(connection, file, name, width, known, report)
        if not ids:
            where = "the file of its own index, which isn't opened" if options.get("index_path") else "no vectors"
            report.notes.append(f"vector index {name!r} ({backend}, {metric}): {where}; nothing in vector_entries")
        if method != "flat":
            report.notes.append(
                f"vector index {name!r}: {backend} {method} is approximate in Grafito; here it is exact"
            )
        out.append(GrafitoIndex(name, backend, method, metric, options.get("default_k"), model, ids, vectors))
    return out


def _entries(connection: sqlite3.Connection, file: Path, name: str, width: int, known: set[int],
             report: SourceReport) -> tuple[list[int], np.ndarray]:  # fmt: skip
    """Ids and vectors in the order in which Grafito reads them."""
    ids, rows, left = [], [], []
    count = 0
    for node, text in connection.execute("SELECT node_id, vector FROM vector_entries WHERE index_name = ?", (name,)):
        count += 1
        place = f"{file}: vector_entries {name!r} node {node}"
        try:
            row = np.asarray(json.loads(text), np.float32)
        except (ValueError, TypeError, RecursionError) as error:
            raise InvalidData(f"{place}: expected a list of numbers: {error}") from error
        if row.shape != (width,):
            raise InvalidData(f"{place}: expected {width} numbers, got {row.size}")
        if node in known:
            ids.append(node)
            rows.append(row)
        else:
            left.append(f"vector_entries:{count}")
    report.note("vector of a node that isn't there; left out", left)
    report.tables[f"vector_entries {name}"] = count, len(ids)
    return ids, np.stack(rows) if rows else np.zeros((0, width), np.float32)


def _text_rows(connection: sqlite3.Connection) -> list[tuple[str, int, str, str]]:
    ask = "SELECT entity_type, entity_id, label_type, content FROM fts_index ORDER BY rowid"
    return [(kind, int(one), label, content or "") for kind, one, label, content in connection.execute(ask)]


def _places(records: list[dict[str, Any]]) -> dict[int, int]:
    return {record["id"]: row for row, record in enumerate(records)}


def _first_text(properties: dict[str, Any], keys: tuple[str, ...]) -> str | None:
    return next((properties[key] for key in keys if isinstance(properties.get(key), str)), None)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
