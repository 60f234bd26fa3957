"""Plain torch form of `neighbors`: the frontier's lists as (query, node) keys, sorted, first of each kept."""

from typing import TYPE_CHECKING, Literal

import torch

from tercet_kernels._types import Topology
from tercet_kernels.fragment.reference import example as fragment_example
from tercet_kernels.fragment.reference import expand as lists

if TYPE_CHECKING:
    from tercet_kernels.neighbors import Direction, Level


def neighbors(
    topology: Topology,
    indptr: torch.Tensor,
    node: torch.Tensor,
    begin: torch.Tensor,
    direction: "Direction",
    order: Literal["edge", "rank", "node"],
    rank: torch.Tensor | None,
    relation: torch.Tensor | None,
    walkable: torch.Tensor | None,
    allowed: torch.Tensor | None,
    allowed_row: torch.Tensor | None,
    limit: torch.Tensor | None,
) -> "Level":
    from tercet_kernels.neighbors import Level

    device, queries = node.device, indptr.shape[0] - 1
    span = max(topology.num_nodes, int(node.max()) + 1 if node.shape[0] else 0, 1)  # host sync
    owner = torch.repeat_interleave(torch.arange(queries, device=device), indptr.diff())
    selected = owner * span + node.long()
    frontier = (torch.arange(node.shape[0], device=device) >= begin[owner]) & (node < topology.num_nodes)
    u, query = node[frontier].long(), owner[frontier]
    keys, edges = [], []
    for way, offsets, edge, far in (
        ("out", topology.out_indptr, topology.out_edge, topology.target),
        ("in", topology.in_indptr, topology.in_edge, topology.source),
    ):
        if direction in ("both", way):
            at, e = lists(offsets, edge, u)
            keys.append(query[at] * span + far[e.long()].long())
            edges.append(e.long())
    key, e = torch.cat(keys), torch.cat(edges)
    keep = ~torch.isin(key, selected)
    if relation is not None and walkable is not None:
        keep &= walkable[relation[e].long()]  # -1, no label, is the last entry
    if allowed is not None and allowed_row is not None and allowed.shape[0]:
        row = allowed_row[key // span].long()
        keep &= (row < 0) | allowed[row.clamp(min=0), key % span]
    key, e = key[keep], e[keep]
    rate = rank[e].long() if rank is not None else torch.zeros_like(e)
    at = lexsort(key, rate, e)
    key, e, rate = key[at], e[at], rate[at]
    first = torch.ones_like(key, dtype=torch.bool)
    first[1:] = key[1:] != key[:-1]
    key, e, rate = key[first], e[first], rate[first]  # ascending by query, then node
    if order != "node":
        at = lexsort(key // span, e if order == "edge" else rate)
        key, e = key[at], e[at]
    query = key // span
    available = torch.bincount(query, minlength=queries)
    if limit is not None:
        start = available.cumsum(0) - available
        kept = torch.arange(key.shape[0], device=device) - start[query] < limit[query]
        key, e, query = key[kept], e[kept], query[kept]
    out = torch.zeros(queries + 1, dtype=torch.int64, device=device)
    out[1:] = torch.bincount(query, minlength=queries).cumsum(0)
    return Level(out, (key % span).int(), e.int(), available)


def lexsort(*keys: torch.Tensor) -> torch.Tensor:
    """The order by several keys, the first one deciding first; stable."""
    at = torch.argsort(keys[-1], stable=True)
    for key in keys[-2::-1]:
        at = at[torch.argsort(key[at], stable=True)]
    return at


def example(
    queries: int = 4, nodes: int = 40, edges: int = 120, selected: int = 6, seed: int = 0, device: str = "cpu"
) -> dict:
    """A random multigraph; the first half of each query's nodes is done, the rest is its frontier."""
    base = fragment_example(queries, nodes, edges, selected, seed, device)
    indptr = base["hits"].indptr
    g = torch.Generator().manual_seed(seed)
    return {
        "topology": base["topology"], "indptr": indptr, "node": base["hits"].node,
        "begin": indptr[:-1] + indptr.diff() // 2,
        "relation": torch.randint(-1, 4, (edges,), generator=g, dtype=torch.int32).to(device),
        "walkable": torch.tensor([True, False, True, True, True], device=device),
        "rank": torch.randint(0, 3, (edges,), generator=g, dtype=torch.int32).to(device),
        "allowed": (torch.rand(2, nodes, generator=g) < 0.7).to(device),
        "allowed_row": (torch.arange(queries, dtype=torch.int32) % 3 - 1).to(device),
    }  # fmt: skip
