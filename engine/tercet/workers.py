"""Threads that each run torch on one core: small model runs gain more from that than from sharing the cores."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from threading import Barrier
from typing import TypeVar

import torch

Key = TypeVar("Key")
Item = TypeVar("Item")
Made = TypeVar("Made")


class Workers:
    """A pool of threads with one torch thread each; they begin when they are first used.

    Args:
        count: how many; 1 runs everything in the calling thread.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._pool: ThreadPoolExecutor | None = None

    def map(self, function: Callable[[Item], Made], items: Iterable[tuple[Key, Item]]) -> Iterator[tuple[Key, Made]]:
        """The function of each item beside the item's key, in order; at most a few items are in flight."""
        if self.count == 1:
            for key, item in items:
                yield key, function(item)
            return
        pool, source = self._started(), iter(items)
        waiting: list[tuple[Key, Future[Made]]] = []
        try:
            while True:
                for key, item in islice(source, 2 * self.count - len(waiting)):
                    waiting.append((key, pool.submit(function, item)))
                if not waiting:
                    return
                key, made = waiting.pop(0)
                yield key, made.result()
        finally:
            for _, made in waiting:
                made.cancel()

    def _started(self) -> ThreadPoolExecutor:
        if self._pool is None:
            threads, ready = torch.get_num_threads(), Barrier(self.count)

            def begin() -> None:
                torch.set_num_threads(1)
                ready.wait()

            self._pool = ThreadPoolExecutor(self.count, "tercet-encode")
            for one in [self._pool.submit(begin) for _ in range(self.count)]:
                one.result()
            torch.set_num_threads(threads)  # what a worker sets is the default of threads to come
        return self._pool
