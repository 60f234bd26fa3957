"""The signals of passages: what speaks for each passage of a tile of queries, and the passages that they propose.

Signals that few passages have are kept as lists, walks as a (b, P) board for a tile of b queries; those of pairs of
vectors are computed for the proposed passages alone. A query's numbers don't depend on the tile.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch

from tercet.multihop.listed import Listed, best_listed, best_of_board, largest, summed
from tercet.multihop.lists import expanded, owners
from tercet.multihop.names import Links
from tercet.multihop.passage_graph import PassageGraph
from tercet.multihop.settings import LOOK_BACK, MultihopSettings
from tercet.retrieve.ragged import Ragged, offsets, place_of, query_of, select
from tercet_kernels.fact_paths import fact_paths
from tercet_kernels.passage_links import passage_links
from tercet_kernels.personalized_pagerank import personalized_pagerank


@dataclass(frozen=True, eq=False)
class Tile:
    """Some queries of a batch, with what was found for each beforehand among the passages that it may find."""

    queries: torch.Tensor  # (b, D) float32 unit norm, on the host
    links: Links
    near: Ragged  # nearest passages by place 0 to P - 1, best first; cosine similarity
    lexical: Ragged  # passages with words of the query, best first; BM25
    allowed: torch.Tensor | None  # (b, P) bool passages that each query may find; None: all
    most: np.ndarray  # (b,) int64 passages that each signal proposes, about


@dataclass(frozen=True, eq=False)
class Pool:
    """The passages that a tile's queries consider, ascending within a query, and their signals."""

    indptr: np.ndarray  # (b + 1,) int64
    query: np.ndarray  # (T,) int64
    passage: np.ndarray  # (T,) int64
    row: np.ndarray  # (T,) int64 row of the passages' vectors that is nearest to the query, -1 for none
    signals: dict[str, np.ndarray]  # (T,) float64 each


def first_look(graph: PassageGraph, tile: Tile, settings: MultihopSettings, wanted: set[str]) -> Pool:
    """The passages that any signal proposes, with the wanted ones of `FIRST` and the similarity "dense".

    Proposed are the nearest passages, and of each other signal but "mention", which says how much of the question a
    passage repeats and not that it answers it, the best `tile.most` that have it.
    """
    size, passages = len(tile.most), graph.size
    lists, walks = _lists(graph, tile, settings, wanted), _walks(graph, tile, settings, wanted)
    lists = {name: signal.inside(tile.allowed) for name, signal in lists.items()}
    keys = [
        _nearest(tile, passages),
        *(best_listed(s, tile.most, passages) for n, s in lists.items() if n != "mention"),
    ]
    for board in walks.values():
        shown = board if tile.allowed is None else torch.where(tile.allowed, board, 0.0)
        keys.append(best_of_board(shown, tile.most))
    key = np.unique(np.concatenate(keys))
    query, passage = key // passages, key % passages
    signals = {name: signal.at(key) for name, signal in lists.items()}
    signals |= {name: np.log(board.view(-1)[torch.from_numpy(key)].numpy() + settings.floor)
                for name, board in walks.items()}  # fmt: skip
    for name in {"lexical", "mention"} & set(signals):
        signals[name] = np.sqrt(signals[name])
    row, signals["dense"] = graph.vectors.nearest(tile.queries, query, passage)
    return Pool(np.searchsorted(query, np.arange(size + 1)).astype(np.int64), query, passage, row, signals)


def second_look(graph: PassageGraph, chosen: Pool, score: np.ndarray, settings: MultihopSettings) -> None:
    """Add the signals of `settings.second` that come from the passages with the best scores: those of `LOOK_BACK`.

    Each is the largest over the found passages, weighed by how likely a found one is by its score. "residual" is the
    cosine of the passage with the query less `settings.residual` times the found passage; the passages' names aren't
    compared with their own.

    Args:
        score: (T,) float64 of the first look.
    """
    wanted = {name for name in LOOK_BACK if name in settings.second}
    if not wanted:
        return
    found, weight = _best(chosen, score, settings.found)  # (b, m) places in the pool or -1, (b, m)
    pair, which = np.nonzero(found[chosen.query] >= 0)
    of, share = found[chosen.query[pair], which], weight[chosen.query[pair], which]
    values: dict[str, np.ndarray] = {}
    if "residual" in wanted:
        values["residual"] = _residual(graph, chosen, pair, of, settings.residual)
    if wanted - {"residual"}:
        first, second = chosen.passage[of], chosen.passage[pair]
        named, back, shared = passage_links(graph.held, graph.called, graph.rarity, first, second)
        apart = first != second
        values |= {"named": named & apart, "named_by": back & apart, "shared": np.sqrt(shared) * apart}
    for name in wanted:
        out = np.full((len(chosen.query), found.shape[1]), -np.inf)
        out[pair, which] = values[name] * share
        chosen.signals[name] = out.max(axis=1)  # a query with a pool has a found passage


def _residual(graph: PassageGraph, chosen: Pool, pair: np.ndarray, of: np.ndarray, part: float) -> np.ndarray:
    """(X,) cosine of passages with their query less a part of a found one; one without a vector takes nothing off."""
    dense = chosen.signals["dense"]
    part_of = np.where(chosen.row[of] >= 0, part, 0.0)
    between = graph.vectors.between(chosen.row[of], chosen.row[pair])
    left = np.sqrt(np.maximum(1.0 - 2.0 * part_of * dense[of] + part_of**2, 1e-12))
    value: np.ndarray = (dense[pair] - part_of * between) / left
    return value


