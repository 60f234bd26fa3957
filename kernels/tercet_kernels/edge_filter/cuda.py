"""Triton form of `edge_filter`: the least score of each run of edges, then the edges of the few runs that matter.

The k-th smallest of the runs' least scores is at least the k-th smallest score, for it stands for k edges. So only one
pass reads every edge, and it writes a number a run; runs whose least score is out of that reach are never looked at
again. What is left is scored once more to be counted and once to be written, and the exact k-th smallest cuts it.

The pass over all edges takes node terms by node, queries side by side: an edge's end is a random row, of which a warp
then reads neighbouring numbers, where terms by query would cost a memory sector a number. The rest takes single
queries, so it reads them as they came.
"""

from contextlib import ExitStack

import torch
import triton
import triton.language as tl

from tercet_kernels._arena import arena
from tercet_kernels._types import EdgeRule, Topology
from tercet_kernels.effective.cuda import effective

RUN = (16, 1024)  # fewest and most edges of a run
RUNS = 4  # for each of the k, so that a bound over runs is a good one over edges
BLOCK = 2048  # scores a step
BLOCK_Q = 64  # most queries a program
SCRATCH_BYTES = 1 << 30  # of one group of queries


@triton.jit
def scores(
    source, target, key, node_term, key_value, matched, importance, feedback, influence, penalty,
    edge, inside, q, live, last_key, node_stride, node_step, key_stride, key_step,
    WEIGHTED: tl.constexpr, RESTRICTED: tl.constexpr, CLIFF: tl.constexpr, BLEND: tl.constexpr,
):  # fmt: skip
    """(edges, queries) float32; +inf where `inside` (edges) or `live` (queries) is off, and for what isn't finite."""
    mask = inside[:, None] & live[None, :]
    s = tl.load(source + edge, mask=inside, other=0).to(tl.int64)[:, None] * node_stride + q[None, :] * node_step
    t = tl.load(target + edge, mask=inside, other=0).to(tl.int64)[:, None] * node_stride + q[None, :] * node_step
    r = tl.load(key + edge, mask=inside, other=0).to(tl.int64)
    r = tl.where(r < 0, last_key, r)[:, None] * key_stride + q[None, :] * key_step
    value = tl.load(key_value + r, mask=mask, other=0.0)
    if WEIGHTED:
        raw = value.to(tl.float64)
        value = effective(
            raw, tl.abs(raw) < float("inf"), tl.load(importance + edge, mask=inside, other=1.0)[:, None],
            tl.load(feedback + edge, mask=inside, other=0.0)[:, None], tl.load(influence), tl.load(penalty), CLIFF,
            BLEND,
        ).to(tl.float32)  # fmt: skip
    score = (tl.load(node_term + s, mask=mask, other=0.0) + tl.load(node_term + t, mask=mask, other=0.0)) + value
    if RESTRICTED:
        either = tl.load(matched + s, mask=mask, other=0) | tl.load(matched + t, mask=mask, other=0)
        mask = mask & (either != 0)
    return tl.where(mask & (tl.abs(score) < float("inf")), score, float("inf"))


@triton.jit
def minima_kernel(
    source, target, key, node_term, key_value, matched, importance, feedback, influence, penalty, minima,
    num_edges, queries, runs, last_key,
    WEIGHTED: tl.constexpr, RESTRICTED: tl.constexpr, CLIFF: tl.constexpr, BLEND: tl.constexpr,
    RUN: tl.constexpr, BLOCK_E: tl.constexpr, BLOCK_Q: tl.constexpr,
):  # fmt: skip
    """The least score of one run for some queries, from tables by node and by key."""
    run = tl.program_id(0).to(tl.int64)
    q = tl.program_id(1).to(tl.int64) * BLOCK_Q + tl.arange(0, BLOCK_Q)
    live = q < queries
    least = tl.full((BLOCK_E, BLOCK_Q), float("inf"), tl.float32)
    for start in range(0, RUN, BLOCK_E):
        edge = run * RUN + start + tl.arange(0, BLOCK_E)
        score = scores(
            source, target, key, node_term, key_value, matched, importance, feedback, influence, penalty,
            edge, edge < num_edges, q, live, last_key, queries, 1, queries, 1, WEIGHTED, RESTRICTED, CLIFF, BLEND,
        )  # fmt: skip
        least = tl.minimum(least, score)
    tl.store(minima + q * runs + run, tl.min(least, 0), mask=live)


