"""Candidates: what each collection found for each query, and the elements they stand for."""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch

from tercet.collection import Collection
from tercet.errors import InvalidData
from tercet.graph import Graph
from tercet_kernels import csr
from tercet_kernels.merge import Listing


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
    sizes = [len(graph.keys) if c.kind == "relation" else total for c in collections]
    bound = [bind_rows(c, rows, size, graph.device) for c, rows, size in zip(collections, owners, sizes, strict=True)]
    if graph.unread_ends is None or not len(graph.unread_ends):
        return bound, None
    everyone = pa.chunked_array([graph.ids, pa.array(list(extra), pa.large_string())])
    unread = np.asarray(pc.is_in(everyone, value_set=graph.unread_ends))
    return bound, torch.from_numpy(unread.copy()).to(graph.device)


def bind_rows(collection: Collection, owner: np.ndarray, size: int, device: torch.device) -> Bound:
    """A collection whose owners are known by row: (V,) int32 in [0, size), or -1."""
    rows = torch.from_numpy(np.ascontiguousarray(owner))
    indptr, order = csr.group(rows, size)
    by_owner = (indptr.to(device), order.to(device))
    distinct = csr.most(indptr) <= 1
    # as many as there are owners, each of which has one, and in their order
    identity = distinct and collection.size == size == len(order) and bool((owner[1:] > owner[:-1]).all())
    return Bound(collection, rows.to(device), by_owner, distinct, identity)


def rebound(
    held: Bound, collection: Collection, owner: np.ndarray, size: int, device: torch.device, *, same_rows: bool
) -> Bound:
    """What `bind_rows` gives, from a version before.

    Args:
        held: the collection as it was. same_rows: its rows belong to the same owners.
    """
    if not same_rows or held.by_owner[0].shape[0] != size + 1:
        return bind_rows(collection, owner, size, device)
    return held if held.collection is collection else replace(held, collection=collection)


def search(bound: Bound, queries: torch.Tensor, most: int, mask: tuple[torch.Tensor, torch.Tensor] | None) -> Listing:
    """The `most` nearest rows of one collection, with the elements they stand for.

    Args:
        mask: (F, V) bool masks over the collection's rows, and (B,) int32 which of them each query has, -1 for none.
    """
    if bound.collection.size == 0 or most < 1:
        empty = queries.new_zeros(queries.shape[0], 0)
        return Listing(empty.int(), empty, bound.owner)
    return Listing(*bound.collection.index.search(queries, most, *(mask or (None, None))), bound.owner)


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
        low, high = indptr[element_in], indptr[element_in + 1]
        if b.distinct:
            held = low < high
            pair, row = inside[held], rows[low[held]]
        else:
            counts = high - low
            pair = inside[torch.repeat_interleave(torch.arange(inside.shape[0], device=inside.device), counts)]
            begin = counts.cumsum(0) - counts
            offset = torch.arange(pair.shape[0], device=pair.device) - torch.repeat_interleave(begin, counts)
            row = rows[torch.repeat_interleave(low, counts) + offset]
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
