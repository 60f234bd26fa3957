"""Hits: ranked nodes, the answers of the search verbs."""

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, overload

import numpy as np
import pyarrow as pa

from tercet.graph import Graph
from tercet.node import Node, nodes_of
from tercet.ranking import Status


@dataclass(frozen=True, eq=False)
class SearchResults(Sequence["Hits"]):
    """The ranked nodes of a batch of queries, one `Hits` each. Flat arrays until objects are asked for."""

    graph: Graph
    text: list[str | None]  # (B,)
    indptr: np.ndarray  # (B + 1,) int64
    node: np.ndarray  # (T,) int32 node rows, best first
    score: np.ndarray  # (T,) float64, higher is better
    available: np.ndarray  # (B,) int64 nodes that could have been found
    state: np.ndarray  # (B,) int8 `Status`
    _: KW_ONLY
    errors: dict[int, str] = field(default_factory=dict)
    halves: tuple[str, ...] = ()  # of a hybrid search
    ranks: np.ndarray | None = None  # (T, H) int32 1-based rank in each half, 0: absent
    missing: tuple[dict[str, str], ...] | None = None  # (B,) halves that gave nothing, and why
    parts: dict[str, np.ndarray] = field(default_factory=dict)  # (T,) each: what the scores were added up from
    timings: dict[str, float] = field(default_factory=dict)  # seconds by stage
    details: dict[str, np.ndarray] = field(default_factory=dict)  # (B,) each: what else a verb tells of every query
    version: int = 0  # of the engine, which the answers are from
    _nodes: dict[int, Node] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        return len(self.text)

    @overload
    def __getitem__(self, index: int) -> "Hits": ...
    @overload
    def __getitem__(self, index: slice) -> list["Hits"]: ...
    def __getitem__(self, index: int | slice) -> "Hits | list[Hits]":
        if isinstance(index, slice):
            return [Hits(self, i) for i in range(*index.indices(len(self)))]
        at = index + len(self) if index < 0 else index
        if not 0 <= at < len(self):
            raise IndexError(f"query {index} of {len(self)}")
        return Hits(self, at)

    def __iter__(self) -> Iterator["Hits"]:
        return (Hits(self, i) for i in range(len(self)))

    @property
    def status(self) -> list[str]:
        """(B,) names of `Status`."""
        return [Status(int(s)).name for s in self.state]

    def to_arrow(self) -> pa.Table:
        """A row a hit: query, rank (from 1), id, row, score, the rank in each half of a hybrid search, the parts."""
        counts = np.diff(self.indptr)
        rank = np.arange(1, len(self.node) + 1) - np.repeat(self.indptr[:-1], counts)
        table = {
            "query": np.repeat(np.arange(len(self), dtype=np.int32), counts), "rank": rank.astype(np.int32),
            "id": self.graph.ids.take(pa.array(self.node)), "row": self.node, "score": self.score,
        }  # fmt: skip
        for h, name in enumerate(self.halves):
            assert self.ranks is not None
            table[f"{name}_rank"] = pa.array(self.ranks[:, h], mask=self.ranks[:, h] == 0)
        return pa.table(table | self.parts)

    def __repr__(self) -> str:
        return f"SearchResults({len(self)} queries, {len(self.node)} hits)"


@dataclass(frozen=True, eq=False)
class Hits(Sequence[dict[str, Any]]):
    """The ranked nodes of one query: `{"node": Node, "score": float}` each, best first, `"ranks"` when fused, and
    `"parts"` when the score was added up."""

    batch: SearchResults
    place: int

    @property
    def query(self) -> str | None:
        """What was asked."""
        return self.batch.text[self.place]

    @property
    def status(self) -> str:
        """The name of a `Status`."""
        return Status(int(self.batch.state[self.place])).name

    @property
    def error(self) -> str | None:
        """What is wrong with the query, when its status is `failed`."""
        return self.batch.errors.get(self.place)

    @property
    def version(self) -> int:
        """Of the engine, which the answer is from."""
        return self.batch.version

    @property
    def missing(self) -> dict[str, str]:
        """Halves of a hybrid search ("vector", "text") that gave nothing, and why."""
        return {} if self.batch.missing is None else dict(self.batch.missing[self.place])

    @property
    def details(self) -> dict[str, Any]:
        """What else the verb tells of the query, such as `converged` of `rank_subgraph`."""
        return {name: values[self.place].item() for name, values in self.batch.details.items()}

    @property
    def available(self) -> int:
        """How many nodes could have been found: those the filter admits that have a vector, or a word of the query."""
        return int(self.batch.available[self.place])

    @property
    def node_rows(self) -> np.ndarray:
        """(n,) int32 node rows, best first."""
        return self.batch.node[self._part()]

    @property
    def scores(self) -> np.ndarray:
        """(n,) float64, best first."""
        return self.batch.score[self._part()]

    def ids(self) -> list[str]:
        """Node ids, best first."""
        return self.batch.graph.ids.take(pa.array(self.node_rows)).to_pylist()

    def __len__(self) -> int:
        return int(self.batch.indptr[self.place + 1] - self.batch.indptr[self.place])

    @overload
    def __getitem__(self, index: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, index: slice) -> list[dict[str, Any]]: ...
    def __getitem__(self, index: int | slice) -> Any:
        return self._items()[index]

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self._items())

    def _part(self) -> slice:
        return slice(int(self.batch.indptr[self.place]), int(self.batch.indptr[self.place + 1]))

    def _items(self) -> list[dict[str, Any]]:
        rows, held = self.node_rows.tolist(), self.batch._nodes
        fresh = [row for row in dict.fromkeys(rows) if row not in held]
        held.update(zip(fresh, nodes_of(self.batch.graph, np.array(fresh, np.int64)), strict=True))
        out = [{"node": held[row], "score": score} for row, score in zip(rows, self.scores.tolist(), strict=True)]
        if self.batch.ranks is not None:
            for item, ranks in zip(out, self.batch.ranks[self._part()].tolist(), strict=True):
                item["ranks"] = {name: rank or None for name, rank in zip(self.batch.halves, ranks, strict=True)}
        for name, values in self.batch.parts.items():
            for item, value in zip(out, values[self._part()].tolist(), strict=True):
                item.setdefault("parts", {})[name] = value
        return out

    def __repr__(self) -> str:
        return f"Hits({self.query!r}, {self.status}, {len(self)} nodes)"
