"""Triton form of `expand`: a bit a node and query says what was reached; what a level adds is counted, then listed.

A bitmap needs no sort and no room for the entries of the lists that are walked. Hubs don't hold a program up: the
entries of all lists of a level are one range, of which each program takes equal steps.
"""

from itertools import pairwise

import torch
import triton
import triton.language as tl

from tercet_kernels._arena import arena
from tercet_kernels._types import Topology

BITMAP_BYTES = 256 << 20  # of one group of queries; there are two bitmaps
BLOCK_S = 256  # seeds a program
BLOCK_J = 512  # list entries a step
BLOCK_W = 128  # words of a bitmap that a program counts or lists
PROGRAMS = 8  # for each multiprocessor


@triton.jit
def mark_kernel(node, query, reached, num_nodes, words, BLOCK_S: tl.constexpr):
    offs_s = tl.program_id(0).to(tl.int64) * BLOCK_S + tl.arange(0, BLOCK_S)
    mask = offs_s < num_nodes
    v = tl.load(node + offs_s, mask=mask, other=0)
    q = tl.load(query + offs_s, mask=mask, other=0).to(tl.int64)
    tl.atomic_or(reached + q * words + (v >> 5), 1 << (v & 31), mask=mask, sem="relaxed")


@triton.jit
def visit_kernel(
    node, query, begin, ends, list_edge, far, reached, allowed, allowed_row, num_lists, words, size,
    FILTERED: tl.constexpr, BLOCK_J: tl.constexpr,
):  # fmt: skip
    """Mark the far ends of all entries of some lists; list i has the entries ends[i - 1] to ends[i] of the range."""
    total = tl.load(ends + num_lists - 1)
    step = tl.num_programs(0).to(tl.int64) * BLOCK_J
    for start in range(tl.program_id(0).to(tl.int64) * BLOCK_J, total, step):
        entry = start + tl.arange(0, BLOCK_J)
        mask = entry < total
        low = tl.zeros((BLOCK_J,), tl.int64)  # becomes the first list that ends beyond the entry
        span = low + num_lists
        longest = tl.max(span, 0)
        while longest > 0:
            middle = low + span // 2
            open_ = mask & (span > 0)
            past = open_ & (tl.load(ends + middle, mask=open_, other=0) <= entry)
            low = tl.where(past, middle + 1, low)
            span = tl.where(past, span - span // 2 - 1, span // 2)
            longest = longest // 2
        before = tl.load(ends + low - 1, mask=mask & (low > 0), other=0)
        at = tl.load(begin + low, mask=mask, other=0) + entry - before
        edge = tl.load(list_edge + at, mask=mask, other=0).to(tl.int64)
        v = tl.load(far + edge, mask=mask, other=0)
        q = tl.load(query + low, mask=mask, other=0).to(tl.int64)
        word = reached + q * words + (v >> 5)
        bit = 1 << (v & 31)
        fresh = mask & ((tl.load(word, mask=mask, other=-1) & bit) == 0)  # a read is cheaper than an atomic
        if FILTERED:
            row = tl.load(allowed_row + q, mask=fresh, other=-1).to(tl.int64)
            entered = tl.load(allowed + row * size + v, mask=fresh & (row >= 0), other=1)
            fresh = fresh & (entered != 0)
        tl.atomic_or(word, bit, mask=fresh, sem="relaxed")


@triton.jit
def bits_of(reached, previous, at, mask, DIFF: tl.constexpr):
    word = tl.load(reached + at, mask=mask, other=0)
    if DIFF:
        word = word & ~tl.load(previous + at, mask=mask, other=0)
    return word


@triton.jit
def list_kernel(
    reached, previous, counts, offsets, node, query, words, blocks,
    DIFF: tl.constexpr, WRITE: tl.constexpr, BLOCK_W: tl.constexpr,
):  # fmt: skip
    """Count the bits of a run of words (those that `previous` lacks), or write their nodes where `offsets` says."""
    block = tl.program_id(0)
    q = (block // blocks).to(tl.int64)
    offs_w = (block % blocks) * BLOCK_W + tl.arange(0, BLOCK_W)
    mask = offs_w < words
    at = q * words + offs_w
    if WRITE:
        first = tl.load(offsets + block)
        if tl.load(offsets + block + 1) > first:
            word = bits_of(reached, previous, at, mask, DIFF)
            lane = tl.arange(0, 32)
            bits = tl.reshape((word[:, None] >> lane[None, :]) & 1, (BLOCK_W * 32,))
            v = tl.reshape(offs_w[:, None] * 32 + lane[None, :], (BLOCK_W * 32,))
            to = first + tl.cumsum(bits, 0) - 1
            tl.store(node + to, v, mask=bits > 0)
            tl.store(query + to, tl.zeros_like(v) + q.to(tl.int32), mask=bits > 0)
    else:
        word = bits_of(reached, previous, at, mask, DIFF)
        # ones of pairs, fours, bytes, then all; the masks drop the copies of the sign that a shift brings in
        word = word - ((word >> 1) & 0x55555555)
        word = (word & 0x33333333) + ((word >> 2) & 0x33333333)
        word = (word + (word >> 4)) & 0x0F0F0F0F
        word = word + (word >> 8)
        word = (word + (word >> 16)) & 0x3F
        tl.store(counts + block, tl.sum(word, 0).to(tl.int64))


def expand(
    topology: Topology,
    indptr: torch.Tensor,
    seed: torch.Tensor,
    depth: int,
    allowed: torch.Tensor,
    allowed_row: torch.Tensor,
    filtered: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    """See the public function; `filtered`: `allowed` is to be read.

    Memory: 4 bytes a node of the result, 24 a node of the largest level, and two bitmaps of a bit a node and query, of
    at most BITMAP_BYTES (queries are taken in groups). Host syncs: the largest seed, and one a level of each group.
    """
    queries = indptr.shape[0] - 1
    if queries == 0 or seed.shape[0] == 0:
        return torch.zeros_like(indptr), seed
    words = (max(topology.num_nodes, int(seed.max()) + 1) + 31) // 32  # host sync: ids beyond the graph have bits too
    step = max(1, BITMAP_BYTES // (4 * words))
    cuts = [*range(0, queries, step), queries]
    bounds = [0, seed.shape[0]] if len(cuts) == 2 else indptr[torch.tensor(cuts, device=indptr.device)].tolist()
    parts = []
    with torch.cuda.device_of(seed):
        for i, (low, high) in enumerate(pairwise(cuts)):
            offsets = indptr[low : high + 1] - bounds[i]
            chosen = seed[bounds[i] : bounds[i + 1]]
            rows = allowed_row[low:high]
            parts.append(_group(topology, offsets, chosen, depth, allowed, rows, filtered, words))
    if len(parts) == 1:
        return parts[0]
    counts = torch.cat([offsets.new_zeros(1), *(offsets.diff() for offsets, _ in parts)])
    return counts.cumsum(0), torch.cat([node for _, node in parts])


def _group(
    topology: Topology,
    indptr: torch.Tensor,
    seed: torch.Tensor,
    depth: int,
    allowed: torch.Tensor,
    allowed_row: torch.Tensor,
    filtered: bool,
    words: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    device, queries, size = seed.device, indptr.shape[0] - 1, topology.num_nodes
    node = seed
    query = torch.repeat_interleave(
        torch.arange(queries, dtype=torch.int32, device=device), indptr.diff(), output_size=node.shape[0]
    )
    shape = (queries, words)
    programs = PROGRAMS * _multiprocessors(device)
    with (
        arena.lend("expand.reached", shape, torch.int32, device) as reached,
        arena.lend("expand.previous", shape, torch.int32, device) as previous,
    ):
        reached.zero_()
        if node.shape[0]:
            grid = (triton.cdiv(node.shape[0], BLOCK_S),)
            mark_kernel[grid](node, query, reached, node.shape[0], words, BLOCK_S=BLOCK_S)
        for level in range(depth if topology.source.shape[0] else 0):
            if level:  # the seeds themselves are the first frontier; twice the same one does no harm
                _, node, query = _listed(reached, previous)
            if node.shape[0] == 0:
                break
            previous.copy_(reached)
            inside = node < size
            row = torch.where(inside, node, 0).long()
            for offsets, edge, far in (
                (topology.out_indptr, topology.out_edge, topology.target),
                (topology.in_indptr, topology.in_edge, topology.source),
            ):
                begin = offsets[row]
                ends = torch.where(inside, offsets[row + 1] - begin, 0).cumsum(0)
                visit_kernel[(programs,)](
                    node, query, begin, ends, edge, far, reached, allowed.view(torch.uint8), allowed_row,
                    node.shape[0], words, allowed.shape[1], FILTERED=filtered, BLOCK_J=BLOCK_J,
                )  # fmt: skip
        return _listed(reached, None)[:2]


def _listed(reached: torch.Tensor, previous: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """(indptr, node, query) of the bits that are set and weren't in `previous`; one host sync, for the size."""
    queries, words = reached.shape
    blocks = triton.cdiv(words, BLOCK_W)
    counts = torch.empty(queries * blocks, dtype=torch.int64, device=reached.device)
    offsets = torch.zeros(queries * blocks + 1, dtype=torch.int64, device=reached.device)

    def walk(node: torch.Tensor, query: torch.Tensor, write: bool) -> None:
        list_kernel[(queries * blocks,)](
            reached, reached if previous is None else previous, counts, offsets, node, query, words, blocks,
            DIFF=previous is not None, WRITE=write, BLOCK_W=BLOCK_W,
        )  # fmt: skip

    walk(counts, counts, False)
    torch.cumsum(counts, 0, out=offsets[1:])
    total = int(offsets[-1])  # the host sync
    node, query = (torch.empty(total, dtype=torch.int32, device=reached.device) for _ in range(2))
    walk(node, query, True)
    return offsets[::blocks].contiguous(), node, query


def _multiprocessors(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 1
