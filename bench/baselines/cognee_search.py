"""Time cognee's triplet search on a workload, its stores replaced by in-memory stubs.

Run by the Python of an environment that holds cognee (and not Tercet), with OMP_NUM_THREADS=1:

    python cognee_search.py WORKLOAD.npz [--budget 60] [--batches 16 256] [--top-k 10]

One JSON line a cell on stdout, the rest on stderr: the time of a call of `batch` queries (quantiles of wall time,
`cpu_s` and `stages` as medians of CPU time; cognee computes on one thread) and the ranked triplets of its queries.

What is timed is `brute_force_triplet_search` itself, on one event loop. All that favours it: embeddings, hit lists and
records are prepared beforehand, the time inside the stubs is measured and subtracted, garbage is collected between
calls and the prepared objects are hidden from the collector.
Only cognee, NumPy and the standard library are imported; `find_python` serves the caller in the other environment.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import platform
import socket
import subprocess
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TextIO
from uuid import NAMESPACE_OID, uuid5

import numpy as np

NODES, TYPES, RELATIONS = "Entity_name", "EntityType_name", "EdgeType_relationship_name"
CALIBRATION_NODES = 1000
FULL_QUERIES = 16  # distinct queries of the single search over the whole graph
FULL_REPEATS = 7
Clock = defaultdict[str, float]  # seconds by stage


def find_python(root: Path) -> tuple[Path | None, str]:
    """The Python with cognee and its version, or None and the reason.

    It is TERCET_BENCH_COGNEE_PYTHON, else `.venv-cognee/bin/python` under `root`.
    """
    named = os.environ.get("TERCET_BENCH_COGNEE_PYTHON")
    python = Path(named) if named else root / ".venv-cognee" / "bin" / "python"
    if not python.is_file():
        reason = "names no file" if named else "is unset and .venv-cognee is missing"
        return None, f"TERCET_BENCH_COGNEE_PYTHON {reason}"
    asked = "from importlib.metadata import version; print(version('cognee'))"
    done = subprocess.run([python, "-c", asked], capture_output=True, text=True, check=False)
    return (python, done.stdout.strip()) if done.returncode == 0 else (None, "that Python has no cognee")


def isolate(directory: Path) -> None:
    """Before cognee is imported: no network, no telemetry, no file outside `directory`."""
    (directory / "empty.env").touch()
    os.environ.update(
        TELEMETRY_DISABLED="1",
        COGNEE_TRACING_ENABLED="false",
        LITELLM_LOCAL_MODEL_COST_MAP="True",
        LOG_LEVEL="ERROR",
        COGNEE_LOG_FILE="false",
        COGNEE_ENV_FILE=str(directory / "empty.env"),
        HOME=str(directory),
        **{f"{name}_ROOT_DIRECTORY": str(directory / name.lower()) for name in ("DATA", "SYSTEM", "CACHE")},
        **{f"COGNEE_{name}_DIR": str(directory / name.lower()) for name in ("LOGS", "REPOS")},
    )
    os.chdir(directory)

    def refuse(*_: object) -> None:
        raise OSError("the benchmark runs without network")

    socket.socket.connect = refuse  # type: ignore[method-assign, assignment]


class Stores:
    """Both engines of cognee over prepared answers; `clock` gets the seconds spent here."""

    def __init__(self, data: dict[str, np.ndarray], clock: Clock, num_nodes: int, num_edges: int) -> None:
        from cognee.modules.graph.models.EdgeType import EdgeType

        self.clock = clock
        self.embedding_engine = self
        self.unified = SimpleNamespace(vector=self, graph=self)
        self.queries = data["query_vectors"]
        types, vectors = min(int(data["num_types"]), num_nodes), data["node_vectors"][:num_nodes]
        self.vectors = {NODES: vectors[types:], TYPES: vectors[:types], RELATIONS: data["relation_vectors"]}
        names = [f"relation {row}" for row in range(len(data["relation_vectors"]))]
        node_ids = [uuid5(NAMESPACE_OID, f"n{node:06d}") for node in range(num_nodes)]
        self.ids = {
            NODES: node_ids[types:],
            TYPES: node_ids[:types],
            RELATIONS: [EdgeType.id_for(name) for name in names],
        }
        self.node_of = {str(key): node for node, key in enumerate(node_ids)}
        self.relation_of = {name: row for row, name in enumerate(names)}
        keys = list(self.node_of)
        self.nodes = [(key, {"name": key, "type": "Entity", "description": f"Entity {key}."}) for key in keys]
        self.ends = (np.stack([data["source"], data["target"]], axis=1)[:num_edges] % num_nodes).tolist()
        self.edges = [
            (keys[source], keys[target], names[row], {"relationship_name": names[row], "edge_text": names[row]})
            for (source, target), row in zip(self.ends, data["relation"].tolist(), strict=False)
        ]
        self.incident: list[list[int]] = [[] for _ in range(num_nodes)]
        for edge, (source, target) in enumerate(self.ends):
            self.incident[source].append(edge)
            self.incident[target].append(edge)
        self.embedded: dict[str, list[float]] = {}
        self.hits: dict[tuple[str, str, int | None], list[Any]] = {}
        self.asked = ""

    def prepare(self, rows: range, limit: int | None) -> None:
        """Embed these queries and list their hits, ascending by distance, ties by row; forget all earlier lists."""
        from cognee.infrastructure.databases.vector.models.ScoredResult import ScoredResult

        self.hits.clear()
        for collection, vectors in self.vectors.items():
            wide, ids = vectors.astype(np.float64), self.ids[collection]
            norms = np.linalg.norm(wide, axis=1)
            for row in rows:
                query = self.queries[row].astype(np.float64)
                distance = (1 - wide @ query / (norms * np.linalg.norm(query))).astype(np.float32)
                order = np.argsort(distance, kind="stable")[:limit]
                self.hits[collection, str(row), limit] = [
                    ScoredResult.model_construct(id=ids[hit], score=score, payload=None)
                    for hit, score in zip(order.tolist(), distance[order].tolist(), strict=True)
                ]
                self.embedded[str(row)] = self.queries[row].tolist()

    @contextmanager
    def _subtracted(self) -> Iterator[None]:
        start, cpu = time.perf_counter(), time.process_time()
        yield
        self.clock["store"] += time.perf_counter() - start
        self.clock["store_cpu"] += time.process_time() - cpu

    async def embed_text(self, texts: list[str]) -> list[list[float]]:
        self.asked = texts[0]
        return [self.embedded[text] for text in texts]

    async def search(self, collection_name: str, limit: int | None, **_: object) -> list[Any]:
        with self._subtracted():
            return self.hits[collection_name, self.asked, limit]

    async def batch_search(self, collection_name: str, query_texts: list[str], limit: int | None) -> list[list[Any]]:
        with self._subtracted():
            return [self.hits[collection_name, text, limit] for text in query_texts]

    async def get_graph_data(self) -> tuple[list[Any], list[Any]]:
        return self.nodes, self.edges

    async def get_id_filtered_graph_data(self, target_ids: list[str]) -> tuple[list[Any], list[Any]]:
        """Edges with either end in `target_ids`, in list order, and their ends by first appearance."""
        with self._subtracted():
            kept = sorted({edge for key in target_ids for edge in self.incident[self.node_of[key]]})
            first = dict.fromkeys(node for edge in kept for node in self.ends[edge])
            return [self.nodes[node] for node in first], [self.edges[edge] for edge in kept]


class Bench:
    """cognee's search over one pair of stores, its stages under the clock."""

    def __init__(self, data: dict[str, np.ndarray], asked: argparse.Namespace) -> None:
        self.data, self.top_k, self.wide = data, asked.top_k, asked.wide
        self.budget, self.max_hits = asked.budget, asked.max_hits
        self.num_nodes, self.num_edges = int(data["num_nodes"]), len(data["source"])
        self.num_queries = len(data["query_vectors"])
        self.clock = Clock(float)
        self.project_s = self.query_s = 0.0  # estimates for the whole graph: once a call, and once a query
        self.stores: Stores
        self._clock_stages()

    def _clock_stages(self) -> None:
        from cognee.modules.graph.cognee_graph.CogneeGraph import CogneeGraph
        from cognee.modules.retrieval.utils import brute_force_triplet_search as module
        from cognee.modules.retrieval.utils.node_edge_vector_search import NodeEdgeVectorSearch

        def clocked(owner: Any, name: str, stage: str) -> None:
            original = getattr(owner, name)

            async def run(*args: Any, **kwargs: Any) -> Any:
                start, store = time.process_time(), self.clock["store_cpu"]
                result = await original(*args, **kwargs)
                self.clock[stage] += time.process_time() - start - (self.clock["store_cpu"] - store)
                return result

            setattr(owner, name, run)

        clocked(NodeEdgeVectorSearch, "embed_and_retrieve_distances", "collect_hits")
        clocked(module, "get_memory_fragment", "project")
        clocked(CogneeGraph, "map_vector_distances_to_graph_nodes", "map_nodes")
        clocked(CogneeGraph, "map_vector_distances_to_graph_edges", "map_edges")
        clocked(CogneeGraph, "calculate_top_triplet_importances", "score")
        self.search = module.brute_force_triplet_search

    async def call(self, rows: range, wide: int | None, batched: bool = False) -> tuple[Clock, list[list[Any]]]:
        """One timed call: CPU seconds by stage, and the ranked edges of each query."""
        texts = [str(row) for row in rows]
        query: dict[str, Any] = {"query_batch": texts} if batched else {"query": texts[0]}
        query |= {"top_k": self.top_k, "wide_search_top_k": wide, "collections": [NODES, TYPES]}
        gc.collect()
        self.clock.clear()
        start, cpu = time.perf_counter(), time.process_time()
        found = await self.search(**query, unified_engine=self.stores.unified)
        wall, cpu = time.perf_counter() - start, time.process_time() - cpu
        spent = self.clock.copy()
        spent["wall"], spent["cpu"] = wall - spent["store"], cpu - spent.pop("store_cpu", 0.0)
        return spent, found if batched else [found]

    def ranked(self, found: list[list[Any]]) -> tuple[list[Any], list[Any]]:
        """(source, relation, target) rows and float64 scores of each query."""
        node, relation = self.stores.node_of, self.stores.relation_of
        triplets = [
            [[node[e.node1.id], relation[e.attributes["relationship_type"]], node[e.node2.id]] for e in edges]
            for edges in found
        ]
        scores = [
            [sum(1.5 * part.attributes["vector_distance"][query] for part in (e.node1, e.node2, e)) for e in edges]
            for query, edges in enumerate(found)
        ]
        return triplets, scores

    async def calibrate(self) -> None:
        """Estimate a call over the whole graph from one over a small part of it, which also warms everything up."""
        from cognee.modules.graph.cognee_graph.CogneeGraphElements import Node

        small = min(self.num_nodes, CALIBRATION_NODES)
        self.stores = Stores(self.data, self.clock, small, self.num_edges * small // self.num_nodes)
        self.stores.prepare(range(1), None)
        spent, _ = await self.call(range(1), None)
        # cognee looks through a node's list of neighbours for every edge it adds: quadratic in the degree.
        others, absent = [Node(str(row), {}) for row in range(10_000)], Node("absent", {})
        start = time.perf_counter()
        others.count(absent)
        compare = (time.perf_counter() - start) / len(others)
        degree = np.bincount(np.concatenate([self.data["source"], self.data["target"]])).astype(float)
        hubs = float(np.square(degree).sum()) / 2 * compare if small < self.num_nodes else 0.0
        self._expect(spent, self.num_nodes / small, 1)
        self.project_s += hubs
        self.stores = Stores(self.data, self.clock, self.num_nodes, self.num_edges)

    def _expect(self, spent: Clock, scale: float, batch: int) -> None:
        """Base later estimates on this call; its wall time counts, as others may use the machine too."""
        busy = scale * spent["wall"] / spent["cpu"]
        self.project_s = busy * spent["project"]
        self.query_s = busy * (spent["cpu"] - spent["project"]) / batch

    def line(self, asked: int, batch: int, wide: int | None, **fields: Any) -> dict[str, Any]:
        cell = {
            "workload": str(self.data["name"]),
            "num_nodes": self.num_nodes,
            "num_edges": self.num_edges,
            "dimension": self.data["node_vectors"].shape[1],
            "wide_search_top_k": wide,
            "top_k": self.top_k,
            "asked_batch": asked,
        }
        versions = {"version": version("cognee"), "python": platform.python_version()}
        return {"system": "cognee", **versions, "cell": cell, "batch": batch, **fields}

    async def repeat(self, calls: list[range], wide: int | None, asked: int) -> dict[str, Any]:
        """Make the calls in turn while another one fits the budget, at least one; medians over them."""
        batch = len(calls[0])
        samples: list[Clock] = []
        answers: dict[range, tuple[list[Any], list[Any]]] = {}
        gc.collect()
        gc.freeze()
        start = time.perf_counter()
        for rows in calls:
            if samples and (time.perf_counter() - start) * (1 + 1 / len(samples)) > self.budget:
                break
            spent, found = await self.call(rows, wide, asked > 1)
            samples.append(spent)
            if rows not in answers:
                answers[rows] = self.ranked(found)
            del found  # it holds the whole fragment
        gc.unfreeze()
        if wide is None:
            self._expect(samples[-1], 1, batch)
        middle = {name: float(np.median([spent[name] for spent in samples])) for name in samples[0]}
        p20, median, p80 = np.quantile([spent["wall"] for spent in samples], (0.2, 0.5, 0.8)).tolist()
        times = {"median_s": median, "p20_s": p20, "p80_s": p80, "cpu_s": middle["cpu"], "repeats": len(samples)}
        stages = {name: seconds for name, seconds in middle.items() if name not in ("wall", "cpu", "store")}
        results = {
            "queries": [row for rows in answers for row in rows],
            "rankings": [ranking for rankings, _ in answers.values() for ranking in rankings],
            "scores": [values for _, scores in answers.values() for values in scores],
        }
        return self.line(asked, batch, wide, **times, stages=stages, subtracted_s=middle["store"], **results)

    async def limited(self) -> dict[str, Any]:
        """Single searches with the wide limit. cognee has no batch form of them: B queries are B calls."""
        rows = [range(row, row + 1) for row in range(self.num_queries)]
        self.stores.prepare(range(self.num_queries), self.wide)
        await self.call(rows[0], self.wide)
        return await self.repeat(rows, self.wide, 1)

    async def full(self, asked: int) -> dict[str, Any]:
        """Searches over the whole graph: one query, or the largest batch of asked, asked / 2, ... that fits."""
        hits = sum(len(vectors) for vectors in self.stores.vectors.values())

        def over(batch: int) -> bool:
            return batch * hits > self.max_hits or self.project_s + batch * self.query_s > self.budget

        batch = min(asked, self.num_queries)
        while batch > 3 and over(batch):
            batch //= 2
        if over(batch):
            call = f"{self.project_s + batch * self.query_s:.0f} s and {batch * hits} prepared hits"
            limits = f"{self.budget:.0f} s and {self.max_hits}"
            return self.line(asked, batch, None, skipped=f"one call is estimated at {call}; the limits are {limits}")
        calls = [range(batch)] * FULL_REPEATS
        if asked == 1:
            distinct = max(1, min(FULL_QUERIES, self.num_queries, self.max_hits // hits))
            calls = [range(row, row + 1) for row in range(distinct)]
        self.stores.prepare(range(calls[-1].stop), None)
        return await self.repeat(calls, None, asked)


async def main(asked: argparse.Namespace, out: TextIO) -> None:
    with np.load(asked.workload, allow_pickle=False) as arrays:
        bench = Bench(dict(arrays), asked)
    await bench.calibrate()
    print(json.dumps(await bench.limited()), file=out, flush=True)
    for batch in [1, *asked.batches]:
        print(json.dumps(await bench.full(batch)), file=out, flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workload", type=lambda text: Path(text).resolve(), help="what Workload.save wrote")
    parser.add_argument("--budget", type=float, default=60, help="seconds a cell")
    parser.add_argument("--batches", type=int, nargs="*", default=[16, 256])
    parser.add_argument("--top-k", type=int, default=10)
    parser.add_argument("--wide", type=int, default=100)
    parser.add_argument("--max-hits", type=int, default=3_000_000, help="prepared hits, about 500 bytes each")
    parsed = parser.parse_args()
    lines = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # libraries print: only result lines may reach the caller's pipe
    with tempfile.TemporaryDirectory() as scratch:
        isolate(Path(scratch))
        asyncio.run(main(parsed, lines))
