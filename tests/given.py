"""An index of recorded distances, so that recorded rankings can be compared from the distances on."""

from dataclasses import dataclass
from pathlib import Path

import torch


@dataclass(frozen=True, eq=False)
class GivenIndex:
    """Distances (Q, V) of Q known queries; query i is the i-th unit vector. NaN: the row is never returned."""

    distances: torch.Tensor
    kind = "given"
    error = 0.0
    hides = True

    @property
    def size(self) -> int:
        return self.distances.shape[1]

    @property
    def dimension(self) -> int:
        return max(self.distances.shape[0], 1)

    def to(self, device: torch.device) -> "GivenIndex":
        return GivenIndex(self.distances.to(device))

    def dense(self, queries: torch.Tensor) -> torch.Tensor:
        got = self.distances[queries.argmax(dim=1)]
        return torch.where(torch.isnan(got), torch.inf, got)

    approximate = dense

    def pairs(self, queries: torch.Tensor, query: torch.Tensor, row: torch.Tensor) -> torch.Tensor:
        got = self.distances[queries.argmax(dim=1)[query.long()], row.long()]
        return torch.where(torch.isnan(got), torch.inf, got)

    def search(
        self,
        queries: torch.Tensor,
        k: int,
        allowed: torch.Tensor | None = None,
        allowed_row: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        got = self.dense(queries)
        if allowed is not None and allowed_row is not None:
            shut = ~allowed[allowed_row.clamp(min=0).long()] & (allowed_row >= 0)[:, None]
            got = got.masked_fill(shut, torch.inf)
        distance, row = got.sort(dim=1, stable=True)
        row = torch.where(torch.isfinite(distance), row, -1).int()
        return row[:, :k], distance[:, :k]

    def save(self, folder: Path) -> None:
        raise NotImplementedError("recorded distances stay with their case")
