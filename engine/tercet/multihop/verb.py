"""The verb of an engine that ranks passages for questions that need more than one."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tercet.clock import Clock
from tercet.filters import Filters
from tercet.multihop.passage_graph import PassageGraph, passage_graph
from tercet.multihop.ranking import rank_passages
from tercet.multihop.settings import MultihopSettings, settings_of
from tercet.query import embed
from tercet.ranking import Status
from tercet.retrieve.hits import SearchResults
from tercet.retrieve.searches import Searches, read_counts
from tercet.state import pinned


class Passages(Searches):
    """Passage retrieval over several hops; see `Verbs` for the arguments that other searches share."""

    @pinned
    def passage_search(
        self,
        queries: str | Sequence[str] | None = None,
        k: int | Sequence[int] = 10,
        *,
        vectors: Any = None,
        mode: str = "multihop",
        settings: MultihopSettings | Mapping[str, Any] | str | Path | None = None,
        passage_type: str | Sequence[str] | None = None,
        filter_labels: Any = None,
        filter_props: Any = None,
        filter: Any = None,
    ) -> SearchResults:
        """The k passages of each question that answer it together, without a language model.

        Signals of a passage are added up: its similarity, its words (BM25), a walk from the names in the question
        (personalized PageRank over passages, names and facts), a walk from the nearest passages, facts about those
        names that lead to it, and, in a second look, how it goes on from the passages found first: what they leave
        open of the question, and the names that connect the two. Each hit has its signals as `parts`; its score is
        their sum, each times its weight in the settings, those of the second look where there is one.

        A filter limits what is found and what the second look starts from, not what is walked over: walks, facts, and
        how rare a word or a name is, are those of the whole graph. A scope (`Engine.scope`) limits all of it.

        See `Verbs` for the other arguments. Vectors of passages are those of the node collection that has most of
        them. `available` is how many passages a query has considered.

        Args:
            mode: "multihop", or a part of it for comparison: "dense", "lexical", "walk", "paths", "first".
            settings: instead of the mode's: settings, a mapping of some, or a TOML file with a table `[multihop]`;
                those that aren't given are as by default.
            passage_type: types of the nodes that are passages; None: DocumentChunk, TextUnit, Chunk, Passage.

        Raises:
            InvalidArgument: the call itself is wrong, no node is a passage, or passages have no vectors of unit norm.
        """
        clock = Clock(self.device)
        chosen = settings_of(mode, settings)
        with clock.stage("embed"):
            batch = embed(queries, vectors, self.encoder, self.dimension, raise_blank=False)
        counts = read_counts("k", k, len(batch)).numpy()
        filters = self._filters(len(batch), filter_labels, filter_props, filter)
        graph = self._passage_graph(passage_type, chosen.title_weight)
        ranked = rank_passages(graph, batch, counts, filters, chosen, self.device, clock)
        state = np.where(np.diff(ranked.indptr) > 0, int(Status.ok), int(Status.no_hits)).astype(np.int8)
        state[_shut(graph, filters)] = int(Status.filtered_out)
        state[list(batch.errors)] = int(Status.failed)
        return SearchResults(
            self.graph, batch.text, ranked.indptr, graph.passage[ranked.passage], ranked.score, ranked.available, state,
            errors=batch.errors, parts=ranked.parts, timings=clock.seconds,
        )  # fmt: skip

    def _passage_graph(self, types: str | Sequence[str] | None, title_weight: float) -> PassageGraph:
        """Kept with the graph until another one is asked for; of another engine's collections it is another one."""
        bound = tuple(self.bound)
        key = (types if types is None or isinstance(types, str) else tuple(types), title_weight, self.device, *bound)
        return self.graph.latest(
            "_passage_graph", key, lambda: passage_graph(self.graph, bound, self.device, types, title_weight)
        )


def _shut(graph: PassageGraph, filters: Filters) -> np.ndarray:
    """(B,) bool: the filter admits no passage."""
    if not filters.masks.shape[0]:
        return np.zeros(len(filters.row), bool)
    some = filters.masks[:, torch.from_numpy(graph.passage).long()].any(dim=1)
    return ((filters.row >= 0) & ~some[filters.row.clamp(min=0).long()]).numpy()
