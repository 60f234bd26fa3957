"""The verbs of an engine that answer with nodes and subgraphs."""

from collections.abc import Sequence
from typing import Any

import torch

from tercet.candidates import Bound
from tercet.clock import Clock
from tercet.query import QueryBatch
from tercet.retrieve.growth import Growth, Rank, grow, read_growth, seed_state
from tercet.retrieve.nearest import Retrieved
from tercet.retrieve.nearness import Nearness
from tercet.retrieve.ragged import Ragged
from tercet.retrieve.searches import Searches, read_counts, read_texts
from tercet.retrieve.seeds import read_seeds
from tercet.retrieve.subgraph import Subgraphs
from tercet.state import pinned
from tercet_kernels.neighbors import Direction


class Verbs(Searches):
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

    @pinned
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

    @pinned
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

    @pinned
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
        texts, errors = read_texts(queries)
        with clock.stage("text"):
            filters = self._filters(len(texts), filter_labels, filter_props, filter)
            found = self._words(texts, errors, read_counts("k", k, len(texts)), filters, filter_labels)
        return self._grown(growth, None, list(texts), found, [], clock, errors)

    @pinned
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

    @pinned
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
        return Nearness(bound, batch.embedding.to(self.device))
