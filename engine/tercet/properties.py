"""Properties of nodes and edges: from columns of their tables and from a column of JSON objects."""

import json
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tercet.errors import InvalidData, InvalidFilter
from tercet.graph import Graph
from tercet.property_values import MISSING, Property, first_of, from_arrow, from_values, is_nan, plain_values

_NOT_NODE_PROPERTIES = ("id", "context_title", "context_block", "labels", "uri", "properties")
_NOT_EDGE_PROPERTIES = ("id", "uri", "properties", "stored_edge")
_READ_AT_ONCE = 1024  # JSON objects
_BETWEEN, _BETWEEN_READ = '"\\u0000 next row"', "\0 next row"


class PropertyTable:
    """The properties of the rows of a table; what was asked for once is kept."""

    def __init__(self, table: pa.Table, reserved: Sequence[str], place: str) -> None:
        names = [name for name in table.schema.names if name not in reserved]
        self.columns = {name: table.column(name).combine_chunks() for name in names}
        self.size, self.place = table.num_rows, place
        self.documents: pa.LargeStringArray | None = None
        if "properties" in table.schema.names and not pa.types.is_null(table.schema.field("properties").type):
            documents = table.column("properties").combine_chunks()
            if not (pa.types.is_string(documents.type) or pa.types.is_large_string(documents.type)):
                raise InvalidData(
                    f"{place}.properties: expected JSON objects as text, got a column of {documents.type}"
                )
            self.documents = documents.cast(pa.large_string())
        self._held: dict[str, Property] = {}
        self._checked = False  # every document was read once, so that a broken one is never taken for one without a key

    def column(self, key: str) -> Property:
        """The values of one property; see `property_column`."""
        check_key(key)
        if key not in self._held:
            found = self._of_columns(key)
            if self.documents is not None and (found is None or (found.kind == MISSING).any()):
                inner = self._of_documents(key)
                found = inner if found is None else first_of(found, inner)
            if found is None or not found.kind.any():
                return from_values(np.zeros(0, np.int64), [], self.size, key)  # not kept: any word could be asked for
            self._held[key] = found
        return self._held[key]

    def rows(self, rows: Any) -> list[dict[str, Any]]:
        """The properties of some rows as plain values; see `node_properties`."""
        wanted = np.asarray(rows, np.int64)
        at = pa.array(wanted)
        out: list[dict[str, Any]] = [{} for _ in range(len(at))]
        for name, column in self.columns.items():
            if column.null_count == len(column):
                continue
            for properties, value in zip(out, plain_values(column.take(at)), strict=True):
                if value is not None:
                    properties[name] = value
        if self.documents is not None:
            for properties, document in zip(out, self._objects(wanted), strict=True):
                for name, value in document.items():
                    if value is not None and not is_nan(value):
                        properties.setdefault(name, value)
        return out

    def _of_columns(self, key: str) -> Property | None:
        """From a column of that name, or from the fields of a struct column."""
        if key in self.columns:
            return from_arrow(self.columns[key], f"{self.place}.{key}")
        name, *path = key.split(".")
        column = self.columns.get(name)
        if not path or column is None:
            return None
        for step in path:
            if not pa.types.is_struct(column.type) or column.type.get_field_index(step) < 0:
                return None
            column = pc.struct_field(column, [step])
        return from_arrow(column, f"{self.place}.{key}")

    def _of_documents(self, key: str) -> Property:
        """From the JSON objects: all of them are read the first time, later only those that have the word in them."""
        assert self.documents is not None
        name, *path = key.split(".")
        rows = np.arange(self.size)
        if self._checked:
            named = pc.match_substring_regex(self.documents, rf'"{name}"|\\u')  # a letter may be written as \u0041
            rows = np.flatnonzero(np.asarray(pc.fill_null(named, False)))
        at, values = [], []
        for begin in range(0, len(rows), _READ_AT_ONCE):
            some = rows[begin : begin + _READ_AT_ONCE]
            for row, document in zip(some.tolist(), self._objects(some), strict=True):
                value = document.get(name)
                for step in path:
                    value = value.get(step) if isinstance(value, dict) else None
                if value is not None:
                    at.append(row)
                    values.append(value)
        self._checked = True
        return from_values(np.array(at, np.int64), values, self.size, f"{self.place}.properties, key {key!r}")

    def _objects(self, rows: np.ndarray) -> list[dict[str, Any]]:
        """The JSON objects of some rows, empty ones where there are none."""
        assert self.documents is not None
        texts = [text or "{}" for text in self.documents.take(pa.array(rows)).to_pylist()]
        try:  # in one go, with something between the rows that would show a row which isn't one value
            read = json.loads("[" + f",{_BETWEEN},".join(texts) + "]")
        except (ValueError, RecursionError):
            read = []
        objects, between = read[::2], read[1::2]
        if (
            len(read) == 2 * len(texts) - 1
            and set(map(type, objects)) == {dict}
            and between.count(_BETWEEN_READ) == len(between)
        ):
            return objects
        return [self._parse(text, row) for text, row in zip(texts, rows.tolist(), strict=True)]

    def _parse(self, text: str, row: int) -> dict[str, Any]:
        try:
            value = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise InvalidData(f"{self.place}.properties row {row}: not a JSON object ({error})") from error
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise InvalidData(f"{self.place}.properties row {row}: expected a JSON object, got {text[:60]!r}")
        return value


