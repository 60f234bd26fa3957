"""Properties read from other formats as columns: typed where a key has one kind of value, JSON objects for the rest."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tercet.errors import InvalidData
from tercet.formats.imported import SHOWN, SourceReport
from tercet.formats.tables import EDGE_COLUMNS, NODE_COLUMNS
from tercet.property_values import compact, is_nan

NODE_RESERVED = frozenset({
    "id", "labels", "uri", "properties", "context_title", "context_block", "importance_weight", "feedback_weight",
    "belongs_to_set",
})  # fmt: skip
EDGE_RESERVED = frozenset({
    "source", "target", "relation", "id", "uri", "properties", "stored_edge", "importance_weight", "feedback_weight",
})  # fmt: skip
NODE_ALIASES = {name: NODE_COLUMNS[name] for name in ("name", "type", "text", "description")}
EDGE_ALIASES = {"edge_text": EDGE_COLUMNS["edge_text"]}
RELATION = (
    "relation",
    "relationship",
    "relationship_name",
    "relationship_type",
    "predicate",
    "rel_type",
    "type",
    "label",
)
KNOWN = {  # what `Graph.from_tables` reads as one kind
    "nodes": dict.fromkeys(("name", "type", "text", "description"), "text"),
    "edges": {"edge_text": "text", "status": "text", "superseded": "boolean", "weight": "real"},
}
TYPES = {"boolean": pa.bool_(), "integer": pa.int64(), "real": pa.float64(), "text": pa.large_string()}
MOST_COLUMNS = 256  # keys beyond them stay in the JSON objects
CONTROL = "[\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f]"

Row = Callable[[int], str]  # how a row is called in messages, such as "graph.graphml:12"


def table_of(
    fixed: Mapping[str, Any], properties: Sequence[dict[str, Any]], kind: str, row: Row, report: SourceReport
) -> pa.Table:
    """The table of nodes or edges: the fixed columns, then the properties.

    Args:
        fixed: columns by name: ids, labels, weights; Arrow arrays or lists.
        properties: one dict a row, JSON-like values.
        kind: "nodes" or "edges".
        row: how a row is called.
        report: gets a note on control characters, which are kept.

    Raises:
        InvalidData: text that isn't valid Unicode; names the row.
    """
    reserved = NODE_RESERVED if kind == "nodes" else EDGE_RESERVED
    columns: dict[str, pa.Array] = {}
    for name, values in fixed.items():
        columns[name] = values if isinstance(values, pa.Array) else column(list(values), name, f"{kind}.{name}", row)
    typed, rest = split(properties, reserved, f"{kind}.", row, known=KNOWN[kind])
    if "superseded" in typed:
        typed["superseded"] = pc.fill_null(typed["superseded"], False)
    columns |= typed
    if any(rest):
        documents = [compact(document) if document else None for document in rest]
        columns["properties"] = column(documents, "properties", f"{kind}.properties", row)
    for name, values in columns.items():
        if pa.types.is_large_string(values.type):
            found = np.flatnonzero(np.asarray(pc.fill_null(pc.match_substring_regex(values, CONTROL), False)))
            note_rows(report, f"control characters in {kind}.{name} (kept)", found, row)
    return pa.table(columns)


def note_rows(report: SourceReport, problem: str, rows: np.ndarray, row: Row) -> None:
    """Count rows in a report, naming only the first few."""
    report.note(problem, [row(i) for i in rows[:SHOWN].tolist()] + [""] * max(len(rows) - SHOWN, 0))


def split(
    rows: Sequence[dict[str, Any]],
    reserved: Collection[str],
    place: str,
    row: Row,
    *,
    known: Mapping[str, str] | None = None,
    lists: bool = True,
    accept: Callable[[str, list[Any]], bool] | None = None,
) -> tuple[dict[str, pa.Array], list[dict[str, Any]]]:
    """Typed columns for keys whose values are of one kind, and what is left of each row.

    A kind is text, boolean, integer (64 bits), real, or a list of one of these.

    Args:
        reserved: keys that never become columns.
        known: keys that become columns only with this kind.
        lists: whether lists may become columns.
        accept: a last word on a key and its values.

    Returns:
        (columns, rest): nulls and NaN are left out of both.
    """
    at: dict[str, list[int]] = {}
    held: dict[str, list[Any]] = {}
    for i, properties in enumerate(rows):
        for key, value in properties.items():
            if value is not None and not is_nan(value):
                at.setdefault(key, []).append(i)
                held.setdefault(key, []).append(value)
    columns: dict[str, pa.Array] = {}
    rest: list[dict[str, Any]] = [{} for _ in rows]
    for key, values in held.items():
        kind = _kind(values, (known or {}).get(key))
        if kind is not None and ((kind.startswith("list of ") and not lists) or len(columns) >= MOST_COLUMNS):
            kind = None
        if kind is not None and key and key not in reserved and (accept is None or accept(key, values)):
            where = np.full(len(rows), -1, np.int64)
            where[at[key]] = np.arange(len(values))
            names = lambda i, at=at[key]: row(at[i])  # noqa: E731
            columns[_valid(key, place, row(at[key][0]))] = _array(values, kind, f"{place}{key}", names).take(
                pa.array(where, mask=where < 0)
            )
        else:
            for i, value in zip(at[key], values, strict=True):
                rest[i][key] = value
    return columns, rest


def column(values: list[Any], name: str, place: str, row: Row) -> pa.Array:
    """A list of text, numbers or lists of text (with nulls) as Arrow.

    Raises:
        InvalidData: values of different kinds, or text that isn't valid Unicode; names the row.
    """
    present = [value for value in values if value is not None]
    if not present:
        return pa.nulls(len(values), pa.large_string())
    kind = _kind(present, "real" if name.endswith("weight") else None) or ("list of text" if present == [[]] else None)
    if kind is None and all(value == [] for value in present):
        kind = "list of text"
    if kind is None:
        raise InvalidData(f"{place}: expected values of one kind, got {sorted({type(v).__name__ for v in present})}")
    return _array(values, kind, place, row)


def rename(properties: dict[str, Any], aliases: Mapping[str, Iterable[str]]) -> None:
    """Give text under a common other name our own, unless our own name is there already."""
    for name, others in aliases.items():
        if name in properties:
            continue
        for key in list(properties):
            if key.strip().casefold() in others and isinstance(properties[key], str):
                properties[name] = properties.pop(key)
                break


def pop_relation(properties: dict[str, Any], names: Iterable[str] = RELATION) -> Any:
    """The first of the names that is there and holds text or an integer, taken out; None where there is none."""
    for name in names:
        if name in properties:
            value = properties[name]
            if value is None or isinstance(value, str):
                return properties.pop(name)
    return None


def refuse_repeats(ids: Sequence[str | None], row: Row, what: str) -> None:
    """Refuse an id that is given twice.

    Raises:
        InvalidData: names both rows.
    """
    first: dict[str, int] = {}
    for i, name in enumerate(ids):
        if name is not None and first.setdefault(name, i) != i:
            raise InvalidData(f"{row(i)}: the {what} id {name!r} is there already, in {row(first[name])}")


def _kind(values: list[Any], wanted: str | None) -> str | None:
    """The kind that all values have, if they have one (and the wanted one, if any is)."""
    types = set(map(type, values))
    got = None
    if types == {str}:
        got = "text"
    elif types == {bool}:
        got = "boolean"
    elif types == {float}:
        got = "real"
    elif types <= {int, float} and wanted == "real":
        got = "real" if all(abs(x) <= 2**53 for x in values if type(x) is int) else None  # exact as float64
    elif types == {int}:
        got = "integer" if min(values) >= -(2**63) and max(values) < 2**63 else None
    elif types == {list}:
        inner = _kind([x for value in values for x in value], None) if any(values) else None
        got = f"list of {inner}" if inner in TYPES else None
    return got if wanted is None or got == wanted else None


def _array(values: list[Any], kind: str, place: str, row: Row) -> pa.Array:
    inner = TYPES[kind.removeprefix("list of ")]
    try:
        return pa.array(values, pa.list_(inner) if kind.startswith("list of ") else inner)
    except (pa.ArrowInvalid, pa.ArrowTypeError, UnicodeEncodeError) as error:
        for i, value in enumerate(values):
            for text in value if isinstance(value, list) else [value]:
                if isinstance(text, str):
                    _valid(text, place, row(i))
        raise InvalidData(f"{place}: {error}") from error


def _valid(text: str, place: str, row: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as bad:
        raise InvalidData(f"{row}: {place}: not valid Unicode ({bad.reason} at {bad.start})") from bad
    return text
