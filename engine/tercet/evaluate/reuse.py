"""One search for many recalls of the same queries: a search at the largest limit, of which smaller ones are prefixes.

An exact index returns its rows by (distance, row), with distances that don't depend on how many are asked for, so the
first k of a longer list are the list of k, bit for bit. Approximate indexes don't promise that and are searched again,
and so are searches with a filter.

A recall that reused a search is charged what the search would have taken by itself, so that its speed can be compared:
the time for its own limit, which is measured on the first partition of a process, once for all recalls with that limit.
"""

import time
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from tercet.index.exact import ExactIndex
from tercet.planner import Planner


@dataclass(eq=False)
class Kept:
    """What has been searched for the queries at hand, shared by the indexes of an engine."""

    widest: int  # rows to search at least, so that later recalls find theirs among them
    charged: float = 0.0  # seconds that the searches since the last `take` would have taken more than they did
    reused: int = 0  # searches that weren't needed
    active: bool = False
    found: dict[int, tuple[torch.Tensor, torch.Tensor, torch.Tensor]] = field(default_factory=dict)  # by index
    rates: dict[tuple[int, int], float] = field(default_factory=dict)  # seconds a query, by index and limit

    def take(self) -> float:
        """The seconds to be charged, which are forgotten here."""
        charged, self.charged = self.charged, 0.0
        return charged

    def forget(self) -> None:
        """Other queries come."""
        self.found.clear()


@dataclass(frozen=True, eq=False)
class KeptIndex(ExactIndex):
    """An exact index that looks among what it found before. Made by `sharing`."""

    base: ExactIndex | None = None
    kept: Kept | None = None

    @property
    def codes(self) -> Any:  # type: ignore[override]
        assert self.base is not None
        return self.base.codes

    def search(
        self,
        queries: torch.Tensor,
        k: int,
        allowed: torch.Tensor | None = None,
        allowed_row: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        base, kept = self.base, self.kept
        assert base is not None
        assert kept is not None
        if not kept.active or allowed is not None or not queries.shape[0]:
            return base.search(queries, k, allowed, allowed_row)
        k = min(k, self.size)
        have = kept.found.get(id(self))
        spent = 0.0
        if have is None or have[1].shape[1] < k or have[0].shape != queries.shape or not torch.equal(have[0], queries):
            width = min(max(k, kept.widest), self.size)
            begin = time.perf_counter()
            have = (queries, *base.search(queries, width))
            _finish(queries)
            spent = time.perf_counter() - begin
            kept.found[id(self)] = have
            if width == k:
                return have[1], have[2]
        else:
            kept.reused += 1
        kept.charged += self._rate(queries, k) * queries.shape[0] - spent
        return have[1][:, :k].contiguous(), have[2][:, :k].contiguous()

    def _rate(self, queries: torch.Tensor, k: int) -> float:
        """Seconds a query of a search for k rows; the time it takes to measure is taken off what is charged."""
        base, kept = self.base, self.kept
        assert base is not None
        assert kept is not None
        key = (id(self), k)
        if key not in kept.rates:
            _finish(queries)
            begin = time.perf_counter()
            base.search(queries, k)
            _finish(queries)
            spent = time.perf_counter() - begin
            kept.charged -= spent
            kept.rates[key] = spent / queries.shape[0]
        return kept.rates[key]


def sharing(engine: Any, kept: Kept) -> Any:
    """A view of an engine whose exact indexes share what they find through `kept`."""
    state = engine.state
    made = {id(c): _kept(c, kept) for c in state.collections}
    bound = [replace(b, collection=made[id(b.collection)]) for b in state.planner.bound]
    collections = [made[id(c)] for c in state.collections]
    planner = Planner(state.graph, collections, state.planner.rules, bound)
    planner.unread = state.planner.unread
    view = engine.view()
    view._state = replace(state, collections=collections, planner=planner)
    return view


def _kept(collection: Any, kept: Kept) -> Any:
    index = collection.index
    if type(index) is not ExactIndex:
        return collection
    return replace(collection, index=KeptIndex(index.vectors, index.scale, index.hidden, index.stored, index, kept))


def _finish(queries: torch.Tensor) -> None:
    if queries.device.type == "cuda":
        torch.cuda.synchronize(queries.device)
