"""A seeded engine with datasets, node sets, texts and an encoder of its own, for the tests of the server."""

import hashlib
import threading
import time
from typing import Any

import numpy as np

from tercet import Collection, Engine, Graph
from tercet.result import Result
from tercet.retrieve.hits import Hits
from tercet.serve.server import Server
from tercet.serve.submits import given_of, submit

WIDTH = 8
WORDS = ["harbour", "bridge", "market", "river", "tower", "garden", "station", "museum", "canal", "square"]
RELATIONS = ["near", "part of", "leads to", "older than"]


def vector_of(text: str) -> np.ndarray:
    """A vector that depends on the text alone."""
    seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")
    return np.random.default_rng(seed).normal(size=WIDTH).astype(np.float32)


def encode(texts: list[str]) -> np.ndarray:
    """Rows of `vector_of`."""
    return np.stack([vector_of(t) for t in texts])


def world(nodes: int = 60, edges: int = 200, *, seed: int = 0, encoder: Any = encode, **options: Any) -> Engine:
    """An engine on the CPU."""
    rng = np.random.default_rng(seed)
    ids = [f"n{i}" for i in range(nodes)]
    names = [f"{rng.choice(WORDS)} {rng.choice(WORDS)} {i}" for i in range(nodes)]
    datasets = [("A", "B")[i % 2] for i in range(nodes)]
    table = {
        "id": ids, "name": names, "text": [f"{n} {rng.choice(WORDS)}" for n in names], "dataset": datasets,
        "type": [("Entity", "DocumentChunk")[i % 3 == 0] for i in range(nodes)],
        "belongs_to_set": [["s"] if i % 4 == 0 else ["t"] if i % 4 == 1 else [] for i in range(nodes)],
    }  # fmt: skip
    ends = rng.integers(0, nodes, size=(edges, 2))
    ends[:, 1] += (ends[:, 0] - ends[:, 1]) % 2  # edges stay inside a dataset
    ends %= nodes
    links = {
        "source": [ids[i] for i in ends[:, 0]], "target": [ids[i] for i in ends[:, 1]],
        "relation": rng.choice(RELATIONS, edges).tolist(), "id": [f"e{i}" for i in range(edges)],
    }  # fmt: skip
    collections = [
        Collection.build("Entity_name", encode(names), ids, "node"),
        Collection.build(
            "EdgeType_relationship_name", encode(RELATIONS), [r.replace(" ", "_") for r in RELATIONS], "relation"
        ),
    ]
    return Engine(Graph.from_tables(table, links), collections, device="cpu", encoder=encoder, **options)


def facts_of(result: Any) -> dict[str, Any]:
    """Everything that a result says, in values that can be compared to the last bit."""
    if isinstance(result, Result):
        return {
            "query": result.query, "status": result.status, "error": result.error, "edges": result.edges.tolist(),
            "scores": result.scores.tobytes(), "distances": result.distances.tobytes(), "text": result.text,
            "triplets": result.triplets, "seeds": result.seeds, "version": result.version,
            "dropped": result.dropped,
        }  # fmt: skip
    batch, at = result.batch, result.place
    here = slice(int(batch.indptr[at]), int(batch.indptr[at + 1]))
    out = {
        "kind": type(result), "query": result.query, "status": result.status, "error": result.error,
        "missing": result.missing, "available": result.available, "version": result.version,
        "node": batch.node[here].tolist(),
    }  # fmt: skip
    if isinstance(result, Hits):
        parts = {name: values[here].tobytes() for name, values in batch.parts.items()}
        ranks = None if batch.ranks is None else batch.ranks[here].tolist()
        return out | {
            "scores": batch.score[here].tobytes(),
            "ranks": ranks,
            "parts": parts,
            "details": repr(result.details),
        }
    seeds = slice(int(batch.seed_indptr[at]), int(batch.seed_indptr[at + 1]))
    return out | {
        "edges": result.edge_rows.tolist(), "hops": batch.hop[here].tolist(), "truncated": result.truncated,
        "seeds": (batch.seed[seeds].tolist(), batch.seed_score[seeds].tobytes()), "paths": result.paths,
        "pairs": result.pairs, "context": result.context(),
    }  # fmt: skip


def plain(engine: Engine, verb: str, scope: Any = None, **given: Any) -> list[Any]:
    """What the engine itself answers, as a list of results."""
    names = (scope,) if isinstance(scope, str) else scope
    return list(getattr(engine if names is None else engine.scope(*names), verb)(**given))


class Recorder:
    """A watcher that remembers."""

    def __init__(self) -> None:
        self.batches: list[list[Any]] = []  # the requests of each
        self.refusals: list[BaseException] = []
        self.lookups: list[bool] = []
        self.encodings: list[int] = []

    def submitted(self, requests: Any, depth: int) -> None: ...

    def refused(self, error: BaseException) -> None:
        self.refusals.append(error)

    def looked_up(self, hit: bool) -> None:
        self.lookups.append(hit)

    def encoded(self, requests: Any, texts: int, begin: float, end: float) -> None:
        self.encodings.append(texts)

    def answered(self, batch: Any, depth: int) -> None:
        self.batches.append([o.request for o in batch.outcomes])

    def queries(self) -> list[list[Any]]:
        """What was asked in each batch, where it was asked one text at a time."""
        return [[r.arguments.get("queries") for r in batch] for batch in self.batches]


class Gate:
    """Keeps the worker of a server busy until it is opened, so that what is asked meanwhile waits."""

    def __init__(self, server: Server) -> None:
        self.server, self.entered, self.opened = server, threading.Event(), threading.Event()
        asked = {"queries": "gate", "max_context_tokens": 1, "count_tokens": self._count}
        self.future = submit(server, "recall", asked, None, None, "gate", False)
        assert self.entered.wait(20)

    def _count(self, texts: list[str]) -> list[int]:
        self.entered.set()
        assert self.opened.wait(60)
        return [1] * len(texts)

    def wait(self, queries: int) -> None:
        """Until so many queries wait for the worker, their texts encoded."""
        end = time.monotonic() + 20
        while self.server._searching.size != queries:
            assert time.monotonic() < end, (self.server._searching.size, queries)
            time.sleep(0.001)

    def open(self) -> None:
        """Let the worker go on."""
        self.opened.set()

    def __enter__(self) -> "Gate":
        return self

    def __exit__(self, *failure: object) -> None:
        self.open()
        self.future.result(20)


def server_of(engine: Engine, **settings: Any) -> tuple[Server, Recorder]:
    """A server of an engine, and a watcher of it."""
    recorder = Recorder()
    return Server(lambda: engine, watchers=[recorder], **settings), recorder


def ask(server: Server, queries: Any = None, verb: str = "recall", **given: Any) -> Any:
    """A future of a call."""
    own = {name: given.pop(name, None) for name in ("deadline_s", "scope", "tenant")}
    return submit(server, verb, given_of(queries, given.pop("vectors", None), given), *own.values(), False)
