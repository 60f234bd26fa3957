"""Updates of an engine in memory: nodes, edges and vectors that come and go, a new version at a time.

A transaction works on values of its own and publishes them in one step, so a reader sees all of it or nothing; readers
never wait. What an update costs: what it brings, and passes over flat arrays of the graph and of the row maps.
"""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch

from tercet.candidates import rebound
from tercet.carried import Carried, Since
from tercet.collection import Collection, encode_rows
from tercet.collection_update import Moved, added_rows, changed_rows, compacted, rows_of_owners
from tercet.errors import EngineClosed, InvalidArgument, InvalidData, UnknownId
from tercet.given_rows import edge_rows, node_rows
from tercet.graph_update import Change, changed
from tercet.ids import canonical_ids
from tercet.planner import Planner
from tercet.retrieve.fts import FtsIndex
from tercet.retrieve.lexical import LexicalIndex
from tercet.retrieve.words import hand_over
from tercet.splice import Splice
from tercet.state import State, Versioned
from tercet.tables import texts as text_column

if TYPE_CHECKING:
    from tercet.encoder import Encoder
    from tercet.rules import Rules

Missing = Literal["error", "ignore"]
Rows = Mapping[str, tuple[Any, Any]]
ENDS = ("source", "target")
BLANK = np.zeros(0, np.int32)


class Updates(Versioned):
    """The verbs of an engine that change it."""

    rules: "Rules"
    device: "torch.device"
    encoder: "Encoder | None"
    scoped_to: tuple[str, ...] | None
    _writing: threading.Lock

    def upsert(
        self, nodes: Any = None, edges: Any = None, vectors: Rows | None = None, *, texts: Rows | None = None
    ) -> int:
        """Insert or replace nodes, edges and vectors; see `Transaction.upsert`. Returns the new version."""
        with self.transaction() as t:
            t.upsert(nodes, edges, vectors, texts=texts)
        return t.version

    def delete(self, nodes: Any = None, edges: Any = None, *, missing: Missing = "error") -> int:
        """Delete nodes and edges with all that belongs to them; see `Transaction.delete`. Returns the new version."""
        with self.transaction() as t:
            t.delete(nodes, edges, missing=missing)
        return t.version

    def transaction(self) -> "Transaction":
        """Several updates as one: `with engine.transaction() as t: t.upsert(...); t.delete(...)`.

        The next version is there when the block ends; an exception inside leaves the engine as it was. One transaction
        at a time: another thread's waits.
        """
        if self.scoped_to is not None:
            raise InvalidArgument(
                f"transaction: this engine is the scope {', '.join(self.scoped_to)}; update the engine that it is of"
            )
        return Transaction(self)

    def compact(self) -> int:
        """Put the vectors of each collection into one piece again and let go of what was deleted; a new version."""
        with self.transaction() as t:
            t.compact()
        return t.version

    @contextmanager
    def alone(self, what: str) -> Iterator[None]:
        """A writer's turn: no transaction is open, and none begins before the end.

        Raises:
            InvalidArgument: this thread has a transaction open itself.
        """
        _enter(self._writing, what)
        try:
            yield
        finally:
            _leave(self._writing)

    def close(self) -> None:
        """Let go of everything; calls that run already finish, later ones raise `EngineClosed`."""
        with self.alone("close"):
            self._state = None
            self.encoder = None


