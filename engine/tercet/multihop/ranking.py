"""The multi-hop ranking of passages: signals of each passage, a first look, and a second one from what that found."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from tercet.clock import Clock
from tercet.filters import Filters
from tercet.multihop.lists import offsets
from tercet.multihop.names import Links
from tercet.multihop.passage_graph import PassageGraph
from tercet.multihop.settings import FIRST, SECOND, MultihopSettings
from tercet.multihop.signals import Pool, Tile, first_look, second_look
from tercet.query import QueryBatch
from tercet.retrieve.nearest import nearest_nodes
from tercet.retrieve.ragged import Ragged

TILE_BYTES = 64 << 20  # of the board of one walk
MOST = 256  # queries of a tile
LEXICAL = 200  # passages that BM25 scores for each query, or k if that is more


@dataclass(frozen=True, eq=False)
class Ranked:
    """Passages of B queries, best first, with their signals."""

    indptr: np.ndarray  # (B + 1,) int64
    passage: np.ndarray  # (T,) int64 places
    score: np.ndarray  # (T,) float64
    available: np.ndarray  # (B,) int64 passages that were considered
    parts: dict[str, np.ndarray]  # (T,) float64 each


def rank_passages(
    graph: PassageGraph, batch: QueryBatch, k: np.ndarray, filters: Filters, settings: MultihopSettings,
    device: torch.device, clock: Clock,
) -> Ranked:  # fmt: skip
    """The k best passages of each query; ties to the smaller node row.

    Args:
        k: (B,) int64.
        filters: over the nodes of the graph.
    """
    most = np.maximum(k, settings.candidates)
    with clock.stage("search"):
        near = _near(graph, batch, filters, np.maximum(most, settings.near_passages), device)
    texts = ["" if i in batch.errors else t or "" for i, t in enumerate(batch.text)]
    with clock.stage("link"):
        links = graph.names.link(texts, graph.frequency, capital=settings.capital, near=settings.near)
    shown = Filters(filters.masks[:, torch.from_numpy(graph.passage).long()], filters.row)
    with clock.stage("text"):
        hits = graph.words.search(texts, np.maximum(k, LEXICAL).tolist(), shown)
    lexical = Ragged(hits.indptr, hits.node, hits.score)
    ranked = []
    for part in _parts(len(batch), graph.size):
        tile = Tile(
            batch.embedding[part], _links(links, part), _ragged(near, part), _ragged(lexical, part),
            _allowed(shown, part), most[part],
        )  # fmt: skip
        ranked.append(_tile(graph, tile, k[part], settings, clock))
    return _together(ranked, list(dict.fromkeys([*settings.first, *settings.second])))


def _tile(graph: PassageGraph, tile: Tile, k: np.ndarray, settings: MultihopSettings, clock: Clock) -> Ranked:
    with clock.stage("signals"):
        chosen = first_look(graph, tile, settings, {*settings.first, *settings.second})
    score = _added(chosen, settings.first, FIRST)
    if settings.second:
        with clock.stage("second look"):
            second_look(graph, chosen, score, settings)
            score = _added(chosen, settings.second, SECOND)
    order = np.lexsort((chosen.passage, -score, chosen.query))
    place = np.arange(len(order)) - chosen.indptr[chosen.query[order]]
    order = order[place < k[chosen.query[order]]]
    counts = np.bincount(chosen.query[order], minlength=len(k))
    parts = {name: values[order] for name, values in chosen.signals.items()}
    return Ranked(offsets(counts), chosen.passage[order], score[order], np.diff(chosen.indptr), parts)


def _together(ranked: Sequence[Ranked], signals: Sequence[str]) -> Ranked:
    """Tiles one after another, with some of the signals."""
    none = np.zeros(0, np.int64)
    return Ranked(
        offsets(np.concatenate([none, *(np.diff(r.indptr) for r in ranked)])),
        np.concatenate([none, *(r.passage for r in ranked)]), np.concatenate([np.zeros(0), *(r.score for r in ranked)]),
        np.concatenate([none, *(r.available for r in ranked)]),
        {name: np.concatenate([np.zeros(0), *(r.parts[name] for r in ranked)]) for name in signals},
    )  # fmt: skip


def _added(chosen: Pool, weights: Mapping[str, float], order: tuple[str, ...]) -> np.ndarray:
    """(T,) float64: signals times weights, added in one order."""
    score = np.zeros(len(chosen.passage))
    for name in order:
        if name in weights:
            score += weights[name] * chosen.signals[name]
    return score


def _near(graph: PassageGraph, batch: QueryBatch, filters: Filters, k: np.ndarray, device: torch.device) -> Ragged:
    """The nearest passages of each query, as places; the filter counts before the cut."""
    nodes = filters.masks.shape[1]
    inside = np.zeros(nodes, bool)
    inside[graph.passage] = True
    counts = torch.from_numpy(np.minimum(k, graph.size))
    narrowed = _narrowed(filters, torch.from_numpy(inside))
    found = nearest_nodes([graph.vectors.bound], nodes, batch, counts, narrowed, device)
    indptr, node, score = (x.cpu() for x in found.hits)
    return Ragged(indptr, torch.from_numpy(np.searchsorted(graph.passage, node.numpy()).astype(np.int32)), score)


def _narrowed(filters: Filters, inside: torch.Tensor) -> Filters:
    """The filters, each for passages alone."""
    masks = torch.cat([filters.masks & inside, inside[None]])
    return Filters(masks, torch.where(filters.row < 0, masks.shape[0] - 1, filters.row).int())


def _allowed(shown: Filters, part: slice) -> torch.Tensor | None:
    """(b, P) bool; None where no query has a filter."""
    row = shown.row[part].long()
    if bool((row < 0).all()):
        return None
    return torch.where((row < 0)[:, None], True, shown.masks[row.clamp(min=0)])


def _parts(size: int, passages: int) -> list[slice]:
    step = max(1, min(MOST, TILE_BYTES // (8 * passages)))
    return [slice(i, min(i + step, size)) for i in range(0, size, step)]


def _links(links: Links, part: slice) -> Links:
    bounds = links.indptr[part.start : part.stop + 1]
    inside = slice(bounds[0], bounds[-1])
    return Links(bounds - bounds[0], links.name[inside], links.weight[inside])


def _ragged(hits: Ragged, part: slice) -> Ragged:
    bounds = hits.indptr[part.start : part.stop + 1]
    inside = slice(int(bounds[0]), int(bounds[-1]))
    return Ragged(bounds - bounds[0], hits.node[inside], hits.score[inside])
