"""A served engine under mixed load while it changes: does it lose or mix up anything, does memory stay flat?

Requests of many kinds, some of them wrong, come from an event loop and from a thread, with settings, tenants and
deadlines of their own; some are cancelled; another thread updates the engine. Every answer is compared with what the
plain engine says in the version that the answer names.
"""

import asyncio
import gc
import queue
import threading
import time
from collections import Counter
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow.compute as pc

from bench.timing import status_bytes
from tercet import Collection, Engine, Graph
from tercet.errors import DeadlineExceeded, TercetError
from tercet.serve import AsyncEngine

WIDTH = 24
RELATIONS = ("knows", "likes", "works at", "part of", "near")
WORDS = ("harbour", "bridge", "market", "tower", "river", "old", "new", "red", "north", "mill")
KEPT = 64  # versions that answers may still name: more than there are while a backlog is checked
BACKLOG = 256  # answers that wait to be checked, before no more is asked
UPDATE_S = 0.25
SAMPLE_S = 0.25
GROWTH_BYTES = 48 << 20  # of the resident memory, between the medians of the first and the last third
WARM_SHARE = 0.2  # of the time, before memory counts: kernels load, pools and caches fill
LATE_S = 5.0  # an update and the checks of answers from before it are never so far apart


@dataclass
class Found:
    """What a soak found."""

    sent: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)  # answers that differ from the plain engine's
    lost: int = 0  # requests without any outcome
    versions: int = 0
    memory: list[int] = field(default_factory=list)  # bytes resident, by time
    longest_block_ms: float = 0.0  # of the event loop

    @property
    def growth(self) -> int:
        """Bytes between the medians of the first and the last third, after the warm-up."""
        kept = self.memory[int(len(self.memory) * WARM_SHARE) :]
        third = max(1, len(kept) // 3)
        return int(np.median(kept[-third:]) - np.median(kept[:third])) if kept else 0

    @property
    def good(self) -> bool:
        """Nothing lost, nothing mixed up, memory flat."""
        return not self.wrong and not self.lost and self.growth <= GROWTH_BYTES and self.outcomes["ok"] > 0


class Soak:
    """The load, the updates and the checks."""

    def __init__(self, seconds: float, num_nodes: int, rate: float, seed: int) -> None:
        self.seconds, self.rate, self.size = seconds, rate, num_nodes
        self.rng = np.random.default_rng(seed)
        self.writer = np.random.default_rng(seed + 1)
        self.engine = _engine(num_nodes, self.rng)
        self.views: dict[int, Engine] = {self.engine.version: self.engine.view()}
        self.found, self.ended = Found(), threading.Event()
        self.answers: queue.Queue[tuple[dict[str, Any], Any] | None] = queue.Queue()

    def run(self) -> Found:
        """Everything, for the whole time."""
        gc.collect()
        gc.freeze()  # as a server does once it is up: a full collection of all that was loaded stops every thread
        threads = [threading.Thread(target=t) for t in (self._update, self._check, self._sample)]
        for t in threads:
            t.start()
        try:
            asyncio.run(self._load())
        finally:
            self.ended.set()
            self.answers.put(None)
            for t in threads:
                t.join()
            gc.unfreeze()
        counted = sum(self.found.outcomes.values())
        self.found.lost = self.found.sent - counted
        self.found.versions = self.engine.version
        return self.found

    async def _load(self) -> None:
        until = time.monotonic() + self.seconds
        ticker = asyncio.create_task(self._tick())
        async with AsyncEngine(self.engine, max_batch=32, queue=2000, when_full="wait", cache=64) as front:
            tasks: set[asyncio.Task[None]] = set()
            due = time.monotonic()
            while time.monotonic() < until:
                while self.answers.qsize() > BACKLOG:  # else what is measured as memory is what wasn't checked yet
                    await asyncio.sleep(0.01)
                    due = max(due, time.monotonic())
                while due <= time.monotonic():
                    asked = _request(self.rng, self.size)
                    self.found.sent += 1
                    if self.rng.random() < 0.3:
                        self._by_thread(front, asked)
                    else:
                        task = asyncio.create_task(self._ask(front, asked))
                        tasks.add(task)
                        task.add_done_callback(tasks.discard)
                    due += self.rng.exponential(1 / self.rate)
                await asyncio.sleep(max(0.0, due - time.monotonic()))
            await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), timeout=60)
        ticker.cancel()

    async def _ask(self, front: AsyncEngine, asked: dict[str, Any]) -> None:
        cancel = asked["cancel"]
        call = getattr(front, asked["verb"])(**asked["arguments"], **asked["how"])
        try:
            if cancel is None:
                got = await call
            else:
                task = asyncio.ensure_future(call)
                await asyncio.sleep(cancel)
                task.cancel()
                got = await task
        except asyncio.CancelledError:
            self.answers.put((asked, CancelledError()))
        except (TercetError, TypeError) as error:
            self.answers.put((asked, error))
        else:
            self.answers.put((asked, got))

    def _by_thread(self, front: AsyncEngine, asked: dict[str, Any]) -> None:
        try:
            future = front.submit(asked["verb"], **asked["arguments"], **asked["how"])
        except (TercetError, TypeError) as error:
            self.answers.put((asked, error))
            return

        def done(f: "Future[Any]") -> None:
            self.answers.put((asked, CancelledError() if f.cancelled() else f.exception() or f.result()))

        future.add_done_callback(done)
        if asked["cancel"] is not None:
            future.cancel()

    async def _tick(self) -> None:
        before = time.perf_counter()
        while True:
            await asyncio.sleep(0.001)
            now = time.perf_counter()
            self.found.longest_block_ms = max(self.found.longest_block_ms, (now - before - 0.001) * 1e3)
            before = now

    def _update(self) -> None:
        rng, extra = self.writer, self.size // 10
        while not self.ended.wait(UPDATE_S):
            ids = [f"x{i}" for i in rng.choice(extra, size=max(1, extra // 8), replace=False)]
            if rng.random() < 0.4:
                self.engine.delete(ids, missing="ignore")
            else:
                ends = [f"n{i}" for i in rng.integers(self.size, size=len(ids))]
                vectors = rng.standard_normal((len(ids), WIDTH)).astype(np.float32)
                self.engine.upsert(
                    {"id": ids, "name": [_name(rng) for _ in ids]},
                    {"source": ids, "target": ends, "relation": [RELATIONS[i] for i in rng.integers(5, size=len(ids))]},
                    {"names": (ids, vectors)},
                )  # fmt: skip
            self.views[self.engine.version] = self.engine.view()
            if rng.random() < 0.05:
                self.engine.compact()
                self.views[self.engine.version] = self.engine.view()
            for old in sorted(self.views)[:-KEPT]:
                del self.views[old]

    def _sample(self) -> None:
        while not self.ended.wait(SAMPLE_S):
            self.found.memory.append(status_bytes("VmRSS"))

    def _check(self) -> None:
        while (item := self.answers.get()) is not None:
            asked, got = item
            outcome, problem = self._judged(asked, got)
            self.found.outcomes[outcome] += 1
            if problem:
                self.found.wrong.append(f"{asked['verb']} {_shown(asked)}: {problem}")

    def _judged(self, asked: dict[str, Any], got: Any) -> tuple[str, str | None]:
        """What an outcome is called, and what is wrong with it."""
        if isinstance(got, CancelledError):
            return "cancelled", None if asked["cancel"] is not None else "cancelled by nobody"
        if isinstance(got, DeadlineExceeded):
            return "deadline", None if "deadline_s" in asked["how"] else "has no deadline"
        if isinstance(got, BaseException):
            return "refused", self._refusal(asked, got)
        results = got if isinstance(got, list) else [got]
        plain: dict[int, Any] = {}  # a list that is longer than a batch is answered in parts, each from a version
        for place, one in enumerate(results):
            version = _version_of(one)
            view = self._version(version)
            if view is None:
                return "ok", f"unknown version {version}"
            if version not in plain:
                plain[version] = getattr(view, asked["verb"])(**asked["arguments"])
            if len(plain[version]) != len(results):
                return "ok", f"expected {len(plain[version])} results, got {len(results)}"
            mine, expected = facts(one), facts(plain[version][place])
            if mine != expected:
                return "ok", f"version {version}: got {mine!r:.300}, expected {expected!r:.300}"
        return "failed" if results[0].status == "failed" else "ok", None

    def _version(self, version: int) -> Engine | None:
        until = time.monotonic() + LATE_S
        while version not in self.views and time.monotonic() < until:
            time.sleep(0.001)  # the writer published it, and puts it down next
        return self.views.get(version)

    def _refusal(self, asked: dict[str, Any], got: BaseException) -> str | None:
        """A request that was refused is refused by the plain engine in the same way."""
        view = self.views[max(self.views)]
        try:
            getattr(view, asked["verb"])(**asked["arguments"])
        except (TercetError, TypeError) as error:
            if isinstance(got, type(error)) or (isinstance(error, TypeError) and isinstance(got, ValueError)):
                return None
            return f"got {got!r}, expected {error!r}"
        return f"got {got!r}, the plain engine answers"


def facts(result: Any) -> tuple[Any, ...]:
    """What a result says, to the last bit."""
    head = (result.query, result.status, result.error)
    if hasattr(result, "recall"):
        parts = (result.edges, result.scores, result.distances)
        return (*head, result.text, *(p.tobytes() for p in parts), result.triplets)
    if hasattr(result, "edge_rows"):
        scores = sorted(result.scores.items())
        return (*head, result.node_rows.tobytes(), result.edge_rows.tobytes(), scores, result.hops, result.paths)
    return (*head, result.node_rows.tobytes(), result.scores.tobytes(), result.ids(), result.available)


def _version_of(result: Any) -> int:
    return (result.recall if hasattr(result, "recall") else result.batch).version


def _shown(asked: dict[str, Any]) -> str:
    return ", ".join(f"{k}={v!r:.40}" for k, v in asked["arguments"].items())


def encode(texts: list[str]) -> np.ndarray:
    """(B, D) vectors that are a function of each text alone."""
    return np.stack([np.random.default_rng(list(t.encode())).standard_normal(WIDTH) for t in texts])


def _name(rng: np.random.Generator) -> str:
    return " ".join(rng.choice(WORDS, 2))


def _engine(num_nodes: int, rng: np.random.Generator) -> Engine:
    ids = [f"n{i}" for i in range(num_nodes)]
    source, target = rng.integers(num_nodes, size=(2, 5 * num_nodes))
    relation = rng.integers(len(RELATIONS), size=len(source))
    keep = np.unique(np.stack([source, target, relation]), axis=1, return_index=True)[1]
    graph = Graph.from_tables(
        {"id": ids, "name": [_name(rng) for _ in ids], "type": [("A", "B", "C")[i % 3] for i in range(num_nodes)]},
        {
            "source": [ids[i] for i in source[keep]], "target": [ids[i] for i in target[keep]],
            "relation": [RELATIONS[i] for i in relation[keep]],
        },
    )  # fmt: skip
    vectors = rng.standard_normal((num_nodes, WIDTH)).astype(np.float32)
    names = Collection.build("names", vectors, owner=ids)
    relations = Collection.build("relations", encode(list(RELATIONS)).astype(np.float32), owner=list(RELATIONS),
                                 kind="relation")  # fmt: skip
    return Engine(graph, [names, relations], encoder=encode, device="cpu", cache=256)


def _request(rng: np.random.Generator, size: int) -> dict[str, Any]:
    """A request: the verb, its arguments, how it is asked, and when it is cancelled."""
    draw = float(rng.random())
    if draw < 0.07:
        verb, arguments = _bad(rng)
    elif draw < 0.6:
        verb, arguments = _recall(rng, size)
    else:
        verb, arguments = _other(rng, size)
    how: dict[str, Any] = {"tenant": f"t{int(rng.integers(4))}"}
    if rng.random() < 0.1:
        how["deadline_s"] = float(rng.choice([0.0, 0.002, 0.02, 5.0]))
    cancel = float(rng.choice([0.0, 0.001, 0.01])) if rng.random() < 0.08 else None
    return {"verb": verb, "arguments": arguments, "how": how, "cancel": cancel}


def _subject(rng: np.random.Generator) -> dict[str, Any]:
    if rng.random() < 0.5:
        return {"vectors": rng.standard_normal(WIDTH).astype(np.float32)}
    return {"queries": f"{_name(rng)} {int(rng.integers(300))}"}


def _recall(rng: np.random.Generator, size: int) -> tuple[str, dict[str, Any]]:
    arguments: dict[str, Any] = {"top_k": int(rng.choice([1, 5, 5, 20])), **_subject(rng)}
    arguments["wide_search_top_k"] = [100, 100, 100, 7, 300, None][int(rng.integers(6))]
    draw = float(rng.random())
    if draw < 0.1:
        arguments["filter"] = [f"n{i}" for i in rng.integers(size, size=200)]
    elif draw < 0.2:
        arguments["filter"] = pc.field("type") == ("A", "B")[int(rng.integers(2))]
    elif draw < 0.25:
        arguments["projection"] = "incident"
    elif draw < 0.3:
        arguments["max_distance"] = 0.9
    elif draw < 0.35:
        count = int(rng.integers(2, 50))
        arguments.pop("queries", None)
        arguments["vectors"] = rng.standard_normal((count, WIDTH)).astype(np.float32)
        arguments["top_k"] = rng.integers(1, 9, size=count).tolist()
    return "recall", arguments


def _other(rng: np.random.Generator, size: int) -> tuple[str, dict[str, Any]]:
    verb = str(rng.choice(["semantic_search", "text_search", "hybrid_search", "semantic_subgraph", "hybrid_subgraph",
                           "text_subgraph", "subgraph", "path_context"]))  # fmt: skip
    k = int(rng.integers(1, 12))
    if verb == "subgraph":
        return verb, {"seeds": [f"n{i}" for i in rng.integers(size, size=k)], "expand": 1, "max_nodes": 30}
    if verb == "path_context":
        return verb, {"waypoints": [_name(rng), _name(rng)], "k": 2, "max_hops": 2}
    texts = verb.startswith(("text", "hybrid"))
    arguments: dict[str, Any] = {"queries": _name(rng)} if texts else _subject(rng)
    arguments["k"] = k
    if verb.endswith("subgraph"):
        arguments |= {"expand": int(rng.integers(2)), "max_nodes": 40}
    if rng.random() < 0.3:
        arguments["filter_labels"] = [str(rng.choice(["A", "B"]))]
    return verb, arguments


def _bad(rng: np.random.Generator) -> tuple[str, dict[str, Any]]:
    """Queries that fail alone, and calls that are refused."""
    nan = np.full(WIDTH, np.nan, np.float32)
    wrong: list[tuple[str, dict[str, Any]]] = [
        ("recall", {"queries": "  "}), ("recall", {"vectors": nan}), ("recall", {"vectors": np.zeros(WIDTH)}),
        ("recall", {"vectors": np.ones(WIDTH + 1, np.float32)}), ("recall", {"queries": "a", "top_k": 0}),
        ("recall", {"queries": "a", "filter": ["nobody"]}), ("recall", {"queries": "a", "no_such": 1}),
        ("recall", {"queries": 7}), ("text_search", {"queries": ""}), ("semantic_search", {"queries": "a", "k": -1}),
        ("path_context", {"waypoints": ["one"]}), ("subgraph", {"seeds": ["nobody"]}),
        ("semantic_search", {"queries": "a", "filter": pc.field("no_such") == 1}),
    ]  # fmt: skip
    return wrong[int(rng.integers(len(wrong)))]


def soak(*, seconds: float = 300.0, num_nodes: int = 3000, rate: float = 200.0, seed: int = 0) -> Found:
    """Run the load for a time.

    Args:
        rate: requests a second at most, Poisson arrivals; fewer where the checks take longer.
    """
    return Soak(seconds, num_nodes, rate, seed).run()


def show(found: Found) -> str:
    """What was found, in words."""
    outcomes = ", ".join(f"{n} {name}" for name, n in found.outcomes.most_common())
    lines = [
        f"{found.sent} requests over {found.versions} versions: {outcomes}; {found.lost} lost, "
        f"{len(found.wrong)} wrong",
        f"memory {found.memory[-1] / 1e6 if found.memory else 0:,.0f} MB at the end, {found.growth / 1e6:+,.1f} MB "
        f"between first and last third; the event loop's longest block {found.longest_block_ms:.1f} ms",
    ]
    return "\n".join([*lines, *found.wrong[:10]])
