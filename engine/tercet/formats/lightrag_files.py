"""What LightRAG and nano-graphrag folders have in common: a GraphML file, key-value stores, vector stores."""

import base64
import binascii
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tercet.errors import InvalidArgument, InvalidData
from tercet.formats import xmlgraph
from tercet.formats.imported import Imported, ImportedVectors, SourceReport
from tercet.formats.parts import CHUNK, DOCUMENT, ENTITY, MENTIONED, PART, RELATED, Parts, labels, lookup, read_json
from tercet.ids import text_column

SEP = "<SEP>"
GRAPH = "graph_chunk_entity_relation.graphml"
CHUNKS, DOCUMENTS, STATUS = "kv_store_text_chunks.json", "kv_store_full_docs.json", "kv_store_doc_status.json"


@dataclass
class Folder:
    """A working folder while it is read.

    Attributes:
        clean: makes a name, a type or a description out of the stored text.
    """

    path: Path
    report: SourceReport
    clean: Callable[[str], str]
    graph: xmlgraph.XmlGraph = field(default_factory=xmlgraph.XmlGraph)
    nodes: Parts = field(default_factory=lambda: Parts("nodes", ("id", "name", "type", "text", "description")))
    edges: Parts = field(default_factory=lambda: Parts("edges", ("source", "target", "relation", "edge_text")))
    chunks: dict[str, Any] = field(default_factory=dict)
    sentences: dict[frozenset[str], str] = field(default_factory=dict)  # edge texts by their ends

    def imported(self, vectors: Iterable[ImportedVectors]) -> Imported:
        """The tables.

        Raises:
            InvalidData: an entity, a chunk, a document or a community have one id.
        """
        return Imported(self.nodes.table(ids="id"), self.edges.table(), tuple(vectors), self.report)

    def add_graph(self, more_chunks: dict[str, list[str]], more_edge_chunks: dict[frozenset[str], list[str]]) -> None:
        """Entities, relations, chunks and documents, with what links them.

        Args:
            more_chunks, more_edge_chunks: chunks of entities and of relations beside those in the GraphML.
        """
        self.graph = xmlgraph.read(self.path / GRAPH)
        if not self.graph.directed:
            self.report.notes.append("the graph is undirected: edges are read in the order of their ends in the file")
        self.chunks = self.store(CHUNKS, ("content",))
        self._entities()
        self._relations(more_edge_chunks)
        self._chunks()
        names, lines = [n for n, *_ in self.graph.nodes], [line for *_, line in self.graph.nodes]
        held = [
            list(dict.fromkeys([*split(given.get("source_id")), *more_chunks.get(name, ())]))
            for name, given, _ in self.graph.nodes
        ]
        self.link(
            GRAPH, names, held, self.chunks, MENTIONED, lines, f"chunk of an entity that isn't in {CHUNKS}; no edge"
        )

    def _entities(self) -> None:
        known = {name for name, *_ in self.graph.nodes}
        lines = [line for *_, line in self.graph.nodes]
        types = [self.clean(given.get("entity_type") or "") or ENTITY for _, given, _ in self.graph.nodes]
        columns: dict[str, list[Any]] = {
            "id": [name for name, *_ in self.graph.nodes],
            "name": [self.clean(given.get("entity_id") or name) for name, given, _ in self.graph.nodes],
            "type": types,
            "description": [self.joined(given.get("description")) for _, given, _ in self.graph.nodes],
            "labels": labels(ENTITY, types),
        }
        taken = {"entity_id", "entity_type", "description", "source_id", "clusters"}
        self.nodes.add(GRAPH, columns | self._more([given for _, given, _ in self.graph.nodes], taken), lines)
        self.report.tables[f"{GRAPH} nodes"] = len(columns["id"]), len(columns["id"])
        ends = [(end, line) for *both, _, line in self.graph.edges for end in both if end not in known]
        self.report.note("end of an edge that is no node; made a node", [f"{GRAPH}:{line}" for _, line in ends])
        fresh = dict(reversed(ends))
        if fresh:
            columns = {"id": list(fresh), "name": [self.clean(name) for name in fresh], "type": [ENTITY] * len(fresh),
                       "labels": [[ENTITY]] * len(fresh)}  # fmt: skip
            self.nodes.add(GRAPH, columns, list(fresh.values()))

    def _relations(self, more_chunks: dict[frozenset[str], list[str]]) -> None:
        given = [attributes for *_, attributes, _ in self.graph.edges]
        ends = [frozenset(both) for *both, _, _ in self.graph.edges]
        texts = [self.joined(g.get("description")) or self.joined(g.get("keywords")) for g in given]
        for pair, text in zip(ends, texts, strict=True):
            self.sentences.setdefault(pair, text or RELATED)
        columns: dict[str, list[Any]] = {
            "source": [e[0] for e in self.graph.edges], "target": [e[1] for e in self.graph.edges],
            "relation": [RELATED] * len(given), "edge_text": texts,
            "chunks": [list(dict.fromkeys([*split(g.get("source_id")), *more_chunks.get(pair, ())]))
                       for g, pair in zip(given, ends, strict=True)],
        }  # fmt: skip
        self.edges.add(
            GRAPH, columns | self._more(given, {"description", "source_id"}), [e[3] for e in self.graph.edges]
        )
        self.report.tables[f"{GRAPH} edges"] = len(given), len(given)

    def _more(self, given: list[dict[str, Any]], taken: set[str]) -> dict[str, list[Any]]:
        """The other attributes as columns; file paths become lists."""
        names = [n for n in dict.fromkeys(key for attributes in given for key in attributes) if n not in taken]
        return {
            name: [split(g.get(name)) if name == "file_path" else g.get(name) for g in given]
            for name in names if any(g.get(name) not in (None, "") for g in given)
        }  # fmt: skip

    def _chunks(self) -> None:
        rows = list(self.chunks.values())
        columns: dict[str, list[Any]] = {
            "id": list(self.chunks), "type": [CHUNK] * len(rows), "text": [row["content"] for row in rows],
            "labels": [[CHUNK]] * len(rows),
        }  # fmt: skip
        for name in ("chunk_order_index", "tokens", "file_path", "full_doc_id"):
            if any(name in row for row in rows):
                columns[name] = [split(r.get(name)) if name == "file_path" else r.get(name) for r in rows]
        self.nodes.add(CHUNKS, columns)
        documents, status = self.store(DOCUMENTS, ()), self.store(STATUS, ())
        rows = list(documents.values())
        columns = {
            "id": list(documents), "type": [DOCUMENT] * len(rows), "text": [row.get("content") for row in rows],
            "labels": [[DOCUMENT]] * len(rows),
        }  # fmt: skip
        for name in ("file_path", "created_at", "status"):
            got = [status.get(key, {}).get(name, row.get(name)) for key, row in documents.items()]
            if any(v is not None for v in got):
                columns["document_created_at" if name == "created_at" else name] = (
                    [split(v) for v in got] if name == "file_path" else got
                )
        if documents:
            self.nodes.add(DOCUMENTS, columns)
        of = [[row["full_doc_id"]] if row.get("full_doc_id") else [] for row in self.chunks.values()]
        self.link(
            CHUNKS,
            list(self.chunks),
            of,
            documents,
            PART,
            None,
            f"document of a chunk that isn't in {DOCUMENTS}; no edge",
        )

    def link(self, file: str, source: list[str], targets: list[list[str]], known: Any, relation: str,
             lines: list[int] | None, problem: str) -> None:  # fmt: skip
        """Edges from each source to its targets; targets that aren't known are counted instead."""
        pairs = [
            (one, target, lines[i] if lines is not None else i + 1)
            for i, (one, some) in enumerate(zip(source, targets, strict=True)) for target in some
        ]  # fmt: skip
        self.report.note(problem, [f"{file}:{line}" for _, target, line in pairs if target not in known])
        kept = [pair for pair in pairs if pair[1] in known]
        columns = {"source": [p[0] for p in kept], "target": [p[1] for p in kept], "relation": [relation] * len(kept)}
        self.edges.add(file, columns, [p[2] for p in kept])

    def store(self, name: str, needed: tuple[str, ...]) -> dict[str, Any]:
        """A key-value store, empty where there is no such file.

        Raises:
            InvalidData: not an object of objects with the needed keys; names the key.
        """
        path = self.path / name
        if not path.is_file():
            self.report.notes.append(f"there is no {name}")
            return {}
        held = read_json(path)
        if not isinstance(held, dict):
            raise InvalidData(f"{path}: expected an object, got {type(held).__name__}")
        for row, (key, value) in enumerate(held.items(), 1):
            if not isinstance(value, dict) or any(not isinstance(value.get(n), str) for n in needed):
                got = list(value) if isinstance(value, dict) else type(value).__name__
                wanted = f" with the texts {', '.join(needed)}" if needed else ""
                raise InvalidData(f"{path} entry {row} ({key!r}): expected an object{wanted}, got {got}")
        self.report.tables[name] = len(held), len(held)
        return held

    def joined(self, text: str | None) -> str | None:
        """The values of a text, one a line."""
        return None if text is None else "\n".join(self.clean(part) for part in text.split(SEP))

    def vectors(self, name: str, collection: str, owner: Callable[[dict[str, Any]], str | None], known: Any,
                *, model: str | None, metric: str, relation: bool = False) -> list[ImportedVectors]:  # fmt: skip
        """The vectors of a store, none where there is no such file.

        Args:
            owner: the node id, or the edge text, that a record belongs to.
            known: node ids; vectors of others are left out and counted.

        Raises:
            InvalidData: the matrix isn't base64, or of another size than the records and the width say.
        """
        path = self.path / name
        if not path.is_file():
            self.report.notes.append(f"there is no {name}: no vectors of it")
            return []
        held = read_json(path)
        rows, packed, width = (
            held.get(n) if isinstance(held, dict) else None for n in ("data", "matrix", "embedding_dim")
        )
        if not isinstance(rows, list) or not isinstance(packed, str):
            raise InvalidData(f"{path}: expected an object with data, matrix and embedding_dim")
        if not isinstance(width, int) or width < 1:
            raise InvalidData(f"{path}: embedding_dim: expected a positive whole number, got {width!r}")
        try:
            raw = base64.b64decode(packed, validate=True)
        except (binascii.Error, ValueError) as error:
            raise InvalidData(f"{path}: matrix: not valid base64: {error}") from error
        if len(raw) != 4 * width * len(rows):
            raise InvalidData(
                f"{path}: matrix: expected {len(rows)} x {width} float32, which is {4 * width * len(rows)} bytes, "
                f"got {len(raw)}"
            )
        owners = []
        for i, record in enumerate(rows, 1):
            if not isinstance(record, dict):
                raise InvalidData(f"{path} record {i}: expected an object, got {type(record).__name__}")
            owners.append(owner(record))
        ids = text_column(owners, f"{path} owner")
        good = np.asarray(ids.is_valid()) if relation else lookup(ids, known) >= 0
        self.report.note("vector of nothing in the graph; left out", [f"{name}:{i + 1}" for i in np.flatnonzero(~good)])
        self.report.tables[name] = len(rows), int(good.sum())
        if not good.any():
            return []
        matrix = np.frombuffer(raw, "<f4").reshape(len(rows), width)[good]
        kind: Any = "relation" if relation else "node"
        return [ImportedVectors(collection, kind, ids.filter(pa.array(good)), matrix, model, metric)]


def split(text: str | None) -> list[str]:
    """The values of a text, each once."""
    return [] if not text else list(dict.fromkeys(part for part in text.split(SEP) if part))


def need_folder(path: str | Path, system: str) -> Path:
    """The folder, if it holds the graph.

    Raises:
        InvalidArgument: it doesn't.
    """
    folder = Path(path)
    if not (folder / GRAPH).is_file():
        raise InvalidArgument(f"{folder}: expected a working folder of {system} with {GRAPH}")
    return folder
