"""Seeds: what a subgraph grows from, in whatever form it comes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from tercet.errors import InvalidArgument, InvalidData, UnknownId
from tercet.graph import Graph
from tercet.ids import canonical
from tercet.node import Node
from tercet.retrieve.hits import Hits, SearchResults
from tercet.retrieve.ragged import Ragged, distinct, offsets, select


@dataclass(frozen=True, eq=False)
class Seeds:
    """The seeds of a batch, each node once a query, in the order given; a repeat keeps what came first."""

    hits: Ragged
    single: bool  # one list of seeds, not a list of lists
    text: list[str | None]
    errors: dict[int, str] = field(default_factory=dict)


def read_seeds(graph: Graph, given: Any, *, unknown: str) -> Seeds:
    """Seeds of one query, or of a batch.

    Args:
        given: node ids, `Node` values or hits (`{"node": ..., "score": ...}`), mixed; a list of such lists for a batch;
            what a search verb returned, of an earlier version too (nodes that are gone by now are left out); or a torch
            tensor of node rows, (S,) or (B, S) with -1 as padding.
        unknown: "refuse" ids that the graph doesn't have (one query's fault fails that query alone; a call about one
            query is refused), or "skip" them.

    Raises:
        InvalidArgument: the call is wrong, or its one list of seeds is.
        UnknownId: an id of the one list isn't in the graph.
    """
    if isinstance(given, Hits):
        given = given.batch.__class__.__getitem__(given.batch, slice(given.place, given.place + 1))
    if isinstance(given, SearchResults):
        scores = torch.from_numpy(given.score)
        hits = here(graph, given.graph, Ragged(torch.from_numpy(given.indptr), torch.from_numpy(given.node), scores))
        return Seeds(distinct(hits), False, list(given.text), dict(given.errors))
    if isinstance(given, torch.Tensor):
        return _of_rows(graph, given)
    if isinstance(given, (str, bytes, Mapping, Node)) or not hasattr(given, "__iter__"):
        raise InvalidArgument(f"seeds: expected a list of node ids, nodes or hits, got {type(given).__name__}")
    items = list(given)
    single = not (items and all(_is_list(item) for item in items))
    lists = [items] if single else [list(item) for item in items]
    parts: list[tuple[np.ndarray, np.ndarray]] = []
    errors: dict[int, str] = {}
    for i, one in enumerate(lists):
        place = "seeds" if single else f"seeds of query {i}"
        try:
            parts.append(_rows(graph, one, place, unknown))
        except (InvalidArgument, InvalidData, UnknownId) as error:
            if single:
                raise
            errors[i] = str(error)
            parts.append((np.zeros(0, np.int32), np.zeros(0)))
    counts = torch.tensor([len(rows) for rows, _ in parts], dtype=torch.int64)
    node = torch.from_numpy(np.concatenate([rows for rows, _ in parts] or [np.zeros(0, np.int32)]))
    score = torch.from_numpy(np.concatenate([s for _, s in parts] or [np.zeros(0)]))
    text = [getattr(one, "query", None) for one in (items if not single else [given])]
    return Seeds(distinct(Ragged(offsets(counts), node, score)), single, text, errors)


def here(graph: Graph, of: Graph, hits: Ragged) -> Ragged:
    """Hits in the rows of a graph, from those of another one; nodes that it doesn't have are left out."""
    if of is graph or not hits.node.shape[0]:
        return hits
    row = torch.from_numpy(graph.index.rows(of.ids.take(pa.array(hits.node.numpy()))))
    kept = row >= 0
    return Ragged(select(hits.indptr, kept), row[kept], hits.score[kept])


def _is_list(item: Any) -> bool:
    return isinstance(item, (list, tuple, Hits, np.ndarray)) and not isinstance(item, (str, Mapping))


def _rows(graph: Graph, seeds: Sequence[Any], place: str, unknown: str) -> tuple[np.ndarray, np.ndarray]:
    """Rows and scores of one list of seeds, without those that are skipped."""
    ids, scores = [], np.full(len(seeds), np.nan)
    for i, given in enumerate(seeds):
        seed = given
        if isinstance(given, Mapping):
            if "node" not in given and "entity" not in given:
                raise InvalidArgument(
                    f"{place}: entry {i}: expected a hit with a 'node', got {sorted(map(str, given))}"
                )
            score = given.get("score")
            seed = given["node"] if "node" in given else given["entity"]
            if score is not None:
                if isinstance(score, bool) or not isinstance(score, (int, float, np.integer, np.floating)):
                    raise InvalidArgument(f"{place}: entry {i}: expected a score that is a number, got {score!r}")
                scores[i] = float(score)
        try:
            ids.append(seed.id if isinstance(seed, Node) else canonical(seed, f"{place}: entry {i}"))
        except InvalidData as error:
            raise InvalidArgument(str(error)) from error
    rows = graph.rows(ids) if ids else np.zeros(0, np.int32)
    lost = np.flatnonzero(rows < 0)
    if len(lost) and unknown == "refuse":
        raise UnknownId(f"{place}: entry {lost[0]}: the graph has no node with the id {ids[int(lost[0])]!r}")
    return rows[rows >= 0].astype(np.int32), scores[rows >= 0]


def _of_rows(graph: Graph, rows: torch.Tensor) -> Seeds:
    if rows.is_floating_point() or rows.dtype == torch.bool or rows.dim() not in (1, 2):
        raise InvalidArgument(
            f"seeds: expected a tensor of node rows of shape (S,) or (B, S), got {rows.dtype} of {tuple(rows.shape)}"
        )
    table = rows.cpu().int().reshape(1, -1) if rows.dim() == 1 else rows.cpu().int()
    if table.numel() and (int(table.max()) >= graph.num_nodes or int(table.min()) < -1):
        raise UnknownId(f"seeds: expected node rows in [0, {graph.num_nodes}) or -1, got {int(table.min())} to "
                        f"{int(table.max())}")  # fmt: skip
    kept = table >= 0
    node = table[kept]
    scores = torch.full(node.shape, torch.nan, dtype=torch.float64)
    hits = distinct(Ragged(offsets(kept.sum(dim=1)), node, scores))
    return Seeds(hits, rows.dim() == 1, [None] * table.shape[0])
