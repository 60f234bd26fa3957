"""The queue and its worker: batches, turns, deadlines, cancellation, back-pressure, faults, closing, caches."""

import gc
import multiprocessing
import os
import threading
import time
import weakref
from concurrent.futures import CancelledError, wait
from typing import Any

import numpy as np
import pytest

from tercet import Engine
from tercet.errors import DeadlineExceeded, EngineClosed, ForkedProcess, InvalidArgument, QueueFull, UnknownId
from tercet.serve.cache import ResultCache
from tercet.serve.server import Server
from tercet.serve.submits import submit
from tests.serve.world import Gate, ask, encode, facts_of, server_of, world

LONG = 10_000.0  # ms: a batch that isn't full would wait for ever


@pytest.fixture(scope="module")
def engine() -> Engine:
    return world()


def results(futures: Any) -> list[Any]:
    return [f.result(30) for f in futures]


def test_what_waits_goes_into_one_batch_whatever_its_counts_and_filters_are(engine: Engine) -> None:
    server, seen = server_of(engine, max_wait_ms=0)
    with Gate(server) as held:
        futures = [
            ask(server, f"q{i}", top_k=1 + i % 7, wide_search_top_k=[None, 5, 100][i % 3],
                node_name=[None, "s"][i % 2], filter=[None, [f"n{j}" for j in range(i)]][i % 2])
            for i in range(40)
        ]  # fmt: skip
        held.wait(40)
    got = results(futures)
    assert [len(b) for b in seen.batches] == [1, 40]
    for i, result in enumerate(got):
        alone = engine.recall(
            f"q{i}", top_k=1 + i % 7, wide_search_top_k=[None, 5, 100][i % 3], node_name=[None, "s"][i % 2],
            filter=[None, [f"n{j}" for j in range(i)]][i % 2],
        )[0]  # fmt: skip
        assert facts_of(result) == facts_of(alone)
    server.close()


def test_a_batch_is_full_at_max_batch_and_a_larger_request_is_cut(engine: Engine) -> None:
    server, seen = server_of(engine, max_batch=8, max_wait_ms=0)
    with Gate(server) as held:
        futures = [ask(server, f"q{i}") for i in range(20)]
        long = ask(server, [f"p{i}" for i in range(19)])
        held.wait(39)
    assert len(results([*futures, long])[-1]) == 19
    sizes = [sum(r.count for r in batch) for batch in seen.batches]
    assert max(sizes) == 8
    assert sum(sizes) == 1 + 20 + 19
    server.close()


def test_a_shallow_queue_waits_for_more_and_a_full_batch_does_not(engine: Engine) -> None:
    server, seen = server_of(engine, max_batch=4, max_wait_ms=LONG)
    futures = [ask(server, vectors=v) for v in encode(list("abcd"))]
    results(futures)
    assert [len(b) for b in seen.batches] == [4]
    server.close()


def test_waiting_for_more_stops_while_it_brings_nothing(engine: Engine) -> None:
    server, _ = server_of(engine, max_wait_ms=50)
    vector = encode(["a"])[0]
    for _ in range(14):
        ask(server, vectors=vector).result(30)
    begin = time.monotonic()
    for _ in range(5):
        ask(server, vectors=vector).result(30)
    assert time.monotonic() - begin < 5 * 0.05  # each would have waited 50 ms
    server.close()


def test_a_rare_setting_waits_for_one_batch_and_not_for_the_queue(engine: Engine) -> None:
    server, seen = server_of(engine, max_batch=4, max_wait_ms=0)
    with Gate(server) as held:
        many = [ask(server, f"q{i}") for i in range(40)]
        rare = ask(server, "rare", projection="incident")
        rarer = ask(server, "rarer", verb="semantic_search")
        held.wait(42)
    results([*many, rare, rarer])
    order = [batch[0] for batch in seen.queries()]
    assert order.index("rare") <= 3
    assert order.index("rarer") <= 3
    server.close()


def test_tenants_take_turns(engine: Engine) -> None:
    server, seen = server_of(engine, max_batch=4, max_wait_ms=0)
    with Gate(server) as held:
        loud = [ask(server, f"loud {i}", tenant="loud") for i in range(40)]
        wide = [ask(server, f"wide {i}", tenant="wide", max_distance=1.0 + i) for i in range(20)]
        quiet = ask(server, "quiet", tenant="quiet")
        scoped = ask(server, "scoped", scope="A")
        held.wait(62)
    results([*loud, *wide, quiet, scoped])
    at = {q: n for n, batch in enumerate(seen.queries()) for q in batch}
    assert at["quiet"] == 1  # joins the first batch of its group, beside those that came long before
    assert at["scoped"] <= 4  # a group of its own: one turn of each of the other tenants
    first = [at[f"wide {i}"] for i in range(3)]
    assert first == sorted(first)
    assert first[-1] <= 9  # its twenty settings have every third turn or so, not the place behind them all
    server.close()


