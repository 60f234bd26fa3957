"""Plain torch forms of `splice`, `numbered` and `located`."""

from collections.abc import Sequence

import torch


def splice(
    old: torch.Tensor, runs: torch.Tensor, fresh: torch.Tensor, values: torch.Tensor, row: torch.Tensor | None = None
) -> torch.Tensor:
    out = torch.empty(int(runs[:, 2].sum()) + len(fresh), dtype=old.dtype)
    for first, start, length in runs.tolist():
        part = old[start : start + length]
        out[first : first + length] = part if row is None else torch.where(part < 0, part, row[part.clamp(min=0)])
    out[fresh] = values
    return out


def numbered(runs: torch.Tensor, size: int) -> torch.Tensor:
    out = torch.full((size,), -1, dtype=torch.int32)
    for first, start, length in runs.tolist():
        out[start : start + length] = torch.arange(first, first + length, dtype=torch.int32)
    return out


def located(rows: Sequence[torch.Tensor], size: int) -> tuple[torch.Tensor, torch.Tensor]:
    which, place = torch.zeros(size, dtype=torch.int16), torch.zeros(size, dtype=torch.int32)
    for i, row in enumerate(rows):
        kept = torch.nonzero(row >= 0).flatten()
        which[row[kept].long()], place[row[kept].long()] = i, kept.int()
    return which, place


def example(rows: int, changes: int, seed: int = 0, dtype: torch.dtype = torch.int32) -> dict:
    """About as many rows that go as that come, at places drawn at random; values are rows of a table of 50, or -1."""
    generator = torch.Generator().manual_seed(seed)
    draw = lambda high, size: torch.randint(0, high, (size,), generator=generator)  # noqa: E731
    kept = torch.ones(rows, dtype=torch.bool)
    kept[draw(max(rows, 1), changes)[: changes if rows else 0]] = False
    place = draw(rows + 1, changes)
    order: list[int] = []  # which old row stands where, -1 for a fresh one
    for i in range(rows + 1):
        order += [-1] * int((place == i).sum())
        if i < rows and kept[i]:
            order.append(i)
    runs: list[list[int]] = []
    for at, old in enumerate(order):
        if old >= 0 and runs and runs[-1][1] + runs[-1][2] == old and runs[-1][0] + runs[-1][2] == at:
            runs[-1][2] += 1
        elif old >= 0:
            runs.append([at, old, 1])
    fresh = torch.tensor([at for at, old in enumerate(order) if old < 0], dtype=torch.int64)
    fresh = fresh[torch.randperm(len(fresh), generator=generator)]
    return {
        "old": (draw(51, rows) - 1).to(dtype), "runs": torch.tensor(runs, dtype=torch.int64).reshape(-1, 3),
        "fresh": fresh, "values": draw(50, len(fresh)).to(dtype),
    }  # fmt: skip
