"""Plain torch form of `nearest`: the exact distance of every row, a stable sort."""

import torch

from tercet_kernels.cosine import reference as cosine


def nearest(
    vectors: torch.Tensor,
    scale: torch.Tensor | None,
    queries: torch.Tensor,
    k: int,
    hidden: torch.Tensor | None,
    allowed: torch.Tensor | None,
    allowed_row: torch.Tensor | None,
) -> tuple[torch.Tensor, torch.Tensor]:
    size, count = vectors.shape[0], queries.shape[0]
    rows = torch.full((count, min(k, size)), -1, dtype=torch.int32)
    distances = torch.full(rows.shape, torch.inf)
    every = torch.arange(size, dtype=torch.int32)
    for q in range(count):
        distance = cosine.pair_distances(queries, vectors, torch.full_like(every, q), every, scale)
        if hidden is not None:
            distance = distance.masked_fill(hidden, torch.inf)
        if allowed is not None and allowed_row is not None and allowed_row[q] >= 0:
            distance = distance.masked_fill(~allowed[allowed_row[q]], torch.inf)
        value, order = distance.sort(stable=True)
        found = torch.isfinite(value[: rows.shape[1]])
        distances[q] = value[: rows.shape[1]]
        rows[q] = torch.where(found, order[: rows.shape[1]].int(), -1)
    return rows, distances


def example(queries: int = 5, rows: int = 700, dimension: int = 40, seed: int = 0) -> dict:
    """Clustered unit vectors, some of them twice, and queries near them."""
    g = torch.Generator().manual_seed(seed)
    unit = lambda x: torch.nn.functional.normalize(x, dim=1)  # noqa: E731
    centres = torch.randn(max(1, rows // 30), dimension, generator=g)
    vectors = centres[torch.randint(0, len(centres), (rows,), generator=g)]
    vectors = unit(vectors + 0.7 * torch.randn(rows, dimension, generator=g))
    vectors[rows - rows // 2 :] = vectors[: rows // 2].clone()
    near = vectors[torch.randint(0, max(rows, 1), (queries,), generator=g)] if rows else torch.zeros(0, dimension)
    return {"vectors": vectors, "queries": unit(near + 0.1 * torch.randn(near.shape, generator=g))}
