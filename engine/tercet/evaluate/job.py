"""The job of an evaluation: all modes over all queries, partition by partition."""

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from tercet.evaluate.baselines import BASELINES
from tercet.evaluate.identity import engine_identity
from tercet.evaluate.modes import Asked, Mode, part_of, run_baseline, run_mode
from tercet.evaluate.reuse import Kept, sharing
from tercet.evaluate.target import Level, Target, target_of
from tercet.tokens import Counter

PARTITION = 256  # queries
PLAIN = ("level", "prefix", "passage_type", "k", "triplets", "context_k", "partition")  # fields that are in the key


@dataclass(frozen=True, eq=False)
class Spec:
    """What a job does, without the engine that it does it on."""

    asked: Asked
    modes: dict[str, Any]  # arguments or functions by name
    baselines: tuple[str, ...]
    level: Level
    prefix: str
    passage_type: str
    citations: Any
    k: int
    triplets: int
    context_k: int
    counter: Counter | None
    partition: int
    reuse: bool

    @property
    def parts(self) -> list[slice]:
        """The queries of each partition."""
        total = len(self.asked.queries)
        return [slice(i, min(i + self.partition, total)) for i in range(0, total, self.partition)]

    @property
    def sizes(self) -> list[int]:
        """Queries of each partition."""
        return [p.stop - p.start for p in self.parts]

    def key(self, engine: Any) -> dict[str, Any]:
        """Everything that results depend on, as JSON; partitions with equal keys can be joined."""
        asked = self.asked
        batch = asked.batch
        vectors = [] if batch is None else [batch.embedding.numpy().tobytes()]
        return {
            "store": engine_identity(engine), "queries": digest(asked.queries.ids, asked.queries.texts),
            "vectors": digest(*vectors, json.dumps(sorted(asked.errors.items()))),
            "modes": {name: described(given) for name, given in self.modes.items()},
            "baselines": list(self.baselines), "citations": None if self.citations is None else digest(
                _table(self.citations)),
            **{name: getattr(self, name) for name in PLAIN},
            "counter": None if self.counter is None else described(self.counter),
        }  # fmt: skip


