"""How a job is run: what is there already is read, the rest is made here or on a cluster, and all of it is joined."""

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tercet.evaluate.job import Job, described, in_turn
from tercet.evaluate.modes import Asked, Mode
from tercet.evaluate.parts import joined, to_bytes, to_table
from tercet.evaluate.queries import Queries
from tercet.evaluate.work import Work

EXACT = "exact/"  # begins the names of what is run for agreement alone; names of modes can't hold a slash

Progress = Callable[[int, int, float | None, str], None]  # queries done, of how many, seconds left, what is running


def asked_of(engine: Any, queries: Queries, work: Work | None) -> Asked:
    """The queries encoded, unless a stopped run of the same folder had done that."""
    encoder = encoder_name(engine, queries)
    before = None if work is None or queries.vectors is not None else work.vectors(queries, encoder)
    return before if before is not None else Asked.by(engine, queries)


def encoder_name(engine: Any, queries: Queries) -> str:
    if queries.vectors is not None or engine.encoder is None:
        return "given" if queries.vectors is not None else "none"
    return str(engine.encoder.fingerprint().describe())


def run_all(job: Job, work: Work | None, ray: str | None, actors: int, progress: Progress | None) -> dict[str, Mode]:
    """All partitions, those that a folder has and the others, joined."""
    spec = job.spec
    sizes, models = spec.sizes, job.models()
    parts: dict[int, dict[str, Mode]] = {}
    if work is not None:
        work.begin(spec.key(job.engine), len(sizes), spec.asked, encoder_name(job.engine, spec.asked.queries))
        held = {i: work.read(i, models, job.target.documents) for i in range(len(sizes))}
        parts = {i: p for i, p in held.items() if p is not None}
        work.log(f"{len(sizes)} partitions of {spec.partition} queries, {len(parts)} are there already")
    left = [i for i in range(len(sizes)) if i not in parts]
    done = before = sum(sizes[i] for i in parts)
    total, begin = sum(sizes), time.monotonic()

    def tell(what: str) -> None:
        if progress is not None:
            pace = (time.monotonic() - begin) / (done - before) if done > before else None
            progress(done, total, None if pace is None else pace * (total - done), what)

    tell("")
    for place, made, seconds in _source(job, left, ray, actors, tell):
        parts[place] = made
        if work is not None:
            work.put(place, to_bytes(to_table(made, sizes[place], len(job.target.documents), work.digest)))
            raised = "".join(f"; {n} raised {m.error}" for n, m in made.items() if m.error is not None)
            work.log(f"partition {place}: {sizes[place]} queries in {seconds:.2f} s{raised}")
        done += sizes[place]
        tell("")
    return joined([parts[i] for i in range(len(sizes))], sizes, spec.asked.queries.ids)


def _source(
    job: Job, places: list[int], ray: str | None, actors: int, tell: Callable[[str], None]
) -> Iterator[tuple[int, dict[str, Mode], float]]:
    if ray is None:
        return in_turn(job, places, lambda name: tell(name.removeprefix(EXACT)))
    from tercet.evaluate.on_ray import on_cluster

    return on_cluster(job, places, ray, actors)


def exact_of(modes: Mapping[str, Any]) -> dict[str, tuple[str, dict[str, Any]]]:
    """For each recall, one without a limit on candidates: what it is run as, and its arguments; equal ones once."""
    out: dict[str, tuple[str, dict[str, Any]]] = {}
    names: dict[str, str] = {}
    for name, given in modes.items():
        if callable(given) or given.get("verb", name) != "recall":
            continue
        unlimited = {**given, "verb": "recall", "wide_search_top_k": None}
        out[name] = (names.setdefault(repr(described(unlimited)), f"{EXACT}{name}"), unlimited)
    return out
