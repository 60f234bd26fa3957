"""Triton form of `fragment`: count, scan, fill, sort; membership by binary search in the query's hits."""

import torch
import triton
import triton.language as tl

from tercet_kernels._types import Fragment, NodeHits, Topology

ORIENTED, OUT, IN = 0, 1, 2  # which lists are read
BLOCK = {ORIENTED: (16, 32), OUT: (4, 256), IN: (4, 256)}  # hits a program, list entries a step; hubs aren't oriented


@triton.jit
def find(keys, low, span, wanted, mask):
    """The row of each wanted key in an ascending slice of its own (`span` keys from `low` on), -1 where absent."""
    base = low + tl.zeros_like(wanted)
    longest = tl.max(span)
    while longest > 1:
        half = span // 2
        middle = tl.load(keys + base + (half - 1), mask=mask & (half > 0), other=0)
        base = tl.where((half > 0) & (middle < wanted), base + half, base)
        span -= half
        longest -= longest // 2
    found = tl.load(keys + base, mask=mask & (span > 0), other=-1) == wanted
    return tl.where(mask & found, base, -1)


@triton.jit
def visit_kernel(
    source, list_indptr, list_edge, list_far, indptr, node, query, counts, offsets, key, source_slot, target_slot,
    num_slots, num_nodes, num_edges, room,
    KIND: tl.constexpr, LIST: tl.constexpr, LISTS: tl.constexpr, WRITE: tl.constexpr,
    BLOCK_S: tl.constexpr, BLOCK_J: tl.constexpr,
):  # fmt: skip
    """Count the edges of the fragment in the lists of some hits, or write them where `offsets` says, below `room`."""
    slot = tl.program_id(0).to(tl.int64) * BLOCK_S + tl.arange(0, BLOCK_S)
    mask_s = slot < num_slots
    u = tl.load(node + slot, mask=mask_s, other=0).to(tl.int64)
    inside = mask_s & (u < num_nodes)
    begin = tl.load(list_indptr + u, mask=inside, other=0)
    length = tl.load(list_indptr + u + 1, mask=inside, other=0) - begin
    q = tl.load(query + slot, mask=mask_s, other=0).to(tl.int64)
    low = tl.load(indptr + q, mask=mask_s, other=0)
    span = tl.load(indptr + q + 1, mask=mask_s, other=0) - low
    place = slot * LISTS + LIST
    if WRITE:
        to = tl.load(offsets + place, mask=mask_s, other=0)
    found = tl.zeros((BLOCK_S,), tl.int64)
    longest = tl.max(length)
    if KIND == 1 and not WRITE:  # every outgoing edge counts
        found += length
        longest = 0
    for start in range(0, longest, BLOCK_J):
        offs_j = start + tl.arange(0, BLOCK_J)
        mask = offs_j[None, :] < length[:, None]
        entry = begin[:, None] + offs_j[None, :]
        edge = tl.load(list_edge + entry, mask=mask, other=0).to(tl.int64)
        far = tl.load(list_far + (entry if KIND == 0 else edge), mask=mask, other=0)
        other = find(node, low[:, None], span[:, None], far, mask)
        if KIND == 0:
            keep = other >= 0
        elif KIND == 1:
            keep = mask
        else:
            keep = mask & (other < 0)  # else it was found from its source
        number = tl.sum(keep.to(tl.int32), 1)
        if WRITE:
            at = (to + found)[:, None] + tl.cumsum(keep.to(tl.int32), 1) - 1
            keep = keep & (at < room)
            own = slot[:, None]
            outgoing = tl.load(source + edge, mask=keep, other=0) == u[:, None]
            tl.store(key + at, q[:, None] * num_edges + edge, mask=keep)
            tl.store(source_slot + at, tl.where(outgoing, own, other).to(tl.int32), mask=keep)
            tl.store(target_slot + at, tl.where(outgoing, other, own).to(tl.int32), mask=keep)
        found += number
    if not WRITE:
        tl.store(counts + place, found, mask=mask_s)


def fragment(topology: Topology, hits: NodeHits, either: bool) -> Fragment:
    """See the public function. Memory: about 32 bytes an edge of the result, and 20 to 36 a hit."""
    device = hits.node.device
    queries, slots, edges = hits.indptr.shape[0] - 1, hits.node.shape[0], topology.source.shape[0]
    none = torch.empty(0, dtype=torch.int32, device=device)
    if slots == 0 or edges == 0:
        return Fragment(torch.zeros(queries + 1, dtype=torch.int64, device=device), none, none, none)
    query = torch.repeat_interleave(
        torch.arange(queries, dtype=torch.int32, device=device), hits.indptr.diff(), output_size=slots
    )
    offsets = count(topology, hits, query, either)
    total = int(offsets[-1])  # the host sync: M sizes the result
    key = torch.empty(total, dtype=torch.int64, device=device)
    source_slot, target_slot = (torch.empty(total, dtype=torch.int32, device=device) for _ in range(2))
    visit(topology, hits, query, either, offsets, offsets, (key, source_slot, target_slot))
    key, order = key.sort()  # distinct, so the order they were found in doesn't show
    lists = 2 if either else 1
    return Fragment(offsets[hits.indptr * lists], (key % edges).int(), source_slot[order], target_slot[order])


def count(topology: Topology, hits: NodeHits, query: torch.Tensor, either: bool) -> torch.Tensor:
    """Where the edges of each list begin: (lists of all hits + 1,) int64. No host sync."""
    counts = torch.empty(hits.node.shape[0] * (2 if either else 1), dtype=torch.int64, device=query.device)
    offsets = torch.zeros(counts.shape[0] + 1, dtype=torch.int64, device=query.device)
    visit(topology, hits, query, either, counts, offsets, None)
    torch.cumsum(counts, 0, out=offsets[1:])
    return offsets


def visit(
    topology: Topology,
    hits: NodeHits,
    query: torch.Tensor,
    either: bool,
    counts: torch.Tensor,
    offsets: torch.Tensor,
    found: tuple[torch.Tensor, torch.Tensor, torch.Tensor] | None,
) -> None:
    """Fill `counts`, or `found`: keys (query * E + edge) and both slots, as many as there is room for."""
    lists = [(ORIENTED, topology.oriented_indptr, topology.oriented_edge, topology.oriented_other)]
    if either:
        lists = [
            (OUT, topology.out_indptr, topology.out_edge, topology.target),
            (IN, topology.in_indptr, topology.in_edge, topology.source),
        ]
    slots = hits.node.shape[0]
    with torch.cuda.device_of(hits.node):
        for i, (kind, indptr, edge, far) in enumerate(lists):
            block_s, block_j = BLOCK[kind]
            visit_kernel[(triton.cdiv(slots, block_s),)](
                topology.source, indptr, edge, far, hits.indptr, hits.node, query, counts, offsets,
                *(found or (counts, counts, counts)), slots, topology.num_nodes, topology.source.shape[0],
                found[0].shape[0] if found else 0,
                KIND=kind, LIST=i, LISTS=len(lists), WRITE=found is not None, BLOCK_S=block_s, BLOCK_J=block_j,
            )  # fmt: skip
