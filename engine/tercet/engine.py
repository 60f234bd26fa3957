"""The engine: a graph and its collections on one device, answering batches of queries."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from tercet.arguments import NO_LIMIT, Arguments, read_arguments, whole
from tercet.candidates import bind
from tercet.collection import Collection
from tercet.encoder import CachedEncoder, Encoder, resolve_encoder
from tercet.errors import DimensionMismatch, InvalidArgument
from tercet.graph import Graph
from tercet.memory import queries_at_once
from tercet.nodeset import members, mirrored
from tercet.plan import Plan, topology_of
from tercet.query import QueryBatch, embed
from tercet.ranking import retrieve
from tercet.recall import Group, Recall
from tercet.rules import rules_of
from tercet_kernels._types import Topology


class Engine:
    """Retrieval over one graph.

    Args:
        graph: the graph.
        collections: node and relation collections, searched in this order.
        encoder: makes query vectors of texts: a model name, a path, a callable, an `Encoder`, or None (vectors only).
        device: "cpu", "cuda", "cuda:1", …; "auto" is CUDA where there is one.
        mode: "native", or "cognee" for the rules of Cognee 1.6.5.
        cache: query vectors kept, by text.
        check_fingerprint: refuse queries encoded by another model than a collection's.

    Raises:
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
        mode: Literal["native", "cognee"] = "native",
        *,
        cache: int = 4096,
        check_fingerprint: bool = True,
    ) -> None:
        self.rules = rules_of(mode)
        self.device = _device(device)
        names = [c.name for c in collections]
        if len(set(names)) < len(names):
            raise InvalidArgument(f"collections: names must differ, got {names}")
        self.graph = graph.to(self.device)
        self.collections = [replace(c, index=c.index.to(self.device)) for c in collections]
        resolved = resolve_encoder(encoder)
        self.encoder: Encoder | None = (
            CachedEncoder(resolved, capacity=cache) if resolved is not None and cache else resolved
        )
        self.encoder_name = encoder if isinstance(encoder, str) else None
        self.bound, self.unread = bind(self.collections, self.graph, keep_unknown=self.rules.unknown_owners == "keep")
        self.topology = topology_of(self.graph)
        # what a node set stands for takes a pass over the edges, and calls tend to ask for the same few
        self._members = lru_cache(64)(lambda kind, names, operator: members(self.graph, kind, names, operator))
        self._mirrored = lru_cache(4)(self._mirror)
        self._check_widths(check_fingerprint)

    @property
    def dimension(self) -> int:
        """The width of all vectors."""
        return self.collections[0].dimension if self.collections else 0

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
        out = Recall(batch, groups, seconds, max_context_tokens, count_tokens)
        out.why_ = self._why_of(batch, args, collections)
        return out

    def save(self, path: str | Path) -> None:
        """Write the graph and the collections as a store; see `tercet.open`."""
        from tercet.store import save

        save(self, path)

    def _run(
        self, batch: QueryBatch, args: Arguments, names: list[Collection], step: int, progress: bool
    ) -> Iterator[Group]:
        good = np.array([i for i in range(len(batch)) if i not in batch.errors], np.int64)
        chunks = []
        for key in np.unique(args.route[good]) if len(good) else []:
            place = good[args.route[good] == key]
            chunks += [place[i : i + step] for i in range(0, len(place), step)]
        for place in _track(chunks, progress, len(good)):
            yield self._retrieve(batch, args, names, torch.from_numpy(place))

    def _retrieve(self, batch: QueryBatch, args: Arguments, names: list[Collection], place: torch.Tensor) -> Group:
        plan = self._plan(args, names, place)
        queries = batch.embedding[place].to(self.device)
        return Group(place, plan, queries, retrieve(plan, queries))

    def _plan(self, args: Arguments, searched: list[Collection], place: torch.Tensor) -> Plan:
        """The plan of queries that share a route: with or without a limit, with or without a node set."""
        first = int(place[0])
        graph, topology, rules = self.graph, self.topology, self.rules
        wide = args.wide[place]
        unlimited = bool((wide == NO_LIMIT).all())
        if unlimited and args.projection_of(first, True) == "neighborhood" and not rules.batch_limit:
            wide, unlimited = torch.zeros_like(wide), False  # without a limit there are no candidates, so no seeds
        scoped = args.node_names[first]
        allowed, allowed_row = args.filters.rows(place)
        row_masks = None
        projection = args.projection_of(first, unlimited)
        bound = [self.bound[self.collections.index(c)] for c in searched]
        if scoped is not None and rules.scoped_limit:
            allowed, allowed_row = args.filters.with_sets(
                place, args.node_names, lambda names: self._members(args.node_type, tuple(names), args.operator)
            )
        elif scoped and not args.single_list:
            row_masks = [self._set_rows(c, args, scoped, len(place)) for c in searched]
        if scoped and projection == "nodeset" and not rules.scoped_limit:
            graph, topology = self._mirrored(args.node_type, scoped, args.operator)
            projection = "full"
        return Plan(
            graph=graph, topology=topology, bound=bound, projection=projection,
            top_k=args.top_k[place].to(self.device), wide=None if unlimited else wide.to(self.device),
            scoring=args.scoring(self.device), combine=rules.combine,
            fallback=rules.fallback == "full" and projection == "incident", unread=self.unread,
            rank_unmatched=rules.rank_unmatched,
            depth=args.depth or 1, seed_top_k=args.seed_top_k,
            seed_order=rules.seed_order,
            allowed=None if allowed is None else allowed.to(self.device),
            allowed_row=None if allowed_row is None else allowed_row.to(self.device),
            row_masks=row_masks, max_distance=args.max_distance,
        )  # fmt: skip

    def _mirror(self, node_type: str, names: tuple[str, ...], operator: str) -> tuple[Graph, Topology]:
        graph = mirrored(self.graph, node_type, names, operator)
        return graph, topology_of(graph)

    def _set_rows(
        self, collection: Collection, args: Arguments, names: Sequence[str], queries: int
    ) -> tuple[torch.Tensor, torch.Tensor] | None:
        """Rows of a node collection that carry the node sets themselves, or whose nodes do."""
        if collection.kind != "node":
            return None
        if collection.set_indptr is not None:
            mask = torch.from_numpy(collection.set_rows(list(names), args.operator))
        else:
            inside = torch.from_numpy(self.graph.set_mask(names, "AND" if args.operator == "AND" else "OR"))
            owner = self.bound[self.collections.index(collection)].owner.cpu().long()
            known = owner < self.graph.num_nodes
            mask = known & inside[torch.where(known, owner, 0)] if len(inside) else known
        return mask[None].to(self.device), torch.zeros(queries, dtype=torch.int32, device=self.device)

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


def _device(name: str) -> torch.device:
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
