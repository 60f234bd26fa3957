"""For users of Grafito: its searches by their own names, arguments and rules, those of grafitodb 0.8.6.

A `Database` answers one query a call, with integer ids; the batched verbs of its `engine` (mode "grafito") follow the
same rules for many queries at once. docs/differences.md names what differs on purpose.
"""

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from tercet.collection import Collection
from tercet.engine import Engine
from tercet.errors import InvalidArgument, InvalidFilter, TercetError
from tercet.graph import Graph
from tercet.index.raw import RawIndex
from tercet.matching import LabelFilter, match_nodes
from tercet.node import Node, Relationship
from tercet.retrieve.fts import FtsIndex
from tercet.retrieve.subgraph import Subgraph as Selected
from tercet.retrieve.words import EVERY

METRICS = {("bruteforce", "cosine"): "cosine", ("bruteforce", "l2"): "l2", ("faiss", "l2"): "squared_l2",
           ("faiss", "ip"): "ip"}  # fmt: skip


class GrafitoError(TercetError):
    """Base of the errors that Grafito raises on purpose."""


class DatabaseError(GrafitoError, ValueError):
    """A call that Grafito refuses."""


class InvalidFilterError(GrafitoError, ValueError):
    """A filter that Grafito refuses."""


@contextmanager
def _refusals() -> Iterator[None]:
    """What the engine refuses, under Grafito's names."""
    try:
        yield
    except InvalidFilter as error:
        raise InvalidFilterError(str(error)) from error
    except InvalidArgument as error:
        raise DatabaseError(str(error)) from error


@dataclass
class Subgraph:
    """Nodes and relationships selected by a search, with integer ids; equal by its fields, false when empty."""

    nodes: list[Node] = field(default_factory=list)
    relationships: list[Relationship] = field(default_factory=list)
    seeds: list[dict[str, Any]] = field(default_factory=list)
    scores: dict[int, float] = field(default_factory=dict)
    hops: dict[int, int] = field(default_factory=dict)
    paths: list[list[int]] = field(default_factory=list)

    def node_ids(self) -> list[int]:
        """Ids of the nodes, in order."""
        return [node.id for node in self.nodes]  # type: ignore[misc]

    def seed_ids(self) -> list[int]:
        """Ids of the seeds, in order."""
        return [hit["node"].id for hit in self.seeds]

    def is_empty(self) -> bool:
        """Whether there is no node."""
        return not self.nodes

    def __len__(self) -> int:
        return len(self.nodes)

    def to_networkx(self, directed: bool = True) -> Any:
        """A networkx MultiDiGraph, or MultiGraph, with the attributes that Grafito gives it."""
        import networkx as nx

        graph = nx.MultiDiGraph() if directed else nx.MultiGraph()
        for node in self.nodes:
            graph.add_node(
                node.id, labels=list(node.labels), properties=dict(node.properties), uri=node.uri,
                score=self.scores.get(node.id), hops=self.hops.get(node.id),  # type: ignore[call-overload]
            )  # fmt: skip
        for r in self.relationships:
            graph.add_edge(
                r.source_id, r.target_id, key=r.id, id=r.id, type=r.type, properties=dict(r.properties), uri=r.uri
            )
        return graph


@dataclass(frozen=True)
class VectorIndex:
    """One named vector index of a database."""

    name: str
    backend: str
    default_k: int | None = None
    embed: Callable[[list[str]], Any] | None = None


