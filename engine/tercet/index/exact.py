"""Exact search: products of reduced precision find candidates, a bound proves them, one fixed-order formula decides."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch

from tercet.arrays import read_array
from tercet.errors import StoreError
from tercet.index.codes import read_codes, write_codes
from tercet_kernels.cosine import least_distances, pair_distances
from tercet_kernels.nearest import BYTES, Codes, dense, dense_error, encode, nearest
from tercet_kernels.outranked import outranked, pays

TILE_BYTES = 16 << 20  # scores of one tile of rows
PAIRS = 1 << 22  # exact distances computed at a time
SLACK = 24  # rows taken beyond k before the exact cut
FEW = 16  # queries for which reading the rows costs more than multiplying them, without an instruction for bytes
UNIT_ROUNDOFF = {"highest": 2.0**-24, "high": 2.0**-11, "medium": 2.0**-8}


def by_codes(queries: int, half: bool) -> bool:
    """Whether a search on the CPU reads int8 codes instead of the rows: always where the processor multiplies bytes."""
    return BYTES or half or queries <= FEW


@dataclass(frozen=True, eq=False)
class ExactIndex:
    """All rows of a collection, searched without approximation on any device.

    The nearest rows come by (distance, row). Distances are those of `pair_distances`, so they are the same bits for a
    query alone and in any batch; products only propose. A cut is certified: a row left out has an approximate distance
    so large that its exact one can't be within the cut. On the CPU `tercet_kernels.nearest` does that in one pass; on
    CUDA a matrix product takes some rows more than asked for, and a query whose margin can't prove the cut is
    searched again with more.
    """

    vectors: torch.Tensor  # (V, D) float32 unit norm, or float16 with scale
    scale: torch.Tensor | None = None  # (V,) float64 reciprocal norms of float16 rows
    hidden: torch.Tensor | None = None  # (V,) bool rows that are never returned
    stored: Codes | None = None  # the rows as int8, where they came with the rows

    @classmethod
    def build(cls, vectors: torch.Tensor, scale: torch.Tensor | None, hidden: torch.Tensor | None) -> "ExactIndex":
        return cls(vectors.contiguous(), scale, hidden)

    kind = "exact"

    @property
    def size(self) -> int:
        return self.vectors.shape[0]

    @property
    def dimension(self) -> int:
        return self.vectors.shape[1]

    @property
    def hides(self) -> bool:
        """Whether some rows are never returned."""
        return self.hidden is not None

    @property
    def error(self) -> float:
        """A bound on |approximate - exact distance|; of a matrix product, see Higham 2002, section 3.1."""
        if self.vectors.device.type == "cpu" and self.scale is None:
            return dense_error(self.dimension)
        unit = UNIT_ROUNDOFF[torch.get_float32_matmul_precision()]
        product = 1.05 * (self.dimension + 4) * unit
        if self.vectors.device.type == "cpu" or self.scale is None:
            return product
        from tercet.index.cuda_search import split_error

        return max(product, split_error(self.dimension))

    def to(self, device: torch.device) -> "ExactIndex":
        if device == self.vectors.device:
            return self
        move = lambda x: None if x is None else x.to(device)  # noqa: E731
        return ExactIndex(self.vectors.to(device), move(self.scale), move(self.hidden))

    def search(
        self,
        queries: torch.Tensor,
        k: int,
        allowed: torch.Tensor | None = None,
        allowed_row: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The k nearest rows of each query.

        Args:
            queries: (B, D) float32 unit norm.
            k: at least 1; more than V gives V rows.
            allowed: (F, V) bool masks; allowed_row: (B,) int32 mask of each query, -1 for none.

        Returns:
            rows (B, min(k, V)) int32, -1 where there is none; distances float32, +inf there.
        """
        k = min(k, self.size)
        if queries.device.type == "cpu" and k:
            coded = by_codes(queries.shape[0], self.scale is not None)
            return nearest(
                self.vectors, queries, k, scale=self.scale, hidden=self.hidden, allowed=allowed,
                allowed_row=allowed_row, codes=self.codes if coded else None,
            )  # fmt: skip
        from tercet.index import cuda_search  # it searches this index's rows with FAISS too

        rows = queries.new_full((queries.shape[0], k), -1, dtype=torch.int32)
        distances = queries.new_full((queries.shape[0], k), torch.inf)
        open_ = torch.arange(queries.shape[0], device=queries.device)
        take = min(k + SLACK + k // 8, self.size)
        while open_.shape[0] and k:
            row_of = None if allowed_row is None else allowed_row[open_]
            near, approximate = cuda_search.propose(
                self.vectors, queries[open_], take, self.scale, self.hidden, allowed, row_of
            )
            exact = self._exact(queries[open_], near)
            # rows ascend by (distance, row): sort by row first, then stably by distance
            by_row = torch.where(near < 0, torch.iinfo(torch.int32).max, near).sort(dim=1)
            exact, order = exact.gather(1, by_row.indices).sort(dim=1, stable=True)
            near = near.gather(1, by_row.indices).gather(1, order)
            rows[open_], distances[open_] = near[:, :k], exact[:, :k]
            if take == self.size:
                break
            # host sync: whether any query needs more rows
            proven = (exact[:, k - 1] < approximate[:, -1] - self.error) | ~torch.isfinite(approximate[:, -1])
            open_ = open_[~proven]
            take = min(take * 4, self.size)
        return rows, distances

    def outranked(self, queries: torch.Tensor, distance: torch.Tensor, wide: torch.Tensor) -> torch.Tensor | None:
        """(B,) bool: True where at least `wide` (B,) rows are proven to be nearer than `distance` (B,); None where that
        costs as much as a search does."""
        if self.vectors.device.type != "cpu" or not pays(self.size):
            return None
        return outranked(self.codes, queries, distance, wide, self.hidden)

    @cached_property
    def codes(self) -> Codes:
        """The rows as int8, a quarter of their float32 bytes; made at the first search that reads them or stored."""
        return encode(self.vectors, self.scale) if self.stored is None else self.stored

    def pairs(self, queries: torch.Tensor, query: torch.Tensor, row: torch.Tensor) -> torch.Tensor:
        """(P,) float32 exact distances of (query, row) pairs; +inf for hidden rows."""
        out = pair_distances(queries, self.vectors, query, row, self.scale)
        return out if self.hidden is None else out.masked_fill(self.hidden[row.long()], torch.inf)

    def least_distances(self, queries: torch.Tensor, indptr: torch.Tensor, row: torch.Tensor) -> torch.Tensor:
        """(B,) float32 the smallest exact distance of each query to rows of its own, hidden ones too."""
        return least_distances(queries, self.vectors, indptr, row, self.scale)

    def approximate(self, queries: torch.Tensor) -> torch.Tensor:
        """(B, V) float32 distances within `error` of the exact ones; +inf for hidden rows."""
        if queries.device.type == "cpu" and self.scale is None:
            close = dense(self.vectors, queries)
            return close if self.hidden is None else close.masked_fill_(self.hidden, torch.inf)
        out = torch.empty(queries.shape[0], self.size, device=queries.device)
        for part, tile in self._tiles(queries):
            torch.sub(1.0, tile, out=out[:, part])
        return out

    def enter(self, queries: torch.Tensor, out: torch.Tensor, owner: torch.Tensor | None) -> bool:
        """Enter approximate distances in the columns of the rows' owners, where smaller; False where that isn't built.

        Args:
            out: (B, N) float32; owner: (V,) int32, none twice; None: the columns are the rows, whatever is there.
        """
        if queries.device.type != "cpu" or self.scale is not None or self.hides:
            return False
        dense(self.vectors, queries, out, owner)
        return True

    def dense(self, queries: torch.Tensor) -> torch.Tensor:
        """(B, V) float32 exact distances; +inf for hidden rows."""
        out = torch.empty(queries.shape[0], self.size, device=queries.device)
        rows = torch.arange(self.size, dtype=torch.int32, device=queries.device)
        step = max(1, PAIRS // max(self.size, 1))
        for start in range(0, queries.shape[0], step):
            part = queries[start : start + step]
            query = torch.arange(len(part), dtype=torch.int32, device=queries.device).repeat_interleave(self.size)
            out[start : start + step] = self.pairs(part, query, rows.repeat(len(part))).view(len(part), -1)
        return out

    def _tiles(self, queries: torch.Tensor) -> Iterator[tuple[slice, torch.Tensor]]:
        """Runs of rows and their (B, run) cosines; -inf for hidden rows."""
        step = max(1024, TILE_BYTES // (4 * max(queries.shape[0], 1)))
        for start in range(0, self.size, step):
            part = slice(start, min(start + step, self.size))
            rows = self.vectors[part]
            if rows.dtype == torch.float16:
                assert self.scale is not None
                rows = (rows.double() * self.scale[part, None]).float()
            product = (rows @ queries[0])[None] if queries.shape[0] == 1 else queries @ rows.T
            if self.hidden is not None:
                product.masked_fill_(self.hidden[part], -torch.inf)
            yield part, product

    def _exact(self, queries: torch.Tensor, near: torch.Tensor) -> torch.Tensor:
        query = torch.arange(queries.shape[0], dtype=torch.int32, device=queries.device)
        pairs = pair_distances(
            queries, self.vectors, query.repeat_interleave(near.shape[1]), near.clamp(min=0).flatten(), self.scale
        )
        return pairs.view(near.shape).masked_fill(near < 0, torch.inf)

    def save(self, folder: Path, *, codes: bool = False) -> None:
        """Write the arrays as .npy files; with the codes, which then needn't be made of all rows after opening."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, value in (("vectors", self.vectors), ("scale", self.scale), ("hidden", self.hidden)):
            if value is not None:
                np.save(folder / f"{name}.npy", value.cpu().numpy(), allow_pickle=False)
        if codes and self.size:
            write_codes(folder, self.vectors, self.scale, self.stored or self.__dict__.get("codes"))

    @classmethod
    def load(cls, folder: Path) -> "ExactIndex":
        """Map the arrays of `save`; vectors are read when they are used."""

        def read(name: str) -> torch.Tensor | None:
            path = folder / f"{name}.npy"
            return torch.from_numpy(read_array(path)) if path.exists() else None

        vectors = read("vectors")
        if vectors is None:
            raise StoreError(f"{folder / 'vectors.npy'}: missing")
        return cls(vectors, read("scale"), read("hidden"), read_codes(folder, *vectors.shape))
