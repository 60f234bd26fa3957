"""Personalised PageRank of one query after another by networkx, edges walked either way."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from bench.workloads import Workload

TOLERANCE = 1e-6  # L1 change of the last step, as Tercet's


def ranker(given: Workload, damping: float) -> Callable[[NDArray[np.int32]], NDArray[np.float64]]:
    """A function of a query's seeds to the (N,) scores of all nodes.

    It makes a sparse matrix of the graph in every call, and stops at a change of N times its `tol`, which is divided
    by N here.

    Raises:
        ImportError: networkx isn't installed, or SciPy, which it computes with.
    """
    import networkx
    import scipy  # noqa: F401  # else the first call would fail

    graph = networkx.MultiGraph()
    graph.add_nodes_from(range(given.num_nodes))
    graph.add_edges_from(zip(given.source.tolist(), given.target.tolist(), strict=True))

    def rank(seeds: NDArray[np.int32]) -> NDArray[np.float64]:
        scores = networkx.pagerank(
            graph, damping, dict.fromkeys(seeds.tolist(), 1.0), max_iter=200, tol=TOLERANCE / given.num_nodes
        )
        return np.fromiter(scores.values(), np.float64, given.num_nodes)

    return rank