def test_a_cancelled_request_is_in_no_batch(engine: Engine) -> None:
    server, seen = server_of(engine)
    with Gate(server) as held:
        futures = [ask(server, f"q{i}") for i in range(6)]
        held.wait(6)
        assert futures[2].cancel()
        assert server.depth == 5
    results(futures[:2] + futures[3:])
    with pytest.raises(CancelledError):
        futures[2].result()
    assert seen.queries()[1] == ["q0", "q1", "q3", "q4", "q5"]
    server.close()


def test_a_request_in_a_batch_cannot_be_cancelled(engine: Engine) -> None:
    server, _ = server_of(engine)
    gate = Gate(server)
    assert not gate.future.cancel()
    gate.open()
    assert gate.future.result(20).status == "ok"
    server.close()


def test_deadlines(engine: Engine) -> None:
    server, seen = server_of(engine)
    with Gate(server):
        short, long = ask(server, "short", deadline_s=0.01), ask(server, "long", deadline_s=60)
        time.sleep(0.05)
    with pytest.raises(DeadlineExceeded, match="recall: no answer within its deadline"):
        short.result(20)
    assert isinstance(short.exception(), TimeoutError)
    assert long.result(20).status == "ok"
    assert ["short"] not in seen.queries()
    assert [type(e) for e in seen.refusals] == [DeadlineExceeded]
    with pytest.raises(InvalidArgument, match="deadline_s: expected seconds"):
        ask(server, "x", deadline_s=-1)
    server.close()


def test_a_full_queue_refuses_or_waits(engine: Engine) -> None:
    server, seen = server_of(engine, queue=3, max_batch=2)
    with Gate(server):
        three = [ask(server, vectors=v) for v in encode(["a", "b", "c"])]
        with pytest.raises(QueueFull, match="3 queries wait already, of 3"):
            ask(server, vectors=encode(["d"])[0])
        with pytest.raises(DeadlineExceeded, match="no room in the queue"):
            submit(server, "recall", {"vectors": encode(["d"])[0]}, 0.02, None, None, True)
        late: list[Any] = []
        thread = threading.Thread(
            target=lambda: late.append(submit(server, "recall", {"vectors": encode(["e"])[0]}, None, None, None, True))
        )
        thread.start()
        time.sleep(0.05)
        assert not late
    thread.join(20)
    results([*three, *late])
    assert [type(e) for e in seen.refusals] == [QueueFull, DeadlineExceeded]
    server.close()


def test_a_bad_query_and_a_bad_argument_fail_alone(engine: Engine) -> None:
    server, seen = server_of(engine)
    with Gate(server) as held:
        good = [ask(server, f"q{i}", filter=["n1", "n2", "n3"]) for i in range(9)]
        blank = ask(server, " ")
        unknown = ask(server, "x", filter=["n1", "nobody"])
        count = ask(server, "x", top_k=0)
        nothing = ask(server, "x", scope="Z")
        held.wait(13)
    assert [r.status for r in results(good)] == [
        engine.recall(f"q{i}", filter=["n1", "n2", "n3"])[0].status for i in range(9)
    ]
    assert blank.result(20).status == "failed"
    for future, kind, text in (
        (unknown, UnknownId, "filter: the graph has no node with the id 'nobody'"),
        (count, InvalidArgument, "top_k: expected an integer of at least 1, got 0"),
        (nothing, UnknownId, "dataset 'Z'"),
    ):
        with pytest.raises(kind, match=text):
            future.result(20)
    assert sorted(len(b) for b in seen.batches[1:]) == [
        1,
        1,
        11,
    ]  # the wrong count and the scope are in none with others
    server.close()


def test_an_encoder_that_fails_for_one_text_fails_its_request_alone() -> None:
    def picky(texts: list[str]) -> np.ndarray:
        if "poison" in texts:
            raise RuntimeError("can't read this")
        return encode(texts)

    server, _ = server_of(world(encoder=picky))
    with Gate(server):
        futures = [ask(server, t) for t in ("a", "poison", "b", "c")]
    assert [f.result(20).status for f in futures if f is not futures[1]] == ["ok"] * 3
    with pytest.raises(RuntimeError, match="can't read this"):
        futures[1].result(20)
    server.close()


