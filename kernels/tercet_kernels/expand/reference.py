"""Plain torch form of `expand`: one frontier of (query, node) keys a level."""

import torch

from tercet_kernels._types import Topology
from tercet_kernels.fragment.reference import example as fragment_example
from tercet_kernels.fragment.reference import expand as lists


def expand(
    topology: Topology,
    indptr: torch.Tensor,
    seed: torch.Tensor,
    depth: int,
    allowed: torch.Tensor,
    allowed_row: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    device, size = seed.device, topology.num_nodes
    queries = indptr.shape[0] - 1
    query = torch.repeat_interleave(torch.arange(queries, device=device), indptr.diff())
    span = max(size, int(seed.max()) + 1 if seed.shape[0] else 0, 1)
    reached = torch.unique(query * span + seed.long())
    frontier = reached
    for _ in range(depth):
        node, query = frontier % span, frontier // span
        inside = node < size
        node, query = node[inside], query[inside]
        next_keys = []
        for offsets, edge, far in (
            (topology.out_indptr, topology.out_edge, topology.target),
            (topology.in_indptr, topology.in_edge, topology.source),
        ):
            at, edges = lists(offsets, edge, node)
            other, row = far[edges.long()].long(), allowed_row[query[at]].long()
            # one host sync a level: the size of the next frontier
            free = (row < 0) | allowed[row.clamp(min=0), other.clamp(max=allowed.shape[1] - 1)]
            next_keys.append((query[at] * span + other)[free])
        found = torch.unique(torch.cat(next_keys))
        frontier = found[~torch.isin(found, reached)]
        reached = torch.cat([reached, frontier]).sort().values
    out = torch.zeros(queries + 1, dtype=torch.int64, device=device)
    out[1:] = torch.bincount(reached // span, minlength=queries).cumsum(0)
    return out, (reached % span).int()


def example(
    queries: int = 4, nodes: int = 40, edges: int = 50, seeds: int = 3, seed: int = 0, device: str = "cpu"
) -> dict:
    base = fragment_example(queries, nodes, edges, seeds, seed, device)
    return {"topology": base["topology"], "indptr": base["hits"].indptr, "seed": base["hits"].node}
