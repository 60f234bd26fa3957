"""A batch: one call of the engine for the requests of a group, taken apart where it fails for the fault of one."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from tercet.errors import EngineClosed
from tercet.node import nodes_of, relationships_of
from tercet.recall import BLOCK, Recall
from tercet.retrieve.subgraph import Subgraphs
from tercet.serve.encoded import known_to
from tercet.serve.forms import SUBJECT
from tercet.serve.requests import Request, join

PIECE = 512  # objects made at once: Python runs no other thread meanwhile, for about a millisecond


class Outcome(NamedTuple):
    """What became of a request: its results, or the exception of its call."""

    request: Request
    results: list[Any] | None
    error: BaseException | None


def run_batch(engine: Any, requests: Sequence[Request], render: bool) -> list[Outcome]:
    """Answer the requests of a group.

    A call that raises is repeated with halves of the requests, so that the one at fault fails alone.

    Args:
        engine: a view that nobody else has; its encoder is replaced by one that knows what was encoded ahead.
        render: look up texts and facts here, instead of where they are used.
    """
    if engine.encoder is not None:
        engine.encoder = known_to(engine.encoder, requests)
    try:
        here = engine if requests[0].scope is None else engine.scope(*requests[0].scope)
    except BaseException as error:  # whatever it is, it is for those who asked, not for the worker
        return [Outcome(r, None, error) for r in requests]
    return list(_run(here, requests, render))


def _run(engine: Any, requests: Sequence[Request], render: bool) -> Iterator[Outcome]:
    alone = len(requests) == 1
    try:
        first = requests[0]
        got = getattr(engine, first.verb)(**(first.arguments if alone else join(requests)))
        if render:
            prepare(got)
    except BaseException as error:  # of the caller's arguments or functions, so of any kind
        if alone or isinstance(error, EngineClosed):
            yield from (Outcome(r, None, error) for r in requests)
            return
    else:
        yield from _split(engine, got, requests, render)
        return
    half = len(requests) // 2
    yield from _run(engine, requests[:half], render)
    yield from _run(engine, requests[half:], render)


def _split(engine: Any, got: Any, requests: Sequence[Request], render: bool) -> Iterator[Outcome]:
    if len(requests) == 1:
        yield Outcome(requests[0], [got[0]] if requests[0].single else list(got), None)
        return
    low = 0
    for r in requests:
        if r.verb in SUBJECT and any(i in got.errors for i in range(low, low + r.count)):
            yield from _run(engine, [r], render)  # about one item it is refused, and the message names its place
        else:
            yield Outcome(r, [got[i] for i in range(low, low + r.count)], None)
        low += r.count


def prepare(got: Any) -> None:
    """Copy results to the host and look up their texts and facts, so that using one costs its own part only."""
    if isinstance(got, Recall):
        for name, fill in (("edge", -1), ("score", float("inf")), ("distance", float("inf"))):
            got._host(name, fill)
        _ = got.status
        got._rendered()
        for place in range(0, len(got), BLOCK):
            got._facts(place)
    elif isinstance(got, Subgraphs):
        kinds: list[tuple[dict[int, Any], Any, Any]] = [
            (got._nodes, got.node, nodes_of), (got._relationships, got.edge, relationships_of),
        ]  # fmt: skip
        for held, rows, make in kinds:
            wanted = np.unique(rows)
            for low in range(0, len(wanted), PIECE):
                part = wanted[low : low + PIECE]
                held.update(zip(part.tolist(), make(got.graph, part.astype(np.int64)), strict=True))
