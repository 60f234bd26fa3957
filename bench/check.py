"""The small set for every change: ratios of Tercet's stages to plain torch, both timed in one process.

A ratio stands still where absolute times don't, so its limits can be few and loose: they catch a stage that fell back
to something slow, not a tenth.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from bench.baselines import torch_plain
from bench.config import Config
from bench.prepare import batch_of, engine_of, scene, topology_of
from bench.suites.graph import rank
from bench.suites.pipeline import plain_of
from bench.timing import measure
from bench.workloads import make
from tercet_kernels.expand import expand
from tercet_kernels.expand import reference as expand_reference

WIDE, TOP_K, CANDIDATES, WIDTH = 100, 10, 200, 384


@dataclass(frozen=True)
class Ratio:
    """Tercet's median time over the reference's, the smallest of some attempts."""

    name: str
    value: float
    limit: float
    attempts: int

    @property
    def good(self) -> bool:
        return self.value <= self.limit


def check(config: Config) -> list[Ratio]:
    """Measure each ratio, again where it is over its limit."""
    own = config["check"]
    return [
        ratio(name, *sides, own[name], own["repeats"], own["attempts"])
        for name, sides in sides_of(own["nodes"], own["edges"], own["batch"], config["run"]["seed"]).items()
    ]


def ratio(
    name: str, ours: Callable[[], object], theirs: Callable[[], object], limit: float, repeats: int, attempts: int
) -> Ratio:
    """The calls alternate, so that a busy moment meets both."""
    values: list[float] = []
    while len(values) < attempts and (not values or min(values) > limit):
        times = np.array(
            [
                [measure(fn, warmup=1 if i == 0 else 0, repeats=1).median_s for fn in (ours, theirs)]
                for i in range(repeats)
            ]
        )
        a, b = np.median(times, axis=0)
        values.append(float(a / b))
    return Ratio(name, min(values), limit, len(values))


def sides_of(
    nodes: int, edges: int, batch: int, seed: int
) -> dict[str, tuple[Callable[[], object], Callable[[], object]]]:
    """Tercet's call and the reference's, by name."""
    given = make(nodes, edges, WIDTH, seed=seed, num_queries=batch)
    engine, queries = engine_of(given), batch_of(given, batch)
    plain, index = plain_of(engine), engine.collections[0].index
    made = scene(topology_of(given), "topical", batch, CANDIDATES, WIDE, seed)
    seeds = made.hits.indptr, made.hits.node
    free = torch.ones(1, 1, dtype=torch.bool), torch.full((batch,), -1, dtype=torch.int32)
    recall = lambda wide: engine.recall(vectors=queries, top_k=TOP_K, wide_search_top_k=wide).scores.cpu()  # noqa: E731
    return {
        "search": (
            lambda: index.search(queries, WIDE),
            lambda: torch_plain.search(index.vectors, queries, WIDE),  # type: ignore[attr-defined]
        ),
        "graph": (lambda: rank(made, TOP_K), lambda: torch_plain.graph_stage(made, TOP_K)),
        "pipeline": (lambda: recall(WIDE), lambda: plain.limited(queries, WIDE, TOP_K)),
        "full": (lambda: recall(None), lambda: plain.full(queries, TOP_K)),
        "expand": (
            lambda: expand(made.topology, *seeds, 1),
            lambda: expand_reference.expand(made.topology, *seeds, 1, *free),
        ),
    }


def show(ratios: list[Ratio]) -> str:
    """A line a ratio."""
    return "\n".join(
        f"{r.name:9} {r.value:6.2f} of the reference's time, limit {r.limit:g}"
        f"{'' if r.good else f': OVER in {r.attempts} attempts'}"
        for r in ratios
    )
