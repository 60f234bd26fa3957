"""Plain torch form of `routes`: levels of (pair, node) keys from all starts together, then all ways back."""

from typing import TYPE_CHECKING

import torch

from tercet_kernels._types import Topology
from tercet_kernels.fragment.reference import example as fragment_example
from tercet_kernels.fragment.reference import expand as lists
from tercet_kernels.neighbors.reference import lexsort

if TYPE_CHECKING:
    from tercet_kernels.neighbors import Direction
    from tercet_kernels.routes import Routes


def steps(
    topology: Topology,
    node: torch.Tensor,
    outward: bool,
    inward: bool,
    relation: torch.Tensor | None,
    walkable: torch.Tensor | None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """(position in `node`, far end, edge) of every edge that may be walked from some nodes."""
    at, far, edges = [], [], []
    for wanted, offsets, edge, end in (
        (outward, topology.out_indptr, topology.out_edge, topology.target),
        (inward, topology.in_indptr, topology.in_edge, topology.source),
    ):
        if wanted:
            a, e = lists(offsets, edge, node)
            at.append(a)
            far.append(end[e.long()].long())
            edges.append(e.long())
    a, v, e = torch.cat(at), torch.cat(far), torch.cat(edges)
    if relation is not None and walkable is not None:
        keep = walkable[relation[e].long()]
        a, v, e = a[keep], v[keep], e[keep]
    return a, v, e


def routes(
    topology: Topology,
    start: torch.Tensor,
    end: torch.Tensor,
    max_hops: int,
    direction: "Direction",
    limit: int,
    relation: torch.Tensor | None,
    walkable: torch.Tensor | None,
) -> "Routes":
    from tercet_kernels.routes import Routes

    device, pairs, span = start.device, start.shape[0], max(topology.num_nodes, 1)
    outward, inward = direction != "in", direction != "out"
    pair = torch.arange(pairs, device=device)
    goal = pair * span + end.long()
    hops = torch.where(start == end, 0, -1).to(torch.int32)
    levels = [pair * span + start.long()]
    reached = levels[0].sort().values
    for level in range(1, max_hops + 1):
        frontier = levels[-1]
        frontier = frontier[hops[frontier // span] < 0]  # host sync: what is left to do
        if frontier.shape[0] == 0:
            break
        at, far, _ = steps(topology, frontier % span, outward, inward, relation, walkable)
        found = torch.unique(frontier[at] // span * span + far)
        found = found[~torch.isin(found, reached)]
        levels.append(found)
        reached = torch.cat([reached, found]).sort().values
        arrived = torch.isin(goal, found)
        hops = torch.where(arrived & (hops < 0), level, hops).to(torch.int32)
    counts = torch.zeros(pairs, dtype=torch.int64, device=device)
    truncated = torch.zeros(pairs, dtype=torch.bool, device=device)
    done: list[tuple[torch.Tensor, torch.Tensor]] = []
    for length in range(1, len(levels)):
        mine = torch.nonzero(hops == length).flatten()
        which, route = mine, end[mine].long()[:, None]
        for level in range(length - 1, -1, -1):
            at, far, e = steps(topology, route[:, 0], inward, outward, relation, walkable)
            keep = torch.isin(which[at] * span + far, levels[level])
            at, far, e = at[keep], far[keep], e[keep]
            order = lexsort(at, far, e)
            at, far, e = at[order], far[order], e[order]
            first = torch.ones_like(at, dtype=torch.bool)
            first[1:] = (at[1:] != at[:-1]) | (far[1:] != far[:-1])
            at, far, e = at[first], far[first], e[first]
            order = lexsort(at, e)
            at, far, e = at[order], far[order], e[order]
            which, route = which[at], torch.cat([far[:, None], route[at]], dim=1)
            size = torch.bincount(which, minlength=pairs)
            place = torch.arange(which.shape[0], device=device) - (size.cumsum(0) - size)[which]
            truncated |= size > limit
            which, route = which[place < limit], route[place < limit]
        counts += torch.bincount(which, minlength=pairs)
        done.append((which, route))
    return Routes(hops, *_flat(pairs, counts, hops, done), truncated)


def _flat(
    pairs: int, counts: torch.Tensor, hops: torch.Tensor, done: list[tuple[torch.Tensor, torch.Tensor]]
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    device = counts.device
    indptr = torch.zeros(pairs + 1, dtype=torch.int64, device=device)
    torch.cumsum(counts, 0, out=indptr[1:])
    lengths = torch.repeat_interleave(hops.long() + 1, counts)
    offsets = torch.zeros(lengths.shape[0] + 1, dtype=torch.int64, device=device)
    torch.cumsum(lengths, 0, out=offsets[1:])
    node = torch.empty(int(offsets[-1]), dtype=torch.int32, device=device)
    for which, route in done:
        if which.shape[0]:
            size = torch.bincount(which, minlength=pairs)
            place = torch.arange(which.shape[0], device=device) - (size.cumsum(0) - size)[which]
            at = offsets[indptr[which] + place][:, None] + torch.arange(route.shape[1], device=device)
            node[at.flatten()] = route.flatten().int()
    return indptr, offsets, node


def example(pairs: int = 6, nodes: int = 40, edges: int = 80, seed: int = 0, device: str = "cpu") -> dict:
    """Pairs of a random multigraph with self loops."""
    base = fragment_example(1, nodes, edges, 1, seed, device)
    g = torch.Generator().manual_seed(seed)
    ends = torch.randint(0, max(nodes, 1), (2, pairs), generator=g, dtype=torch.int32).to(device)
    return {
        "topology": base["topology"], "start": ends[0].contiguous(), "end": ends[1].contiguous(), "max_hops": 4,
        "relation": torch.randint(-1, 3, (edges,), generator=g, dtype=torch.int32).to(device),
        "walkable": torch.tensor([True, False, True, True], device=device),
    }  # fmt: skip
