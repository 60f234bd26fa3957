"""Results as plain values, for those who asked from another process."""

import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tercet import errors
from tercet.result import Result, Triplet
from tercet.retrieve.hits import Hits
from tercet.retrieve.subgraph import Subgraph


@dataclass(frozen=True)
class Reply:
    """The answer to one query, with the same values as the engine's own result."""

    query: str | None
    status: str
    error: str | None
    version: int  # of the engine, which the answer is from
    text: str = ""  # the context text
    triplets: list[Triplet] = field(default_factory=list)  # of recall
    edges: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int32))  # (n,) int32 edge rows, best first
    scores: np.ndarray = field(default_factory=lambda: np.zeros(0))  # (n,) float64
    distances: np.ndarray = field(default_factory=lambda: np.zeros((0, 3), np.float32))  # (n, 3) float32, of recall
    nodes: list[dict[str, Any]] = field(default_factory=list)  # of searches and subgraphs: id, score, and hops
    relationships: list[dict[str, Any]] = field(default_factory=list)  # of subgraphs: id, source, type, target
    paths: list[list[str]] = field(default_factory=list)  # of path_context, as node ids
    truncated: bool = False
    missing: dict[str, str] = field(default_factory=dict)


def record_of(result: Any) -> dict[str, Any]:
    """A result as JSON; `reply_of` makes a `Reply` of it. Numbers keep every bit."""
    head = {"query": result.query, "status": result.status, "error": result.error}
    if isinstance(result, Result):
        return {
            **head, "version": result.recall.version, "text": result.text, "edges": result.edges.tolist(),
            "scores": result.scores.tolist(), "distances": result.distances.tolist(),
            "triplets": [[t.source, t.relation, t.target, t.edge_id, t.edge_text] for t in result.triplets],
        }  # fmt: skip
    head |= {"version": result.batch.version, "missing": result.missing}
    if isinstance(result, Hits):
        scores = result.scores.tolist()
        nodes = [{"id": i, "score": s} for i, s in zip(result.ids(), scores, strict=True)]
        return {**head, "nodes": nodes, "scores": scores}
    assert isinstance(result, Subgraph)
    scores_of, hops = result.scores, result.hops
    return {
        **head, "text": result.context(), "edges": result.edge_rows.tolist(), "truncated": result.truncated,
        "nodes": [{"id": i, "score": scores_of.get(i), "hops": hops[i]} for i in result.node_ids()],
        "relationships": [
            {"id": r.id, "source": r.source_id, "type": r.type, "target": r.target_id} for r in result.relationships
        ],
        "paths": result.paths,
    }  # fmt: skip


def reply_of(record: dict[str, Any]) -> Reply:
    """The reply of a record."""
    given = dict(record)
    for name, kind in (("edges", np.int32), ("scores", np.float64), ("distances", np.float32)):
        if name in given:
            given[name] = np.array(given[name], kind).reshape((-1, 3) if name == "distances" else -1)
    if "triplets" in given:
        rows = zip(given["triplets"], given["scores"].tolist(), given["edges"].tolist(), strict=True)
        given["triplets"] = [Triplet(s, r, t, score, edge, *about) for (s, r, t, *about), score, edge in rows]
    return Reply(**given)


def outcome_of(future: Any) -> dict[str, Any]:
    """What became of a request: `single`, or a list of records, or the class and message of its exception."""
    if future.cancelled():
        return {"error": ["CancelledError", ""]}
    error = future.exception()
    if error is not None:
        return {"error": [type(error).__name__, str(error)]}
    got = future.result()
    return {"many": [record_of(r) for r in got]} if isinstance(got, list) else {"one": record_of(got)}


def settle(future: Any, outcome: dict[str, Any]) -> None:
    """Give a future what `outcome_of` told of another one."""
    if "error" in outcome:
        future.set_exception(error_of(*outcome["error"]))
    elif "many" in outcome:
        future.set_result([reply_of(r) for r in outcome["many"]])
    else:
        future.set_result(reply_of(outcome["one"]))


def error_of(name: str, message: str) -> BaseException:
    """An exception of `tercet.errors` by its name; another one becomes a `TercetError` that names it."""
    kind = getattr(errors, name, None)
    if isinstance(kind, type) and issubclass(kind, errors.TercetError):
        return kind(message)
    return errors.TercetError(f"{name}: {message}")


def packed(value: Any) -> bytes:
    return json.dumps(value).encode()
