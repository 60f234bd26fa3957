"""The suites: each a file with `TESTS`, the test files that gate it, and `cells`, which times and yields."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from bench.config import Config
from bench.machine import ROOT
from bench.prepare import workload
from bench.records import Cell
from bench.timing import Timing, measure
from bench.workloads import Workload
from tercet.errors import InvalidArgument

NAMES = {
    "reference": "a fixed matrix product and topk in torch: what ratios across machines are taken to",
    "recall": "Engine.recall on vectors: batches, with and without a limit, stages apart, cold and warm",
    "search": "index search alone: exact beside torch and FAISS, approximate indexes with their recall",
    "graph": "fragment, scores and top-k of fixed candidates beside the references, SciPy and igraph",
    "pipeline": "a limited search end to end beside plain torch, answers compared",
    "full": "a search without a limit beside one dense pass in torch, answers compared",
    "render": "texts and tables of ranked triplets",
    "encode": "texts a second beside SentenceTransformer.encode, and recall on texts",
    "build": "Graph.from_tables on a large graph without texts",
    "scaling": "graph stages at fixed candidates while nodes and edges double",
    "memory": "the highest resident memory of a call in a fresh process",
    "store": "a store on disk: save, open, first questions, updates and their saves, beside plain writes and reads",
    "roofline": "this machine's bandwidth and matrix rate, and the share of them that stages reach",
    "cognee": "Cognee 1.6.5's own triplet search in its own environment",
    "grafito": "subgraph verbs beside Grafito 0.8.6 in its own environment, PageRank beside igraph and networkx",
}


@dataclass(frozen=True)
class Bench:
    """What a suite is given: the settings of the whole run, and of itself."""

    config: Config
    suite: str

    @property
    def run(self) -> dict[str, Any]:
        return self.config["run"]

    @property
    def own(self) -> dict[str, Any]:
        return self.config[self.suite]

    def workload(self, spec: str, dimension: int | None = None, num_queries: int | None = None) -> Workload:
        """A workload by name, with the run's width and number of queries unless told otherwise."""
        run = self.run
        return workload(
            spec, run["dimension"] if dimension is None else dimension,
            run["queries"] if num_queries is None else num_queries, run["seed"],
        )  # fmt: skip

    def measure(self, fn: Callable[..., object], **more: Any) -> Timing:
        """`bench.timing.measure` with the run's repeats and budget."""
        run = self.run
        given = {"warmup": run["warmup"], "repeats": run["repeats"], "budget_s": run["budget_s"], **more}
        return measure(fn, **given)


def patterns_of(suite: str) -> tuple[str, ...]:
    """The test files that gate a suite, or patterns of them."""
    return tuple(dict.fromkeys(_module(suite).TESTS))


def gating_tests(suite: str) -> tuple[str, ...]:
    """The test files that must pass before a suite is timed; a pattern stands for all that match it."""
    found: dict[str, None] = {}
    for name in patterns_of(suite):
        matching = sorted(str(p.relative_to(ROOT)) for p in ROOT.glob(name)) if "*" in name else [name]
        found |= dict.fromkeys(matching)
    return tuple(found)


def cells_of(config: Config, suite: str) -> Iterator[Cell]:
    """Time a suite; each cell as soon as it is known."""
    for cell in _module(suite).cells(Bench(config, suite)):
        yield {"suite": suite, **cell}


def _module(suite: str) -> Any:
    if suite not in NAMES:
        raise InvalidArgument(f"suite: expected one of {', '.join(NAMES)}, got {suite!r}")
    return import_module(f"bench.suites.{suite}")
