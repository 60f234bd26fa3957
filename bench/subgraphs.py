"""Calls of Tercet's subgraph verbs as the suite `grafito` times them, and how answers are compared with another's."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bench.prepare import engine_of
from bench.records import Cell, cell
from bench.texts import LABEL, TextWorkload
from bench.timing import Timing
from tercet import Engine
from tercet.grafito import text_rows
from tercet.retrieve.subgraph import Subgraph, Subgraphs

PREPARED = 16  # queries of an untimed call before each cell
Call = dict[str, Any]  # `call`, the name of a verb, and its arguments


@dataclass(frozen=True)
class Asker:
    """An engine in one mode, and the queries of a workload."""

    engine: Engine
    given: TextWorkload
    mode: str

    def ask(self, call: Call, rows: Sequence[int]) -> Subgraphs:
        """Make a call about some of the queries, in one batch."""
        options = {name: value for name, value in call.items() if name != "call"}
        verb = getattr(self.engine, call["call"])
        at = np.asarray(rows)
        if call["call"] == "path_context":
            return verb(list(self.given.waypoints[at]), **options)  # type: ignore[no-any-return]
        vectors = self.given.query_vectors[at]
        if call["call"] == "hybrid_subgraph":
            return verb(self.given.query_texts[at].tolist(), vectors=vectors, **options)  # type: ignore[no-any-return]
        return verb(vectors=vectors, **options)  # type: ignore[no-any-return]


def asker(given: TextWorkload, mode: str) -> Asker:
    """An engine over a workload; in mode "grafito" its text side is Grafito's text table."""
    if mode == "native":
        return Asker(engine_of(given, columns=given.node_columns, lexical=["text"]), given, mode)
    engine = engine_of(given, "grafito", columns=given.node_columns)
    engine.lexical = text_rows(engine.graph, *records(given), TEXT_INDEX)
    return Asker(engine, given, mode)


TEXT_INDEX = [{"entity": "node", "label_or_type": LABEL, "properties": ["text"]}]


def records(given: TextWorkload) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Nodes and relationships as far as Grafito's text table reads them; ids are rows."""
    nodes = [{"id": i, "labels": [LABEL], "properties": {"text": t}} for i, t in enumerate(given.node_texts.tolist())]
    types = given.relation_texts
    return nodes, [{"id": i, "type": types[r], "properties": {}} for i, r in enumerate(given.relation.tolist())]


def timed(
    measure: Callable[..., Timing], about: dict[str, Any], asked: Asker, call: Call, batch: int, *, objects: bool,
    singles: int,
) -> Cell:  # fmt: skip
    """One cell: the whole batch again and again, or single queries in turn.

    Args:
        objects: read the objects of every subgraph, too: nodes, relationships, seeds, hops and routes.
        singles: different queries of a batch of one.
    """
    stages: list[Mapping[str, float]] = []
    count = {"nodes": 0, "relationships": 0}
    turn = _turns(len(asked.given.query_texts), batch, singles)

    def run() -> None:
        got = asked.ask(call, next(turn))
        if objects:
            for one in got:
                read(one)
        stages.append(got.timings)
        count["nodes"], count["relationships"] = len(got.node), len(got.edge)

    asked.ask(call, range(min(batch, PREPARED)))  # compiles, and makes what the engine keeps
    more = {"repeats": singles} if batch == 1 else {}
    timing = measure(run, **more)
    kept = stages[-timing.repeats :]
    names = list(dict.fromkeys(name for stage in kept for name in stage))
    settings = {**call, "batch": batch, "mode": asked.mode, "form": "objects" if objects else "arrays"}
    return cell(
        "tercet", about, settings, timing,
        stages={name: float(np.median([stage.get(name, 0.0) for stage in kept])) for name in names}, last=count,
    )  # fmt: skip


def read(one: Subgraph) -> tuple[Any, ...]:
    """All that a Grafito subgraph holds, as objects."""
    return one.nodes, one.relationships, one.seeds, one.scores, one.hops, one.paths


def _turns(queries: int, batch: int, singles: int) -> Iterator[list[int]]:
    """The queries of each call."""
    at = 0
    while True:
        if batch > 1:
            yield [i % queries for i in range(batch)]
        else:
            yield [at % min(singles, queries)]
            at += 1


PARTS = ("seeds", "nodes", "relationships", "paths")


def told(one: Subgraph, seeds: int) -> dict[str, Any]:
    """An answer of a "grafito" engine in rows of the workload, as the other side tells its own."""
    batch = one.batch
    rows = batch.seed[batch.seed_indptr[seeds] : batch.seed_indptr[seeds + 1]]
    return {
        "seeds": rows.tolist(), "nodes": one.node_rows.tolist(), "relationships": one.edge_rows.tolist(),
        "paths": [[int(node[1:]) for node in path] for path in one.paths],
    }  # fmt: skip


def compare(asked: Asker, call: Call, answers: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """How many of the other side's answers, to the first queries, are the same.

    With the same rules: those with equal sets of seeds, nodes and relationships and equal routes, in all and by part;
    `order` counts those with equal lists. With Tercet's own rules: those with the same seeds, nodes and as many
    relationships (its edges have other rows), and all of the other's routes among Tercet's.
    """
    got = asked.ask(call, range(len(answers)))
    out = dict.fromkeys(("same", *PARTS, "order"), 0)
    shared = 0.0
    for i, (one, theirs) in enumerate(zip(got, answers, strict=True)):
        mine = told(one, i)
        equal = {name: set(mine[name]) == set(theirs[name]) for name in ("seeds", "nodes")}
        if asked.mode == "grafito":
            equal["relationships"] = set(mine["relationships"]) == set(theirs["relationships"])
            equal["paths"] = mine["paths"] == theirs["paths"]
        else:
            equal["relationships"] = len(mine["relationships"]) == len(theirs["relationships"])
            equal["paths"] = {tuple(p) for p in theirs["paths"]} <= {tuple(p) for p in mine["paths"]}
        for name in PARTS:
            out[name] += equal[name]
        out["same"] += all(equal.values())
        out["order"] += mine == dict(theirs)
        shared += len(set(mine["seeds"]) & set(theirs["seeds"])) / max(len(set(theirs["seeds"])), 1)
    return {"queries": len(answers), **out, "seeds_shared": shared / max(len(answers), 1)}
