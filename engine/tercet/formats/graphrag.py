"""Output folders of Microsoft GraphRAG: entities.parquet and the others, or create_final_*.parquet of 0.x and 1.x."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tercet.errors import InvalidArgument, InvalidData
from tercet.formats.graphrag_vectors import read_vectors
from tercet.formats.imported import Imported, SourceReport
from tercet.formats.parts import (
    CHUNK,
    COMMUNITY,
    DOCUMENT,
    ENTITY,
    MEMBER,
    MENTIONED,
    PART,
    RELATED,
    REPORT,
    REPORTS,
    Parts,
    as_column,
    exploded,
    labels,
    lookup,
    prefixed,
    read_parquet,
)  # fmt: skip

OLD = "create_final_"
NEEDED = {
    "entities": ("id",), "relationships": ("id", "source", "target"), "text_units": ("id", "text"),
    "documents": ("id",), "communities": ("id", "level"), "community_reports": ("id", "community", "full_content"),
    "covariates": ("id", "subject_id"), "nodes": ("id", "level", "community"),
}  # fmt: skip
LINKS = {"text_unit_ids", "entity_ids", "relationship_ids", "covariate_ids", "document_ids", "document_id", "children"}
LEFT_OUT = {"graph_embedding", "top_level_node_id", "__index_level_0__"}


def read(path: str | Path, *, model: str | None = None, metric: str = "cosine") -> Imported:
    """Read an output folder of Microsoft GraphRAG.

    Nodes keep their own ids: entities (labels Entity and their type), text units (DocumentChunk), documents,
    communities, community reports and covariates (claims). Relationships name entities by title; they are resolved to
    entity ids, and a title without an entity becomes a node "title:<title>" of its own, counted in the report.
    Entities are "mentioned in" text units and "member of" communities; text units are "part of" documents, communities
    "part of" the one above; reports "reports on" communities; covariates are "about" their subject and object.
    A report id that serves several communities (it is a hash of the text) becomes "<id>:<community>" from then on.

    Args:
        path: the folder.
        model, metric: of the vectors, which the files don't tell.

    Raises:
        InvalidArgument: none of its files is there.
        InvalidData: a file is damaged, lacks a column, or an id is missing or there twice.
        MissingDependency: there are LanceDB tables and lancedb isn't installed.
    """
    folder = Path(path)
    files = _files(folder)
    if not files:
        raise InvalidArgument(f"{folder}: expected entities.parquet, text_units.parquet or {OLD}entities.parquet")
    old = any(file.name.startswith(OLD) for file in files.values())
    tables = {name: read_parquet(file, NEEDED[name]) for name, file in files.items()}
    report = SourceReport("Microsoft GraphRAG", f"old schema ({OLD}*)" if old else "current schema")
    made = Tables({name: file.name for name, file in files.items()}, tables, report)
    made.add_all()
    if (folder / "graph.graphml").is_file():
        report.notes.append("graph.graphml, a snapshot of the same graph with fewer columns, wasn't read")
    nodes, edges = made.nodes.table(ids="id"), made.edges.table()
    return Imported(nodes, edges, tuple(read_vectors(folder, made, model, metric)), report)


def _files(folder: Path) -> dict[str, Path]:
    """The Parquet file of each table, new names before old ones."""
    found = {}
    for name in NEEDED:
        for file in (folder / f"{name}.parquet", folder / f"{OLD}{name}.parquet"):
            if file.is_file() and name not in found and (name != "nodes" or file.name.startswith(OLD)):
                found[name] = file
    return found


@dataclass
class Tables:
    """Nodes and edges made from the tables one after the other."""

    files: dict[str, str]
    tables: dict[str, pa.Table]
    report: SourceReport
    nodes: Parts = field(default_factory=lambda: Parts("nodes", ("id", "name", "type", "text", "description")))
    edges: Parts = field(default_factory=lambda: Parts("edges", ("source", "target", "relation", "edge_text", "id")))
    owners: dict[str, pa.Array] = field(default_factory=dict)  # what the embeddings' ids name, by table
    targets: dict[str, pa.Array] = field(default_factory=dict)  # node ids or edge texts of those owners
    titles: Any = None  # of the entities
    made: set[str] = field(default_factory=set)  # titles that nodes were made of

    def add_all(self) -> None:
        """All tables, entities first since relationships and claims name them."""
        self.titles = pa.array([], pa.large_string())
        for name, add in (
            ("entities", self.entities), ("relationships", self.relationships), ("text_units", self.text_units),
            ("documents", self.documents), ("communities", self.communities),
            ("community_reports", self.community_reports), ("covariates", self.covariates), ("nodes", self.members),
        ):  # fmt: skip
            if name in self.tables:
                rows = self.tables[name].num_rows
                self.report.tables[self.files[name]] = (rows, rows)
                add(self.tables[name])
        for name in ("text_units", "communities", "entities"):
            if name not in self.tables:
                self.report.notes.append(f"there is no table of {name}")

    def entities(self, table: pa.Table) -> None:
        titles = _text(table, "title" if "title" in table.column_names else "name")
        types = _text(table, "type")
        self.titles = titles
        again = _repeated(titles)
        self.report.note("title of several entities; edges that name it go to the first", self._rows("entities", again))
        more = _others(table, {"id", "title", "name", "type", "description"})
        if "nodes" in self.tables:
            more |= self._degrees(table)
        kinds = pc.if_else(pc.fill_null(pc.not_equal(types, ""), False), types, pa.scalar(ENTITY, pa.large_string()))
        self._add(
            "entities", table, titles, kinds, None, _text(table, "description"), labels(ENTITY, kinds.to_pylist()), more
        )
        self._mentions("entities", table)

    def relationships(self, table: pa.Table) -> None:
        ids = as_column(table.column("id"), "relationships.id")
        ends = [self._ends(table, name) for name in ("source", "target")]
        text = _text(table, "description")
        more = _others(table, {"id", "source", "target", "description"})
        if "text_unit_ids" in table.column_names:
            more["chunks"] = table.column("text_unit_ids")
        columns = {
            "source": ends[0],
            "target": ends[1],
            "relation": [RELATED] * table.num_rows,
            "edge_text": text,
            "id": ids,
        }
        self.edges.add(self.files["relationships"], columns | more)
        self.owners["relationships"], self.targets["relationships"] = ids, text

    def _ends(self, table: pa.Table, side: str) -> pa.Array:
        """Entity ids of the named titles; nodes are made for titles that no entity has."""
        named = _text(table, side)
        if named.null_count:
            rows = self._rows("relationships", np.flatnonzero(np.asarray(pc.is_null(named))))
            raise InvalidData(f"{rows[0]}: no {side} ({len(rows)} such rows)")
        at = lookup(named, self.titles)
        unknown = np.flatnonzero(at < 0)
        self.report.note("end of a relationship that no entity has the title of; made a node",
                         self._rows("relationships", unknown))  # fmt: skip
        first = dict(zip(reversed(named.take(pa.array(unknown)).to_pylist()), reversed(unknown.tolist()), strict=True))
        fresh = [title for title in reversed(first) if title not in self.made]
        self.made.update(fresh)
        if fresh:
            columns = {
                "id": [f"title:{t}" for t in fresh], "name": fresh, "type": [ENTITY] * len(fresh),
                "labels": [[ENTITY]] * len(fresh),
            }  # fmt: skip
            self.nodes.add(self.files["relationships"], columns, [first[t] + 1 for t in fresh])
        found = self._ids("entities").take(pa.array(at, mask=at < 0))
        return pc.coalesce(found, prefixed("title:", named))

    def text_units(self, table: pa.Table) -> None:
        more = _others(table, {"id", "text"})
        self._add("text_units", table, None, CHUNK, _text(table, "text"), None, None, more)
        for column in ("document_id", "document_ids"):
            if column in table.column_names and "documents" in self.tables:
                self._links("text_units", table, column, "documents", PART)

    def documents(self, table: pa.Table) -> None:
        name = _text(table, "title") if "title" in table.column_names else None
        text = next((_text(table, c) for c in ("text", "raw_content") if c in table.column_names), None)
        more = _others(table, {"id", "title", "text", "raw_content"})
        self._add("documents", table, name, DOCUMENT, text, None, None, more)

    def communities(self, table: pa.Table) -> None:
        more = _others(table, {"id", "title"})
        numbers = _text(table, "community" if "community" in table.column_names else "id")
        ids = as_column(table.column("id"), "communities.id")
        if "community" not in table.column_names:  # old: the id is the number, too short to be an id of its own
            ids = prefixed("community:", ids)
            more["community"] = numbers
        if "relationship_ids" in table.column_names:
            more["relationships"] = table.column("relationship_ids")
        if "text_unit_ids" in table.column_names:
            more["chunks"] = _split(table.column("text_unit_ids"))
        table = table.set_column(table.column_names.index("id"), "id", ids)
        self._add("communities", table, _text(table, "title"), COMMUNITY, None, None, None, more)
        self.owners["community numbers"] = numbers
        if "parent" in table.column_names:
            above = lookup(_text(table, "parent"), numbers)
            self._edges("communities", ids, ids.take(pa.array(above, mask=above < 0)), PART)
        if "entity_ids" in table.column_names and "entities" in self.tables:
            row, member = exploded(table.column("entity_ids"))
            self._member_edges("communities", row, ids.take(pa.array(row)), member)

    def members(self, table: pa.Table) -> None:
        """Old schema: one row for each entity and level, with the community it belongs to there."""
        if "community numbers" not in self.owners:
            return
        at = lookup(_text(table, "community"), self.owners["community numbers"])
        inside = np.flatnonzero(at >= 0)
        outside = np.asarray(pc.is_valid(table.column("community"))) & (at < 0)
        self.report.note("community that has no row", self._rows("nodes", np.flatnonzero(outside)))
        if "entity_ids" in self.tables["communities"].column_names:
            return
        groups = self._ids("communities").take(pa.array(at[inside]))
        self._member_edges("nodes", inside, groups, as_column(table.column("id"), "id").take(pa.array(inside)))

    def _member_edges(self, name: str, rows: np.ndarray, community: pa.Array, entity: pa.Array) -> None:
        known = lookup(entity, self._ids("entities")) >= 0
        self.report.note("member of a community that is no entity", self._rows(name, rows[~known]))
        self._edges(name, entity.filter(pa.array(known)), community.filter(pa.array(known)), MEMBER, rows[known])

    def community_reports(self, table: pa.Table) -> None:
        given, number = as_column(table.column("id"), "community_reports.id"), _text(table, "community")
        ids, again = [], []
        seen: set[str | None] = set()
        for row, (one, community) in enumerate(zip(given.to_pylist(), number.to_pylist(), strict=True)):
            ids.append(f"{one}:{community}" if one is not None and one in seen else one)
            again += [row] if one in seen else []
            seen.add(one)
        self.report.note(
            "report id that serves another community, too; made another id", self._rows("community_reports", again)
        )
        more = _others(table, {"id", "title", "summary", "full_content", "community"})
        more["community"] = number
        if again:
            more["report_id"] = given
        columns = table.set_column(table.column_names.index("id"), "id", pa.array(ids, pa.large_string()))
        summary = _text(table, "summary") if "summary" in table.column_names else None
        name = _text(table, "title") if "title" in table.column_names else None
        self._add("community_reports", columns, name, REPORT, _text(table, "full_content"), summary, None, more)
        if "communities" not in self.tables:
            return
        at = lookup(number, self.owners["community numbers"])
        self.report.note(
            "report on a community that has no row", self._rows("community_reports", np.flatnonzero(at < 0))
        )
        self._edges("community_reports", self._ids("community_reports"),
                    self._ids("communities").take(pa.array(at, mask=at < 0)), REPORTS)  # fmt: skip

    def covariates(self, table: pa.Table) -> None:
        kind = table.column("covariate_type") if "covariate_type" in table.column_names else None
        kinds = (
            ["covariate"] * table.num_rows if kind is None else as_column(kind, "covariates.covariate_type").to_pylist()
        )
        more = _others(table, {"id", "type", "description", "covariate_type"})
        self._add("covariates", table, _text(table, "type"), kinds, None, _text(table, "description"),
                  labels("Covariate", kinds), more)  # fmt: skip
        ids = self._ids("covariates")
        for side in ("subject_id", "object_id"):
            if side not in table.column_names or "entities" not in self.tables:
                continue
            named = _text(table, side)
            at = lookup(named, self.titles)
            given = np.asarray(pc.fill_null(pc.not_equal(named, "NONE"), False)) & (at < 0)
            self.report.note(f"{side.removesuffix('_id')} of a covariate that no entity has the title of; no edge",
                             self._rows("covariates", np.flatnonzero(given)))  # fmt: skip
            self._edges("covariates", ids, self._ids("entities").take(pa.array(at, mask=at < 0)), "about")
        if "text_unit_id" in table.column_names and "text_units" in self.tables:
            self._links("covariates", table, "text_unit_id", "text_units", MENTIONED)

    def _degrees(self, table: pa.Table) -> dict[str, Any]:
        """Columns of entities that the old schema keeps in its node rows, from the first row of each."""
        nodes = self.tables["nodes"]
        at = lookup(table.column("id"), nodes.column("id"))
        return {
            name: as_column(nodes.column(name), name).take(pa.array(at, mask=at < 0))
            for name in ("degree", "x", "y") if name in nodes.column_names and name not in table.column_names
        }  # fmt: skip

    def _mentions(self, name: str, table: pa.Table) -> None:
        if "text_unit_ids" in table.column_names and "text_units" in self.tables:
            self._links(name, table, "text_unit_ids", "text_units", MENTIONED)

    def _links(self, name: str, table: pa.Table, column: str, to: str, relation: str) -> None:
        """Edges to the rows that a column of ids, or of lists of ids, names."""
        held = as_column(table.column(column), column)
        row, named = exploded(held) if pa.types.is_list(held.type) else (np.arange(len(held)), held)
        at = lookup(named, self.tables[to].column("id"))
        missing = np.flatnonzero((at < 0) & np.asarray(pc.is_valid(named)))
        self.report.note(f"{column} that names no row of {self.files[to]}; no edge", self._rows(name, row[missing]))
        target = as_column(named, column).cast(pa.large_string()).take(pa.array(np.arange(len(at)), mask=at < 0))
        self._edges(name, self._ids(name).take(pa.array(row)), target, relation, row)

    def _edges(self, name: str, source: Any, target: Any, relation: str, rows: np.ndarray | None = None) -> None:
        """Edges of one relation, those without a target left out."""
        kept = np.flatnonzero(np.asarray(pc.is_valid(target)))
        numbers = kept if rows is None else rows[kept]
        at = pa.array(kept)
        self.edges.add(
            self.files[name],
            {"source": source.take(at), "target": target.take(at), "relation": [relation] * len(kept)},
            (numbers + 1).tolist(),
        )  # fmt: skip

    def _add(self, name: str, table: pa.Table, title: Any, kind: Any, text: Any, description: Any, label: Any,
             more: dict[str, Any]) -> None:  # fmt: skip
        """Node rows of a table; its ids are what other tables and embeddings name."""
        size = table.num_rows
        ids = as_column(table.column("id"), f"{name}.id").cast(pa.large_string())
        columns = {
            "id": ids, "name": title, "type": [kind] * size if isinstance(kind, str) else kind, "text": text,
            "description": description, "labels": [[kind]] * size if label is None else label,
        }  # fmt: skip
        self.nodes.add(self.files[name], {n: c for n, c in columns.items() if c is not None} | more)
        self.owners[name] = as_column(self.tables[name].column("id"), "id").cast(pa.large_string())
        self.targets[name] = ids

    def _ids(self, name: str) -> pa.Array:
        return self.targets.get(name, pa.array([], pa.large_string()))

    def _rows(self, name: str, rows: Any) -> list[str]:
        return [f"{self.files[name]}:{int(row) + 1}" for row in rows]


def _others(table: pa.Table, taken: set[str]) -> dict[str, Any]:
    """The columns that are kept as they are: no links, which are edges, and no vectors."""
    return {
        name: table.column(name) for name in table.column_names
        if name not in taken | LINKS | LEFT_OUT and not name.endswith("_embedding")
    }  # fmt: skip


def _text(table: pa.Table, name: str) -> pa.Array:
    if name not in table.column_names:
        return pa.nulls(table.num_rows, pa.large_string())
    return as_column(table.column(name), name).cast(pa.large_string())


def _split(column: pa.ChunkedArray) -> list[list[str] | None]:
    """Lists of ids; the old schema joins several ids with commas."""
    return [None if ids is None else [i for one in ids for i in (one or "").split(",")] for ids in column.to_pylist()]


def _repeated(column: pa.Array) -> np.ndarray:
    """Rows whose value is there in an earlier row."""
    codes = np.asarray(pc.fill_null(pc.dictionary_encode(column).indices, -1))
    known = np.flatnonzero(codes >= 0)
    _, first = np.unique(codes[known], return_index=True)
    return known[np.setdiff1d(np.arange(len(known)), first)]
