"""A Ray Serve deployment answers as the engine does. Ray starts processes of its own, so this takes its time."""

import asyncio

import numpy as np
import pytest

import tercet
from tercet.errors import InvalidArgument
from tests.serve.test_pool import QUERIES, same, small

pytestmark = pytest.mark.slow

ray = pytest.importorskip("ray", reason="Ray isn't installed")
serve = pytest.importorskip("ray.serve", reason="Ray Serve isn't installed")


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    path = tmp_path_factory.mktemp("ray") / "store"
    small().save(path)
    return path


@pytest.fixture(scope="module")
def client(store):
    from tercet.serve.ray import Client, application

    ray.init(num_cpus=2, include_dashboard=False, configure_logging=False)
    try:
        made = application(str(store), threads=1, front={"max_batch": 16}, num_replicas=2,
                           ray_actor_options={"num_cpus": 0.5})  # fmt: skip
        yield Client(serve.run(made, route_prefix="/ask"))
    finally:
        serve.shutdown()
        ray.shutdown()


def test_answers_equal_the_engines(client, store):
    engine = tercet.open(store, device="cpu")

    async def ask():
        return await asyncio.gather(*(client.ask(vectors=q, top_k=3) for q in QUERIES))

    for reply, result in zip(asyncio.run(ask()), engine.recall(vectors=QUERIES, top_k=3), strict=True):
        same(reply, result)
    several = client.ask_now(vectors=QUERIES, top_k=2, timeout_s=60)
    for reply, result in zip(several, engine.recall(vectors=QUERIES, top_k=2), strict=True):
        same(reply, result)


def test_bad_queries_fail_alone_and_bad_calls_are_refused(client):
    nan = np.full(QUERIES.shape[1], np.nan, np.float32)
    assert client.ask_now(vectors=nan, timeout_s=60).status == "failed"
    with pytest.raises(InvalidArgument, match="verb"):
        client.ask_now("no_such", timeout_s=60)


def test_over_http(client, store):
    import json
    from urllib.request import Request, urlopen

    body = json.dumps({"verb": "text_search", "queries": "name 3", "k": 2}).encode()
    with urlopen(Request("http://127.0.0.1:8000/ask", body, {"Content-Type": "application/json"}), timeout=60) as got:
        record = json.load(got)
    expected = tercet.open(store, device="cpu").text_search("name 3", 2)[0]
    assert [n["id"] for n in record["nodes"]] == expected.ids()
