"""Candidates: what each collection found for each query, and the elements they stand for."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch

from tercet.collection import Collection
from tercet.errors import InvalidData
from tercet.graph import Graph
from tercet_kernels import csr

FAR = torch.iinfo(torch.int32).max


@dataclass(frozen=True, eq=False)
class Bound:
    """A collection whose owners are rows of a graph."""

    collection: Collection
    owner: torch.Tensor  # (V,) int32 node row or relation key; from N on: ids the graph doesn't have; -1: no such key
    by_owner: tuple[torch.Tensor, torch.Tensor]  # (indptr, row): the collection's rows of each owner
    distinct: bool  # no owner twice
    identity: bool  # row i belongs to owner i, for all of them


class Hits(NamedTuple):
    """The elements that were found for each query, a slice a query, ascending by element within it."""

    indptr: torch.Tensor  # (B + 1,) int64
    element: torch.Tensor  # (T,) int32 node row or relation key
    distance: torch.Tensor  # (T,) float32, +inf where a listed element has none
    collection: torch.Tensor  # (T,) int8 which collection the distance is from, -1 for none
    rank: torch.Tensor  # (T,) int32 0-based place among that collection's candidates, -1 when it wasn't searched
    nearest: torch.Tensor  # (T,) float32 smallest distance over the collections
    first: torch.Tensor  # (T,) int32 place of its first appearance, collections in order, candidates in order


def bind(collections: list[Collection], graph: Graph, *, keep_unknown: bool) -> tuple[list[Bound], torch.Tensor | None]:
    """Resolve the owners of all collections.

    Returns:
        the bound collections, and which node owners (N, and the ids kept although the graph lacks them) are ends of
        stored edges that the graph left out; None when there are no such edges.

    Raises:
        InvalidData: a node owner isn't in the graph and `keep_unknown` is off.
    """
    extra: dict[str, int] = {}
    owners = []
    for c in collections:
        if c.kind == "relation":
            found = pc.index_in(c.owner, value_set=graph.keys)
            owners.append(np.asarray(pc.fill_null(found, -1)).astype(np.int32))
            continue
        rows = graph.index.rows(c.owner)
        unknown = np.flatnonzero(rows < 0)
        if len(unknown) and not keep_unknown:
            raise InvalidData(
                f"collection {c.name!r}: {len(unknown)} of {c.size} owners aren't nodes of the graph, "
                f"first {c.owner[int(unknown[0])].as_py()!r} in row {unknown[0]}"
            )
        for i in unknown:  # ghosts: hits that take a place among the candidates but have no edges
            rows[i] = graph.num_nodes + extra.setdefault(c.owner[int(i)].as_py(), len(extra))
        owners.append(rows)
    total = graph.num_nodes + len(extra)
    bound = []
    for c, rows in zip(collections, owners, strict=True):
        owner = torch.from_numpy(np.ascontiguousarray(rows))
        size = len(graph.keys) if c.kind == "relation" else total
        held = torch.nonzero(owner >= 0).flatten()
        indptr, order = csr.group(owner[held], size)
        by_owner = (indptr.to(graph.device), held[order.long()].int().to(graph.device))
        distinct = bool((indptr.diff() <= 1).all())
        identity = c.size == size and bool((owner == torch.arange(c.size)).all())
        bound.append(Bound(c, owner.to(graph.device), by_owner, distinct, identity))
    if graph.unread_ends is None or not len(graph.unread_ends):
        return bound, None
    everyone = pa.chunked_array([graph.ids, pa.array(list(extra), pa.large_string())])
    unread = np.asarray(pc.is_in(everyone, value_set=graph.unread_ends))
    return bound, torch.from_numpy(unread.copy()).to(graph.device)


def search(
    bound: Bound,
    queries: torch.Tensor,
    wide: torch.Tensor,
    mask: tuple[torch.Tensor, torch.Tensor] | None,
    max_distance: float | None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The candidates of one collection.

    Args:
        wide: (B,) int64 candidates wanted by each query.
        mask: (F, V) bool masks over the collection's rows, and (B,) int32 which of them each query has, -1 for none.

    Returns:
        (owner (B, C) int32, distance (B, C) float32), ascending by (distance, row); -1 and +inf where there is none.
    """
    most = int(wide.max()) if wide.shape[0] else 0
    if bound.collection.size == 0 or most < 1:
        empty = queries.new_zeros(queries.shape[0], 0)
        return empty.int(), empty
    row, distance = bound.collection.index.search(queries, most, *(mask or (None, None)))
    place = torch.arange(row.shape[1], device=row.device)
    none = (row < 0) | (place[None] >= wide[:, None])
    if max_distance is not None:
        none |= distance > max_distance
    owner = bound.owner[row.clamp(min=0).long()]
    none |= owner < 0
    return owner.masked_fill(none, -1), distance.masked_fill(none, torch.inf)


