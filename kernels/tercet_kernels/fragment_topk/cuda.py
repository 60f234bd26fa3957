"""`fragment_topk` without a host sync, for shapes that are fixed beforehand, and that as a CUDA graph.

A small batch spends most of its time between the launches of its kernels. A CUDA graph replays them all at once, but
can't stop to ask how many edges there are, so the fragment gets room for a fixed number and tells afterwards whether
that was enough. Rows of the room that nothing was written to count as a query of their own behind the others.
"""

import threading
from typing import NamedTuple

import torch

from tercet_kernels._types import EdgeRule, Fragment, NodeHits, RelationHits, Top, Topology
from tercet_kernels.fragment import cuda as fragments
from tercet_kernels.triplet_topk import cuda as triplets

WARMUPS = 3


class Shape(NamedTuple):
    """How much a captured pipeline holds."""

    queries: int  # exactly
    hits: int  # at most, of all queries together
    relations: int  # at most
    edges: int  # at most, of all fragments together


def padded(
    topology: Topology,
    hits: NodeHits,
    missing: torch.Tensor,
    relations: RelationHits,
    rule: EdgeRule,
    k: int,
    either: bool,
    room: int,
) -> tuple[Top, torch.Tensor]:
    """The best k edges as `fragment_topk` finds them, if their fragments have at most `room` edges; no host sync.

    Args:
        hits, relations: their columns may be longer than their slices; what lies beyond isn't read.
        room: at least 1; the graph has at least one edge, and there is at least one query and place for a hit.

    Returns:
        the result, and a scalar int64: how many edges the fragments have. With more than `room` the result is wrong.
    """
    device, queries, edges = hits.node.device, hits.indptr.shape[0] - 1, topology.source.shape[0]
    slot = torch.arange(hits.node.shape[0], device=device)
    query = torch.searchsorted(hits.indptr[1:], slot, right=True).clamp(max=queries - 1).int()
    # nodes from N on have no edges
    node = hits.node.masked_fill(slot >= hits.indptr[-1], topology.num_nodes)
    inert = NodeHits(hits.indptr, node, hits.term)
    offsets = fragments.count(topology, inert, query, either)
    key = torch.full((room,), queries * edges, dtype=torch.int64, device=device)  # behind all that are written
    source_slot, target_slot = (torch.full((room,), -1, dtype=torch.int32, device=device) for _ in range(2))
    fragments.visit(topology, inert, query, either, offsets, offsets, (key, source_slot, target_slot))
    key, order = key.sort()
    indptr = offsets[hits.indptr * (2 if either else 1)]
    found = Fragment(indptr, (key % edges).int(), source_slot[order], target_slot[order])
    whose = key // edges
    score, slots = triplets.scores(topology, found, whose.clamp(max=queries - 1).int(), inert, missing, relations, rule)
    return triplets.cut(indptr, whose.int(), found.edge, score, slots, k, True), offsets[-1]


class Captured:
    """`padded` for one graph, rule and shape as a CUDA graph. Calls take turns.

    Not run yet on a GPU; `bench.gpu` checks it there.

    Memory: the inputs, the scratch and the result of the largest batch, for as long as it lives.
    """

    def __init__(self, topology: Topology, rule: EdgeRule, k: int, shape: Shape, *, either: bool = False) -> None:
        device = topology.source.device
        zeros = lambda size, dtype: torch.zeros(size, dtype=dtype, device=device)  # noqa: E731
        self.shape, self._lock = shape, threading.Lock()
        self._missing = zeros(topology.num_nodes, torch.float64)
        self._hits = NodeHits(
            zeros(shape.queries + 1, torch.int64), zeros(shape.hits, torch.int32), zeros(shape.hits, torch.float64)
        )
        self._relations = RelationHits(
            zeros(shape.queries + 1, torch.int64), zeros(shape.relations, torch.int32),
            zeros(shape.relations, torch.float32),
        )  # fmt: skip
        self._held = topology, rule  # the graph reads their memory

        def run() -> tuple[Top, torch.Tensor]:
            return padded(topology, self._hits, self._missing, self._relations, rule, k, either, shape.edges)

        with torch.cuda.device(device):
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                for _ in range(WARMUPS):  # compiles the kernels
                    run()
            torch.cuda.current_stream().wait_stream(side)
            self._graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self._graph):
                self._top, self._total = run()

    def __call__(self, hits: NodeHits, missing: torch.Tensor, relations: RelationHits) -> Top | None:
        """The result, or None where the batch doesn't fit the shape; one host sync, to see whether it does."""
        sizes = hits.indptr.shape[0] - 1, hits.node.shape[0], relations.key.shape[0]
        if sizes[0] != self.shape.queries or sizes[1] > self.shape.hits or sizes[2] > self.shape.relations:
            return None
        with self._lock, torch.cuda.device_of(hits.node):
            self._missing.copy_(missing)
            for held, given in zip((*self._hits, *self._relations), (*hits, *relations), strict=True):
                held[: given.shape[0]].copy_(given)
            self._graph.replay()
            top = Top(*(x.clone() for x in self._top))  # the next call writes over them
            return top if int(self._total) <= self.shape.edges else None  # host sync
