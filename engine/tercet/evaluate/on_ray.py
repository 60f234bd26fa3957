"""The job of an evaluation on a Ray cluster; the only file here that imports Ray.

Partitions are the rows of a Ray Data set, mapped by actors with an engine each, which open the store themselves: by a
path that all machines have, or by a URL. What comes back are the bytes of partition files, so results are those of a
run without Ray. A partition that is lost, because its actor died or something raised, is asked for again, up to
`ROUNDS` times; all others are kept meanwhile.
"""

import gc
import inspect
import logging
import re
import time
from collections.abc import Iterator
from typing import Any

from tercet.errors import InvalidArgument, InvalidData, MissingDependency
from tercet.evaluate.identity import engine_identity
from tercet.evaluate.job import Job, Spec, digest
from tercet.evaluate.modes import Mode
from tercet.evaluate.parts import of_bytes, of_table, to_bytes, to_table

ROUNDS = 3
RESTARTS = 2  # of an actor that died


def on_cluster(job: Job, places: list[int], address: str, actors: int) -> Iterator[tuple[int, dict[str, Mode], float]]:
    """(partition, modes, seconds that it took) of some partitions, in the order in which they are done.

    Args:
        address: of a running cluster, "auto" for the one this machine belongs to, "local" for one of its own.

    Raises:
        InvalidArgument: the engine isn't as its store has it; or no cluster is there.
        InvalidData: partitions were lost in every round; names them.
        MissingDependency: Ray isn't installed.
    """
    if not places:
        return
    ray, data = _ray()
    origin = job.engine.state.origin
    identity = engine_identity(job.engine)
    if origin is None or "store" not in identity:
        raise InvalidArgument(
            "ray: expected an engine as its store has it, so that actors can open that; save it first"
        )
    started = _connected(ray, address)
    try:
        own = digest(str(time.time_ns()))  # ties what comes back to this call
        models, documents, lost = job.models(), job.target.documents, ""
        left = list(places)
        spec = ray.put(job.spec)
        arguments = (origin.place, job.engine.device.type, job.engine.rules.name, job.engine.scoped_to, identity, spec,
                     own)  # fmt: skip
        for round_ in range(ROUNDS):
            gc.collect()  # actors of a data set live as long as handles in its cycles do, and hold their processors
            try:
                for row in _mapped(data, left, arguments, actors, round_):
                    place = int(row["place"])
                    table = of_bytes(bytes(row["content"]), own, f"partition {place}")
                    left.remove(place)
                    yield place, of_table(table, models, documents), float(row["seconds"])
            except (ray.exceptions.RayError, RuntimeError) as error:
                lost = f"{type(error).__name__}: {error}"
            if not left:
                return
        shown = ", ".join(map(str, left[:10]))
        raise InvalidData(f"ray: {len(left)} partitions were lost in {ROUNDS} rounds ({shown}): {_last(lost)}")
    finally:
        if started:
            ray.shutdown()


class Worker:
    """An actor: one engine, which runs partitions."""

    def __init__(
        self, store: str, device: str, mode: str, scope: Any, identity: dict[str, Any], spec: Any, own: str
    ) -> None:
        import ray

        import tercet

        held: Spec = ray.get(spec)
        engine = tercet.open(store, device, encoder=_no_encoder, mode=mode, check_fingerprint=False)
        if scope is not None:
            engine = engine.scope(*scope)
        found = engine_identity(engine)
        if found != identity:
            raise InvalidData(f"ray: the store is another one on this machine, or was changed: {found}, not {identity}")
        self.job, self.own = Job.of(engine, held), own

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        out: dict[str, list[Any]] = {"place": [], "content": [], "seconds": []}
        for place in batch["place"].tolist():
            begin = time.perf_counter()
            table = to_table(self.job.run(place), self.job.spec.sizes[place], len(self.job.target.documents), self.own)
            out["place"].append(place)
            out["content"].append(to_bytes(table))
            out["seconds"].append(time.perf_counter() - begin)
        return out


def _no_encoder(texts: list[str]) -> Any:
    """Queries come with their vectors."""
    raise InvalidArgument(f"{len(texts)} texts: queries come encoded to an actor")


def _mapped(data: Any, places: list[int], arguments: tuple[Any, ...], actors: int, round_: int) -> Iterator[Any]:
    """Rows of partitions, as they are done; in the last round what raises says so, before that it is left out."""
    context = data.DataContext.get_current()
    before, shown = context.max_errored_blocks, context.enable_progress_bars
    context.max_errored_blocks = 0 if round_ == ROUNDS - 1 else -1
    context.enable_progress_bars = False
    try:
        rows = data.from_items([{"place": p} for p in places], override_num_blocks=len(places))
        options: dict[str, Any] = {"num_gpus": 1} if arguments[1] == "cuda" else {"num_cpus": 1}
        named = inspect.signature(rows.map_batches).parameters.values()
        if any(p.kind is p.VAR_KEYWORD for p in named):  # goes away with Ray 2.64; without it an actor may die for ever
            options |= {"max_restarts": RESTARTS, "max_task_retries": RESTARTS}
        made = rows.map_batches(
            Worker, fn_constructor_args=arguments, batch_size=1, **options,
            compute=data.ActorPoolStrategy(size=min(actors, len(places))),
        )  # fmt: skip
        yield from made.iter_rows()
    finally:
        context.max_errored_blocks, context.enable_progress_bars = before, shown


def _connected(ray: Any, address: str) -> bool:
    """Whether a connection was made here."""
    if ray.is_initialized():
        return False
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except ConnectionError as error:
        raise InvalidArgument(f"ray: no cluster at {address!r}: {error}") from error
    return True


def _last(text: str) -> str:
    """The error of the job in the trace that Ray gives: the last one that isn't Ray's own."""
    own = re.findall(r"^(?!ray\.)[A-Za-z_][\w.]*: .+$", text, re.MULTILINE)
    lines = [*text.split("\n"), *own]
    return next((line.strip() for line in reversed(lines) if line.strip()), "their actors sent nothing")


def _ray() -> tuple[Any, Any]:
    try:
        import ray
        from ray import data
    except ImportError as error:
        raise MissingDependency("evaluation on a cluster needs Ray: install 'tercet[ray]'") from error
    return ray, data
