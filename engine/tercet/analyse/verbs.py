"""The verbs of an engine that rank and group the nodes of its graph, or of a result."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch

from tercet.analyse.centrality import centrality
from tercet.analyse.communities import Community, communities
from tercet.analyse.pagerank import rank
from tercet.arguments import whole
from tercet.clock import Clock
from tercet.errors import InvalidArgument
from tercet.node import nodes_of
from tercet.properties import node_properties
from tercet.retrieve.growth import seed_state
from tercet.retrieve.hits import Hits, SearchResults
from tercet.retrieve.ragged import Ragged, query_of
from tercet.retrieve.seeds import here, read_seeds
from tercet.retrieve.subgraph import Subgraph, Subgraphs
from tercet.state import Versioned, pinned
from tercet_kernels.neighbors import DIRECTIONS, Direction

if TYPE_CHECKING:
    from tercet.rules import Rules

MASSES = ("score", "uniform")


class Analyses(Versioned):
    """Centrality, communities and personalised PageRank; a base of `Engine`."""

    rules: "Rules"
    device: torch.device

    @pinned
    def centrality(
        self,
        kind: str = "pagerank",
        *,
        graph: Any = None,
        weight: str | None = None,
        directed: bool = True,
        limit: int | None = None,
        **options: Any,
    ) -> list[dict[str, Any]]:
        """Nodes by centrality, the most central first; see `tercet.analyse.centrality`.

        Args:
            kind: pagerank, degree, in_degree, out_degree, betweenness, closeness, harmonic or eigenvector.
            graph: a `Subgraph`, or a networkx graph whose nodes are ids; None: the whole graph.
            weight: the edge property that weighs edges.

        Returns:
            `{"node": Node, "score": float}` each.
        """
        found = centrality(self._ranked_graph(graph), kind, weight=weight, directed=directed, limit=limit, **options)
        rows = self.graph.rows([key for key, _ in found])
        kept = np.flatnonzero(rows >= 0)
        nodes = nodes_of(self.graph, rows[kept])
        return [{"node": node, "score": found[i][1]} for node, i in zip(nodes, kept.tolist(), strict=True)]

    @pinned
    def communities(
        self,
        algorithm: str = "louvain",
        *,
        graph: Any = None,
        weight: str | None = None,
        resolution: float = 1.0,
        seed: int | None = None,
        min_size: int = 1,
        label_terms: int = 0,
        text_property: str = "text",
        label_scoring: str = "tfidf",
        stopwords: Sequence[str] | None = None,
    ) -> list[Community]:
        """Communities, the largest first; see `tercet.analyse.communities`.

        Args:
            algorithm: "louvain", "greedy" or "lpa" (also "label_propagation").
            graph: a `Subgraph`, or a networkx graph whose nodes are ids; None: the whole graph.
            label_terms: terms that name each community, from the property `text_property` of its nodes.
        """
        given = self._ranked_graph(graph)
        text: Any = None
        if label_terms:
            ids = list(given) if hasattr(given, "adj") else self.graph.ids.to_pylist()
            rows = self.graph.rows(ids)
            known = np.flatnonzero(rows >= 0)
            held = node_properties(self.graph, rows[known])
            text = {ids[i]: p.get(text_property) for i, p in zip(known.tolist(), held, strict=True)}
        return communities(
            given, algorithm, weight=weight, resolution=resolution, seed=seed, min_size=min_size,
            label_terms=label_terms, text=text, label_scoring=label_scoring, stopwords=stopwords,
        )  # fmt: skip

    @pinned
    def rank_subgraph(
        self,
        seeds: Any,
        *,
        top_k: int = 20,
        damping: float = 0.85,
        direction: Direction = "both",
        weight: str | None = None,
        mass: Literal["score", "uniform"] = "score",
        inside: bool | None = None,
        tolerance: float = 1e-6,
        max_iterations: int = 200,
    ) -> SearchResults:
        """Nodes by personalised PageRank from the seeds of every query at once.

        A walk that steps along edges, and with probability 1 - damping returns to a seed; where there is no way on it
        returns, too. Scores sum to 1 over all nodes and are 0 beyond what the seeds reach (Page et al. 1999; Haveliwala
        2002).

        Args:
            seeds: what `subgraph` takes, what a search verb returned, or subgraphs.
            top_k: nodes a query.
            direction: which way edges are walked.
            weight: the edge property that weighs steps; None: all alike.
            mass: seeds count by their scores (what is below 0, or has none, counts as 0; alike where nothing is left),
                or "uniform"ly.
            inside: stay within the nodes of each subgraph; None: for subgraphs.
            tolerance: L1 change of the last step; max_iterations: steps at most.

        Returns:
            ranked nodes; `details` holds `converged`, `residual` and `iterations` of every query.

        Raises:
            InvalidArgument: names the argument.
        """
        whole("top_k", top_k, least=1)
        if direction not in DIRECTIONS:
            raise InvalidArgument(f"direction: expected one of {', '.join(map(repr, DIRECTIONS))}, got {direction!r}")
        if mass not in MASSES:
            raise InvalidArgument(f"mass: expected one of {MASSES}, got {mass!r}")
        clock = Clock(self.device)
        hits, text, errors, within = self._walk_seeds(seeds, inside)
        with clock.stage("pagerank"):
            got = rank(
                self.graph, self.topology, *(x.to(self.device) for x in (hits.indptr, hits.node, masses(hits, mass))),
                damping=damping, top_k=top_k, direction=direction, tolerance=tolerance, max_iterations=max_iterations,
                weight=None if weight is None else self._weights(weight), inside=within,
            )  # fmt: skip
        assert got.node is not None  # top_k is given
        kept = torch.ge(got.node, 0)
        indptr = np.concatenate([[0], np.cumsum(kept.sum(dim=1).cpu().numpy())])
        available = np.full(len(text), self.graph.num_nodes) if within is None else np.diff(within[0].cpu().numpy())
        details = {n: getattr(got, n).cpu().numpy() for n in ("converged", "residual", "iterations")}
        return SearchResults(
            self.graph, text, indptr, got.node[kept].cpu().numpy(), got.score[kept].cpu().numpy(), available,
            seed_state(hits, errors).numpy(), errors=errors, timings=clock.seconds, details=details,
        )  # fmt: skip

    def _walk_seeds(
        self, seeds: Any, inside: bool | None
    ) -> tuple[Ragged, list[str | None], dict[int, str], tuple[torch.Tensor, torch.Tensor] | None]:
        """The seeds of each query and, where the walk is to stay inside, the nodes of its subgraph, ascending."""
        if isinstance(seeds, Subgraph):
            seeds = seeds._alone()
        if not isinstance(seeds, Subgraphs):
            if inside:
                raise InvalidArgument("inside: expected subgraphs as seeds, which say what to stay inside of")
            read = read_seeds(self.graph, seeds, unknown=self.rules.unknown_seeds)
            return read.hits, read.text, read.errors, None
        graph = self.graph  # of this version; the subgraphs may be of another
        hits = Ragged(*(torch.from_numpy(x) for x in (seeds.seed_indptr, seeds.seed, seeds.seed_score)))
        hits = here(graph, seeds.graph, hits)
        if inside is False:
            return hits, list(seeds.text), seeds.errors, None
        node = torch.from_numpy(seeds.node)
        indptr, node, _ = here(graph, seeds.graph, Ragged(torch.from_numpy(seeds.indptr), node, node.double()))
        order = torch.argsort(query_of(indptr) * max(graph.num_nodes, 1) + node.long())
        return hits, list(seeds.text), seeds.errors, (indptr.to(self.device), node[order].to(self.device))

    def _weights(self, name: str) -> torch.Tensor:
        """(E,) float64 of an edge property.

        Raises:
            InvalidArgument: it is missing somewhere, or no number of at least 0.
        """
        from tercet.properties import edge_property_column

        number = np.asarray(edge_property_column(self.graph, name).number, np.float64)
        bad = np.flatnonzero(~(np.isfinite(number) & (number >= 0)))
        if len(bad):
            raise InvalidArgument(
                f"weight: expected a number of at least 0 as {name!r} of every edge; {len(bad)} have none, first row "
                f"{bad[0]}"
            )
        return torch.from_numpy(number.copy())

    def _ranked_graph(self, graph: Any) -> Any:
        if graph is None:
            return self.graph
        if isinstance(graph, Subgraphs):
            graph = graph[0] if len(graph) == 1 else graph
        if isinstance(graph, (Subgraphs, SearchResults, Hits)):
            raise InvalidArgument(f"graph: expected one subgraph or a networkx graph, got {graph!r}")
        return graph.to_networkx() if isinstance(graph, Subgraph) else graph


def masses(hits: Ragged, mass: str) -> torch.Tensor:
    """(S,) float64 how much each seed counts."""
    alike = torch.ones_like(hits.score)
    if mass == "uniform" or not hits.score.shape[0]:
        return alike
    positive = torch.nan_to_num(hits.score, nan=0.0).clamp(min=0.0)
    query = query_of(hits.indptr)
    total = torch.zeros(hits.indptr.shape[0] - 1, dtype=torch.float64).index_add_(0, query, positive)
    return torch.where(total[query] > 0, positive, alike)
