"""A graph as the CSV files of Neo4j's bulk import; `neo4j_csv` reads them."""

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from tercet.errors import InvalidArgument, InvalidData
from tercet.formats.imported import SourceReport
from tercet.formats.neo4j_files import ARGUMENTS
from tercet.formats.property_columns import EDGE_RESERVED, NODE_RESERVED, column, split
from tercet.formats.records import WEIGHTS, edge_records, node_records
from tercet.graph import Graph
from tercet.property_values import compact

ARRAY_DELIMITERS = ";|\u001f\u001e\u001d\u001c"  # the first that no list's text contains
NAME = re.compile(r"[^\W\d]\w*")  # of a property that a header can hold
TYPE = {"bool": "boolean", "int64": "long", "double": "double", "large_string": "string"}


def to_neo4j_csv(graph: Graph, folder: str | Path, *, untyped: str | None = None) -> SourceReport:
    """Write a whole graph for `neo4j-admin database import full @import.args`; `neo4j_csv.read` gives it back.

    Files: nodes-header.csv, nodes.csv, relationships-header.csv, relationships.csv, import.args (the options, with the
    array delimiter: the first of `;`, `|` and the separators U+001F to U+001C that no text of a list contains). All
    text is quoted, with quotes doubled; a null is an empty field, an empty text a quoted one. Properties are typed
    columns where they have one kind of value and a plain name; the rest are JSON objects in a column `properties`.
    Dates become ISO 8601 text.

    Args:
        folder: a new or empty one.
        untyped: the type written for edges without a relation, which Neo4j doesn't have.

    Raises:
        InvalidArgument: the folder isn't empty.
        InvalidData: an edge has no relation and `untyped` isn't given, an id or a label is empty, or no array delimiter
            is left; names the row.
    """
    folder = Path(folder)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InvalidArgument(f"{folder}: expected a new or an empty folder")
    report = SourceReport("Neo4j CSV")
    nodes, edges = list(node_records(graph)), list(edge_records(graph))
    for i, r in enumerate(nodes):
        if not r.id:
            raise InvalidData(f"nodes row {i}: Neo4j has no empty ids")
    relations = [untyped if e.relation is None else e.relation for e in edges]
    for i, relation in enumerate(relations):
        if not relation:
            raise InvalidData(f"edges row {i}: no relation, which Neo4j needs (untyped='RELATED_TO' writes one)")
    changed = [f"edges row {i}" for i, e in enumerate(edges) if e.relation is None]
    report.note(f"edge without a relation, written as {untyped}", changed)
    mark = _delimiter(nodes, edges)
    node_columns = {":ID": _text([r.id for r in nodes], "nodes.id"),
                    ":LABEL": _text([mark.join(r.labels) or None for r in nodes], "nodes.labels")}  # fmt: skip
    node_columns |= _columns(nodes, "nodes", NODE_RESERVED, mark, ("name", "type", "text", "description"))
    edge_columns = {":START_ID": _text([e.source for e in edges], "edges.source"),
                    ":END_ID": _text([e.target for e in edges], "edges.target"),
                    ":TYPE": _text(relations, "edges.relation")}  # fmt: skip
    edge_columns |= _columns(edges, "edges", EDGE_RESERVED, mark, ("edge_text",))
    folder.mkdir(parents=True, exist_ok=True)
    for stem, columns in (("nodes", node_columns), ("relationships", edge_columns)):
        (folder / f"{stem}-header.csv").write_text(",".join(columns) + "\n", encoding="utf-8")
        options = pyarrow.csv.WriteOptions(include_header=False, quoting_style="needed")
        pyarrow.csv.write_csv(pa.table(columns), folder / f"{stem}.csv", options)
    spelled = mark if mark.isprintable() else f"U+{ord(mark):04X}"
    (folder / ARGUMENTS).write_text(
        f"--nodes=nodes-header.csv,nodes.csv\n--relationships=relationships-header.csv,relationships.csv\n"
        f'--delimiter=","\n--array-delimiter="{spelled}"\n--multiline-fields=true\n',
        encoding="utf-8",
    )
    report.tables = {"nodes": (len(nodes), len(nodes)), "relationships": (len(edges), len(edges))}
    return report


def _delimiter(nodes: list[Any], edges: list[Any]) -> str:
    used: set[str] = set()
    for r in (*nodes, *edges):
        texts = list(getattr(r, "labels", ())) + list(getattr(r, "sets", None) or ())
        for value in r.properties.values():
            if isinstance(value, list):
                texts += [x for x in value if isinstance(x, str)]
        for text in texts:
            used |= set(ARRAY_DELIMITERS) & set(text)
    free = [mark for mark in ARRAY_DELIMITERS if mark not in used]
    if not free:
        raise InvalidData(f"lists and labels: their texts contain every array delimiter of {ARRAY_DELIMITERS!r}")
    return free[0]


def _columns(
    records: list[Any], kind: str, reserved: frozenset[str], mark: str, always: tuple[str, ...]
) -> dict[str, pa.Array]:
    row = lambda i: f"{kind} row {i}"  # noqa: E731

    def accept(key: str, values: list[Any]) -> bool:
        return bool(NAME.fullmatch(key)) and not any(value == [""] for value in values)

    typed, rest = split([r.properties for r in records], reserved, f"{kind}.", row, accept=accept)
    typed = {name: pa.nulls(len(records), pa.large_string()) for name in always} | typed
    fixed: dict[str, list[Any]] = {"uri": [r.uri for r in records]}
    fixed |= {name: [getattr(r, name) for r in records] for name in WEIGHTS}
    if kind == "nodes":
        fixed["belongs_to_set"] = [r.sets for r in records]
        if any(r.sets == [""] for r in records):
            raise InvalidData(f"nodes row {[r.sets for r in records].index([''])}: a node set without a name")
    else:
        fixed["id"] = [r.id for r in records]
    fixed["properties"] = [compact(document) if document else None for document in rest]
    columns = {name: column(values, name, f"{kind}.{name}", row) for name, values in fixed.items()
               if any(value is not None for value in values)}  # fmt: skip
    out = {}
    for name, values in (columns | typed).items():
        if pa.types.is_list(values.type):
            out[f"{name}:{TYPE[str(values.type.value_type)]}[]"] = _joined(values, mark)
        else:
            out[f"{name}:{TYPE[str(values.type)]}"] = _spelled(values) if pa.types.is_floating(values.type) else values
    return out


def _joined(values: pa.Array, mark: str) -> pa.Array:
    texts = _spelled(pc.list_flatten(values))
    lists = pa.ListArray.from_arrays(_offsets(values), texts.cast(pa.string()))
    joined = pc.binary_join(lists, mark).cast(pa.large_string())
    return pc.if_else(pc.is_valid(values), joined, pa.scalar(None, pa.large_string()))


def _offsets(values: pa.Array) -> pa.Array:
    lengths = pc.fill_null(pc.list_value_length(values), 0).cast(pa.int32())
    return pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(lengths)])


def _spelled(values: pa.Array) -> pa.Array:
    """Values as Neo4j spells them."""
    if pa.types.is_floating(values.type):
        names = {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}
        return pa.array([None if v is None else names.get(repr(v), repr(v)) for v in values.to_pylist()],
                        pa.large_string())  # fmt: skip
    return values.cast(pa.large_string())


def _text(values: list[str | None], place: str) -> pa.Array:
    return column(values, "", place, lambda i: f"row {i}")
