"""Plain form of `edge_bounds`."""

from bisect import bisect_left, bisect_right

import torch


def edge_bounds(
    indptr: torch.Tensor, relation: torch.Tensor, target: torch.Tensor, source_at: torch.Tensor,
    relation_at: torch.Tensor, target_at: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    source = torch.repeat_interleave(torch.arange(len(indptr) - 1), indptr.diff())
    have = [(2 * s, 2 * r, 2 * t) for s, r, t in zip(*(x.tolist() for x in (source, relation, target)), strict=True)]
    want = list(zip(*(x.tolist() for x in (source_at, relation_at, target_at)), strict=True))
    return (
        torch.tensor([bisect_left(have, w) for w in want], dtype=torch.int64),
        torch.tensor([bisect_right(have, w) for w in want], dtype=torch.int64),
    )


def example(nodes: int, edges: int, wanted: int, seed: int = 0) -> dict:
    """Edges with few relations, some wanted ones equal to them, some next to them."""
    generator = torch.Generator().manual_seed(seed)
    draw = lambda low, high, size: torch.randint(low, high, (size,), generator=generator)  # noqa: E731
    rows = sorted(zip(*(x.tolist() for x in (draw(0, nodes, edges), draw(-1, 3, edges), draw(0, nodes, edges))),
                      strict=True))  # fmt: skip
    source, relation, target = (torch.tensor(c, dtype=torch.int64) for c in (zip(*rows, strict=True) if rows else
                                                                             ([], [], [])))  # fmt: skip
    indptr = torch.zeros(nodes + 1, dtype=torch.int64)
    indptr[1:] = torch.bincount(source, minlength=nodes).cumsum(0)
    return {
        "indptr": indptr, "relation": relation.int(), "target": target.int(),
        "source_at": draw(-1, 2 * nodes, wanted), "relation_at": draw(-2, 6, wanted),
        "target_at": draw(-1, 2 * nodes, wanted),
    }  # fmt: skip