class Database:
    """A read-only Grafito database: the searches of grafitodb 0.8.6 over an engine in mode "grafito".

    Made by `Database.from_records`.
    """

    def __init__(self, engine: Engine, indexes: Sequence[VectorIndex], *, default_top_k: int = 10) -> None:
        self.engine = engine
        self.indexes = {i.name: i for i in indexes}
        self.default_top_k = default_top_k

    @staticmethod
    def from_records(
        nodes: Iterable[Mapping[str, Any]],
        relationships: Iterable[Mapping[str, Any]],
        *,
        vectors: Mapping[str, Mapping[str, Any]] | None = None,
        text_index: Sequence[Mapping[str, Any]] = (),
        written_again: Sequence[int] = (),
        known: Mapping[tuple[str, int], int] | None = None,
        default_top_k: int = 10,
        device: str = "auto",
    ) -> "Database":
        """A database of records as Grafito holds them.

        Args:
            nodes: `id` (integer), `labels`, `properties`, `uri`.
            relationships: `id`, `source`, `target`, `type`, `properties`, `uri`.
            vectors: by name of the index: `ids` and `vectors` (V, D) in order of insertion, `backend`, `metric`, and
                optionally `default_k` and `embed` (a function from texts to vectors).
            text_index, written_again, known: what the text table holds; see `text_rows`.
        """
        node_list = sorted(nodes, key=lambda n: n["id"])
        edge_list = sorted(relationships, key=lambda r: r["id"])
        graph = graph_of(node_list, edge_list)
        collections, indexes = [], []
        for name, given in (vectors or {}).items():
            collections.append(_collection(name, given))
            indexes.append(VectorIndex(name, given["backend"], given.get("default_k"), given.get("embed")))
        fts = text_rows(graph, node_list, edge_list, text_index, written_again, known)
        engine = Engine(graph, collections, device=device, mode="grafito", lexical=fts)
        return Database(engine, indexes, default_top_k=default_top_k)

    def semantic_search(
        self, query: Any, k: int | None = None, index: str = "default", filter_labels: Any = None,
        filter_props: Any = None, exact: bool = False, rerank: bool = False, reranker: Any = None,
        candidate_multiplier: int | None = None,
    ) -> list[dict[str, Any]]:  # fmt: skip
        """Ranked nodes by vector; a text is embedded by the index's own function."""
        known = self.indexes.get(index)
        if known is None:
            raise DatabaseError(f"index: there is no vector index {index!r}, only {sorted(self.indexes)}")
        if isinstance(query, str):
            if known.embed is None:
                raise DatabaseError(f"query: the index {index!r} has no embedding function")
            query = known.embed([query])[0]
        if k is None:
            k = known.default_k or self.default_top_k
        mask = None
        if filter_labels or filter_props:
            with _refusals():
                mask = match_nodes(self.engine.graph, filter_labels, filter_props, mode="grafito")
            if not mask.any():
                return []
        wanted, depth = max(k, 0), max(k, 0)
        if mask is not None and known.backend == "faiss":  # it filters what it found, so it asks for more
            allowed = int(mask.sum())
            depth = k if exact else max(k, allowed)
            if candidate_multiplier is not None and not exact:
                depth = min(allowed, max(k, k * candidate_multiplier))
        if wanted == 0:
            return []
        within = mask if known.backend != "faiss" else None
        found = self.engine.semantic_search(vectors=[query], k=max(depth, 1), collections=[index], filter=within)[0]
        if found.error is not None:
            raise ValueError(found.error)
        hits = [{"node": _numbered(h["node"]), "score": h["score"]} for h in found]
        if mask is not None and known.backend == "faiss":
            hits = [h for h in hits if mask[h["node"].row]]
        hits = hits[:wanted]
        return self._reranked(hits, query, known, rerank, reranker, wanted)

    def _reranked(
        self, hits: list[dict[str, Any]], query: Any, index: VectorIndex, rerank: bool, reranker: Any, k: int
    ) -> list[dict[str, Any]]:
        """Hits scored again by the exact vectors, or in the order of a function of the caller's."""
        if reranker is not None:
            if not callable(reranker):
                raise DatabaseError(f"reranker: expected a function, got {reranker!r}")
            made = reranker(query, [{"id": h["node"].id, "score": h["score"]} for h in hits])
            by_id = {h["node"].id: h["node"] for h in hits}
            pairs = [(x["id"], x["score"]) if isinstance(x, Mapping) else tuple(x) for x in made]
            return [{"node": by_id[i], "score": s} for i, s in pairs if i in by_id][:k] or hits
        raw = next(c.index for c in self.engine.collections if c.name == index.name)
        if rerank and isinstance(raw, RawIndex) and raw.metric == "l2":
            return [{**h, "score": -(h["score"] ** 2)} for h in hits]
        return hits

    def text_search(
        self, query: Any, k: int | None = None, labels: Any = None, rel_types: Any = None
    ) -> list[dict[str, Any]]:
        """Ranked rows of the text table: `entity_type`, `entity`, `score` (negative, smaller is better)."""
        k = self.default_top_k if k is None else k
        if rel_types is not None and not isinstance(rel_types, list):
            raise DatabaseError(f"rel_types: expected a list of types, got {rel_types!r}")
        with _refusals():
            if not rel_types:
                return self._entities(self._fts.search(query, k, labels))
            self._fts.search(query, k)  # refuses what can't be asked
            every = self._fts.search(query, EVERY)
            nodes = self._fts.search(query, EVERY, labels) if labels else []
        types = self.engine.graph.relation_column
        edges = [h for h in every if h.kind == "relationship" and types[h.entity].as_py() in rel_types]
        return self._entities(sorted([*nodes, *edges], key=lambda h: h.score)[:k])

    def text_subgraph(self, query: Any, k: int | None = None, *, search_labels: Any = None, **growth: Any) -> Subgraph:
        """The subgraph around the nodes that a text search finds."""
        if query is None:
            raise TypeError("query: expected a text, got None")
        if not isinstance(query, str):
            raise AttributeError(f"query: expected a text, got {type(query).__name__}")
        with _refusals():
            found = self._fts.search_words(query, self.default_top_k if k is None else k, search_labels)
        hits = [h for h in self._entities(found) if h["entity_type"] == "node"]
        return self.subgraph([{"node": h["entity"], "score": h["score"]} for h in hits], **_grown(growth))

    def hybrid_search(
        self, query: Any, k: int | None = None, *, index: str = "default", vector_k: int | None = None,
        text_k: int | None = None, vector_weight: float = 1.0, text_weight: float = 1.0, rrf_k: float = 60,
        labels: Any = None, filter_props: Any = None,
    ) -> list[dict[str, Any]]:  # fmt: skip
        """Both searches, fused by reciprocal rank; a half that fails or finds nothing is left out."""
        from tercet.retrieve.fusion import Half, fuse_grafito

        if not isinstance(query, str) or not query.strip():
            raise DatabaseError(f"query: expected a text that isn't blank, got {query!r}")
        k = self.default_top_k if k is None else k
        if k <= 0:
            raise DatabaseError(f"k: expected at least 1, got {k!r}")
        depths = [4 * k if depth is None else depth for depth in (vector_k, text_k)]
        try:
            near = self.semantic_search(query, depths[0], index, labels, filter_props)
        except DatabaseError:
            near = []
        try:
            with _refusals():
                words = self._fts.search_words(query, depths[1], labels)
        except DatabaseError:
            words = []
        text = [h for h in self._entities(words) if h["entity_type"] == "node"]
        halves = [[(h["node"], h["score"]) for h in near], [(h["entity"], h["score"]) for h in text]]
        parts = [
            Half(torch.tensor([0, len(x)]), torch.tensor([n.row for n, _ in x], dtype=torch.int32),
                 torch.tensor([s for _, s in x], dtype=torch.float64))
            for x in halves
        ]  # fmt: skip
        if all(halves) and any(rrf_k + rank == 0 for x in halves for rank in range(1, len(x) + 1)):
            raise ZeroDivisionError(f"rrf_k: {rrf_k} divides by zero")
        fused = fuse_grafito(parts[0], parts[1], k, vector_weight=vector_weight, text_weight=text_weight, rrf_k=rrf_k)
        by_row = {n.row: n for x in halves for n, _ in x}
        pairs = zip(fused.node.tolist(), fused.score.tolist(), strict=True)
        return [{"node": by_row[row], "score": score} for row, score in pairs]

    def hybrid_subgraph(
        self, query: Any, k: int | None = None, *, index: str = "default", search_labels: Any = None,
        expand: int = 1, direction: str = "both", rel_types: Any = None, exclude_rel_types: Any = None,
        labels: Any = None, max_nodes: int | None = None, include_edges: bool = True, **others: Any,
    ) -> Subgraph:  # fmt: skip
        """The subgraph around the nodes that a hybrid search finds."""
        hits = self.hybrid_search(query, k, index=index, labels=search_labels, **others)
        return self.subgraph(
            hits, expand=expand, direction=direction, rel_types=rel_types, exclude_rel_types=exclude_rel_types,
            labels=labels, max_nodes=max_nodes, include_edges=include_edges,
        )  # fmt: skip

    def semantic_subgraph(
        self, query: Any, k: int | None = None, index: str = "default", *, expand: int = 1, direction: str = "both",
        rel_types: Any = None, exclude_rel_types: Any = None, labels: Any = None, max_nodes: int | None = None,
        include_edges: bool = True, filter_labels: Any = None, filter_props: Any = None, **others: Any,
    ) -> Subgraph:  # fmt: skip
        """The subgraph around the nodes nearest to a query."""
        hits = self.semantic_search(query, k, index, filter_labels, filter_props, **others)
        return self.subgraph(
            hits, expand=expand, direction=direction, rel_types=rel_types, exclude_rel_types=exclude_rel_types,
            labels=labels, max_nodes=max_nodes, include_edges=include_edges,
        )  # fmt: skip

    def subgraph(
        self, seeds: Iterable[Any], *, expand: int = 0, direction: str = "both", rel_types: Any = None,
        exclude_rel_types: Any = None, labels: Any = None, max_nodes: int | None = None, include_edges: bool = True,
    ) -> Subgraph:  # fmt: skip
        """The subgraph around seeds: ids, nodes or hits, in their order; unknown ids are skipped."""
        growth = {
            "expand": expand, "direction": direction, "rel_types": _listed(rel_types),
            "exclude_rel_types": _listed(exclude_rel_types), "labels": _listed(labels), "max_nodes": max_nodes,
            "include_edges": include_edges,
        }  # fmt: skip
        with _refusals():
            self.engine._growth(**growth)
        held = self._seeds(seeds)
        given = [{"node": str(i), "score": score} for i, (_, score) in held.items()]
        with _refusals():
            got = self.engine.subgraph(given, **growth)[0]
        out = _numbered_subgraph(got)
        by_id = {node.id: node for node in out.nodes}
        out.seeds = [
            {"node": node or by_id[i], "score": score}  # type: ignore[index]
            for i, (node, score) in held.items() if node is not None or i in by_id  # type: ignore[comparison-overlap]
        ]  # fmt: skip
        out.scores = {h["node"].id: float(h["score"]) for h in out.seeds if h["score"] is not None}
        return out

    def _seeds(self, seeds: Iterable[Any]) -> dict[int, tuple[Node | None, Any]]:
        """Id to (the object, when it came as one, and score); the first of several entries counts."""
        out: dict[int, tuple[Node | None, Any]] = {}
        for given in seeds:
            seed, score = given, None
            if isinstance(given, Mapping):
                score = given.get("score")
                seed = given["node"] if "node" in given else given.get("entity")
                if seed is None:
                    raise TypeError("seeds: expected a hit with a node")
            node = seed if isinstance(seed, Node) else None
            out.setdefault(int(getattr(seed, "id", seed)), (node, score))
        return out

    def path_context(
        self, waypoints: Any, *, index: str = "default", k: int = 3, max_hops: int = 3, direction: str = "both",
        rel_types: Any = None, exclude_rel_types: Any = None, max_paths: int = 20, expand: int = 0,
        include_edges: bool = True,
    ) -> Subgraph:  # fmt: skip
        """The routes between the nodes nearest to consecutive waypoints."""
        if not isinstance(waypoints, (list, tuple)) or len(waypoints) < 2:
            raise DatabaseError(f"waypoints: expected a list or tuple of at least 2, got {waypoints!r:.80}")
        for name, value in (("k", k), ("max_hops", max_hops), ("max_paths", max_paths)):
            if value <= 0:
                raise DatabaseError(f"{name}: expected at least 1, got {value!r}")
        located = [self.semantic_search(w, k, index) for w in waypoints]
        types = _listed(rel_types), _listed(exclude_rel_types)
        if direction not in ("both", "out", "in") or set(types[0] or ()) & set(types[1] or ()):
            return Subgraph()
        try:
            found = self._routes(located, max_hops, direction, types, max_paths, max(expand, 0), include_edges)
        except InvalidArgument as error:
            raise DatabaseError(str(error)) from error
        if expand < 0 and not found.is_empty():
            raise DatabaseError(f"expand: expected at least 0, got {expand}")
        return found

    def _routes(
        self, located: list[list[dict[str, Any]]], max_hops: int, direction: str, types: tuple[Any, Any],
        max_paths: int, expand: int, include_edges: bool,
    ) -> Subgraph:  # fmt: skip
        from tercet.retrieve.paths import paths_between
        from tercet.retrieve.waypoints import Waypoints, given_candidates

        growth = self.engine._growth(
            expand=expand, direction=direction, rel_types=types[0], exclude_rel_types=types[1],
            include_edges=include_edges,
        )  # fmt: skip
        candidates = given_candidates([[(h["node"].row, h["score"]) for h in hits] for hits in located])
        places = Waypoints(torch.tensor([0, len(located)]), candidates, [None], {}, True)
        got = paths_between(self.engine, places, growth, max_hops=max_hops, max_paths=max_paths, joined=False)[0]
        out = _numbered_subgraph(got)
        out.paths = [[int(i) for i in path] for path in got.paths]
        return out

    def match_nodes(self, labels: Any = None, properties: Any = None) -> list[Node]:
        """The nodes that have the labels and properties, by id."""
        with _refusals():
            mask = match_nodes(self.engine.graph, labels, properties, mode="grafito")
        return self._nodes(np.flatnonzero(mask))

    def centrality(
        self, kind: str = "pagerank", *, weight_property: str | None = None, limit: int | None = None,
        graph: Any = None, **options: Any,
    ) -> list[dict[str, Any]]:  # fmt: skip
        """Nodes by centrality in a networkx graph, such as `Subgraph.to_networkx()`, or in the whole database."""
        from tercet.analyse import centrality
        from tercet.errors import NotConverged

        graph = self._whole() if graph is None else graph
        try:
            with _refusals():
                found = centrality(graph, kind, weight=weight_property, limit=limit, compatible=True, **options)
        except NotConverged as error:
            raise DatabaseError(str(error)) from error
        nodes = {n.id: n for n in self._nodes(self.engine.graph.rows([str(i) for i, _ in found]))}
        return [{"node": nodes[i], "score": score} for i, score in found]

    def communities(self, algorithm: str = "louvain", *, graph: Any = None, text_property: str = "text",
                    **options: Any) -> list[Any]:  # fmt: skip
        """The communities of a networkx graph, or of the whole database; see `tercet.analyse.communities`."""
        from tercet.analyse import communities

        graph = self._whole() if graph is None else graph
        texts = {n: d.get("properties", {}).get(text_property) for n, d in graph.nodes(data=True)}
        with _refusals():
            return communities(graph, algorithm, text=texts, **options)

    def _whole(self) -> Any:
        return self.subgraph([int(i) for i in self.engine.graph.ids.to_pylist()]).to_networkx()

    @property
    def _fts(self) -> FtsIndex:
        assert isinstance(self.engine.lexical, FtsIndex)
        return self.engine.lexical

    def _nodes(self, rows: Any) -> list[Node]:
        from tercet.node import nodes_of

        return [_numbered(n) for n in nodes_of(self.engine.graph, rows)]

    def _entities(self, found: Sequence[Any]) -> list[dict[str, Any]]:
        """Text hits with their nodes and relationships."""
        from tercet.node import relationships_of

        nodes = iter(self._nodes(np.array([h.entity for h in found if h.kind == "node"], np.int64)))
        rows = np.array([h.entity for h in found if h.kind != "node"], np.int64)
        edges = iter([_numbered_edge(r) for r in relationships_of(self.engine.graph, rows)])
        return [
            {"entity_type": h.kind, "entity": next(nodes if h.kind == "node" else edges), "score": h.score}
            for h in found
        ]  # fmt: skip


