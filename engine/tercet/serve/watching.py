"""What a server tells those who watch it; nobody does by default, and then nothing is measured."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from tercet.serve.requests import Request
from tercet.serve.run import Outcome


@dataclass(frozen=True)
class Batch:
    """A batch that was answered. Times are of `time.monotonic`."""

    outcomes: Sequence[Outcome]
    taken: float
    done: float
    version: int
    late: int  # requests whose deadline had passed when it was taken, which aren't in it

    @property
    def verb(self) -> str:
        return self.outcomes[0].request.verb

    @property
    def queries(self) -> int:
        return sum(o.request.count for o in self.outcomes)

    def stages(self) -> dict[str, float]:
        """Seconds by stage of the engine's call, as its results tell them."""
        for outcome in self.outcomes:
            for result in outcome.results or ():
                whole: Any = getattr(result, "recall", None) or result.batch
                return dict(whole.timings)
        return {}


class Watcher(Protocol):
    """Somebody who watches a server. Its methods are called by callers and workers, and must be quick."""

    def submitted(self, requests: Sequence[Request], depth: int) -> None:
        """Requests came; `depth` queries wait now."""

    def refused(self, error: BaseException) -> None:
        """A call wasn't taken, or wasn't answered in time."""

    def looked_up(self, hit: bool) -> None:
        """A result was looked for in the cache."""

    def encoded(self, requests: Sequence[Request], texts: int, begin: float, end: float) -> None:
        """Texts were encoded ahead of their batch."""

    def answered(self, batch: Batch, depth: int) -> None:
        """A batch was answered; `depth` queries wait now."""
