"""The engine for asyncio."""

import asyncio
import weakref
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from tercet.errors import DeadlineExceeded, InvalidArgument
from tercet.serve.requests import Answer, Request
from tercet.serve.server import Server
from tercet.serve.settling import settle
from tercet.serve.submits import given_of, submit, until
from tercet.serve.switching import as_before, hand_over_soon
from tercet.serve.watching import Watcher

if TYPE_CHECKING:
    from tercet.engine import Engine


class AsyncEngine:
    """An engine whose verbs are awaited; the event loop is never kept waiting.

    Calls from any number of tasks, event loops and threads are gathered into batches, which one worker answers; what
    can share a call does, with settings and filters of its own for each query. Results are the engine's own, to the
    last bit. Each verb takes the arguments of `Engine`'s, and

    - `deadline_s`: seconds, after which it raises `DeadlineExceeded`;
    - `scope`: names of datasets, see `Engine.scope`;
    - `tenant`: for whom, so that turns go round among tenants; None: the scope.

    While one is open, Python's threads hand over after 0.5 ms instead of 5 (`sys.setswitchinterval`), since a loop
    would wait that long for its turn. What else stops a loop is Python's collector: call `gc.freeze()` once everything
    is loaded, so that it doesn't look through all of it again and again.

    One text, vector, or list of seeds or waypoints gives one result; a list of them gives a list.

    Args:
        engine: the engine; it stays its owner's, who closes it.
        max_batch: queries in a batch at most.
        max_wait_ms: a batch that isn't full waits so long for more at most, when nothing else is due.
        queue: queries that wait at most.
        when_full: "raise" `QueueFull`, or "wait" for room, until the deadline.
        cache: results kept, of the current version; 0 keeps none. (Query vectors are kept by the engine.)
        render: look up texts and facts of all results in the worker, so that using one costs the loop next to nothing.
        metrics: True, or a Prometheus registry, to count and time what happens.
        tracing: True, or an OpenTelemetry tracer, for spans of batches.

    Raises:
        InvalidArgument: a number below the least that makes sense.
        MissingDependency: metrics or tracing without their package.
    """

    def __init__(
        self,
        engine: "Engine",
        *,
        max_batch: int = 256,
        max_wait_ms: float = 2.0,
        queue: int = 10_000,
        when_full: Literal["raise", "wait"] = "raise",
        cache: int = 0,
        render: bool = True,
        metrics: Any = None,
        tracing: Any = None,
    ) -> None:
        if when_full not in ("raise", "wait"):
            raise InvalidArgument(f"when_full: expected 'raise' or 'wait', got {when_full!r}")
        self.when_full = when_full
        held = _Held(engine)
        self._held = held
        self._server = Server(
            held, max_batch=max_batch, max_wait_ms=max_wait_ms, queue=queue, cache=cache, render=render,
            watchers=_watchers(metrics, tracing),
        )  # fmt: skip
        hand_over_soon()
        self._finalizer = weakref.finalize(self, _end, self._server)

    @property
    def engine(self) -> "Engine":
        """The engine that answers."""
        return self._held.engine

    @property
    def depth(self) -> int:
        """Queries that wait."""
        return self._server.depth

    async def recall(self, queries: Any = None, *, vectors: Any = None, **arguments: Any) -> Any:
        """See `Engine.recall`."""
        return await self._ask("recall", given_of(queries, vectors, arguments))

    async def semantic_search(self, queries: Any = None, k: Any = 10, **arguments: Any) -> Any:
        """See `Engine.semantic_search`."""
        return await self._ask("semantic_search", given_of(queries, None, {"k": k, **arguments}))

    async def text_search(self, queries: Any, k: Any = 10, **arguments: Any) -> Any:
        """See `Engine.text_search`."""
        return await self._ask("text_search", given_of(queries, None, {"k": k, **arguments}))

    async def hybrid_search(self, queries: Any, k: Any = 10, **arguments: Any) -> Any:
        """See `Engine.hybrid_search`."""
        return await self._ask("hybrid_search", given_of(queries, None, {"k": k, **arguments}))

    async def passage_search(self, queries: Any = None, k: Any = 10, **arguments: Any) -> Any:
        """See `Engine.passage_search`."""
        return await self._ask("passage_search", given_of(queries, None, {"k": k, **arguments}))

    async def semantic_subgraph(self, queries: Any = None, k: Any = 10, **arguments: Any) -> Any:
        """See `Engine.semantic_subgraph`."""
        return await self._ask("semantic_subgraph", given_of(queries, None, {"k": k, **arguments}))

    async def text_subgraph(self, queries: Any, k: Any = 10, **arguments: Any) -> Any:
        """See `Engine.text_subgraph`."""
        return await self._ask("text_subgraph", given_of(queries, None, {"k": k, **arguments}))

    async def hybrid_subgraph(self, queries: Any, k: Any = 10, **arguments: Any) -> Any:
        """See `Engine.hybrid_subgraph`."""
        return await self._ask("hybrid_subgraph", given_of(queries, None, {"k": k, **arguments}))

    async def subgraph(self, seeds: Any, **arguments: Any) -> Any:
        """See `Engine.subgraph`."""
        return await self._ask("subgraph", {"seeds": seeds, **arguments})

    async def rank_subgraph(self, seeds: Any, **arguments: Any) -> Any:
        """See `Engine.rank_subgraph`."""
        return await self._ask("rank_subgraph", {"seeds": seeds, **arguments})

    async def path_context(self, waypoints: Any, k: int = 3, max_hops: int = 3, **arguments: Any) -> Any:
        """See `Engine.path_context`."""
        return await self._ask("path_context", {"waypoints": waypoints, "k": k, "max_hops": max_hops, **arguments})

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
        """The same worker for threads; see `Engine.submit`."""
        return submit(self._server, verb, given_of(queries, vectors, arguments), deadline_s, scope, tenant, block)

    def swap(self, engine: "Engine") -> "Engine":
        """Answer from another engine, from the next batch on; what waits isn't lost.

        Returns:
            the engine before, which its owner may close: batches that run keep what they need.
        """
        before, self._held.engine = self._held.engine, engine
        return before

    async def aclose(self, *, drain: bool = True) -> None:
        """Take no more calls, and wait until the worker has ended.

        Args:
            drain: answer what waits; else it fails with `EngineClosed`.
        """
        await asyncio.to_thread(self._server.close, drain=drain)
        self._finalizer()  # the server is closed already; the rest of `_end` remains

    async def __aenter__(self) -> "AsyncEngine":
        return self

    async def __aexit__(self, *failure: object) -> None:
        await self.aclose()

    async def _ask(self, verb: str, given: dict[str, Any]) -> Any:
        deadline_s, scope, tenant = (given.pop(name, None) for name in ("deadline_s", "scope", "tenant"))
        server = self._server
        call = server.read(verb, given, scope, tenant)
        kept = server.kept(call)
        if kept is not None:
            await asyncio.sleep(0)  # who asks for what is kept again and again lets others have their turn
            return kept
        loop = asyncio.get_running_loop()
        answer = Answer(loop.create_future(), loop, until(deadline_s), call.single)
        requests = server.offer(call, answer)
        if requests is None:
            if self.when_full == "raise":
                raise server.full()
            requests = await _when_room(server, partial(server.offer, call, answer, waited=True), verb, deadline_s)
        return await _answered(server, requests, answer, deadline_s)


