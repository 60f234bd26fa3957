"""The k nearest rows of each query on the CPU, exactly: an integer first pass, a bound, and one fixed-order formula.

Rows and queries are rounded to int16 (a tile of rows at a time, nothing is stored), or rows are read as int8 codes:
beside int8 queries where the processor multiplies bytes (`BYTES`), else, and for one or two queries, beside int16
ones. With q' and v' the rounded vectors, the Cauchy-Schwarz inequality gives
|q v - q' v'| <= |q - q'| |v| + |q'| |v - v'|, so a row whose upper bound is below the k-th largest lower bound can't be
among the k nearest. All others get the distance of `pair_distances` and are ordered by it.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
import torch

from tercet_kernels import _simd
from tercet_kernels._checks import check, check_k
from tercet_kernels._simd import LANES, ROW_BLOCK
from tercet_kernels._threads import threads
from tercet_kernels.cosine import pair_distances
from tercet_kernels.nearest import cpu, rounding, settling

SLACK = 4e-6  # float32 steps of a bound, norms that are 1 within float32, distances rounded to float32
BUFFER_BYTES = 64 << 20  # of candidates, for one group of queries
ENCODED = 1 << 16  # rows encoded at a time
PRODUCTS = 60.0  # integer products a nanosecond
STEPS = 20000.0  # nanoseconds to score the candidates of a query and put them in order
BYTES = bool(_simd.BYTES)  # the processor multiplies bytes in one instruction
WIDEST = 1 << 16  # elements whose products of bytes, at most 255 * 127 each, add up within int32
NO_CODES, ONE_STEP, NO_SUMS = (
    np.zeros((1, 1), np.int8),
    np.full(1, 1.0 / rounding.ONE, np.float32),
    np.zeros(0, np.int32),
)
NO_SAMPLES = np.zeros((0, 2), np.int32)
NOTHING, NOT_PACKED = np.zeros(0, np.bool_), np.zeros(0, np.int16)
SAMPLED, LEAST = 16, 1 << 12  # one of so many rows is looked at beforehand, where a thread has at least so many
SAFETY = 4.0  # standard deviations of how many of the k best are in such a sample: 1 query in 30,000 has more
FEW = 2  # queries that are searched one by one when there are codes


class Codes(NamedTuple):
    """Rows of unit norm as int8."""

    code: torch.Tensor  # (max(V, 4), W) int8, W = D rounded up to a multiple of 64
    step: torch.Tensor  # (V,) float32: v' = step * code
    error: torch.Tensor  # (V,) float32: an upper bound of |v - v'|
    first: torch.Tensor  # (V,) int32: -128 times the sum of the codes
    longest: float  # the largest norm of a row of codes


def encode(vectors: torch.Tensor, scale: torch.Tensor | None = None) -> Codes:
    """int8 codes of rows: (V, D) float32, or float16 with the (V,) float64 reciprocal norms. Memory: V * D bytes."""
    rows, width = vectors.shape
    code = torch.zeros(max(rows, ROW_BLOCK), -(-width // 64) * 64, dtype=torch.int8)
    step, error, first = torch.empty(rows), torch.empty(rows), torch.empty(rows, dtype=torch.int32)
    for start in range(0, rows, ENCODED):
        part = slice(start, start + ENCODED)
        chosen = vectors[part] if scale is None else (vectors[part].double() * scale[part, None]).float()
        made = (x[part].numpy() for x in (code, step, error, first))
        rounding.encode(chosen.numpy(), *made, threads(rows))
    shortest = float(step[step > 0].min()) if bool((step > 0).any()) else 1.0
    return Codes(code, step, error, first, (1.0 + (float(error.max()) if rows else 0.0)) / shortest)


def dense_error(dimension: int) -> float:
    """How far `dense` can be from exact distances, for D elements.

    The step of a query is largest, 1 / 32767, where one of its elements is 1.
    """
    row = _row_error(dimension)
    return row + 0.5 * dimension**0.5 / 32767.0 * (1.0 + row) + SLACK


def dense(
    vectors: torch.Tensor,
    queries: torch.Tensor,
    out: torch.Tensor | None = None,
    owner: torch.Tensor | None = None,
) -> torch.Tensor:
    """(B, V) float32 distances within `dense_error` of the exact ones, from int16 products.

    Args:
        vectors: (V, D) float32, unit norm (or zero), on the CPU.
        queries: (B, D) float32, norm at most 1.
        out: where to write them, contiguous. With `owner` (V,) int32, no owner twice, it is (B, N): a row's distance is
            entered in its owner's column if it is smaller than what is there; owners outside [0, N) are passed over.
    """
    device = torch.device("cpu")
    check("vectors", vectors, (None, None), torch.float32, device)
    check("queries", queries, (None, vectors.shape[1]), torch.float32, device)
    if out is None:
        out = torch.empty(queries.shape[0], vectors.shape[0])
    if owner is None:
        owner = torch.zeros(0, dtype=torch.int32)
        check("out", out, (queries.shape[0], vectors.shape[0]), torch.float32, device)
    else:
        check("out", out, (queries.shape[0], None), torch.float32, device)
        check("owner", owner, (vectors.shape[0],), torch.int32, device)
    if queries.shape[0] and vectors.shape[0]:
        ints, unit, _, _ = _rounded(queries, rounding.ONE)
        parts = threads(vectors.shape[0], vectors.numel() * max(queries.shape[0], 8) / PRODUCTS)
        packed = _packed(ints)
        cpu.dense(vectors.numpy(), unit / rounding.ONE, packed, queries.shape[0], owner.numpy(), out.numpy(), parts)
    return out


def nearest(
    vectors: torch.Tensor,
    queries: torch.Tensor,
    k: int,
    *,
    scale: torch.Tensor | None = None,
    hidden: torch.Tensor | None = None,
    allowed: torch.Tensor | None = None,
    allowed_row: torch.Tensor | None = None,
    codes: Codes | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The k nearest rows of each query by (distance, row), bit-equal to `reference.nearest`.

    Args:
        vectors: (V, D) float32, unit norm (or zero), on the CPU; or float16 of any norm with `scale` and `codes`.
        queries: (B, D) float32, norm at most 1.
        k: at least 1.
        scale: (V,) float64, the reciprocal norms of float16 rows.
        hidden: (V,) bool rows that are never returned.
        allowed: (F, V) bool masks; allowed_row: (B,) int32 mask of each query, -1 for none.
        codes: of the same rows; read instead of them for the first pass. They are a quarter of the bytes, but their
            bounds are wider: worth it where reading the rows is what costs, for few queries, and for all where
            the processor multiplies bytes.

    Returns:
        rows (B, min(k, V)) int32, -1 where there is none; distances float32, +inf there.

    Raises:
        ValueError: k is below 1, or a shape, dtype or device differs from the above.

    Memory: candidates of a group of queries (64 MiB) and the result.
    """
    check_k(k)
    device = torch.device("cpu")
    check("vectors", vectors, (None, None), torch.float32 if scale is None else torch.float16, device)
    if scale is not None and codes is None:
        raise ValueError("codes: expected those of the float16 rows, got None")
    check("queries", queries, (None, vectors.shape[1]), torch.float32, device)
    k = min(k, vectors.shape[0])
    rows = torch.full((queries.shape[0], k), -1, dtype=torch.int32)
    distances = torch.full(rows.shape, torch.inf)
    if k == 0 or queries.shape[0] == 0:
        return rows, distances
    if allowed is None or allowed_row is None:
        allowed = torch.ones(1, 1, dtype=torch.bool)
        allowed_row = torch.full((queries.shape[0],), -1, dtype=torch.int32)
    parts = threads(vectors.shape[0], vectors.numel() * max(queries.shape[0], 8) / PRODUCTS)
    room, group = tile(vectors.shape[0], k, parts)
    search = partial(_group, vectors, scale, k, hidden, allowed, codes)
    for start in range(0, queries.shape[0], group):
        part = slice(start, start + group)
        mine, mask, out = queries[part], allowed_row[part], (rows[part], distances[part])
        left = search(mine, mask, room, parts, *out, sample=True)
        if len(left):  # rows may be missing: once more without a sample; then the bounds hold more than the buffers do
            left = left[_again(search, mine, mask, left, room, parts, out)]
        for q in left:
            _again(search, mine, mask, np.array([q]), vectors.shape[0] + 1, 1, out)
    return rows, distances


