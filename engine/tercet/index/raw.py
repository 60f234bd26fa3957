"""A small index that keeps vectors as they are and scores them in float64, for the metrics of other libraries."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch

from tercet.arrays import read_array
from tercet.errors import InvalidArgument

Metric = Literal["cosine", "l2", "squared_l2", "ip"]
METRICS = ("cosine", "l2", "squared_l2", "ip")
SLACK = 1e-9  # of a score's size: what the order of a sum in float64 can change, many times over
TILE = 1 << 22  # scores of one tile of queries


@dataclass(frozen=True, eq=False)
class RawIndex:
    """Rows of any length, compared by a metric.

    Scores are sums of float64 products from left to right, the same bits for a query in any batch:
    `cosine` is dot / sqrt(sum a^2 * sum b^2), 0 when either is 0; `l2` is minus the distance; `squared_l2` the
    squared distance (smaller is better); `ip` the inner product. Ties keep the order of the rows.
    """

    vectors: torch.Tensor  # (V, D) float64
    metric: Metric

    kind = "raw"
    hides = False
    error = 1e-6

    @classmethod
    def build(cls, vectors: torch.Tensor, metric: str) -> "RawIndex":
        """Take the rows as they are.

        Raises:
            InvalidArgument: an unknown metric.
        """
        if metric not in METRICS:
            raise InvalidArgument(f"metric: expected one of {METRICS}, got {metric!r}")
        return cls(vectors.double().contiguous(), metric)  # type: ignore[arg-type]

    @property
    def size(self) -> int:
        return self.vectors.shape[0]

    @property
    def dimension(self) -> int:
        return self.vectors.shape[1]

    def to(self, device: torch.device) -> "RawIndex":
        return RawIndex(self.vectors.to(device), self.metric)

    def scored(
        self,
        queries: torch.Tensor,
        k: int,
        allowed: torch.Tensor | None = None,
        allowed_row: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The k best rows of each query.

        Args:
            queries: (B, D) as they are, not brought to unit norm.
            allowed: (F, V) bool masks; allowed_row: (B,) int32, -1 for none.

        Returns:
            rows (B, min(k, V)) int32, -1 where there is none; scores (B, min(k, V)) float64, NaN there.
        """
        k = max(min(k, self.size), 0)
        rows = torch.full((queries.shape[0], k), -1, dtype=torch.int32, device=queries.device)
        scores = torch.full((queries.shape[0], k), torch.nan, dtype=torch.float64, device=queries.device)
        step = max(1, TILE // max(self.size, 1))
        for low in range(0, queries.shape[0] if k else 0, step):
            part = slice(low, low + step)
            shut = None
            if allowed is not None and allowed_row is not None:
                row = allowed_row[part].long()
                shut = ~allowed[row.clamp(min=0)] & (row >= 0)[:, None]
            rows[part], scores[part] = self._tile(queries[part].double(), k, shut)
        return rows, scores

    def _tile(self, queries: torch.Tensor, k: int, shut: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
        """Products of the whole tile propose; what may be among the best is scored in the fixed order, and sorted."""
        sign = -1.0 if self.metric == "squared_l2" else 1.0
        close = sign * self._products(queries)
        if shut is not None:
            close = close.masked_fill(shut, -torch.inf)
        best = close.topk(k, dim=1).values
        size = close.abs().masked_fill(~torch.isfinite(close), 0.0).amax(dim=1, keepdim=True).clamp(min=1.0)
        near = (close >= best[:, -1:] - SLACK * size) & torch.isfinite(close)
        query, row = torch.nonzero(near, as_tuple=True)
        exact = sign * self._exact(queries, query, row)
        at = torch.argsort(-exact, stable=True)  # rows ascend within a query
        at = at[torch.argsort(query[at], stable=True)]
        counts = torch.bincount(query, minlength=queries.shape[0])
        place = torch.arange(at.shape[0], device=at.device) - (counts.cumsum(0) - counts)[query[at]]
        at, place = at[place < k], place[place < k]
        rows = torch.full((queries.shape[0], k), -1, dtype=torch.int32, device=queries.device)
        scores = torch.full((queries.shape[0], k), torch.nan, dtype=torch.float64, device=queries.device)
        rows[query[at], place] = row[at].int()
        scores[query[at], place] = sign * exact[at]
        return rows, scores

    def _products(self, queries: torch.Tensor) -> torch.Tensor:
        product = queries @ self.vectors.T
        if self.metric == "ip":
            return product
        lengths = (queries**2).sum(dim=1)[:, None], (self.vectors**2).sum(dim=1)[None]
        if self.metric == "cosine":
            scale = (lengths[0] * lengths[1]).sqrt()
            return torch.where(scale > 0, product / scale, 0.0)
        squared = (lengths[0] + lengths[1] - 2 * product).clamp(min=0.0)
        return squared if self.metric == "squared_l2" else -squared.sqrt()

    def _exact(self, queries: torch.Tensor, query: torch.Tensor, row: torch.Tensor) -> torch.Tensor:
        """(P,) scores of pairs; sums run over the columns one by one, so their order is fixed."""
        a, b = queries[query].T, self.vectors[row].T
        dot, aa, bb, gap = (torch.zeros(query.shape[0], dtype=torch.float64, device=queries.device) for _ in range(4))
        for x, y in zip(a, b, strict=True):
            if self.metric in ("cosine", "ip"):
                dot += x * y
            if self.metric == "cosine":
                aa += x * x
                bb += y * y
            if self.metric in ("l2", "squared_l2"):
                gap += (x - y) ** 2
        if self.metric == "cosine":
            scale = (aa * bb).sqrt()
            return torch.where((aa > 0) & (bb > 0), dot / scale, 0.0)
        return {"ip": dot, "l2": -gap.sqrt(), "squared_l2": gap}[self.metric]

    def search(
        self,
        queries: torch.Tensor,
        k: int,
        allowed: torch.Tensor | None = None,
        allowed_row: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The k nearest rows by cosine; see `ExactIndex.search`. For `recall`, which knows no other metric."""
        row, score = RawIndex(self.vectors, "cosine").scored(queries, k, allowed, allowed_row)
        return row, torch.where(row < 0, torch.inf, 1.0 - score).float()

    def pairs(self, queries: torch.Tensor, query: torch.Tensor, row: torch.Tensor) -> torch.Tensor:
        """(P,) float32 cosine distances of (query, row) pairs."""
        cosine = RawIndex(self.vectors, "cosine")
        return (1.0 - cosine._exact(queries.double(), query.long(), row.long())).float()

    def dense(self, queries: torch.Tensor) -> torch.Tensor:
        """(B, V) float32 cosine distances."""
        every = torch.arange(self.size, device=queries.device).repeat(queries.shape[0])
        query = torch.arange(queries.shape[0], device=queries.device).repeat_interleave(self.size)
        return self.pairs(queries, query, every).view(queries.shape[0], self.size)

    approximate = dense

    def save(self, folder: Path) -> None:
        """Write the rows and the metric."""
        folder.mkdir(parents=True, exist_ok=True)
        np.save(folder / "vectors.npy", self.vectors.cpu().numpy(), allow_pickle=False)
        np.save(folder / "metric.npy", np.array([METRICS.index(self.metric)]), allow_pickle=False)

    @classmethod
    def load(cls, folder: Path) -> "RawIndex":
        """Map what `save` wrote."""
        metric = METRICS[int(read_array(folder / "metric.npy")[0])]
        return cls(torch.from_numpy(read_array(folder / "vectors.npy")), metric)  # type: ignore[arg-type]
