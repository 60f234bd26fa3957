"""Several processes that serve one store, for hosts where the processor does the work.

Each process maps the same files, so vectors are in memory once. Requests go to the process with the least to do;
in each of them a worker gathers what comes into batches, as in `AsyncEngine`.
"""

import asyncio
import itertools
import os
import threading
import time
from collections.abc import Hashable, Sequence
from concurrent.futures import Future
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from pickle import PicklingError
from typing import Any

import numpy as np

from tercet.errors import (
    DeadlineExceeded,
    EngineClosed,
    ForkedProcess,
    InvalidArgument,
    QueueFull,
    TercetError,
)
from tercet.serve.forms import form_of
from tercet.serve.pool_link import Asked, PoolFuture, Process
from tercet.serve.pool_process import Task
from tercet.serve.reply import Reply
from tercet.threads import cores


class Pool:
    """A store, served by processes; they are started anew ("spawn"), never forked.

    A script that makes a pool has to guard its own start with `if __name__ == "__main__":`. A process that dies is
    replaced, and what it had begun is asked again once.

    Args:
        store: the folder or URL of a store.
        workers: processes; None: one a core.
        threads: of each process; None: the cores, divided among them.
        device: as in `tercet.open`.
        encoder: instead of the one that the store names.
        queue: queries that wait in all processes at most.
        max_batch: as in `AsyncEngine`. max_wait_ms: as there.
        options: of `tercet.open`.

    Raises:
        InvalidArgument: a number below 1.
        StoreError: the store can't be opened; or what else `tercet.open` raises.
    """

    def __init__(
        self,
        store: str | Path,
        workers: int | None = 2,
        *,
        threads: int | None = None,
        device: str = "cpu",
        encoder: Any = None,
        queue: int = 10_000,
        max_batch: int = 256,
        max_wait_ms: float = 2.0,
        **options: Any,
    ) -> None:
        count = cores() if workers is None else workers
        for name, value in (("workers", count), ("queue", queue), ("max_batch", max_batch)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise InvalidArgument(f"{name}: expected an integer of at least 1, got {value!r}")
        self.store, self.capacity = str(store), queue
        self._given = {
            "threads": max(1, cores() // count) if threads is None else threads,
            "open": {"device": device, "encoder": encoder, **options},
            "front": {"max_batch": max_batch, "max_wait_ms": max_wait_ms, "queue": queue},
        }
        self._pid, self._numbers, self._closed = os.getpid(), itertools.count(), False
        self._lock = threading.Lock()
        self._processes: list[Process] = []
        try:
            for i in range(count):
                self._processes.append(Process(self.store, self._given, self._lost, verify=i == 0))
            for process in self._processes:
                process.wait_ready()
        except BaseException:
            self.close(drain=False)
            raise

    @property
    def workers(self) -> int:
        """How many processes serve."""
        return len(self._processes)

    @property
    def depth(self) -> int:
        """Queries that are asked and not answered."""
        return sum(p.load for p in self._processes)

    def submit(
        self,
        verb: str = "recall",
        queries: str | Sequence[str] | None = None,
        *,
        vectors: Any = None,
        deadline_s: float | None = None,
        scope: str | Sequence[str] | None = None,
        tenant: Hashable = None,
        **arguments: Any,
    ) -> "Future[Any]":
        """Ask one of the processes; see `Engine.submit`. The future has a `Reply`, or a list of them for a list.

        Raises:
            InvalidArgument: an unknown verb or argument, or one that can't be sent to another process.
            QueueFull: too much waits already.
            EngineClosed: the pool was closed.
            ForkedProcess: the pool belongs to the process that this one was forked from.
        """
        given = dict(arguments)
        if queries is not None:
            given["queries"] = queries
        if vectors is not None:
            given["vectors"] = np.asarray(vectors, np.float32) if not hasattr(vectors, "numpy") else vectors.numpy()
        form_of(verb).check(given)
        task = Task(next(self._numbers), verb, given, scope, tenant, _count(given))
        try:
            message = bytes(ForkingPickler.dumps(("ask", task, deadline_s)))  # as a pipe sends objects
        except (PicklingError, TypeError, AttributeError) as error:
            raise InvalidArgument(f"{verb}: an argument can't be sent to another process: {error}") from error
        until = None if deadline_s is None else time.monotonic() + deadline_s
        asked = Asked(task, message, PoolFuture(), until)
        self._send(asked)
        return asked.future

    async def ask(self, verb: str = "recall", queries: Any = None, **arguments: Any) -> Any:
        """The same for asyncio; a task that is cancelled takes its request back."""
        return await asyncio.wrap_future(self.submit(verb, queries, **arguments))

    def recall(self, queries: Sequence[str] | None = None, *, vectors: Any = None, **arguments: Any) -> list[Reply]:
        """Answer a list of queries, with an equal part of it in each process.

        Arguments that differ from query to query aren't divided: give one value for all.
        """
        whole = queries if queries is not None else vectors
        if (
            whole is None
            or isinstance(whole, str)
            or (np.ndim(whole[0] if len(whole) else []) == 0 and queries is None)
        ):
            raise InvalidArgument("recall: expected a list of queries; `submit` takes one")
        bounds = np.linspace(0, len(whole), self.workers + 1).astype(int)
        parts = [slice(a, b) for a, b in itertools.pairwise(bounds.tolist()) if b > a]
        given: dict[str, Any] = {n: v for n, v in (("queries", queries), ("vectors", vectors)) if v is not None}
        futures = [self.submit("recall", **{n: v[part] for n, v in given.items()}, **arguments) for part in parts]
        return [reply for future in futures for reply in future.result()]

    def reload(self) -> list[int]:
        """Open the store again in every process, one after another, and answer from what it holds now.

        Returns:
            the version of each process's engine.
        """
        return [process.reload() for process in list(self._processes)]

    def close(self, *, drain: bool = True) -> None:
        """Take no more requests, and end the processes.

        Args:
            drain: answer what waits; else it fails with `EngineClosed`.
        """
        self._closed = True
        if os.getpid() != self._pid:
            return
        for process in self._processes:
            process.end(drain)
        for process in self._processes:
            process.join()

    def __enter__(self) -> "Pool":
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def _send(self, asked: "Asked") -> None:
        if os.getpid() != self._pid:
            raise ForkedProcess("this pool belongs to the process that this one was forked from; make one here")
        with self._lock:
            if self._closed:
                raise EngineClosed("the pool was closed")
            if self.depth and self.depth + asked.task.size > self.capacity:
                raise QueueFull(f"{self.depth} queries wait already, of {self.capacity} that may; ask later, or slower")
            alive = [p for p in self._processes if not p.ended]
            if not alive:
                raise EngineClosed(
                    "no process of the pool is left; the last one ended, and the store couldn't be opened again"
                )
            ready = [p for p in alive if p.ready] or alive  # a new one reads nothing before its store is open
            min(ready, key=lambda p: p.load).take(asked)

    def _lost(self, process: "Process", asked: list["Asked"]) -> None:
        """A process ended: another one takes its place, and the others take what it had, once."""
        with self._lock:
            if not self._closed and process in self._processes and process.ready:  # else it would fail again, and again
                self._processes[self._processes.index(process)] = Process(
                    self.store, self._given, self._lost, verify=False
                )
        for one in asked:
            if one.until is not None and one.until <= time.monotonic():
                one.fail(DeadlineExceeded(f"{one.task.verb}: no answer within its deadline"))
                continue
            if one.again or self._closed:
                why = f"the process that had it ended with exit code {process.exitcode}"
                one.fail(EngineClosed(f"{one.task.verb}: no answer: {why}"))
                continue
            one.again = True
            try:
                self._send(one)
            except TercetError as error:
                one.fail(error)


def _count(given: dict[str, Any]) -> int:
    """Queries of a call, for the length of the queue."""
    for name in ("queries", "vectors"):
        value = given.get(name)
        if value is not None:
            return 1 if isinstance(value, str) or (name == "vectors" and np.ndim(value) == 1) else max(1, len(value))
    return 1