@triton.jit
def collect_kernel(
    source, target, key, node_term, key_value, matched, importance, feedback, influence, penalty,
    pair_query, pair_run, limit, counts, offsets, found, found_score, num_edges, num_nodes, last_key,
    WEIGHTED: tl.constexpr, RESTRICTED: tl.constexpr, CLIFF: tl.constexpr, BLEND: tl.constexpr,
    RUN: tl.constexpr, WRITE: tl.constexpr,
):  # fmt: skip
    """Count the edges of one run within the limit of one query, or write them where `offsets` says."""
    pair = tl.program_id(0).to(tl.int64)
    query = tl.load(pair_query + pair)
    q = tl.zeros((1,), tl.int64) + query
    edge = tl.load(pair_run + pair) * RUN + tl.arange(0, RUN)
    score = scores(
        source, target, key, node_term, key_value, matched, importance, feedback, influence, penalty,
        edge, edge < num_edges, q, q >= 0, last_key, 1, num_nodes, 1, last_key + 1, WEIGHTED, RESTRICTED, CLIFF, BLEND,
    )  # fmt: skip
    score = tl.reshape(score, (RUN,))
    keep = (score <= tl.load(limit + query)) & (score < float("inf"))
    if WRITE:
        to = tl.load(offsets + pair) + tl.cumsum(keep.to(tl.int32), 0) - 1
        tl.store(found + to, edge.to(tl.int32), mask=keep)
        tl.store(found_score + to, score, mask=keep)
    else:
        tl.store(counts + pair, tl.sum(keep.to(tl.int64), 0))


