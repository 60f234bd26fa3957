"""Plain torch form of `edge_filter`: two passes over tiles of edges, a running top-k and a threshold."""

import torch

from tercet_kernels._types import EdgeRule, Topology
from tercet_kernels.effective import reference as effective
from tercet_kernels.fragment.reference import example as fragment_example

TILE = 1 << 18  # edges scored at a time


def scores(
    topology: Topology,
    node_term: torch.Tensor,
    key_value: torch.Tensor,
    rule: EdgeRule | None,
    matched: torch.Tensor | None,
    part: slice,
) -> torch.Tensor:
    """(B, tile) float32 approximate scores of a run of edges."""
    source, target = topology.source[part].long(), topology.target[part].long()
    key = topology.key[part].long()
    value = key_value[:, torch.where(key < 0, key_value.shape[1] - 1, key)]
    if rule is not None:
        value = effective.effective(
            value.double(), rule.importance[part], rule.feedback[part], rule.influence, rule.penalty, rule.cliff
        ).float()
    score = (node_term[:, source] + node_term[:, target]) + value
    if matched is not None:
        score = score.masked_fill(~(matched[:, source] | matched[:, target]), torch.inf)
    return score


def edge_filter(
    topology: Topology,
    node_term: torch.Tensor,
    key_value: torch.Tensor,
    rule: EdgeRule | None,
    margin: torch.Tensor,
    k: int,
    matched: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    queries, edges = node_term.shape[0], topology.source.shape[0]
    tiles = [slice(start, start + TILE) for start in range(0, edges, TILE)]
    best = node_term.new_full((queries, 0), torch.inf)
    for part in tiles:
        tile = scores(topology, node_term, key_value, rule, matched, part)
        best = torch.cat([best, tile], dim=1)
        best = best.topk(min(k, best.shape[1]), dim=1, largest=False).values
    if best.shape[1] < k:
        threshold = torch.full_like(margin, torch.inf)
    else:
        threshold = best.max(dim=1).values + margin
    rows, found = [torch.zeros(0, dtype=torch.int64, device=margin.device)], [topology.source.new_zeros(0)]
    for part in tiles:
        tile = scores(topology, node_term, key_value, rule, matched, part)
        row, column = torch.nonzero((tile <= threshold[:, None]) & torch.isfinite(tile), as_tuple=True)
        rows.append(row)
        found.append((column + part.start).int())
    row, edge = torch.cat(rows), torch.cat(found)
    order = torch.argsort(row, stable=True)
    indptr = torch.zeros(queries + 1, dtype=torch.int64, device=margin.device)
    indptr[1:] = torch.bincount(row, minlength=queries).cumsum(0)
    return indptr, edge[order]


def example(queries: int = 4, nodes: int = 40, edges: int = 120, seed: int = 0, device: str = "cpu") -> dict:
    g = torch.Generator().manual_seed(seed)
    topology = fragment_example(queries, nodes, edges, 4, seed, device)["topology"]
    coarse = lambda *shape: torch.rand(*shape, generator=g).mul(8).round().div(4).to(device)  # noqa: E731
    node_term = coarse(queries, nodes)
    node_term[:, :2] = torch.inf
    return {
        "topology": topology, "node_term": node_term, "key_value": coarse(queries, 7), "rule": None,
        "margin": torch.full((queries,), 0.3, device=device),
    }  # fmt: skip
