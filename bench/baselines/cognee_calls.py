"""Calls of cognee's triplet search under the clock, as many of them as a budget allows."""

from __future__ import annotations

import argparse
import gc
import platform
import time
from importlib.metadata import version
from typing import Any

import numpy as np
from cognee_stores import NODES, TYPES, Clock, Stores

CALIBRATION_NODES = 1000
FULL_QUERIES = 16  # distinct queries of the single search over the whole graph
FULL_REPEATS = 7


class Calls:
    """cognee's search over one pair of stores, its stages under the clock."""

    def __init__(self, data: dict[str, np.ndarray], asked: argparse.Namespace) -> None:
        self.data, self.top_k, self.wide = data, asked.top_k, asked.wide
        self.budget, self.max_hits = asked.budget, asked.max_hits
        self.num_nodes, self.num_edges = int(data["num_nodes"]), len(data["source"])
        self.num_texts, self.num_queries = len(data["relation_vectors"]), len(data["query_vectors"])
        self.clock = Clock(float)
        self.project_s = self.query_s = 0.0  # estimates for the whole graph: once a call, and once a query
        self.stores: Stores
        self.timed: set[int] = set()  # batches of searches without a limit
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
        part = lambda count: max(1, count * small // self.num_nodes)  # noqa: E731
        self.stores = Stores(self.data, self.clock, small, part(self.num_edges), part(self.num_texts))
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
        self.stores = Stores(self.data, self.clock, self.num_nodes, self.num_edges, self.num_texts)

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
        walls = {"samples_s": [spent["wall"] for spent in samples]}
        stages = {name: seconds for name, seconds in middle.items() if name not in ("wall", "cpu", "store")}
        results = {
            "queries": [row for rows in answers for row in rows],
            "rankings": [ranking for rankings, _ in answers.values() for ranking in rankings],
            "scores": [values for _, scores in answers.values() for values in scores],
        }
        return self.line(asked, batch, wide, **times, **walls, stages=stages, subtracted_s=middle["store"], **results)

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
        if batch in self.timed:
            return self.line(asked, batch, None, skipped=f"the largest batch that fits, {batch}, is timed already")
        if over(batch):
            call = f"{self.project_s + batch * self.query_s:.0f} s and {batch * hits} prepared hits"
            limits = f"{self.budget:.0f} s and {self.max_hits}"
            return self.line(asked, batch, None, skipped=f"one call is estimated at {call}; the limits are {limits}")
        calls = [range(batch)] * FULL_REPEATS
        if asked == 1:
            distinct = max(1, min(FULL_QUERIES, self.num_queries, self.max_hits // hits))
            calls = [range(row, row + 1) for row in range(distinct)]
        self.stores.prepare(range(calls[-1].stop), None)
        self.timed.add(batch)
        return await self.repeat(calls, None, asked)
