"""A served engine under load: single stream, offline, and open-loop Poisson arrivals at stated rates.

Queries are given as vectors unless texts are asked for; encoding is timed apart in either case. The load comes from
a thread of the same process, so its cost is inside the figures.
"""

import gc
import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from bench.arrivals import Sent, all_at_once, one_by_one, open_loop, poisson
from bench.machine import about, busy
from bench.prepare import engine_of, workload
from bench.records import Folder, describe
from tercet import Engine
from tercet.errors import InvalidArgument
from tercet.serve import AsyncEngine

QUANTILES = {"p50_ms": 0.5, "p95_ms": 0.95, "p99_ms": 0.99, "p999_ms": 0.999}
BATCH = 256  # queries of an offline batch
LEAST_SHARE = 0.97  # of the queries that were due: with fewer answers a second, the queue was still growing
PRECISION = 0.03  # of the rate that bisection finds
TRIES = 2  # of a rate, before it counts as too high: other work on the machine makes single runs fail
FLOOD = 8192  # queries sent at once at most: as many as the queue has room for
SETTLE_S = 1.0  # of a run aren't counted, or a fifth of a short one


@dataclass(frozen=True)
class Load:
    """What is measured."""

    rates: tuple[float, ...] = ()  # queries a second; none: bisection only
    seconds: float = 5.0  # of each rate
    bound_ms: float = 50.0  # that the p99 must keep
    max_batch: int = BATCH
    max_wait_ms: float = 2.0
    top_k: int = 5
    wide: int = 100
    stream: int = 200  # queries of the single stream
    texts: bool = False  # send texts instead of vectors
    render: bool = False  # let the worker make the answers' texts
    find: bool = True  # look for the largest rate under the bound
    seed: int = 0


@dataclass
class Served:
    """An engine that is served, with queries for it."""

    engine: Engine
    front: AsyncEngine
    vectors: np.ndarray | None  # (Q, D) float32
    texts: list[str] | None
    load: Load
    rows: list[dict[str, Any]] = field(default_factory=list)
    raw: list[pa.Table] = field(default_factory=list)

    @property
    def count(self) -> int:
        return len(self.vectors) if self.vectors is not None else len(self.texts or [])

    def query(self, i: int) -> dict[str, Any]:
        """The arguments of a request."""
        at = i % self.count
        asked = {"queries": self.texts[at]} if self.load.texts and self.texts else {"vectors": self.vectors[at]}  # type: ignore[index]
        return {**asked, "top_k": self.load.top_k, "wide_search_top_k": self.load.wide or None}

    def submit(self, i: int) -> Any:
        return self.front.submit("recall", **self.query(i))

    def offline(self) -> float:
        """Queries a second of plain calls with full batches: the median of some seconds of them."""
        spent, begin, low = [], time.perf_counter(), 0
        while time.perf_counter() - begin < min(self.load.seconds, 4.0) or len(spent) < 3:
            place = (np.arange(BATCH) + low) % self.count
            low = (low + BATCH) % self.count
            if self.load.texts and self.texts is not None:
                asked: dict[str, Any] = {"queries": [self.texts[i] for i in place]}
            else:
                assert self.vectors is not None
                asked = {"vectors": self.vectors[place]}
            start = time.perf_counter()
            got = self.engine.recall(**asked, top_k=self.load.top_k, wide_search_top_k=self.load.wide or None)
            got.edges.cpu()
            spent.append(time.perf_counter() - start)
        return BATCH / float(np.median(spent))

    def put(self, scenario: str, sent: Sent, **more: Any) -> dict[str, Any]:
        """Note what a scenario gave; returns its row."""
        row = {"scenario": scenario, **more, **figures(sent), "busy": busy()}
        self.rows.append(row)
        count = len(sent.due_s)
        self.raw.append(pa.table({
            "scenario": pa.array([scenario] * count, pa.dictionary(pa.int32(), pa.string())),
            "rate": pa.array([more.get("rate")] * count, pa.float64()),
            "due_s": sent.due_s, "sent_s": sent.sent_s, "latency_s": sent.latency_s, "status": pa.array(sent.status),
        }))  # fmt: skip
        print(line(row), flush=True)
        return row