class _Held:
    """The engine that answers; called by the worker, which mustn't hold on to the `AsyncEngine`."""

    def __init__(self, engine: "Engine") -> None:
        self.engine = engine

    def __call__(self) -> "Engine":
        return self.engine


def _end(server: Server) -> None:
    server.close(drain=False)
    as_before()


async def _answered(server: Server, requests: list[Request], answer: Answer, deadline_s: float | None) -> Any:
    """The answer, or `DeadlineExceeded` at the deadline; whoever stops waiting takes the requests back."""
    loop = asyncio.get_running_loop()
    timer = None
    if deadline_s is not None:
        error = DeadlineExceeded(f"{requests[0].verb}: no answer within {deadline_s} s")
        timer = loop.call_later(deadline_s, settle, [(answer.future, None, error)])
    try:
        return await answer.future
    except (asyncio.CancelledError, DeadlineExceeded) as stopped:
        server.discard(requests)
        if isinstance(stopped, DeadlineExceeded):
            server.refuse(stopped)
        raise
    finally:
        if timer is not None:
            timer.cancel()


async def _when_room(
    server: Server, offer: Callable[[], list[Request] | None], verb: str, deadline_s: float | None
) -> list[Request]:
    """Wait for room in the queue."""
    loop = asyncio.get_running_loop()
    requests = None
    try:
        async with asyncio.timeout(deadline_s):
            while requests is None:
                room: asyncio.Future[None] = loop.create_future()
                server.when_room(partial(_tell, loop, room))
                await room
                requests = offer()
            return requests
    except TimeoutError as stopped:
        error = DeadlineExceeded(f"{verb}: no room in the queue within {deadline_s} s")
        server.refuse(error)
        raise error from stopped
    finally:
        if requests is None:
            server.tell_room()  # it may have been told, and others wait


def _tell(loop: asyncio.AbstractEventLoop, room: "asyncio.Future[None]") -> bool:
    if room.done():
        return False
    try:
        loop.call_soon_threadsafe(settle, [(room, None, None)])
    except RuntimeError:  # the loop was closed, and with it whoever waited
        return False
    return True


def _watchers(metrics: Any, tracing: Any) -> list[Watcher]:
    out: list[Watcher] = []
    if metrics is not None and metrics is not False:
        from tercet.serve.metrics import Metrics

        out.append(Metrics(None if metrics is True else metrics))
    if tracing is not None and tracing is not False:
        from tercet.serve.tracing import Tracing

        out.append(Tracing(None if tracing is True else tracing))
    return out
