"""The nearest nodes of each query over all node collections."""

from dataclasses import dataclass

import torch

from tercet.candidates import Bound, Hits, search
from tercet.filters import Filters
from tercet.index.raw import RawIndex
from tercet.query import QueryBatch
from tercet.ranking import Status
from tercet.retrieve.ragged import Ragged, offsets, place_of, query_of, select, spread
from tercet_kernels.merge import merge

NO_COLLECTION = "the engine has no node collection"
SHUT = "the filter admits no node that has a vector"
NOTHING = "no node has a vector"


@dataclass(frozen=True, eq=False)
class Retrieved:
    """What one way of searching found for each query."""

    hits: Ragged
    available: torch.Tensor  # (B,) int64 nodes it could have found
    state: torch.Tensor  # (B,) int8 `Status`
    reason: list[str]  # (B,) why there is nothing, "" where there is something


def nearest_nodes(
    bound: list[Bound], num_nodes: int, batch: QueryBatch, k: torch.Tensor, filters: Filters, device: torch.device
) -> Retrieved:
    """The k best nodes of each query that its filter admits, best first; ties to the smaller node row.

    The score is the cosine similarity, 1 - distance, of a node's nearest row; a collection with a metric of its own
    (`RawIndex`) is searched alone and gives its own scores.

    Args:
        k: (B,) int64.
    """
    queries = len(batch)
    good = torch.tensor([i for i in range(queries) if i not in batch.errors], dtype=torch.int64)
    state = torch.full((queries,), int(Status.failed), dtype=torch.int8)
    reason = [batch.errors.get(i, "") for i in range(queries)]
    nothing = Ragged(torch.zeros(queries + 1, dtype=torch.int64, device=device),
                     torch.zeros(0, dtype=torch.int32, device=device),
                     torch.zeros(0, dtype=torch.float64, device=device))  # fmt: skip
    available = torch.zeros(queries, dtype=torch.int64)
    if not bound or good.shape[0] == 0:
        state[good] = int(Status.no_hits)
        for i in good.tolist():
            reason[i] = NO_COLLECTION
        return Retrieved(nothing, available, state, reason)
    masks, row = filters.rows(good)
    within = _admitted(bound, num_nodes, masks, row, good.shape[0])
    given = None if masks is None or row is None else (masks.to(device), row.to(device))
    embedding = batch.embedding[good].to(device)
    wanted = torch.minimum(k[good], within).to(device)
    if len(bound) == 1 and isinstance(bound[0].collection.index, RawIndex):
        raw = batch.embedding if batch.raw is None else batch.raw
        found = _scored(bound[0], raw[good], wanted, given)
    else:
        found = _nearest(bound, num_nodes, embedding, wanted, given)
    counts = found.indptr.diff().cpu()
    state[good] = torch.where(counts > 0, int(Status.ok), int(Status.no_hits)).to(torch.int8)
    for at in torch.nonzero(counts == 0).flatten().tolist():
        i = int(good[at])
        shut = row is not None and int(row[at]) >= 0 and int(within[at]) == 0
        reason[i] = SHUT if shut else NOTHING
        state[i] = int(Status.filtered_out) if shut else state[i]
    available[good] = within
    return Retrieved(found._replace(indptr=spread(found.indptr, good.to(device), queries)), available, state, reason)


def _admitted(
    bound: list[Bound], num_nodes: int, masks: torch.Tensor | None, row: torch.Tensor | None, queries: int
) -> torch.Tensor:
    """(B,) nodes with a vector that each query may find."""
    held, count = _held(tuple(b.collection.name for b in bound), bound, num_nodes)
    every = torch.full((queries,), count, dtype=torch.int64)
    if masks is None or row is None:
        return every
    counts = (masks & held).sum(dim=1)
    return torch.where(row < 0, every, counts[row.clamp(min=0).long()])


def _held(names: tuple[str, ...], bound: list[Bound], num_nodes: int) -> tuple[torch.Tensor, int]:
    """(N,) bool nodes that have a vector in one of the collections, and how many; kept with the first collection."""
    kept = bound[0].__dict__.setdefault("_held", {})
    if names not in kept:
        held = torch.zeros(num_nodes, dtype=torch.bool)
        for b in bound:
            owner = b.owner.cpu().long()
            held[owner[owner < num_nodes]] = True
        kept[names] = (held, int(held.sum()))
    return kept[names]


