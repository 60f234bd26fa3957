"""The embedded stores of Cognee (1.6): a Ladybug or Kuzu graph file and LanceDB collections, by their own packages.

Reading needs the packages that wrote the files: lancedb (in `lance`) and ladybug or kuzu, imported here only.
"""

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tercet import cognee
from tercet.collection import Collection
from tercet.errors import InvalidArgument, InvalidData, MissingDependency
from tercet.formats import lance
from tercet.formats.imported import Imported, ImportedVectors, SourceReport
from tercet.formats.parts import as_column, lookup, vector_rows
from tercet.graph import Graph
from tercet.ids import text_column

Node = tuple[str, dict[str, Any]]
Edge = tuple[str, str, str, dict[str, Any]]
GRAPHS = ("cognee_graph_ladybug", "cognee_graph_kuzu", "*.lbug", "*.pkl")  # Cognee's own names; the last are no pickles
VECTORS = ("cognee.lancedb", "*.lance.db")
KNOWN = ("id", "name", "type", "text", "description", "importance_weight", "feedback_weight", "belongs_to_set")
SHOWN = 6


@dataclass(frozen=True, eq=False)
class CogneeStore:
    """Records as Cognee's own `get_graph_data` gives them, and its collections."""

    nodes: list[Node]
    edges: list[Edge]
    collections: dict[str, pa.Table]  # by name: id (text), vector, belongs_to_set (lists), in stored order
    report: SourceReport

    def graph(self) -> Graph:
        """The graph as Cognee's search sees it: `tercet.cognee.graph_from_records`."""
        return cognee.graph_from_records(self.nodes, self.edges)

    def searched(self, graph: Graph) -> list[Collection]:
        """The collections for an engine in mode "cognee", with the node sets of their rows.

        Raises:
            InvalidData: a vector isn't finite, or vectors differ in length.
        """
        text_of = {cognee.edge_type_id(key): key for key in graph.keys.to_pylist()}
        out = []
        for name, table in self.collections.items():
            vectors, kept = vector_rows(table.column("vector"), name, self.report)
            if not len(kept):
                continue
            taken = table.take(pa.array(kept))
            relation = name == cognee.EDGE_COLLECTION
            ids = taken.column("id").to_pylist()
            owner = [text_of.get(i, f"unknown:{i}") for i in ids] if relation else ids
            out.append(Collection.build(
                name, vectors, owner, "relation" if relation else "node", order="input", fold_owner=False,
                belongs_to_set=taken.column("belongs_to_set"),
            ))  # fmt: skip
        return out


def read(
    path: str | Path, *, graph: str | None = None, vectors: str | None = None, model: str | None = None
) -> Imported:
    """Read a system folder of Cognee as tables; see `load` for the arguments.

    Nodes and edges keep their ids, names, types, texts, weights and node sets; their other properties are JSON objects
    in `properties`. Collections with vectors of nodes become entries by their own names; those of edge texts belong to
    the texts they were made of. Weights outside [0, 1] are cleared and counted.

    Args:
        model: who made the vectors, which the files don't tell.

    Raises:
        As `load`.
    """
    return tables(load(path, graph=graph, vectors=vectors), model=model)


def tables(store: CogneeStore, *, model: str | None = None) -> Imported:
    """The records of a store as tables; see `read`."""
    nodes, edges = _node_table(store), _edge_table(store)
    known = nodes.column("id")
    text_of: dict[str, str] = {}
    for text in [*edges.column("edge_text").to_pylist(), *edges.column("relation").to_pylist()]:
        if text:
            text_of.setdefault(cognee.edge_type_id(text), text)
    entries = []
    for name, table in store.collections.items():
        rows, kept = vector_rows(table.column("vector"), name, store.report)
        ids = table.column("id").take(pa.array(kept)).combine_chunks()
        relation = name == cognee.EDGE_COLLECTION
        owner = as_column([text_of.get(i) for i in ids.to_pylist()], name) if relation else ids
        good = np.asarray(owner.is_valid()) if relation else lookup(owner, known) >= 0
        store.report.note(
            "vector of nothing in the graph; left out", [f"{name}:{kept[i] + 1}" for i in np.flatnonzero(~good)]
        )
        store.report.tables[name] = table.num_rows, int(good.sum())
        if good.any():
            kind: Any = "relation" if relation else "node"
            entries.append(ImportedVectors(name, kind, owner.filter(pa.array(good)), rows[good], model))
    return Imported(nodes, edges, tuple(entries), store.report)


