"""Plain torch form of `rank_fusion`: one key a (query, node) pair."""

from collections.abc import Sequence

import torch


def rank_fusion(
    indptrs: Sequence[torch.Tensor],
    nodes: Sequence[torch.Tensor],
    weights: Sequence[float],
    rrf_k: float,
    limit: torch.Tensor,
) -> tuple[torch.Tensor, ...]:
    device, queries = limit.device, limit.shape[0]
    span = max((int(n.max()) + 1 for n in nodes if n.shape[0]), default=1)  # host sync
    owners = [torch.repeat_interleave(torch.arange(queries, device=device), p.diff()) for p in indptrs]
    keys = [owner * span + n.long() for owner, n in zip(owners, nodes, strict=True)]
    none = torch.zeros(0, dtype=torch.int64, device=device)
    found = torch.unique(torch.cat([none, *(k for k, w in zip(keys, weights, strict=True) if w > 0)]))
    ranks = torch.zeros(found.shape[0], len(nodes), dtype=torch.int32, device=device)
    for h, (key, owner, indptr) in enumerate(zip(keys, owners, indptrs, strict=True)):
        if not found.shape[0] or not key.shape[0]:
            continue
        rank = torch.arange(1, owner.shape[0] + 1, device=device) - indptr[owner]
        row = torch.searchsorted(found, key).clamp(max=found.shape[0] - 1)
        known = found[row] == key
        best = torch.full(found.shape, torch.iinfo(torch.int64).max, device=device)
        best.scatter_reduce_(0, row[known], rank[known], "amin")
        ranks[:, h] = torch.where(best < torch.iinfo(torch.int64).max, best, 0).int()
    score = torch.zeros(found.shape, dtype=torch.float64, device=device)
    for h, weight in enumerate(weights):
        if weight > 0:
            rank = ranks[:, h].double()
            part = torch.full_like(rank, weight) / (rrf_k + rank.clamp(min=1))  # a number over a tensor rounds twice
            score += torch.where(rank > 0, part, 0.0)
    order = score.sort(descending=True, stable=True).indices
    order = order[(found[order] // span).sort(stable=True).indices]
    query = found[order] // span
    available = torch.bincount(query, minlength=queries)
    kept = torch.arange(query.shape[0], device=device) - (available.cumsum(0) - available)[query] < limit[query]
    indptr = torch.zeros(queries + 1, dtype=torch.int64, device=device)
    indptr[1:] = torch.minimum(available, limit.clamp(min=0)).cumsum(0)
    order = order[kept]
    return indptr, (found[order] % span).int(), score[order], ranks[order], available


def example(queries: int = 4, entries: int = 9, nodes: int = 20, seed: int = 0, device: str = "cpu") -> dict:
    """Two lists a query, with repeats."""
    g = torch.Generator().manual_seed(seed)
    counts = torch.randint(0, entries + 1, (2, queries), generator=g)
    indptrs = [torch.cat([torch.zeros(1, dtype=torch.int64), c.cumsum(0)]) for c in counts]
    lists = [torch.randint(0, max(nodes, 1), (int(p[-1]),), generator=g, dtype=torch.int32) for p in indptrs]
    return {
        "indptrs": [p.to(device) for p in indptrs], "nodes": [n.to(device) for n in lists], "weights": [1.0, 1.5],
        "rrf_k": 60.0, "limit": torch.randint(0, 2 * entries + 2, (queries,), generator=g).to(device),
    }  # fmt: skip
