"""One process of a pool, as the process that asks sees it."""

import json
import multiprocessing as mp
import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

from tercet.errors import EngineClosed, StoreError
from tercet.serve.pool_process import Task, serve
from tercet.serve.reply import error_of, settle

READY_S = 600.0  # to open a store
GRACE_S = 10.0  # for a process to end


class PoolFuture(Future[Any]):
    """A future that tells the process when nobody waits for it any more."""

    asked: "Asked | None" = None

    def cancel(self) -> bool:
        done = super().cancel()
        asked, self.asked = self.asked, None if done else self.asked
        if done and asked is not None:
            asked.taken_back()
        return done


class Asked:
    """A request on its way."""

    def __init__(self, task: Task, message: bytes, future: PoolFuture, until: float | None) -> None:
        self.task, self.message, self.future, self.until = task, message, future, until
        self.process: Process | None = None
        self.again = False
        future.asked = self

    def taken_back(self) -> None:
        if self.process is not None:
            self.process.cancel(self)

    def fail(self, error: BaseException) -> None:
        self.future.asked = None  # it may be held for long, and this holds it
        if not self.future.done():
            self.future.set_exception(error)


class Process:
    """One process and the thread that reads its answers.

    Args:
        store, given, verify: see `pool_process.serve`.
        lost: called when it has ended, with the requests that it hasn't answered.
    """

    def __init__(
        self, store: str, given: dict[str, Any], lost: Callable[["Process", list["Asked"]], None], *, verify: bool
    ) -> None:
        context = mp.get_context("spawn")
        mine, its = context.Pipe()
        self._lost, self._pipe = lost, mine
        self.load = 0  # queries
        self._asked: dict[int, Asked] = {}
        self._sending, self._lock = threading.Lock(), threading.Lock()
        self.ready = self.ended = False
        self._ready: Future[int] = Future()
        self._process = context.Process(target=serve, args=(its, store, given, verify), name="tercet-pool", daemon=True)
        self._process.start()
        its.close()
        self._reader = threading.Thread(target=self._read, name="tercet-pool", daemon=True)
        self._reader.start()

    @property
    def exitcode(self) -> int | None:
        return self._process.exitcode

    @property
    def pid(self) -> int | None:
        return self._process.pid

    def wait_ready(self) -> None:
        self._ready.result(READY_S)

    def take(self, asked: Asked) -> None:
        asked.process = self
        with self._lock:
            self._asked[asked.task.number] = asked
            self.load += asked.task.size
            late = self.ended
        if late:  # it died since it was chosen, and nobody looks after what it has
            self._done(asked.task.number)
            raise EngineClosed("the process that was to answer has ended; ask again")
        self._write(partial(self._pipe.send_bytes, asked.message))

    def cancel(self, asked: Asked) -> None:
        if self._done(asked.task.number) is not None:
            self._write(partial(self._pipe.send, ("cancel", asked.task.number)))

    def reload(self) -> int:
        self._ready.result(READY_S)
        self._ready = Future()
        self._write(partial(self._pipe.send, ("reload",)))
        return self._ready.result(READY_S)

    def end(self, drain: bool) -> None:
        self._write(partial(self._pipe.send, ("end", drain)))

    def join(self) -> None:
        self._reader.join(GRACE_S)
        self._process.join(GRACE_S)
        if self._process.is_alive():
            self._process.terminate()
            self._process.join(GRACE_S)

    def _write(self, send: Callable[[], None]) -> None:
        try:
            with self._sending:
                send()
        except (BrokenPipeError, OSError):  # it died; whoever reads finds out, and takes care of what it had
            return

    def _read(self) -> None:
        while (message := _received(self._pipe)) is not None:
            for number, outcome in json.loads(message):
                if number is None:
                    self._tell(outcome)
                    continue
                asked = self._done(number)
                if asked is not None:
                    asked.future.asked = None
                    if asked.future.set_running_or_notify_cancel():
                        settle(asked.future, outcome)
        self._process.join(GRACE_S)
        if not self._ready.done():
            self._ready.set_exception(StoreError(f"a process of the pool ended with exit code {self.exitcode}"))
        with self._lock:
            self.ended = True
            left, self._asked, self.load = list(self._asked.values()), {}, 0
        self._lost(self, left)

    def _tell(self, outcome: dict[str, Any]) -> None:
        if "error" in outcome:
            self._ready.set_exception(error_of(*outcome["error"]))
        else:
            self.ready = True
            self._ready.set_result(outcome["version"])

    def _done(self, number: int) -> Asked | None:
        with self._lock:
            asked = self._asked.pop(number, None)
            if asked is not None:
                self.load -= asked.task.size
            return asked


def _received(pipe: Connection) -> bytes | None:
    try:
        return pipe.recv_bytes()
    except (EOFError, OSError):
        return None
