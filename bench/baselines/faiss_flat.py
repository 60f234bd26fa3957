"""FAISS's brute force, with either of its two ways to compute a batch.

FAISS 1.15 uses a matrix product only from `queries * width >= distance_compute_blas_threshold` on, 128,000 as shipped,
and reads all vectors once a query below that; the threshold is part of a row's settings.
"""

from collections.abc import Callable

import torch

SHIPPED = 128_000


def searcher(vectors: torch.Tensor, threshold: int) -> Callable[[torch.Tensor, int], torch.Tensor]:
    """A function of (queries, k) to rows (B, k), on as many threads as torch has.

    Raises:
        ImportError: faiss isn't installed.
    """
    import faiss

    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(vectors.numpy())

    def search(queries: torch.Tensor, k: int) -> torch.Tensor:
        faiss.omp_set_num_threads(torch.get_num_threads())
        before, faiss.cvar.distance_compute_blas_threshold = faiss.cvar.distance_compute_blas_threshold, threshold
        try:
            return torch.from_numpy(index.search(queries.numpy(), min(k, index.ntotal))[1])
        finally:
            faiss.cvar.distance_compute_blas_threshold = before

    return search
