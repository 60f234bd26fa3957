"""A Ray Serve deployment of an engine; the only file that imports Ray.

Ray routes, replicates and scales; inside of each replica an `AsyncEngine` gathers what comes into batches, as
`@serve.batch` would, but with the settings of every request kept apart.
"""

from collections.abc import Mapping
from typing import Any

from tercet.errors import InvalidArgument, MissingDependency
from tercet.serve.forms import VERBS
from tercet.serve.reply import Reply, record_of, reply_of

try:
    from ray import serve
except ImportError as missing:
    raise MissingDependency("tercet.serve.ray needs Ray Serve: pip install 'tercet[ray]'") from missing

REQUESTS = 512  # in flight at a replica, unless told otherwise: two batches, so that one is gathered during the other


class Replica:
    """One engine of a store, with its worker; what Ray makes several of.

    Args:
        store: the folder or URL of a store, where every replica finds it.
        threads: for computing; None: as torch has it.
        engine: options of `tercet.open`. front: options of `AsyncEngine`.
    """

    def __init__(
        self,
        store: str,
        threads: int | None = None,
        engine: Mapping[str, Any] | None = None,
        front: Mapping[str, Any] | None = None,
    ) -> None:
        import tercet
        from tercet.serve.async_engine import AsyncEngine
        from tercet.threads import set_threads

        if threads is not None:
            set_threads(threads)
        self.store, self.options = store, dict(engine or {})
        self.front = AsyncEngine(tercet.open(store, **self.options), **(front or {}))

    async def ask(self, verb: str = "recall", queries: Any = None, **arguments: Any) -> Any:
        """A record for one query, a list for a list; `reply_of` makes a `Reply` of a record."""
        if verb not in VERBS:
            raise InvalidArgument(f"verb: expected one of {', '.join(VERBS)}, got {verb!r}")
        if queries is not None:
            arguments["queries"] = queries
        got = await getattr(self.front, verb)(**arguments)
        return [record_of(r) for r in got] if isinstance(got, list) else record_of(got)

    async def __call__(self, request: Any) -> Any:
        """The same over HTTP: a POST whose JSON body has `verb` and the verb's arguments."""
        body = await request.json()
        if not isinstance(body, dict):
            raise InvalidArgument(f"request: expected a JSON object, got {type(body).__name__}")
        return await self.ask(**body)

    async def check_health(self) -> None:
        """Ray replaces a replica whose engine is closed."""
        _ = self.front.engine.state

    async def __del__(self) -> None:
        front = getattr(self, "front", None)
        if front is not None:
            await front.aclose()


def application(
    store: str,
    *,
    threads: int | None = None,
    engine: Mapping[str, Any] | None = None,
    front: Mapping[str, Any] | None = None,
    **deployment: Any,
) -> Any:
    """An application for `ray.serve.run`.

    Args:
        store, threads, engine, front: see `Replica`.
        deployment: Ray's own settings, such as `num_replicas`, `autoscaling_config`, `ray_actor_options`,
            `max_ongoing_requests` (by default as many as two full batches).

    Returns:
        an application. `await handle.ask.remote("question", ...)` gives a record, see `Client`.
    """
    deployment.setdefault("max_ongoing_requests", REQUESTS)
    deployment.setdefault("name", "tercet")
    made = serve.deployment(**deployment)(Replica)
    return made.bind(store, threads, dict(engine or {}), dict(front or {}))


class Client:
    """A deployment that answers with `Reply` values.

    Args:
        handle: what `ray.serve.run(application(...))` returned, or `ray.serve.get_app_handle(name)`.
    """

    def __init__(self, handle: Any) -> None:
        self.handle = handle

    async def ask(self, verb: str = "recall", queries: Any = None, **arguments: Any) -> Reply | list[Reply]:
        """Ask one of the replicas; see `AsyncEngine` for the arguments."""
        return _replies(await self.handle.ask.remote(verb, queries, **arguments))

    def ask_now(
        self, verb: str = "recall", queries: Any = None, *, timeout_s: float | None = None, **arguments: Any
    ) -> Reply | list[Reply]:
        """The same outside of an event loop."""
        return _replies(self.handle.ask.remote(verb, queries, **arguments).result(timeout_s=timeout_s))


def _replies(got: Any) -> Reply | list[Reply]:
    return [reply_of(r) for r in got] if isinstance(got, list) else reply_of(got)