def figures(sent: Sent) -> dict[str, Any]:
    """Counts, quantiles of the latency in ms, and answers a second."""
    latency = sent.latency_s[np.isfinite(sent.latency_s)]
    names, counts = np.unique(sent.status, return_counts=True)
    out: dict[str, Any] = {
        "queries": len(sent.due_s),
        "status": dict(zip(names.tolist(), counts.tolist(), strict=True)),
    }
    for name, q in QUANTILES.items():
        out[name] = round(float(np.quantile(latency, q)) * 1e3, 3) if len(latency) else None
    if len(latency):
        out["max_ms"] = round(float(latency.max()) * 1e3, 3)
        span = float(np.nanmax(sent.done_s) - sent.due_s.min())
        out["answered_qps"] = round(len(latency) / span, 1) if span > 0 else None
    return out


def within(row: dict[str, Any], bound_ms: float) -> bool:
    """Whether a rate was borne: all were answered, in step with the arrivals, and the p99 keeps the bound."""
    good = set(row["status"]) == {"ok"} and row["p99_ms"] is not None and row["p99_ms"] <= bound_ms
    return good and row["answered_qps"] >= LEAST_SHARE * row["queries"] / row["due_s"]


def at_rate(served: Served, rate: float, scenario: str = "server", seconds: float | None = None) -> dict[str, Any]:
    """Open-loop Poisson arrivals at a rate; what came while the queue settled isn't counted."""
    span = served.load.seconds if seconds is None else seconds
    due = poisson(rate, span, served.load.seed + int(rate))
    settle = min(SETTLE_S, span / 5)
    sent = open_loop(served.submit, due).since(settle)
    return served.put(scenario, sent, rate=rate, due_s=span - settle)


def largest_rate(bears: Callable[[float], bool], most: float) -> float | None:
    """The largest rate that is borne, by bisection up to `most`, to within 3 %; None: not even a fiftieth of it is."""
    low, high = 0.0, most
    while high - low > PRECISION * most:
        middle = (low + high) / 2
        if bears(middle):
            low = middle
        else:
            high = middle
        if not low and high < most / 50:
            return None
    return low


def find_rate(served: Served, offline: float) -> dict[str, Any] | None:
    """The largest rate with the p99 under the bound in one of two tries, confirmed by a run of twice the time."""
    bound = served.load.bound_ms
    bears = lambda r: any(within(at_rate(served, r, "bisection"), bound) for _ in range(TRIES))  # noqa: E731
    rate = largest_rate(bears, offline)
    while rate is not None and rate > offline / 50:
        row = at_rate(served, rate, "confirmed", 2 * served.load.seconds)
        if within(row, bound):
            return row
        rate *= 1 - PRECISION
    return None


def measure(served: Served) -> dict[str, Any]:
    """All scenarios; returns the summary."""
    load = served.load
    start = time.perf_counter()
    served.submit(0).result()
    summary: dict[str, Any] = {"cold_first_ms": round((time.perf_counter() - start) * 1e3, 1)}
    served.put("cold", all_at_once(served.submit, BATCH))
    all_at_once(served.submit, 4 * BATCH)  # warm-up
    gc.collect()
    gc.freeze()  # as a server does once it is up: a full collection over all that was loaded stops every thread
    if served.texts is not None and served.engine.encoder is not None:
        summary["encode_texts_s"] = encoding(served)
    served.put("single stream", one_by_one(served.submit, load.stream))
    rates = [served.offline()]
    served.put("offline, served", all_at_once(served.submit, min(max(4 * BATCH, int(rates[0] * 2)), FLOOD)))
    for rate in load.rates:
        at_rate(served, rate)
    found = find_rate(served, rates[0]) if load.find else None
    rates.append(served.offline())
    summary["offline_qps"] = [round(r, 1) for r in rates]
    if load.find:
        summary["bound_ms"] = load.bound_ms
        summary["sustained_qps"] = None if found is None else round(found["rate"], 1)
        summary["share_of_offline"] = 0.0 if found is None else round(found["rate"] / float(np.mean(rates)), 3)
    return summary


def encoding(served: Served) -> float:
    """Texts a second of the encoder alone, without the engine's cache."""
    encoder = getattr(served.engine.encoder, "encoder", served.engine.encoder)
    texts = (served.texts or [])[: 2 * BATCH]
    start = time.perf_counter()
    encoder.encode(texts)
    return round(len(texts) / (time.perf_counter() - start), 1)


