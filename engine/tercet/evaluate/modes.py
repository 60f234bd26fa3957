"""Modes: one way of retrieving each, run over all queries at once."""

import inspect
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tercet.errors import InvalidArgument, TercetError
from tercet.evaluate.answers import TOP_K, context_of, run_of
from tercet.evaluate.baselines import BASELINES, bm25, dense
from tercet.evaluate.metrics import Context
from tercet.evaluate.queries import Queries
from tercet.evaluate.run import Run
from tercet.evaluate.target import Target
from tercet.query import QueryBatch, embed
from tercet.tokens import Counter

SEARCHES = ("semantic_search", "text_search", "hybrid_search", "passage_search")  # their k is how many results
SUBGRAPHS = ("semantic_subgraph", "text_subgraph", "hybrid_subgraph")  # their k is how many seeds
VERBS = ("recall", *SEARCHES, *SUBGRAPHS)
WARM = 8  # queries of a call before the one that is timed
NO_ENCODER = "texts need an encoder, or the queries vectors"

Callback = Callable[[Any, QueryBatch, int], Any]


@dataclass(frozen=True, eq=False)
class Mode:
    """What one way of retrieving gave. `run` is None where it did not run, and `error` says why."""

    name: str
    verb: str
    arguments: Mapping[str, Any]
    run: Run | None
    context: Context | None
    seconds: float  # of the call, without encoding
    stages: Mapping[str, float] = field(default_factory=dict)
    error: str | None = None

    @property
    def queries_per_second(self) -> float:
        """Offline throughput: all queries at once, without encoding."""
        return len(self.run) / self.seconds if self.run is not None and self.seconds > 0 else float("nan")


@dataclass(frozen=True, eq=False)
class Asked:
    """The queries of an evaluation, encoded once for all modes."""

    queries: Queries
    batch: QueryBatch | None  # None: there is nothing to encode with
    errors: dict[int, str]  # by position
    seconds: float  # of encoding

    @staticmethod
    def by(engine: Any, queries: Queries) -> "Asked":
        """Encode the texts, or take the vectors that came with them."""
        texts = queries.texts.to_pylist()
        if queries.vectors is None and engine.encoder is None:
            blank = {i: "the query is blank" for i, text in enumerate(texts) if not text.strip()}
            return Asked(queries, None, blank, 0.0)
        begin = time.perf_counter()
        batch = embed(texts, queries.vectors, engine.encoder, engine.dimension, raise_blank=False)
        return Asked(queries, batch, dict(batch.errors), time.perf_counter() - begin)


def check_modes(modes: Mapping[str, Any]) -> None:
    """Refuse wrong settings before anything runs.

    Raises:
        InvalidArgument: a name that a baseline has, an unknown verb, or an argument that the verb doesn't have.
    """
    from tercet.engine import Engine

    for name, given in modes.items():
        if name in (*BASELINES, "constant") or not name or name.split() != [name] or "/" in name:
            raise InvalidArgument(f"settings: a mode can't be called {name!r} (baselines are {', '.join(BASELINES)})")
        if callable(given):
            continue
        if not isinstance(given, Mapping):
            raise InvalidArgument(f"settings[{name!r}]: expected arguments or a function, got {given!r:.100}")
        verb = given.get("verb", name)
        if verb not in VERBS:
            raise InvalidArgument(f"settings[{name!r}]: the verb {verb!r} is none of {', '.join(VERBS)}")
        known = set(inspect.signature(getattr(Engine, verb)).parameters) - {"self", "queries", "vectors"}
        unknown = sorted(set(given) - known - {"verb"})
        if unknown:
            raise InvalidArgument(f"settings[{name!r}]: {verb} has no {', '.join(unknown)}; it has "
                                  f"{', '.join(sorted(known))}")  # fmt: skip


