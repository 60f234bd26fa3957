"""Scopes: an engine over what belongs to some datasets alone.

A scope is the engine after everything else was deleted, by the same code that deletes, so it answers like an engine
built from those rows alone: nothing else is there to be found, counted, walked over, or weighed in statistics of words.
"""

import threading
from collections import OrderedDict
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch

from tercet.collection_update import changed_rows, compacted
from tercet.datasets import COLUMN, dataset_codes, has_datasets
from tercet.errors import InvalidArgument, UnknownId
from tercet.graph import Graph
from tercet.graph_update import changed
from tercet.planner import Planner
from tercet.retrieve.words import hand_over
from tercet.state import State, Versioned
from tercet.updates import check_words

if TYPE_CHECKING:
    from tercet.engine import Engine
    from tercet.rules import Rules

KEPT = 64  # scopes of a version that are kept, the last used ones
Key = tuple[tuple[str, ...], bool]


class Scopes(Versioned):
    """The part of an engine that knows datasets."""

    rules: "Rules"
    device: torch.device
    _scopes: "Kept"
    scoped_to: tuple[str, ...] | None = None  # the datasets that this engine is a scope of

    def scope(self, *datasets: str, shared: bool = False) -> "Engine":
        """An engine over the nodes and edges of some datasets alone; read-only.

        It answers like an engine that was built of those rows: every verb, projection, text search, path, ranking,
        statistic and trace knows nothing else. It stays as it is when this engine changes; ask again for the next
        version. A scope takes memory for its own rows, and is kept with the version: asking again costs nothing.

        Args:
            datasets: names, from the column `dataset` of the nodes and edges.
            shared: also the nodes that belong to no dataset. Edges belong with both of their ends, unless they carry
                a dataset that isn't named.

        Raises:
            InvalidArgument: no names, or a graph without datasets, or a text index that was made elsewhere.
            UnknownId: a dataset that the graph doesn't have.
        """
        state = self.state
        key = _key(state.graph, datasets, shared)
        out = self.view()
        out._state = self._scopes.get(state, key, lambda: _scoped(state, key, self.rules, self.device))
        out.scoped_to = key[0]
        return out  # type: ignore[return-value]

    def datasets(self) -> pa.Table:
        """A row a dataset, ascending by name: `dataset`, and how many `nodes` and `edges` carry it."""
        graph = self.graph
        names, node, edge = dataset_codes(graph)
        counts = {
            name: np.bincount(codes[codes >= 0], minlength=len(names))
            for name, codes in (("nodes", node), ("edges", edge))
        }
        return pa.table({COLUMN: pa.array(names, pa.large_string()), **counts})


class Kept:
    """Scopes by version, let go with it."""

    def __init__(self) -> None:
        self._of: WeakKeyDictionary[State, OrderedDict[Key, State]] = WeakKeyDictionary()
        self._lock = threading.Lock()

    def get(self, state: State, key: Key, make: Any) -> State:
        """The scope of a version, made at the first call."""
        with self._lock:
            held = self._of.setdefault(state, OrderedDict())
            if key in held:
                held.move_to_end(key)
                return held[key]
        made = make()
        with self._lock:
            held[key] = made
            while len(held) > KEPT:
                held.popitem(last=False)
        return made


def _key(graph: Graph, datasets: tuple[str, ...], shared: bool) -> Key:
    if not datasets:
        raise InvalidArgument("scope: expected the names of one dataset or more, got none")
    if not has_datasets(graph):
        raise InvalidArgument(f"scope: the graph has no datasets; nodes and edges need a column {COLUMN!r}")
    names = dataset_codes(graph)[0]
    for name in datasets:
        if not isinstance(name, str):
            raise InvalidArgument(f"scope: expected names, got {name!r} ({type(name).__name__})")
        if name not in set(names):
            some = ", ".join(map(repr, names[:5])) + (", …" if len(names) > 5 else "")
            raise UnknownId(f"scope: the graph has no dataset {name!r}; it has {some or 'none'}")
    return tuple(sorted(set(datasets))), bool(shared)


def _scoped(state: State, key: Key, rules: "Rules", device: torch.device) -> State:
    """The state without what belongs to others."""
    check_words(state.lexical)
    graph = state.graph.to("cpu")
    names, node, edge = dataset_codes(graph)
    wanted = np.isin(np.arange(-1, len(names)), [names.index(n) for n in key[0]])  # from -1: no dataset
    inside = wanted[node + 1] | ((node < 0) & key[1])
    kept = (edge < 0) | wanted[edge + 1]
    change = changed(graph, deleted_nodes=np.flatnonzero(~inside), deleted_edges=np.flatnonzero(~kept))
    own = replace(change.graph, unread_ends=None)  # ends of edges that were left out, of whomever
    part = own.to(device)
    collections = [_of(c, own) for c in state.collections]
    hand_over(state.graph, part, change.nodes)
    planner = Planner(part, collections, rules)
    return State(part, collections, planner, state.lexical, state.version)


def _of(collection: Any, graph: Graph) -> Any:
    """The rows of a collection whose owners are in the graph, in one piece of their own."""
    have = graph.keys if collection.kind == "relation" else graph.ids
    inside = np.asarray(pc.is_in(collection.owner, value_set=have), bool) if collection.size else np.zeros(0, bool)
    if inside.all():
        return collection
    return compacted(changed_rows(collection, np.flatnonzero(~inside), None).collection)
