"""Subgraphs: how the hits of each query connect, with where every node comes from."""

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple, overload

import numpy as np
import pyarrow as pa

from tercet.graph import Graph
from tercet.node import Node, Relationship, nodes_of, relationships_of
from tercet.ranking import Status
from tercet.retrieve.packing import pack
from tercet.retrieve.pairs import Pairs, reports
from tercet.tokens import Counter

BLOCK = 64  # queries whose nodes are looked up together


class Tables(NamedTuple):
    """A subgraph, or a batch of them, as Arrow tables; the first column of both is the query."""

    nodes: pa.Table  # query, id, row, hops, score, seed
    relationships: pa.Table  # query, id, row, source, relation, target


@dataclass(frozen=True, eq=False)
class Subgraphs(Sequence["Subgraph"]):
    """The answers to a batch: one `Subgraph` a query, in order. Flat arrays until objects are asked for.

    A batch of one query lends the attributes of its subgraph: `result.nodes` is `result[0].nodes`.
    """

    graph: Graph
    text: list[str | None]  # (B,) what was asked
    indptr: np.ndarray  # (B + 1,) int64
    node: np.ndarray  # (T,) int32 node rows: seeds in order, then added nodes
    hop: np.ndarray  # (T,) int32 distance from the nearest seed
    edge_indptr: np.ndarray  # (B + 1,) int64
    edge: np.ndarray  # (M,) int32 edge rows
    seed_indptr: np.ndarray  # (B + 1,) int64
    seed: np.ndarray  # (S,) int32 node rows
    seed_score: np.ndarray  # (S,) float64, NaN for none
    available: np.ndarray  # (B,) int64
    truncated: np.ndarray  # (B,) bool
    state: np.ndarray  # (B,) int8 `Status`
    _: KW_ONLY
    errors: dict[int, str] = field(default_factory=dict)
    missing: tuple[dict[str, str], ...] | None = None  # (B,) halves of a hybrid search that gave nothing, and why
    route_indptr: np.ndarray | None = None  # (B + 1,) int64
    route_offsets: np.ndarray | None = None  # (R + 1,) int64
    route_node: np.ndarray | None = None
    pair_table: Pairs | None = None
    timings: dict[str, float] = field(default_factory=dict)  # seconds by stage
    version: int = 0  # of the engine, which the answers are from
    _nodes: dict[int, Node] = field(default_factory=dict, repr=False)
    _relationships: dict[int, Relationship] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        return len(self.text)

    @overload
    def __getitem__(self, index: int) -> "Subgraph": ...
    @overload
    def __getitem__(self, index: slice) -> list["Subgraph"]: ...
    def __getitem__(self, index: int | slice) -> "Subgraph | list[Subgraph]":
        if isinstance(index, slice):
            return [Subgraph(self, i) for i in range(*index.indices(len(self)))]
        at = index + len(self) if index < 0 else index
        if not 0 <= at < len(self):
            raise IndexError(f"query {index} of {len(self)}")
        return Subgraph(self, at)

    def __iter__(self) -> Iterator["Subgraph"]:
        return (Subgraph(self, i) for i in range(len(self)))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or not hasattr(Subgraph, name):
            raise AttributeError(f"Subgraphs has no attribute {name!r}")
        if len(self) != 1:
            raise AttributeError(f"{name}: this result holds {len(self)} subgraphs; take one of them: result[i].{name}")
        return getattr(self[0], name)

    @property
    def status(self) -> list[str]:
        """(B,) names of `Status`."""
        return [Status(int(s)).name for s in self.state]

    def contexts(self, max_tokens: int | None = None, count_tokens: Counter | None = None) -> list[str]:
        """The context text of every query; see `Subgraph.context`."""
        return pack(self.graph, (self.indptr, self.node), (self.edge_indptr, self.edge), max_tokens, count_tokens)

    def to_arrow(self) -> Tables:
        """All nodes and all relationships, a row each."""
        query = np.repeat(np.arange(len(self), dtype=np.int32), np.diff(self.indptr))
        edge_query = np.repeat(np.arange(len(self), dtype=np.int32), np.diff(self.edge_indptr))
        score, is_seed = self._seeds_by_node(query)
        ids, at = self.graph.ids, pa.array(self.edge)
        nodes = pa.table({
            "query": query, "id": ids.take(pa.array(self.node)), "row": self.node, "hops": self.hop,
            "score": pa.array(score, mask=np.isnan(score)), "seed": is_seed,
        })  # fmt: skip
        ends = [x.cpu().numpy()[self.edge] for x in (self.graph.source, self.graph.target)]
        relationships = pa.table({
            "query": edge_query, "id": self.graph.edges.column("id").combine_chunks().take(at), "row": self.edge,
            "source": ids.take(pa.array(ends[0])), "relation": self.graph.relation_column.take(at).cast("large_string"),
            "target": ids.take(pa.array(ends[1])),
        })  # fmt: skip
        return Tables(nodes, relationships)

    def _seeds_by_node(self, query: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(T,) the seed score of every selected node, NaN for none, and whether it is a seed."""
        span = max(self.graph.num_nodes, 1)
        seed_query = np.repeat(np.arange(len(self)), np.diff(self.seed_indptr))
        keys, first = np.unique(seed_query * span + self.seed, return_index=True)
        wanted = query.astype(np.int64) * span + self.node
        if not len(keys):
            return np.full(len(wanted), np.nan), np.zeros(len(wanted), bool)
        at = np.searchsorted(keys, wanted).clip(max=len(keys) - 1)
        is_seed = keys[at] == wanted
        return np.where(is_seed, self.seed_score[first[at]], np.nan), is_seed

    def _objects(self, place: int, kind: str) -> list[Any]:
        """Node or relationship objects of one query; those of its neighbours in the batch are made with them."""
        held: dict[int, Any] = self._nodes if kind == "node" else self._relationships
        indptr, rows = (self.indptr, self.node) if kind == "node" else (self.edge_indptr, self.edge)
        mine = rows[indptr[place] : indptr[place + 1]].tolist()
        if not held.keys() >= set(mine):
            low = place // BLOCK * BLOCK
            block = np.unique(rows[indptr[low] : indptr[min(low + BLOCK, len(self))]])
            fresh = np.array([row for row in block.tolist() if row not in held], np.int64)
            made = (nodes_of if kind == "node" else relationships_of)(self.graph, fresh)
            held.update(zip(fresh.tolist(), made, strict=True))
        return [held[row] for row in mine]

    def __repr__(self) -> str:
        return f"Subgraphs({len(self)} queries, {len(self.node)} nodes, {len(self.edge)} relationships)"


@dataclass(frozen=True, eq=False)
class Subgraph:
    """Nodes and relationships selected for one query, and where they come from.

    Every node either is a seed (`hops` 0, with a score when the search gave one) or was reached by expansion.
    """

    batch: Subgraphs
    place: int

    @property
    def query(self) -> str | None:
        """What was asked."""
        return self.batch.text[self.place]

    @property
    def status(self) -> str:
        """The name of a `Status`."""
        return Status(int(self.batch.state[self.place])).name

    @property
    def error(self) -> str | None:
        """What is wrong with the query, when its status is `failed`."""
        return self.batch.errors.get(self.place)

    @property
    def version(self) -> int:
        """Of the engine, which the answer is from."""
        return self.batch.version

    @property
    def missing(self) -> dict[str, str]:
        """Halves of a hybrid search ("vector", "text") that gave nothing, and why."""
        return {} if self.batch.missing is None else dict(self.batch.missing[self.place])

    @property
    def truncated(self) -> bool:
        """Whether `max_nodes` left nodes out."""
        return bool(self.batch.truncated[self.place])

    @property
    def taken(self) -> int:
        """How many nodes were selected."""
        return len(self)

    @property
    def available(self) -> int:
        """How many nodes were seen: the selected ones, and those of the level that `max_nodes` cut."""
        return int(self.batch.available[self.place])

    @property
    def node_rows(self) -> np.ndarray:
        """(n,) int32 rows of the graph's nodes: seeds in order, then added nodes in the order they were taken."""
        return self._slice(self.batch.indptr, self.batch.node)

    @property
    def edge_rows(self) -> np.ndarray:
        """(m,) int32 ascending rows of the graph's edges."""
        return self._slice(self.batch.edge_indptr, self.batch.edge)

    @property
    def nodes(self) -> list[Node]:
        """The selected nodes, in the order of `node_rows`."""
        return self.batch._objects(self.place, "node")

    @property
    def relationships(self) -> list[Relationship]:
        """All relationships among the nodes, in the order of `edge_rows`."""
        return self.batch._objects(self.place, "relationship")

    @property
    def seeds(self) -> list[dict[str, Any]]:
        """`{"node": Node, "score": float or None}` for each seed, in order."""
        rows, scores = self._slice(self.batch.seed_indptr, self.batch.seed), self._seed_scores()
        self.batch._objects(self.place, "node")  # seeds are among the nodes: made with them
        held = self.batch._nodes
        lost = [row for row in rows.tolist() if row not in held]
        held.update(zip(lost, nodes_of(self.batch.graph, np.array(lost, np.int64)), strict=True))
        return [{"node": held[row], "score": score} for row, score in zip(rows.tolist(), scores, strict=True)]

    @property
    def scores(self) -> dict[str, float]:
        """Node id to retrieval score, of the seeds that have one."""
        ids = self._ids(self._slice(self.batch.seed_indptr, self.batch.seed))
        return {i: s for i, s in zip(ids, self._seed_scores(), strict=True) if s is not None}

    @property
    def hops(self) -> dict[str, int]:
        """Node id to distance from the nearest seed; of routes: to the smallest position on one."""
        return dict(zip(self.node_ids(), self._slice(self.batch.indptr, self.batch.hop).tolist(), strict=True))

    @cached_property
    def paths(self) -> list[list[str]]:
        """The routes of `path_context`, as node ids; empty for other verbs."""
        b = self.batch
        if b.route_indptr is None or b.route_offsets is None or b.route_node is None:
            return []
        low, high = b.route_indptr[self.place], b.route_indptr[self.place + 1]
        bounds = b.route_offsets[low : high + 1]
        ids = self._ids(b.route_node[bounds[0] : bounds[-1]])
        return [ids[i - bounds[0] : j - bounds[0]] for i, j in pairwise(bounds)]

    @property
    def pairs(self) -> list[dict[str, Any]]:
        """What became of each pair of candidates of `path_context`.

        Returns:
            `segment`, `start`, `end` (node ids or None), `status` ("ok", "no_route", "same_node" or "no_hits"), `hops`
            (None without a route), `routes` and `truncated`.
        """
        table = self.batch.pair_table
        return [] if table is None else reports(table, self.place, self._ids)

    def node_ids(self) -> list[str]:
        """Ids of the nodes, in order."""
        return self._ids(self.node_rows)

    def seed_ids(self) -> list[str]:
        """Ids of the seeds, in order."""
        return self._ids(self._slice(self.batch.seed_indptr, self.batch.seed))

    def is_empty(self) -> bool:
        """Whether there is no node."""
        return len(self) == 0

    def __len__(self) -> int:
        return int(self.batch.indptr[self.place + 1] - self.batch.indptr[self.place])

    def context(self, max_tokens: int | None = None, count_tokens: Counter | None = None) -> str:
        """The text for a language model, in the form of `Recall`'s.

        Nodes come in the order of the subgraph; a connection comes with the later one of its ends.

        Args:
            max_tokens: the longest prefix of the nodes, with the relationships among them, that fits.
            count_tokens: counts the tokens of each of some texts; None counts words and signs.
        """
        nodes, edges = self.node_rows, self.edge_rows
        bounds = [np.array([0, len(x)]) for x in (nodes, edges)]
        return pack(self.batch.graph, (bounds[0], nodes), (bounds[1], edges), max_tokens, count_tokens)[0]

    def to_networkx(self, directed: bool = True) -> Any:
        """A networkx MultiDiGraph, or MultiGraph.

        Nodes by id with `labels`, `properties`, `uri`, `score`, `hops`, `title` and `text`; edges with their id as key
        and `id`, `type`, `properties`, `uri`, in ascending edge row.
        """
        from tercet.retrieve.exchange import to_networkx

        return to_networkx(self, directed)

    def to_arrow(self) -> Tables:
        """The nodes and the relationships as tables."""
        return self._alone().to_arrow()

    def to_pyg(self, vectors: Any = None) -> Any:
        """A PyTorch Geometric `HeteroData`: node types are first labels, edge types (source, relation, target type).

        Args:
            vectors: (N, D) rows of features by node row, such as `collection_vectors`; None leaves `x` out.

        Raises:
            MissingDependency: torch_geometric isn't installed.
        """
        from tercet.retrieve.exchange import to_pyg

        return to_pyg(self, vectors)

    def _alone(self) -> Subgraphs:
        """This subgraph as a batch of its own, without its routes."""
        b, i = self.batch, self.place
        one = slice(i, i + 1)
        columns = ((b.indptr, b.node), (b.indptr, b.hop), (b.edge_indptr, b.edge), (b.seed_indptr, b.seed),
                   (b.seed_indptr, b.seed_score))  # fmt: skip
        node, hops, edge, seed, score = (self._slice(*c) for c in columns)
        bounds = [np.array([0, len(x)]) for x in (node, edge, seed)]
        return Subgraphs(b.graph, [b.text[i]], bounds[0], node, hops, bounds[1], edge, bounds[2], seed, score,
                         b.available[one], b.truncated[one], b.state[one])  # fmt: skip

    def _slice(self, indptr: np.ndarray, column: np.ndarray) -> np.ndarray:
        return column[indptr[self.place] : indptr[self.place + 1]]

    def _ids(self, rows: np.ndarray) -> list[Any]:
        return self.batch.graph.ids.take(pa.array(rows, mask=rows < 0)).to_pylist()

    def _seed_scores(self) -> list[float | None]:
        scores = self._slice(self.batch.seed_indptr, self.batch.seed_score)
        return [None if np.isnan(s) else s for s in scores.tolist()]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Subgraph):
            return NotImplemented
        return all(getattr(self, f) == getattr(other, f) for f in ("nodes", "relationships", "seeds", "hops", "paths"))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return (f"Subgraph({self.query!r}, {self.status}, {len(self)} nodes, {len(self.edge_rows)} relationships, "
                f"{len(self.seed_ids())} seeds)")  # fmt: skip