def load(path: str | Path, *, graph: str | None = None, vectors: str | None = None) -> CogneeStore:
    """The records and collections of a system folder of Cognee, or of a folder `databases` in one.

    The files are opened for reading only; a process of Cognee that writes to them must have ended.

    Args:
        path: the folder.
        graph, vectors: names of the graph file and of the LanceDB folder, where there are several (one a dataset).

    Raises:
        InvalidArgument: neither is there, or several are and none was named.
        MissingDependency: lancedb, or ladybug (or kuzu), isn't installed.
        InvalidData: a file that can't be read, or a record that isn't as Cognee writes it.
    """
    folder = Path(path)
    graph_file = _one(folder, GRAPHS, graph, "graph")
    lance_folder = _one(folder, VECTORS, vectors, "vectors")
    if graph_file is None:
        raise InvalidArgument(f"{folder}: expected a graph file of Cognee ({', '.join(GRAPHS)}), here or in databases/")
    report = SourceReport("Cognee")
    nodes, edges = _records(graph_file)
    report.tables |= {"Node": (len(nodes), len(nodes)), "EDGE": (len(edges), len(edges))}
    collections = {}
    if lance_folder is None:
        report.notes.append("there is no LanceDB folder: no vectors")
    else:
        collections = {name: _collection(name, table) for name, table in lance.tables(lance_folder).items()}
    return CogneeStore(nodes, edges, collections, report)


def _one(folder: Path, patterns: tuple[str, ...], name: str | None, argument: str) -> Path | None:
    """The first place that has something of these names; several in one place have to be told apart."""
    for place in (folder, folder / "databases", *sorted(p for p in folder.glob("databases/*") if p.is_dir())):
        found = sorted({p for pattern in patterns for p in place.glob(pattern)})
        found = [p for p in found if name is None or p.name == name]
        if len(found) > 1:
            names = ", ".join(p.name for p in found[:SHOWN])
            raise InvalidArgument(f"{folder}: several stores, choose one by {argument}=: {names}")
        if found:
            return found[0]
    return None


def _records(file: Path) -> tuple[list[Node], list[Edge]]:
    """All nodes and edges, as Cognee's adapter gives them."""
    nodes = []
    for row, (one, name, kind, text) in enumerate(
        _rows(file, "MATCH (n:Node) RETURN n.id, n.name, n.type, n.properties"), 1
    ):
        nodes.append((str(one), {"name": name, "type": kind, **_object(text, f"Node row {row} ({one!r})")}))
    edges = []
    ask = "MATCH (n:Node)-[r:EDGE]->(m:Node) RETURN n.id, m.id, r.relationship_name, r.properties"
    for row, (source, target, name, text) in enumerate(_rows(file, ask), 1):
        edges.append((str(source), str(target), str(name), _object(text, f"EDGE row {row} ({source!r}, {target!r})")))
    return nodes, edges


def _rows(file: Path, query: str) -> Iterator[list[Any]]:
    driver = _driver(file)
    try:
        with (
            closing(driver.Database(str(file), read_only=True)) as database,
            closing(driver.Connection(database)) as connection,
            closing(connection.execute(query)) as result,
        ):
            while result.has_next():
                yield result.get_next()
    except RuntimeError as error:
        raise InvalidData(f"{file}: not a graph file that {driver.__name__} can read: {error}") from error


def _driver(file: Path) -> Any:
    """ladybug, or kuzu of which it is the successor."""
    for name in ("ladybug", "kuzu"):
        try:
            return __import__(name)
        except ImportError:
            continue
    raise MissingDependency(f"{file}: reading Cognee's graph needs ladybug: pip install ladybug")


