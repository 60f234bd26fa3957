"""Plain torch form of `fragment`: expand the lists of every hit, look the far ends up, sort."""

import torch

from tercet_kernels._types import Fragment, NodeHits, Topology


def fragment(topology: Topology, hits: NodeHits, either: bool = False) -> Fragment:
    device, size = hits.node.device, topology.num_nodes
    queries = hits.indptr.shape[0] - 1
    owner_query = torch.repeat_interleave(torch.arange(queries, device=device), hits.indptr.diff())
    inside = hits.node < size
    slot = torch.arange(hits.node.shape[0], device=device)[inside]
    node, query = hits.node[inside].long(), owner_query[inside]
    keys = query * size + node  # ascending: queries in order, nodes ascending within
    if either:
        lists = [(topology.out_indptr, topology.out_edge), (topology.in_indptr, topology.in_edge)]
    else:
        lists = [(topology.oriented_indptr, topology.oriented_edge)]
    at, edges = zip(*(expand(indptr, edge, node) for indptr, edge in lists), strict=True)
    pair_query, edge = query[torch.cat(at)], torch.cat(edges).long()
    slots = [lookup(keys, slot, pair_query * size + end[edge].long()) for end in (topology.source, topology.target)]
    if either:  # an edge found from both of its ends counts once
        both = torch.unique(pair_query * topology.source.shape[0] + edge, return_inverse=True)
        first = torch.full_like(both[0], both[1].shape[0]).scatter_reduce_(
            0, both[1], torch.arange(both[1].shape[0], device=device), "amin"
        )
    else:
        found = torch.nonzero((slots[0] >= 0) & (slots[1] >= 0)).squeeze(1)
        first = found[torch.argsort(pair_query[found] * max(topology.source.shape[0], 1) + edge[found])]
    indptr = torch.zeros(queries + 1, dtype=torch.int64, device=device)
    indptr[1:] = torch.bincount(pair_query[first], minlength=queries).cumsum(0)
    return Fragment(indptr, edge[first].int(), slots[0][first].int(), slots[1][first].int())


def expand(indptr: torch.Tensor, value: torch.Tensor, row: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The lists of some rows one after another: (position of the row in `row`, value) for each entry."""
    counts = indptr[row + 1] - indptr[row]
    at = torch.repeat_interleave(torch.arange(row.shape[0], device=row.device), counts)
    begin = torch.cumsum(counts, 0) - counts
    inside = torch.arange(at.shape[0], device=row.device) - begin[at] + indptr[row][at]
    return at, value[inside]


def lookup(keys: torch.Tensor, value: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    """The value beside each wanted key in an ascending list of distinct keys, -1 where it is absent."""
    if keys.shape[0] == 0:
        return torch.full_like(wanted, -1)
    at = torch.searchsorted(keys, wanted).clamp_(max=keys.shape[0] - 1)
    return torch.where(keys[at] == wanted, value[at], -1)


def example(
    queries: int = 4, nodes: int = 40, edges: int = 120, hits: int = 8, seed: int = 0, device: str = "cpu"
) -> dict:
    """A random multigraph with self loops and random hits (some of them beyond the graph)."""
    g = torch.Generator().manual_seed(seed)
    source, target = (torch.randint(0, max(nodes, 1), (edges,), generator=g, dtype=torch.int32) for _ in "st")
    key = torch.randint(-1, 6, (edges,), generator=g, dtype=torch.int32)
    chosen = [
        torch.randperm(nodes + 3, generator=g)[: min(hits, nodes + 3)].sort().values.int() for _ in range(queries)
    ]
    indptr = torch.zeros(queries + 1, dtype=torch.int64)
    indptr[1:] = torch.tensor([len(c) for c in chosen]).cumsum(0)
    node = torch.cat(chosen) if queries else torch.zeros(0, dtype=torch.int32)
    term = torch.rand(node.shape[0], generator=g, dtype=torch.float64).mul(8).round().div(4)  # many ties
    topology = make_topology(source, target, key, nodes, 6)
    move = lambda t: type(t)(*(x.to(device) if isinstance(x, torch.Tensor) else x for x in t))  # noqa: E731
    return {"topology": move(topology), "hits": move(NodeHits(indptr, node, term))}


def make_topology(
    source: torch.Tensor, target: torch.Tensor, key: torch.Tensor, num_nodes: int, num_keys: int
) -> Topology:
    """The layout of a graph, for tests and examples."""
    degree = torch.bincount(source, minlength=num_nodes) + torch.bincount(target, minlength=num_nodes)
    at_source, at_target = degree[source.long()], degree[target.long()]
    own = (at_source < at_target) | ((at_source == at_target) & (source <= target))
    parts: list[torch.Tensor] = []
    for group, other in (
        (torch.where(own, source, target), torch.where(own, target, source)),
        (source, None),
        (target, None),
    ):
        order = torch.argsort(group, stable=True).int()
        indptr = torch.zeros(num_nodes + 1, dtype=torch.int64)
        indptr[1:] = torch.bincount(group, minlength=num_nodes).cumsum(0)
        parts += [indptr, order] if other is None else [indptr, order, other[order.long()]]
    return Topology(source, target, key, *parts, num_keys)  # type: ignore[call-arg, arg-type]
