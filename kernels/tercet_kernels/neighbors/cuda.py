"""Triton form of `neighbors`: a bit a node and query says what is reached, then each reached node gets its best edge.

The lists of the frontier are walked twice: once to set bits, and once more to take the least (rank, edge) of each node
that has one. The second walk finds a node's place among the reached ones by counting the bits before its own, so keys
are held for what was reached only; a table of a key for every node and query would be 64 times a bitmap, to be cleared
and read at every level however little it reaches. Hubs don't hold a program up: the entries of all lists are one range,
of which each program takes equal steps.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Literal, NamedTuple

import torch
import triton
import triton.language as tl

from tercet_kernels._arena import arena
from tercet_kernels._types import Topology
from tercet_kernels.expand.cuda import list_kernel

if TYPE_CHECKING:
    from tercet_kernels.neighbors import Direction, Level

BITMAP_BYTES = 256 << 20  # of one group of queries; there are two bitmaps
BLOCK_S = 256  # selected nodes a program
BLOCK_J = 512  # list entries a step
BLOCK_W = 128  # words of a bitmap that a program counts or lists
PROGRAMS = 8  # for each multiprocessor
WORST = torch.iinfo(torch.int64).max  # beyond every key


class Walk(NamedTuple):
    """What all queries share."""

    topology: Topology
    direction: "Direction"
    order: Literal["edge", "rank", "node"]
    rank: torch.Tensor | None
    relation: torch.Tensor | None
    walkable: torch.Tensor | None
    allowed: torch.Tensor | None


@triton.jit
def mark_kernel(node, query, selected, num_nodes, words, size, BLOCK_S: tl.constexpr):
    """Set the bits of the selected nodes; those beyond the graph can't be reached and have none."""
    offs_s = tl.program_id(0).to(tl.int64) * BLOCK_S + tl.arange(0, BLOCK_S)
    mask = offs_s < num_nodes
    v = tl.load(node + offs_s, mask=mask, other=0)
    q = tl.load(query + offs_s, mask=mask, other=0).to(tl.int64)
    tl.atomic_or(selected + q * words + (v >> 5), 1 << (v & 31), mask=mask & (v < size), sem="relaxed")


@triton.jit
def ones(word):
    """How many bits are set: of pairs, fours, bytes, then all; the masks drop the signs that a shift brings in."""
    word = word - ((word >> 1) & 0x55555555)
    word = (word & 0x33333333) + ((word >> 2) & 0x33333333)
    word = (word + (word >> 4)) & 0x0F0F0F0F
    word = word + (word >> 8)
    return (word + (word >> 16)) & 0x3F