def _nearest(tile: Tile, passages: int) -> np.ndarray:
    """Keys of the nearest passages of each query."""
    query = query_of(tile.near.indptr)
    kept = place_of(tile.near.indptr) < torch.from_numpy(tile.most)[query]
    return (query[kept] * passages + tile.near.node[kept].long()).numpy()


def _lists(graph: PassageGraph, tile: Tile, settings: MultihopSettings, wanted: set[str]) -> dict[str, Listed]:
    """The wanted signals that few passages have: lexical, mention, path, chain; roots are taken later."""
    out: dict[str, Listed] = {}
    if "lexical" in wanted:
        out["lexical"] = _lexical(graph, tile)
    if "mention" in wanted:
        out["mention"] = _mention(graph, tile)
    if wanted & {"path", "chain"}:
        out |= _paths(graph, tile, settings, wanted)
    return out


def _lexical(graph: PassageGraph, tile: Tile) -> Listed:
    """BM25 over the query's best."""
    hits = tile.lexical
    query = query_of(hits.indptr)
    best = torch.zeros(len(tile.most), dtype=torch.float64).scatter_reduce_(0, query, hits.score, "amax")
    share = hits.score / best[query].clamp(min=1e-9)
    return largest((query * graph.size + hits.node.long()).numpy(), share.numpy())


def _mention(graph: PassageGraph, tile: Tile) -> Listed:
    """The share of the weight of the linked names that a passage holds."""
    links = tile.links
    query = owners(links.indptr)
    total = np.bincount(query, links.weight, minlength=len(tile.most))
    at, passage = expanded(graph.holders, links.name)
    return summed(query[at] * graph.size + passage, (links.weight / total[query])[at])


def _paths(graph: PassageGraph, tile: Tile, settings: MultihopSettings, wanted: set[str]) -> dict[str, Listed]:
    """path: the best fact about a linked name that leads to what the passage is called by; chain: the best path of two
    facts whose last one is in the passage. A path against the query counts nothing."""
    nothing = Listed(np.zeros(0, np.int64), np.zeros(0))
    out: dict[str, Listed] = {name: nothing for name in ("path", "chain") if name in wanted}
    if graph.facts is None:
        return out
    links = tile.links
    query = owners(links.indptr)
    best = np.zeros(len(tile.most))
    np.maximum.at(best, query, links.weight)
    weight = _fourth_root(links.weight / best[query])
    steps = fact_paths(
        graph.facts, tile.queries.numpy(), links.indptr, links.name, weight, hops=2 if "chain" in wanted else 1,
        width=settings.width, branches=settings.branches, most_facts=settings.most_facts,
    )  # fmt: skip
    for name, hop, item, lists in (
        ("path", 0, steps.entity, graph.titled), ("chain", 1, steps.fact, graph.fact_passage)
    ):  # fmt: skip
        if name in out:
            asked, place = np.nonzero(item[:, hop] >= 0)
            at, passage = expanded(lists, item[asked, hop, place])
            value = steps.score[asked, hop, place][at].astype(np.float64)
            out[name] = largest(asked[at] * graph.size + passage, value)
    return out


def _walks(graph: PassageGraph, tile: Tile, settings: MultihopSettings, wanted: set[str]) -> Mapping[str, torch.Tensor]:
    """(b, P) float64 each passage's share of the wanted walks: from the linked names, and from the nearest passages.

    A query without a seed walks nowhere. All walks are one call, so that few columns of the kernel wait for others.
    """
    seeds: dict[str, tuple[torch.Tensor, torch.Tensor, torch.Tensor]] = {}
    if "walk" in wanted:
        indptr, name, weight = (torch.from_numpy(x) for x in tile.links)
        seeds["walk"] = (indptr, name + graph.size, weight)
    if "walk_near" in wanted:
        near = tile.near
        kept = (place_of(near.indptr) < settings.near_passages) & (near.score > 0)
        seeds["walk_near"] = (select(near.indptr, kept), near.node[kept], _squared_twice(near.score[kept]))
    if not seeds:
        return {}
    indptr = offsets(torch.cat([s[0].diff() for s in seeds.values()]))
    seed, mass = (torch.cat([s[i] for s in seeds.values()]) for i in (1, 2))
    device = graph.topology.source.device
    ranks = personalized_pagerank(
        graph.topology, indptr.to(device), seed.to(device), mass.to(device), damping=settings.damping,
        tolerance=settings.tolerance, top_k=None, first=graph.size, walk=graph.walk,
    )  # fmt: skip
    share = ranks.score.cpu()
    share[share[:, 0].isnan()] = 0.0  # a query without seeds fails
    return dict(zip(seeds, share.view(len(seeds), -1, graph.size), strict=True))


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
    return place, _fourth_root(np.exp(value - top))


# Powers by multiplications and roots: those of torch and NumPy may round a value by where it stands in an array.


def _squared_twice(similarity: torch.Tensor) -> torch.Tensor:
    """How the walk's start is divided among the nearest passages."""
    return similarity.square().square()


def _fourth_root(share: np.ndarray) -> np.ndarray:
    """How much less a path counts from a name with a share of the best one's weight, and what follows from a passage
    that is less likely than the best."""
    return np.sqrt(np.sqrt(share))
