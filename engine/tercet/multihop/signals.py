"""The signals of passages: what speaks for each passage of a tile of queries, and the passages that they propose.

Signals that many passages may have are kept as a (b, P) board for a tile of b queries; those of pairs of vectors are
computed for the proposed passages alone. A query's numbers don't depend on the tile.
"""

from dataclasses import dataclass

import numpy as np
import torch

from tercet.candidates import Bound
from tercet.multihop.names import Links
from tercet.multihop.passage_graph import Lists, PassageGraph
from tercet.multihop.settings import MultihopSettings
from tercet.retrieve.ragged import Ragged, query_of
from tercet_kernels.cosine import pair_distances
from tercet_kernels.fact_paths import fact_paths
from tercet_kernels.passage_links import passage_links
from tercet_kernels.personalized_pagerank import personalized_pagerank

NEAR_POWER = 4.0  # of the similarity: how the walk's start is divided among the nearest passages
SEED_POWER = 0.25  # of a name's share of the best name's weight: how much less a path from it counts
FOUND_POWER = 0.25  # of the likelihood of a found passage, by its score: how much less what follows from it counts


@dataclass(frozen=True, eq=False)
class Tile:
    """Some queries of a batch, with what was found for each beforehand."""

    queries: torch.Tensor  # (b, D) float32 unit norm, on the host
    links: Links
    near: Ragged  # nearest passages by place 0 to P - 1, best first; cosine similarity
    lexical: Ragged  # passages with words of the query, best first; BM25


@dataclass(frozen=True, eq=False)
class Pool:
    """The passages that a tile's queries consider, ascending within a query, and their signals."""

    indptr: np.ndarray  # (b + 1,) int64
    query: np.ndarray  # (T,) int64
    passage: np.ndarray  # (T,) int64
    signals: dict[str, np.ndarray]  # (T,) float64 each


def boards(graph: PassageGraph, tile: Tile, settings: MultihopSettings, wanted: set[str]) -> dict[str, torch.Tensor]:
    """(b, P) float64 of each wanted signal that is kept so: lexical, walk, walk_near, mention, path, chain."""
    out: dict[str, torch.Tensor] = {}
    if "lexical" in wanted:
        out["lexical"] = _lexical(graph, tile)
    if "walk" in wanted:
        links = tile.links
        seed = torch.from_numpy(links.name.astype(np.int32) + graph.size)
        out["walk"] = _walked(graph, settings, torch.from_numpy(links.indptr), seed, torch.from_numpy(links.weight))
    if "walk_near" in wanted:
        out["walk_near"] = _walk_near(graph, tile, settings)
    if "mention" in wanted:
        out["mention"] = _mention(graph, tile)
    if wanted & {"path", "chain"}:
        out |= _paths(graph, tile, settings, wanted)
    return out


def pool(tile: Tile, boards: dict[str, torch.Tensor], most: int, allowed: torch.Tensor | None, passages: int) -> Pool:
    """The passages that any signal proposes: the nearest, and of each board those above its (most + 1)-th value.

    Args:
        most: passages of each signal, about: where the last ones tie none of them is taken.
        allowed: (b, P) bool, or None for all.
        passages: P.
    """
    size = tile.queries.shape[0]
    keys = [_first(tile.near, most, passages)]
    for name, board in boards.items():
        if name == "mention":
            continue  # says how much of the question a passage repeats, not that it answers it
        shown = board if allowed is None else torch.where(allowed, board, -torch.inf)
        low = board.min(dim=1, keepdim=True).values  # those without the signal
        cut = shown.topk(min(most + 1, passages), dim=1).values[:, -1:] if most < passages else low
        taken = torch.nonzero((shown > cut) & (shown > low))
        keys.append((taken[:, 0] * passages + taken[:, 1]).numpy())
    key = np.unique(np.concatenate(keys))
    query, passage = key // max(passages, 1), key % max(passages, 1)
    if allowed is not None:
        kept = allowed[torch.from_numpy(query), torch.from_numpy(passage)].numpy()
        query, passage = query[kept], passage[kept]
    return Pool(np.searchsorted(query, np.arange(size + 1)).astype(np.int64), query, passage, {})


def fill(tile: Tile, chosen: Pool, boards: dict[str, torch.Tensor], vectors: Bound, rows: np.ndarray) -> None:
    """Put the signals of the pool in their places: those of the boards, and the similarity "dense".

    Args:
        vectors: the collection of passages.
        rows: (P,) int32 its row of each passage, -1 for none.
    """
    at = torch.from_numpy(chosen.query), torch.from_numpy(chosen.passage)
    chosen.signals.update({name: board[at].numpy() for name, board in boards.items()})
    row = rows[chosen.passage]
    chosen.signals["dense"] = _similar(vectors, tile.queries, chosen.query, row)


