"""Threads that each run torch on one core: small model runs gain more from that than from sharing the cores."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from threading import Barrier, Lock
from typing import TypeVar

import torch

Key = TypeVar("Key")
Item = TypeVar("Item")
Made = TypeVar("Made")


class Workers:
    """Pools of threads with one torch thread each; they begin when they are first used.

    Args:
        count: how many; 1 runs everything in the calling thread; None: as many as the caller's torch threads.
    """

    def __init__(self, count: int | None = None) -> None:
        self._count = count
        self._pools: dict[int, ThreadPoolExecutor] = {}
        self._lock = Lock()

    @property
    def count(self) -> int:
        """How many work for the calling thread."""
        return self._count or torch.get_num_threads()

    def map(self, function: Callable[[Item], Made], items: Iterable[tuple[Key, Item]]) -> Iterator[tuple[Key, Made]]:
        """The function of each item beside the item's key, in order; at most a few items are in flight."""
        count = self.count
        if count == 1:
            for key, item in items:
                yield key, function(item)
            return
        pool, source = self._started(count), iter(items)
        waiting: list[tuple[Key, Future[Made]]] = []
        try:
            while True:
                for key, item in islice(source, 2 * count - len(waiting)):
                    waiting.append((key, pool.submit(function, item)))
                if not waiting:
                    return
                key, made = waiting.pop(0)
                yield key, made.result()
        finally:
            for _, made in waiting:
                made.cancel()

    def _started(self, count: int) -> ThreadPoolExecutor:
        with self._lock:
            if count not in self._pools:
                threads, ready = torch.get_num_threads(), Barrier(count)

                def begin() -> None:
                    torch.get_num_threads()  # a thread takes the default over when it first asks, so before it is set
                    torch.set_num_threads(1)
                    ready.wait()

                self._pools[count] = ThreadPoolExecutor(count, "tercet-encode")
                for one in [self._pools[count].submit(begin) for _ in range(count)]:
                    one.result()
                torch.set_num_threads(threads)  # what a worker sets is the default of threads to come
            return self._pools[count]
