"""The verbs of an engine that answer with nodes and subgraphs."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch

from tercet.arguments import per_query, whole
from tercet.candidates import Bound, rescore
from tercet.clock import Clock
from tercet.errors import InvalidArgument
from tercet.filters import Filters, node_masks
from tercet.index.raw import RawIndex
from tercet.matching import filter_masks
from tercet.query import ZERO, QueryBatch, embed
from tercet.retrieve import halves
from tercet.retrieve.expansion import Nearness
from tercet.retrieve.filtering import both
from tercet.retrieve.fts import FtsIndex
from tercet.retrieve.growth import Growth, Rank, grow, read_growth, seed_state
from tercet.retrieve.hits import SearchResults
from tercet.retrieve.nearest import Retrieved, nearest_nodes
from tercet.retrieve.ragged import Ragged
from tercet.retrieve.seeds import read_seeds
from tercet.retrieve.subgraph import Subgraphs
from tercet.retrieve.words import text_nodes, text_side
from tercet_kernels.neighbors import Direction

if TYPE_CHECKING:
    from tercet.collection import Collection
    from tercet.encoder import Encoder
    from tercet.graph import Graph
    from tercet.rules import Rules
    from tercet_kernels._types import Topology

DEPTH = 4  # candidates of each half of a hybrid search, by result


class Verbs:
    """Searches and subgraphs; the base of `Engine`, which holds what they use.

    Arguments that several verbs share:

    Args:
        queries: one text or a list of texts. vectors: (D,) or (B, D); they take the texts' place, or go with them.
        k: results a query, one number or one for each query.
        collections: names of the node collections to search; None: all.
        filter_labels, filter_props: which nodes a search may find; labels are a list (all of them) or a `LabelFilter`,
            properties a dict or a `PropertyFilterGroup`; a list with one of these (or None) for each query. They hold
            before the cut at k, and in both halves of a hybrid search.
        filter: further filters, as in `recall`.
        expand: steps from the seeds.
        direction: which way edges are walked: "both", "out" (source to target) or "in".
        rel_types, exclude_rel_types: relation types that may be walked; not a filter on the relationships returned,
            unless `filter_edges`.
        labels: only nodes with one of these labels are entered; seeds are exempt.
        max_nodes: a budget that counts the seeds and never cuts them; what doesn't fit of a level is left out by rank.
        rank: the order of a level, and what a budget keeps: "similarity" to the query, "weight" of the best edge that
            leads there (the edge column `weight`), "id". None: the first of these that there is. Ties go to the
            smaller node row.
        include_edges: False leaves the relationships out.

    All of them return a sequence with one entry a query; a bad query has the status `failed` alone.

    Raises:
        InvalidArgument: the call itself is wrong; the message names the argument.
    """

    graph: "Graph"
    collections: "list[Collection]"
    rules: "Rules"
    device: torch.device
    encoder: "Encoder | None"
    lexical: Any

    if TYPE_CHECKING:

        @property
        def dimension(self) -> int: ...
        @property
        def bound(self) -> list[Bound]: ...
        @property
        def topology(self) -> Topology: ...

    def semantic_search(
        self,
        queries: str | Sequence[str] | None = None,
        k: int | Sequence[int] = 10,
        *,
        vectors: Any = None,
        collections: Sequence[str] | None = None,
        filter_labels: Any = None,
        filter_props: Any = None,
        filter: Any = None,
    ) -> SearchResults:
        """The k nearest nodes of each query, by cosine similarity; see `Verbs` for the arguments."""
        clock = Clock(self.device)
        batch, found = self._nearest(queries, vectors, k, collections, filter_labels, filter_props, filter, clock)
        return self._results(batch.text, batch.errors, found, clock)

    def text_search(
        self,
        queries: str | Sequence[str],
        k: int | Sequence[int] = 10,
        *,
        filter_labels: Any = None,
        filter_props: Any = None,
        filter: Any = None,
    ) -> SearchResults:
        """The k best nodes of each query by BM25 over the nodes' texts; any text is a legal query.

        A node is found when it holds a word of the query. See `Verbs` for the arguments, and `Engine` for `lexical`.
        """
        clock = Clock(self.device)
        texts, errors = _texts(queries)
        with clock.stage("text"):
            found = self._words(texts, errors, _counts("k", k, len(texts)), filter_labels, filter_props, filter)
        return self._results(list(texts), errors, found, clock)

    def hybrid_search(
        self,
        queries: str | Sequence[str],
        k: int | Sequence[int] = 10,
        *,
        vectors: Any = None,
        vector_k: int | None = None,
        text_k: int | None = None,
        vector_weight: float = 1.0,
        text_weight: float = 1.0,
        rrf_k: float = 60.0,
        collections: Sequence[str] | None = None,
        filter_labels: Any = None,
        filter_props: Any = None,
        filter: Any = None,
    ) -> SearchResults:
        """Vector and text search, fused by reciprocal rank.

        The score of a node is the sum of `weight / (rrf_k + rank)` over the halves that found it, ranks from 1
        (Cormack, Clarke and Buettcher 2009). A half that gives nothing is named in the result's `missing`, with the
        reason. See `Verbs` for the other arguments.

        Args:
            vector_k, text_k: candidates of each half; None: four times k.
            vector_weight, text_weight: at least 0, not both 0.
            rrf_k: at least 0; the larger, the less the first ranks stand out.
        """
        clock = Clock(self.device)
        given = (vectors, vector_k, text_k, vector_weight, text_weight, rrf_k, collections)
        return self._hybrid(queries, k, given, filter_labels, filter_props, filter, clock)[1]

    def subgraph(
        self,
        seeds: Any,
        *,
        expand: int = 0,
        direction: Direction = "both",
        rel_types: Sequence[str] | None = None,
        exclude_rel_types: Sequence[str] | None = None,
        labels: Sequence[str] | None = None,
        max_nodes: int | None = None,
        include_edges: bool = True,
        filter_edges: bool | None = None,
        rank: Rank | None = None,
    ) -> Subgraphs:
        """The subgraph around seeds of your own; see `Verbs` for the arguments.

        Args:
            seeds: node ids, nodes or hits (`{"node": ..., "score": ...}`), mixed; a list of such lists for a batch;
                what a search verb returned; or a torch tensor of node rows, (S,) or (B, S) with -1 as padding. Their
                order is kept, and of a repeated node the first entry.

        Raises:
            UnknownId: one list of seeds names a node that the graph doesn't have; in a batch that query fails alone.
        """
        clock = Clock(self.device)
        growth = self._growth(expand=expand, direction=direction, rel_types=rel_types,
                              exclude_rel_types=exclude_rel_types, labels=labels, max_nodes=max_nodes,
                              include_edges=include_edges, filter_edges=filter_edges, rank=rank)  # fmt: skip
        read = read_seeds(self.graph, seeds, unknown=self.rules.unknown_seeds)
        return grow(self.graph, self.topology, growth, read.hits, text=read.text, errors=read.errors,
                    state=seed_state(read.hits, read.errors), nearness=None, clock=clock)  # fmt: skip

    def semantic_subgraph(
        self,
        queries: str | Sequence[str] | None = None,
        k: int | Sequence[int] = 10,
        *,
        vectors: Any = None,
        expand: int = 1,
        direction: Direction = "both",
        rel_types: Sequence[str] | None = None,
        exclude_rel_types: Sequence[str] | None = None,
        labels: Sequence[str] | None = None,
        max_nodes: int | None = None,
        include_edges: bool = True,
        filter_edges: bool | None = None,
        rank: Rank | None = None,
        collections: Sequence[str] | None = None,
        filter_labels: Any = None,
        filter_props: Any = None,
        filter: Any = None,
    ) -> Subgraphs:
        """How the k nearest nodes of each query connect, and what lies around them; see `Verbs` for the arguments."""
        clock = Clock(self.device)
        growth = self._growth(expand=expand, direction=direction, rel_types=rel_types,
                              exclude_rel_types=exclude_rel_types, labels=labels, max_nodes=max_nodes,
                              include_edges=include_edges, filter_edges=filter_edges, rank=rank)  # fmt: skip
        batch, found = self._nearest(queries, vectors, k, collections, filter_labels, filter_props, filter, clock)
        return self._grown(growth, batch, batch.text, found, self._searched_nodes(collections), clock)

    def text_subgraph(
        self,
        queries: str | Sequence[str],
        k: int | Sequence[int] = 10,
        *,
        expand: int = 1,
        direction: Direction = "both",
        rel_types: Sequence[str] | None = None,
        exclude_rel_types: Sequence[str] | None = None,
        labels: Sequence[str] | None = None,
        max_nodes: int | None = None,
        include_edges: bool = True,
        filter_edges: bool | None = None,
        rank: Rank | None = None,
        filter_labels: Any = None,
        filter_props: Any = None,
        filter: Any = None,
    ) -> Subgraphs:
        """How the k best nodes of each query by BM25 connect; see `text_search` and `Verbs`."""
        clock = Clock(self.device)
        growth = self._growth(expand=expand, direction=direction, rel_types=rel_types,
                              exclude_rel_types=exclude_rel_types, labels=labels, max_nodes=max_nodes,
                              include_edges=include_edges, filter_edges=filter_edges, rank=rank)  # fmt: skip
        texts, errors = _texts(queries)
        with clock.stage("text"):
            found = self._words(texts, errors, _counts("k", k, len(texts)), filter_labels, filter_props, filter)
        return self._grown(growth, None, list(texts), found, [], clock, errors)

    def hybrid_subgraph(
        self,
        queries: str | Sequence[str],
        k: int | Sequence[int] = 10,
        *,
        vectors: Any = None,
        expand: int = 1,
        direction: Direction = "both",
        rel_types: Sequence[str] | None = None,
        exclude_rel_types: Sequence[str] | None = None,
        labels: Sequence[str] | None = None,
        max_nodes: int | None = None,
        include_edges: bool = True,
        filter_edges: bool | None = None,
        rank: Rank | None = None,
        vector_k: int | None = None,
        text_k: int | None = None,
        vector_weight: float = 1.0,
        text_weight: float = 1.0,
        rrf_k: float = 60.0,
        collections: Sequence[str] | None = None,
        filter_labels: Any = None,
        filter_props: Any = None,
        filter: Any = None,
    ) -> Subgraphs:
        """How the k best nodes of each query by vector and text connect; see `hybrid_search` and `Verbs`."""
        clock = Clock(self.device)
        growth = self._growth(expand=expand, direction=direction, rel_types=rel_types,
                              exclude_rel_types=exclude_rel_types, labels=labels, max_nodes=max_nodes,
                              include_edges=include_edges, filter_edges=filter_edges, rank=rank)  # fmt: skip
        given = (vectors, vector_k, text_k, vector_weight, text_weight, rrf_k, collections)
        batch, hits = self._hybrid(queries, k, given, filter_labels, filter_props, filter, clock)
        bound = self._searched_nodes(collections)
        ragged = Ragged(*(torch.from_numpy(x) for x in (hits.indptr, hits.node, hits.score)))
        return grow(self.graph, self.topology, growth, ragged, text=hits.text, state=torch.from_numpy(hits.state),
                    errors=hits.errors, nearness=self._nearness(batch, bound), clock=clock,
                    missing=hits.missing)  # fmt: skip

    def path_context(
        self,
        waypoints: Any,
        k: int = 3,
        max_hops: int = 3,
        *,
        direction: Direction = "both",
        rel_types: Sequence[str] | None = None,
        exclude_rel_types: Sequence[str] | None = None,
        max_paths: int = 20,
        expand: int = 0,
        include_edges: bool = True,
        filter_edges: bool | None = None,
        joined: bool = False,
        collections: Sequence[str] | None = None,
        filter_labels: Any = None,
        filter_props: Any = None,
        filter: Any = None,
    ) -> Subgraphs:
        """How concepts connect: shortest routes between consecutive waypoints, and the nodes on them.

        Each waypoint is located by its k nearest nodes; routes run from each of them to each of the next waypoint's.

        Args:
            waypoints: a list of at least two texts, vectors, or nodes (`Node` or `{"node": id}`); a list of such lists
                for a batch.
            k: candidates a waypoint.
            max_hops: edges of a route between two waypoints at most.
            direction: which way edges are walked from one waypoint to the next.
            max_paths: routes a pair of candidates at most, all of the same, shortest length; with `joined`: chains an
                item at most.
            expand: steps around the nodes of the routes.
            joined: routes through all waypoints in turn, each segment beginning where the one before ended; the
                shortest chains first, ties to the better candidate of the last waypoint, then of the one before.

        Returns:
            subgraphs whose `paths` are the routes, whose `hops` are the smallest positions on one (for nodes around
            them: the distance, plus the largest position on a route), and whose `pairs` say what became of each pair.
            The status is `no_route` where no pair has a route.

        Raises:
            InvalidArgument: the call is wrong, or its one list of waypoints is; in a batch a bad item fails alone.
        """
        from tercet.retrieve.paths import find_paths

        growth = self._growth(expand=expand, direction=direction, rel_types=rel_types,
                              exclude_rel_types=exclude_rel_types, include_edges=include_edges,
                              filter_edges=filter_edges)  # fmt: skip
        return find_paths(self, waypoints, growth, k=k, max_hops=max_hops, max_paths=max_paths, joined=joined,
                          collections=collections, filters=(filter_labels, filter_props, filter))  # fmt: skip

    def _growth(self, **given: Any) -> Growth:
        return read_growth(self.graph, self.rules, **given)

    def _filters(self, queries: int, labels: Any, props: Any, filter: Any) -> Filters:
        mode: Literal["native", "grafito"] = self.rules.matcher
        return both(node_masks(self.graph, filter, queries), filter_masks(self.graph, queries, labels, props, mode))

    def _searched_nodes(self, names: Sequence[str] | None) -> list[Bound]:
        nodes = [b for b in self.bound if b.collection.kind == "node"]
        if names is None:
            return nodes
        if isinstance(names, str):
            raise InvalidArgument(f"collections: expected a list of names, got {names!r}")
        have = {b.collection.name: b for b in nodes}
        unknown = [n for n in names if n not in have]
        if unknown:
            raise InvalidArgument(
                f"collections: no node collection {', '.join(map(repr, unknown))}; there are {', '.join(have) or 'none'}"
            )
        return [have[n] for n in dict.fromkeys(names)]

    def _nearest(
        self,
        queries: Any,
        vectors: Any,
        k: Any,
        collections: Sequence[str] | None,
        labels: Any,
        props: Any,
        filter: Any,
        clock: Clock,
    ) -> tuple[QueryBatch, Retrieved]:
        bound = self._searched_nodes(collections)
        with clock.stage("embed"):
            batch = embed(queries, vectors, self.encoder, self.dimension, raise_blank=False)
        counts = _counts("k", k, len(batch))
        filters = self._filters(len(batch), labels, props, filter)
        if len(bound) == 1 and isinstance(bound[0].collection.index, RawIndex):  # its metrics know zero vectors
            batch = replace(batch, errors={i: e for i, e in batch.errors.items() if e != ZERO})
        with clock.stage("search"):
            return batch, nearest_nodes(bound, self.graph.num_nodes, batch, counts, filters, self.device)

    def _hybrid(
        self, queries: Any, k: Any, given: tuple[Any, ...], labels: Any, props: Any, filter: Any, clock: Clock
    ) -> tuple[QueryBatch | None, SearchResults]:
        vectors, vector_k, text_k, vector_weight, text_weight, rrf_k, collections = given
        texts, errors = _texts(queries)
        counts = _counts("k", k, len(texts))
        depths = []
        for name, depth in (("vector_k", vector_k), ("text_k", text_k)):
            if depth is not None:
                whole(name, depth, least=1)
            depths.append(DEPTH * counts if depth is None else torch.full_like(counts, int(depth)))
        bound = self._searched_nodes(collections)
        filters = self._filters(len(texts), labels, props, filter)
        batch, dense = None, None
        if self.encoder is not None or vectors is not None:
            with clock.stage("embed"):
                asked = texts if not errors else [t if i not in errors else "" for i, t in enumerate(texts)]
                batch = embed(asked if vectors is None else None, vectors, self.encoder, self.dimension,
                              raise_blank=False)  # fmt: skip
            if len(batch) != len(texts):
                raise InvalidArgument(f"vectors: expected one for each of {len(texts)} queries, got {len(batch)}")
            with clock.stage("search"):
                dense = nearest_nodes(bound, self.graph.num_nodes, batch, depths[0], filters, self.device)
        with clock.stage("text"):
            words = self._words(texts, errors, depths[1], labels, props, filter)
        with clock.stage("fuse"):
            fused = halves.fuse_halves(
                dense, words, counts, (vector_weight, text_weight), rrf_k, raw_alone=self.rules.fusion == "raw_alone",
                failed=errors,
            )  # fmt: skip
        host = [x.cpu().numpy() for x in (*fused.hits[:3], fused.available, fused.state)]
        out = SearchResults(
            self.graph, list(texts), *host, errors=errors, halves=("vector", "text"),
            ranks=fused.ranks.cpu().numpy(), missing=fused.missing, timings=clock.seconds,
        )  # fmt: skip
        return batch, out

    def _words(
        self, texts: list[str], errors: dict[int, str], k: torch.Tensor, labels: Any, props: Any, filter: Any
    ) -> Retrieved:
        """What the text side finds; Grafito's rules know no filter there but the labels of its rows."""
        side = text_side(self.graph, self.lexical)
        if isinstance(side, FtsIndex) and self.rules.matcher == "grafito":
            none = self._filters(len(texts), None, None, None)
            return text_nodes(side, texts, errors, k, none, as_rows=True, labels=labels or None)
        return text_nodes(side, texts, errors, k, self._filters(len(texts), labels, props, filter))

    def _results(self, text: list[str | None], errors: dict[int, str], found: Retrieved, clock: Clock) -> SearchResults:
        host = [x.cpu().numpy() for x in (*found.hits, found.available, found.state)]
        return SearchResults(self.graph, text, *host, errors=errors, timings=clock.seconds)

    def _grown(
        self,
        growth: Growth,
        batch: QueryBatch | None,
        text: list[str | None],
        found: Retrieved,
        bound: list[Bound],
        clock: Clock,
        errors: dict[int, str] | None = None,
    ) -> Subgraphs:
        if errors is None:
            errors = {} if batch is None else batch.errors
        return grow(self.graph, self.topology, growth, found.hits, text=text, state=found.state, errors=errors,
                    nearness=self._nearness(batch, bound), clock=clock)  # fmt: skip

    def _nearness(self, batch: QueryBatch | None, bound: list[Bound]) -> Nearness | None:
        """Distances of nodes to the queries that have vectors."""
        if batch is None or not bound:
            return None
        queries = batch.embedding.to(self.device)
        return lambda query, node: rescore(bound, queries, query, node, "best")[0]


def _texts(queries: Any) -> tuple[list[str], dict[int, str]]:
    """Texts, with what is wrong with single ones."""
    if isinstance(queries, str):
        given: list[Any] = [queries]
    elif isinstance(queries, bytes) or not hasattr(queries, "__iter__"):
        raise InvalidArgument(f"queries: expected a text or a list of texts, got {type(queries).__name__}")
    else:
        given = list(queries)
    errors: dict[int, str] = {}
    for i, text in enumerate(given):
        if not isinstance(text, str):
            errors[i] = f"expected a text, got {text!r} ({type(text).__name__})"
        elif not text.strip():
            errors[i] = "the query is blank"
    return [t if isinstance(t, str) else "" for t in given], errors


def _counts(name: str, value: Any, queries: int) -> torch.Tensor:
    """(B,) int64 of a count, or of one for each query."""
    values = per_query(name, value, queries)
    for v in values or [value]:
        if v is None:
            raise InvalidArgument(f"{name}: expected an integer of at least 1, got None")
        whole(name, v, least=1)
    return torch.from_numpy(np.array(values, np.int64))
