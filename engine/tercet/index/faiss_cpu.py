"""FAISS on the CPU: threads, training, and tensors as FAISS's pointers; the FAISS module is an argument."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from tercet.index.exact import ExactIndex

TRAINING = 64  # rows a centroid is learnt from
SLICE = 1 << 16  # rows added at a time


@contextmanager
def threads(faiss: Any) -> Iterator[None]:
    """As many threads as torch uses: FAISS may have an OpenMP pool of its own, and a thread's setting is its own."""
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(torch.get_num_threads())
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)


def filled(faiss: Any, kind: str, inner: ExactIndex, options: dict[str, int | None]) -> Any:
    """A FAISS index on the CPU, trained and filled."""
    width, metric, nlist = inner.dimension, faiss.METRIC_INNER_PRODUCT, options.get("nlist") or 1
    if kind == "hnsw":
        ann = faiss.IndexHNSWSQ(width, faiss.ScalarQuantizer.QT_fp16, options["M"], metric)
        ann.hnsw.efConstruction = options["ef_construction"]
    elif kind == "ivf":
        ann = faiss.IndexIVFFlat(faiss.IndexFlatIP(width), width, nlist, metric)
    else:
        ann = faiss.IndexIVFPQ(faiss.IndexFlatIP(width), width, nlist, options["m"], 8, metric)
        ann.pq.cp.min_points_per_centroid, ann.pq.cp.max_points_per_centroid = 1, TRAINING
    if kind != "hnsw":
        ann.cp.min_points_per_centroid = 1  # FAISS warns on standard error below its own minimum
    sample = torch.arange(inner.size)
    if (most := TRAINING * max(nlist, 256)) < inner.size:
        sample = torch.randperm(inner.size, generator=torch.Generator().manual_seed(0))[:most].sort().values
    ann.train(unit(inner, sample).numpy())
    for start in range(0, inner.size, SLICE):
        ann.add(unit(inner, slice(start, start + SLICE)).numpy())
    return ann


def lists(ann: Any) -> ExactIndex | None:
    """The centroids of inverted lists, which are set to share the queries of a call among threads."""
    if not hasattr(ann, "nlist"):
        return None
    ann.parallel_mode = 3
    centroids = np.empty((ann.nlist, ann.d), dtype=np.float32)
    ann.quantizer.reconstruct_n(0, ann.nlist, centroids)
    return ExactIndex(torch.from_numpy(centroids))


def floats(faiss: Any, tensor: torch.Tensor) -> Any:
    """The address of a contiguous tensor, which the caller keeps alive."""
    return faiss.cast_integer_to_float_ptr(tensor.data_ptr())


def ids(faiss: Any, tensor: torch.Tensor) -> Any:
    """The address of a contiguous int64 tensor, which the caller keeps alive."""
    return faiss.cast_integer_to_idx_t_ptr(tensor.data_ptr())


def unit(inner: ExactIndex, part: Any) -> torch.Tensor:
    """Chosen rows as float32 of unit norm."""
    rows = inner.vectors[part]
    return rows.contiguous() if inner.scale is None else (rows.double() * inner.scale[part, None]).float()
