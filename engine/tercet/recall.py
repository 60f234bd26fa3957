"""Recall: the answers to a batch of queries, a sequence with one entry a query."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import pyarrow as pa
import torch

from tercet.context import first_triplets, fit_tokens, render_batch
from tercet.graph import Graph
from tercet.plan import Plan
from tercet.query import QueryBatch
from tercet.ranking import Ranking, Status
from tercet.result import Result
from tercet.tables import one_piece

if TYPE_CHECKING:
    from tercet.why import Why


BLOCK = 256  # queries whose triplets are looked up together

_EMPTY = {  # a ranking of no queries, for a batch in which every query failed
    "edge": torch.zeros(0, 0, dtype=torch.int32),
    "score": torch.zeros(0, 0, dtype=torch.float64),
    "distance": torch.zeros(0, 0, 3),
    "status": torch.zeros(0, dtype=torch.int8),
}


@dataclass(frozen=True, eq=False)
class Group:
    """Queries of a batch that were retrieved together."""

    place: torch.Tensor  # (n,) int64 their positions in the batch
    plan: Plan
    queries: torch.Tensor  # (n, D)
    ranking: Ranking
    halved: int = 0  # how often what was to be retrieved together was halved before it fitted into memory


@dataclass(eq=False)
class Recall(Sequence[Result]):
    """The results of `Engine.recall`; tensors stay on the device until text or tables are asked for."""

    queries: QueryBatch
    groups: list[Group]
    timings: dict[str, float]  # seconds by stage, summed over the groups
    max_context_tokens: int | None = None
    count_tokens: Callable[[list[str]], Sequence[int]] | None = None
    why_: Callable[..., "Why"] | None = None
    version: int = 0  # of the engine, which the answers are from
    _cache: dict[str, Any] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        return len(self.queries)

    @overload
    def __getitem__(self, index: int) -> Result: ...
    @overload
    def __getitem__(self, index: slice) -> list[Result]: ...
    def __getitem__(self, index: int | slice) -> Result | list[Result]:
        if isinstance(index, slice):
            return [Result(self, i) for i in range(*index.indices(len(self)))]
        at = index + len(self) if index < 0 else index
        if not 0 <= at < len(self):
            raise IndexError(f"query {index} of {len(self)}")
        return Result(self, at)

    def __iter__(self) -> Iterator[Result]:
        return (Result(self, i) for i in range(len(self)))

    @property
    def halved(self) -> int:
        """How often fewer queries had to be retrieved together, because more didn't fit into memory."""
        return sum(g.halved for g in self.groups)

    @property
    def edges(self) -> torch.Tensor:
        """(B, k) int32 edge rows, -1 where there is none."""
        return self._gathered("edge", -1)

    @property
    def scores(self) -> torch.Tensor:
        """(B, k) float64, NaN where there is none."""
        scores = self._gathered("score", torch.inf)
        return scores.masked_fill(self.edges < 0, torch.nan)

    @property
    def distances(self) -> torch.Tensor:
        """(B, k, 3) float32 raw distances of source, target and relation, +inf where nothing matched."""
        return self._gathered("distance", torch.inf)

    @property
    def status(self) -> list[str]:
        """(B,) names of `Status`."""
        return [Status(int(s)).name for s in self._host("status", int(Status.failed))]

    def texts(self) -> list[str]:
        """The context text of every query."""
        return self._rendered()[0].to_pylist()

    def to_arrow(self) -> pa.Table:
        """One row a triplet: query, rank, source, relation, target, score, the three distances, edge id and text."""
        edge = self._host("edge", -1)
        query, rank = np.nonzero(edge >= 0)
        rows = edge[query, rank]
        distance = self._host("distance", np.inf)[query, rank]
        source, relation, target, edge_id, edge_text = self._display(rows, query)
        return pa.table(
            {
                "query": pa.array(query.astype(np.int32)),
                "rank": pa.array(rank.astype(np.int32)),
                "source": source,
                "relation": relation,
                "target": target,
                "score": pa.array(self._host("score", np.inf)[query, rank]),
                "source_distance": pa.array(distance[:, 0]),
                "target_distance": pa.array(distance[:, 1]),
                "relation_distance": pa.array(distance[:, 2]),
                "edge_id": edge_id,
                "edge_text": edge_text,
            }
        )

    def to_pandas(self) -> Any:
        """`to_arrow` as a pandas frame."""
        return self.to_arrow().to_pandas()

    def _gathered(self, name: str, fill: float) -> torch.Tensor:
        if name not in self._cache:
            parts = [getattr(g.ranking, name) for g in self.groups]
            width = max((p.shape[1] for p in parts if p.dim() > 1), default=0)
            like = parts[0] if parts else _EMPTY[name]
            tail = () if like.dim() == 1 else (width, *like.shape[2:])
            out = torch.full((len(self), *tail), fill, dtype=like.dtype, device=like.device)
            for g, part in zip(self.groups, parts, strict=True):
                if part.dim() == 1:
                    out[g.place.to(out.device)] = part
                else:
                    out[g.place.to(out.device), : part.shape[1]] = part
            self._cache[name] = out
        return self._cache[name]

    def _host(self, name: str, fill: float) -> np.ndarray:
        key = f"{name}@host"
        if key not in self._cache:
            self._cache[key] = self._gathered(name, fill).cpu().numpy()  # the one copy to the host
        return self._cache[key]

    def _group(self, query: int) -> tuple[Group, int] | None:
        group, row = self._places()[query]
        return None if group < 0 else (self.groups[group], int(row))

    def _places(self) -> np.ndarray:
        """(B, 2) int64: the group of each query and its row there, -1 for a failed one."""
        if "places" not in self._cache:
            where = np.full((len(self), 2), -1, np.int64)
            for i, g in enumerate(self.groups):
                where[g.place.cpu().numpy()] = np.stack([np.full(len(g.place), i), np.arange(len(g.place))], 1)
            self._cache["places"] = where
        return self._cache["places"]

    def _facts(self, query: int) -> list[list[Any]]:
        """source id, relation, target id, edge id and edge text of one query's triplets, a list each."""
        block, place = divmod(query, BLOCK)
        key = f"facts@{block}"
        if key not in self._cache:
            edge = self._host("edge", -1)[block * BLOCK : (block + 1) * BLOCK]
            at, rank = np.nonzero(edge >= 0)
            starts = np.searchsorted(at, np.arange(len(edge) + 1)).tolist()
            self._cache[key] = (list(pairwise(starts)), self._display(edge[at, rank], at + block * BLOCK))
        bounds, columns = self._cache[key]
        low, high = bounds[place]
        return [column.slice(low, high - low).to_pylist() for column in columns]

    def _display(self, rows: np.ndarray, query: np.ndarray) -> list[pa.Array]:
        """source id, relation, target id, edge id and edge text of ranked edges; groups may use graphs of their own."""
        out: list[pa.Array] = []
        pieces = self._by_graph(query)
        for graph, inside in pieces:
            ids, picked = graph.ids, rows[inside]
            ends = [x.cpu().numpy()[picked] for x in (graph.source, graph.target)]
            labels = graph.relation_column.take(pa.array(picked)).cast(pa.large_string())
            columns = [
                ids.take(pa.array(ends[0])), labels, ids.take(pa.array(ends[1])),
                *(one_piece(graph.edges.column(c)).take(pa.array(picked)) for c in ("id", "edge_text")),
            ]  # fmt: skip
            out.append(pa.table(dict(zip("abcde", columns, strict=True))))
        if not out:
            return [pa.array([], pa.large_string())] * 5
        if len(out) == 1:
            return [c.combine_chunks() for c in out[0].columns]
        order = np.argsort(np.concatenate([inside for _, inside in pieces]), kind="stable")
        joined = pa.concat_tables(out).take(pa.array(order))
        return [c.combine_chunks() for c in joined.columns]

    def _by_graph(self, query: np.ndarray) -> list[tuple[Graph, np.ndarray]]:
        """Positions in `query`, by the graph that these queries were answered from; failed ones are in none."""
        group = self._places()[query, 0]
        graphs: dict[int, tuple[Graph, list[int]]] = {}
        for i, g in enumerate(self.groups):
            graphs.setdefault(id(g.plan.graph), (g.plan.graph, []))[1].append(i)
        return [(graph, np.flatnonzero(np.isin(group, members))) for graph, members in graphs.values()]

    def _rendered(self) -> tuple[pa.Array, np.ndarray]:
        """Texts of all queries, and how many triplets each of them holds."""
        if "text" not in self._cache:
            edge = self._host("edge", -1)
            kept = np.zeros(len(self), np.int64)
            place, parts = [np.flatnonzero(self._places()[:, 0] < 0)], []
            parts.append(pa.array([""] * len(place[0]), pa.large_string()))
            for graph, queries in self._by_graph(np.arange(len(self))):
                text, kept[queries] = self._render(graph, edge[queries])
                place.append(queries)
                parts.append(text)
            order = np.argsort(np.concatenate(place), kind="stable")
            self._cache["text"] = (pa.chunked_array(parts).combine_chunks().take(pa.array(order)), kept)
        return self._cache["text"]

    def _render(self, graph: Graph, edge: np.ndarray) -> tuple[pa.Array, np.ndarray]:
        """Texts of ranked edges (rows of `edge`, -1 for none), and how many triplets each of them holds."""
        present = edge >= 0
        indptr = np.zeros(len(edge) + 1, np.int64)
        np.cumsum(present.sum(axis=1), out=indptr[1:])
        rows = edge[present].astype(np.int64)
        source, target = (x.cpu().numpy()[rows] for x in (graph.source, graph.target))
        columns, name = graph.text_columns, graph.relationship_name
        kept = np.diff(indptr)
        if self.max_context_tokens is not None:
            kept = fit_tokens(
                *columns, source, target, rows, indptr, relation_name=name, max_tokens=self.max_context_tokens,
                counter=self.count_tokens,
            )  # fmt: skip
            inside, indptr = first_triplets(indptr, kept)
            source, target, rows = source[inside], target[inside], rows[inside]
        return render_batch(*columns, source, target, rows, indptr, relation_name=name), np.asarray(kept)