def property_column(graph: Graph, key: str) -> Property:
    """The values of one property of all nodes, made on first use and kept with the graph.

    It is the column of that name where that isn't null, else the key of the JSON objects in the column `properties`.
    A dot in the key goes into struct columns and nested objects. NaN counts as missing, since tables mark missing
    numbers by it. Dates and times become ISO 8601 text; decimals and integers beyond 64 bits the nearest float64.

    Args:
        key: ASCII letters, digits and `_`; dots between the steps.

    Raises:
        InvalidFilter: the key isn't of that form.
        InvalidArgument: the column holds what can't be compared, such as binary values.
        InvalidData: a row of `properties` isn't a JSON object.

    Cost: the first key reads every JSON object once, later ones only those that mention the key.
    """
    return _of_nodes(graph).column(key)


def edge_property_column(graph: Graph, key: str) -> Property:
    """The values of one property of all edges, likewise; see `property_column`."""
    return _of_edges(graph).column(key)


def node_properties(graph: Graph, rows: Any) -> list[dict[str, Any]]:
    """The properties of some nodes as plain Python values.

    Args:
        rows: (n,) node rows.

    Returns:
        a dict for each row, without nulls. A column's value wins over the same key in the JSON object; `id`, `labels`,
        `uri`, `properties` and what the engine adds for itself are no columns of properties.
    """
    return _of_nodes(graph).rows(rows)


def edge_properties(graph: Graph, rows: Any) -> list[dict[str, Any]]:
    """The properties of some edges, likewise; `superseded` is among them where it is true."""
    return _of_edges(graph).rows(rows)


def check_key(key: Any) -> None:
    """Check the name of a property.

    Raises:
        InvalidFilter: not a string of ASCII letters, digits and `_`, with dots only between them.
    """
    if not isinstance(key, str) or not re.fullmatch(r"[A-Za-z0-9_]+(\.[A-Za-z0-9_]+)*", key):
        raise InvalidFilter(f"property key: expected ASCII letters, digits, '_' and dots between them, got {key!r}")


def _of_nodes(graph: Graph) -> PropertyTable:
    return graph.once("_node_properties", lambda: PropertyTable(graph.nodes, _NOT_NODE_PROPERTIES, "nodes"))


def _of_edges(graph: Graph) -> PropertyTable:
    def make() -> PropertyTable:
        superseded = graph.edges.column("superseded")  # false where the table said nothing
        at = graph.edges.schema.get_field_index("superseded")
        said = pc.if_else(superseded, superseded, pa.scalar(None, pa.bool_()))
        return PropertyTable(graph.edges.set_column(at, "superseded", said), _NOT_EDGE_PROPERTIES, "edges")

    return graph.once("_edge_properties", make)
