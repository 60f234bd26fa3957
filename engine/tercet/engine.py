"""The engine: a graph and its collections on one device, answering batches of queries."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
import torch

from tercet.analyse.verbs import Analyses
from tercet.arguments import Arguments, read_arguments, whole
from tercet.collection import Collection
from tercet.encoder import CachedEncoder, Encoder, resolve_encoder
from tercet.errors import DimensionMismatch, InvalidArgument, StoreError
from tercet.graph import Graph
from tercet.memory import fitted, queries_at_once
from tercet.memory_plan import MemoryPlan, check_room, estimate_memory
from tercet.multihop.verb import Passages
from tercet.planner import Planner
from tercet.query import QueryBatch, embed
from tercet.ranking import retrieve
from tercet.recall import Group, Recall
from tercet.retrieve.verbs import Verbs
from tercet.rules import rules_of
from tercet.scope import Kept, Scopes
from tercet.serve.submits import Submits
from tercet.state import State, pinned
from tercet.updates import Updates

if TYPE_CHECKING:
    from tercet.info import Info


class Engine(Submits, Verbs, Passages, Analyses, Updates, Scopes):
    """Retrieval over one graph: `recall` ranks triplets; the verbs of `Verbs` answer with nodes and
    subgraphs, those of `Analyses` rank and group them, those of `Updates` make the next version; `submit` has a worker
    of the engine's own answer calls of any thread in batches.

    A call answers from the version that it began with, whatever happens meanwhile; results say which one.

    Args:
        graph: the graph.
        collections: node and relation collections, searched in this order.
        encoder: makes query vectors of texts: a model name, a path, a callable, an `Encoder`, or None (vectors only).
        device: "cpu", "cuda", "cuda:1", …; "auto" is CUDA where there is one.
        mode: "native", or "cognee" for the rules of Cognee 1.6.5, or "grafito" for those of Grafito 0.8.6.
        lexical: what text searches read: None is BM25 over the node columns name, text and description, built on first
            use; or a list of other columns, a `LexicalIndex`, an `FtsIndex`, or False for none.
        cache: query vectors kept, by text.
        check_fingerprint: refuse queries encoded by another model than a collection's.
        check_memory: refuse to load more than is free; see `estimate_memory`.

    Raises:
        NotEnoughMemory: the device has less room than the graph and the collections need.
        InvalidData: a collection's owner isn't in the graph (native mode).
        DimensionMismatch: collections or the encoder differ in width; names them all.
        FingerprintMismatch: the encoder isn't the one that made a collection.
    """

    def __init__(
        self,
        graph: Graph,
        collections: Sequence[Collection],
        encoder: Any = None,
        device: str = "auto",
        mode: Literal["native", "cognee", "grafito"] = "native",
        *,
        lexical: Any = None,
        cache: int = 4096,
        check_fingerprint: bool = True,
        check_memory: bool = True,
    ) -> None:
        self.rules = rules_of(mode)
        self.device = device_of(device)
        names = [c.name for c in collections]
        if len(set(names)) < len(names):
            raise InvalidArgument(f"collections: names must differ, got {names}")
        if check_memory:
            check_room(graph, collections, mode, self.device)
        graph, made = graph.to(self.device), [replace(c, index=c.index.to(self.device)) for c in collections]
        resolved = resolve_encoder(encoder)
        self.encoder: Encoder | None = (
            CachedEncoder(resolved, capacity=cache) if resolved is not None and cache else resolved
        )
        self.encoder_name = encoder if isinstance(encoder, str) else None
        self._writing = threading.Lock()
        self._scopes = Kept()
        self._state = State(graph, made, Planner(graph, made, self.rules), lexical, 1)
        pa.default_memory_pool().release_unused()  # what reading tables took
        self._check_widths(check_fingerprint)

    @property
    def dimension(self) -> int:
        """The width of all vectors."""
        return self.collections[0].dimension if self.collections else 0

    @pinned
    def recall(
        self,
        queries: str | Sequence[str] | None = None,
        *,
        vectors: Any = None,
        top_k: int | Sequence[int] = 5,
        wide_search_top_k: int | Sequence[int | None] | None = 100,
        collections: Sequence[str] | None = None,
        projection: Literal["induced", "incident", "full", "nodeset", "neighborhood"] | None = None,
        node_name: str | Sequence[str] | Sequence[Sequence[str] | None] | None = None,
        node_name_filter_operator: str = "OR",
        node_type: str = "NodeSet",
        neighborhood_depth: int | None = None,
        neighborhood_seed_top_k: int | None = 10,
        triplet_distance_penalty: float = 6.5,
        feedback_influence: float = 0.0,
        personal_weights: Mapping[Any, float] | None = None,
        personal_influence: float = 0.3,
        max_distance: float | None = None,
        filter: Any = None,
        max_context_tokens: int | None = None,
        count_tokens: Callable[[list[str]], Sequence[int]] | None = None,
        batch_size: int | None = None,
        progress: bool = False,
    ) -> Recall:
        """Rank the triplets that answer each query best.

        Args:
            queries: one text or a list of texts; `vectors` (D,) or (B, D) take their place, or go with them.
            top_k: triplets a query, one number or one for each query.
            wide_search_top_k: candidates that each collection contributes; None is every row. One value or a list.
            collections: names of those to search, in this order; None is all.
            projection: which edges may be ranked: both ends among the candidates ("induced", the default), either end
                ("incident"), any ("full", the default without a limit), those inside a node set ("nodeset", the default
                with node_name), those among nodes near the best candidates ("neighborhood", the default with a depth).
            node_name: a name or names of node sets; a list of lists (or None) gives each query its own.
            node_name_filter_operator: "OR": nodes of any named set; "AND": of all of them.
            neighborhood_depth: undirected steps from the seeds; neighborhood_seed_top_k: how many candidates are
                seeds, nearest first (None: all).
            triplet_distance_penalty: the distance of an element that wasn't matched.
            feedback_influence: in [0, 1], how much feedback weighs against distance.
            personal_weights: node id to a weight; 0.5 is neutral, more draws nearer, by up to `personal_influence`.
            max_distance: farther hits count as not matched.
            filter: nodes that may be used at all: a pyarrow.compute expression over the node table, a boolean mask,
                a sequence of ids, or a list with one of these (or None) for each query.
            max_context_tokens: the text holds the best triplets that fit; the rest is listed in `dropped`.
            count_tokens: counts the tokens of each of some texts, for max_context_tokens; None counts words and signs.
            batch_size: queries retrieved together; None is chosen for the device. Results don't depend on it.
            progress: show a progress bar.

        Returns:
            One result a query, in order; a bad query (blank, NaN, wrong width) has the status `failed` alone.

        Raises:
            InvalidArgument: the call itself is wrong.
            NotEnoughMemory: one query alone doesn't fit; before that, fewer are retrieved together (`Recall.halved`).
        """
        begin = time.perf_counter()
        if max_context_tokens is not None:
            whole("max_context_tokens", max_context_tokens, least=0)
        self._check_matrix(vectors)
        batch = embed(queries, vectors, self.encoder, self.dimension, raise_blank=self.rules.blank == "raise")
        seconds = {"embed": time.perf_counter() - begin}
        args = read_arguments(
            self.graph, self.rules, batch, top_k=top_k, wide=wide_search_top_k, projection=projection,
            node_name=node_name, operator=node_name_filter_operator, node_type=node_type, depth=neighborhood_depth,
            seed_top_k=neighborhood_seed_top_k, penalty=triplet_distance_penalty, influence=feedback_influence,
            personal_weights=personal_weights, personal_influence=personal_influence, max_distance=max_distance,
            filter=filter,
        )  # fmt: skip
        searched = self._searched(collections)
        step = queries_at_once(batch_size, args, searched, self.graph)
        groups = list(self._run(batch, args, searched, step, progress))
        for group in groups:
            for stage, spent in group.ranking.seconds.items():
                seconds[stage] = seconds.get(stage, 0.0) + spent
        why = self._why_of(batch, args, collections)
        return Recall(batch, groups, seconds, max_context_tokens, count_tokens, why, self.version)

    def save(self, path: str | Path) -> None:
        """Write the graph and the collections as a store; see `tercet.open`.

        Onto the store that the engine was opened from or saved to last, only what has changed since is written.
        Updates wait until it is done; reading doesn't.

        Args:
            path: a folder, or a URL that fsspec knows.

        Raises:
            StoreError: the path is something else than a store; or somebody committed to the store meanwhile.
        """
        from tercet.store import save

        if self.scoped_to is not None and "://" not in str(path) and (Path(path) / "manifest.json").exists():
            raise StoreError(f"{path}: there is a store already; a scope is saved as a new one")
        with self.alone("save"):
            origin, since = save(self, path)
            self._state = replace(self.state, origin=origin, since=since)

    @pinned
    def info(self) -> "Info":
        """Sizes, device, threads, versions and the kernels in use; `print` shows it as a table."""
        from tercet.info import info_of

        return info_of(self)

    @pinned
    def estimate_memory(
        self,
        *,
        device: str | None = None,
        batch: int = 256,
        wide_search_top_k: int | None = 100,
        top_k: int = 5,
        projection: str | None = None,
    ) -> MemoryPlan:
        """What this engine holds, here or on another device, and what a batch takes; see `tercet.estimate_memory`."""
        return estimate_memory(
            self, device=device, batch=batch, wide_search_top_k=wide_search_top_k, top_k=top_k, projection=projection
        )

    def _run(
        self, batch: QueryBatch, args: Arguments, names: list[Collection], step: int, progress: bool
    ) -> Iterator[Group]:
        good = np.arange(len(batch))
        if batch.errors:
            good = np.setdiff1d(good, list(batch.errors))
        chunks = []
        for route in sorted(set(args.route[good].tolist())):
            place = good[args.route[good] == route]
            chunks += [place[i : i + step] for i in range(0, len(place), step)]

        def work(chunk: np.ndarray) -> Group:
            place = torch.from_numpy(chunk)
            plan = self.planner.plan(args, names, place)
            queries = (batch.embedding if len(chunk) == len(batch) else batch.embedding[place]).to(self.device)
            return Group(place, plan, queries, retrieve(plan, queries))

        for _, group, halvings in fitted(_track(chunks, progress, len(good)), work):
            yield replace(group, halved=halvings) if halvings else group

    def _searched(self, names: Sequence[str] | None) -> list[Collection]:
        if names is None:
            return self.collections
        have = {c.name: c for c in self.collections}
        unknown = [n for n in names if n not in have]
        if unknown:
            raise InvalidArgument(f"collections: no {', '.join(map(repr, unknown))}; there are {', '.join(have)}")
        return [have[n] for n in dict.fromkeys(names)]

    def _why_of(self, batch: QueryBatch, args: Arguments, collections: Sequence[str] | None) -> Callable[..., Any]:
        def why(place: int, *, edge: Any = None, node: Any = None) -> Any:
            from tercet.why import explain_absence

            return explain_absence(self, batch, args, self._searched(collections), place, edge=edge, node=node)

        return why

    def _check_matrix(self, vectors: Any) -> None:
        """Refuse a matrix of another width at once; rows that come one by one fail one by one."""
        if isinstance(vectors, (torch.Tensor, np.ndarray)) and vectors.ndim == 2 and vectors.shape[0]:
            for c in self.collections:
                c.check_queries(vectors.shape[1], None)

    def _check_widths(self, fingerprints: bool) -> None:
        widths = {c.dimension for c in self.collections}
        if len(widths) > 1:
            models = ", ".join(
                f"{c.name!r} {c.dimension} ({'model unknown' if c.fingerprint is None else c.fingerprint.describe()})"
                for c in self.collections
            )
            raise DimensionMismatch(f"collections searched together must have one dimension, got {models}")
        if self.encoder is not None:
            made = self.encoder.fingerprint()
            for c in self.collections:
                c.check_queries(self._encoder_width() or c.dimension, made if fingerprints else None)

    def _encoder_width(self) -> int | None:
        """None for a function that tells its width with the first text only."""
        try:
            return self.encoder.dimension if self.encoder is not None else None
        except InvalidArgument:
            return None

    def __repr__(self) -> str:
        return f"Engine({self.graph!r}, {len(self.collections)} collections, {self.rules.name}, {self.device})"


def device_of(name: str) -> torch.device:
    """A device by name; "auto" is CUDA where there is one.

    Raises:
        InvalidArgument: no such device.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        return torch.device(name)
    except RuntimeError as error:
        raise InvalidArgument(f"device: {name!r} is no device") from error


def _track(chunks: list[np.ndarray], progress: bool, total: int) -> Iterator[np.ndarray]:
    if not progress:
        yield from chunks
        return
    from rich.progress import Progress

    with Progress() as bar:
        task = bar.add_task("recall", total=total)
        for chunk in chunks:
            yield chunk
            bar.advance(task, len(chunk))
