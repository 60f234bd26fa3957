"""Plain torch form of `merge`."""

from collections.abc import Sequence

import torch

FAR = torch.iinfo(torch.int32).max


def merge(
    listings: Sequence[tuple[torch.Tensor, torch.Tensor, torch.Tensor]],
    wide: torch.Tensor,
    max_distance: float | None,
    last: bool,
) -> tuple[torch.Tensor, ...]:
    queries, device = wide.shape[0], wide.device
    found = [_limited(*listing, wide, max_distance) for listing in listings]
    if sum(o.numel() for o, _ in found) == 0:
        return _nothing(queries, device)
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
    if last:
        chosen = torch.full_like(first, -1).scatter_reduce_(0, run, order.flatten(), "amax")
    keep = present.flatten()[heads]
    query = heads // width
    nearest = distance.flatten()[(query * width + order.flatten()[heads])]
    at = query * width + chosen
    starts = torch.tensor([0, *(o.shape[1] for o, _ in found)], device=device).cumsum(0)
    which = torch.searchsorted(starts, chosen, right=True) - 1
    indptr = torch.zeros(queries + 1, dtype=torch.int64, device=device)
    indptr[1:] = torch.bincount(query[keep], minlength=queries).cumsum(0)
    return (
        indptr, element.flatten()[heads][keep], distance.flatten()[at][keep], which[keep].to(torch.int8),
        (chosen - starts[which])[keep].int(), nearest[keep], first[keep].int(),
    )  # fmt: skip


def _limited(
    row: torch.Tensor, distance: torch.Tensor, owner: torch.Tensor, wide: torch.Tensor, max_distance: float | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Elements and distances of the rows that count, -1 and +inf elsewhere."""
    none = (row < 0) | (torch.arange(row.shape[1], device=row.device)[None] >= wide[:, None])
    if max_distance is not None:
        none |= distance > max_distance
    element = owner[row.clamp(min=0).long()] if owner.shape[0] else torch.full_like(row, -1)
    none |= element < 0
    return element.masked_fill(none, -1), distance.masked_fill(none, torch.inf)


def _nothing(queries: int, device: torch.device) -> tuple[torch.Tensor, ...]:
    zero = lambda dtype: torch.zeros(0, dtype=dtype, device=device)  # noqa: E731
    return (
        torch.zeros(queries + 1, dtype=torch.int64, device=device), zero(torch.int32), zero(torch.float32),
        zero(torch.int8), zero(torch.int32), zero(torch.float32), zero(torch.int32),
    )  # fmt: skip


def _ordered(distance: torch.Tensor) -> torch.Tensor:
    """float32 values as int64 in [0, 2**32) in the same order (negative ones too)."""
    bits = (distance + 0.0).view(torch.int32)  # + 0.0: no negative zero
    return (bits ^ ((bits >> 31) & 0x7FFFFFFF)).long() + (1 << 31)


def example(
    queries: int, widths: Sequence[int], elements: int, seed: int = 0, device: str = "cpu"
) -> tuple[list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]], torch.Tensor]:
    """Listings with few distinct distances, so that there are ties, and limits."""
    generator = torch.Generator().manual_seed(seed)
    integers = lambda high, size: torch.randint(0, high, size, generator=generator)  # noqa: E731
    listings = []
    for width in widths:
        rows = 2 * width + 1
        row = torch.stack([torch.randperm(rows, generator=generator)[:width] for _ in range(queries)] or [
            torch.zeros(width, dtype=torch.int64)]).int()[:queries]  # fmt: skip
        distance = (integers(8, (queries, width)) / 4).sort(dim=1).values
        none = torch.arange(width)[None] >= integers(width + 1, (queries, 1))  # the last ones
        owner = integers(elements + 1, (rows,)).int() - 1
        listings.append((row.masked_fill(none, -1), distance.masked_fill(none, torch.inf), owner))
    wide = integers(max(widths, default=0) + 2, (queries,))
    return [tuple(x.to(device) for x in parts) for parts in listings], wide.to(device)  # type: ignore[misc]