def edge_filter(
    topology: Topology,
    node_term: torch.Tensor,
    key_value: torch.Tensor,
    rule: EdgeRule | None,
    margin: torch.Tensor,
    k: int,
    matched: torch.Tensor | None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """See the public function.

    Memory: the result, about 40 bytes an edge that is within the margin of the runs' bound, and SCRATCH_BYTES, for
    which queries are taken in groups. Host syncs: three a group, each for the size of a list.
    """
    queries, edges = margin.shape[0], topology.source.shape[0]
    if queries == 0 or edges == 0:
        return torch.zeros(queries + 1, dtype=torch.int64, device=margin.device), topology.source[:0].clone()
    run = min(max(1 << max(edges // (RUNS * k), 1).bit_length() - 1, RUN[0]), RUN[1])
    each = 4 * triton.cdiv(edges, run) + (4 if matched is None else 5) * topology.num_nodes + 4 * key_value.shape[1]
    step = max(1, SCRATCH_BYTES // each)
    step = step // BLOCK_Q * BLOCK_Q or step
    parts = []
    with torch.cuda.device_of(margin):
        for part in (slice(start, start + step) for start in range(0, queries, step)):
            chosen = None if matched is None else matched[part]
            parts.append(_group(topology, node_term[part], key_value[part], rule, margin[part], k, chosen, run))
    if len(parts) == 1:
        return parts[0]
    counts = torch.cat([margin.new_zeros(1, dtype=torch.int64), *(indptr.diff() for indptr, _ in parts)])
    return counts.cumsum(0), torch.cat([edge for _, edge in parts])


def _group(
    topology: Topology,
    node_term: torch.Tensor,
    key_value: torch.Tensor,
    rule: EdgeRule | None,
    margin: torch.Tensor,
    k: int,
    matched: torch.Tensor | None,
    run: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    device, queries, edges = margin.device, margin.shape[0], topology.source.shape[0]
    runs = triton.cdiv(edges, run)
    columns = (topology.source, topology.target, topology.key)
    numbers = (0.0, 0.0) if rule is None else (rule.influence, rule.penalty)
    weights = (
        *((node_term, node_term) if rule is None else rule[:2]),
        *(torch.full((1,), x, dtype=torch.float64, device=device) for x in numbers),  # as numbers they'd be float32
    )
    seen = node_term if matched is None else matched.view(torch.uint8)  # never read without `matched`
    tables = {"node": node_term, "key": key_value} | ({} if matched is None else {"matched": seen})
    options = {
        "WEIGHTED": rule is not None, "RESTRICTED": matched is not None, "CLIFF": rule is not None and rule.cliff,
        "BLEND": rule is not None and rule.influence > 0, "RUN": run,
        "enable_fp_fusion": False,  # every step is one rounding
    }  # fmt: skip
    with ExitStack() as lent:
        minima = lent.enter_context(arena.lend("edge_filter.minima", (queries, runs), torch.float32, device))
        by_row = [
            lent.enter_context(arena.lend(f"edge_filter.{name}", table.shape[::-1], table.dtype, device)).copy_(table.T)
            for name, table in tables.items()
        ]
        if matched is None:
            by_row.append(seen)
        block_q = min(BLOCK_Q, triton.next_power_of_2(queries))
        minima_kernel[(runs, triton.cdiv(queries, block_q))](
            *columns, *by_row, *weights, minima, edges, queries, runs, topology.num_keys,
            **options, BLOCK_E=min(run, BLOCK // block_q), BLOCK_Q=block_q,
        )  # fmt: skip
        bound = minima.topk(k, dim=1, largest=False).values[:, -1] if k <= runs else torch.full_like(margin, torch.inf)
        limit = bound + margin.clamp(min=0)
        near = torch.nonzero(((minima <= limit[:, None]) & (minima < torch.inf)).flatten()).squeeze(1)  # host sync
    query, which = near // runs, near % runs

    def collect(found: torch.Tensor, score: torch.Tensor, write: bool) -> None:
        if query.shape[0]:
            collect_kernel[(query.shape[0],)](
                *columns, node_term, key_value, seen, *weights, query, which, limit, counts, offsets, found, score,
                edges, topology.num_nodes, topology.num_keys, **options, WRITE=write,
            )  # fmt: skip

    counts = torch.empty(query.shape[0], dtype=torch.int64, device=device)
    offsets = torch.zeros(query.shape[0] + 1, dtype=torch.int64, device=device)
    collect(counts, counts, False)
    torch.cumsum(counts, 0, out=offsets[1:])
    total = int(offsets[-1])  # host sync
    found = torch.empty(total, dtype=torch.int32, device=device)
    score = torch.empty(total, dtype=torch.float32, device=device)
    collect(found, score, True)
    indptr = offsets[torch.searchsorted(query, torch.arange(queries + 1, device=device))]
    return _cut(indptr, found, score, margin, k)


def _cut(
    indptr: torch.Tensor, edge: torch.Tensor, score: torch.Tensor, margin: torch.Tensor, k: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """The edges within the k-th smallest score of their query plus its margin; one host sync for the size."""
    if edge.shape[0] == 0:
        return indptr, edge
    queries = indptr.shape[0] - 1
    query = torch.repeat_interleave(torch.arange(queries, device=edge.device), indptr.diff(), output_size=edge.shape[0])
    bits = (score + 0.0).view(torch.int32)  # + 0.0: no negative zero
    order = ((query << 32) + (bits ^ ((bits >> 31) & 0x7FFFFFFF))).argsort()
    at = order[(indptr[:-1] + k - 1).clamp(max=edge.shape[0] - 1)]
    threshold = torch.where(indptr.diff() >= k, score[at], torch.inf) + margin
    keep = score <= threshold[query]
    before = torch.cat([indptr.new_zeros(1), keep.cumsum(0)])
    return before[indptr], edge[keep]
