"""Seeded synthetic graphs with vectors: what every speed row is measured on.

A workload is plain NumPy, so that Tercet and the libraries beside it are given the same numbers, and travels to another
process as one `.npz` without pickle.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tercet.errors import InvalidArgument

KINDS = ("uniform", "power_law", "type_hubs")
ZIPF_EXPONENT = 0.8  # gives a largest degree of about N / 5 at 100,000 nodes and mean degree 10
MAX_TYPES = 20
DEFAULT_TEXTS = 1000
NODE_PULL = (0.55, 0.9)  # cosine of a member and its cluster centre; two members have the product of theirs
QUERY_PULL = (0.5, 0.8)  # cosine of a query and the node it is drawn from
MAX_DRAWS = 100

Pairs = tuple[NDArray[np.int64], NDArray[np.int64]]


@dataclass(frozen=True, eq=False)
class Workload:
    """A graph, its vectors and queries.

    Edges are distinct (source, target, relation) triples (the synthetic ones without self loops), ordered by source,
    then target, then relation: the order that decides ties. All vectors are float32 of unit norm.
    """

    name: str
    num_nodes: int
    source: NDArray[np.int32]  # (E,)
    target: NDArray[np.int32]  # (E,)
    relation: NDArray[np.int32]  # (E,) row of relation_vectors
    node_vectors: NDArray[np.float32]  # (N, D)
    relation_vectors: NDArray[np.float32]  # (R, D)
    query_vectors: NDArray[np.float32]  # (Q, D)
    num_types: int = 0  # the first nodes are types, which have a collection of their own
    vectors: str = "clustered, seeded"  # who made them

    @property
    def num_edges(self) -> int:
        return len(self.source)

    @property
    def node_ids(self) -> list[str]:
        return [f"n{node:06d}" for node in range(self.num_nodes)]

    @property
    def relation_texts(self) -> list[str]:
        return [f"relation {row}" for row in range(len(self.relation_vectors))]

    def save(self, path: str | Path) -> None:
        """Write all fields to one uncompressed `.npz` at exactly this path, without pickle."""
        fields = {field: np.asarray(getattr(self, field)) for field in self.__dataclass_fields__}
        with open(path, "wb") as file:
            np.savez(file, allow_pickle=False, **fields)

    @classmethod
    def load(cls, path: str | Path) -> Workload:
        """Read what `save` wrote."""
        with np.load(path, allow_pickle=False) as arrays:
            fields: dict[str, Any] = {field: arrays[field] for field in cls.__dataclass_fields__}
        return cls(
            **{
                **fields,
                "name": str(fields["name"]),
                "vectors": str(fields["vectors"]),
                "num_nodes": int(fields["num_nodes"]),
                "num_types": int(fields["num_types"]),
            }
        )


def make(
    num_nodes: int,
    num_edges: int,
    dimension: int = 384,
    kind: str = "uniform",
    *,
    relation_texts: int | Literal["each"] = DEFAULT_TEXTS,
    seed: int = 0,
    num_queries: int = 256,
) -> Workload:
    """Draw a workload; the same arguments give the same arrays.

    Args:
        num_nodes: N, at least 2.
        num_edges: E; for "type_hubs" at least one for each entity.
        dimension: D of all vectors.
        kind: "uniform" (both ends uniform), "power_law" (both ends from one Zipf-like law, the largest hub up to about
            N / 5 edges) or "type_hubs" (as an extraction by a language model: up to 20 type nodes, rows 0 and on;
            every other node has one edge of relation 0 to a type, evenly spread; the other edges join entities
            uniformly).
        relation_texts: R, the number of distinct relation texts; "each" gives every edge a text of its own.
        seed: of the generator.
        num_queries: Q.

    Returns:
        The workload. Vectors are clustered like a small sentence encoder's: nearest neighbours have a cosine of about
        0.4 to 0.8, unrelated ones about 0. Relations share the nodes' clusters and each query is drawn near a node.

    Raises:
        InvalidArgument: an unknown kind, a count out of range, or more edges than distinct ones can be drawn.
    """
    if kind not in KINDS:
        raise InvalidArgument(f"kind: expected one of {KINDS}, got {kind!r}")
    each = relation_texts == "each"
    num_texts = relation_texts if isinstance(relation_texts, int) else max(num_edges, 1)
    if num_nodes < 2 or num_edges < 0 or dimension < 1 or num_texts < 1 or num_queries < 0:
        raise InvalidArgument(
            "workload: expected num_nodes >= 2, num_edges >= 0, dimension >= 1, relation_texts >= 1, num_queries >= 0, "
            f"got {num_nodes}, {num_edges}, {dimension}, {num_texts}, {num_queries}"
        )
    rng = np.random.default_rng(seed)
    source, target, relation = _edges(rng, kind, num_nodes, num_edges, num_texts)
    order = np.lexsort((relation, target, source))
    if each:
        relation[order] = np.arange(num_edges)
    texts = "-each" if each else "" if num_texts == DEFAULT_TEXTS else f"-{num_texts}r"
    nodes, relations, queries = clustered(rng, num_nodes, num_texts, num_queries, dimension)
    return Workload(
        name=f"{kind}-{num_nodes}n-{num_edges}e{texts}-seed{seed}",
        num_nodes=num_nodes,
        source=source[order].astype(np.int32),
        target=target[order].astype(np.int32),
        relation=relation[order].astype(np.int32),
        node_vectors=nodes,
        relation_vectors=relations,
        query_vectors=queries,
        num_types=_num_types(num_nodes) if kind == "type_hubs" else 0,
    )


def clustered(
    rng: np.random.Generator, num_nodes: int, num_relations: int, num_queries: int, dimension: int
) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]:
    """Vectors of nodes, relations and queries that are spread like a small sentence encoder's; see `make`."""
    centres = _unit(rng.standard_normal((max(1, round(num_nodes**0.5)), dimension), dtype=np.float32))
    nodes = _near(rng, centres, num_nodes, NODE_PULL)
    return nodes, _near(rng, centres, num_relations, NODE_PULL), _near(rng, nodes, num_queries, QUERY_PULL)


