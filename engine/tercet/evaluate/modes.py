"""Modes: one way of retrieving each, run over all queries at once."""

import inspect
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from tercet.errors import InvalidArgument, TercetError
from tercet.evaluate.answers import TOP_K, available_of, context_of, details_of, run_of
from tercet.evaluate.baselines import BASELINES, bm25, dense
from tercet.evaluate.lines import offsets
from tercet.evaluate.measures import positions
from tercet.evaluate.metrics import Context
from tercet.evaluate.queries import Queries
from tercet.evaluate.reuse import Kept
from tercet.evaluate.run import Outcome, Run
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
    details: Mapping[str, np.ndarray] = field(default_factory=dict)  # (T,) each, see `details_of`
    available: np.ndarray | None = None  # (B,) int64, see `available_of`
    amortised: Mapping[str, np.ndarray] = field(default_factory=dict)  # (B,) seconds of the batch / its queries, and by
    # stage as `stage.<name>`
    charged: float = 0.0  # seconds among `seconds` that weren't spent: those of searches that were reused
    notes: tuple[str, ...] = ()

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
    warm: bool = True,
    kept: Kept | None = None,
) -> Mode:
    """Run one mode; a mode that raises did not run, which isn't the same as finding nothing.

    Args:
        warm: run some queries untimed before.
        kept: what searches of a recall are shared through, for an engine made by `sharing`.
    """
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
                  lambda part: _call(engine, part, verb, called, call, k + 1), k, first, counter, warm,
                  kept if verb == "recall" else None)  # fmt: skip


def run_baseline(
    engine: Any, target: Target, asked: Asked, name: str, *, k: int, context_k: int, counter: Counter | None,
    warm: bool = True,
) -> Mode:  # fmt: skip
    """Run "dense" or "bm25" over the documents that are judged."""

    def call(part: Asked) -> Any:
        if name == "bm25":
            return bm25(engine, target, part.queries.texts.to_pylist(), _blank(part), k + 1)
        return dense(engine, target, _encoded(part), k + 1)

    return _timed(engine, target, asked, name, name, {}, call, k, context_k, counter, warm)


def _timed(
    engine: Any, target: Target, asked: Asked, name: str, verb: str, arguments: Mapping[str, Any],
    call: Callable[[Asked], Any], k: int, first: int, counter: Counter | None, warm: bool = True,
    kept: Kept | None = None,
) -> Mode:  # fmt: skip
    try:
        if warm:
            call(part_of(asked, slice(0, WARM)))  # what is compiled or built on first use isn't the speed of a search
        if kept is not None:
            kept.active = True
        begin = time.perf_counter()
        found = call(asked)
        if engine.device.type == "cuda":
            import torch

            torch.cuda.synchronize(engine.device)
        seconds = time.perf_counter() - begin
        charged = 0.0 if kept is None else kept.take()
        seconds += charged
        if isinstance(found, Run):
            return Mode(name, verb, arguments, aligned(replace(found.cut(k), name=name), asked.queries.ids, target),
                        None, seconds)  # fmt: skip
        errors = {} if verb in ("bm25", "text_search", "text_subgraph") else asked.errors
        run, place = run_of(name, found, target, asked.queries.ids, errors, k)
        context = context_of(found, target, run, place, first, counter)
        stages = {stage: s for stage, s in found.timings.items() if stage != "embed"}
        if charged:
            stages["search"] = stages.get("search", 0.0) + charged
        return Mode(name, verb, arguments, run, context, seconds, stages, None, details_of(found, target, run, place),
                    available_of(found), charged=charged)  # fmt: skip
    except (TercetError, RuntimeError, ValueError, OSError, MemoryError) as error:
        return Mode(name, verb, arguments, None, None, 0.0, error=f"{type(error).__name__}: {error}")
    finally:
        if kept is not None:
            kept.active = False
            kept.take()


def aligned(run: Run, ids: pa.Array, target: Target) -> Run:
    """The same ranking for exactly these queries, over the documents of the target and others behind them.

    A query that the run doesn't have is `missing`.
    """
    known = positions(run.documents, target.documents)
    others = run.documents.filter(pa.array(known < 0))
    known[known < 0] = len(target.documents) + np.arange(len(others))
    at = positions(ids, run.queries)
    counts = np.where(at >= 0, np.diff(run.indptr)[at], 0)
    bounds = offsets(counts)
    entry = np.arange(bounds[-1]) + np.repeat(run.indptr[:-1][at] - bounds[:-1], counts)
    code = np.append(known, -1)[run.document[entry]].astype(np.int32)
    place = {int(old): new for new, old in enumerate(at) if old >= 0}
    return replace(
        run, queries=ids, indptr=bounds, document=code, score=run.score[entry],
        documents=target.documents if not len(others) else pa.concat_arrays([target.documents, others]),
        state=np.where(at >= 0, run.state[at], int(Outcome.missing)).astype(np.int8),
        errors={place[i]: e for i, e in run.errors.items() if i in place},
        cut_ties=None if run.cut_ties is None else (at >= 0) & run.cut_ties[at],
    )  # fmt: skip


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


def part_of(asked: Asked, part: slice) -> Asked:
    """A run of the queries."""
    low, high, _ = part.indices(len(asked.queries))
    inside = lambda errors: {i - low: e for i, e in errors.items() if low <= i < high}  # noqa: E731
    batch = asked.batch
    if batch is not None:
        raw = None if batch.raw is None else batch.raw[low:high]
        batch = QueryBatch(batch.text[low:high], batch.embedding[low:high], inside(batch.errors), batch.single, raw)
    return Asked(asked.queries.take(np.arange(low, high)), batch, inside(asked.errors), 0.0)