def graph_of(nodes: Sequence[Mapping[str, Any]], relationships: Sequence[Mapping[str, Any]]) -> Graph:
    """The graph of Grafito's records, rows in the order of the integer ids; properties stay JSON."""
    return Graph.from_tables(
        {
            "id": pa.array([n["id"] for n in nodes], pa.int64()),
            "labels": pa.array([list(n["labels"]) for n in nodes], pa.list_(pa.string())),
            "properties": pa.array([_json(n["properties"]) for n in nodes], pa.string()),
            "uri": pa.array([n.get("uri") for n in nodes], pa.string()),
        },
        {
            "id": pa.array([r["id"] for r in relationships], pa.int64()),
            "source": pa.array([r["source"] for r in relationships], pa.int64()),
            "target": pa.array([r["target"] for r in relationships], pa.int64()),
            "relation": pa.array([r["type"] for r in relationships], pa.string()),
            "properties": pa.array([_json(r["properties"]) for r in relationships], pa.string()),
            "uri": pa.array([r.get("uri") for r in relationships], pa.string()),
        },
        order="input", duplicates="keep",
    )  # fmt: skip


def text_rows(
    graph: Graph,
    nodes: Sequence[Mapping[str, Any]],
    relationships: Sequence[Mapping[str, Any]],
    text_index: Sequence[Mapping[str, Any]],
    written_again: Sequence[int] = (),
    known: Mapping[tuple[str, int], int] | None = None,
) -> FtsIndex:
    """Grafito's text table over rows of the graph: one row a (node, label) pair and one a relationship.

    The content is the configured properties of the entity as SQLite writes them, joined by blanks; a configuration is
    for one label or type, or for all of them.

    Args:
        nodes, relationships: in the order of the graph's rows.
        text_index: `entity`, `label_or_type`, `properties` of each configuration, in order.
        written_again: ids of nodes whose rows were written anew after all others, in that order.
        known: by ("node" or "relationship", id): how many configurations there were when its rows were last written;
            all of them where it isn't named.
    """
    wanted: list[tuple[str, str | None, str, int]] = []
    for n, t in enumerate(text_index):
        for name in t["properties"]:
            if (t["entity"], t["label_or_type"], name) not in {w[:3] for w in wanted}:
                wanted.append((t["entity"], t["label_or_type"], name, n))
    reader = sqlite3.connect(":memory:")

    def content(kind: str, entity: int, label: str, properties: str) -> str:
        most = len(text_index) if known is None else known.get((kind, entity), len(text_index))
        names = [prop for of, only, prop, at in wanted if of == kind and only in (None, label) and at < most]
        ask = "SELECT CAST(json_extract(?, '$.' || ?) AS TEXT)"
        values = [reader.execute(ask, (properties, name)).fetchone()[0] for name in names]
        return " ".join(v for v in values if v is not None)

    again = {i: place for place, i in enumerate(written_again)}
    rows = []
    for row, node in sorted(enumerate(nodes), key=lambda x: (again.get(x[1]["id"], -1), x[0])):
        held = _json(node["properties"])
        rows += [("node", row, label, content("node", node["id"], label, held)) for label in node["labels"]]
    for row, r in enumerate(relationships):
        held = _json(r["properties"])
        rows.append(("relationship", row, r["type"], content("relationship", r["id"], r["type"], held)))
    reader.close()
    columns = [list(c) for c in zip(*rows, strict=True)] or [[], [], [], []]
    return FtsIndex.build(*columns)  # type: ignore[arg-type]


