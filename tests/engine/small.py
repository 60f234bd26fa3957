"""Small graphs and collections with chosen distances from the query [1, 0]."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tercet import Collection, Engine, Graph
from tercet.result import Result

QUERY = np.array([1.0, 0.0], np.float32)


def at(distances: Any) -> np.ndarray:
    """(V, 2) unit vectors at these cosine distances from QUERY."""
    cosine = 1.0 - np.asarray(distances, np.float64)
    return np.stack([cosine, np.sqrt(np.maximum(0.0, 1.0 - cosine**2))], axis=1)


def names(distances: Mapping[Any, float], name: str = "Entity_name", **options: Any) -> Collection:
    """A node collection from node ids and distances."""
    return Collection.build(name, at(list(distances.values())), owner=list(distances), **options)


def relations(distances: Mapping[str, float], name: str = "EdgeType_relationship_name", **options: Any) -> Collection:
    """A relation collection from relation texts and distances."""
    return Collection.build(name, at(list(distances.values())), owner=list(distances), kind="relation", **options)


def graph(edges: Sequence[tuple[Any, ...]], nodes: Sequence[Any] = (), **options: Any) -> Graph:
    """A graph of (source, relation, target) rows; a fourth entry is the edge's id. Ends become nodes."""
    ids = list(dict.fromkeys([*nodes, *(end for e in edges for end in (e[0], e[2]))]))
    table = {name: [e[i] for e in edges] for i, name in enumerate(("source", "relation", "target"))}
    if any(len(e) > 3 for e in edges):
        table["id"] = [e[3] if len(e) > 3 else None for e in edges]
    return Graph.from_tables({"id": ids}, table, **options)


def engine(graph: Graph, *collections: Collection, **options: Any) -> Engine:
    """An engine on the CPU unless a device is named."""
    return Engine(graph, collections, **{"device": "cpu", **options})


def triplets(result: Result) -> list[tuple[str, str, str]]:
    """(source, relation, target) of an answer, best first."""
    return [(t.source, t.relation, t.target) for t in result.triplets]


def same(a: Result, b: Result) -> bool:
    """Equal status, triplets, scores and distances, to the last bit."""
    return (
        a.status == b.status
        and np.array_equal(a.edges, b.edges)
        and np.array_equal(a.scores, b.scores)
        and np.array_equal(a.distances, b.distances)
    )
