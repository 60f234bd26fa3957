"""Personalised PageRank of one query after another by igraph, edges walked either way."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from bench.workloads import Workload


def ranker(given: Workload, damping: float) -> Callable[[NDArray[np.int32]], NDArray[np.float64]]:
    """A function of a query's seeds to the (N,) scores of all nodes.

    Raises:
        ImportError: igraph isn't installed.
    """
    import igraph

    ends = np.stack([given.source, given.target], axis=1)
    graph = igraph.Graph(n=given.num_nodes, edges=ends, directed=False)

    def rank(seeds: NDArray[np.int32]) -> NDArray[np.float64]:
        return np.array(graph.personalized_pagerank(damping=damping, reset_vertices=seeds.tolist(), directed=False))

    return rank
