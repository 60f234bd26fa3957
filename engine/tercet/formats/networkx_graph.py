"""Graphs of networkx, read and made."""

import dataclasses
import datetime
import decimal
import uuid
from typing import Any

import numpy as np

from tercet.errors import InvalidArgument
from tercet.formats.imported import Imported, SourceReport
from tercet.formats.property_columns import EDGE_ALIASES, NODE_ALIASES, pop_relation, refuse_repeats, rename, table_of
from tercet.formats.records import WEIGHTS, edge_records, node_records
from tercet.graph import Graph
from tercet.ids import canonical

WRITER = "tercet"  # graph attribute `writer` of graphs made here: their names are taken as they are


def read(graph: Any) -> Imported:
    """The nodes and edges of a networkx graph of any of the four classes.

    Nodes are known by `canonical` ids. Their attributes `name`, `type`, `text`, `description` (or what `tables` knows
    as other names for them), `labels` (a list, or one), `uri`, `importance_weight`, `feedback_weight` and
    `belongs_to_set` are what they say; the entries of an attribute `properties` that is a dict and all other
    attributes are properties, the entries first. The relation of an edge is the first of RELATION among its
    attributes, else its key where that is text. An undirected graph gives each edge once, in the direction networkx
    lists it; the report says so.

    Raises:
        InvalidArgument: not a networkx graph.
        InvalidData: an id is no string, integer or UUID; two nodes have one id (7 and "7"); text isn't valid Unicode.
    """
    if not all(hasattr(graph, name) for name in ("nodes", "edges", "is_directed", "is_multigraph")):
        raise InvalidArgument(f"graph: expected a networkx graph, got {type(graph).__name__}")
    report = SourceReport("networkx", type(graph).__name__)
    own = graph.graph.get("writer") == WRITER
    ids, properties, fixed = [], [], _columns(("labels", "uri", *WEIGHTS, "belongs_to_set"))
    for i, (node, attributes) in enumerate(graph.nodes(data=True)):
        ids.append(canonical(node, f"nodes:{i + 1}"))
        row = _attributes(attributes, f"nodes:{i + 1}", report)
        labels, sets = row.pop("labels", None), row.pop("belongs_to_set", None)
        fixed["labels"].append([labels] if isinstance(labels, str) else labels)
        fixed["belongs_to_set"].append([sets] if isinstance(sets, str) else sets)
        for name in ("uri", *WEIGHTS):
            fixed[name].append(row.pop(name, None))
        properties.append(_merged(row, {} if own else NODE_ALIASES))
    refuse_repeats(ids, lambda i: f"nodes:{i + 1}", "node")
    nodes = table_of({"id": ids} | _present(fixed), properties, "nodes", lambda i: f"nodes:{i + 1}", report)
    edges = _edges(graph, own, report)
    report.tables = {"nodes": (nodes.num_rows, nodes.num_rows), "edges": (edges.num_rows, edges.num_rows)}
    if not graph.is_directed():
        report.notes.append("the graph is undirected: each edge is taken once, in the direction it is listed")
    return Imported(nodes, edges, (), report)


def to_networkx(graph: Graph) -> Any:
    """A networkx MultiDiGraph of a whole graph, in the form of `Subgraph.to_networkx`.

    Nodes have `labels`, `properties` (all of them), `uri`, `importance_weight`, `feedback_weight`, `belongs_to_set`,
    and `name`, `type`, `text`, `description` once more by themselves; edges have their row as key, and `id`, `type`
    (the relation, None for an edge without one), `properties`, `uri`, the weights, and `weight` once more where there
    is one. `read` gives the same graph again. Dates become ISO 8601 text.
    """
    import networkx as nx

    out = nx.MultiDiGraph(writer=WRITER)
    for r in node_records(graph):
        known = {name: r.properties.get(name) for name in NODE_ALIASES}
        out.add_node(
            r.id, **known, labels=list(r.labels), properties=r.properties, uri=r.uri,
            importance_weight=r.importance_weight, feedback_weight=r.feedback_weight, belongs_to_set=r.sets,
        )  # fmt: skip
    for row, e in enumerate(edge_records(graph)):
        weight = {"weight": e.properties["weight"]} if "weight" in e.properties else {}
        out.add_edge(
            e.source, e.target, key=row, **weight, id=e.id, type=e.relation, properties=e.properties, uri=e.uri,
            importance_weight=e.importance_weight, feedback_weight=e.feedback_weight,
        )  # fmt: skip
    return out


def _edges(graph: Any, own: bool, report: SourceReport) -> Any:
    names = ("id", "uri", *WEIGHTS)
    fixed, properties = _columns(("source", "target", "relation", *names)), []
    listed = (
        graph.edges(keys=True, data=True)
        if graph.is_multigraph()
        else ((u, v, None, attributes) for u, v, attributes in graph.edges(data=True))
    )
    bare = []
    for i, (source, target, key, attributes) in enumerate(listed):
        place = f"edges:{i + 1}"
        row = _attributes(attributes, place, report)
        for name, value in (("source", source), ("target", target)):
            fixed[name].append(canonical(value, f"{place} {name}"))
        relation = pop_relation(row)
        identity = row.pop("id", None)
        fixed["id"].append(None if identity is None else canonical(identity, f"{place} id"))
        if isinstance(key, str) and key not in (relation, fixed["id"][-1]):
            if relation is None and not own:
                relation = key
            else:
                row["key"] = key
        fixed["relation"].append(relation)
        if relation is None:
            bare.append(place)
        for name in ("uri", *WEIGHTS):
            fixed[name].append(row.pop(name, None))
        properties.append(_merged(row, {} if own else EDGE_ALIASES))
    report.note("edge without a relation (kept)", bare)
    ends = {name: fixed.pop(name) for name in ("source", "target", "relation")}
    return table_of(ends | _present(fixed), properties, "edges", lambda i: f"edges:{i + 1}", report)


def _columns(names: tuple[str, ...]) -> dict[str, list[Any]]:
    return {name: [] for name in names}


def _present(columns: dict[str, list[Any]]) -> dict[str, list[Any]]:
    return {name: values for name, values in columns.items() if any(value is not None for value in values)}


def _merged(row: dict[str, Any], aliases: dict[str, tuple[str, ...]]) -> dict[str, Any]:
    inner = row.pop("properties", None)
    if not isinstance(inner, dict):
        inner = {} if inner is None else {"properties": inner}
    out = row | inner
    rename(out, aliases)
    return out


def _attributes(attributes: dict[Any, Any], place: str, report: SourceReport) -> dict[str, Any]:
    """Attributes with JSON-like values under text keys; what can't be one is left out and noted."""
    out: dict[str, Any] = {}
    for key, value in attributes.items():
        try:
            out[str(key)] = _plain(value)
        except TypeError:
            report.note(f"attribute {str(key)!r} of {type(value).__name__}, left out", [place])
    return out


def _plain(value: Any) -> Any:
    if value is None or type(value) in (bool, int, float, str):
        return value
    for kind in (int, float, str):  # subclasses, such as enumerations
        if isinstance(value, kind):
            return kind(value)
    if isinstance(value, np.generic):
        return _plain(value.item())
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, dict):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, (set, frozenset)):
        return sorted((_plain(inner) for inner in value), key=repr)
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, uuid.UUID):
        return str(value)
    if isinstance(value, decimal.Decimal):
        return float(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _plain(dataclasses.asdict(value))
    raise TypeError(type(value).__name__)
