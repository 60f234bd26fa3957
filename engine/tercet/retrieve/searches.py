"""The verbs of an engine that answer with ranked nodes."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch

from tercet.arguments import per_query, whole
from tercet.candidates import Bound
from tercet.clock import Clock
from tercet.errors import InvalidArgument
from tercet.filters import Filters, both, node_masks
from tercet.index.raw import RawIndex
from tercet.matching import filter_masks
from tercet.query import ZERO, QueryBatch, embed
from tercet.retrieve import halves
from tercet.retrieve.fts import FtsIndex
from tercet.retrieve.hits import SearchResults
from tercet.retrieve.nearest import Retrieved, nearest_nodes
from tercet.retrieve.words import text_nodes, text_side
from tercet.state import Versioned, pinned

if TYPE_CHECKING:
    from tercet.encoder import Encoder
    from tercet.rules import Rules

DEPTH = 4  # candidates of each half of a hybrid search, by result


class Searches(Versioned):
    """Searches for nodes, by vector, by text and by both; see `Verbs` for the arguments."""

    rules: "Rules"
    device: torch.device
    encoder: "Encoder | None"

    if TYPE_CHECKING:

        @property
        def dimension(self) -> int: ...

    @pinned
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

    @pinned
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
        texts, errors = read_texts(queries)
        with clock.stage("text"):
            filters = self._filters(len(texts), filter_labels, filter_props, filter)
            found = self._words(texts, errors, read_counts("k", k, len(texts)), filters, filter_labels)
        return self._results(list(texts), errors, found, clock)

    @pinned
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
            named = ", ".join(map(repr, unknown))
            raise InvalidArgument(f"collections: no node collection {named}; there are {', '.join(have) or 'none'}")
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
        counts = read_counts("k", k, len(batch))
        filters = self._filters(len(batch), labels, props, filter)
        if len(bound) == 1 and isinstance(bound[0].collection.index, RawIndex):  # its metrics know zero vectors
            batch = replace(batch, errors={i: e for i, e in batch.errors.items() if e != ZERO})
        with clock.stage("search"):
            return batch, nearest_nodes(bound, self.graph.num_nodes, batch, counts, filters, self.device)

    def _hybrid(
        self, queries: Any, k: Any, given: tuple[Any, ...], labels: Any, props: Any, filter: Any, clock: Clock
    ) -> tuple[QueryBatch | None, SearchResults]:
        vectors, vector_k, text_k, vector_weight, text_weight, rrf_k, collections = given
        texts, errors = read_texts(queries)
        counts = read_counts("k", k, len(texts))
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
            words = self._words(texts, errors, depths[1], filters, labels)
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
        self, texts: list[str], errors: dict[int, str], k: torch.Tensor, filters: Filters, labels: Any
    ) -> Retrieved:
        """What the text side finds; Grafito's rules know no filter there but the labels of its rows."""
        side = text_side(self.graph, self.lexical)
        if isinstance(side, FtsIndex) and self.rules.matcher == "grafito":
            return text_nodes(side, texts, errors, k, filters, as_rows=True, labels=labels or None)
        return text_nodes(side, texts, errors, k, filters)

    def _results(self, text: list[str | None], errors: dict[int, str], found: Retrieved, clock: Clock) -> SearchResults:
        host = [x.cpu().numpy() for x in (*found.hits, found.available, found.state)]
        return SearchResults(self.graph, text, *host, errors=errors, timings=clock.seconds)


def read_texts(queries: Any) -> tuple[list[str], dict[int, str]]:
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


def read_counts(name: str, value: Any, queries: int) -> torch.Tensor:
    """(B,) int64 of a count, or of one for each query."""
    values = per_query(name, value, queries)
    for v in values or [value]:
        if v is None:
            raise InvalidArgument(f"{name}: expected an integer of at least 1, got None")
        whole(name, v, least=1)
    return torch.from_numpy(np.array(values, np.int64))