def merge(found: list[tuple[torch.Tensor, torch.Tensor]], combine: str, queries: int, device: torch.device) -> Hits:
    """One entry for each element that some collection found.

    Args:
        found: (owner, distance) of each collection, in order.
        combine: "best": the smallest distance counts (ties: the earlier collection); "last": the last hit of the last
            collection, whatever its distance.
    """
    if not found or sum(o.shape[1] for o, _ in found) == 0:
        return no_hits(queries, device)
    owner = torch.cat([o for o, _ in found], dim=1)
    distance = torch.cat([d for _, d in found], dim=1)
    width = owner.shape[1]
    key = torch.where(owner < 0, FAR, owner).long() << 32
    # within an element: by distance, then in order of appearance
    key, order = (key + _ordered(distance)).sort(dim=1, stable=True)
    element = (key >> 32).int()
    lead = torch.ones_like(element, dtype=torch.bool)
    lead[:, 1:] = element[:, 1:] != element[:, :-1]
    present = element != FAR
    run = torch.cumsum(lead.flatten(), 0) - 1  # which element, over the whole batch
    runs = int(run[-1]) + 1  # host sync: the size of the result
    first = torch.full((runs,), FAR, dtype=torch.int64, device=device).scatter_reduce_(0, run, order.flatten(), "amin")
    heads = torch.nonzero(lead.flatten()).flatten()
    chosen = order.flatten()[heads]
    if combine == "last":
        chosen = torch.full_like(first, -1).scatter_reduce_(0, run, order.flatten(), "amax")
    keep = present.flatten()[heads]
    query = heads // width
    nearest = distance.flatten()[(query * width + order.flatten()[heads])]
    at = query * width + chosen
    starts = torch.tensor([0, *(o.shape[1] for o, _ in found)], device=device).cumsum(0)
    which = torch.searchsorted(starts, chosen, right=True) - 1
    indptr = torch.zeros(queries + 1, dtype=torch.int64, device=device)
    indptr[1:] = torch.bincount(query[keep], minlength=queries).cumsum(0)
    return Hits(
        indptr, element.flatten()[heads][keep], distance.flatten()[at][keep], which[keep].to(torch.int8),
        (chosen - starts[which])[keep].int(), nearest[keep], first[keep].int(),
    )  # fmt: skip


def no_hits(queries: int, device: torch.device) -> Hits:
    """Nothing found for any query."""
    zero = lambda dtype: torch.zeros(0, dtype=dtype, device=device)  # noqa: E731
    return Hits(
        torch.zeros(queries + 1, dtype=torch.int64, device=device), zero(torch.int32), zero(torch.float32),
        zero(torch.int8), zero(torch.int32), zero(torch.float32), zero(torch.int32),
    )  # fmt: skip


def rescore(
    bound: list[Bound],
    queries: torch.Tensor,
    query: torch.Tensor,
    element: torch.Tensor,
    combine: str,
    allowed: list[tuple[torch.Tensor, torch.Tensor] | None] | None = None,
    max_distance: float | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Exact distances of chosen (query, element) pairs over all rows of all the collections.

    Returns:
        (distance (P,) float32, +inf where no collection has the element; collection (P,) int8).
    """
    distance = torch.full(query.shape, torch.inf, device=queries.device)
    which = torch.full(query.shape, -1, dtype=torch.int8, device=queries.device)
    for i, b in enumerate(bound):
        indptr, rows = b.by_owner
        inside = torch.nonzero(element < indptr.shape[0] - 1).flatten()
        element_in = element[inside].long()
        counts = indptr[element_in + 1] - indptr[element_in]
        pair = inside[torch.repeat_interleave(torch.arange(inside.shape[0], device=inside.device), counts)]
        begin = counts.cumsum(0) - counts
        offset = torch.arange(pair.shape[0], device=pair.device) - torch.repeat_interleave(begin, counts)
        row = rows[torch.repeat_interleave(indptr[element_in], counts) + offset]
        got = b.collection.index.pairs(queries, query[pair].int().contiguous(), row.contiguous())
        mask = None if allowed is None else allowed[i]
        if mask is not None:
            shut = ~mask[0][mask[1][query[pair].long()].clamp(min=0).long(), row.long()] & (
                mask[1][query[pair].long()] >= 0
            )
            got = got.masked_fill(shut, torch.inf)
        if max_distance is not None:
            got = got.masked_fill(got > max_distance, torch.inf)
        if combine == "best":
            mine = torch.full_like(distance, torch.inf).scatter_reduce_(0, pair, got, "amin")
            better = mine < distance
        else:  # the farthest of its rows that is returned at all
            mine = torch.full_like(distance, -torch.inf)
            mine = mine.scatter_reduce_(0, pair, torch.where(torch.isfinite(got), got, -torch.inf), "amax")
            better = torch.isfinite(mine)
        distance = torch.where(better, mine, distance)
        which = torch.where(better, torch.full_like(which, i), which)
    return distance, which


def query_of(indptr: torch.Tensor) -> torch.Tensor:
    """The query of each entry of a ragged value."""
    return torch.repeat_interleave(torch.arange(indptr.shape[0] - 1, device=indptr.device), indptr.diff())


def _ordered(distance: torch.Tensor) -> torch.Tensor:
    """float32 values as int64 in [0, 2**32) in the same order (negative ones too)."""
    bits = (distance + 0.0).view(torch.int32)  # + 0.0: no negative zero
    return (bits ^ ((bits >> 31) & 0x7FFFFFFF)).long() + (1 << 31)