class Transaction:
    """Updates that become one version; made by `Engine.transaction`."""

    def __init__(self, engine: Updates) -> None:
        self._engine = engine
        self._open = False
        self.version = 0  # that of the engine after the transaction

    def __enter__(self) -> "Transaction":
        held = self._engine._writing
        _enter(held, "transaction")
        try:
            state = self._engine.state
        except EngineClosed:
            _leave(held)
            raise
        self._open, self._state = True, state
        self._graph, self._collections = state.graph.to("cpu"), list(state.collections)
        keep = self._engine.rules.unknown_owners == "keep"  # then an owner may have no row, and all are looked up again
        self._owned = [] if keep else [b.owner.cpu().numpy() for b in state.planner.bound]
        self._owners = None if keep else list(self._owned)
        self._since = Since(tuple(Carried() for _ in self._collections))  # since the transaction began
        self._touched = self._renumbered = False
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        held = self._engine._writing
        self._open = False
        try:
            if kind is None and self._touched:
                self._engine._state = self._published()
            self.version = self._state.version if self._engine._state is None else self._engine._state.version
        finally:
            # an old version isn't kept by a transaction
            for name in ("_state", "_graph", "_collections", "_owned", "_owners", "_since"):
                self.__dict__.pop(name, None)
            _leave(held)

    def upsert(
        self, nodes: Any = None, edges: Any = None, vectors: Rows | None = None, *, texts: Rows | None = None
    ) -> None:
        """Insert what is new and replace what is there: nodes first, then edges, then vectors.

        Columns that aren't given stay as they are, and are missing (or the default) for new rows.

        Args:
            nodes: a table as for `Graph.from_tables`. A node is known by its id.
            edges: likewise. An edge is known by its id, or, without one, by its ends, relation and edge text (a missing
                text is one too); with ids, ends and relation may be left out. Weights replace those that were there.
            vectors: by collection (owners, (V, D) vectors): node ids or relation texts, as for `Collection.build`. They
                replace all rows of these owners.
            texts: by collection (owners, texts), encoded by the engine's encoder.

        Raises:
            InvalidData, InvalidArgument, DimensionMismatch: as at import; nothing is changed then.
        """
        with self._step():
            if nodes is not None:
                check_words(self._state.lexical)
            if nodes is not None or edges is not None:
                self._changed(changed(self._graph, nodes, edges))
            for name, (owner, rows) in _by_name("vectors", vectors).items():
                self._put(name, owner, rows)
            for name, (owner, strings) in _by_name("texts", texts).items():
                self._put(name, owner, self._encoded(name, strings))

    def delete(self, nodes: Any = None, edges: Any = None, *, missing: Missing = "error") -> None:
        """Delete nodes, with their edges, vectors and text, and edges.

        Args:
            nodes: ids.
            edges: edge ids; or a table with the column `id`; or one with `source`, `relation` and `target`, a row of
                which stands for every such edge, with `edge_text` for those of that text.
            missing: "error", or "ignore" what isn't there.

        Raises:
            UnknownId: a node or edge isn't there; nothing is changed then.
        """
        if missing not in ("error", "ignore"):
            raise InvalidArgument(f"missing: expected 'error' or 'ignore', got {missing!r}")
        with self._step():
            gone = self._node_rows(nodes, missing), self._edge_rows(edges, missing)
            if len(gone[0]):
                check_words(self._state.lexical)
            self._changed(changed(self._graph, deleted_nodes=gone[0], deleted_edges=gone[1]))

    def compact(self) -> None:
        """See `Updates.compact`."""
        with self._step():
            self._collections = [compacted(c) for c in self._collections]
            self._since = replace(self._since, compacted=True)

    @contextmanager
    def _step(self) -> Iterator[None]:
        """One update: if it fails, the transaction is as it was before."""
        if not self._open:
            raise InvalidArgument("transaction: it is over; open another one with engine.transaction()")
        owners = None if self._owners is None else list(self._owners)
        held = self._graph, list(self._collections), owners, self._since
        try:
            yield
        except BaseException:
            self._graph, self._collections, self._owners, self._since = held
            raise
        self._touched = True

    def _node_rows(self, nodes: Any, missing: Missing) -> np.ndarray:
        if nodes is None:
            return np.zeros(0, np.int64)
        if isinstance(nodes, str):
            raise InvalidArgument(f"nodes: expected a list of ids, got {nodes!r}")
        ids = canonical_ids(nodes, "nodes")
        rows = node_rows(self._graph, ids)
        unknown = np.flatnonzero(rows < 0)
        if len(unknown) and missing == "error":
            first, count = ids[int(unknown[0])].as_py(), f"{len(unknown)} of {len(ids)} unknown"
            raise UnknownId(f"nodes: the graph has no node with the id {first!r} ({count})")
        return np.unique(rows[rows >= 0])

    def _edge_rows(self, edges: Any, missing: Missing) -> np.ndarray:
        if edges is None:
            return np.zeros(0, np.int64)
        rows, unknown = edge_rows(self._graph, edges)
        if unknown.any() and missing == "error":
            first = int(np.argmax(unknown))
            raise UnknownId(f"edges: the graph has none that agrees with entry {first} ({unknown.sum()} such entries)")
        return rows

    def _changed(self, change: Change) -> None:
        """Carry the collections over to a changed graph: without the rows of deleted nodes."""
        before, self._graph = self._graph, change.graph
        anew = self._since.anew or before.options != change.graph.options  # then all titles are made again
        self._since = replace(
            self._since, nodes=self._since.nodes.through(change.nodes), edges=self._since.edges.through(change.edges),
            anew=anew,
        )  # fmt: skip
        rows = change.node_rows
        self._renumbered |= rows is not None or change.key_rows is not None
        lost = np.zeros(0, bool) if rows is None else rows < 0
        gone_ids = before.ids.filter(pa.array(lost)) if lost.any() else None
        for i, c in enumerate(self._collections):
            owner = None if self._owners is None else self._owners[i]
            if c.kind == "relation":
                if self._owners is not None and owner is not None:
                    self._owners[i] = self._keys(c, owner, change)
                continue
            if gone_ids is not None:
                gone = np.flatnonzero(lost[owner]) if owner is not None else rows_of_owners(c, gone_ids)
                if len(gone):
                    moved = changed_rows(c, gone, None)
                    self._moved(i, moved)
                    owner = None if owner is None else owner_column(moved.splice, owner, BLANK)
            if self._owners is not None and owner is not None:
                self._owners[i] = rows[owner] if rows is not None and len(owner) else owner

    def _moved(self, at: int, moved: Moved) -> None:
        carried = self._since.collections[at].through(moved.splice.carried)
        self._since = self._since.moved(at, carried)
        self._collections[at] = moved.collection

    def _keys(self, c: Collection, owner: np.ndarray, change: Change) -> np.ndarray:
        """(V,) int32 relation keys of a collection's rows: only texts without a key are looked up."""
        rows = change.key_rows
        if rows is None:
            return owner
        out = np.where(owner < 0, -1, rows[owner] if len(rows) else -1).astype(np.int32)
        open_ = np.flatnonzero(owner < 0)
        if len(open_):
            found = pc.index_in(c.owner.take(pa.array(open_)), value_set=change.graph.keys)
            out[open_] = np.asarray(pc.fill_null(found, -1))
        return out

    def _encoded(self, name: str, strings: Any) -> "torch.Tensor":
        place = f"texts of collection {name!r}"
        encoder = self._engine.encoder
        if encoder is None:
            raise InvalidArgument(f"{place}: the engine has no encoder; give vectors")
        column = text_column(strings, place)
        if column.null_count:
            raise InvalidData(f"{place}: expected texts, got null in row {column.is_null().index(True).as_py()}")
        return encode_rows(encoder, column.to_pylist(), None)

    def _put(self, name: str, owner: Any, rows: Any) -> None:
        at = next((i for i, c in enumerate(self._collections) if c.name == name), None)
        if at is None:
            have = ", ".join(c.name for c in self._collections) or "none"
            raise InvalidArgument(f"vectors: no collection {name!r}; there are {have}")
        held = self._collections[at]
        added = added_rows(held, rows, owner, strip=self._graph.options.strip)
        if not added.size:
            return
        new = self._owner_rows(added)
        moved = changed_rows(held, rows_of_owners(held, added.owner), added)
        self._moved(at, moved)
        if self._owners is not None:
            self._owners[at] = owner_column(moved.splice, self._owners[at], new)

    def _owner_rows(self, added: Collection) -> np.ndarray:
        if added.kind == "relation":
            return np.asarray(pc.fill_null(pc.index_in(added.owner, value_set=self._graph.keys), -1)).astype(np.int32)
        rows = node_rows(self._graph, added.owner).astype(np.int32)
        unknown = np.flatnonzero(rows < 0)
        if len(unknown) and self._owners is not None:
            raise InvalidData(
                f"collection {added.name!r}: {len(unknown)} of {added.size} owners aren't nodes of the graph, "
                f"first {added.owner[int(unknown[0])].as_py()!r}"
            )
        return rows

    def _published(self) -> State:
        engine, graph = self._engine, self._graph
        moved = self._state.graph if graph is self._state.graph else graph.to(engine.device)
        before, bound, unread = self._state.planner, None, None
        if self._owners is not None:
            size = {"relation": len(moved.keys), "node": moved.num_nodes}
            bound = [
                rebound(held, c, owner, size[c.kind], moved.device, same_rows=owner is was)
                for held, c, owner, was in zip(before.bound, self._collections, self._owners, self._owned, strict=True)
            ]
        elif not self._renumbered and all(
            b.collection is c for b, c in zip(before.bound, self._collections, strict=True)
        ):
            bound, unread = before.bound, before.unread
        planner = Planner(moved, self._collections, engine.rules, bound, unread)
        since = self._state.since
        if moved is not self._state.graph and not self._since.anew:
            hand_over(self._state.graph, moved, self._since.nodes)
        return replace(
            self._state, graph=moved, collections=self._collections, planner=planner, version=self._state.version + 1,
            since=None if since is None else since.through(self._since),
        )  # fmt: skip


