"""Lists of rows, one a query, in one array with offsets."""

from typing import NamedTuple

import torch

from tercet.candidates import query_of

__all__ = ["Ragged", "distinct", "first_of_each", "interleave", "offsets", "place_of", "query_of", "select", "spread"]


class Ragged(NamedTuple):
    """A list of nodes for each query, with a score for each; NaN where it has none."""

    indptr: torch.Tensor  # (B + 1,) int64
    node: torch.Tensor  # (T,) int32
    score: torch.Tensor  # (T,) float64


def offsets(counts: torch.Tensor) -> torch.Tensor:
    """(B + 1,) int64 offsets of lists of these lengths."""
    out = torch.zeros(counts.shape[0] + 1, dtype=torch.int64, device=counts.device)
    torch.cumsum(counts, 0, out=out[1:])
    return out


def place_of(indptr: torch.Tensor) -> torch.Tensor:
    """(T,) the place of each entry in its query's list, from 0."""
    every = torch.arange(int(indptr[-1]), device=indptr.device)
    return every - torch.repeat_interleave(indptr[:-1], indptr.diff())


def select(indptr: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
    """The offsets when only the entries with `keep` (T,) bool stay."""
    before = torch.zeros(keep.shape[0] + 1, dtype=torch.int64, device=keep.device)
    torch.cumsum(keep, 0, out=before[1:])
    return before[indptr]


def spread(indptr: torch.Tensor, place: torch.Tensor, size: int) -> torch.Tensor:
    """The offsets of a batch of `size` queries when only those at `place` (ascending) have lists."""
    counts = torch.zeros(size, dtype=torch.int64, device=indptr.device)
    counts[place] = indptr.diff()
    return offsets(counts)


def first_of_each(indptr: torch.Tensor, node: torch.Tensor) -> torch.Tensor:
    """(T,) bool: entries whose node isn't in an earlier entry of the same query."""
    if node.shape[0] == 0:
        return torch.zeros(0, dtype=torch.bool, device=node.device)
    key = query_of(indptr) * (int(node.max()) + 2) + node.long() + 1
    ordered, at = key.sort(stable=True)
    fresh = torch.ones_like(ordered, dtype=torch.bool)
    fresh[1:] = ordered[1:] != ordered[:-1]
    return torch.zeros_like(fresh).scatter_(0, at, fresh)


def distinct(hits: Ragged) -> Ragged:
    """The lists without repeated nodes; the first entry of each stays."""
    fresh = first_of_each(hits.indptr, hits.node)
    return Ragged(select(hits.indptr, fresh), hits.node[fresh].contiguous(), hits.score[fresh])


def interleave(parts: list[tuple[torch.Tensor, ...]]) -> tuple[torch.Tensor, ...]:
    """Several ragged values over the same queries as one, the lists of a query one after another.

    Args:
        parts: (indptr, column, ...) each.
    """
    query = torch.cat([query_of(p[0]) for p in parts])
    at = torch.argsort(query, stable=True)
    counts = torch.stack([p[0].diff() for p in parts]).sum(dim=0)
    columns = (torch.cat(list(column)) for column in zip(*(p[1:] for p in parts), strict=True))
    return offsets(counts), *(column[at] for column in columns)
