"""The pool: processes that serve one store answer as the engine does, and survive the death of one of them."""

import asyncio
import os
import signal
import time
from concurrent.futures import wait

import numpy as np
import pyarrow.compute as pc
import pytest

import tercet
from tercet import Collection, Engine, Graph
from tercet.errors import EngineClosed, InvalidArgument, QueueFull, StoreError, UnknownId
from tercet.serve.pool import Pool
from tercet.serve.reply import record_of, reply_of

WIDTH = 6
RNG = np.random.default_rng(5)
QUERIES = RNG.standard_normal((40, WIDTH)).astype(np.float32)


def small(extra: int = 0) -> Engine:
    rng = np.random.default_rng(1)
    count = 40 + extra
    ids = [f"n{i}" for i in range(count)]
    edges = sorted({(int(a), int(b)) for a, b in rng.integers(count, size=(160, 2)) if a != b})
    graph = Graph.from_tables(
        {"id": ids, "name": [f"name {i % 7}" for i in range(count)], "type": ["A", "B"] * (count // 2)},
        {
            "source": [ids[a] for a, _ in edges], "target": [ids[b] for _, b in edges],
            "relation": [("knows", "likes")[(a + b) % 2] for a, b in edges],
        },
    )  # fmt: skip
    vectors = rng.standard_normal((count, WIDTH)).astype(np.float32)
    relations = Collection.build("relations", rng.standard_normal((2, WIDTH)), ["knows", "likes"], "relation")
    return Engine(graph, [Collection.build("names", vectors, ids), relations], device="cpu")


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    path = tmp_path_factory.mktemp("pool") / "store"
    small().save(path)
    return path


@pytest.fixture(scope="module")
def pool(store):
    with Pool(store, workers=2, threads=1) as made:
        yield made


def same(reply, result):
    """A reply has every value of the engine's own result, to the last bit."""
    expected = reply_of(record_of(result))
    for name in type(reply).__dataclass_fields__:
        a, b = getattr(reply, name), getattr(expected, name)
        if isinstance(a, np.ndarray):
            assert a.dtype == b.dtype
            assert a.tobytes() == b.tobytes(), name
        else:
            assert a == b, name


def test_replies_hold_what_results_hold():
    result = small().recall(vectors=QUERIES[0], top_k=4)[0]
    reply = reply_of(record_of(result))
    assert reply.triplets == result.triplets
    assert len(reply.triplets) == 4
    assert reply.scores.tobytes() == result.scores.tobytes()
    assert reply.distances.tobytes() == result.distances.tobytes()
    assert (reply.text, reply.status) == (result.text, "ok")


def test_every_kind_of_answer_equals_the_engines(pool, store):
    engine = tercet.open(store, device="cpu")
    asked = [
        ("recall", {"vectors": QUERIES[0], "top_k": 7}),
        ("recall", {"vectors": QUERIES[1], "filter": pc.field("type") == "A"}),
        ("semantic_search", {"vectors": QUERIES[2], "k": 3}),
        ("text_search", {"queries": "name 3", "k": 4}),
        ("semantic_subgraph", {"vectors": QUERIES[3], "k": 3, "expand": 1}),
        ("path_context", {"waypoints": [QUERIES[4], QUERIES[5]], "k": 2}),
        ("subgraph", {"seeds": ["n1", "n2"], "expand": 1}),
    ]
    futures = [pool.submit(verb, **given) for verb, given in asked]
    for (verb, given), future in zip(asked, futures, strict=True):
        same(future.result(60), getattr(engine, verb)(**given)[0])
    for reply, result in zip(
        pool.recall(vectors=QUERIES, top_k=3), engine.recall(vectors=QUERIES, top_k=3), strict=True
    ):
        same(reply, result)


def test_a_bad_query_fails_alone_and_a_bad_call_is_refused(pool):
    nan = np.full(WIDTH, np.nan, np.float32)
    assert pool.submit(vectors=nan).result(60).status == "failed"
    assert pool.submit(vectors=QUERIES[0]).result(60).status == "ok"
    with pytest.raises(UnknownId, match="nobody"):
        pool.submit("subgraph", seeds=["nobody"]).result(60)
    with pytest.raises(InvalidArgument, match="no_such"):
        pool.submit(vectors=QUERIES[0], no_such=1)
    with pytest.raises(InvalidArgument, match="can't be sent"):
        pool.submit(vectors=QUERIES[0], count_tokens=lambda texts: [1] * len(texts))


def test_asyncio(pool, store):
    engine = tercet.open(store, device="cpu")

    async def ask():
        return await asyncio.gather(*(pool.ask(vectors=q, top_k=2) for q in QUERIES))

    for reply, result in zip(asyncio.run(ask()), engine.recall(vectors=QUERIES, top_k=2), strict=True):
        same(reply, result)


def test_a_process_that_dies_is_replaced_and_its_requests_are_answered(store):
    with Pool(store, workers=2, threads=1) as pool:
        first = {p.pid for p in pool._processes}
        futures = [pool.submit(vectors=q) for q in QUERIES]
        os.kill(pool._processes[0].pid, signal.SIGKILL)
        futures += [pool.submit(vectors=q) for q in QUERIES]
        assert not wait(futures, timeout=60).not_done
        assert {f.result().status for f in futures} == {"ok"}
        until = time.monotonic() + 60
        while not all(p.ready for p in pool._processes) and time.monotonic() < until:
            time.sleep(0.05)
        assert len({p.pid for p in pool._processes} - first) == 1
        assert pool.depth == 0


def test_reload_answers_from_the_new_store(tmp_path):
    path = tmp_path / "store"
    engine = small()
    engine.save(path)
    with Pool(path, workers=1, threads=1) as pool:
        before = pool.submit("text_search", "name 3", k=50).result(60)
        assert "new" not in {n["id"] for n in before.nodes}
        engine.upsert({"id": ["new"], "name": ["name 3"], "type": ["A"]})
        engine.save(path)
        pool.reload()
        found = pool.submit("text_search", "name 3", k=50).result(60)
        assert {n["id"] for n in found.nodes} - {n["id"] for n in before.nodes} == {"new"}


def test_a_pool_that_is_full_or_closed_or_has_no_store_says_so(store, tmp_path):
    with pytest.raises(StoreError):
        Pool(tmp_path / "nothing", workers=1)
    pool = Pool(store, workers=1, threads=1, queue=8)
    future = pool.submit(vectors=QUERIES)  # more than the queue, but nothing else waits
    with pytest.raises(QueueFull):
        pool.submit(vectors=QUERIES[0])
    pool.close()
    assert len(future.result(1)) == len(QUERIES)
    with pytest.raises(EngineClosed):
        pool.submit(vectors=QUERIES[0])
    with pytest.raises(InvalidArgument, match="workers"):
        Pool(store, workers=0)