def owner_column(splice: Splice, owner: np.ndarray, new: np.ndarray) -> np.ndarray:
    """(V',) int32 owners of a changed collection's rows; the same array where they are the same."""
    held = torch.from_numpy(owner)
    made = splice.column(held, new)
    return owner if made is held else made.numpy()


def check_words(lexical: Any) -> None:
    """Refuse to change the nodes under a text index that can't follow.

    Raises:
        InvalidArgument: it was made elsewhere.
    """
    if isinstance(lexical, (LexicalIndex, FtsIndex)):
        raise InvalidArgument(
            f"lexical: nodes can't be changed under a {type(lexical).__name__} that was made elsewhere; give the "
            "engine the columns to index, or lexical=False"
        )


_WRITES = threading.local()  # `locks`: the writer locks that this thread holds


def _enter(lock: threading.Lock, what: str) -> None:
    """Take a writer's turn; a thread that has it already would wait for itself."""
    held = _WRITES.__dict__.setdefault("locks", set())
    if id(lock) in held:
        raise InvalidArgument(f"{what}: this thread has a transaction open on this engine already")
    lock.acquire()
    held.add(id(lock))


def _leave(lock: threading.Lock) -> None:
    _WRITES.locks.discard(id(lock))
    lock.release()


def _by_name(place: str, given: Rows | None) -> Rows:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise InvalidArgument(f"{place}: expected a dict of collection names, got {type(given).__name__}")
    for name, pair in given.items():
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise InvalidArgument(f"{place}[{name!r}]: expected (owners, {place}), got {type(pair).__name__}")
    return given
