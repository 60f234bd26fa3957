"""Plain form of `lower_bound`."""

from bisect import bisect_left
from itertools import pairwise

import torch


def lower_bound(
    offsets: torch.Tensor, data: torch.Tensor, wanted_offsets: torch.Tensor, wanted: torch.Tensor,
    order: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    have, asked = _split(offsets, data), _split(wanted_offsets, wanted)
    if order is not None:
        have = [have[i] for i in order.tolist()]
    place = [bisect_left(have, text) for text in asked]
    found = [p < len(have) and have[p] == text for p, text in zip(place, asked, strict=True)]
    return torch.tensor(place, dtype=torch.int64), torch.tensor(found, dtype=torch.bool)


def _split(offsets: torch.Tensor, data: torch.Tensor) -> list[bytes]:
    raw, bounds = bytes(data.tolist()), offsets.tolist()
    return [raw[low:high] for low, high in pairwise(bounds)]


def example(rows: int, wanted: int, seed: int = 0) -> dict:
    """Short texts of few letters, so that many share a beginning and some are equal."""
    generator = torch.Generator().manual_seed(seed)
    draw = lambda high, size: torch.randint(0, high, (size,), generator=generator).tolist()  # noqa: E731
    texts = [bytes(97 + c for c in draw(3, length)) for length in draw(6, rows + wanted)]
    have, asked = sorted(texts[:rows]), texts[rows:]
    return {
        "offsets": _offsets(have), "data": _bytes(have), "wanted_offsets": _offsets(asked), "wanted": _bytes(asked),
    }  # fmt: skip


def _offsets(texts: list[bytes]) -> torch.Tensor:
    return torch.tensor([0, *(len(t) for t in texts)], dtype=torch.int64).cumsum(0)


def _bytes(texts: list[bytes]) -> torch.Tensor:
    return torch.tensor(list(b"".join(texts)), dtype=torch.uint8)
