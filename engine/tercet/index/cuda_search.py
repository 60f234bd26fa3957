"""Candidates of an exact search on CUDA: products of tiles of rows, and a running best of each tile's.

There are several ways to do both. The fastest for a shape is found by trying them on the first tile of the first call
with such a shape; all of them stay within the bounds that the index knows, so the certified cut that follows gives the
same answer.
"""

import time
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

import torch

from tercet.errors import MissingDependency
from tercet.index import faiss_cuda

TILE_BYTES = 512 << 20  # scores of one tile of rows: fewer, longer calls than on the CPU
WIDE_BYTES = 2 << 30  # float16 rows of a tile that are multiplied in float32
BLOCK = 128  # neighbouring rows of which only the largest cosine is looked at first
FAISS_MOST = 2048  # rows that FAISS's own kernels can select
LOW_PART = 2.0**-11  # what the second float16 of a query number counts
TRIES = 3

Best = tuple[torch.Tensor, torch.Tensor]  # (B, take) float32 cosines, descending, and int64 rows


class Way(NamedTuple):
    """How a tile is multiplied and cut."""

    product: str  # "float32": in full; "split": float16 rows times queries in two float16 parts; "faiss": both at once
    cut: str  # "all": top-k of the tile; "blocks": of the blocks with the largest cosines only


class Choice(NamedTuple):
    """What a shape is served by, and the seconds that each way took for one tile."""

    way: Way
    seconds: dict[Way, float]


choices: dict[tuple, Choice] = {}  # by shape; of this process


def split_error(dimension: int) -> float:
    """A bound on |proposed distance - exact one| for float16 rows times queries in two parts, all of unit norm.

    Two parts leave 2**-22 of a query number, and tensor cores cut their sums off instead of rounding them (Fasi,
    Higham, Mikaitis and Pranesh 2021), for which two bits are allowed. The other products are torch's float32.
    """
    return 4 * (dimension + 4) * 2.0**-24 + 2.0**-21