def _json(value: Any) -> str:
    """JSON as Grafito stores it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _collection(name: str, given: Mapping[str, Any]) -> Collection:
    backend, metric = given["backend"], given.get("metric", "cosine")
    if (backend, metric) not in METRICS:
        raise ValueError(f"index {name!r}: expected one of {sorted(METRICS)}, got {(backend, metric)}")
    rows = torch.as_tensor(np.asarray(given["vectors"], np.float32))
    index = RawIndex.build(rows, METRICS[backend, metric])
    owner = pa.array([str(i) for i in given["ids"]], pa.large_string())
    return Collection(name, "node", index, owner, np.zeros(0, np.int64))


def _grown(growth: Mapping[str, Any]) -> dict[str, Any]:
    return {"expand": 1, **growth}


def _listed(names: Any) -> Any:
    """A plain string counts as its characters."""
    return list(names) if isinstance(names, (str, tuple, set)) else names


def _numbered(node: Node) -> Node:
    return replace(node, id=int(node.id))  # type: ignore[arg-type]


def _numbered_edge(r: Relationship) -> Relationship:
    return replace(r, id=int(r.id), source_id=int(r.source_id), target_id=int(r.target_id))  # type: ignore[arg-type]


def _numbered_subgraph(got: Selected) -> Subgraph:
    nodes = [_numbered(n) for n in got.nodes]
    return Subgraph(
        nodes, [_numbered_edge(r) for r in got.relationships],
        [{"node": _numbered(h["node"]), "score": h["score"]} for h in got.seeds],
        {int(i): s for i, s in got.scores.items()}, {int(i): h for i, h in got.hops.items()},
    )  # fmt: skip


__all__ = ["Database", "DatabaseError", "GrafitoError", "InvalidFilterError", "LabelFilter", "Subgraph", "graph_of"]
