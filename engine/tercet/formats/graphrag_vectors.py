"""The vectors of a Microsoft GraphRAG folder: columns of its tables, embeddings.*.parquet, LanceDB tables."""

from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tercet.formats import lance
from tercet.formats.imported import ImportedVectors, SourceReport
from tercet.formats.parts import RELATION_VECTORS, as_column, lookup, read_parquet, vector_rows

# What an embedding is of, by the name of its file or table: (collection, table that owns the ids).
EMBEDDED = {
    "entity_title": ("Entity_name", "entities"),
    "entity_name": ("Entity_name", "entities"),
    "entity_description": ("Entity_description", "entities"),
    "relationship_description": (RELATION_VECTORS, "relationships"),
    "text_unit_text": ("DocumentChunk_text", "text_units"),
    "document_text": ("Document_text", "documents"),
    "document_raw_content": ("Document_text", "documents"),
    "community_title": ("CommunityReport_name", "community_reports"),
    "community_summary": ("CommunityReport_description", "community_reports"),
    "community_full_content": ("CommunityReport_text", "community_reports"),
}
COLUMNS = {  # an embedding held in a column of its table: what it is of
    ("entities", "description_embedding"): "entity_description",
    ("entities", "name_embedding"): "entity_title",
    ("relationships", "description_embedding"): "relationship_description",
    ("text_units", "text_embedding"): "text_unit_text",
    ("documents", "raw_content_embedding"): "document_text",
    ("community_reports", "title_embedding"): "community_title",
    ("community_reports", "summary_embedding"): "community_summary",
    ("community_reports", "full_content_embedding"): "community_full_content",
}


class VectorOwners(Protocol):
    """What the vectors may belong to."""

    files: dict[str, str]
    tables: dict[str, pa.Table]
    report: SourceReport
    owners: dict[str, pa.Array]  # ids by table, as embeddings name them
    targets: dict[str, pa.Array]  # node ids, or edge texts, of those


def read_vectors(folder: Path, made: VectorOwners, model: str | None, metric: str) -> list[ImportedVectors]:
    """Vectors from columns of the tables, from embeddings.*.parquet and from LanceDB tables."""
    found: dict[str, ImportedVectors] = {}

    def take(what: str, file: str, ids: Any, column: Any) -> None:
        collection, table = EMBEDDED[what]
        if table not in made.owners:
            made.report.notes.append(f"{file}: left out, since there is no table of {table}")
            return
        got = _owned(made, table, file, ids, column)
        kind: Any = "relation" if table == "relationships" else "node"
        if collection in found:
            made.report.notes.append(f"{file}: left out, since vectors of the same texts are there already")
        elif len(got[1]):
            found[collection] = ImportedVectors(collection, kind, got[0], got[1], model, metric)

    for (name, column), what in COLUMNS.items():
        if name in made.tables and column in made.tables[name].column_names:
            table = made.tables[name]
            if not pa.types.is_null(table.column(column).type):
                take(what, made.files[name], table.column("id"), table.column(column))
    for file in sorted(folder.glob("embeddings.*.parquet")):
        known = _what(file.name.removeprefix("embeddings.").removesuffix(".parquet"))
        table = read_parquet(file, ("id",))
        held = next((c for c in ("embedding", "vector") if c in table.column_names), None)
        if known is None or held is None:
            made.report.notes.append(f"{file.name}: left out, since it isn't known what it is of")
            continue
        take(known, file.name, table.column("id"), table.column(held))
    for place in sorted(p for p in (folder / "lancedb", *folder.glob("*.lancedb")) if p.is_dir()):
        for name, table in lance.tables(place).items():
            known = _what(name)
            if known is None or not {"id", "vector"} <= set(table.column_names):
                made.report.notes.append(f"{place.name}/{name}: left out, since it isn't known what it is of")
                continue
            take(known, f"{place.name}/{name}", table.column("id"), table.column("vector"))
    return list(found.values())


def _what(name: str) -> str | None:
    """What embeddings are of, from names such as entity.description, default-entity-description."""
    plain = name.replace(".", "_").replace("-", "_")
    return next((what for what in EMBEDDED if plain == what or plain.endswith(f"_{what}")), None)


def _owned(made: VectorOwners, table: str, file: str, ids: Any, column: Any) -> tuple[pa.Array, np.ndarray]:
    """Vectors with what they belong to in the graph; those of no row are left out and counted."""
    vectors, kept = vector_rows(column, file, made.report)
    at = lookup(as_column(ids, f"{file}: id").take(pa.array(kept)), made.owners[table])
    owner = made.targets[table].take(pa.array(at, mask=at < 0))
    good = np.asarray(pc.fill_null(pc.not_equal(owner, ""), False)) if table == "relationships" else at >= 0
    made.report.note("vector of no row of its table; left out", [f"{file}:{i + 1}" for i in kept[~good]])
    made.report.tables[file] = made.report.tables.get(file, (len(column), int(good.sum())))
    return owner.filter(pa.array(good)), vectors[good]
