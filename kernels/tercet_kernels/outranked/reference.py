"""Plain torch form of `outranked`, which always knows: the exact distance of every row."""

import torch

from tercet_kernels.cosine import reference as cosine


def outranked(
    vectors: torch.Tensor,
    queries: torch.Tensor,
    distance: torch.Tensor,
    wide: torch.Tensor,
    hidden: torch.Tensor | None = None,
) -> torch.Tensor:
    every = torch.arange(vectors.shape[0], dtype=torch.int32)
    out = torch.zeros(queries.shape[0], dtype=torch.bool)
    for q in range(queries.shape[0]):
        got = cosine.pair_distances(queries, vectors, torch.full_like(every, q), every, None)
        nearer = got < distance[q]
        out[q] = (
            bool(torch.isinf(distance[q])) or int((nearer if hidden is None else nearer & ~hidden).sum()) >= wide[q]
        )
    return out