def run_mode(
    engine: Any,
    target: Target,
    asked: Asked,
    name: str,
    given: Mapping[str, Any] | Callback,
    *,
    k: int,
    triplets: int,
    context_k: int,
    counter: Counter | None,
) -> Mode:
    """Run one mode; a mode that raises did not run, which isn't the same as finding nothing."""
    verb = "function" if callable(given) else str(given.get("verb", name))
    arguments = {} if callable(given) else {key: v for key, v in given.items() if key != "verb"}
    first = context_k
    called = dict(arguments)
    if verb == "recall":
        first = int(called.get("top_k", TOP_K)) if not isinstance(called.get("top_k"), (list, tuple)) else TOP_K
        called["top_k"] = max(first, triplets) + 1  # one more, to see whether the cut goes through a tie
    elif verb in SEARCHES:
        first = int(called.get("k", context_k))
        called["k"] = max(first, k) + 1
    call = given if callable(given) else None
    return _timed(engine, target, asked, name, verb, arguments,
                  lambda part: _call(engine, part, verb, called, call, k + 1), k, first, counter)  # fmt: skip


def run_baseline(
    engine: Any, target: Target, asked: Asked, name: str, *, k: int, context_k: int, counter: Counter | None
) -> Mode:
    """Run "dense" or "bm25" over the documents that are judged."""

    def call(part: Asked) -> Any:
        if name == "bm25":
            return bm25(engine, target, part.queries.texts.to_pylist(), _blank(part), k + 1)
        return dense(engine, target, _encoded(part), k + 1)

    return _timed(engine, target, asked, name, name, {}, call, k, context_k, counter)


def _timed(
    engine: Any, target: Target, asked: Asked, name: str, verb: str, arguments: Mapping[str, Any],
    call: Callable[[Asked], Any], k: int, first: int, counter: Counter | None,
) -> Mode:  # fmt: skip
    try:
        call(_part(asked, WARM))  # what is compiled or built on first use isn't the speed of a search
        begin = time.perf_counter()
        found = call(asked)
        if engine.device.type == "cuda":
            import torch

            torch.cuda.synchronize(engine.device)
        seconds = time.perf_counter() - begin
        if isinstance(found, Run):
            return Mode(name, verb, arguments, replace(found.cut(k), name=name), None, seconds)
        errors = {} if verb in ("bm25", "text_search", "text_subgraph") else asked.errors
        run, place = run_of(name, found, target, asked.queries.ids, errors, k)
        context = context_of(found, target, run, place, first, counter)
        stages = {stage: s for stage, s in found.timings.items() if stage != "embed"}
        return Mode(name, verb, arguments, run, context, seconds, stages)
    except (TercetError, RuntimeError, ValueError, OSError, MemoryError) as error:
        return Mode(name, verb, arguments, None, None, 0.0, error=f"{type(error).__name__}: {error}")


def _call(engine: Any, asked: Asked, verb: str, arguments: Mapping[str, Any], callback: Callback | None, k: int) -> Any:
    if callback is not None:
        return callback(engine, _encoded(asked), k)
    method = getattr(engine, verb)
    texts = asked.queries.texts.to_pylist()
    if "vectors" not in inspect.signature(method).parameters:
        return method(texts, **arguments)
    return method(texts, vectors=_encoded(asked).embedding, **arguments)


def _encoded(asked: Asked) -> QueryBatch:
    if asked.batch is None:
        raise InvalidArgument(NO_ENCODER)
    return asked.batch


def _blank(asked: Asked) -> dict[int, str]:
    texts = asked.queries.texts.to_pylist()
    return {i: "the query is blank" for i, text in enumerate(texts) if not text.strip()}


def _part(asked: Asked, n: int) -> Asked:
    """The first n queries."""
    n = min(n, len(asked.queries))
    batch = asked.batch
    if batch is not None:
        raw = None if batch.raw is None else batch.raw[:n]
        batch = QueryBatch(batch.text[:n], batch.embedding[:n], {i: e for i, e in batch.errors.items() if i < n},
                           batch.single, raw)  # fmt: skip
    return Asked(asked.queries.take(np.arange(n)), batch, {i: e for i, e in asked.errors.items() if i < n}, 0.0)
