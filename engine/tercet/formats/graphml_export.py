"""A graph as a GraphML file; `graphml` reads it."""

import re
from pathlib import Path
from typing import IO, Any, Literal
from xml.sax.saxutils import escape, quoteattr

import pyarrow as pa

from tercet.errors import InvalidArgument, InvalidData
from tercet.formats.graphml import WRITER
from tercet.formats.imported import SourceReport
from tercet.formats.property_columns import EDGE_RESERVED, NODE_RESERVED, split
from tercet.formats.records import EdgeRecord, NodeRecord, edge_records, node_records
from tercet.graph import Graph
from tercet.property_values import compact

ROWS = 1 << 14  # written at a time
FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")  # XML 1.0, section 2.2
WRITTEN = {"bool": "boolean", "int64": "long", "double": "double", "large_string": "string"}
_ATTRIBUTE = {"\n": "&#10;", "\r": "&#13;", "\t": "&#9;"}


def to_graphml(graph: Graph, path: str | Path, *, illegal: Literal["refuse", "replace"] = "refuse") -> SourceReport:
    """Write a whole graph as a GraphML file with typed keys; `read` gives the same graph again.

    Labels and node sets are written as JSON lists; properties that aren't one kind of boolean, integer (64 bits),
    number or text go into a key `properties` with a JSON object. Dates become ISO 8601 text.

    Args:
        illegal: characters that XML can't hold (control characters, U+FFFE, U+FFFF): "refuse" names the row, "replace"
            writes U+FFFD and notes the rows.

    Raises:
        InvalidData: an id or a text holds such a character.
        InvalidArgument: `illegal` is unknown.
    """
    if illegal not in ("refuse", "replace"):
        raise InvalidArgument(f"illegal: expected 'refuse' or 'replace', got {illegal!r}")
    report = SourceReport("GraphML")
    nodes, edges = list(node_records(graph)), list(edge_records(graph))
    tables = {"node": _flat_nodes(nodes), "edge": _flat_edges(edges)}
    with Path(path).open("w", encoding="utf-8", newline="\n") as out:
        out.write('<?xml version="1.0" encoding="UTF-8"?>\n<graphml xmlns="http://graphml.graphdrawing.org/xmlns">\n')
        ids: dict[tuple[str, str], str] = {}
        for kind, columns in tables.items():
            for name, column in columns.items():
                ids[kind, name] = f"{kind[0]}{len(ids)}"
                safe = _safe(name, f"{kind}s: the property key {name!r}", illegal, report)
                out.write(
                    f'  <key id="{ids[kind, name]}" for="{kind}" attr.name={quoteattr(safe, _ATTRIBUTE)}'
                    f' attr.type="{WRITTEN[str(column.type)]}"/>\n'
                )
        out.write(f'  <graph id="{WRITER}" edgedefault="directed">\n')
        for kind, records in (("node", nodes), ("edge", edges)):
            columns = {ids[kind, name]: column for name, column in tables[kind].items()}
            _write_elements(out, kind, records, columns, illegal, report)
        out.write("  </graph>\n</graphml>\n")
    report.tables = {"nodes": (len(nodes), len(nodes)), "edges": (len(edges), len(edges))}
    return report


def _flat_nodes(nodes: list[NodeRecord]) -> dict[str, Any]:
    """Columns of scalars: what a node has besides its id."""
    row = lambda i: f"nodes row {i}"  # noqa: E731
    typed, rest = split([r.properties for r in nodes], NODE_RESERVED, "nodes.", row, lists=False)
    known = [{
        "labels": compact(r.labels), "uri": r.uri, "importance_weight": r.importance_weight,
        "feedback_weight": r.feedback_weight, "belongs_to_set": None if r.sets is None else compact(r.sets),
        "properties": compact(document) if document else None,
    } for r, document in zip(nodes, rest, strict=True)]  # fmt: skip
    return split(known, (), "nodes.", row)[0] | typed


def _flat_edges(edges: list[EdgeRecord]) -> dict[str, Any]:
    row = lambda i: f"edges row {i}"  # noqa: E731
    typed, rest = split([e.properties for e in edges], EDGE_RESERVED, "edges.", row, lists=False)
    known = [{
        "relation": e.relation, "uri": e.uri, "importance_weight": e.importance_weight,
        "feedback_weight": e.feedback_weight, "properties": compact(document) if document else None,
    } for e, document in zip(edges, rest, strict=True)]  # fmt: skip
    relation = {"relation": pa.nulls(len(edges), pa.large_string())}  # declared even where no edge has one
    return relation | split(known, (), "edges.", row)[0] | typed


def _write_elements(
    out: IO[str], kind: str, records: Any, columns: dict[str, Any], illegal: str, report: SourceReport
) -> None:
    for begin in range(0, len(records), ROWS):
        part = records[begin : begin + ROWS]
        values = {key: column.slice(begin, len(part)).to_pylist() for key, column in columns.items()}
        lines = []
        for i, record in enumerate(part):
            place = f"{kind}s row {begin + i}"
            attributes = {"id": record.id} if kind == "node" else {
                "id": record.id, "source": record.source, "target": record.target}  # fmt: skip
            head = "".join(f" {name}={quoteattr(_safe(text, f'{place}: {name}', illegal, report), _ATTRIBUTE)}"
                           for name, text in attributes.items() if text is not None)  # fmt: skip
            data = "".join(f'<data key="{key}">{_spelled(column[i], place, illegal, report)}</data>'
                           for key, column in values.items() if column[i] is not None)  # fmt: skip
            lines.append(f"    <{kind}{head}>{data}</{kind}>\n" if data else f"    <{kind}{head}/>\n")
        out.write("".join(lines))


def _spelled(value: Any, place: str, illegal: str, report: SourceReport) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return {"inf": "INF", "-inf": "-INF", "nan": "NaN"}.get(repr(value), repr(value))
    if isinstance(value, int):
        return str(value)
    return escape(_safe(value, place, illegal, report), {"\r": "&#13;"})


def _safe(text: str, place: str, illegal: str, report: SourceReport) -> str:
    if (found := FORBIDDEN.search(text)) is None:
        return text
    if illegal == "refuse":
        raise InvalidData(
            f"{place}: XML can't hold U+{ord(found[0]):04X} (at {found.start()} of {text[:60]!r}); "
            "illegal='replace' writes U+FFFD instead"
        )
    report.note("characters XML can't hold, replaced by U+FFFD", [place])
    return FORBIDDEN.sub("\ufffd", text)
