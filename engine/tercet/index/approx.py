"""Approximate search: FAISS proposes rows, the exact formula scores and orders them.

| kind  | device     | FAISS index                        | options (default)                                        |
|-------|------------|------------------------------------|----------------------------------------------------------|
| hnsw  | CPU        | HNSW graph over float16 copies     | M (32), ef_construction (200), ef_search (max(2k, 128))  |
| ivf   | CPU, CUDA  | inverted lists of float32 copies   | nlist (4 sqrt(V)), nprobe (nlist / 10)                   |
| pq    | CPU        | inverted lists of product codes    | nlist, nprobe, m: bytes of code a row (D / 8)            |
| flat  | CUDA       | none: brute force over the vectors |                                                          |
| cagra | CUDA, cuVS | CAGRA graph                        | graph_degree (64), itopk_size (what is proposed)         |

Every kind takes `overfetch` too: k * overfetch rows are proposed, k + 24 at least. FAISS's numbers are dropped:
distances and order are those of `ExactIndex`, so a poor proposal can only leave a row out. Which rows are proposed
depends on k but not on the rest of the batch: the lists to probe are chosen by an exact search over the centroids.
An hnsw graph that is built on several threads may differ from one build to the next. With the defaults, recall@100 on
107,622 names (MiniLM, D = 384) was 0.98 for hnsw, 0.96 for ivf and 0.93 for pq.

Collections of fewer than 256 rows are searched exactly, and so are queries for more than 5 % of the rows.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib import import_module
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tercet.errors import InvalidArgument, MissingDependency, StoreError
from tercet.index import faiss_cpu, faiss_cuda
from tercet.index.exact import ExactIndex
from tercet.index.options import ON_CPU, ON_CUDA, names, resolve

SMALL = 256  # rows; product codes can't be learnt from fewer
SLACK = 24  # rows proposed beyond k
FEW = {"hnsw": 8}  # a mask that keeps less than this part of the rows is searched exactly: measured break-even
FEW_ELSE = 20
FAR = torch.iinfo(torch.int32).max


@dataclass(frozen=True, eq=False)
class FaissIndex:
    """An approximate index over the vectors of an inner `ExactIndex`; made by `FaissIndex.build`.

    A "flat" or "cagra" index only rests on the CPU: it can be saved and moved, not searched.
    """

    kind: str
    inner: ExactIndex
    options: dict[str, int | None]
    ann: Any = None  # the FAISS index; none for "flat", below SMALL rows, and until "cagra" reaches a GPU
    centroids: ExactIndex | None = None  # of the inverted lists

    @classmethod
    def build(
        cls, kind: str, vectors: torch.Tensor, scale: torch.Tensor | None, hidden: torch.Tensor | None, **options: Any
    ) -> "FaissIndex":
        """Train and fill an index of unit vectors.

        Args:
            kind: hnsw, ivf, pq, flat or cagra.
            vectors, scale, hidden: as in `ExactIndex`.
            options: positive integers, see the table above; nlist and nprobe are cut at what the collection has.

        Raises:
            InvalidArgument: an unknown option (the known ones are listed), a wrong value, or `m` doesn't divide D.
            MissingDependency: FAISS isn't installed, or this FAISS can't serve the kind.
        """
        inner = ExactIndex.build(vectors, scale, hidden).to(torch.device("cpu"))
        chosen = resolve(kind, options, inner.size, inner.dimension)
        faiss, ann = _faiss(kind), None
        if kind not in ON_CPU:
            faiss_cuda.check(faiss, kind)
        elif inner.size >= SMALL:
            with faiss_cpu.threads(faiss):
                ann = faiss_cpu.filled(faiss, kind, inner, chosen)
        return cls(kind, inner, chosen, ann, faiss_cpu.lists(ann)).to(vectors.device)

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
        """The k nearest of the rows that FAISS finds, with their exact distances.

        Arguments and shapes as in `ExactIndex.search`. A query that may see m rows gets min(k, m) of them: one that
        FAISS leaves short is searched exactly. So is one whose mask keeps few rows (under 5 %, 12.5 % for hnsw, or
        under 4 k + 1000), and on CUDA, where FAISS ignores selectors, one with any mask. Which of several rows at the
        distance of the k-th are returned is FAISS's choice.

        Raises:
            InvalidArgument: the kind can't be searched on the device that the index is on.
        """
        device = self.inner.vectors.device
        if device.type == "cpu" and self.kind not in ON_CPU:
            raise InvalidArgument(f"index {self.kind!r} is searched on CUDA; the CPU has exact, {names(ON_CPU)}")
        k = min(k, self.size)
        take = min(max(k * (self.options["overfetch"] or 1), k + SLACK), self.size)
        if device.type == "cuda":
            take = min(take, ON_CUDA[self.kind])
        if self.size < SMALL or not 0 < k <= min(take, self.size // 20) or not queries.shape[0]:
            return self.inner.search(queries, k, allowed, allowed_row)
        rows = queries.new_full((queries.shape[0], k), -1, dtype=torch.int32)
        distances = queries.new_full((queries.shape[0], k), torch.inf)
        short = torch.zeros(queries.shape[0], dtype=torch.bool, device=device)
        few = max(4 * k + 1000, self.size // FEW.get(self.kind, FEW_ELSE))
        shown = torch.ones(self.size, dtype=torch.bool, device=device)
        shown = shown if self.inner.hidden is None else ~self.inner.hidden
        for mask, members in _by_mask(queries, allowed, allowed_row):
            seen = shown if mask is None else shown & mask
            m = int(seen.sum())  # host sync
            if mask is not None and m < few:
                near, distance = self._among(queries[members], k, torch.nonzero(seen).flatten())
            elif mask is not None and device.type == "cuda":
                short[members] = True
                continue
            else:
                near = self._propose(queries[members], k, take, None if mask is None else seen)
                near, distance = self._nearest(queries[members], k, near)
                short[members] = (near >= 0).sum(dim=1) < min(k, m)
            rows[members, : near.shape[1]], distances[members, : near.shape[1]] = near, distance
        left = torch.nonzero(short).flatten()  # host sync
        if left.shape[0]:
            row_of = None if allowed_row is None else allowed_row[left]
            rows[left], distances[left] = self.inner.search(queries[left], k, allowed, row_of)
        return rows, distances

    def _among(self, queries: torch.Tensor, k: int, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The nearest of chosen rows (m,) int64, exactly: min(k, m) columns."""
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

    def _propose(self, queries: torch.Tensor, k: int, take: int, seen: torch.Tensor | None) -> torch.Tensor:
        """(B, take) int32 rows that FAISS finds among those seen, in no order; -1 where it finds fewer."""
        faiss, queries = _faiss(self.kind), queries.contiguous()
        found = torch.full((queries.shape[0], take), -1, dtype=torch.int64, device=queries.device)
        with faiss_cuda.on_stream(faiss, queries.device) if queries.is_cuda else faiss_cpu.threads(faiss):
            if self.kind == "flat":
                faiss_cuda.brute_force(faiss, queries, self.inner.vectors, found)
            else:
                self._call(faiss, queries, self._parameters(faiss, k, take, seen), found)
        return torch.where((found >= 0) & (found < self.size), found, -1).int()

    def _parameters(self, faiss: Any, k: int, take: int, seen: torch.Tensor | None) -> Any:
        selector, part = None, 1.0
        if seen is not None:
            selector = faiss.IDSelectorBitmap(np.packbits(seen.numpy(), bitorder="little"))
            part = float(seen.float().mean())
        # a mask leaves fewer rows to find where FAISS looks, so it looks further: measured to keep the recall
        if self.centroids is not None:
            most = min(self.centroids.size, ON_CUDA["ivf"] if self.inner.vectors.is_cuda else self.centroids.size)
            nprobe = min(ceil((self.options["nprobe"] or 1) / part**0.5), most)
            return faiss.SearchParametersIVF(nprobe=nprobe, sel=selector)
        if self.kind == "hnsw":
            ef = max(self.options["ef_search"] or max(2 * k, 128), take)
            return faiss.SearchParametersHNSW(efSearch=ceil(ef / part), sel=selector)
        width = max(take, self.options["itopk_size"] or 64)
        return faiss.SearchParametersCagra(itopk_size=-(-width // 32) * 32)  # a multiple of 32

    def _call(self, faiss: Any, queries: torch.Tensor, params: Any, found: torch.Tensor) -> None:
        # FAISS's C++ calls take tensors of either device. Its Python ones drop the parameters of preassigned lists,
        # and refuse those of any search once somebody imports faiss.contrib.torch_utils.
        similarity = torch.empty(found.shape, device=queries.device)
        x, out = faiss_cpu.floats(faiss, queries), (faiss_cpu.floats(faiss, similarity), faiss_cpu.ids(faiss, found))
        if self.centroids is None:
            self.ann.search_c(len(queries), x, found.shape[1], *out, params)
            return
        probe, distance = self.centroids.search(queries, params.nprobe)
        lists, closeness = probe.long(), 1.0 - distance
        given = faiss_cpu.ids(faiss, lists), faiss_cpu.floats(faiss, closeness)
        self.ann.search_preassigned_c(len(queries), x, found.shape[1], *given, *out, False, params)

    def to(self, device: torch.device) -> "FaissIndex":
        """The same index on another device; FAISS's part goes along.

        Raises:
            InvalidArgument: the kind doesn't exist there (hnsw and pq on CUDA).
            MissingDependency: this FAISS has no CUDA, sees no GPU, or lacks cuVS (cagra).
        """
        here = self.inner.vectors.device
        if device.type == here.type and device.index in (None, here.index):
            return self
        if device.type == "cpu":
            ann = None if self.ann is None else _faiss(self.kind).index_gpu_to_cpu(self.ann)
            return replace(self, inner=self.inner.to(device), ann=ann, centroids=faiss_cpu.lists(ann))
        if device.type != "cuda" or self.kind not in ON_CUDA:
            raise InvalidArgument(
                f"index {self.kind!r} can't be on {device.type!r}: CUDA has exact, {names(ON_CUDA)}; the CPU has "
                f"exact, {names(ON_CPU)}. Build another index or use the CPU"
            )
        if here.type == "cuda":
            return self.to(torch.device("cpu")).to(device)
        faiss = _faiss(self.kind)
        faiss_cuda.check(faiss, self.kind)
        inner, ann = self.inner.to(device), None
        if self.kind != "flat" and self.size >= SMALL:
            with faiss_cuda.on_stream(faiss, inner.vectors.device):
                ann = (
                    faiss_cuda.moved(faiss, self.kind, self.ann)
                    if self.ann
                    else faiss_cuda.cagra(faiss, inner, self.options)
                )
        centroids = None if self.centroids is None else self.centroids.to(device)
        return replace(self, inner=inner, ann=ann, centroids=centroids)

    def save(self, folder: Path) -> None:
        """Write the vectors as .npy files, the options, and `index.faiss` where there is a FAISS index."""
        self.inner.save(folder)
        (folder / "options.json").write_text(json.dumps(self.options), encoding="utf-8")
        if self.ann is not None:
            ann = self.to(torch.device("cpu")).ann
            _faiss(self.kind).write_index(ann, str(folder / "index.faiss"))

    @classmethod
    def load(cls, kind: str, folder: Path) -> "FaissIndex":
        """Read what `save` wrote; the vectors are mapped, FAISS's part is read."""
        inner, file = ExactIndex.load(folder), folder / "index.faiss"
        ann = _faiss(kind).read_index(str(file)) if file.exists() else None
        if ann is not None and (ann.ntotal, ann.d) != (inner.size, inner.dimension):
            raise StoreError(f"{file}: expected {inner.size} rows of {inner.dimension}, found {ann.ntotal} of {ann.d}")
        options = json.loads((folder / "options.json").read_text(encoding="utf-8"))
        return cls(kind, inner, options, ann, faiss_cpu.lists(ann))


def _by_mask(
    queries: torch.Tensor, allowed: torch.Tensor | None, allowed_row: torch.Tensor | None
) -> Iterator[tuple[torch.Tensor | None, torch.Tensor]]:
    """Each mask in use, None for none, with its queries."""
    if allowed is None or allowed_row is None:
        yield None, torch.arange(queries.shape[0], device=queries.device)
        return
    for row in torch.unique(allowed_row).tolist():  # host sync
        yield None if row < 0 else allowed[row], torch.nonzero(allowed_row == row).flatten()


def _faiss(kind: str) -> Any:
    try:  # after torch, which is imported above: the other way round has given wrong results on GPUs
        return import_module("faiss")
    except ImportError as error:
        raise MissingDependency(
            f"index {kind!r} needs FAISS, which isn't installed: install 'tercet[cpu]' or 'tercet[gpu]'"
        ) from error
