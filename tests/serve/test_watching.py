"""Metrics and traces: off by default, right when on."""

import asyncio
import subprocess
import sys
from typing import Any

import pytest

from tercet import AsyncEngine, Engine
from tercet.errors import QueueFull
from tests.serve.world import Gate, encode, world


@pytest.fixture(scope="module")
def engine() -> Engine:
    return world()


async def load(a: AsyncEngine) -> None:
    held = await asyncio.to_thread(Gate, a._server)
    tasks = [asyncio.create_task(a.recall(t)) for t in ("a", "b", "c", " ")]
    tasks.append(asyncio.create_task(a.recall("x", filter=["nobody"])))
    tasks.append(asyncio.create_task(a.recall("late", deadline_s=0.01)))
    await asyncio.sleep(0.05)
    held.open()
    await asyncio.gather(*tasks, return_exceptions=True)
    await a.semantic_search(vectors=encode(["a", "b"]))
    assert await a.recall("a") is tasks[0].result()


def test_nothing_is_imported_or_watched_by_default(engine: Engine) -> None:
    assert AsyncEngine(engine)._server.watchers == ()
    assert AsyncEngine(engine, metrics=False, tracing=False)._server.watchers == ()
    code = (
        "import sys, asyncio, tercet, numpy as np\n"
        "g = tercet.Graph.from_tables({'id': ['a', 'b']}, {'source': ['a'], 'target': ['b'], 'relation': ['r']})\n"
        "e = tercet.Engine(g, [tercet.Collection.build('n', np.eye(2), ['a', 'b'], 'node')], device='cpu')\n"
        "assert not [m for m in sys.modules if m.startswith('tercet.serve.server')]\n"
        "async def main():\n"
        "    async with tercet.AsyncEngine(e) as a:\n"
        "        print((await a.recall(vectors=[1.0, 0.0])).status)\n"
        "asyncio.run(main())\n"
        "e.submit(vectors=[1.0, 0.0]).result()\n"
        "assert not [m for m in sys.modules if m.split('.')[0] in ('prometheus_client', 'opentelemetry')]\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "ok"


def test_metrics(engine: Engine) -> None:
    prometheus = pytest.importorskip("prometheus_client", reason="prometheus-client isn't installed")
    registry = prometheus.CollectorRegistry()

    async def main() -> None:
        async with AsyncEngine(engine, cache=10, metrics=registry, queue=8) as a:
            await load(a)
            held = await asyncio.to_thread(Gate, a._server)
            rest = [a.submit(vectors=v) for v in encode([str(i) for i in range(8)])]
            with pytest.raises(QueueFull):
                await a.recall("x")
            held.open()
            for future in rest:
                await asyncio.wrap_future(future)

    asyncio.run(main())

    def value(name: str, **labels: str) -> Any:
        return registry.get_sample_value(name, labels)

    assert value("tercet_requests_total", verb="recall") == 6 + 8 + 2  # two gates
    assert value("tercet_requests_total", verb="semantic_search") == 1
    assert value("tercet_results_total", status="error") == 1
    assert value("tercet_results_total", status="failed") == 1
    assert value("tercet_refusals_total", reason="deadline") == 1
    assert value("tercet_refusals_total", reason="queue_full") == 1
    assert value("tercet_cache_lookups_total", found="yes") == 1
    assert value("tercet_batch_size_sum", verb="recall") == 5 + 8 + 2
    assert value("tercet_batch_size_sum", verb="semantic_search") == 2
    assert value("tercet_wait_seconds_count") == 5 + 8 + 2 + 1
    assert value("tercet_wait_seconds_sum") > 0.04
    assert value("tercet_stage_seconds_count", stage="encode") >= 2
    assert value("tercet_stage_seconds_count", stage="embed") >= 2
    assert value("tercet_encoded_texts_total") >= 6
    assert value("tercet_queue_depth") == 0


def test_traces(engine: Engine) -> None:
    pytest.importorskip("opentelemetry.sdk", reason="opentelemetry-sdk isn't installed")
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("test")
    callers: list[Any] = []

    async def asked(a: AsyncEngine, text: str) -> None:
        with tracer.start_as_current_span(f"caller {text}") as span:
            callers.append(span.get_span_context())
            await a.recall(text)

    async def main() -> None:
        async with AsyncEngine(engine, tracing=tracer) as a:
            held = await asyncio.to_thread(Gate, a._server)
            tasks = [asyncio.create_task(asked(a, t)) for t in ("a", "b", "c")]
            await asyncio.to_thread(held.wait, 3)
            held.open()
            await asyncio.gather(*tasks)

    asyncio.run(main())
    spans = exporter.get_finished_spans()
    batch = next(s for s in spans if s.name == "tercet.batch" and s.attributes["tercet.requests"] == 3)
    assert {link.context.span_id for link in batch.links} == {c.span_id for c in callers}
    assert batch.attributes["tercet.verb"] == "recall"
    assert batch.attributes["tercet.queries"] == 3
    assert batch.attributes["tercet.version"] == 1
    assert batch.attributes["tercet.failed"] == 0
    inside = [s for s in spans if s.parent is not None and s.parent.span_id == batch.context.span_id]
    assert {"tercet.embed"} <= {s.name for s in inside}
    assert all(batch.start_time <= s.start_time <= s.end_time for s in inside)
    assert sum(s.attributes["tercet.texts"] for s in spans if s.name == "tercet.encode") == 4