def second_look(
    graph: PassageGraph, tile: Tile, chosen: Pool, score: np.ndarray, settings: MultihopSettings, vectors: np.ndarray,
    rows: np.ndarray,
) -> None:  # fmt: skip
    """Add the signals that come from the passages with the best scores: residual, named, named_by, shared.

    Each is the largest over the found passages, weighed by how likely a found one is by its score; a passage isn't
    compared with itself. "residual" is the cosine of the passage with the query less `settings.residual` times the
    found passage; the query itself where a query's pool has one passage.

    Args:
        score: (T,) float64 of the first look.
        vectors: (V, D) float32 of the collection of passages.
        rows: (P,) int32 its row of each passage, -1 for none.
    """
    found, weight = _best(chosen, score, settings.found)  # (b, m) places in the pool or -1, (b, m)
    places = found.shape[1]
    pair = np.repeat(np.arange(len(chosen.query)), places)
    of = found[chosen.query].ravel()
    pair, of, share = pair[of >= 0], of[of >= 0], weight[chosen.query].ravel()[of >= 0]
    first, second = chosen.passage[of], chosen.passage[pair]
    apart = first != second
    named, back, shared = passage_links(graph.held, graph.called, graph.rarity, first, second)
    dense = chosen.signals["dense"]
    between = _between(vectors, rows[first], rows[second])
    left = np.sqrt(np.maximum(1.0 - 2.0 * settings.residual * dense[of] + settings.residual**2, 1e-12))
    residual = (dense[pair] - settings.residual * between) / left
    values = {
        "residual": residual, "named": named & apart, "named_by": back & apart, "shared": np.sqrt(shared) * apart,
    }  # fmt: skip
    for name, value in values.items():
        out = np.full(len(chosen.query), -np.inf if name == "residual" else 0.0)
        np.maximum.at(out, pair, value * share)
        chosen.signals[name] = np.where(np.isfinite(out), out, 0.0)


def _lexical(graph: PassageGraph, tile: Tile) -> torch.Tensor:
    """The square root of BM25 over the query's best."""
    board = torch.zeros(tile.queries.shape[0], graph.size, dtype=torch.float64)
    hits = tile.lexical
    query = query_of(hits.indptr)
    best = torch.zeros(board.shape[0], dtype=torch.float64)
    best.scatter_reduce_(0, query, hits.score, "amax")
    board[query, hits.node.long()] = (hits.score / best[query].clamp(min=1e-9)).clamp(min=0).sqrt()
    return board


def _walked(
    graph: PassageGraph, settings: MultihopSettings, indptr: torch.Tensor, seed: torch.Tensor, mass: torch.Tensor
) -> torch.Tensor:
    """The logarithm of each passage's share of a walk; the floor where no walk leads."""
    device = graph.topology.source.device
    ranks = personalized_pagerank(
        graph.topology, indptr.to(device), seed.to(device), mass.to(device), damping=settings.damping,
        tolerance=settings.tolerance, top_k=None, walk=graph.walk,
    )  # fmt: skip
    share = torch.nan_to_num(ranks.score[:, : graph.size], nan=0.0).cpu()
    return (share + settings.floor).log()


def _walk_near(graph: PassageGraph, tile: Tile, settings: MultihopSettings) -> torch.Tensor:
    near = tile.near
    place = torch.arange(near.node.shape[0]) - near.indptr[query_of(near.indptr)]
    kept = (place < settings.near_passages) & (near.score > 0)
    before = torch.cat([torch.zeros(1, dtype=torch.int64), kept.cumsum(0)])
    return _walked(graph, settings, before[near.indptr], near.node[kept], near.score[kept] ** NEAR_POWER)


def _shares(links: Links) -> np.ndarray:
    """(S,) each name's share of its query's weight."""
    counts = np.diff(links.indptr)
    total = np.bincount(np.repeat(np.arange(len(counts)), counts), links.weight, minlength=len(counts))
    return links.weight / np.repeat(np.maximum(total, 1e-12), counts)