def _edges(
    rng: np.random.Generator, kind: str, num_nodes: int, num_edges: int, num_relations: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    if kind == "type_hubs":
        return _type_hub_edges(rng, num_nodes, num_edges, num_relations)
    if kind == "uniform":

        def draw(count: int) -> Pairs:
            return rng.integers(num_nodes, size=count), rng.integers(num_nodes, size=count)

    else:
        law = _zipf_law(num_nodes, num_edges)
        label = rng.permutation(num_nodes)  # a hub's row must say nothing about its degree

        def draw(count: int) -> Pairs:
            return label[rng.choice(num_nodes, count, p=law)], label[rng.choice(num_nodes, count, p=law)]

    return _distinct_triples(rng, draw, num_edges, num_nodes, num_relations)


def _num_types(num_nodes: int) -> int:
    return min(MAX_TYPES, max(1, num_nodes // 100))


def _type_hub_edges(
    rng: np.random.Generator, num_nodes: int, num_edges: int, num_relations: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    num_types = _num_types(num_nodes)
    num_entities = num_nodes - num_types
    if num_edges < num_entities:
        raise InvalidArgument(f"num_edges: 'type_hubs' needs one an entity, {num_entities}, got {num_edges}")

    def draw(count: int) -> Pairs:
        return rng.integers(num_types, num_nodes, count), rng.integers(num_types, num_nodes, count)

    types = rng.integers(num_types, size=num_entities)
    others = max(1, num_relations - 1)  # relation 0 is the type's, unless there is no other
    source, target, relation = _distinct_triples(rng, draw, num_edges - num_entities, num_nodes, others)
    return (
        np.concatenate([np.arange(num_types, num_nodes), source]),
        np.concatenate([types, target]),
        np.concatenate([np.zeros(num_entities, np.int64), relation + num_relations - others]),
    )


def _distinct_triples(
    rng: np.random.Generator, draw: Callable[[int], Pairs], count: int, num_nodes: int, num_relations: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """`count` distinct triples without self loops, as a graph store keeps them."""
    keys = np.zeros(0, np.int64)
    for _ in range(MAX_DRAWS):
        if len(keys) >= count:
            break
        source, target = draw(count - len(keys) + 16)
        relation = rng.integers(num_relations, size=len(source))
        fresh = ((source * num_nodes + target) * num_relations + relation)[source != target]
        keys = np.unique(np.concatenate([keys, fresh]))
    else:
        raise InvalidArgument(
            f"num_edges: {count} distinct edges of {num_nodes} nodes and {num_relations} relations can't be drawn"
        )
    keys = rng.permutation(keys)[:count]
    pair, relation = np.divmod(keys, num_relations)
    source, target = np.divmod(pair, num_nodes)
    return source, target, relation


def _zipf_law(num_nodes: int, num_edges: int) -> NDArray[np.float64]:
    """Share of edge ends of each node, falling with its rank; no node expects more than N / 5 of the 2E ends."""
    law = np.arange(1, num_nodes + 1, dtype=np.float64) ** -ZIPF_EXPONENT
    largest = max(num_nodes / 5 / max(1, 2 * num_edges), 1 / num_nodes)
    for _ in range(20):  # what the capped nodes give up goes to the others, which may then meet the cap
        law = np.minimum(law / law.sum(), largest)
    return law / law.sum()


def _near(
    rng: np.random.Generator, centres: NDArray[np.float32], count: int, pull: tuple[float, float]
) -> NDArray[np.float32]:
    """(count, D) unit vectors, each at a cosine uniform in `pull` from a random row of `centres`."""
    share = rng.uniform(*pull, size=(count, 1)).astype(np.float32)
    chosen = centres[rng.integers(len(centres), size=count)]
    noise = _unit(rng.standard_normal(chosen.shape, dtype=np.float32))
    return _unit((share * chosen + np.sqrt(1 - share**2) * noise).astype(np.float32, copy=False))


def _unit(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.divide(vectors, np.linalg.norm(vectors, axis=1, keepdims=True), dtype=np.float32)
