"""OpenTelemetry spans of a server: one a batch, linked to those of its callers, with its stages inside."""

import time
from collections.abc import Sequence
from typing import Any

from tercet.errors import MissingDependency
from tercet.serve.requests import Request
from tercet.serve.watching import Batch

try:
    from opentelemetry import trace
except ImportError as error:
    raise MissingDependency("tracing needs opentelemetry-api: pip install 'tercet[metrics]'") from error

LINKS = 128  # callers that a span is linked to, as many as OpenTelemetry keeps by default


class Tracing:
    """Makes spans named `tercet.encode`, `tercet.batch` and, inside of it, `tercet.<stage>`.

    Args:
        tracer: an OpenTelemetry tracer; None is the global one.
    """

    def __init__(self, tracer: Any = None) -> None:
        self.tracer = trace.get_tracer("tercet") if tracer is None else tracer

    def submitted(self, requests: Sequence[Request], depth: int) -> None:
        context = trace.get_current_span().get_span_context()
        if context.is_valid:
            for r in requests:
                r.context = context

    def refused(self, error: BaseException) -> None:
        trace.get_current_span().add_event("tercet.refused", {"error": type(error).__name__})

    def looked_up(self, hit: bool) -> None:
        trace.get_current_span().add_event("tercet.cache", {"hit": hit})

    def encoded(self, requests: Sequence[Request], texts: int, begin: float, end: float) -> None:
        since = _since_epoch()
        span = self.tracer.start_span(
            "tercet.encode", start_time=_wall(since, begin), links=_links(requests), attributes={"tercet.texts": texts}
        )
        span.end(_wall(since, end))

    def answered(self, batch: Batch, depth: int) -> None:
        since = _since_epoch()
        failed = sum(o.error is not None for o in batch.outcomes)
        span = self.tracer.start_span(
            "tercet.batch", start_time=_wall(since, batch.taken), links=_links([o.request for o in batch.outcomes]),
            attributes={
                "tercet.verb": batch.verb, "tercet.requests": len(batch.outcomes), "tercet.queries": batch.queries,
                "tercet.version": batch.version, "tercet.failed": failed, "tercet.queue_depth": depth,
                "tercet.longest_wait_s": max(batch.taken - o.request.arrived for o in batch.outcomes),
            },
        )  # fmt: skip
        begin = batch.taken
        inside = trace.set_span_in_context(span)
        for stage, seconds in batch.stages().items():  # they follow one another
            child = self.tracer.start_span(f"tercet.{stage}", context=inside, start_time=_wall(since, begin))
            begin += seconds
            child.end(_wall(since, begin))
        span.end(_wall(since, batch.done))


def _links(requests: Sequence[Request]) -> list[Any]:
    contexts = {r.context.span_id: r.context for r in requests if r.context is not None}
    return [trace.Link(c) for c in list(contexts.values())[:LINKS]]


def _since_epoch() -> int:
    """Nanoseconds from where `time.monotonic` begins to count back to the epoch."""
    return time.time_ns() - time.monotonic_ns()


def _wall(since: int, monotonic: float) -> int:
    """Nanoseconds since the epoch, of a time by `time.monotonic`."""
    return since + int(monotonic * 1e9)
