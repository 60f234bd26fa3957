"""The multi-hop ranking of passages: signals of each passage, a first look, and a second one from what that found."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch

from tercet.candidates import Bound
from tercet.clock import Clock
from tercet.filters import Filters
from tercet.multihop.names import Links
from tercet.multihop.passage_graph import PassageGraph, first_rows, vectors_of
from tercet.multihop.settings import FIRST, SECOND, MultihopSettings
from tercet.multihop.signals import Pool, Tile, boards, fill, pool, second_look
from tercet.query import QueryBatch
from tercet.retrieve.nearest import nearest_nodes
from tercet.retrieve.ragged import Ragged

TILE_BYTES = 64 << 20  # of one board, and of the scores of one walk
MOST = 256  # queries of a tile
LEXICAL = 200  # passages that BM25 scores for each query


@dataclass(frozen=True, eq=False)
class Ranked:
    """Passages of B queries, best first, with their signals."""

    indptr: np.ndarray  # (B + 1,) int64
    passage: np.ndarray  # (T,) int64 places
    score: np.ndarray  # (T,) float64
    available: np.ndarray  # (B,) int64 passages that were considered
    parts: dict[str, np.ndarray]  # (T,) float64 each


def rank_passages(
    graph: PassageGraph, bound: Bound, batch: QueryBatch, k: np.ndarray, filters: Filters, settings: MultihopSettings,
    device: torch.device, clock: Clock,
) -> Ranked:  # fmt: skip
    """The k best passages of each query; ties to the smaller node row.

    Args:
        bound: the collection of the passages' vectors.
        k: (B,) int64.
        filters: over the nodes of the graph.
    """
    size = len(batch)
    with clock.stage("search"):
        near = _near(graph, bound, batch, filters, max(settings.candidates, settings.near_passages), device)
    texts = ["" if i in batch.errors else t or "" for i, t in enumerate(batch.text)]
    with clock.stage("link"):
        links = graph.names.link(texts, graph.frequency, capital=settings.capital, near=settings.near)
    with clock.stage("text"):
        hits = graph.words.search(texts, min(LEXICAL, max(graph.size, 1))) if size else None
    found = [] if hits is None else [
        _tile(graph, bound, Tile(batch.embedding[part], _links(links, part), _part(near, part),
                                 _part(Ragged(hits.indptr, hits.node, hits.score), part)),
              k[part], _allowed(graph, filters, part), settings, clock)
        for part in _parts(size, graph)
    ]  # fmt: skip
    counts = np.concatenate([np.zeros(1, np.int64), *(np.diff(f.indptr) for f in found)])
    names = list(dict.fromkeys([*settings.first, *settings.second]))
    join = lambda values: np.concatenate([np.zeros(0), *values])  # noqa: E731
    return Ranked(
        np.cumsum(counts), join([f.passage for f in found]).astype(np.int64), join([f.score for f in found]),
        join([f.available for f in found]).astype(np.int64), {n: join([f.parts[n] for f in found]) for n in names},
    )  # fmt: skip


def _tile(
    graph: PassageGraph, bound: Bound, tile: Tile, k: np.ndarray, allowed: torch.Tensor | None,
    settings: MultihopSettings, clock: Clock,
) -> Ranked:  # fmt: skip
    rows = first_rows(bound, int(graph.passage.max(initial=-1)) + 1)[graph.passage]
    with clock.stage("signals"):
        made = boards(graph, tile, settings, {*settings.first, *settings.second})
        chosen = pool(tile, made, settings.candidates, allowed, graph.size)
        fill(tile, chosen, made, bound, rows)
    score = _added(chosen, settings.first, FIRST)
    if settings.second:
        with clock.stage("second look"):
            second_look(graph, tile, chosen, score, settings, vectors_of(bound.collection), rows)
            score = _added(chosen, settings.second, SECOND)
    order = np.lexsort((chosen.passage, -score, chosen.query))
    place = np.arange(len(order)) - chosen.indptr[chosen.query[order]]
    order = order[place < k[chosen.query[order]]]
    counts = np.bincount(chosen.query[order], minlength=len(k))
    return Ranked(
        np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)]), chosen.passage[order], score[order],
        np.diff(chosen.indptr), {n: v[order] for n, v in chosen.signals.items()},
    )  # fmt: skip


def _added(chosen: Pool, weights: Mapping[str, float], order: tuple[str, ...]) -> np.ndarray:
    """(T,) float64: signals times weights, added in one order."""
    score = np.zeros(len(chosen.passage))
    for name in order:
        if name in weights:
            score += weights[name] * chosen.signals[name]
    return score


def _near(
    graph: PassageGraph, bound: Bound, batch: QueryBatch, filters: Filters, k: int, device: torch.device
) -> Ragged:
    """The nearest passages of each query, as places; the filter counts before the cut."""
    nodes = filters.masks.shape[1]
    inside = np.zeros(nodes, bool)
    inside[graph.passage] = True
    narrowed = _narrowed(filters, torch.from_numpy(inside))
    counts = torch.full((len(batch),), min(k, graph.size), dtype=torch.int64)
    found = nearest_nodes([bound], nodes, batch, counts, narrowed, device)
    place = np.full(nodes, -1, np.int32)
    place[graph.passage] = np.arange(graph.size, dtype=np.int32)
    indptr, node, score = (x.cpu() for x in found.hits)
    return Ragged(indptr, torch.from_numpy(place[node.numpy()]), score)


def _narrowed(filters: Filters, inside: torch.Tensor) -> Filters:
    """The filters, each for passages alone."""
    masks = torch.cat([filters.masks & inside, inside[None]])
    return Filters(masks, torch.where(filters.row < 0, masks.shape[0] - 1, filters.row).int())


def _allowed(graph: PassageGraph, filters: Filters, part: slice) -> torch.Tensor | None:
    """(b, P) bool; None where no query has a filter."""
    row = filters.row[part]
    if not filters.masks.shape[0] or bool((row < 0).all()):
        return None
    masks = filters.masks[:, torch.from_numpy(graph.passage).long()]
    return torch.where((row < 0)[:, None], True, masks[row.clamp(min=0).long()])


def _parts(size: int, graph: PassageGraph) -> list[slice]:
    step = max(1, min(MOST, TILE_BYTES // (8 * max(graph.topology.num_nodes, 1))))
    return [slice(i, min(i + step, size)) for i in range(0, size, step)]


def _links(links: Links, part: slice) -> Links:
    bounds = links.indptr[part.start : part.stop + 1]
    inside = slice(bounds[0], bounds[-1])
    return Links(bounds - bounds[0], links.name[inside], links.weight[inside])


def _part(hits: Ragged, part: slice) -> Ragged:
    bounds = hits.indptr[part.start : part.stop + 1].cpu()
    inside = slice(int(bounds[0]), int(bounds[-1]))
    return Ragged(bounds - bounds[0], hits.node[inside].cpu(), hits.score[inside].cpu())
