"""Approximate search: FAISS proposes rows, the exact formula scores and orders them.

| kind  | device     | FAISS index                         | options (default)                                          |
|-------|------------|-------------------------------------|------------------------------------------------------------|
| hnsw  | CPU        | HNSW graph over float16 copies      | M (32), ef_construction (200), ef_search (max(2 k, 128))   |
| ivf   | CPU, CUDA  | inverted lists of float32 copies    | nlist (4 sqrt(V)), nprobe (nlist / 10)                     |
| pq    | CPU        | inverted lists of product codes     | nlist, nprobe, m code bytes a row (D / 8)                  |
| flat  | CUDA       | none: brute force over the vectors  |                                                            |
| cagra | CUDA, cuVS | CAGRA graph                         | graph_degree (64), itopk_size (k proposals)                |

Every kind takes `overfetch`: k * overfetch rows are proposed, k + 24 at least. FAISS's numbers are dropped: distances
and order are those of `ExactIndex`, so a wrong proposal can only leave a row out. Which rows are proposed depends on k;
it doesn't depend on the other queries of a batch: the lists to probe are chosen by an exact search over the centroids.
A graph (hnsw) built on several threads may differ from one build to the next; a saved one doesn't change.

Collections of fewer than 256 rows are always searched exactly, as is a query that asks for more than 5 % of the rows.

The CUDA paths follow FAISS's documentation and sources and haven't been run: they are untested without a GPU.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from math import ceil
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import torch

from tercet.errors import InvalidArgument, MissingDependency, StoreError
from tercet.index.exact import ExactIndex
from tercet.index.options import ON_CPU, ON_CUDA, names, resolve

SMALL = 256  # rows; product codes can't be trained on fewer
SLACK = 24  # rows proposed beyond k
FAR = torch.iinfo(torch.int32).max
TRAINING = 64  # rows a centroid
SLICE = 1 << 16  # rows added at a time
cuda_lock = Lock()  # FAISS's GPU resources serve one call at a time


@dataclass(frozen=True, eq=False)
class FaissIndex:
    """An approximate index over the vectors of an inner `ExactIndex`; made by `FaissIndex.build`.

    On the CPU a "flat" or "cagra" index only rests: it can be saved and moved, not searched.
    """

    kind: str
    inner: ExactIndex
    options: dict[str, int | None]
    ann: Any = None  # the FAISS index: none for "flat", below SMALL rows, and before "cagra" reaches a GPU
    centroids: ExactIndex | None = None  # of the inverted lists

    @classmethod
    def build(
        cls, kind: str, vectors: torch.Tensor, scale: torch.Tensor | None, hidden: torch.Tensor | None, **options: Any
    ) -> "FaissIndex":
        """Train and fill an index of unit vectors.

        Args:
            kind: a key of `tercet.index.options.OPTIONS`; options: positive integers, see the table above; nlist and nprobe are cut at what
                the collection allows.

        Raises:
            InvalidArgument: an unknown option (the known ones are listed), a wrong value, `m` doesn't divide D.
            MissingDependency: FAISS isn't installed, or this build can't serve the kind.
        """
        inner = ExactIndex.build(vectors, scale, hidden).to(torch.device("cpu"))
        chosen = resolve(kind, options, inner.size, inner.dimension)
        faiss = _faiss(kind) if kind in ON_CPU else _cuda_faiss(kind)
        ann = None
        if kind in ON_CPU and inner.size >= SMALL:
            with _threads(faiss):
                ann = _filled(faiss, kind, inner, chosen)
        return cls(kind, inner, chosen, ann, _lists(ann)).to(vectors.device)

    @property
    def size(self) -> int:
        return self.inner.size

    @property
    def dimension(self) -> int:
        return self.inner.dimension

    @property
    def hides(self) -> bool:
        return self.inner.hides

    @property
    def error(self) -> float:
        return self.inner.error

    def pairs(self, queries: torch.Tensor, query: torch.Tensor, row: torch.Tensor) -> torch.Tensor:
        return self.inner.pairs(queries, query, row)

    def approximate(self, queries: torch.Tensor) -> torch.Tensor:
        return self.inner.approximate(queries)

    def dense(self, queries: torch.Tensor) -> torch.Tensor:
        return self.inner.dense(queries)

    def search(
        self,
        queries: torch.Tensor,
        k: int,
        allowed: torch.Tensor | None = None,
        allowed_row: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The k nearest rows that FAISS finds, with their exact distances.

        Arguments and shapes as in `ExactIndex.search`. A query whose mask admits m rows gets min(k, m) of them: one that
        FAISS leaves short is searched exactly. So is a mask that keeps few rows (under 5 %, or 4 k + 1000), and any
        mask on CUDA, where FAISS ignores selectors. Rows at equal distances around the k-th are FAISS's choice.

        Raises:
            InvalidArgument: the kind can't be searched where the index is.
        """
        device = self.inner.vectors.device
        if device.type == "cpu" and self.kind not in ON_CPU:
            raise InvalidArgument(
                f"index {self.kind!r} is searched on CUDA; on the CPU there are exact, {names(ON_CPU)}"
            )
        k = min(k, self.size)
        take = min(max(k * (self.options["overfetch"] or 1), k + SLACK), self.size)
        if device.type == "cuda":
            take = min(take, ON_CUDA[self.kind])
        if self.size < SMALL or not k or k > take or k > self.size // 20 or not queries.shape[0]:
            return self.inner.search(queries, k, allowed, allowed_row)
        rows = queries.new_full((queries.shape[0], k), -1, dtype=torch.int32)
        distances = queries.new_full((queries.shape[0], k), torch.inf)
        short = torch.zeros(queries.shape[0], dtype=torch.bool, device=device)
        for mask, members in _by_mask(queries, allowed, allowed_row):
            shown = (
                mask if self.inner.hidden is None else ~self.inner.hidden if mask is None else mask & ~self.inner.hidden
            )
            admitted = self.size if shown is None else int(shown.sum())  # host sync
            if mask is not None and shown is not None and admitted < max(4 * k + 1000, self.size // 20):
                near, distance = self._among(queries[members], k, torch.nonzero(shown).flatten())
            elif mask is not None and device.type == "cuda":
                short[members] = True
                continue
            else:
                near = self._propose(queries[members], k, take, None if mask is None else shown, admitted)
                near, distance = self._nearest(queries[members], k, near)
                short[members] = (near >= 0).sum(dim=1) < min(k, admitted)
            rows[members, : near.shape[1]], distances[members, : near.shape[1]] = near, distance
        left = torch.nonzero(short).flatten()  # host sync
        if left.shape[0]:
            row_of = None if allowed_row is None else allowed_row[left]
            rows[left], distances[left] = self.inner.search(queries[left], k, allowed, row_of)
        return rows, distances

    def _among(self, queries: torch.Tensor, k: int, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The nearest of chosen rows (m,) int64, exactly; min(k, m) columns."""
        scale = None if self.inner.scale is None else self.inner.scale[rows]
        near, distance = ExactIndex(self.inner.vectors[rows], scale).search(queries, k)
        return torch.where(near < 0, -1, rows[near.clamp(min=0).long()]).int(), distance

    def _nearest(self, queries: torch.Tensor, k: int, near: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The k nearest of the proposals (B, take), by (distance, row); -1 and +inf where there are fewer."""
        query = torch.arange(near.shape[0], dtype=torch.int32, device=near.device).repeat_interleave(near.shape[1])
        distance = self.inner.pairs(queries, query, near.clamp(min=0).flatten()).view(near.shape)
        absent = (near < 0) | ~torch.isfinite(distance)
        near, order = near.masked_fill(absent, FAR).sort(dim=1)
        distance, order = distance.masked_fill(absent, torch.inf).gather(1, order).sort(dim=1, stable=True)
        near = near.gather(1, order)[:, :k]
        return torch.where(near == FAR, -1, near), distance[:, :k]

    def _propose(
        self, queries: torch.Tensor, k: int, take: int, shown: torch.Tensor | None, admitted: int
    ) -> torch.Tensor:
        """(B, take) int32 rows that FAISS finds, in no order, -1 where it finds fewer."""
        faiss = _faiss(self.kind)
        queries = queries.contiguous()
        selector = None
        if shown is not None:
            selector = faiss.IDSelectorBitmap(np.packbits(shown.numpy(), bitorder="little"))
        # a mask that keeps a tenth of the rows is searched ten times as wide: as many admitted rows are looked at
        wider = 1.0 if selector is None else self.size / admitted
        if queries.is_cuda:
            with cuda_lock, _on_stream(faiss, queries.device):
                found = self._call(faiss, queries, k, take, selector, wider)
        else:
            with _threads(faiss):
                found = self._call(faiss, queries, k, take, selector, wider)
        return torch.where((found >= 0) & (found < self.size), found, -1).int()

    def _call(self, faiss: Any, queries: torch.Tensor, k: int, take: int, selector: Any, wider: float) -> torch.Tensor:
        # FAISS's C++ calls: its Python ones drop the parameters of preassigned lists, and lose those of every search
        # once faiss.contrib.torch_utils is imported anywhere
        found = torch.full((queries.shape[0], take), -1, dtype=torch.int64, device=queries.device)
        similarity = torch.empty(found.shape, device=queries.device)
        out = take, _floats(faiss, similarity), _ids(faiss, found)
        if self.kind == "flat":
            _brute_force(faiss, queries.to(self.inner.vectors.dtype), self.inner.vectors, *out)
            return found
        x = _floats(faiss, queries)
        if self.centroids is not None:
            nprobe = min(ceil((self.options["nprobe"] or 1) * wider), self.centroids.size)
            if queries.is_cuda:
                nprobe = min(nprobe, ON_CUDA["ivf"])
            probe, distance = self.centroids.search(queries, nprobe)
            lists, closeness = probe.long(), 1.0 - distance
            params = faiss.SearchParametersIVF(nprobe=nprobe, sel=selector)
            self.ann.search_preassigned_c(
                len(queries), x, take, _ids(faiss, lists), _floats(faiss, closeness), *out[1:], False, params
            )
        elif self.kind == "hnsw":
            ef = ceil(max(self.options["ef_search"] or max(2 * k, 128), take) * wider)
            self.ann.search_c(len(queries), x, *out, faiss.SearchParametersHNSW(efSearch=ef, sel=selector))
        else:
            width = max(take, self.options["itopk_size"] or 64)
            self.ann.search_c(len(queries), x, *out, faiss.SearchParametersCagra(itopk_size=-(-width // 32) * 32))
        return found

    def to(self, device: torch.device) -> "FaissIndex":
        """The same index on another device; FAISS's part goes along.

        Raises:
            InvalidArgument: the kind doesn't exist there (hnsw and pq on CUDA).
            MissingDependency: this FAISS has no CUDA, no GPU is visible, or it lacks cuVS (cagra).
        """
        here = self.inner.vectors.device
        if device.type == here.type and device.index in (None, here.index):
            return self
        if device.type == "cpu":
            ann = None if self.ann is None else _faiss(self.kind).index_gpu_to_cpu(self.ann)
            return replace(self, inner=self.inner.to(device), ann=ann, centroids=_lists(ann))
        if device.type != "cuda" or self.kind not in ON_CUDA:
            raise InvalidArgument(
                f"index {self.kind!r} can't move to {device.type!r}; on CUDA there are exact, {names(ON_CUDA)}, on the CPU "
                f"exact, {names(ON_CPU)}: build another, or use device='cpu'"
            )
        if here.type == "cuda":
            return self.to(torch.device("cpu")).to(device)
        faiss = _cuda_faiss(self.kind)
        inner = self.inner.to(device)
        with cuda_lock, _on_stream(faiss, inner.vectors.device):
            ann = _cuda_ann(faiss, self.kind, inner, self.options, self.ann)
        return replace(
            self, inner=inner, ann=ann, centroids=None if self.centroids is None else self.centroids.to(device)
        )

    def save(self, folder: Path) -> None:
        """Write the vectors as .npy files, `index.faiss` where there is a FAISS index, and `options.json`."""
        self.inner.save(folder)
        (folder / "options.json").write_text(json.dumps(self.options), encoding="utf-8")
        if self.ann is not None:
            at_rest = self.to(torch.device("cpu"))
            _faiss(self.kind).write_index(at_rest.ann, str(folder / "index.faiss"))

    @classmethod
    def load(cls, kind: str, folder: Path) -> "FaissIndex":
        """Read what `save` wrote; vectors are mapped, FAISS's part is read."""
        inner = ExactIndex.load(folder)
        file = folder / "index.faiss"
        ann = _faiss(kind).read_index(str(file)) if file.exists() else None
        if ann is not None and (ann.ntotal, ann.d) != (inner.size, inner.dimension):
            raise StoreError(f"{file}: expected {inner.size} rows of {inner.dimension}, found {ann.ntotal} of {ann.d}")
        options = json.loads((folder / "options.json").read_text(encoding="utf-8"))
        return cls(kind, inner, options, ann, _lists(ann))


def _by_mask(
    queries: torch.Tensor, allowed: torch.Tensor | None, allowed_row: torch.Tensor | None
) -> Iterator[tuple[torch.Tensor | None, torch.Tensor]]:
    """Each mask that is used, None for none, and its queries."""
    if allowed is None or allowed_row is None:
        yield None, torch.arange(queries.shape[0], device=queries.device)
        return
    for row in torch.unique(allowed_row).tolist():  # host sync
        yield None if row < 0 else allowed[row], torch.nonzero(allowed_row == row).flatten()


def _faiss(kind: str) -> Any:
    # after torch, which is imported above: the other way round has given wrong results on a GPU
    try:
        return import_module("faiss")
    except ImportError as error:
        raise MissingDependency(
            f"index {kind!r} needs FAISS, which isn't installed: install 'tercet[cpu]' or 'tercet[gpu]'"
        ) from error


def _cuda_faiss(kind: str) -> Any:
    faiss = _faiss(kind)
    if faiss.get_num_gpus() == 0:
        raise MissingDependency(
            f"index {kind!r} on CUDA needs a FAISS build with CUDA and a visible GPU ('tercet[gpu]' in place of faiss-cpu); "
            f"this FAISS sees no GPU; on the CPU there are exact, {names(ON_CPU)}"
        )
    if kind == "cagra" and not hasattr(faiss, "GpuIndexCagra"):
        raise MissingDependency("index 'cagra' needs a FAISS build with cuVS; this one has flat and ivf")
    return faiss


@contextmanager
def _threads(faiss: Any) -> Iterator[None]:
    """As many threads as torch uses: FAISS has an OpenMP pool of its own, sized for each calling thread."""
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(torch.get_num_threads())
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)


@cache
def _resources(faiss: Any) -> Any:
    return faiss.StandardGpuResources()  # holds 1.5 GiB of scratch a device: one for the process


@contextmanager
def _on_stream(faiss: Any, device: torch.device) -> Iterator[None]:
    """FAISS's work in the order of torch's current stream."""
    with torch.cuda.device(device):
        stream = faiss.cast_integer_to_cudastream_t(torch.cuda.current_stream(device).cuda_stream)
        _resources(faiss).setDefaultStream(torch.cuda.current_device(), stream)
        yield


def _floats(faiss: Any, tensor: torch.Tensor) -> Any:
    return faiss.cast_integer_to_float_ptr(tensor.data_ptr())


def _ids(faiss: Any, tensor: torch.Tensor) -> Any:
    return faiss.cast_integer_to_idx_t_ptr(tensor.data_ptr())


def _rows(inner: ExactIndex, part: Any) -> torch.Tensor:
    """Chosen rows as float32 of unit norm."""
    rows = inner.vectors[part]
    return rows.contiguous() if inner.scale is None else (rows.double() * inner.scale[part, None]).float()


def _filled(faiss: Any, kind: str, inner: ExactIndex, options: dict[str, int | None]) -> Any:
    """A FAISS index on the CPU, trained and filled."""
    width, metric, nlist = inner.dimension, faiss.METRIC_INNER_PRODUCT, options.get("nlist") or 1
    if kind == "hnsw":
        ann = faiss.IndexHNSWSQ(width, faiss.ScalarQuantizer.QT_fp16, options["M"], metric)
        ann.hnsw.efConstruction = options["ef_construction"]
    elif kind == "ivf":
        ann = faiss.IndexIVFFlat(faiss.IndexFlatIP(width), width, nlist, metric)
    else:
        ann = faiss.IndexIVFPQ(faiss.IndexFlatIP(width), width, nlist, options["m"], 8, metric)
        ann.pq.cp.max_points_per_centroid = TRAINING
        ann.pq.cp.min_points_per_centroid = 1
    if kind != "hnsw":
        ann.cp.min_points_per_centroid = 1  # no warning on standard error
    sample = torch.arange(inner.size)
    if (most := TRAINING * max(nlist, 256)) < inner.size:
        sample = torch.randperm(inner.size, generator=torch.Generator().manual_seed(0))[:most].sort().values
    ann.train(_rows(inner, sample).numpy())
    for start in range(0, inner.size, SLICE):
        ann.add(_rows(inner, slice(start, start + SLICE)).numpy())
    return ann


def _lists(ann: Any) -> ExactIndex | None:
    """The centroids of inverted lists, which are set to share the queries of a call among threads."""
    if not hasattr(ann, "nlist"):
        return None
    ann.parallel_mode = 3
    centroids = np.empty((ann.nlist, ann.d), dtype=np.float32)
    ann.quantizer.reconstruct_n(0, ann.nlist, centroids)
    return ExactIndex(torch.from_numpy(centroids))


def _cuda_ann(faiss: Any, kind: str, inner: ExactIndex, options: dict[str, int | None], ann: Any) -> Any:
    """FAISS's index on the GPU: the copy of one from the CPU, or a new CAGRA graph."""
    if kind == "flat" or inner.size < SMALL:
        return None
    device = inner.vectors.device.index
    if ann is not None:
        cloning = faiss.GpuClonerOptions()
        cloning.use_cuvs = kind == "cagra"  # cuVS's inverted lists can't be told which lists to probe
        return faiss.index_cpu_to_gpu(_resources(faiss), device, ann, cloning)
    config = faiss.GpuIndexCagraConfig()
    config.device = device
    config.graph_degree = options["graph_degree"]
    config.intermediate_graph_degree = 2 * config.graph_degree
    ann = faiss.GpuIndexCagra(_resources(faiss), inner.dimension, faiss.METRIC_INNER_PRODUCT, config)
    rows = _rows(inner, slice(None))
    ann.train_c(inner.size, _floats(faiss, rows))
    return ann


def _brute_force(
    faiss: Any, queries: torch.Tensor, vectors: torch.Tensor, take: int, similarity: Any, found: Any
) -> None:
    """FAISS's brute force over a tensor on the GPU, without a copy of it; float16 rows count as if of unit norm."""
    args = faiss.GpuDistanceParams()
    args.metric, args.k, args.dims, args.device = (
        faiss.METRIC_INNER_PRODUCT,
        take,
        vectors.shape[1],
        vectors.device.index,
    )
    args.vectorType = args.queryType = (
        faiss.DistanceDataType_F16 if vectors.dtype == torch.float16 else faiss.DistanceDataType_F32
    )
    args.vectors, args.vectorsRowMajor, args.numVectors = _floats(faiss, vectors), True, vectors.shape[0]
    args.queries, args.queriesRowMajor, args.numQueries = _floats(faiss, queries), True, queries.shape[0]
    args.outDistances, args.outIndices, args.outIndicesType = similarity, found, faiss.IndicesDataType_I64
    args.use_cuvs = False
    faiss.bfKnn(_resources(faiss), args)
