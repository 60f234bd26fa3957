"""Ways in which queries reach a served engine: at their own times, one after another, or all at once.

Open loop: queries are sent when they are due, whether or not earlier ones are answered, and a latency counts from the
moment at which its query was due. A sender that falls behind therefore makes latencies longer, not rarer.
"""

import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tercet.errors import DeadlineExceeded, QueueFull

Submit = Callable[[int], "Future[Any]"]  # sends the query of a number, and returns at once
NAP_S = 1e-3  # at least: a sender that wakes for every query takes a core from what it measures
PATIENCE_S = 120.0  # for what is still in flight when the last query was sent


@dataclass(frozen=True, eq=False)
class Sent:
    """What became of n queries, in the order they were due."""

    due_s: NDArray[np.float64]  # (n,) since the start
    sent_s: NDArray[np.float64]  # (n,) NaN: refused
    done_s: NDArray[np.float64]  # (n,) NaN: without an answer
    status: NDArray[np.str_]  # (n,) "ok", "refused", "deadline" or the name of an exception

    @property
    def latency_s(self) -> NDArray[np.float64]:
        """(n,) from the moment a query was due to its answer, NaN without one."""
        return self.done_s - self.due_s

    def since(self, begin_s: float) -> "Sent":
        """The queries that were due from then on."""
        kept = self.due_s >= begin_s
        return Sent(self.due_s[kept], self.sent_s[kept], self.done_s[kept], self.status[kept])


def poisson(rate: float, seconds: float, seed: int) -> NDArray[np.float64]:
    """Times at which queries are due: a Poisson process of so many a second, ascending."""
    rng = np.random.default_rng(seed)
    gaps = rng.exponential(1.0 / rate, size=int(rate * seconds + 6 * (rate * seconds) ** 0.5) + 16)
    times = np.cumsum(gaps)
    return times[times < seconds]


def open_loop(submit: Submit, due_s: NDArray[np.float64]) -> Sent:
    """Send every query when it is due; those that are due already go in one burst."""
    clock, sleep = time.perf_counter, time.sleep
    count, at = len(due_s), 0
    tally = _Tally(count)
    start = clock()
    while at < count:
        now = clock() - start
        ready = int(np.searchsorted(due_s, now, side="right"))
        for i in range(at, ready):
            tally.send(submit, i)
        at = max(at, ready)
        if at < count:
            sleep(max(NAP_S, due_s[at] - (clock() - start)))
    return tally.finish(due_s, start)


def one_by_one(submit: Submit, count: int) -> Sent:
    """One query in flight: the next one is due when the answer is there."""
    tally, due = _Tally(count), np.empty(count)
    start = time.perf_counter()
    for i in range(count):
        due[i] = time.perf_counter() - start
        future = tally.send(submit, i)
        if future is not None:
            wait([future])
    return tally.finish(due, start)


def all_at_once(submit: Submit, count: int) -> Sent:
    """Every query is due at the start."""
    tally, start = _Tally(count), time.perf_counter()
    for i in range(count):
        tally.send(submit, i)
    return tally.finish(np.zeros(count), start)


class _Tally:
    """Notes when each query was sent and answered."""

    def __init__(self, count: int) -> None:
        self.sent, self.done = [np.nan] * count, [np.nan] * count
        self.status = ["lost"] * count
        self.flying: dict[int, Future[Any]] = {}

    def send(self, submit: Submit, i: int) -> "Future[Any] | None":
        try:
            future = submit(i)
        except QueueFull:
            self.status[i] = "refused"
            return None
        self.sent[i] = time.perf_counter()
        self.flying[i] = future
        future.add_done_callback(partial(self._answered, i))
        return future

    def _answered(self, i: int, future: "Future[Any]") -> None:
        self.done[i] = time.perf_counter()
        error = None if future.cancelled() else future.exception()
        if error is None:
            self.status[i] = "cancelled" if future.cancelled() else "ok"
        else:
            self.status[i] = "deadline" if isinstance(error, DeadlineExceeded) else type(error).__name__
        self.flying.pop(i, None)

    def finish(self, due: NDArray[np.float64], start: float) -> Sent:
        wait(list(self.flying.values()), timeout=PATIENCE_S)
        until = time.perf_counter() + 1.0  # a future is done a moment before its callbacks ran
        while self.flying and time.perf_counter() < until:
            time.sleep(0.001)
        status = np.array(self.status)
        done = np.where(status == "ok", np.array(self.done) - start, np.nan)
        return Sent(np.asarray(due, np.float64), np.array(self.sent) - start, done, status)