def tile(rows: int, k: int, parts: int) -> tuple[int, int]:
    """Candidates that a query has room for, and queries that are searched together."""
    room = min(rows, 6 * k + 512)
    return room, max(LANES, BUFFER_BYTES // (8 * max(room, 1) * parts))


def by_query(queries: int, parts: int) -> bool:
    """Whether threads share out the queries, not the rows."""
    return -(-queries // (2 * LANES)) >= 2 * parts


def scratch_bytes(rows: int, width: int, queries: int, k: int, parts: int) -> int:
    """What a search takes beside its result: candidates, queries as integers, and exact distances of what is left.

    A bound that a sample has set isn't raised any more, so the candidates may fill their room.
    """
    k = min(k, rows)
    room, group = tile(rows, k, parts)
    queries = min(queries, group)
    buffers = 1 if by_query(queries, parts) else parts
    return queries * (8 * buffers * room + 4 * width + 12 * min(2 * k, room))


def code_bytes(rows: int, width: int) -> int:
    """What `encode` makes of so many rows."""
    return max(rows, ROW_BLOCK) * -(-width // 64) * 64 + 12 * rows


def _again(
    search: Callable[..., np.ndarray], queries: torch.Tensor, mask: torch.Tensor, which: np.ndarray, room: int,
    parts: int, out: tuple[torch.Tensor, torch.Tensor],
) -> np.ndarray:  # fmt: skip
    """Search some queries of a group once more; returns those of them whose buffers ran over."""
    chosen = torch.from_numpy(which)
    made = tuple(x[chosen] for x in out)
    left = search(queries[chosen], mask[chosen], room, parts, *made, sample=False)
    for x, y in zip(out, made, strict=True):
        x[chosen] = y
    return left


def _group(
    vectors: torch.Tensor, row_scale: torch.Tensor | None, k: int, hidden: torch.Tensor | None, allowed: torch.Tensor,
    codes: Codes | None, queries: torch.Tensor, allowed_row: torch.Tensor, room: int, parts: int, rows: torch.Tensor,
    distances: torch.Tensor, *, sample: bool,
) -> np.ndarray:  # fmt: skip
    """Fill `rows` and `distances`; returns the queries that it couldn't answer: too many rows for their buffers, or
    bounds of the sample that all rows don't reach."""
    count = queries.shape[0]
    few = codes is not None and count <= FEW
    if codes is None:
        form, code, step, error = cpu.WIDENED, NO_CODES, ONE_STEP, np.full(1, _row_error(queries.shape[1]), np.float32)
    else:
        form = cpu.BYTES if BYTES and not few and codes.code.shape[1] <= WIDEST else cpu.CODED
        code, step, error = codes.code.numpy(), codes.step.numpy(), codes.error.numpy()
    plain = np.zeros((count if few else 0, code.shape[1]), np.int16)
    if form == cpu.BYTES:
        packed, unit, left, made = pack_bytes(queries, code.shape[1])
    else:
        ints, *numbers = _rounded(queries, rounding.ONE if codes is None else codes.longest)
        unit, left, norm = (np.full(-(-count // LANES) * LANES, x, np.float32) for x in numbers)
        made = norm + left
        packed = NOT_PACKED if few else _packed(ints)
        if few:
            plain[:, : ints.shape[1]] = ints
    spread = (error, made, left + np.float32(SLACK))
    samples = NO_SAMPLES
    if sample and form == cpu.BYTES:
        samples = _samples(vectors.shape[0], k, room, 1 if by_query(count, parts) else parts)
    found = cpu.scan(
        (vectors if codes is None else queries[:0]).numpy(), code, NO_SUMS if codes is None else codes.first.numpy(),
        form, vectors.shape[0], step, unit, spread, NOTHING if hidden is None else hidden.numpy(), packed, plain, count,
        k, samples, room, allowed.numpy(), allowed_row.numpy(), parts,
    )  # fmt: skip
    workers = threads(count, STEPS * count)
    if row_scale is None:
        settling.settle(*found, spread, k, queries.numpy(), vectors.numpy(), rows.numpy(), distances.numpy(), workers)
    else:
        indptr, row = settling.gather(*found, spread, k, workers)
        query = torch.from_numpy(np.repeat(np.arange(count, dtype=np.int32), np.diff(indptr)))
        exact = pair_distances(queries, vectors, query, torch.from_numpy(row), row_scale)
        settling.cut(indptr, row, exact.numpy(), rows.numpy(), distances.numpy(), threads(count, STEPS * count))
    out: np.ndarray = np.flatnonzero(found[3].any(axis=0))
    return out


def _samples(rows: int, k: int, room: int, parts: int) -> np.ndarray:
    """(levels, 2) int32: of how many rows one is looked at beforehand, and the place of the best of these that the k-th
    best of all is hardly ever behind; each level says where the next one begins."""
    levels = []
    every, few = SAMPLED, _few(k / parts)
    while rows >= LEAST * parts * every // SAMPLED and few <= min(room, rows // (2 * every * parts)):
        levels.append((every, few))
        every, few = every * SAMPLED, _few(few)
    return np.array(levels[::-1], np.int32).reshape(-1, 2)


def _few(k: float) -> int:
    """How many of the k best may be in a sample of one in SAMPLED."""
    there = k / SAMPLED
    return math.ceil(there + SAFETY * there**0.5 + 2.0)


def _rounded(queries: torch.Tensor, longest: float) -> tuple[np.ndarray, float, float, float]:
    """int16 queries with one step, the step, and the largest norms of what rounding left out and of the queries.

    The step keeps every partial sum of products within int32: they are at most |q'| |v'|, and `longest` bounds |v'|.
    """
    ints = np.empty(queries.shape, np.int16)
    return ints, *rounding.round_queries(queries.numpy(), longest, ints)


def pack_bytes(queries: torch.Tensor, width: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Queries as uint8 in blocks as those of `_packed`, (block, four, query, 4), as int16 pairs; their steps, and the
    norms of what rounding left out and of what it made: (lanes,) float32, 0 beyond the queries."""
    lanes = -(-queries.shape[0] // LANES) * LANES
    packed = np.full(lanes * width, 128, np.uint8)
    unit, left, made = (np.zeros(lanes, np.float32) for _ in range(3))
    rounding.round_bytes(queries.numpy(), width, 2 * LANES, packed, unit, left, made)
    return packed.view(np.int16), unit, left, made


def _row_error(dimension: int) -> float:
    """The largest |v - v'| of a row rounded to int16: half a step an element, one more where 1.0 is clipped."""
    return (0.5 * dimension**0.5 + 1.0) / rounding.ONE


def _packed(ints: np.ndarray) -> np.ndarray:
    """Queries in blocks of two vectors of lanes (the last may be one): (block, pair, query, 2) int16, flat."""
    count, width = ints.shape
    padded = np.zeros((-(-count // LANES) * LANES, width + width % 2), np.int16)
    padded[:count, :width] = ints
    blocks = [padded[i : i + 2 * LANES] for i in range(0, len(padded), 2 * LANES)]
    return np.concatenate([b.reshape(len(b), -1, 2).transpose(1, 0, 2).ravel() for b in blocks])