def _mention(graph: PassageGraph, tile: Tile) -> torch.Tensor:
    """The square root of the share of the linked names that a passage holds."""
    links = tile.links
    query = np.repeat(np.arange(len(links.indptr) - 1), np.diff(links.indptr))
    at, passage = _expanded(graph.holders, links.name)
    size = len(links.indptr) - 1
    # One query's names come in order and are added in turn, so sums are the same in any tile.
    sums = np.bincount(query[at] * graph.size + passage, _shares(links)[at], minlength=size * graph.size)
    return torch.from_numpy(sums).view(size, graph.size).sqrt()


def _paths(graph: PassageGraph, tile: Tile, settings: MultihopSettings, wanted: set[str]) -> dict[str, torch.Tensor]:
    """path: the best fact about a linked name that leads to what the passage is called by; chain: the best path of two
    facts whose last one is in the passage."""
    out: dict[str, torch.Tensor] = {name: torch.zeros(tile.queries.shape[0], graph.size, dtype=torch.float64)
           for name in ("path", "chain") if name in wanted}  # fmt: skip
    if graph.facts is None:
        return out
    links = tile.links
    counts = np.diff(links.indptr)
    best = np.zeros(len(counts))
    np.maximum.at(best, np.repeat(np.arange(len(counts)), counts), links.weight)
    weight = (links.weight / np.repeat(best, counts)) ** SEED_POWER
    steps = fact_paths(
        graph.facts, tile.queries.numpy(), links.indptr, links.name, weight, hops=2 if "chain" in wanted else 1,
        width=settings.width, branches=settings.branches, most_facts=settings.most_facts,
    )  # fmt: skip
    for name, hop, item, lists in (
        ("path", 0, steps.entity, graph.titled), ("chain", 1, steps.fact, graph.fact_passage)
    ):  # fmt: skip
        if name in out:
            query, place = np.nonzero(item[:, hop] >= 0)
            at, passage = _expanded(lists, item[query, hop, place])
            key = torch.from_numpy(query[at] * graph.size + passage)
            score = torch.from_numpy(steps.score[query, hop, place][at].astype(np.float64))
            out[name].view(-1).scatter_reduce_(0, key, score, "amax")  # from 0: a path against the query counts nothing
    return out


def _expanded(lists: Lists, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The items of some lists, and which of the lists each is of."""
    indptr, item = lists
    counts = np.diff(indptr)[rows]
    at = np.repeat(np.arange(len(rows)), counts)
    begin = np.cumsum(counts) - counts
    return at, item[np.arange(len(at)) - begin[at] + indptr[rows][at]]


def _first(hits: Ragged, most: int, passages: int) -> np.ndarray:
    """Keys of the first hits of each query."""
    query = query_of(hits.indptr)
    kept = torch.arange(hits.node.shape[0]) - hits.indptr[query] < most
    return (query[kept] * passages + hits.node[kept].long()).numpy()


def _similar(b: Bound, queries: torch.Tensor, query: np.ndarray, row: np.ndarray) -> np.ndarray:
    """(T,) cosine of query and row, by the engine's fixed-order formula; 0 without a row."""
    out = np.zeros(len(query))
    has = np.flatnonzero(row >= 0)
    device = b.owner.device
    distance = b.collection.index.pairs(
        queries.to(device), torch.from_numpy(query[has].astype(np.int32)).to(device),
        torch.from_numpy(row[has].astype(np.int32)).to(device),
    )  # fmt: skip
    out[has] = 1.0 - distance.cpu().double().numpy()
    return out


def _between(vectors: np.ndarray, one: np.ndarray, two: np.ndarray) -> np.ndarray:
    """(X,) cosine of two rows; 0 where one is missing."""
    out = np.zeros(len(one))
    has = np.flatnonzero((one >= 0) & (two >= 0))
    table = torch.from_numpy(vectors)
    left, right = (torch.from_numpy(x[has].astype(np.int32)) for x in (one, two))
    out[has] = 1.0 - pair_distances(table, table, left, right).double().numpy()
    return out


def _best(chosen: Pool, score: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
    """The best places of each query, -1 where there are fewer, and how likely each is beside the best."""
    order = np.lexsort((chosen.passage, -score, chosen.query))
    rank = np.arange(len(order)) - chosen.indptr[chosen.query[order]]
    kept = rank < most
    size = len(chosen.indptr) - 1
    place, value = np.full((size, most), -1, np.int64), np.full((size, most), -np.inf)
    place[chosen.query[order[kept]], rank[kept]] = order[kept]
    value[chosen.query[order[kept]], rank[kept]] = score[order[kept]]
    top = np.where(np.isfinite(value[:, :1]), value[:, :1], 0.0)
    return place, np.exp(value - top) ** FOUND_POWER
