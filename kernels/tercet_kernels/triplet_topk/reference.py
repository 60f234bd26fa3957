"""Plain torch form of `triplet_topk`: score every edge of the fragment, sort, cut."""

import torch

from tercet_kernels._types import EdgeRule, Fragment, NodeHits, RelationHits, Top, Topology
from tercet_kernels.effective import reference as effective
from tercet_kernels.fragment.reference import example as fragment_example
from tercet_kernels.fragment.reference import fragment as make_fragment
from tercet_kernels.fragment.reference import lookup


def triplet_topk(
    topology: Topology,
    fragment: Fragment,
    hits: NodeHits,
    missing: torch.Tensor,
    relations: RelationHits,
    rule: EdgeRule,
    k: int,
) -> Top:
    device = fragment.edge.device
    queries = fragment.indptr.shape[0] - 1
    counts = fragment.indptr.diff()
    query = torch.repeat_interleave(torch.arange(queries, device=device), counts)
    edge = fragment.edge.long()
    terms = []
    for slot, end in ((fragment.source_slot, topology.source), (fragment.target_slot, topology.target)):
        unmatched = missing[end[edge].long()]
        at = slot.long().clamp(min=0)
        terms.append(torch.where(slot >= 0, hits.term[at], unmatched) if hits.term.shape[0] else unmatched)
    key = topology.key[edge].long()
    hit_query = torch.repeat_interleave(torch.arange(queries, device=device), relations.indptr.diff())
    hit_keys = hit_query * (topology.num_keys + 1) + relations.key.long() + 1  # 0: no key
    rows = torch.arange(hit_keys.shape[0], device=device)
    relation_slot = lookup(hit_keys, rows, query * (topology.num_keys + 1) + key + 1)
    relation_slot = torch.where(key >= 0, relation_slot, -1)
    distance = torch.full(edge.shape, torch.inf, dtype=torch.float64, device=device)
    matched = relation_slot >= 0
    distance[matched] = relations.distance[relation_slot[matched]].double()
    edge_term = effective.effective(
        distance, rule.importance[edge], rule.feedback[edge], rule.influence, rule.penalty, rule.cliff
    )
    score = (terms[0] + terms[1]) + edge_term
    slot = torch.stack([fragment.source_slot.long(), fragment.target_slot.long(), relation_slot], dim=1).int()
    return cut(fragment.indptr, query, fragment.edge, score, slot, k)


def cut(
    indptr: torch.Tensor, query: torch.Tensor, edge: torch.Tensor, score: torch.Tensor, slot: torch.Tensor, k: int
) -> Top:
    """The first k of each query by (score, edge); entries come ascending by edge within a query."""
    order = torch.argsort(score, stable=True)
    order = order[torch.argsort(query[order], stable=True)]
    place = torch.arange(order.shape[0], device=order.device) - indptr[query[order]]
    order, place = order[place < k], place[place < k]
    queries = indptr.shape[0] - 1
    row = query[order]
    top_edge = torch.full((queries, k), -1, dtype=torch.int32, device=edge.device)
    top_score = torch.full((queries, k), torch.inf, dtype=torch.float64, device=edge.device)
    top_slot = torch.full((queries, k, 3), -1, dtype=torch.int32, device=edge.device)
    top_edge[row, place], top_score[row, place], top_slot[row, place] = edge[order], score[order], slot[order]
    return Top(top_edge, top_score, top_slot, indptr.diff())


def example(
    queries: int = 4, nodes: int = 40, edges: int = 120, hits: int = 8, seed: int = 0, device: str = "cpu"
) -> dict:
    """A random graph, its fragment and relation hits with many equal scores."""
    base = fragment_example(queries, nodes, edges, hits, seed, device)
    g = torch.Generator().manual_seed(seed + 1)
    found = torch.rand(queries, 6, generator=g) < 0.5
    indptr = torch.zeros(queries + 1, dtype=torch.int64)
    indptr[1:] = found.sum(1).cumsum(0)
    key = found.nonzero()[:, 1].int()
    distance = torch.rand(key.shape[0], generator=g).mul(8).round().div(4)
    weight = lambda n: torch.rand(n, generator=g, dtype=torch.float64).mul(4).round().div(4).to(device)  # noqa: E731
    return {
        "topology": base["topology"],
        "fragment": make_fragment(base["topology"], base["hits"]),
        "hits": base["hits"],
        "missing": (2 - weight(nodes)) * 6.5,
        "relations": RelationHits(indptr.to(device), key.to(device), distance.to(device)),
        "rule": EdgeRule(weight(edges), weight(edges), 0.3, 6.5, False),
    }
