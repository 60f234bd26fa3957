"""Queries: texts or vectors as they come, as one tensor and a list of what is wrong with single ones."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from tercet.encoder import Encoder
from tercet.errors import DimensionMismatch, InvalidArgument
from tercet_kernels.unit import unit

ZERO = "the vector is zero, so it is at no distance from anything"


@dataclass(frozen=True, eq=False)
class QueryBatch:
    """B queries; those with an error have a row of zeros."""

    text: list[str | None]
    embedding: torch.Tensor  # (B, D) float32 unit norm
    errors: dict[int, str]
    single: bool  # asked as one text or one vector, not as a list
    raw: torch.Tensor | None = None  # (B, D) float32 vectors as they were given, for metrics that look at lengths

    def __len__(self) -> int:
        return len(self.text)


def embed(queries: Any, vectors: Any, encoder: Encoder | None, dimension: int, *, raise_blank: bool) -> QueryBatch:
    """Encode texts, or take vectors as they are.

    Args:
        queries: a text, a list of texts, or None.
        vectors: (D,), (B, D) or a list of rows; used instead of encoding when given.
        dimension: the width that the collections have.
        raise_blank: refuse the whole call for a bad query, instead of failing that query alone.

    Raises:
        InvalidArgument: neither or contradictory input, texts without an encoder.
    """
    if queries is None and vectors is None:
        raise InvalidArgument("recall: expected queries (a text or a list of texts) or vectors, got neither")
    if queries is not None and (isinstance(queries, bytes) or not hasattr(queries, "__iter__")):
        raise InvalidArgument(f"queries: expected a text or a list of texts, got {type(queries).__name__}")
    single = isinstance(queries, str) if queries is not None else np.ndim(vectors[0] if len(vectors) else []) == 0
    texts: list[Any] = [queries] if isinstance(queries, str) else list(queries) if queries is not None else []
    if vectors is not None:
        rows, errors, raw = _rows(vectors, single, dimension)
        if queries is not None and len(texts) != rows.shape[0]:
            raise InvalidArgument(f"recall: {len(texts)} queries but {rows.shape[0]} vectors")
        batch = QueryBatch(texts or [None] * rows.shape[0], rows, errors, single, raw)
    else:
        batch = _encode(texts, encoder, dimension, single)
    if raise_blank and batch.errors:
        first = min(batch.errors)
        raise InvalidArgument(f"query {first}: {batch.errors[first]}")
    return batch


def _encode(texts: list[Any], encoder: Encoder | None, dimension: int, single: bool) -> QueryBatch:
    errors: dict[int, str] = {}
    for i, text in enumerate(texts):
        if not isinstance(text, str):
            errors[i] = f"expected a text, got {text!r} ({type(text).__name__})"
        elif not text.strip():
            errors[i] = "the query is blank"
    good = [i for i in range(len(texts)) if i not in errors]
    if good and encoder is None:
        raise InvalidArgument("queries: texts need an encoder; give the engine one, or pass vectors=")
    embedding = torch.zeros(len(texts), dimension)
    if good:
        assert encoder is not None
        got = encoder.encode([texts[i] for i in good])
        if (
            got.shape[1] != dimension
        ):  # the engine compares widths before it gets here; a callable may still change its mind
            raise DimensionMismatch(f"the encoder made vectors of dimension {got.shape[1]}, expected {dimension}")
        embedding[good] = got
        for i in torch.nonzero(~got.any(dim=1)).flatten().tolist():
            errors[good[i]] = ZERO
    return QueryBatch([t if isinstance(t, str) else None for t in texts], embedding, errors, single)


def _rows(vectors: Any, single: bool, dimension: int) -> tuple[torch.Tensor, dict[int, str], torch.Tensor]:
    rows = [vectors] if single else vectors
    dimension = dimension or (int(np.shape(rows[0])[-1]) if len(rows) else 0)  # no collection, so any width will do
    errors: dict[int, str] = {}
    if isinstance(rows, (torch.Tensor, np.ndarray)) and rows.ndim == 2:
        got = torch.as_tensor(rows).detach().float().cpu()
        if got.shape[1] != dimension and got.shape[0]:
            raise DimensionMismatch(f"vectors: expected dimension {dimension}, got {got.shape[1]}")
    else:
        got, errors = _stacked([_row(row, dimension) for row in rows], dimension)
    made, lengths = unit(got.contiguous())
    norm = lengths.numpy()
    fine = (norm > 0) & (norm < np.inf)
    for i in [] if fine.all() else np.flatnonzero(~fine).tolist():
        errors.setdefault(i, ZERO if lengths[i] == 0 else "the vector isn't finite (NaN or infinity)")
    if errors:
        made[list(errors)] = 0.0
    return made, errors, got


def _row(row: Any, dimension: int) -> torch.Tensor | str:
    """A vector as it is, or what is wrong with it."""
    try:
        made = (
            row.detach().float().cpu() if isinstance(row, torch.Tensor) else torch.tensor(np.asarray(row, np.float32))
        )
    except (ValueError, TypeError):
        return f"expected {dimension} numbers, got {type(row).__name__}"
    if made.shape != (dimension,):
        return f"expected a vector of dimension {dimension}, got shape {tuple(made.shape)}"
    return made


def _stacked(rows: list[torch.Tensor | str], dimension: int) -> tuple[torch.Tensor, dict[int, str]]:
    """The vectors as rows, zeros for those that can't be taken."""
    errors = {i: row for i, row in enumerate(rows) if isinstance(row, str)}
    vectors = [torch.zeros(dimension) if isinstance(row, str) else row for row in rows]
    return torch.stack(vectors) if vectors else torch.zeros(0, dimension), errors
