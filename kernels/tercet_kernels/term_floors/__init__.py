"""Lower bounds of what rows add to a score, a byte each, from products of bytes. On the CPU.

A row's distance to a query is at least 1 minus the upper bound that `nearest` gives its product, from int8 codes and
the norms of what rounding left out. A byte says how many whole steps that is after the row's weight, so sums of bytes
are lower bounds of sums of terms, and a table of all rows is a quarter of one of float32.
"""

import numpy as np
import torch

from tercet_kernels._checks import check
from tercet_kernels._simd import LANES
from tercet_kernels._threads import threads
from tercet_kernels.nearest import BYTES, PRODUCTS, SLACK, WIDEST, Codes, rounding
from tercet_kernels.term_floors import cpu

__all__ = ["BYTES", "LARGEST", "WIDEST", "PackedBytes", "pack_bytes", "padded", "term_floors"]

LARGEST = 255  # a byte from here on says nothing more
RUN = 64  # a table's rows are a multiple of this long
FEW = 2  # queries that are multiplied one by one
NOT_PACKED = np.zeros((0, 0), np.uint8)
NO_COLUMNS = torch.zeros(0, dtype=torch.int32)


class PackedBytes:
    """Queries as uint8, each with a step of its own; many are in the order in which tiles read them."""

    def __init__(self, queries: torch.Tensor, width: int) -> None:
        lanes = -(-queries.shape[0] // LANES) * LANES
        self.count, self.width = queries.shape[0], width
        self.unit, left, self.made = (np.zeros(lanes, np.float32) for _ in range(3))
        packed, few = np.full(lanes * width, 128, np.uint8), self.count <= FEW
        block = 1 if few else 2 * LANES  # blocks of one are plain rows
        rounding.round_bytes(queries.numpy(), width, block, packed, self.unit, left, self.made)
        self.least = left + np.float32(SLACK)
        self.plain = packed.reshape(lanes, width)[: self.count] if few else NOT_PACKED
        self.packed = NOT_PACKED.ravel() if few else packed


def pack_bytes(queries: torch.Tensor) -> PackedBytes:
    """(B, D) float32 queries, B at least 1, norm at most 1, for `term_floors`."""
    check("queries", queries, (None, None), torch.float32, torch.device("cpu"))
    return PackedBytes(queries, -(-queries.shape[1] // 64) * 64)


def padded(columns: int) -> int:
    """How long the rows of a table of so many columns are."""
    return -(-max(columns, 1) // RUN) * RUN


def term_floors(
    codes: Codes,
    queries: PackedBytes,
    weight: torch.Tensor,
    out: torch.Tensor,
    column: torch.Tensor | int = 0,
) -> None:
    """Enter floor(weight * distance) of rows and queries, or less, from 0 to 255.

    Args:
        codes: V rows of unit norm (or zero), up to WIDEST elements each.
        weight: (1,) or (W,) float32, not negative: steps that a distance of 1 makes, of all columns or of each.
        out: (B, W) uint8.
        column: where a query's rows go: (V,) int32 columns, -1 for rows that are passed over; or the column of row 0,
            and the others follow it.

    Raises:
        ValueError: a shape, dtype or device differs from the above.

    Memory: 16 KB a thread.
    """
    device, rows = torch.device("cpu"), codes.step.shape[0]
    check("codes.code", codes.code, (None, queries.width), torch.int8, device)
    check("out", out, (queries.count, None), torch.uint8, device)
    check("weight", weight, (None,), torch.float32, device)
    if weight.shape[0] not in (1, out.shape[1]):
        raise ValueError(f"weight: expected 1 or {out.shape[1]} values, got {weight.shape[0]}")
    base = column if isinstance(column, int) else 0
    if not isinstance(column, int):
        check("column", column, (rows,), torch.int32, device)
    elif base < 0 or base + rows > out.shape[1]:
        raise ValueError(f"column: expected {rows} columns from {base} on within {out.shape[1]}")
    if rows == 0:
        return
    parts = threads(-(-rows // cpu.TILE), rows * queries.width * max(queries.count, 8) / (2 * PRODUCTS))
    cpu.term_floors(
        codes.code.numpy(), codes.first.numpy(), codes.step.numpy(), codes.error.numpy(), weight.numpy(),
        queries.packed, queries.plain, queries.unit, queries.made, queries.least,
        (NO_COLUMNS if isinstance(column, int) else column).numpy(), base, out.numpy(), parts,
    )  # fmt: skip
