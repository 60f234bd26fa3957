"""Edges among chosen nodes by SciPy's sparse matrices: `A[nodes][:, nodes]` for one query after another, no scores."""

from collections.abc import Callable
from itertools import pairwise

import numpy as np

from tercet_kernels._types import NodeHits, Topology


def counter(topology: Topology) -> Callable[[NodeHits], list[int]]:
    """A function of candidates to the number of edges of each query; parallel edges are summed in an entry.

    Raises:
        ImportError: SciPy isn't installed.
    """
    from scipy import sparse

    size = topology.num_nodes
    ones = np.ones(topology.source.shape[0], np.int32)
    matrix = sparse.csr_array((ones, (topology.source.numpy(), topology.target.numpy())), shape=(size, size))

    def count(hits: NodeHits) -> list[int]:
        indptr, node = hits.indptr.tolist(), hits.node.numpy()
        found = []
        for start, end in pairwise(indptr):
            chosen = node[start:end]
            found.append(int(matrix[chosen][:, chosen].sum()))
        return found

    return count
