"""The verb of an engine that hands a call to its worker."""

import threading
import time
import weakref
from collections.abc import Hashable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, Any

from tercet.errors import DeadlineExceeded, InvalidArgument
from tercet.state import Versioned

if TYPE_CHECKING:
    from tercet.serve.server import Server

_making = threading.Lock()


class Submits(Versioned):
    """Calls that are answered in batches by a thread of the engine's own."""

    _server: "tuple[weakref.ref[Any], Server] | None" = None  # and whose it is: views copy it

    def submit(
        self,
        verb: str = "recall",
        queries: str | Sequence[str] | None = None,
        *,
        vectors: Any = None,
        deadline_s: float | None = None,
        scope: str | Sequence[str] | None = None,
        tenant: Hashable = None,
        block: bool = False,
        **arguments: Any,
    ) -> "Future[Any]":
        """Ask from any thread; calls are gathered into batches, and answered by one worker that owns the device.

        Args:
            verb: which method answers: recall, passage_search, path_context, subgraph, rank_subgraph, and semantic_,
                text_ and hybrid_search and _subgraph.
            queries: one text or a list of texts. vectors: as in the verb.
            deadline_s: seconds from now, after which an answer is no use any more.
            scope: names of datasets; see `Engine.scope`.
            tenant: for whom, so that turns go round; None: the scope.
            block: wait while the queue is full, until the deadline; else the call is refused.
            arguments: of the verb (`seeds` of the subgraphs, `waypoints` of path_context).

        Returns:
            a future. It has one result for one query, a list for a list, the same as the verb's own. It can be
            cancelled while it isn't in a batch. It fails with `DeadlineExceeded`, or with what the verb raises.

        Raises:
            InvalidArgument: the call is wrong.
            QueueFull: too much waits already.
            EngineClosed: the engine was closed.
            ForkedProcess: the engine's worker is in the process that this one was forked from.
        """
        given = given_of(queries, vectors, arguments)
        return submit(self._serve(), verb, given, deadline_s, scope, tenant, block)

    def close(self) -> None:
        """Answer what was submitted, and let go of everything; later calls raise `EngineClosed`."""
        held = self.__dict__.get("_server")
        if held is not None and held[0]() is self:
            held[1].close()
        super().close()  # type: ignore[misc]

    def _serve(self) -> "Server":
        """The worker, made at the first call."""
        held = self.__dict__.get("_server")
        if held is not None and held[0]() is self:
            server: Server = held[1]
            return server
        from tercet.serve import server as serving

        with _making:
            held = self.__dict__.get("_server")
            if held is None or held[0]() is not self:
                _ = self.state  # refuses an engine that was closed
                me: weakref.ref[Any] = weakref.ref(self)
                held = me, serving.Server(me)
                weakref.finalize(self, held[1].close, drain=False)
                self.__dict__["_server"] = held
            made: Server = held[1]
            return made


def given_of(queries: Any, vectors: Any, arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a call that were given."""
    if queries is not None:
        arguments["queries"] = queries
    if vectors is not None:
        arguments["vectors"] = vectors
    return arguments


def until(deadline_s: float | None) -> float | None:
    """A deadline by `time.monotonic`.

    Raises:
        InvalidArgument: no number of at least 0.
    """
    if deadline_s is None:
        return None
    if isinstance(deadline_s, bool) or not isinstance(deadline_s, (int, float)) or not deadline_s >= 0:
        raise InvalidArgument(f"deadline_s: expected seconds of at least 0, got {deadline_s!r}")
    return time.monotonic() + deadline_s


def submit(
    server: "Server",
    verb: str,
    given: Mapping[str, Any],
    deadline_s: float | None,
    scope: Any,
    tenant: Hashable,
    block: bool,
) -> "Future[Any]":
    """Queue a call of a thread; see `Engine.submit`."""
    from tercet.serve.requests import Answer

    call = server.read(verb, given, scope, tenant)
    future: Future[Any] = Future()
    kept = server.kept(call)
    if kept is not None:
        future.set_result(kept)
        return future
    answer = Answer(future, None, until(deadline_s), call.single)
    requests = server.offer(call, answer)
    while requests is None:
        if not block:
            raise server.full()
        _wait_for_room(server, verb, answer.deadline, deadline_s)
        requests = server.offer(call, answer, waited=True)
    future.add_done_callback(partial(_done, server, requests))
    return future


def _done(server: "Server", requests: list[Any], future: "Future[Any]") -> None:
    """Take back what nobody waits for, and let go: a future keeps its callbacks, and requests hold on to it."""
    if future.cancelled():
        server.discard(requests)
    requests.clear()


def _wait_for_room(server: "Server", verb: str, deadline: float | None, deadline_s: float | None) -> None:
    told, gone = threading.Event(), threading.Event()

    def tell() -> bool:
        told.set()
        return not gone.is_set()

    server.when_room(tell)
    if told.wait(None if deadline is None else deadline - time.monotonic()):
        return
    gone.set()
    if told.is_set():  # just now, and by one who counts on its use
        server.tell_room()
    error = DeadlineExceeded(f"{verb}: no room in the queue within {deadline_s} s")
    server.refuse(error)
    raise error