def test_texts_of_the_next_batch_are_encoded_while_one_is_searched() -> None:
    server, seen = server_of(world())
    with Gate(server) as held:
        futures = [ask(server, f"q{i % 5}") for i in range(10)]
        held.wait(10)
    results(futures)
    assert sum(seen.encodings) == 11  # all of them, and the gate's
    server.close()


def test_wrong_calls_are_refused_at_once(engine: Engine) -> None:
    for verb, given, text in (
        ("recal", {"queries": "x"}, "verb: expected one of recall"),
        ("recall", {"queries": "x", "k": 3}, "recall: no argument 'k'; there are"),
        ("recall", {}, "recall: expected queries or vectors, got none"),
        ("text_search", {"vectors": [1.0]}, "no argument 'vectors'"),
        ("hybrid_search", {"vectors": [1.0]}, "hybrid_search: expected queries, got none"),
        ("subgraph", {}, "subgraph: expected seeds, got none"),
        ("recall", {"queries": "x", "scope": 3}, "scope: expected a name"),
    ):
        with pytest.raises(InvalidArgument, match=text):
            engine.submit(verb, **given)  # type: ignore[arg-type]
    for settings, text in (
        ({"max_batch": 0}, "max_batch"), ({"max_wait_ms": -1}, "max_wait_ms"), ({"queue": 0}, "queue"),
        ({"cache": -1}, "cache"),
    ):  # fmt: skip
        with pytest.raises(InvalidArgument, match=text):
            server_of(engine, **settings)


def test_closing_answers_what_waits_and_refuses_what_comes() -> None:
    own = world()
    futures = [own.submit(queries=f"q{i}") for i in range(50)]
    own.close()
    assert {f.result(0).status for f in futures} == {"ok"}
    with pytest.raises(EngineClosed):
        own.submit(queries="late")


def test_closing_without_draining(engine: Engine) -> None:
    server, _ = server_of(engine, queue=2)
    gate = Gate(server)
    futures = [ask(server, vectors=v) for v in encode(["a", "b"])]
    blocked: list[BaseException] = []

    def late() -> None:
        try:
            submit(server, "recall", {"vectors": encode(["c"])[0]}, None, None, None, True)
        except EngineClosed as error:
            blocked.append(error)

    thread = threading.Thread(target=late)
    thread.start()
    time.sleep(0.05)
    server.close(drain=False, timeout=0)
    thread.join(20)
    assert blocked
    for future in futures:
        with pytest.raises(EngineClosed):
            future.result(20)
    gate.open()
    assert gate.future.result(20).status == "ok"  # what runs is finished
    server.close()


def test_an_engine_that_nobody_holds_ends_its_worker_and_is_let_go() -> None:
    own = world()
    last = own.submit(queries="x")
    threads, gone = list(own._serve()._threads), weakref.ref(own)
    assert last.result(20).status == "ok"
    del own, last
    deadline = time.monotonic() + 20
    while (gone() is not None or any(t.is_alive() for t in threads)) and time.monotonic() < deadline:
        gc.collect()
        time.sleep(0.01)
    assert gone() is None
    assert not any(t.is_alive() for t in threads)


def test_a_scope_and_a_view_have_workers_of_their_own(engine: Engine) -> None:
    engine.submit(queries="x").result(20)
    scoped = engine.scope("A")
    assert facts_of(scoped.submit(queries="x").result(20)) == facts_of(scoped.recall("x")[0])
    assert facts_of(engine.submit(queries="x", scope="A").result(20)) == facts_of(scoped.recall("x")[0])
    assert facts_of(engine.submit(queries="x").result(20)) == facts_of(engine.recall("x")[0])
    scoped.close()
    assert engine.submit(queries="x").result(20).status == "ok"


def _forked(engine: Engine, out: Any) -> None:
    try:
        engine.submit(queries="x")
    except ForkedProcess as error:
        out.put(str(error))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_process_is_told(engine: Engine) -> None:
    engine.submit(queries="x").result(20)
    context = multiprocessing.get_context("fork")
    out = context.Queue()
    process = context.Process(target=_forked, args=(engine, out))
    process.start()
    assert "make the engine after the fork" in out.get(timeout=30)
    process.join(30)


