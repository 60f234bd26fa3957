"""Answers on their way to those who wait for them."""

import asyncio
import time
from collections.abc import Sequence
from concurrent.futures import InvalidStateError
from typing import Any

from tercet.errors import DeadlineExceeded
from tercet.serve.requests import Answer, Request
from tercet.serve.run import Outcome

Settled = tuple[Any, Any, BaseException | None]  # a future, its result, its exception
TURN = 16  # futures of an event loop that are settled in one of its rounds


def late(request: Request) -> DeadlineExceeded:
    """The error of a request that wasn't answered in time."""
    waited = time.monotonic() - request.arrived
    return DeadlineExceeded(f"{request.verb}: no answer within its deadline; {1e3 * waited:.0f} ms have passed")


def settle(entries: Sequence[Settled]) -> None:
    """Give futures their results, unless nobody waits for them any more."""
    for future, value, error in entries:
        if future.done():
            continue
        try:
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(value)
        except InvalidStateError:  # cancelled by another thread just now
            continue


def settle_in_turns(loop: asyncio.AbstractEventLoop, entries: list[Settled]) -> None:
    """Settle some futures, and the rest in the loop's next rounds, so that all who wake up don't do it in one."""
    settle(entries[:TURN])
    if len(entries) > TURN:
        loop.call_soon(settle_in_turns, loop, entries[TURN:])


def whole(answer: Answer, outcome: Outcome) -> Any | None:
    """The result of a call, once all of its parts are there."""
    assert outcome.results is not None
    if answer.single:
        return outcome.results[0]
    if not answer.parts:
        return outcome.results
    answer.parts[outcome.request.part] = outcome.results
    answer.left -= 1
    return None if answer.left else [result for part in answer.parts for result in part]
