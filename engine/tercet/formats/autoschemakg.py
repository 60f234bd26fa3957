"""Output folders of AutoSchemaKG (atlas-rag): CSV files with the headers of Neo4j's bulk import."""

import ast
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tercet.errors import InvalidArgument, InvalidData
from tercet.formats.imported import Imported, ImportedVectors, SourceReport
from tercet.formats.parts import (
    CHUNK,
    ENTITY,
    MENTIONED,
    RELATION_VECTORS,
    Parts,
    as_column,
    labels,
    read_csv,
    vector_rows,
)  # fmt: skip

CONCEPT = "Concept"
# Where the files <table>_*.csv are.
FILES = {
    "triple_nodes": "triples_csv", "triple_edges": "triples_csv", "text_nodes": "triples_csv",
    "text_edges": "triples_csv", "concept_nodes": "concept_csv", "concept_edges": "concept_csv",
    "concept_triple_edges": "concept_csv",
}  # fmt: skip
ENDS = (":START_ID", ":END_ID")
LISTS = ("concepts", "synsets")
NUMBERS = ("numeric_id",)


def read(path: str | Path, *, model: str | None = None, metric: str = "cosine") -> Imported:
    """Read an output folder of AutoSchemaKG, with its subfolders triples_csv and concept_csv (or one with their files).

    Nodes of triples are known by their text, which is their name as well; texts and concepts by their hashes. Triples
    keep their relation, and the concepts of relations and nodes as lists. Nodes are "mentioned in" texts and
    "has_concept" concepts. Columns of vectors (names beginning with "embedding") become vectors.

    Args:
        path: the folder.
        model, metric: of the vectors, which the files don't tell.

    Raises:
        InvalidArgument: there is no triple_nodes*.csv, or no triple_edges*.csv.
        InvalidData: a file is damaged or lacks a column, or an id is missing or there twice; names file and row.
    """
    folder = Path(path)
    files = {name: file for name in FILES if (file := _file(folder, name)) is not None}
    if "triple_nodes" not in files or not {"triple_edges", "concept_triple_edges"} & set(files):
        raise InvalidArgument(f"{folder}: expected triples_csv/triple_nodes*.csv and triple_edges*.csv")
    made = _Maker({name: file.name for name, file in files.items()}, SourceReport("AutoSchemaKG"))
    edges = files.pop("concept_triple_edges", None)
    with_vectors = "triple_edges" in files and "with_emb" in files["triple_edges"].name
    if edges is not None and not with_vectors:  # the same triples, with the concepts of their relations
        files["triple_edges"], made.files["triple_edges"] = edges, edges.name
    made.vectors_of = (model, metric)
    for name, add in (
        ("triple_nodes", made.nodes_of_triples), ("text_nodes", made.texts), ("concept_nodes", made.concepts),
        ("triple_edges", made.triples), ("text_edges", made.mentions), ("concept_edges", made.has_concept),
    ):  # fmt: skip
        if name in files:
            add(read_csv(files[name]))
        else:
            made.report.notes.append(f"there is no {name}*.csv")
    extra = [d.name for d in (folder / "kg_extraction", folder / "concepts") if d.is_dir()]
    if extra:
        made.report.notes.append(f"{' and '.join(extra)}, of which the CSVs are made, weren't read")
    return Imported(made.nodes.table(ids="id"), made.edges.table(), tuple(made.vectors), made.report)


def _file(folder: Path, name: str) -> Path | None:
    """The file of a table: with vectors, else with numbers, else the shortest name."""
    stem = name.removeprefix("concept_") if name == "concept_triple_edges" else name
    places = [folder / FILES[name]] if (folder / FILES[name]).is_dir() else [folder]
    found = [f for place in places for f in place.glob(f"{stem}_*.csv") if f.is_file()]
    if name == "concept_triple_edges":
        found = [f for f in found if "with_concept" in f.name]
    elif places[0].name != FILES[name] and name == "triple_edges":
        found = [f for f in found if "with_concept" not in f.name]
    order = {f: ("with_emb" not in f.name, "with_numeric_id" not in f.name, len(f.name), f.name) for f in found}
    return min(found, key=lambda f: order[f], default=None)