@triton.jit
def list_of(ends, entry, num_lists, mask, BLOCK_J: tl.constexpr):
    """The first list that ends beyond each entry."""
    low = tl.zeros((BLOCK_J,), tl.int64)
    span = low + num_lists
    longest = tl.max(span, 0)
    while longest > 0:
        middle = low + span // 2
        open_ = mask & (span > 0)
        past = open_ & (tl.load(ends + middle, mask=open_, other=0) <= entry)
        low = tl.where(past, middle + 1, low)
        span = tl.where(past, span - span // 2 - 1, span // 2)
        longest = longest // 2
    return low


@triton.jit
def visit_kernel(
    query, begin, ends, list_edge, far, rank, relation, walkable, allowed, allowed_row, selected, reached, offsets,
    keys, num_lists, words, blocks, size, num_labels,
    RANKED: tl.constexpr, LABELLED: tl.constexpr, FILTERED: tl.constexpr, BEST: tl.constexpr, BLOCK_J: tl.constexpr,
    BLOCK_W: tl.constexpr,
):  # fmt: skip
    """Mark the far ends of all entries of some lists; list i has the entries ends[i - 1] to ends[i] of the range.

    BEST: they are marked already, and keep the least key of their entries; `selected` then holds, for each word of
    `reached`, how many bits its block has before it.
    """
    total = tl.load(ends + num_lists - 1)
    step = tl.num_programs(0).to(tl.int64) * BLOCK_J
    for start in range(tl.program_id(0).to(tl.int64) * BLOCK_J, total, step):
        entry = start + tl.arange(0, BLOCK_J)
        mask = entry < total
        low = list_of(ends, entry, num_lists, mask, BLOCK_J)
        before = tl.load(ends + low - 1, mask=mask & (low > 0), other=0)
        at = tl.load(begin + low, mask=mask, other=0) + entry - before
        edge = tl.load(list_edge + at, mask=mask, other=0).to(tl.int64)
        v = tl.load(far + edge, mask=mask, other=0)
        q = tl.load(query + low, mask=mask, other=0).to(tl.int64)
        word = q * words + (v >> 5)
        bit = 1 << (v & 31)
        bits = tl.load(reached + word, mask=mask, other=0)
        if BEST:
            keep = mask & ((bits & bit) != 0)
        else:  # reads are cheaper than atomics
            keep = mask & (((bits | tl.load(selected + word, mask=mask, other=0)) & bit) == 0)
        if LABELLED:
            label = tl.load(relation + edge, mask=keep, other=0).to(tl.int64)
            label = tl.where(label < 0, num_labels - 1, label)
            keep = keep & (tl.load(walkable + label, mask=keep, other=0) != 0)
        if BEST:
            key = edge
            if RANKED:
                key += tl.load(rank + edge, mask=keep, other=0).to(tl.int64) << 32
            block = q * blocks + (v >> 5) // BLOCK_W
            to = tl.load(offsets + block, mask=keep, other=0) + tl.load(selected + word, mask=keep, other=0)
            to += ones(bits & ~(-1 << (v & 31)))
            keep = keep & (key < tl.load(keys + to, mask=keep, other=0))
            tl.atomic_min(keys + to, key, mask=keep, sem="relaxed")
        else:
            if FILTERED:
                row = tl.load(allowed_row + q, mask=keep, other=-1).to(tl.int64)
                keep = keep & (tl.load(allowed + row * size + v, mask=keep & (row >= 0), other=1) != 0)
            tl.atomic_or(reached + word, bit, mask=keep, sem="relaxed")


@triton.jit
def count_kernel(reached, counts, before, words, blocks, BLOCK_W: tl.constexpr):
    """Count the bits of a block of words, and for each word those before it in the block."""
    block = tl.program_id(0)
    offs_w = (block % blocks) * BLOCK_W + tl.arange(0, BLOCK_W)
    mask = offs_w < words
    at = (block // blocks).to(tl.int64) * words + offs_w
    number = ones(tl.load(reached + at, mask=mask, other=0))
    tl.store(before + at, tl.cumsum(number, 0) - number, mask=mask)
    tl.store(counts + block, tl.sum(number, 0).to(tl.int64))


def neighbors(
    topology: Topology,
    indptr: torch.Tensor,
    node: torch.Tensor,
    begin: torch.Tensor,
    direction: "Direction",
    order: Literal["edge", "rank", "node"],
    rank: torch.Tensor | None,
    relation: torch.Tensor | None,
    walkable: torch.Tensor | None,
    allowed: torch.Tensor | None,
    allowed_row: torch.Tensor | None,
    limit: torch.Tensor | None,
) -> "Level":
    """See the public function.

    Memory: the result; 24 bytes a reached node (those beyond the limit too), and some 32 more where they are sorted,
    that is unless order is "node"; at most 60 a selected node; and two bitmaps of a bit a node and query, each of at
    most BITMAP_BYTES (queries are taken in groups). Host syncs: one a group, for how many nodes it reached and how
    many of them are kept, and one for the bounds of the groups where there are several.
    """
    from tercet_kernels.neighbors import Level

    queries = begin.shape[0]
    if node.shape[0] == 0 or topology.source.shape[0] == 0:
        return Level(torch.zeros_like(indptr), node[:0], node[:0], torch.zeros_like(begin))
    step = max(1, BITMAP_BYTES // (4 * triton.cdiv(topology.num_nodes, 32)))
    cuts = [*range(0, queries, step), queries]
    bounds = [0, node.shape[0]] if len(cuts) == 2 else indptr[torch.tensor(cuts, device=node.device)].tolist()
    walk = Walk(topology, direction, order, rank, relation, walkable, allowed)
    parts = []
    with torch.cuda.device_of(node):
        for (low, high), (first, last) in zip(pairwise(cuts), pairwise(bounds), strict=True):
            row, most = (None if x is None else x[low:high] for x in (allowed_row, limit))
            part = indptr[low : high + 1] - first, node[first:last], begin[low:high] - first
            parts.append(_group(walk, *part, row, most))
    if len(parts) == 1:
        return parts[0]
    counts = torch.cat([indptr.new_zeros(1), *(part.indptr.diff() for part in parts)])
    return Level(counts.cumsum(0), *(torch.cat([part[i] for part in parts]) for i in (1, 2, 3)))


def _group(
    walk: Walk,
    indptr: torch.Tensor,
    node: torch.Tensor,
    begin: torch.Tensor,
    allowed_row: torch.Tensor | None,
    limit: torch.Tensor | None,
) -> "Level":
    from tercet_kernels.neighbors import Level

    device, queries, size = node.device, begin.shape[0], walk.topology.num_nodes
    if node.shape[0] == 0:
        return Level(torch.zeros_like(indptr), node, node, torch.zeros_like(begin))
    words = triton.cdiv(size, 32)
    blocks = triton.cdiv(words, BLOCK_W)
    programs = PROGRAMS * (torch.cuda.get_device_properties(device).multi_processor_count if node.is_cuda else 1)
    whose = torch.arange(queries, dtype=torch.int32, device=device)
    query = torch.repeat_interleave(whose, indptr.diff(), output_size=node.shape[0])
    lists = list(_lists(walk, indptr, node, begin))
    counts = torch.empty(queries * blocks, dtype=torch.int64, device=device)
    offsets = torch.zeros(queries * blocks + 1, dtype=torch.int64, device=device)
    filtered = walk.allowed is not None and walk.allowed.shape[0] > 0
    labels = 0 if walk.walkable is None else walk.walkable.shape[0]
    rank, relation, walkable, allowed, row = (  # the sources stand for what is never read
        walk.topology.source if x is None else x.view(torch.uint8) if x.dtype == torch.bool else x
        for x in (walk.rank, walk.relation, walk.walkable, walk.allowed, allowed_row)
    )

    def visit(keys: torch.Tensor, best: bool) -> None:
        for first, ends, edge, far in lists:
            visit_kernel[(programs,)](
                query, first, ends, edge, far, rank, relation, walkable, allowed, row, selected, reached, offsets, keys,
                node.shape[0], words, blocks, size, labels, RANKED=best and walk.rank is not None,
                LABELLED=labels > 0, FILTERED=filtered and not best, BEST=best, BLOCK_J=BLOCK_J, BLOCK_W=BLOCK_W,
            )  # fmt: skip

    with (
        arena.lend("neighbors.selected", (queries, words), torch.int32, device) as selected,
        arena.lend("neighbors.reached", (queries, words), torch.int32, device) as reached,
    ):
        selected.zero_()
        reached.zero_()
        grid = (triton.cdiv(node.shape[0], BLOCK_S),)
        mark_kernel[grid](node, query, selected, node.shape[0], words, size, BLOCK_S=BLOCK_S)
        visit(counts, False)
        # `selected` isn't needed any more: its place takes the number of bits before each word
        count_kernel[(queries * blocks,)](reached, counts, selected, words, blocks, BLOCK_W=BLOCK_W)
        torch.cumsum(counts, 0, out=offsets[1:])
        found = offsets[::blocks].contiguous()
        available = found.diff()
        kept = available if limit is None else torch.minimum(available, limit).clamp(min=0)
        total, taken = torch.stack([found[-1], kept.sum()]).tolist()  # host sync
        keys = torch.full((total if taken else 0,), WORST, dtype=torch.int64, device=device)
        nodes, owner = (torch.empty(keys.shape, dtype=torch.int32, device=device) for _ in range(2))
        if taken:
            list_kernel[(queries * blocks,)](
                reached, reached, counts, offsets, nodes, owner, words, blocks,
                DIFF=False, WRITE=True, BLOCK_W=BLOCK_W,
            )  # fmt: skip
            visit(keys, True)
    out, at = _taken(walk.order, keys, owner, found, kept, taken)
    return Level(out, nodes[at], (keys[at] & 0xFFFFFFFF).int(), available)


def _lists(
    walk: Walk, indptr: torch.Tensor, node: torch.Tensor, begin: torch.Tensor
) -> Iterator[tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]]:
    """(where each selected node's list begins, where it ends in the range of all, edges, far ends), each way.

    Only the frontier's lists have entries; to leave the others out would take a host sync, for how many are left.
    """
    slot = torch.arange(node.shape[0], device=node.device)
    since = torch.repeat_interleave(begin, indptr.diff(), output_size=node.shape[0])
    frontier = (slot >= since) & (node < walk.topology.num_nodes)
    row = torch.where(frontier, node, 0).long()
    for way, offsets, edge, far in (
        ("out", walk.topology.out_indptr, walk.topology.out_edge, walk.topology.target),
        ("in", walk.topology.in_indptr, walk.topology.in_edge, walk.topology.source),
    ):
        if walk.direction in ("both", way):
            first = offsets[row]
            yield first, torch.where(frontier, offsets[row + 1] - first, 0).cumsum(0), edge, far


def _taken(
    order: Literal["edge", "rank", "node"],
    keys: torch.Tensor,
    owner: torch.Tensor,
    found: torch.Tensor,
    kept: torch.Tensor,
    taken: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Offsets of the first `kept` nodes of each query, and where they stand among the reached ones.

    Args:
        keys, owner: of the reached nodes, a slice of `found` a query, ascending by node within it.
        taken: the sum of `kept`.
    """
    if order == "node":
        at = torch.arange(keys.shape[0], device=keys.device)
    else:  # without ranks, a key is the edge alone; equal ranks stay by node
        at = torch.argsort((owner.long() << 32) + (keys >> 32 if order == "rank" else keys), stable=True)
    indptr = torch.zeros_like(found)
    torch.cumsum(kept, 0, out=indptr[1:])
    if taken < keys.shape[0]:
        gaps = torch.repeat_interleave(found[:-1] - indptr[:-1], kept, output_size=taken)
        at = at[torch.arange(taken, device=keys.device) + gaps]
    return indptr, at
