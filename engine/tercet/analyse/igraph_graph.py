"""Large graphs by igraph; the only importer of igraph."""

import random
import threading
from typing import Any

import numpy as np

from tercet.analyse.flat import Flat, group_pairs
from tercet.errors import InvalidArgument, MissingDependency

_generator = threading.Lock()  # igraph has one for the whole process


def betweenness(
    flat: Flat, *, k: int | None = None, normalized: bool = True, endpoints: bool = False, seed: Any = None
) -> np.ndarray:
    """(n,) float64 betweenness as networkx scales it; `k` sources are drawn as networkx draws them."""
    if endpoints:
        raise InvalidArgument("endpoints: expected False for a large graph, got True")
    if k is not None and not 1 <= k <= flat.size:
        raise InvalidArgument(f"k: expected None or 1 to {flat.size}, got {k!r}")
    graph, weights = _paths(flat, one_way=True)
    if k is None or k == flat.size:
        sources = None
    else:
        draw = random if seed is None else seed if isinstance(seed, random.Random) else random.Random(seed)
        sources = draw.sample(range(flat.size), k)
    raw = np.array(graph.betweenness(directed=True, weights=weights, sources=sources), np.float64)
    others = flat.size - 1
    if others < 2:
        return raw
    # pairs that a node can lie between: all others as sources, or the k drawn ones (k - 1 for one of them)
    drawn = others if sources is None else len(sources)
    pairs = np.full(flat.size, float(drawn))
    if sources is not None:
        pairs[sources] = drawn - 1 if drawn > 1 else np.nan  # no other source was drawn: unknown, as in networkx
    return raw / (pairs * (others - 1)) if normalized else raw * others / (pairs * (1 if flat.directed else 2))


def closeness(flat: Flat, *, wf_improved: bool = True) -> np.ndarray:
    """(n,) float64 reached nodes over the sum of incoming distances, scaled by the reached share of all nodes."""
    graph, weights = _paths(flat)
    value = np.array(graph.closeness(mode="in", weights=weights, normalized=True), np.float64)
    value[np.isnan(value)] = 0.0  # nothing reaches the node
    if wf_improved and flat.size > 1:
        reached = np.array(graph.neighborhood_size(order=flat.size, mode="in"), np.float64) - 1
        value *= reached / (flat.size - 1)
    return value


def harmonic(flat: Flat) -> np.ndarray:
    """(n,) float64 sum of 1 / incoming distance."""
    graph, weights = _paths(flat)
    return np.array(graph.harmonic_centrality(mode="in", weights=weights, normalized=False), np.float64)


def memberships(
    size: int,
    ends: np.ndarray,
    weight: np.ndarray,
    algorithm: str,
    resolution: float,
    seed: int | None,
) -> np.ndarray:
    """(n,) int64 community of each node.

    Args:
        size: n.
        ends: (m, 2) undirected edges, each pair once, no self loops.
        weight: (m,) float64 above 0.
        algorithm: "louvain", "greedy" or "lpa".
        resolution: of louvain; 1 for others.
        seed: None: the module `random` as it stands.
    """
    graph = _igraph().Graph(n=size, edges=ends, directed=False)
    with _generator:
        if seed is not None:
            _igraph().set_random_number_generator(random.Random(seed))
        try:
            if algorithm == "louvain":
                found = graph.community_multilevel(weights=weight, resolution=resolution)
            elif algorithm == "greedy":
                found = graph.community_fastgreedy(weights=weight).as_clustering()
            else:
                found = graph.community_label_propagation(weights=weight)
        finally:
            if seed is not None:
                _igraph().set_random_number_generator(random)  # what igraph starts with
    return np.array(found.membership, np.int64)


def _paths(flat: Flat, one_way: bool = False) -> tuple[Any, np.ndarray | None]:
    """(igraph graph, lengths) with each pair of nodes once, by its shortest edge.

    Args:
        one_way: an undirected edge becomes two directed ones, so that sums over ordered pairs come out.
    """
    igraph = _igraph()
    if flat.weight is not None and not (flat.weight > 0).all():
        raise InvalidArgument("weight: expected numbers above 0 for paths in a large graph")
    directed = flat.directed or one_way
    source, target, weight = flat.both_ways()
    keep = source != target if directed else source < target
    source, target, weight = group_pairs(source[keep], target[keep], weight[keep], flat.size, np.minimum)
    graph = igraph.Graph(n=flat.size, edges=np.stack([source, target], axis=1), directed=directed)
    return graph, None if flat.weight is None else weight


def _igraph() -> Any:
    try:
        import igraph
    except ImportError as error:
        raise MissingDependency("large graphs need igraph: pip install igraph") from error
    return igraph
