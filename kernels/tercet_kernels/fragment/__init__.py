"""The fragment of the graph that each query of a batch may use."""

from typing import Literal

import torch

from tercet_kernels._checks import check_node_hits
from tercet_kernels._threads import threads
from tercet_kernels._triton import has_triton
from tercet_kernels._types import Fragment, NodeHits, Topology
from tercet_kernels.fragment import cpu, reference


def fragment(
    topology: Topology, hits: NodeHits, *, either: bool = False, backend: Literal["own", "cugraph"] = "own"
) -> Fragment:
    """Edges with both ends (or, with `either`, at least one end) among the query's hits.

    Args:
        topology: the graph.
        hits: the matched nodes of each query; `term` isn't read.
        either: admit an edge when one of its ends is matched.
        backend: on CUDA, "cugraph" asks pylibcugraph instead of our kernel (both ends only).

    Returns:
        Disjoint slices, ascending by edge within a query. A self loop appears once.

    Raises:
        ValueError: a shape, dtype or device of the hits differs from `NodeHits`.

    Memory: the result, and a scratch of N int32 a thread on the CPU. On CUDA, M is read back once (one host sync).
    Without Triton, CUDA runs the reference, which makes room for every list of the hits and syncs more often.
    """
    check_node_hits(topology, hits)
    if backend == "cugraph":
        from tercet_kernels.fragment import cugraph

        if either:
            raise ValueError("backend: cuGraph's induced subgraph takes both ends, not either")
        return cugraph.fragment(topology, hits)
    if hits.node.is_cuda and has_triton():
        from tercet_kernels.fragment import cuda

        return cuda.fragment(topology, hits, either)
    if hits.node.device.type != "cpu":
        return reference.fragment(topology, hits, either)
    args = [x.numpy() for x in (
        topology.source, topology.target, topology.oriented_indptr, topology.oriented_edge, topology.oriented_other,
        topology.out_indptr, topology.out_edge, topology.in_indptr, topology.in_edge, hits.indptr, hits.node,
    )]  # fmt: skip
    return Fragment(*(torch.from_numpy(x) for x in cpu.fragment(*args, either, threads(hits.indptr.shape[0] - 1))))