@dataclass(eq=False)
class Job:
    """A spec on an engine."""

    engine: Any
    spec: Spec
    target: Target
    warm: bool = True  # the first partition runs some queries untimed
    kept: Kept | None = None
    shared: Any = None  # a view of the engine that reuses searches

    @staticmethod
    def of(engine: Any, spec: Spec, target: Target | None = None) -> "Job":
        """The job on an engine, whatever happens to that later."""
        engine = engine.view()
        if target is None:
            target = target_of(engine.graph, spec.level, prefix=spec.prefix, passage_type=spec.passage_type,
                               citations=spec.citations)  # fmt: skip
        job = Job(engine, spec, target)
        limits = [m.get("wide_search_top_k", 100) for n, m in spec.modes.items()
                  if isinstance(m, Mapping) and m.get("verb", n) == "recall"]  # fmt: skip
        if spec.reuse and len(limits) > 1:
            job.kept = Kept(max([w for w in limits if isinstance(w, int)], default=0))
            job.shared = sharing(engine, job.kept)
        return job

    def run(self, place: int, tell: Callable[[str], None] | None = None) -> dict[str, Mode]:
        """All modes and baselines over one partition."""
        asked = part_of(self.spec.asked, self.spec.parts[place])
        out = {}
        for name in [*self.spec.modes, *self.spec.baselines]:
            if tell is not None:
                tell(name)
            out[name] = self.run_one(asked, name, self.warm)
        self.warm = False
        if self.kept is not None:
            self.kept.forget()
        return out

    def run_one(self, asked: Asked, name: str, warm: bool, given: Mapping[str, Any] | None = None) -> Mode:
        """One mode or baseline over some queries; `given` instead of the mode's arguments."""
        spec = self.spec
        if name in BASELINES:
            return run_baseline(self.engine, self.target, asked, name, k=spec.k, context_k=spec.context_k,
                                counter=spec.counter, warm=warm)  # fmt: skip
        engine = self.engine if self.shared is None or given is not None else self.shared
        kept = None if given is not None else self.kept
        return run_mode(
            engine, self.target, asked, name, spec.modes[name] if given is None else given, k=spec.k,
            triplets=spec.triplets, context_k=spec.context_k, counter=spec.counter, warm=warm, kept=kept,
        )  # fmt: skip

    def models(self) -> dict[str, Mode]:
        """Modes and baselines that nothing has been run of: names, verbs, arguments."""
        out = {}
        for name in [*self.spec.modes, *self.spec.baselines]:
            given = self.spec.modes.get(name, {})
            verb = name if name in BASELINES else "function" if callable(given) else str(given.get("verb", name))
            arguments = {} if callable(given) else {k: v for k, v in given.items() if k != "verb"}
            out[name] = Mode(name, verb, arguments, None, None, 0.0)
        return out

    def one_by_one(self, count: int) -> pa.Table:
        """The seconds of single queries, one in flight: a row a (mode, query), of `count` queries spread over all.

        Nothing is shared between modes; a mode has no more rows after it raised.
        """
        total = len(self.spec.asked.queries)
        rows = np.unique(np.linspace(0, total - 1, min(count, total)).astype(int)).tolist()
        names: list[str] = []
        queries: list[int] = []
        seconds: list[float] = []
        for name in [*self.spec.modes, *self.spec.baselines]:
            given = self.spec.modes.get(name, {})
            if callable(given) or "/" in name:
                continue
            for i, row in enumerate(rows):
                mode = self.run_one(part_of(self.spec.asked, slice(row, row + 1)), name, i == 0, given)
                if mode.error is not None:
                    break
                names.append(name)
                queries.append(row)
                seconds.append(mode.seconds)
        ids = self.spec.asked.queries.ids.take(pa.array(queries, pa.int64()))
        return pa.table(
            {"mode": pa.array(names, pa.string()), "query": ids, "seconds": pa.array(seconds, pa.float64())}
        )


def in_turn(
    job: Job, places: list[int], tell: Callable[[str], None] | None
) -> Iterator[tuple[int, dict[str, Mode], float]]:
    """(partition, modes, seconds that it took) of some partitions, on this machine."""
    for place in places:
        begin = time.perf_counter()
        yield place, job.run(place, tell), time.perf_counter() - begin


def described(value: Any) -> Any:
    """Settings as JSON: a function by its name, a mapping sorted, anything else as it shows."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, Mapping):
        return {str(k): described(value[k]) for k in sorted(value, key=str)}
    if isinstance(value, (list, tuple)):
        return [described(v) for v in value]
    if isinstance(value, np.generic):
        return value.item()
    if callable(value):
        module, name = getattr(value, "__module__", ""), getattr(value, "__qualname__", type(value).__qualname__)
        return f"function {module}.{name}"
    if isinstance(value, np.ndarray):
        return f"array {digest(value.tobytes())}"
    return repr(value)


def digest(*parts: Any) -> str:
    """A hash of texts, bytes, Arrow arrays and tables."""
    made = hashlib.sha256()
    for part in parts:
        content = part
        if isinstance(part, str):
            content = part.encode()
        elif isinstance(part, (pa.Array, pa.ChunkedArray, pa.Table)):
            table = part if isinstance(part, pa.Table) else pa.table({"": part})
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, table.schema) as writer:
                writer.write_table(table.combine_chunks())
            content = sink.getvalue().to_pybytes()
        made.update(len(content).to_bytes(8, "little"))
        made.update(content)
    return made.hexdigest()


def _table(given: Any) -> pa.Table:
    from tercet.tables import as_columns

    return pa.table({name: pa.array(column) if not isinstance(column, (pa.Array, pa.ChunkedArray)) else column
                     for name, column in as_columns(given, "citations").items()})  # fmt: skip
