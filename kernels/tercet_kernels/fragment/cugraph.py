"""`fragment` by cuGraph's batched induced subgraph: a second opinion for our own kernel, in the one file that uses it.

Written from the interface of pylibcugraph 26.10. It differs from our kernel in work, not in result: every out-list of a
hit is scanned in full, hubs too, and the result is sorted and copied on its way.
"""

import importlib.util
import weakref
from typing import Any

import torch
from torch.utils.dlpack import from_dlpack

from tercet_kernels._types import Fragment, NodeHits, Topology
from tercet_kernels.fragment.reference import lookup

_made: dict[int, tuple[Any, Any, Any]] = {}  # by the address of the graph's sources: (weak reference, handle, graph)


def has_cugraph() -> bool:
    """Whether it can run: an import succeeds without a GPU too, so that alone says nothing."""
    found = all(importlib.util.find_spec(name) is not None for name in ("pylibcugraph", "cupy"))
    return found and torch.cuda.is_available()


def fragment(topology: Topology, hits: NodeHits) -> Fragment:
    """Edges with both ends among the query's hits; see `tercet_kernels.fragment.fragment`.

    cuGraph returns no edge ids, so the weight of an edge carries its row: float64 is exact up to 2**53.

    Raises:
        ImportError: pylibcugraph or cupy isn't installed.
        ValueError: the tensors aren't on CUDA.
    """
    if not hits.node.is_cuda:
        raise ValueError(f"hits: expected tensors on CUDA, got {hits.node.device}")
    import cupy
    import pylibcugraph

    size, queries = topology.num_nodes, hits.indptr.shape[0] - 1
    query = torch.repeat_interleave(torch.arange(queries, device=hits.node.device), hits.indptr.diff())
    inside = hits.node < size  # ids beyond the graph have no edges
    counts = torch.bincount(query[inside], minlength=queries)
    offsets = torch.zeros(queries + 1, dtype=torch.int64, device=hits.node.device)  # read as size_t
    offsets[1:] = counts.cumsum(0)
    stream = cupy.cuda.ExternalStream(torch.cuda.current_stream(hits.node.device).cuda_stream)
    with stream:
        handle, graph = _graph(topology, cupy, pylibcugraph)
        _, _, rows, ends = pylibcugraph.induced_subgraph(
            handle, graph, cupy.from_dlpack(hits.node[inside].contiguous()), cupy.from_dlpack(offsets), False
        )
    edge = from_dlpack(rows).to(torch.int64)
    whose = torch.repeat_interleave(torch.arange(queries, device=edge.device), from_dlpack(ends).to(torch.int64).diff())
    order = torch.argsort(whose * max(topology.source.shape[0], 1) + edge)
    edge, whose = edge[order], whose[order]
    keys = query[inside] * size + hits.node[inside].long()
    slot = torch.arange(hits.node.shape[0], device=edge.device)[inside]
    ends_of = (topology.source, topology.target)
    source, target = (lookup(keys, slot, whose * size + end[edge].long()).int() for end in ends_of)
    indptr = torch.zeros(queries + 1, dtype=torch.int64, device=edge.device)
    indptr[1:] = torch.bincount(whose, minlength=queries).cumsum(0)
    return Fragment(indptr, edge.int(), source, target)


def _graph(topology: Topology, cupy: Any, pylibcugraph: Any) -> tuple[Any, Any]:
    """The graph as cuGraph holds it, made once for each set of edges."""
    address = topology.source.data_ptr()
    held = _made.get(address)
    if held is not None and held[0]() is topology.source:
        return held[1], held[2]
    handle = pylibcugraph.ResourceHandle()
    edges = topology.source.shape[0]
    graph = pylibcugraph.SGGraph(
        handle,
        pylibcugraph.GraphProperties(is_symmetric=False, is_multigraph=True),
        cupy.from_dlpack(topology.source),
        cupy.from_dlpack(topology.target),
        weight_array=cupy.arange(edges, dtype=cupy.float64),
        store_transposed=False,
        renumber=False,
        do_expensive_check=False,
        vertices_array=cupy.arange(topology.num_nodes, dtype=cupy.int32),
    )
    reference = weakref.ref(topology.source, lambda _: _made.pop(address, None))
    _made[address] = (reference, handle, graph)
    return handle, graph
