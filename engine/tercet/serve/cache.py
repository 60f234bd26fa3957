"""Results that are kept: those of one version of an engine, the last used ones."""

import threading
from collections import Counter, OrderedDict
from collections.abc import Hashable
from typing import Any

from tercet.errors import InvalidArgument


class ResultCache:
    """The last `capacity` results used, all of one version; thread-safe.

    A result holds on to the batch that it was found in, so the batches are bounded, too: no more than would hold four
    times the results, had all of them been full.

    Args:
        capacity: results; 0 keeps none.
        batch: queries in a full batch.
    """

    def __init__(self, capacity: int, batch: int) -> None:
        if isinstance(capacity, bool) or not isinstance(capacity, int) or capacity < 0:
            raise InvalidArgument(f"cache: expected a number of results of at least 0, got {capacity!r}")
        self.capacity = capacity
        self.most_batches = max(4, 4 * capacity // max(batch, 1))
        self._lock = threading.Lock()
        self._of: Any = None  # the state that the results are of
        self._held: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()  # least recently used first
        self._batches: Counter[int] = Counter()  # results of each batch, by identity: the results keep it alive

    def __len__(self) -> int:
        return len(self._held)

    @property
    def batches(self) -> int:
        """How many batches the results hold on to."""
        return len(self._batches)

    def get(self, state: Any, key: Hashable) -> Any | None:
        """The result of a request in a version, or None."""
        with self._lock:
            if state is not self._of or key not in self._held:
                return None
            self._held.move_to_end(key)
            return self._held[key][0]

    def renew(self, state: Any) -> None:
        """Go over to a version; results of others are let go."""
        with self._lock:
            if state is not self._of:
                self._of = state
                self._held.clear()
                self._batches.clear()

    def put(self, state: Any, key: Hashable, result: Any, batch: Any) -> None:
        """Keep a result of the version that the cache is at; one of another version isn't kept."""
        with self._lock:
            if state is not self._of or not self.capacity:
                return
            if key in self._held:
                self._let_go(self._held.pop(key)[1])
            self._held[key] = result, id(batch)
            self._batches[id(batch)] += 1
            while len(self._held) > self.capacity or len(self._batches) > self.most_batches:
                self._let_go(self._held.popitem(last=False)[1][1])

    def _let_go(self, batch: int) -> None:
        self._batches[batch] -= 1
        if not self._batches[batch]:
            del self._batches[batch]