def _row_mask(
    b: Bound, num_nodes: int, given: tuple[torch.Tensor, torch.Tensor] | None
) -> tuple[torch.Tensor, torch.Tensor] | None:
    """A filter on nodes as one on the rows of a collection."""
    if given is None:
        return None
    inside = b.owner < num_nodes
    if b.identity:
        return given
    return given[0][:, torch.where(inside, b.owner, 0).long()] & inside, given[1]


def _nearest(
    bound: list[Bound],
    num_nodes: int,
    queries: torch.Tensor,
    k: torch.Tensor,
    given: tuple[torch.Tensor, torch.Tensor] | None,
) -> Ragged:
    masks = [_row_mask(b, num_nodes, given) for b in bound]
    most = int(k.max()) if k.shape[0] else 0
    if len(bound) == 1 and bound[0].distinct:
        found = search(bound[0], queries, most, masks[0])
        node = torch.where(found.row < 0, -1, bound[0].owner[found.row.clamp(min=0).long()])
        kept = (node >= 0) & (node < num_nodes) & torch.isfinite(found.distance)
        kept &= torch.arange(kept.shape[1], device=kept.device) < k[:, None]
        return Ragged(offsets(kept.sum(dim=1)), node[kept].int(), 1.0 - found.distance[kept].double())
    wide = most
    largest = max(b.collection.size for b in bound)
    while True:
        listings = [search(b, queries, wide, mask) for b, mask in zip(bound, masks, strict=True)]
        limit = torch.full((queries.shape[0],), wide, dtype=torch.int64, device=queries.device)
        hits = Hits(*merge(listings, limit, None, last=False))
        enough = bool((hits.indptr.diff() >= k).all())  # host sync: rows of one node may have crowded others out
        if wide >= largest or (enough and all(b.distinct for b in bound)) or _complete(hits, listings, bound, k):
            break
        wide = min(wide * 4, largest)
    query = query_of(hits.indptr)
    at = torch.argsort(hits.nearest, stable=True)  # nodes ascend within a query, so ties go to the smaller row
    at = at[torch.argsort(query[at], stable=True)]
    inside = (hits.element[at] < num_nodes) & torch.isfinite(hits.nearest[at])
    indptr, at = select(hits.indptr, inside), at[inside]
    kept = place_of(indptr) < k[query[at]]
    at = at[kept]
    return Ragged(select(indptr, kept), hits.element[at], 1.0 - hits.nearest[at].double())


def _complete(hits: Hits, listings: list, bound: list[Bound], k: torch.Tensor) -> bool:
    """Whether no row that wasn't listed can be nearer than the k-th node of its query; one host sync."""
    order = torch.argsort(hits.nearest, stable=True)
    query = query_of(hits.indptr)
    order = order[torch.argsort(query[order], stable=True)]
    last = hits.indptr[:-1] + k.clamp(min=1) - 1
    known = last < hits.indptr[1:]
    kth = hits.nearest[order[last.clamp(max=max(order.shape[0] - 1, 0))]] if order.shape[0] else hits.nearest.new_full(
        k.shape, torch.inf)  # fmt: skip
    kth = torch.where(known, kth, torch.inf)
    good = torch.ones_like(known)
    for found, b in zip(listings, bound, strict=True):
        if 0 < found.distance.shape[1] < b.collection.size:  # 0: nothing is asked for
            farthest = found.distance[:, -1]
            good &= ~torch.isfinite(farthest) | (farthest > kth)
    return bool(good.all())


def _scored(
    b: Bound, queries: torch.Tensor, k: torch.Tensor, given: tuple[torch.Tensor, torch.Tensor] | None
) -> Ragged:
    """Hits of a collection with a metric of its own."""
    index = b.collection.index
    assert isinstance(index, RawIndex)
    mask = None if given is None else _row_mask(b, given[0].shape[1], given)
    row, score = index.scored(queries.to(b.owner.device), int(k.max()) if k.shape[0] else 0, *(mask or (None, None)))
    kept = (row >= 0) & (torch.arange(row.shape[1], device=row.device) < k[:, None])
    return Ragged(offsets(kept.sum(dim=1)), b.owner[row[kept].long()], score[kept])
