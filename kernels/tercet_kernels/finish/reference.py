"""Plain torch form of `finish` and `counted`."""

import torch

from tercet_kernels._types import Top


def finish(
    top: Top, top_k: torch.Tensor, touched: torch.Tensor, nodes: torch.Tensor, relations: torch.Tensor
) -> tuple[torch.Tensor, ...]:
    beyond = torch.arange(top.edge.shape[1], device=top.edge.device)[None] >= top_k[:, None]
    slot = top.slot.masked_fill(beyond[:, :, None], -1)
    distance = torch.stack([_raw(h, slot[:, :, i]) for i, h in enumerate((nodes, nodes, relations))], dim=2)
    slot = torch.where(torch.isfinite(distance), slot, -1)  # listed without a distance: not matched
    absent = beyond | ~touched[:, None]
    return top.edge.masked_fill(absent, -1), top.score.masked_fill(absent, torch.inf), distance, slot


def _raw(distance: torch.Tensor, slot: torch.Tensor) -> torch.Tensor:
    if distance.shape[0] == 0:
        return torch.full(slot.shape, torch.inf, device=slot.device)
    return distance[slot.clamp(min=0).long()].masked_fill(slot < 0, torch.inf)


def counted(indptr: torch.Tensor, distance: torch.Tensor) -> torch.Tensor:
    query = torch.repeat_interleave(torch.arange(indptr.shape[0] - 1, device=indptr.device), indptr.diff())
    counts = torch.zeros(indptr.shape[0] - 1, dtype=torch.int64, device=indptr.device)
    return counts.index_add_(0, query, torch.isfinite(distance).long())


def example(queries: int, k: int, hits: int, seed: int = 0, device: str = "cpu") -> dict:
    generator = torch.Generator().manual_seed(seed)
    integers = lambda low, high, size: torch.randint(low, high, size, generator=generator)  # noqa: E731
    raw = lambda size: torch.rand(size, generator=generator).masked_fill(integers(0, 4, (size,)) == 0, torch.inf)  # noqa: E731
    slot = integers(-1, max(hits, 0), (queries, k, 3)).int()
    edge = integers(0, 1000, (queries, k)).int()
    score = torch.rand(queries, k, generator=generator, dtype=torch.float64).sort(dim=1).values
    top = Top(*(x.to(device) for x in (edge, score, slot, integers(0, 9, (queries,)))))
    rest = {"top_k": integers(1, k + 1, (queries,)), "touched": integers(0, 3, (queries,)) > 0,
            "nodes": raw(hits), "relations": raw(hits)}  # fmt: skip
    return {"top": top, **{name: x.to(device) for name, x in rest.items()}}
