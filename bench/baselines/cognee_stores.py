"""Both engines of cognee over prepared answers in memory, whose time is measured and can be subtracted."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any
from uuid import NAMESPACE_OID, uuid5

import numpy as np

NODES, TYPES, RELATIONS = "Entity_name", "EntityType_name", "EdgeType_relationship_name"
Clock = defaultdict[str, float]  # seconds by stage


class Stores:
    """The first `num_nodes` nodes, `num_edges` edges and `num_texts` relation texts; `clock` gets the seconds here."""

    def __init__(
        self, data: dict[str, np.ndarray], clock: Clock, num_nodes: int, num_edges: int, num_texts: int
    ) -> None:
        from cognee.modules.graph.models.EdgeType import EdgeType

        self.clock = clock
        self.embedding_engine = self
        self.unified = SimpleNamespace(vector=self, graph=self)
        self.queries = data["query_vectors"]
        types, vectors = min(int(data["num_types"]), num_nodes), data["node_vectors"][:num_nodes]
        relations = data["relation_vectors"][:num_texts]
        self.vectors = {NODES: vectors[types:], TYPES: vectors[:types], RELATIONS: relations}
        names = [f"relation {row}" for row in range(len(relations))]
        node_ids = [uuid5(NAMESPACE_OID, f"n{node:06d}") for node in range(num_nodes)]
        self.ids = {
            NODES: node_ids[types:],
            TYPES: node_ids[:types],
            RELATIONS: [EdgeType.id_for(name) for name in names],
        }
        self.node_of = {str(key): node for node, key in enumerate(node_ids)}
        self.relation_of = {name: row for row, name in enumerate(names)}
        keys = list(self.node_of)
        self.nodes = [(key, {"name": key, "type": "Entity", "description": f"Entity {key}."}) for key in keys]
        self.ends = (np.stack([data["source"], data["target"]], axis=1)[:num_edges] % num_nodes).tolist()
        self.edges = [
            (keys[source], keys[target], names[row], {"relationship_name": names[row], "edge_text": names[row]})
            for (source, target), row in zip(self.ends, (data["relation"] % len(names)).tolist(), strict=False)
        ]
        self.incident: list[list[int]] = [[] for _ in range(num_nodes)]
        for edge, (source, target) in enumerate(self.ends):
            self.incident[source].append(edge)
            self.incident[target].append(edge)
        self.embedded: dict[str, list[float]] = {}
        self.hits: dict[tuple[str, str, int | None], list[Any]] = {}
        self.asked = ""

    def prepare(self, rows: range, limit: int | None) -> None:
        """Embed these queries and list their hits, ascending by distance, ties by row; forget all earlier lists."""
        from cognee.infrastructure.databases.vector.models.ScoredResult import ScoredResult

        self.hits.clear()
        for collection, vectors in self.vectors.items():
            wide, ids = vectors.astype(np.float64), self.ids[collection]
            norms = np.linalg.norm(wide, axis=1)
            for row in rows:
                query = self.queries[row].astype(np.float64)
                distance = (1 - wide @ query / (norms * np.linalg.norm(query))).astype(np.float32)
                order = np.argsort(distance, kind="stable")[:limit]
                self.hits[collection, str(row), limit] = [
                    ScoredResult.model_construct(id=ids[hit], score=score, payload=None)
                    for hit, score in zip(order.tolist(), distance[order].tolist(), strict=True)
                ]
                self.embedded[str(row)] = self.queries[row].tolist()

    @contextmanager
    def _subtracted(self) -> Iterator[None]:
        start, cpu = time.perf_counter(), time.process_time()
        yield
        self.clock["store"] += time.perf_counter() - start
        self.clock["store_cpu"] += time.process_time() - cpu

    async def embed_text(self, texts: list[str]) -> list[list[float]]:
        self.asked = texts[0]
        return [self.embedded[text] for text in texts]

    async def search(self, collection_name: str, limit: int | None, **_: object) -> list[Any]:
        with self._subtracted():
            return self.hits[collection_name, self.asked, limit]

    async def batch_search(self, collection_name: str, query_texts: list[str], limit: int | None) -> list[list[Any]]:
        with self._subtracted():
            return [self.hits[collection_name, text, limit] for text in query_texts]

    async def get_graph_data(self) -> tuple[list[Any], list[Any]]:
        return self.nodes, self.edges

    async def get_id_filtered_graph_data(self, target_ids: list[str]) -> tuple[list[Any], list[Any]]:
        """Edges with either end in `target_ids`, in list order, and their ends by first appearance."""
        with self._subtracted():
            kept = sorted({edge for key in target_ids for edge in self.incident[self.node_of[key]]})
            first = dict.fromkeys(node for edge in kept for node in self.ends[edge])
            return [self.nodes[node] for node in first], [self.edges[edge] for edge in kept]