def _object(text: str | None, place: str) -> dict[str, Any]:
    try:
        value = json.loads(text or "{}")
    except (json.JSONDecodeError, RecursionError) as error:
        raise InvalidData(f"{place}: properties: not valid JSON: {error}") from error
    if not isinstance(value, dict):
        raise InvalidData(f"{place}: properties: expected an object, got {type(value).__name__}")
    return value


def _collection(name: str, table: pa.Table) -> pa.Table:
    """id, vector and node sets of a table of Cognee: id, vector, payload."""
    if not {"id", "vector"} <= set(table.column_names):
        raise InvalidData(f"{name}: expected the columns id, vector, payload, got {table.column_names}")
    sets: list[list[str]] = [[] for _ in range(table.num_rows)]
    if "payload" in table.column_names:
        field = table.schema.field("payload").type
        if pa.types.is_struct(field) and field.get_field_index("belongs_to_set") >= 0:
            sets = [(row or {}).get("belongs_to_set") or [] for row in table.column("payload").to_pylist()]
    ids = as_column(table.column("id"), f"{name}.id")
    held = pa.array(sets, pa.list_(pa.large_string()))
    return pa.table({"id": ids, "vector": table.column("vector").combine_chunks(), "belongs_to_set": held})


def _node_table(store: CogneeStore) -> pa.Table:
    props = [p for _, p in store.nodes]
    columns: dict[str, Any] = {"id": text_column([one for one, _ in store.nodes], "Node.id")}
    for name in ("name", "type", "text", "description"):
        columns[name] = text_column([_text(p.get(name)) for p in props], f"Node.{name}")
    columns |= _weights(props, "Node", store.report)
    sets = [_names(p.get("belongs_to_set")) for p in props]
    columns["belongs_to_set"] = pa.array(sets, pa.list_(pa.large_string()))
    columns["properties"] = text_column([_rest(p) for p in props], "Node.properties")
    return pa.table(columns)


def _edge_table(store: CogneeStore) -> pa.Table:
    props = [p for *_, p in store.edges]
    ends: list[list[str]] = [[edge[0] for edge in store.edges], [edge[1] for edge in store.edges]]
    columns: dict[str, Any] = {
        "source": text_column(ends[0], "EDGE.source"), "target": text_column(ends[1], "EDGE.target"),
        "relation": text_column([edge[2] for edge in store.edges], "EDGE.relationship_name"),
    }  # fmt: skip
    columns["edge_text"] = text_column([_text(p.get("edge_text")) for p in props], "EDGE.edge_text")
    columns |= _weights(props, "EDGE", store.report)
    columns["weight"] = pa.array([_number(p.get("weight")) for p in props], pa.float64())
    columns["properties"] = text_column([_rest(p) for p in props], "EDGE.properties")
    return pa.table(columns)


def _weights(props: list[dict[str, Any]], place: str, report: SourceReport) -> dict[str, pa.Array]:
    out = {}
    for name in ("importance_weight", "feedback_weight"):
        got = [_number(p.get(name)) for p in props]
        wrong = [i for i, (p, v) in enumerate(zip(props, got, strict=True)) if p.get(name) is not None and not _unit(v)]
        report.note(f"{name} that isn't a number in [0, 1]; cleared", [f"{place}:{i + 1}" for i in wrong])
        out[name] = pa.array([v if _unit(v) else None for v in got], pa.float64())
    return out


def _unit(value: float | None) -> bool:
    return value is not None and 0 <= value <= 1


def _number(value: Any) -> float | None:
    try:
        return None if value is None else float(value)
    except (TypeError, ValueError):
        return None


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _names(value: Any) -> list[str]:
    """Node sets, which Cognee stores as texts or as objects with a name."""
    if not isinstance(value, list):
        return []
    return [str(v.get("name", v)) if isinstance(v, dict) else str(v) for v in value]


def _rest(props: dict[str, Any]) -> str:
    return json.dumps({k: v for k, v in props.items() if k not in KNOWN}, ensure_ascii=False, default=str)
