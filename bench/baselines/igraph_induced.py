"""Edges among chosen nodes by igraph's `induced_subgraph`, one query after another, no scores."""

from collections.abc import Callable
from itertools import pairwise

import numpy as np

from tercet_kernels._types import NodeHits, Topology


def counter(topology: Topology) -> Callable[[NodeHits], list[int]]:
    """A function of candidates to the number of edges of each query.

    Raises:
        ImportError: igraph isn't installed.
    """
    import igraph

    ends = np.stack([topology.source.numpy(), topology.target.numpy()], axis=1)
    graph = igraph.Graph(n=topology.num_nodes, edges=ends, directed=True)

    def count(hits: NodeHits) -> list[int]:
        indptr, node = hits.indptr.tolist(), hits.node.tolist()
        return [
            graph.induced_subgraph(node[start:end], implementation="create_from_scratch").ecount()
            for start, end in pairwise(indptr)
        ]

    return count
