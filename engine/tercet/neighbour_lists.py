"""The lists of edges at each node after some edges and nodes have gone and others have come."""

from collections.abc import Sequence

import numpy as np
import torch

from tercet.carried import taken_by
from tercet.graph import Adjacency, Graph, adjacency, ascending, orient
from tercet.splice import NONE, Splice
from tercet_kernels import csr

FEW = 8  # changes are few where so many times as many edges are there; more are sorted anew


def edges_at(graph: Graph, nodes: np.ndarray) -> np.ndarray:
    """(P,) int64 the edges of a graph on the CPU that begin or end at some nodes, ascending."""
    spans = [_spans(a, nodes) for a in (graph.out, graph.into)]
    if FEW * sum(int(s[:, 1].sum()) for s in spans) > graph.num_edges:
        inside = np.zeros(graph.num_nodes, bool)
        inside[nodes] = True
        return np.flatnonzero(inside[graph.source.numpy()] | inside[graph.target.numpy()]) if len(nodes) else NONE
    lists = [a.edge.numpy()[taken_by(s)] for a, s in zip((graph.out, graph.into), spans, strict=True)]
    return np.unique(np.concatenate(lists)).astype(np.int64)


def changed_lists(
    graph: Graph, nodes: Splice, edges: Splice, source: torch.Tensor, target: torch.Tensor
) -> dict[str, Adjacency]:
    """`out`, `into` and `oriented` of the changed graph, or nothing where all three stay as they are.

    Args:
        graph: the one before. nodes: its rows; replaced ones stay. edges: its edges; replaced ones go and come.
        source, target: (E',) int32 of the changed graph, in its rows.
    """
    if not nodes.moves and not edges.moves and source is graph.source and target is graph.target:
        return {}
    canonical = graph.order == "canonical"
    if FEW * (len(edges.gone) + len(edges.fresh)) > graph.num_edges:
        out = (ascending if canonical else adjacency)(source, target, nodes.size)
        return {"out": out, "into": adjacency(target, source, nodes.size),
                "oriented": orient(source, target, nodes.size)}  # fmt: skip
    made = _Lists(graph, nodes, edges, source.numpy(), target.numpy())
    if canonical:  # edges ascend by source
        count, had = edges.size, graph.out.edge
        rows = had[:count] if count <= len(had) else torch.from_numpy(np.arange(count, dtype=np.int32))
        out = Adjacency(made.offsets(graph.out, made.old[0], made.new[0]), rows, target)
    else:
        out = made.side(graph.out, 0)
    into = made.side(graph.into, 1)
    return {"out": out, "into": into, "oriented": made.oriented(out, into)}


class _Lists:
    """What the lists of both ends have in common."""

    def __init__(self, graph: Graph, nodes: Splice, edges: Splice, source: np.ndarray, target: np.ndarray) -> None:
        self.graph, self.nodes, self.edges = graph, nodes, edges
        self.before = graph.source.numpy(), graph.target.numpy()
        self.old = [x[edges.gone] for x in self.before]  # ends of the edges that go
        self.new = [x[edges.fresh] for x in (source, target)]  # and of those that come
        self.place = edges.origin(edges.fresh)[0]
        self.node_row = nodes.row if nodes.shifts else None
        self.edge_row = edges.row if edges.shifts else None

    def offsets(self, lists: Adjacency, old: np.ndarray, new: np.ndarray) -> torch.Tensor:
        """The offsets after edges have gone from old nodes and come to new ones."""
        more = np.zeros(self.nodes.size, np.int32)
        left = self.nodes.rows(old)
        np.subtract.at(more, left[left >= 0], 1)
        np.add.at(more, new, 1)
        if not self.nodes.moves and not more[new].any() and not more[left].any():
            return lists.indptr
        return csr.offsets(lists.indptr, torch.from_numpy(self.nodes.runs), torch.from_numpy(more))

    def side(self, lists: Adjacency, end: int) -> Adjacency:
        """The lists of one end."""
        return self.kept_up(
            lists, self.old[end], self.edges.gone, self.new[end], self.edges.fresh, self.new[1 - end], self.place
        )

    def kept_up(
        self, lists: Adjacency, old: np.ndarray, gone: np.ndarray, new: np.ndarray, fresh: np.ndarray,
        other: np.ndarray, place: np.ndarray,
    ) -> Adjacency:  # fmt: skip
        """Lists without some edges and with others.

        Args:
            old, gone: (G,) the old nodes and rows of edges that go. new, fresh, other: (K,) the nodes, rows and far
                ends of those that come. place: (K,) the old edges that they stand before, or are.
        """
        out_of = csr.places(lists.indptr, lists.edge, *(torch.from_numpy(x.astype(np.int64)) for x in (old, gone)))
        order = np.lexsort((fresh, new))
        node, known = self.nodes.origin(new[order].astype(np.int64))
        wanted = np.where(known, place[order], 0)  # a new node's list begins where that of the next one does
        at = csr.places(lists.indptr, lists.edge, torch.from_numpy(node), torch.from_numpy(wanted))
        moved = Splice.of(len(lists.edge), np.sort(out_of.numpy()), at.numpy())
        return Adjacency(
            self.offsets(lists, old, new), moved.column(lists.edge, fresh[order].astype(np.int32), self.edge_row),
            moved.column(lists.other, other[order].astype(np.int32), self.node_row),
        )  # fmt: skip

    def oriented(self, out: Adjacency, into: Adjacency) -> Adjacency:
        """The lists at the ends of lower degree; an edge goes over to its other end where degrees have changed so."""
        nodes, edges, graph = self.nodes, self.edges, self.graph
        touched = np.concatenate([*self.new, *(nodes.rows(x) for x in self.old)]).astype(np.int64)
        known, there = nodes.origin(np.unique(touched[touched >= 0]))
        near = np.setdiff1d(edges_at(graph, known[there]), edges.gone, assume_unique=True)
        ends = [x[near] for x in self.before]
        now = [nodes.rows(x).astype(np.int32) for x in ends]
        was = _owned_by_source(ends, graph.out, graph.into)
        over = was != _owned_by_source(now, out, into)
        flipped, was, now = near[over], was[over], [x[over] for x in now]
        mine = _owned_by_source(self.new, out, into)
        held = _owned_by_source(self.old, graph.out, graph.into)
        return self.kept_up(
            graph.oriented,
            np.concatenate([np.where(held, *self.old), np.where(was, *(x[over] for x in ends))]),
            np.concatenate([edges.gone, flipped]),
            np.concatenate([np.where(mine, *self.new), np.where(was, now[1], now[0])]),
            np.concatenate([edges.fresh, edges.rows(flipped)]),
            np.concatenate([np.where(mine, self.new[1], self.new[0]), np.where(was, *now)]),
            np.concatenate([self.place, flipped]),
        )


def _owned_by_source(ends: Sequence[np.ndarray], out: Adjacency, into: Adjacency) -> np.ndarray:
    """Whether edges are listed at their source: the end of lower degree, or the smaller row."""
    source, target = ends
    at_source, at_target = (
        sum(a.indptr.numpy()[x.astype(np.int64) + 1] - a.indptr.numpy()[x] for a in (out, into))
        for x in (source, target)
    )
    return np.asarray((at_source < at_target) | ((at_source == at_target) & (source <= target)))


def _spans(lists: Adjacency, nodes: np.ndarray) -> np.ndarray:
    """(P, 2) int64 first place and length of some nodes' lists."""
    indptr = lists.indptr.numpy()
    return np.stack([indptr[nodes], indptr[nodes + 1] - indptr[nodes]], axis=1)
