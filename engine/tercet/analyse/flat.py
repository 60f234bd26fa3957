"""A graph of any kind as flat arrays: what the measures of this package read."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tercet.errors import InvalidArgument
from tercet.graph import Graph

SMALL = 5000  # nodes up to which networkx is used


@dataclass(frozen=True, eq=False)
class Flat:
    """Nodes in the graph's order and its edges, parallel ones and self loops included; made by `flatten`."""

    keys: Sequence[Any] | pa.LargeStringArray  # (n,) how the caller names the nodes
    source: np.ndarray  # (m,) int64 rows of keys
    target: np.ndarray  # (m,) int64
    weight: np.ndarray | None  # (m,) float64, None: 1 each
    directed: bool
    graph: Graph | None = None  # where it was made from one
    origin: Any = None  # the networkx graph, where it was made from one

    @property
    def size(self) -> int:
        return len(self.keys)

    @property
    def is_large(self) -> bool:
        """Whether igraph is used rather than networkx."""
        return self.graph is not None or self.size > SMALL

    def names(self, rows: np.ndarray) -> list[Any]:
        """The keys of some rows."""
        if isinstance(self.keys, pa.Array):
            return self.keys.take(pa.array(rows, pa.int64())).to_pylist()
        return [self.keys[i] for i in rows.tolist()]

    def places(self) -> np.ndarray:
        """(n,) int64 the place of each row when keys are sorted: numbers as numbers, then strings, then others."""
        if self.graph is not None and self.graph.order == "canonical":
            return np.arange(self.size)
        if isinstance(self.keys, pa.Array):
            order = np.asarray(pc.sort_indices(self.keys))
        else:
            keys = [key_order(key) for key in self.keys]
            order = np.array(sorted(range(self.size), key=keys.__getitem__), np.int64)
        places = np.empty(self.size, np.int64)
        places[order] = np.arange(self.size)
        return places

    def both_ways(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(source, target, weight) of directed edges; an undirected one becomes two, a self loop stays one."""
        weight = np.ones(len(self.source)) if self.weight is None else self.weight
        if self.directed:
            return self.source, self.target, weight
        again = self.source != self.target
        return (
            np.concatenate([self.source, self.target[again]]),
            np.concatenate([self.target, self.source[again]]),
            np.concatenate([weight, weight[again]]),
        )

    def summed(self) -> "Flat":
        """The same with each pair of nodes joined once, by the sum of its edges' weights."""
        low, high = self.source, self.target
        if not self.directed:
            low, high = np.minimum(low, high), np.maximum(low, high)
        weight = np.ones(len(low)) if self.weight is None else self.weight
        source, target, weight = group_pairs(low, high, weight, self.size, np.add)
        return replace(self, source=source, target=target, weight=weight)

    def by_row(self, name: str, values: Mapping[Any, float]) -> np.ndarray:
        """(n,) float64 of a mapping by key, 0 where a node is absent.

        Raises:
            InvalidArgument: a key that is no node, a value that isn't a finite number of at least 0, or all 0.
        """
        if not isinstance(values, Mapping):
            raise InvalidArgument(f"{name}: expected a mapping of nodes to numbers, got {type(values).__name__}")
        if self.graph is not None:
            rows = self.graph.rows(list(values)).tolist()
        else:
            place = {key: i for i, key in enumerate(self.keys)}
            rows = [place.get(key, -1) for key in values]
        out = np.zeros(self.size)
        for row, (key, value) in zip(rows, values.items(), strict=True):
            if row < 0:
                raise InvalidArgument(f"{name}: expected nodes of the graph, got {key!r}")
            out[row] = number(f"{name}[{key!r}]", value)
        if not (np.isfinite(out).all() and out.min(initial=0.0) >= 0 and out.any()):
            raise InvalidArgument(f"{name}: expected finite numbers of at least 0, one of them above 0")
        return out


def flatten(graph: Any, directed: bool | None, weight: str | None) -> Flat:
    """Read a graph.

    Args:
        graph: a `tercet.Graph`, a networkx (multi)graph, or an object with `to_networkx(directed=...)`.
        directed: False drops directions; None: as the graph is. An undirected graph stays undirected.
        weight: name of the edges' weight: of a `tercet.Graph` a column of the edges, of a networkx graph an attribute
            or an entry of the attribute `properties`. Missing: 1.

    Raises:
        InvalidArgument: another kind of graph, an unknown column, or a weight that isn't a finite number of at least 0.
    """
    if isinstance(graph, Graph):
        source, target = (x.cpu().numpy().astype(np.int64) for x in (graph.source, graph.target))
        values = None if weight is None else _column(graph, weight)
        return Flat(graph.ids, source, target, values, directed is not False, graph)
    if makes_networkx(graph):
        graph = graph.to_networkx(directed=directed is not False)
    if not (callable(getattr(graph, "is_multigraph", None)) and callable(getattr(graph, "edges", None))):
        raise InvalidArgument(
            "graph: expected a tercet.Graph, a networkx graph or an object with to_networkx, "
            f"got {type(graph).__name__}"
        )
    keys = list(graph)
    place = {key: i for i, key in enumerate(keys)}
    edges = list(graph.edges(data=True))
    ends = np.array([(place[u], place[v]) for u, v, _ in edges], np.int64).reshape(-1, 2)
    values = None if weight is None else _attributes(edges, weight)
    way = graph.is_directed() and directed is not False
    return Flat(keys, ends[:, 0].copy(), ends[:, 1].copy(), values, way, origin=graph)


def makes_networkx(graph: Any) -> bool:
    """Whether it is an object with `to_networkx`, such as a result, rather than a graph."""
    return not isinstance(graph, Graph) and callable(getattr(graph, "to_networkx", None))


def key_order(key: Any) -> tuple[int, Any, str]:
    """Sorts numbers as numbers, then strings, then other keys by type and text."""
    if isinstance(key, Real):
        return 0, key, ""
    return (1, key, "") if isinstance(key, str) else (2, type(key).__name__, str(key))


def attribute(data: Mapping[str, Any], name: str, default: Any = None) -> Any:
    """A networkx attribute, or else the entry of the attribute `properties`."""
    if name in data:
        return data[name]
    properties = data.get("properties")
    return properties.get(name, default) if isinstance(properties, Mapping) else default


def number(name: str, value: Any) -> float:
    if not isinstance(value, Real) or isinstance(value, bool):
        raise InvalidArgument(f"{name}: expected a number, got {value!r}")
    return float(value)


def group_pairs(
    source: np.ndarray, target: np.ndarray, weight: np.ndarray, size: int, combine: Callable[..., np.ndarray]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Each (source, target) once, ascending, the weights of parallel edges combined (`np.add`, `np.minimum`)."""
    key = source * size + target
    order = np.argsort(key, kind="stable")
    key, weight = key[order], weight[order]
    first = np.flatnonzero(np.diff(key, prepend=-1))
    merged = combine.reduceat(weight, first) if len(first) else weight[:0]  # type: ignore[attr-defined]
    return key[first] // max(size, 1), key[first] % max(size, 1), merged


def _attributes(edges: list[tuple[Any, Any, dict[str, Any]]], name: str) -> np.ndarray:
    values = np.ones(len(edges))
    for i, (u, v, data) in enumerate(edges):
        values[i] = number(f"weight {name!r} of the edge {u!r} -> {v!r}", attribute(data, name, 1))
    return _usable(values, name)


def _column(graph: Graph, name: str) -> np.ndarray:
    if name not in graph.edges.schema.names:
        raise InvalidArgument(f"weight: expected a column of the edges, got {name!r}")
    column = graph.edges.column(name)
    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        raise InvalidArgument(f"weight: expected a column of numbers, {name!r} holds {column.type}")
    return _usable(np.array(pc.fill_null(column.cast(pa.float64()), 1.0)), name)  # a copy: torch wants to write


def _usable(values: np.ndarray, name: str) -> np.ndarray:
    if not ((values >= 0) & (values < np.inf)).all():
        raise InvalidArgument(f"weight: expected finite numbers of at least 0 in {name!r}")
    return values
