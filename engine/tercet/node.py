"""Nodes and relationships as values of a result, made for many rows at a time."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from tercet.graph import Graph
from tercet.labels import labels_of
from tercet.properties import edge_properties, node_properties
from tercet.tables import texts

Value = TypeVar("Value")


@dataclass(frozen=True)
class Node:
    """A node with its labels and properties; equal to another of the same content, whatever its row."""

    id: str
    labels: tuple[str, ...]  # alphabetical
    properties: dict[str, Any]
    uri: str | None = None
    row: int = field(default=-1, compare=False)  # in the graph it is from

    def __hash__(self) -> int:
        return hash(self.id)

    @property
    def title(self) -> str:
        """The property `name`, else `title`, else the id."""
        named = (self.properties.get(key) for key in ("name", "title"))
        return next((text for text in named if isinstance(text, str) and text), self.id)


@dataclass(frozen=True)
class Relationship:
    """An edge with its type and properties; equal to another of the same content, whatever its row."""

    id: str | int  # the edge's own id, else its row
    source_id: str
    target_id: str
    type: str | None  # None: an edge without a label
    properties: dict[str, Any]
    uri: str | None = None
    row: int = field(default=-1, compare=False)  # in the graph it is from

    def __hash__(self) -> int:
        return hash((self.source_id, self.type, self.target_id))


def nodes_of(graph: Graph, rows: Any) -> list[Node]:
    """The nodes of some rows.

    Args:
        rows: (n,) node rows, repeats and any order allowed.

    Returns:
        one node a row, in that order; `uri` is that of the node column `uri`.
    """
    wanted = _rows(rows)
    at = pa.array(wanted)
    labels = labels_of(graph)
    begin, count = labels.indptr[wanted], labels.indptr[wanted + 1] - labels.indptr[wanted]
    ends = count.cumsum()
    inside = np.arange(count.sum()) - np.repeat(ends - count, count) + np.repeat(begin, count)
    flat = labels.names.take(pa.array(labels.member[inside])).to_pylist()
    bounds = [0, *ends.tolist()]
    names = [tuple(flat[low:high]) for low, high in pairwise(bounds)]
    ids, uris = graph.ids.take(at).to_pylist(), _uris(graph.nodes, at, "nodes")
    columns = (ids, names, node_properties(graph, wanted), uris, wanted.tolist())
    with _without_collection():
        return [_filled(Node, i, labels=n, properties=p, uri=u, row=r) for i, n, p, u, r in zip(*columns, strict=True)]


def relationships_of(graph: Graph, rows: Any) -> list[Relationship]:
    """The edges of some rows.

    Args:
        rows: (n,) edge rows, repeats and any order allowed.

    Returns:
        one relationship a row, in that order; `uri` is that of the edge column `uri`.
    """
    wanted = _rows(rows)
    at = pa.array(wanted)
    source, target = (graph.ids.take(pa.array(end.cpu().numpy()[wanted])).to_pylist()
                      for end in (graph.source, graph.target))  # fmt: skip
    own = graph.edges.column("id").take(at).to_pylist()
    ids = [row if name is None else name for name, row in zip(own, wanted.tolist(), strict=True)]
    types = graph.relation_column.take(at).to_pylist()
    properties, uris = edge_properties(graph, wanted), _uris(graph.edges, at, "edges")
    columns = (ids, source, target, types, properties, uris, wanted.tolist())
    with _without_collection():
        return [
            _filled(Relationship, i, source_id=s, target_id=t, type=k, properties=p, uri=u, row=r)
            for i, s, t, k, p, u, r in zip(*columns, strict=True)
        ]


def _filled(cls: type[Value], id_: Any, **fields: Any) -> Value:
    """An instance of a frozen dataclass with all its fields, in a third of the time that its own `__init__` takes."""
    made = object.__new__(cls)
    made.__dict__.update(id=id_, **fields)
    return made


@contextmanager
def _without_collection() -> Iterator[None]:
    """Many objects that hold no cycles are made here: the collector would look through them again and again."""
    on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if on:
            gc.enable()


def _rows(rows: Any) -> np.ndarray:
    return np.asarray(rows.cpu() if hasattr(rows, "cpu") else rows, np.int64).reshape(-1)


def _uris(table: pa.Table, at: pa.Array, place: str) -> list[str | None]:
    if "uri" not in table.schema.names:
        return [None] * len(at)
    return texts(table.column("uri").take(at), f"{place}.uri").to_pylist()
