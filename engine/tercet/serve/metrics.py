"""Prometheus metrics of a server."""

from collections.abc import Sequence
from typing import Any

from tercet.errors import DeadlineExceeded, MissingDependency, QueueFull
from tercet.serve.requests import Request
from tercet.serve.watching import Batch

try:
    from prometheus_client import REGISTRY, Counter, Gauge, Histogram
except ImportError as error:
    raise MissingDependency("metrics need prometheus-client: pip install 'tercet[metrics]'") from error

SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
REASONS: dict[type[BaseException], str] = {QueueFull: "queue_full", DeadlineExceeded: "deadline"}


class Metrics:
    """Counts and times what a server does.

    Args:
        registry: a Prometheus registry; None is the process's own. Two servers need two.
    """

    def __init__(self, registry: Any = None) -> None:
        to: Any = {"registry": REGISTRY if registry is None else registry}
        self.depth = Gauge("tercet_queue_depth", "Queries that wait", **to)
        self.requests = Counter("tercet_requests", "Requests taken, by verb", ["verb"], **to)
        self.refusals = Counter("tercet_refusals", "Calls not answered, by reason", ["reason"], **to)
        self.size = Histogram("tercet_batch_size", "Queries in a batch", ["verb"], buckets=SIZES, **to)
        self.wait = Histogram("tercet_wait_seconds", "From a request's arrival to its batch", buckets=SECONDS, **to)
        self.time = Histogram("tercet_batch_seconds", "A batch, by verb", ["verb"], buckets=SECONDS, **to)
        self.stage = Histogram(
            "tercet_stage_seconds", "Stages of a batch, and encoding ahead of it", ["stage"], buckets=SECONDS, **to
        )
        self.texts = Counter("tercet_encoded_texts", "Texts encoded ahead of their batch", **to)
        self.results = Counter("tercet_results", "Results, by status; 'error' is an exception", ["status"], **to)
        self.lookups = Counter("tercet_cache_lookups", "Results looked for in the cache", ["found"], **to)

    def submitted(self, requests: Sequence[Request], depth: int) -> None:
        self.depth.set(depth)
        for r in requests:
            self.requests.labels(r.verb).inc()

    def refused(self, error: BaseException) -> None:
        self.refusals.labels(REASONS.get(type(error), "other")).inc()

    def looked_up(self, hit: bool) -> None:
        self.lookups.labels("yes" if hit else "no").inc()

    def encoded(self, requests: Sequence[Request], texts: int, begin: float, end: float) -> None:
        self.texts.inc(texts)
        self.stage.labels("encode").observe(end - begin)

    def answered(self, batch: Batch, depth: int) -> None:
        self.depth.set(depth)
        self.size.labels(batch.verb).observe(batch.queries)
        self.time.labels(batch.verb).observe(batch.done - batch.taken)
        for stage, seconds in batch.stages().items():
            self.stage.labels(stage).observe(seconds)
        for o in batch.outcomes:
            self.wait.observe(batch.taken - o.request.arrived)
            if o.error is not None:
                self.results.labels("error").inc(o.request.count)
            for result in o.results or ():
                self.results.labels(result.status).inc()
