"""Triton form of `triplet_topk`: one kernel scores every edge of the fragments, then sorts on the device cut them."""

import torch
import triton
import triton.language as tl

from tercet_kernels._types import EdgeRule, Fragment, NodeHits, RelationHits, Top, Topology
from tercet_kernels.effective.cuda import effective
from tercet_kernels.fragment.cuda import find

BLOCK_M = 256  # edges a program


@triton.jit
def node_term(slot, end, edge, term, missing, mask):
    """The term of one end of each edge: its hit's, or that of an unmatched node."""
    node = tl.load(end + edge, mask=mask & (slot < 0), other=0).to(tl.int64)
    matched = tl.load(term + slot.to(tl.int64), mask=mask & (slot >= 0), other=0.0)
    return tl.where(slot >= 0, matched, tl.load(missing + node, mask=mask & (slot < 0), other=0.0))


@triton.jit
def score_kernel(
    source, target, key, query, edge, source_slot, target_slot, term, missing, r_indptr, r_key, r_distance,
    importance, feedback, score, relation_slot, influence, penalty, num_rows,
    CLIFF: tl.constexpr, BLEND: tl.constexpr, BLOCK_M: tl.constexpr,
):  # fmt: skip
    offs_m = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    mask = offs_m < num_rows
    e = tl.load(edge + offs_m, mask=mask, other=0).to(tl.int64)
    s = tl.load(source_slot + offs_m, mask=mask, other=-1)
    d = tl.load(target_slot + offs_m, mask=mask, other=-1)
    a = node_term(s, source, e, term, missing, mask)
    b = node_term(d, target, e, term, missing, mask)
    q = tl.load(query + offs_m, mask=mask, other=0).to(tl.int64)
    low = tl.load(r_indptr + q, mask=mask, other=0)
    span = tl.load(r_indptr + q + 1, mask=mask, other=0) - low
    wanted = tl.load(key + e, mask=mask, other=-1)
    r = find(r_key, low, span, wanted, mask & (wanted >= 0))
    distance = tl.load(r_distance + r, mask=r >= 0, other=float("inf")).to(tl.float64)
    matched = tl.abs(distance) < float("inf")
    c = effective(
        distance, matched, tl.load(importance + e, mask=mask, other=1.0), tl.load(feedback + e, mask=mask, other=0.0),
        tl.load(influence), tl.load(penalty), CLIFF, BLEND,
    )  # fmt: skip
    tl.store(score + offs_m, (a + b) + c, mask=mask)
    tl.store(relation_slot + offs_m, r.to(tl.int32), mask=mask)


def triplet_topk(
    topology: Topology,
    fragment: Fragment,
    hits: NodeHits,
    missing: torch.Tensor,
    relations: RelationHits,
    rule: EdgeRule,
    k: int,
) -> Top:
    """See the public function. Memory: about 40 bytes a row of the fragments, and the result."""
    device = fragment.edge.device
    queries, rows = fragment.indptr.shape[0] - 1, fragment.edge.shape[0]
    # the narrowest type: the sort by query costs as many passes as the type has bytes
    dtype = torch.int16 if queries <= torch.iinfo(torch.int16).max else torch.int32
    query = torch.repeat_interleave(
        torch.arange(queries, dtype=dtype, device=device), fragment.indptr.diff(), output_size=rows
    )
    score, slot = scores(topology, fragment, query, hits, missing, relations, rule)
    return cut(fragment.indptr, query, fragment.edge, score, slot, k, queries > 1)


def scores(
    topology: Topology,
    fragment: Fragment,
    query: torch.Tensor,
    hits: NodeHits,
    missing: torch.Tensor,
    relations: RelationHits,
    rule: EdgeRule,
) -> tuple[torch.Tensor, torch.Tensor]:
    """(M,) float64 scores of the rows of the fragments and (M, 3) int32 slots; `query` (M,) in [0, B). No host sync."""
    device, rows = fragment.edge.device, fragment.edge.shape[0]
    score = torch.empty(rows, dtype=torch.float64, device=device)
    relation_slot = torch.empty(rows, dtype=torch.int32, device=device)
    if rows:
        with torch.cuda.device_of(score):
            score_kernel[(triton.cdiv(rows, BLOCK_M),)](
                topology.source, topology.target, topology.key, query, *fragment[1:], hits.term, missing, *relations,
                rule.importance, rule.feedback, score, relation_slot,
                *(score.new_full((1,), x) for x in (rule.influence, rule.penalty)),  # as numbers they'd be float32
                rows, CLIFF=rule.cliff, BLEND=rule.influence > 0, BLOCK_M=BLOCK_M,
                enable_fp_fusion=False,  # every step is one rounding
            )  # fmt: skip
    return score, torch.stack([fragment.source_slot, fragment.target_slot, relation_slot], dim=1)


def cut(
    indptr: torch.Tensor,
    query: torch.Tensor,
    edge: torch.Tensor,
    score: torch.Tensor,
    slot: torch.Tensor,
    k: int,
    several: bool,
) -> Top:
    """The first k of each query by (score, edge); rows come grouped by query and ascending by edge. No host sync.

    Rows past the last query's are never taken if their `query` is larger and `several` is on: the rows aren't all one
    query's.
    """
    rows = edge.shape[0]
    available = indptr.diff()
    order = score.argsort(stable=True)
    if several:
        order = order[query[order].argsort(stable=True)]
    place = torch.arange(k, device=edge.device)
    absent = place >= available[:, None]
    if rows == 0:
        edge, score, slot, order = edge.new_zeros(1), score.new_zeros(1), slot.new_zeros(1, 3), indptr.new_zeros(1)
    at = order[(indptr[:-1, None] + place).clamp(max=max(rows - 1, 0))]
    return Top(
        edge[at].masked_fill(absent, -1),
        score[at].masked_fill(absent, torch.inf),
        slot[at].masked_fill(absent[:, :, None], -1),
        available,
    )
