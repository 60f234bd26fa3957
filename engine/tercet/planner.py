"""The plans of an engine: what each group of queries of a call asks for, with what node sets need for it."""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import torch

from tercet.arguments import NO_LIMIT, Arguments
from tercet.candidates import Bound, bind
from tercet.collection import Collection
from tercet.graph import Graph
from tercet.nodeset import members, mirrored
from tercet.plan import Plan, topology_of
from tercet.rules import Rules
from tercet_kernels._types import Topology


class Planner:
    """Makes plans over one graph and its collections, and keeps what is costly to make of node sets."""

    def __init__(
        self, graph: Graph, collections: list[Collection], rules: Rules, bound: list[Bound] | None = None,
        unread: torch.Tensor | None = None,
    ) -> None:  # fmt: skip
        self.graph, self.rules = graph, rules
        self.unread = unread
        if bound is None:
            bound, self.unread = bind(collections, graph, keep_unknown=rules.unknown_owners == "keep")
        self.bound = bound
        self.topology = topology_of(graph)
        self._bound_of = {id(b.collection): b for b in self.bound}
        # what a node set stands for takes a pass over the edges, and calls tend to ask for the same few; the planner
        # itself isn't held there, so that it goes as soon as nobody needs it
        self._members = lru_cache(64)(lambda kind, names, operator: members(graph, kind, names, operator))
        self._mirrored = lru_cache(4)(lambda kind, names, operator: _mirror(graph, kind, names, operator))

    def plan(self, args: Arguments, searched: list[Collection], place: torch.Tensor) -> Plan:
        """The plan of queries that share a route: with or without a limit, with or without a node set.

        Args:
            place: (n,) int64 ascending positions of the queries in the call.
        """
        first = int(place[0])
        graph, topology, rules, device = self.graph, self.topology, self.rules, self.graph.device
        wide = some(args.wide, place)
        unlimited = bool((wide == NO_LIMIT).all())
        if unlimited and args.projection_of(first, True) == "neighborhood" and not rules.batch_limit:
            wide, unlimited = np.zeros_like(wide), False  # without a limit there are no candidates, so no seeds
        scoped = args.node_names[first]
        allowed, allowed_row = args.filters.rows(place)
        row_masks = None
        projection = args.projection_of(first, unlimited)
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
            graph=graph, topology=topology, bound=[self._bound_of[id(c)] for c in searched], projection=projection,
            top_k=torch.from_numpy(some(args.top_k, place)).to(device),
            wide=None if unlimited else torch.from_numpy(wide).to(device),
            scoring=args.scoring(device), combine=rules.combine,
            fallback=rules.fallback == "full" and projection == "incident", unread=self.unread,
            rank_unmatched=rules.rank_unmatched,
            depth=args.depth or 1, seed_top_k=args.seed_top_k,
            seed_order=rules.seed_order,
            allowed=None if allowed is None else allowed.to(device),
            allowed_row=None if allowed_row is None else allowed_row.to(device),
            row_masks=row_masks, max_distance=args.max_distance,
        )  # fmt: skip

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
            owner = self._bound_of[id(collection)].owner.cpu().long()
            known = owner < self.graph.num_nodes
            mask = known & inside[torch.where(known, owner, 0)] if len(inside) else known
        device = self.graph.device
        return mask[None].to(device), torch.zeros(queries, dtype=torch.int32, device=device)


def _mirror(graph: Graph, node_type: str, names: tuple[str, ...], operator: str) -> tuple[Graph, Topology]:
    made = mirrored(graph, node_type, names, operator)
    return made, topology_of(made)


def some(values: np.ndarray, place: torch.Tensor) -> np.ndarray:
    """The values of some queries, given by distinct ascending positions."""
    return values if len(place) == len(values) else values[place.numpy()]
