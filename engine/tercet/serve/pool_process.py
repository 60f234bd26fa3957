"""What runs in each process of a pool: the store, served, and two pipes' ends."""

import queue
import threading
from collections.abc import Hashable
from concurrent.futures import Future
from functools import partial
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

from tercet.errors import TercetError
from tercet.serve.reply import outcome_of, packed

TOGETHER = 64  # answers in a message at most


class Task(NamedTuple):
    """A request as it travels."""

    number: int
    verb: str
    given: dict[str, Any]
    scope: Any
    tenant: Hashable
    size: int  # queries


def serve(pipe: Connection, store: str, given: dict[str, Any], verify: bool) -> None:
    """Open a store and answer what comes through the pipe, until it says "end" or closes."""
    import tercet
    from tercet.serve.async_engine import AsyncEngine
    from tercet.threads import set_threads

    try:
        set_threads(given["threads"])
        engine = tercet.open(store, verify=verify, **given["open"])
        front = AsyncEngine(engine, **given["front"])
    except TercetError as error:
        pipe.send_bytes(packed([[None, {"error": [type(error).__name__, str(error)]}]]))
        return
    answers: queue.SimpleQueue[tuple[int | None, Any] | None] = queue.SimpleQueue()
    sender = threading.Thread(target=_send, args=(pipe, answers), name="tercet-answers")
    sender.start()
    answers.put((None, {"version": engine.version}))
    asked: dict[int, Future[Any]] = {}
    drain = False
    while (message := _received(pipe)) is not None:
        what, *parts = message
        if what == "ask":
            _ask(front, asked, answers, *parts)
        elif what == "cancel":
            future = asked.get(parts[0])
            if future is not None:
                future.cancel()
        elif what == "reload":
            threading.Thread(target=_reload, args=(front, store, given["open"], answers), daemon=True).start()
        else:
            drain = parts[0]
            break
    front._server.close(drain=drain)
    answers.put(None)
    sender.join()


def _ask(
    front: Any, asked: dict[int, "Future[Any]"], answers: "queue.SimpleQueue[Any]", task: Task, deadline_s: float | None
) -> None:
    try:
        future = front.submit(task.verb, deadline_s=deadline_s, scope=task.scope, tenant=task.tenant, **task.given)
    except (TercetError, TypeError) as error:
        failed: Future[Any] = Future()
        failed.set_exception(error)
        answers.put((task.number, failed))
        return
    asked[task.number] = future
    future.add_done_callback(partial(_answered, asked, answers, task.number))


def _answered(asked: dict[int, Any], answers: "queue.SimpleQueue[Any]", number: int, future: "Future[Any]") -> None:
    asked.pop(number, None)
    if not future.cancelled():
        answers.put((number, future))


def _reload(front: Any, store: str, options: dict[str, Any], answers: "queue.SimpleQueue[Any]") -> None:
    """Open the store again beside the one that answers, and change over."""
    import tercet

    try:
        engine = tercet.open(store, **options)
    except TercetError as error:
        answers.put((None, {"error": [type(error).__name__, str(error)]}))
        return
    front.swap(engine)
    answers.put((None, {"version": engine.version}))


def _received(pipe: Connection) -> Any:
    try:
        return pipe.recv()
    except (EOFError, OSError):
        return None


def _send(pipe: Connection, answers: "queue.SimpleQueue[Any]") -> None:
    """Send answers as they come, all that are there in one message."""
    ended = False
    while not ended:
        batch = [answers.get()]
        while len(batch) < TOGETHER and not answers.empty():
            batch.append(answers.get())
        ended = batch[-1] is None
        rows = [[n, outcome_of(f) if isinstance(f, Future) else f] for n, f in (b for b in batch if b is not None)]
        try:
            pipe.send_bytes(packed(rows))
        except (BrokenPipeError, OSError):  # nobody is there to read it
            return