def test_updates_under_load() -> None:
    own = world()
    views = {own.version: own.view()}
    vectors = encode([f"v{i}" for i in range(32)])
    futures: list[tuple[int, Any]] = []
    stop = threading.Event()

    def load() -> None:
        n = 0
        while not stop.is_set():
            futures.append((n % 32, own.submit(vectors=vectors[n % 32], wide_search_top_k=10)))
            n += 1
            if n % 64 == 0:
                wait([futures[-1][1]], 20)

    thread = threading.Thread(target=load)
    thread.start()
    for i in range(8):
        new = f"new{i}"
        own.upsert(
            nodes={"id": [new], "name": [f"new {i}"], "type": ["Entity"], "dataset": ["A"]},
            edges={"source": [new], "target": ["n0"], "relation": ["near"]},
            vectors={"Entity_name": ([new], vectors[i : i + 1])},
        )
        views[own.version] = own.view()
        time.sleep(0.02)
    stop.set()
    thread.join(20)
    versions = set()
    expected: dict[tuple[int, int], Any] = {}
    for place, future in futures:
        result = future.result(20)
        versions.add(result.version)
        key = (place, result.version)
        if key not in expected:
            expected[key] = facts_of(views[result.version].recall(vectors=vectors[place], wide_search_top_k=10)[0])
        assert facts_of(result) == expected[key]
    assert len(versions) > 2
    own.close()


def test_a_watcher_that_fails_harms_no_request(engine: Engine, caplog: pytest.LogCaptureFixture) -> None:
    class Broken:
        def __getattr__(self, name: str) -> Any:
            raise RuntimeError(f"no {name}")

    server = Server(lambda: engine, watchers=[Broken()])  # type: ignore[list-item]
    assert [ask(server, "x").result(20).status for _ in range(3)] == ["ok"] * 3
    assert "Broken.answered failed" in caplog.text
    server.close()


def test_results_are_kept_by_version_settings_and_query() -> None:
    own = world()
    server, seen = server_of(own, cache=100)
    first = ask(server, "harbour", top_k=3).result(20)
    assert ask(server, "harbour", top_k=3).result(0) is first
    vector = encode(["x"])[0]
    by_vector = ask(server, vectors=vector).result(20)
    assert ask(server, vectors=vector.copy()).result(0) is by_vector
    assert len(seen.batches) == 2
    for changed in (
        {"top_k": 4},
        {"top_k": 3, "scope": "A"},
        {"top_k": 3, "filter": ["n1"]},
        {"top_k": 3, "max_distance": 1},
    ):
        assert ask(server, "harbour", **changed).result(20) is not first
    mask = np.ones(60, bool)  # someone may change it, so it isn't a key
    a, b = (ask(server, "harbour", filter=mask).result(20) for _ in range(2))
    assert a is not b
    failed = ask(server, " ").result(20)
    assert ask(server, " ").result(20) is not failed
    own.delete(nodes=["n1"])
    fresh = ask(server, "harbour", top_k=3).result(20)
    assert fresh is not first
    assert fresh.version == 2
    assert facts_of(fresh) == facts_of(own.recall("harbour", top_k=3)[0])
    server.close()


def test_the_cache_is_bounded_by_results_and_by_batches() -> None:
    cache, state = ResultCache(8, 4), object()
    cache.renew(state)
    batches = [object() for _ in range(40)]
    for i, batch in enumerate(batches):
        cache.put(state, i, f"r{i}", batch)
    assert len(cache) == 8
    assert cache.batches == 8  # at most four times what full batches would be
    assert cache.get(state, 39) == "r39"
    assert cache.get(state, 0) is None
    cache.put(object(), "other", "x", batches[0])
    assert cache.get(state, "other") is None
    cache.renew(object())
    assert len(cache) == cache.batches == 0


def test_many_threads_are_answered_as_by_the_engine(engine: Engine) -> None:
    vectors = encode([f"t{i}" for i in range(64)])
    expected = [facts_of(r) for r in engine.recall(vectors=vectors)]
    server = Server(lambda: engine, max_batch=16)
    wrong: list[int] = []

    def caller(i: int) -> None:
        for n in range(20):
            at = (i * 7 + n) % 64
            if (
                facts_of(submit(server, "recall", {"vectors": vectors[at]}, None, None, i % 5, True).result(60))
                != expected[at]
            ):
                wrong.append(at)

    threads = [threading.Thread(target=caller, args=(i,)) for i in range(32)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    assert not wrong
    server.close()


def test_what_was_answered_leaves_no_work_for_the_collector() -> None:
    """Objects that hold each other would wait for Python's collector, which stops every thread while it looks."""
    engine = world()
    results([engine.submit("recall", f"warm {i}") for i in range(5)])
    gc.collect()
    gc.disable()
    try:
        results([engine.submit("recall", f"q{i}") for i in range(200)])
        assert gc.collect() < 100
    finally:
        gc.enable()
        engine.close()
