"""Indexes over the vectors of a collection: `build, search, save, load`, plus exact distances of chosen rows.

`exact` scans every row. `hnsw`, `ivf` and `pq` are FAISS indexes: they propose candidates that are scored exactly, so
only the choice of candidates is approximate. On CUDA `flat`, `ivf` and `cagra` are FAISS's too.
"""

from pathlib import Path
from typing import Any, Protocol

import torch

from tercet.errors import InvalidArgument
from tercet.index.exact import ExactIndex
from tercet.index.raw import RawIndex

APPROXIMATE = ("hnsw", "ivf", "pq", "flat", "cagra")


class Index(Protocol):
    """What a collection needs of its index; shapes as in `ExactIndex`."""

    @property
    def kind(self) -> str: ...
    @property
    def size(self) -> int: ...
    @property
    def dimension(self) -> int: ...
    @property
    def hides(self) -> bool: ...
    @property
    def error(self) -> float: ...
    def search(
        self,
        queries: torch.Tensor,
        k: int,
        allowed: torch.Tensor | None = None,
        allowed_row: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor]: ...
    def pairs(self, queries: torch.Tensor, query: torch.Tensor, row: torch.Tensor) -> torch.Tensor: ...
    def approximate(self, queries: torch.Tensor) -> torch.Tensor: ...
    def dense(self, queries: torch.Tensor) -> torch.Tensor: ...
    def to(self, device: torch.device) -> "Index": ...
    def save(self, folder: Path) -> None: ...


def build_index(
    kind: str, vectors: torch.Tensor, scale: torch.Tensor | None, hidden: torch.Tensor | None, **options: Any
) -> Index:
    """An index by name; options go to the approximate ones, see `tercet.index.approx`.

    Raises:
        InvalidArgument: unknown kind or option.
        MissingDependency: FAISS isn't installed, or it can't serve the kind.
    """
    if kind == "exact":
        if options:
            raise InvalidArgument(f"index 'exact': it has no options, got {', '.join(options)}")
        return ExactIndex.build(vectors, scale, hidden)
    if kind in APPROXIMATE:
        from tercet.index.approx import FaissIndex

        return FaissIndex.build(kind, vectors, scale, hidden, **options)
    raise InvalidArgument(f"index: expected 'exact' or one of {APPROXIMATE}, got {kind!r}")


def load_index(kind: str, folder: Path) -> Index:
    """Read what `Index.save` wrote."""
    if kind == "exact":
        return ExactIndex.load(folder)
    if kind == "raw":
        return RawIndex.load(folder)
    from tercet.index.approx import FaissIndex

    return FaissIndex.load(kind, folder)
