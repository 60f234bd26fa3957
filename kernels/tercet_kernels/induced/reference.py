"""`fragment` of the nodes in ascending order, and the labels looked up."""

import torch

from tercet_kernels._types import NodeHits, Topology
from tercet_kernels.fragment import fragment
from tercet_kernels.neighbors.reference import example as neighbors_example


def induced(
    topology: Topology,
    indptr: torch.Tensor,
    node: torch.Tensor,
    relation: torch.Tensor | None,
    walkable: torch.Tensor | None,
) -> tuple[torch.Tensor, torch.Tensor]:
    query = torch.repeat_interleave(torch.arange(indptr.shape[0] - 1, device=node.device), indptr.diff())
    span = max(topology.num_nodes, int(node.max()) + 1 if node.shape[0] else 0)  # host sync
    ascending = node[torch.argsort(query * span + node.long())].contiguous()
    none = torch.zeros(node.shape, dtype=torch.float64, device=node.device)
    found = fragment(topology, NodeHits(indptr, ascending, none))
    if relation is None or walkable is None:
        return found.indptr, found.edge
    keep = walkable[relation[found.edge.long()].long()]  # -1, no label, is the last entry
    before = torch.zeros(keep.shape[0] + 1, dtype=torch.int64, device=node.device)
    torch.cumsum(keep, 0, out=before[1:])
    return before[found.indptr], found.edge[keep]


def example(
    queries: int = 4, nodes: int = 40, edges: int = 120, selected: int = 9, seed: int = 0, device: str = "cpu"
) -> dict:
    """Random nodes of a random multigraph, in no order."""
    base = neighbors_example(queries, nodes, edges, selected, seed, device)
    order = torch.randperm(base["node"].shape[0], generator=torch.Generator().manual_seed(seed))
    query = torch.repeat_interleave(torch.arange(queries), base["indptr"].cpu().diff())
    mixed = order[torch.argsort(query[order], stable=True)].to(device)
    return {"topology": base["topology"], "indptr": base["indptr"], "node": base["node"][mixed].contiguous(),
            "relation": base["relation"], "walkable": base["walkable"]}  # fmt: skip
