"""The server: a queue, a thread that owns the device, and a thread that encodes texts while the first one searches."""

import asyncio
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tercet.errors import DeadlineExceeded, EngineClosed, ForkedProcess, InvalidArgument, QueueFull
from tercet.serve.cache import ResultCache
from tercet.serve.encoded import encode_ahead
from tercet.serve.requests import Answer, Call, Request, read_call, requests_of, scope_of
from tercet.serve.run import Outcome, run_batch
from tercet.serve.settling import Settled, late, settle, settle_in_turns, whole
from tercet.serve.waiting import Waiting
from tercet.serve.watching import Batch, Watcher

if TYPE_CHECKING:
    from tercet.engine import Engine

logger = logging.getLogger(__name__)
CLOSED = "the engine doesn't take requests any more: it was closed"


class Server:
    """Takes requests from any thread or event loop, and answers them in batches.

    Args:
        engine: tells the engine that answers, which may become another one; None when there is none any more.
        max_batch: queries in a batch at most.
        max_wait_ms: a batch that isn't full waits so long for more at most; 0 doesn't wait.
        queue: queries that wait at most, before more are refused.
        cache: results kept.
        render: look up texts and facts of the results in the worker.
        watchers: see `Watcher`.

    Raises:
        InvalidArgument: a number below the least that makes sense.
    """

    def __init__(
        self,
        engine: "Callable[[], Engine | None]",
        *,
        max_batch: int = 256,
        max_wait_ms: float = 2.0,
        queue: int = 10_000,
        cache: int = 0,
        render: bool = True,
        watchers: Sequence[Watcher] = (),
    ) -> None:
        for name, value, least in (("max_batch", max_batch, 1), ("queue", queue, 1)):
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise InvalidArgument(f"{name}: expected an integer of at least {least}, got {value!r}")
        if isinstance(max_wait_ms, bool) or not isinstance(max_wait_ms, (int, float)) or not 0 <= max_wait_ms < 1e6:
            raise InvalidArgument(f"max_wait_ms: expected milliseconds of at least 0, got {max_wait_ms!r}")
        self.engine, self.max_batch, self.capacity, self.render = engine, max_batch, queue, render
        self.cache = ResultCache(cache, max_batch)
        self.watchers = tuple(watchers)
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._encoding = Waiting(self._lock, max_batch, 0.0, final=False)
        self._searching = Waiting(self._lock, max_batch, max_wait_ms / 1e3)
        self._room: deque[Callable[[], bool]] = deque()  # those who wait for room
        self._closed = False
        self._threads: list[threading.Thread] = []

    @property
    def depth(self) -> int:
        """Queries that wait."""
        return self._encoding.size + self._searching.size

    def read(self, verb: str, given: Mapping[str, Any], scope: Any, tenant: Hashable) -> Call:
        """Check a call; see `read_call`. The tenant of a call without one is its scope.

        Raises:
            InvalidArgument: the call is wrong.
            EngineClosed: no more calls are taken.
            ForkedProcess: the server was made by another process.
        """
        names = scope_of(scope)
        rules = self._alive().rules
        return read_call(rules, verb, given, names, names if tenant is None else tenant, keyed=self.cache.capacity > 0)

    def kept(self, call: Call) -> Any | None:
        """The result of a call, if it is kept."""
        if call.key is None:
            return None
        found = self.cache.get(self._alive().state, call.key)
        self._tell("looked_up", found is not None)
        return found

    def offer(self, call: Call, answer: Answer, *, waited: bool = False) -> list[Request] | None:
        """Queue a call.

        Args:
            waited: it has waited for room and was told of some; others don't go before those who wait.

        Returns:
            its requests, or None where there is no room for them.

        Raises:
            EngineClosed: no more calls are taken.
        """
        engine = self._alive()
        encode = engine.encoder is not None
        requests = requests_of(call, answer, self.max_batch)
        now = time.monotonic()
        with self._lock:
            if self._closed:
                raise EngineClosed(CLOSED)
            if self.depth and (self.depth + call.count > self.capacity or (self._room and not waited)):
                return None
            for r in requests:
                r.arrived, r.keeps = now, engine
                (self._encoding if encode and r.texts else self._searching).put(r)
            if not self._threads:
                self._start()
            depth = self.depth
        self._tell("submitted", requests, depth)
        return requests

    def full(self) -> QueueFull:
        """The error of a call that there is no room for."""
        error = QueueFull(f"{self.depth} queries wait already, of {self.capacity} that may; ask later, or slower")
        self.refuse(error)
        return error

    def refuse(self, error: BaseException) -> None:
        """Tell the watchers of a call that wasn't answered."""
        self._tell("refused", error)

    def when_room(self, call: Callable[[], bool]) -> None:
        """Have something called, in any thread, once there may be room again or the server was closed.

        Args:
            call: False if nobody waits any more; one who was told, but has no use for it, calls `tell_room`.
        """
        with self._lock:
            self._room.append(call)
        self.tell_room()

    def tell_room(self) -> None:
        """Tell those who wait for room, in order, as far as there is some."""
        with self._lock:
            free = len(self._room) if self._closed else self.capacity - self.depth
        while free > 0:
            try:
                call = self._room.popleft()
            except IndexError:
                return
            free -= call()

    def discard(self, requests: Sequence[Request]) -> None:
        """Take back what is in no batch yet."""
        with self._lock:
            for r in requests:
                if r.lane is not None:
                    r.lane.discard(r)
        self.tell_room()

    def close(self, *, drain: bool = True, timeout: float | None = None) -> None:
        """Take no more calls, and wait for the workers to end.

        Args:
            drain: answer what waits; else it fails with `EngineClosed`.
            timeout: seconds to wait for the workers at most.
        """
        with self._lock:
            self._closed = True
            dropped = [] if drain else self._encoding.clear() + self._searching.clear()
            self._encoding.end()
            if not self._threads:
                self._searching.end()
        self._settle([(r.answer.future, None, EngineClosed(CLOSED)) for r in dropped], dropped)
        self.tell_room()
        until = None if timeout is None else time.monotonic() + timeout
        for thread in self._threads:
            if thread is not threading.current_thread() and self._pid == os.getpid():
                thread.join(None if until is None else max(0.0, until - time.monotonic()))

    def _alive(self) -> "Engine":
        if os.getpid() != self._pid:
            raise ForkedProcess(
                f"this server belongs to process {self._pid}, and its threads aren't here (process {os.getpid()}): "
                "make the engine after the fork, or start processes with 'spawn'"
            )
        engine = self.engine()
        if self._closed or engine is None:
            raise EngineClosed(CLOSED)
        return engine

    def _start(self) -> None:
        for name, target in (("tercet-encode", self._encode), ("tercet-search", self._search)):
            self._threads.append(threading.Thread(target=target, name=name, daemon=True))
        for thread in self._threads:
            thread.start()

    def _encode(self) -> None:
        while self._encode_next():  # nothing of a batch is held while the next one is waited for
            continue
        with self._lock:
            self._searching.end()

    def _encode_next(self) -> bool:
        taken = self._encoding.take()
        if taken is not None:
            self._refuse_late(taken.late)
            self._encode_batch(taken.batch)
        return taken is not None

    def _encode_batch(self, batch: list[Request]) -> None:
        engine = self.engine()
        encoder = None if engine is None else engine.encoder
        begin = time.monotonic()
        if encoder is not None and batch:
            try:
                encode_ahead(encoder, batch)
            except BaseException:  # raised again where it is known whose text it was
                encoder = None
        with self._lock:
            for r in batch:
                if not r.answer.future.done():
                    self._searching.put(r)
        if encoder is not None:
            self._tell("encoded", batch, sum(len(r.texts) for r in batch), begin, time.monotonic())

    def _search(self) -> None:
        while self._search_next():
            continue

    def _search_next(self) -> bool:
        taken = self._searching.take()
        if taken is not None:
            self.tell_room()
            self._refuse_late(taken.late)
            if taken.batch:
                self._answer(taken.batch, len(taken.late))
        return taken is not None

    def _answer(self, batch: list[Request], num_late: int) -> None:
        engine, begin, version = self.engine(), time.monotonic(), 0
        try:
            if engine is None:
                raise EngineClosed(CLOSED)
            view = engine.view()
        except EngineClosed as error:
            outcomes = [Outcome(r, None, error) for r in batch]
        else:
            version, state = view.version, view.state
            try:
                outcomes = run_batch(view, batch, self.render)
            except BaseException as error:  # the worker must live on, whatever it was
                outcomes = [Outcome(r, None, error) for r in batch]
            self._keep(state, outcomes)
        if self.watchers:
            self._tell("answered", Batch(outcomes, begin, time.monotonic(), version, num_late), self.depth)
        self._deliver(outcomes)

    def _keep(self, state: Any, outcomes: Sequence[Outcome]) -> None:
        if not self.cache.capacity:
            return
        self.cache.renew(state)
        for o in outcomes:
            if o.request.key is not None and o.results is not None and o.results[0].status != "failed":
                result = o.results[0]
                self.cache.put(state, o.request.key, result, getattr(result, "recall", None) or result.batch)

    def _deliver(self, outcomes: Sequence[Outcome]) -> None:
        settled: list[Settled] = []
        now = time.monotonic()
        for o in outcomes:
            answer = o.request.answer
            if o.error is None and answer.deadline is not None and answer.deadline <= now:
                settled.append((answer.future, None, late(o.request)))
            elif o.error is not None:
                settled.append((answer.future, None, o.error))
            else:
                value = whole(answer, o)
                if value is not None:
                    settled.append((answer.future, value, None))
        self._settle(settled, [o.request for o in outcomes])

    def _tell(self, event: str, *facts: Any) -> None:
        """Tell the watchers; what goes wrong there is written to the log, and harms no request."""
        for w in self.watchers:
            try:
                getattr(w, event)(*facts)
            except Exception:  # another package's code, of which the answers must not depend
                logger.exception("%s.%s failed", type(w).__name__, event)

    def _refuse_late(self, requests: Sequence[Request]) -> None:
        if requests:
            self._settle([(r.answer.future, None, late(r)) for r in requests], requests)

    def _settle(self, settled: Sequence[Settled], requests: Sequence[Request]) -> None:
        """Give futures their results: those of an event loop all in one call."""
        loop_of = {}
        for r in requests:
            loop_of[r.answer.future] = r.answer.loop
            r.keeps = None  # a future may be held for long
        by_loop: dict[asyncio.AbstractEventLoop, list[Settled]] = {}
        for entry in settled:
            loop = loop_of[entry[0]]
            if loop is None:
                if isinstance(entry[2], DeadlineExceeded):
                    self.refuse(entry[2])  # in a loop, those who wait tell it themselves
                settle([entry])
            else:
                by_loop.setdefault(loop, []).append(entry)
        for loop, entries in by_loop.items():
            try:
                loop.call_soon_threadsafe(settle_in_turns, loop, entries)
            except RuntimeError:  # the loop was closed, with everybody who waited in it
                continue
