"""Index search alone. Recall stands beside every approximate rate, and beside the exact ones as a check."""

from collections.abc import Callable, Iterator
from typing import Any

import torch

from bench.baselines import faiss_flat, torch_plain
from bench.prepare import batch_of
from bench.records import Cell, cell, describe, skipped
from bench.suites import Bench
from tercet import Collection
from tercet.index import Index

TESTS = (
    "tests/kernels/test_cosine.py", "tests/kernels/test_nearest.py", "tests/kernels/test_unit.py",
    "tests/engine/test_collection.py", "tests/engine/test_approx.py",
)  # fmt: skip
JUDGED = 256  # queries, at most, whose rows recall is taken of
EPSILON = 1e-6  # rows at the distance of the k-th, up to how float32 products are summed, are as good as it
Search = Callable[[torch.Tensor, int], torch.Tensor]  # (queries, k) to rows (B, k)


def cells(bench: Bench) -> Iterator[Cell]:
    own, k = bench.own, bench.own["k"]
    for spec in own["workloads"]:
        given = bench.workload(spec, num_queries=max(own["batches"]))
        about = describe(given)
        exact = collection(given.node_vectors).index
        most = batch_of(given, max(own["batches"]))
        few = most[:JUDGED]
        truth = exact.search(few, k)[1][:, -1]
        for system, settings, search in systems(bench, exact):
            if isinstance(search, str):
                yield skipped(system, about, settings, search)
                continue
            recall = recall_of(exact, few, search(few, k), truth)
            for batch in own["batches"] if system != "tercet-approx" else own["approx_batches"]:
                row = timed(bench, system, about, {"batch": batch, "k": k, **settings}, search, exact, most)
                yield {**row, "recall": recall, "judged_queries": len(few)}


def systems(bench: Bench, exact: Index) -> Iterator[tuple[str, dict[str, Any], Search | str]]:
    """(name, settings, search function or why there is none)."""
    own, vectors = bench.own, exact.vectors  # type: ignore[attr-defined]
    yield "tercet", {"index": "exact"}, rows_of(exact)
    yield "torch", {}, lambda queries, k: torch_plain.search(vectors, queries, k)[0]
    for threshold in own["faiss_thresholds"]:
        settings = {"blas_threshold": threshold or faiss_flat.SHIPPED}
        try:
            yield "faiss-flat", settings, faiss_flat.searcher(vectors, settings["blas_threshold"])
        except ImportError:
            yield "faiss-flat", settings, "faiss isn't installed"
    for kind, knob in (("hnsw", "ef_search"), ("ivf", "nprobe"), ("pq", "nprobe")):
        for value in own[f"{kind}_{knob}"]:
            settings = {"index": kind, knob: value}
            try:
                found = approximate(bench, vectors, kind, knob, value)
            except ImportError:
                yield "tercet-approx", settings, "faiss isn't installed"
            else:
                yield "tercet-approx", settings, rows_of(found)


def rows_of(index: Index) -> Search:
    """An index's search without the distances."""
    return lambda queries, k: index.search(queries, k)[0]


def approximate(bench: Bench, vectors: torch.Tensor, kind: str, knob: str, value: int) -> Index:
    """An index with one knob set; the graph or the lists are built once a kind."""
    from dataclasses import replace

    key = (kind, vectors.data_ptr())
    if BUILT.get("key") != key:
        BUILT.update(key=key, index=collection(vectors.numpy(), kind).index)
    made: Any = BUILT["index"]
    return replace(made, options={**made.options, knob: value})


BUILT: dict[str, Any] = {}  # the last approximate index


def collection(vectors: Any, index: str = "exact") -> Collection:
    return Collection.build("v", vectors, [f"n{i:07d}" for i in range(len(vectors))], index=index)


def recall_of(exact: Index, queries: torch.Tensor, rows: torch.Tensor, truth: torch.Tensor) -> float:
    """The share of rows found that are no farther than the k-th nearest; duplicates don't count twice."""
    query = torch.arange(len(queries), dtype=torch.int32).repeat_interleave(rows.shape[1])
    distance = exact.pairs(queries, query, rows.clamp(min=0).flatten().int().contiguous()).view(rows.shape)
    good = (distance <= truth[:, None] + EPSILON) & (rows >= 0)
    ordered = rows.masked_fill(~good, -1).sort(dim=1).values
    fresh = torch.ones_like(good)
    fresh[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    return float(((ordered >= 0) & fresh).sum() / rows.numel())


def timed(
    bench: Bench, system: str, about: dict[str, Any], settings: dict[str, Any], search: Search,
    exact: Index, queries: torch.Tensor,
) -> Cell:  # fmt: skip
    """One cell."""
    part = queries[: settings["batch"]]
    timing = bench.measure(lambda: search(part, settings["k"]), memory=True)
    more: dict[str, Any] = {}
    if system != "tercet-approx":  # the least that an exact search reads and computes
        more = traffic(exact.size, exact.dimension, len(part))
    return cell(system, about, settings, timing, **more)


def traffic(rows: int, width: int, batch: int) -> dict[str, int]:
    """Bytes and operations that an exact search of float32 rows can't do without."""
    return {"bytes": 4 * width * (rows + batch), "flops": 2 * batch * rows * width}