def propose(
    vectors: torch.Tensor,
    queries: torch.Tensor,
    take: int,
    scale: torch.Tensor | None = None,
    hidden: torch.Tensor | None = None,
    allowed: torch.Tensor | None = None,
    allowed_row: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The `take` rows of smallest approximate distance.

    Args:
        vectors: (V, D) float32 unit norm, or float16 of any norm with `scale`; V at least 1.
        queries: (B, D) float32 unit norm.
        take: in [1, V].
        scale: (V,) float64 reciprocal norms.
        hidden: (V,) bool rows that are never returned.
        allowed: (F, V) bool masks; allowed_row: (B,) int32 mask of each query, -1 for none.

    Returns:
        rows (B, take) int32 and distances float32, ascending; -1 and +inf where there are fewer.

    Memory: about two tiles of TILE_BYTES, and WIDE_BYTES. Host syncs: only while the ways are tried.
    """
    masked = hidden is not None or allowed is not None

    def run(way: Way, rows: slice) -> Best:
        part = None if scale is None else scale[rows]
        if way.product == "faiss":
            return _by_faiss(vectors[rows], queries, take)
        best: Best | None = None
        for tile, cosine in tiles(vectors[rows], queries, part, way.product):
            shut = slice(rows.start + tile.start, rows.start + tile.stop)
            if hidden is not None:
                cosine.masked_fill_(hidden[shut], -torch.inf)
            if allowed is not None and allowed_row is not None:
                closed = ~allowed[:, shut][allowed_row.clamp(min=0).long()] & (allowed_row >= 0)[:, None]
                cosine.masked_fill_(closed, -torch.inf)
            value, row = _cut(cosine, min(take, cosine.shape[1]), way.cut == "blocks")
            best = _merge(best, (value, row + tile.start), take)
        assert best is not None
        return best

    way = _choose(vectors, queries, take, masked, run)
    cosine, row = run(way, slice(0, vectors.shape[0]))
    return torch.where(torch.isfinite(cosine), row, -1).int(), 1.0 - cosine


def scratch_bytes(rows: int, width: int, queries: int, take: int, half: bool) -> int:
    """What a search takes beside its result, at most: see `propose`.

    The tile's cosines and the sums they come from, the numbers of the blocks that are looked at, and, of float16 rows
    that are multiplied in float32, the rows.
    """
    step = min(_tile_rows(queries), rows)
    cosines = 4 * queries * step
    wide = 4 * width * min(step, max(WIDE_BYTES // (4 * width), BLOCK)) if half else 0
    inside = min(4 * queries * take * BLOCK, cosines)
    return cosines * (3 if half else 1) + inside + wide + 24 * queries * take


def tiles(
    vectors: torch.Tensor, queries: torch.Tensor, scale: torch.Tensor | None, product: str | None = None
) -> Iterator[tuple[slice, torch.Tensor]]:
    """Runs of rows and their (B, run) float32 cosines, each a new tensor; float16 rows are split unless told else."""
    product = product or ("split" if vectors.dtype == torch.float16 else "float32")
    step = _tile_rows(queries.shape[0])
    if product == "float32" and vectors.dtype == torch.float16:
        step = max(min(step, WIDE_BYTES // (4 * vectors.shape[1])), BLOCK)
    parts = _halves(queries) if product == "split" else queries
    for start in range(0, vectors.shape[0], step):
        part = slice(start, min(start + step, vectors.shape[0]))
        if product == "split":
            both = _half_product(parts, vectors[part])
            cosine = both[: queries.shape[0]].add_(both[queries.shape[0] :], alpha=LOW_PART)
        else:
            cosine = queries @ vectors[part].float().T
        if scale is not None:
            cosine.mul_(scale[part].float())
        yield part, cosine


def _choose(
    vectors: torch.Tensor, queries: torch.Tensor, take: int, masked: bool, run: Callable[[Way, slice], Best]
) -> Way:
    half = vectors.dtype == torch.float16
    sizes = (vectors.shape[0], queries.shape[0], take)
    key = (vectors.device, vectors.dtype, vectors.shape[1], masked, *(size.bit_length() for size in sizes))
    if key not in choices:
        products = ("split", "float32") if half else ("float32",)
        ways = [Way(product, cut) for product in products for cut in ("all", "blocks")]
        if not half and not masked and take <= FAISS_MOST and vectors.is_cuda and _faiss() is not None:
            ways.append(Way("faiss", "all"))
        tile = slice(0, min(vectors.shape[0], max(_tile_rows(queries.shape[0]), take)))
        seconds = {way: _seconds(lambda way=way: run(way, tile), vectors.device) for way in ways}  # type: ignore[misc]
        choices[key] = Choice(min(seconds, key=seconds.__getitem__), seconds)
    return choices[key].way


def _tile_rows(queries: int) -> int:
    return max(TILE_BYTES // (4 * max(queries, 1)) // BLOCK, 32) * BLOCK


def _cut(cosine: torch.Tensor, take: int, blocks: bool) -> Best:
    """The `take` largest of each row, and where they are.

    With `blocks` the tile is read once: a number outside the `take` blocks of largest maxima is no larger than any of
    those maxima, so the best are inside (up to ties, which the exact distances decide).
    """
    count = cosine.shape[1] // BLOCK
    if not blocks or count <= take:
        value, row = cosine.topk(take, dim=1)
        return value, row
    whole = cosine[:, : count * BLOCK].unflatten(1, (count, BLOCK))
    chosen = whole.amax(dim=2).topk(take, dim=1, sorted=False).indices
    inner = whole.gather(1, chosen[:, :, None].expand(-1, -1, BLOCK)).flatten(1)
    value, at = inner.topk(take, dim=1)
    row = chosen.gather(1, at // BLOCK) * BLOCK + at % BLOCK
    rest = cosine[:, count * BLOCK :]
    beyond = torch.arange(count * BLOCK, cosine.shape[1], device=row.device).expand(rest.shape)
    return _merge((value, row), (rest, beyond), take)


def _merge(best: Best | None, other: Best, take: int) -> Best:
    if best is None:
        return other
    value, order = torch.cat([best[0], other[0]], 1).topk(min(take, best[0].shape[1] + other[0].shape[1]), dim=1)
    return value, torch.cat([best[1], other[1]], 1).gather(1, order)


def _halves(queries: torch.Tensor) -> torch.Tensor:
    """(2 B, D) float16: each number rounded, then what the rounding left, in units of LOW_PART."""
    high = queries.half()
    return torch.cat([high, ((queries - high.float()) / LOW_PART).half()])


def _half_product(queries: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """float16 x float16 summed and returned in float32."""
    if queries.is_cuda and torch.__version__ >= (2, 8):  # type: ignore[operator]
        return torch.mm(queries, rows.T, out_dtype=torch.float32)
    return queries.float() @ rows.float().T


def _by_faiss(vectors: torch.Tensor, queries: torch.Tensor, take: int) -> Best:
    faiss, queries = _faiss(), queries.contiguous()
    found = torch.full((queries.shape[0], take), -1, dtype=torch.int64, device=queries.device)
    with faiss_cuda.on_stream(faiss, queries.device):
        similarity = faiss_cuda.brute_force(faiss, queries, vectors, found)
    return torch.where(found >= 0, similarity, -torch.inf), found


@cache
def _faiss() -> Any | None:
    """FAISS where it is installed and sees a GPU."""
    from tercet.index import approx

    try:
        faiss = approx._faiss("flat")
        faiss_cuda.check(faiss, "flat")
    except MissingDependency:
        return None
    return faiss


def _seconds(call: Callable[[], object], device: torch.device) -> float:
    """The fastest of a few calls, after one that isn't timed."""
    call()
    spent = []
    for _ in range(TRIES):
        if device.type == "cuda":
            torch.cuda.synchronize(device)  # host sync: ways are tried once a shape
        begin = time.perf_counter()
        call()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        spent.append(time.perf_counter() - begin)
    return min(spent)