def line(row: dict[str, Any]) -> str:
    """A row for the terminal."""
    rate = f"{row['rate']:9,.0f}/s" if row.get("rate") else " " * 11
    head = f"{row['scenario']:16} {rate} {row['queries']:7} queries"
    spread = "  ".join(f"{n[:-3]} {row[n]:8.2f}" for n in (*QUANTILES, "max_ms") if row.get(n) is not None)
    bad = {k: v for k, v in row["status"].items() if k != "ok"}
    return f"{head}  {spread} ms  {row.get('answered_qps') or 0:8,.0f}/s" + (f"  {bad}" if bad else "")


def open_served(
    load: Load, *, store: Path | None, spec: str, dimension: int, device: str, queries: Path | None, encoder: str | None
) -> tuple[Served, dict[str, Any]]:
    """The engine of a store or of a synthetic workload, served, and what it is called in the results.

    Raises:
        InvalidArgument: texts are wanted where there are none, or a store without queries.
    """
    texts, vectors = None if queries is None else read_texts(queries), None
    if store is None:
        given = workload(spec, dimension, 4096, load.seed)
        engine, named, vectors = engine_of(given, device=device), describe(given), given.query_vectors
    else:
        import tercet

        engine = tercet.open(store, device=device, encoder=encoder)
        named = {"name": store.name, "nodes": engine.graph.num_nodes, "edges": engine.graph.num_edges}
        if texts is None:
            raise InvalidArgument("bench serve: --store needs --queries, a JSON-lines file of questions")
    if load.texts and (texts is None or engine.encoder is None):
        raise InvalidArgument("bench serve: --texts needs --queries and an encoder")
    if vectors is None:
        assert texts is not None
        if engine.encoder is None:
            raise InvalidArgument("bench serve: the store has no encoder for the queries; give --encoder")
        vectors = engine.encoder.encode(texts).numpy()
    # a query that comes again is answered again, and nobody looks at texts here: the offline calls don't either
    front = AsyncEngine(engine, max_batch=load.max_batch, max_wait_ms=load.max_wait_ms, cache=0, render=load.render)
    return Served(engine, front, vectors, texts, load), named


def read_texts(path: Path) -> list[str]:
    """The questions of a JSON-lines file: strings, or objects with a `query`, `question` or `text`."""
    out = []
    for text in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(text)
        out.append(row if isinstance(row, str) else next(row[k] for k in ("query", "question", "text") if k in row))
    return out


def run(
    load: Load, out: Path, *, store: Path | None = None, spec: str = "uniform:100k:500k", dimension: int = 384,
    device: str = "cpu", threads: int = 0, queries: Path | None = None, encoder: str | None = None,
    as_json: bool = False,
) -> int:  # fmt: skip
    """Measure, and write `manifest.json`, `summary.json` and `latency.parquet` to a new folder.

    Returns:
        0, or 1 when no rate kept the bound.
    """
    if not (math.isfinite(load.seconds) and load.seconds > 0 and load.bound_ms > 0):
        raise InvalidArgument(f"bench serve: expected seconds and a bound above 0, got {load.seconds}, {load.bound_ms}")
    folder = Folder(out)
    if threads:
        torch.set_num_threads(threads)
    served, named = open_served(
        load, store=store, spec=spec, dimension=dimension, device=device, queries=queries, encoder=encoder
    )
    folder.manifest({**about(), "workload": named, "load": asdict(load)})
    try:
        summary = {"workload": named, **measure(served)}
    finally:
        close(served.front)
    summary["rows"] = served.rows
    (out / "summary.json").write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")
    pq.write_table(pa.concat_tables(served.raw), out / "latency.parquet")
    if as_json:
        print(json.dumps(summary))
    else:
        print("\n".join(told(summary)))
    return 1 if load.find and summary["sustained_qps"] is None else 0


def told(summary: dict[str, Any]) -> Sequence[str]:
    """The summary in words."""
    out = [f"offline {' and '.join(f'{r:,.0f}' for r in summary['offline_qps'])} queries/s, before and after"]
    if "encode_texts_s" in summary:
        out.append(f"encoding alone {summary['encode_texts_s']:,.0f} texts/s")
    if "bound_ms" in summary:
        bound, rate = summary["bound_ms"], summary["sustained_qps"]
        out.append(
            f"no rate keeps the p99 under {bound:g} ms" if rate is None else
            f"p99 under {bound:g} ms up to {rate:,.0f} queries/s: {summary['share_of_offline']:.0%} of offline"
        )  # fmt: skip
    return out


def close(front: AsyncEngine) -> None:
    """Close a front from outside of an event loop."""
    import asyncio

    asyncio.run(front.aclose())
