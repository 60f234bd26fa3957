"""Whether many rows are nearer to a query than a distance, from int8 codes, without scoring or ordering them.

A search tells more, but at a higher price: it has to find the nearest rows of all and to put them in order. This looks
at tiles of rows in turn and leaves a query as soon as enough rows are nearer for certain, which takes few tiles where
very many are.
"""

import numpy as np
import torch

from tercet_kernels._checks import check
from tercet_kernels._simd import LANES
from tercet_kernels._threads import threads
from tercet_kernels.nearest import BYTES, NOTHING, PRODUCTS, SLACK, WIDEST, Codes, pack_bytes
from tercet_kernels.outranked import cpu

SHARE = 4  # no more than one row in so many is looked at
TRIAL = 16  # after one row in so many, queries go that don't seem to get there


def outranked(
    codes: Codes, queries: torch.Tensor, distance: torch.Tensor, wide: torch.Tensor, hidden: torch.Tensor | None = None
) -> torch.Tensor:
    """Queries for which at least `wide` rows are nearer than `distance`, as far as that comes out soon.

    Args:
        codes: of the rows, on the CPU; of at most 65,536 elements.
        queries: (B, D) float32, norm at most 1.
        distance: (B,) float32 in [0, 2]; +inf: there is nothing to outrank, so the answer is yes.
        wide: (B,) int64.
        hidden: (V,) bool rows that don't count.

    Returns:
        (B,) bool: True is proven (see `nearest` for the bounds); False says nothing.

    Raises:
        ValueError: a shape, dtype or device differs from the above.
    """
    device = torch.device("cpu")
    check("queries", queries, (None, None), torch.float32, device)
    check("distance", distance, (queries.shape[0],), torch.float32, device)
    check("wide", wide, (queries.shape[0],), torch.int64, device)
    if codes.code.shape[1] > WIDEST:
        raise ValueError(f"codes: expected at most {WIDEST} elements, got {codes.code.shape[1]}")
    away, most = distance.numpy(), wide.numpy()
    out = np.isinf(away) | (most <= 0)
    # the farthest distances first: those of a block are decided at about the same time
    order = np.argsort(np.where(out, np.float32(np.inf), -away), kind="stable")[: len(out) - np.count_nonzero(out)]
    rows = codes.step.shape[0]
    if not len(order) or not rows:
        return torch.from_numpy(out)
    chosen = queries if len(order) == 1 == len(queries) else queries[torch.from_numpy(order)]
    packed, unit, left, made = pack_bytes(chosen, codes.code.shape[1])
    bounds = np.full(unit.size, np.inf, np.float32)
    bounds[: len(order)] = np.float32(1.0) - away[order]
    parts = threads(-(-len(order) // (2 * LANES)), rows / SHARE * codes.code.shape[1] * max(len(order), 8) / PRODUCTS)
    out[order] = cpu.outranked(
        codes.code.numpy(), codes.first.numpy(), codes.step.numpy(), codes.error.numpy(),
        NOTHING if hidden is None else hidden.numpy(), packed, unit, (-made, -(left + np.float32(SLACK))), bounds,
        most[order], rows, SHARE, TRIAL, parts,
    )  # fmt: skip
    return torch.from_numpy(out)


def pays(rows: int) -> bool:
    """Whether to ask before a search of so many rows: the processor multiplies bytes, and there is enough to spare."""
    return BYTES and rows >= 1 << 13
