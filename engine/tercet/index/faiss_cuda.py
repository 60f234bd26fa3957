"""FAISS on CUDA; the FAISS module is an argument.

Written after FAISS's documentation and sources; not run yet on a GPU, so untested there.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import Any

import torch

from tercet.errors import MissingDependency
from tercet.index.exact import ExactIndex
from tercet.index.faiss_cpu import floats, ids, unit
from tercet.index.options import ON_CPU, names

one_call = Lock()  # FAISS's GPU resources serve one call at a time


def check(faiss: Any, kind: str) -> None:
    """Refuse a FAISS that can't serve the kind.

    Raises:
        MissingDependency: no CUDA, no GPU in sight, or no cuVS (cagra).
    """
    if faiss.get_num_gpus() == 0:
        raise MissingDependency(
            f"index {kind!r} on CUDA needs a FAISS with CUDA and a visible GPU ('tercet[gpu]' in place of faiss-cpu); "
            f"this FAISS sees none. The CPU has exact, {names(ON_CPU)}"
        )
    if kind == "cagra" and not hasattr(faiss, "GpuIndexCagra"):
        raise MissingDependency("index 'cagra' needs a FAISS that is built with cuVS; this one has flat and ivf")


@contextmanager
def on_stream(faiss: Any, device: torch.device) -> Iterator[None]:
    """FAISS's work in the order of torch's current stream on the device."""
    with one_call, torch.cuda.device(device):
        stream = faiss.cast_integer_to_cudastream_t(torch.cuda.current_stream(device).cuda_stream)
        _resources(faiss).setDefaultStream(device.index, stream)
        yield


def brute_force(faiss: Any, queries: torch.Tensor, vectors: torch.Tensor, found: torch.Tensor) -> torch.Tensor:
    """Fill `found` (B, take) with the nearest rows and return their products; no copy of the vectors is made.

    float16 rows count as if they were of unit norm, and the queries are rounded like them: FAISS wants one dtype.
    """
    queries, similarity = queries.to(vectors.dtype), torch.empty(found.shape, device=found.device)
    half = vectors.dtype == torch.float16
    args = faiss.GpuDistanceParams()
    args.metric, args.dims, args.k = faiss.METRIC_INNER_PRODUCT, vectors.shape[1], found.shape[1]
    args.vectors, args.numVectors, args.vectorsRowMajor = floats(faiss, vectors), vectors.shape[0], True
    args.queries, args.numQueries, args.queriesRowMajor = floats(faiss, queries), queries.shape[0], True
    args.vectorType = args.queryType = faiss.DistanceDataType_F16 if half else faiss.DistanceDataType_F32
    args.outDistances, args.outIndices = floats(faiss, similarity), ids(faiss, found)
    args.outIndicesType, args.device, args.use_cuvs = faiss.IndicesDataType_I64, vectors.device.index, False
    faiss.bfKnn(_resources(faiss), args)
    return similarity


def moved(faiss: Any, kind: str, ann: Any) -> Any:
    """A copy of a CPU index on the current GPU."""
    cloning = faiss.GpuClonerOptions()
    cloning.use_cuvs = kind == "cagra"  # cuVS's inverted lists can't be told which ones to probe
    return faiss.index_cpu_to_gpu(_resources(faiss), torch.cuda.current_device(), ann, cloning)


def cagra(faiss: Any, inner: ExactIndex, options: dict[str, int | None]) -> Any:
    """A new CAGRA graph on the current GPU."""
    config = faiss.GpuIndexCagraConfig()
    config.device = torch.cuda.current_device()
    config.graph_degree = options["graph_degree"] or 64
    config.intermediate_graph_degree = 2 * config.graph_degree
    ann = faiss.GpuIndexCagra(_resources(faiss), inner.dimension, faiss.METRIC_INNER_PRODUCT, config)
    rows = unit(inner, slice(None))
    ann.train_c(inner.size, floats(faiss, rows))
    return ann


@cache
def _resources(faiss: Any) -> Any:
    return faiss.StandardGpuResources()  # holds 1.5 GiB of scratch a device: one for the process