@dataclass
class _Maker:
    """Nodes and edges made from the tables one after the other."""

    files: dict[str, str]
    report: SourceReport
    nodes: Parts = field(default_factory=lambda: Parts("nodes", ("id", "name", "type", "text", "description")))
    edges: Parts = field(default_factory=lambda: Parts("edges", ("source", "target", "relation")))
    vectors: list[ImportedVectors] = field(default_factory=list)
    vectors_of: tuple[str | None, str] = (None, "cosine")
    known: set[str] = field(default_factory=set)

    def nodes_of_triples(self, table: pa.Table) -> None:
        ids, types = self._id(table, "triple_nodes"), _text(table, "type")
        kinds = pc.if_else(pc.fill_null(pc.not_equal(types, ""), False), types, pa.scalar(ENTITY, pa.large_string()))
        columns = {"id": ids, "name": ids, "type": kinds, "labels": labels(ENTITY, kinds.to_pylist())}
        self._add("triple_nodes", table, columns, {"type"})
        self._vectors("triple_nodes", table, "Entity_name", ids, "node")

    def texts(self, table: pa.Table) -> None:
        text = _need(table, "original_text", self.files["text_nodes"])
        columns = {"id": self._id(table, "text_nodes"), "type": [CHUNK] * len(text), "text": text,
                   "labels": [[CHUNK]] * len(text)}  # fmt: skip
        self._add("text_nodes", table, columns, {"original_text"})
        self._vectors("text_nodes", table, "DocumentChunk_text", columns["id"], "node")

    def concepts(self, table: pa.Table) -> None:
        name = _need(table, "name", self.files["concept_nodes"])
        columns = {"id": self._id(table, "concept_nodes"), "name": name, "type": [CONCEPT] * len(name),
                   "labels": [[CONCEPT]] * len(name)}  # fmt: skip
        self._add("concept_nodes", table, columns, {"name"})

    def triples(self, table: pa.Table) -> None:
        relation = _need(table, "relation", self.files["triple_edges"])
        columns = self._ends(table, "triple_edges") | {"relation": relation}
        parts = [columns["source"], pc.fill_null(relation, ""), columns["target"], pa.scalar(" ", pa.large_string())]
        sentence = pc.binary_join_element_wise(*parts)
        if any(c.startswith("embedding") for c in table.column_names):  # vectors are of whole triples
            columns["edge_text"] = sentence
        self._add("triple_edges", table, columns, {"relation"}, edges=True)
        self._vectors("triple_edges", table, RELATION_VECTORS, sentence, "relation")

    def mentions(self, table: pa.Table) -> None:
        columns = self._ends(table, "text_edges") | {"relation": [MENTIONED] * table.num_rows}
        self._add("text_edges", table, columns, set(), edges=True)

    def has_concept(self, table: pa.Table) -> None:
        columns = self._ends(table, "concept_edges")
        columns["relation"] = _need(table, "relation", self.files["concept_edges"])
        self._add("concept_edges", table, columns, {"relation"}, edges=True)

    def _id(self, table: pa.Table, name: str) -> pa.Array:
        """The column whose header ends in :ID."""
        found = [c for c in table.column_names if c.endswith(":ID") or ":ID(" in c]
        if len(found) != 1:
            raise InvalidData(f"{self.files[name]}: expected one column <name>:ID, got {table.column_names}")
        return as_column(table.column(found[0]), found[0])

    def _ends(self, table: pa.Table, name: str) -> dict[str, Any]:
        """Both ends; nodes are made of those that no file describes."""
        ends = {}
        for column, side in zip(ENDS, ("source", "target"), strict=True):
            ids = _need(table, column, self.files[name])
            if ids.null_count:
                row = int(np.flatnonzero(np.asarray(pc.is_null(ids)))[0])
                raise InvalidData(f"{self.files[name]}:{row + 1}: {column} is empty ({ids.null_count} such rows)")
            rows = [(one, row + 1) for row, one in enumerate(ids.to_pylist()) if one not in self.known]
            self.report.note(
                "end of an edge that no file describes; made a node", [f"{self.files[name]}:{r}" for _, r in rows]
            )
            fresh = dict(reversed(rows))
            if fresh:
                columns = {"id": list(fresh), "name": list(fresh), "type": [ENTITY] * len(fresh),
                           "labels": [[ENTITY]] * len(fresh)}  # fmt: skip
                self.nodes.add(self.files[name], columns, list(fresh.values()))
                self.known.update(fresh)
            ends[side] = ids
        return ends

    def _add(
        self, name: str, table: pa.Table, columns: dict[str, Any], taken: set[str], *, edges: bool = False
    ) -> None:
        file = self.files[name]
        for column in table.column_names:
            if column in taken or ":" in column or column.startswith("embedding"):
                continue
            values = table.column(column)
            if column in LISTS:
                columns[column] = [_list(v, f"{file}:{i}") for i, v in enumerate(values.to_pylist(), 1)]
            elif column in NUMBERS:
                columns[column] = _whole(values, f"{file}: {column}")
            else:
                columns[column] = values
        (self.edges if edges else self.nodes).add(file, columns)
        self.report.tables[file] = table.num_rows, table.num_rows
        if not edges:
            self.known.update(i for i in columns["id"].to_pylist() if i is not None)

    def _vectors(self, name: str, table: pa.Table, collection: str, owner: pa.Array, kind: Any) -> None:
        column = next((c for c in table.column_names if c.startswith("embedding")), None)
        if column is None:
            return
        file = self.files[name]
        texts = table.column(column).to_pylist()
        parsed = pa.array([_vector(text, f"{file}:{i}") for i, text in enumerate(texts, 1)], pa.list_(pa.float64()))
        vectors, kept = vector_rows(parsed, file, self.report)
        if len(kept):
            of = owner.take(pa.array(kept))
            self.vectors.append(ImportedVectors(collection, kind, of, vectors, *self.vectors_of))


def _text(table: pa.Table, name: str) -> pa.Array:
    if name not in table.column_names:
        return pa.nulls(table.num_rows, pa.large_string())
    return as_column(table.column(name), name)


def _need(table: pa.Table, name: str, file: str) -> pa.Array:
    if name not in table.column_names:
        raise InvalidData(f"{file}: expected a column {name}, got {table.column_names}")
    return as_column(table.column(name), name)


def _list(text: str | None, place: str) -> list[str] | None:
    """A list of texts as Python prints it."""
    if text is None:
        return None
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError) as error:
        raise InvalidData(f"{place}: expected a list of texts, got {text[:80]!r}") from error
    if not isinstance(value, (list, tuple)):
        raise InvalidData(f"{place}: expected a list of texts, got {text[:80]!r}")
    return [str(v) for v in value]


def _vector(text: str | None, place: str) -> list[float] | None:
    """Numbers in brackets, with commas or blanks between."""
    if text is None or not text.strip("[] \n"):
        return None
    try:
        return [float(part) for part in text.strip("[] \n").replace(",", " ").split()]
    except ValueError as error:
        raise InvalidData(f"{place}: expected a vector, got {text[:80]!r}") from error


def _whole(values: pa.ChunkedArray, place: str) -> Any:
    try:
        return pc.cast(values, pa.int64())
    except pa.ArrowInvalid as error:
        raise InvalidData(f"{place}: expected whole numbers: {error}") from error
