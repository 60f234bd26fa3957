"""Scores of the triplets in each query's fragment, and the best of them."""

import torch

from tercet_kernels._checks import check, check_node_hits, check_scoring, held
from tercet_kernels._threads import threads
from tercet_kernels._triton import has_triton
from tercet_kernels._types import EdgeRule, Fragment, NodeHits, RelationHits, Top, Topology
from tercet_kernels.triplet_topk import cpu, reference


def triplet_topk(
    topology: Topology,
    fragment: Fragment,
    hits: NodeHits,
    missing: torch.Tensor,
    relations: RelationHits,
    rule: EdgeRule,
    k: int,
) -> Top:
    """The k smallest of (source term + target term) + edge term, in float64 and in that order.

    Args:
        topology: the graph.
        fragment: the edges of each query, with the slots of their ends in `hits`.
        hits: matched nodes with their terms.
        missing: (N,) float64 term of an unmatched node.
        relations: matched relation keys with raw distances.
        rule: makes the edge's term of its key's distance.
        k: results a query, at least 1.

    Returns:
        Ascending by (score, edge): ties go to the smaller edge row. NaN scores come last.

    Raises:
        ValueError: k is below 1, or a shape, dtype or device differs from the types' contracts.

    Memory: the result; on CUDA also about 40 bytes an edge of the fragments. No host sync on CUDA with Triton.
    """
    check_node_hits(topology, hits)
    for name, column in zip(Fragment._fields[1:], fragment[1:], strict=True):
        check(f"fragment.{name}", column, fragment.edge.shape, torch.int32, hits.node.device)
    check("fragment.indptr", fragment.indptr, hits.indptr.shape, torch.int64, hits.node.device)
    check_scoring(topology, fragment.indptr.shape[0] - 1, missing, relations, rule, k)
    if hits.node.is_cuda and has_triton():
        from tercet_kernels.triplet_topk import cuda

        return cuda.triplet_topk(topology, fragment, hits, missing, relations, rule, k)
    if hits.node.device.type != "cpu":
        return reference.triplet_topk(topology, fragment, hits, missing, relations, rule, k)
    queries = fragment.indptr.shape[0] - 1
    top = empty(queries, k, hits.node.device)
    cpu.triplet_topk(
        *(x.numpy() for x in (
            topology.source, topology.target, topology.key, *fragment, hits.term, held(missing), *relations,
            held(rule.importance), held(rule.feedback))),
        topology.num_keys, rule.influence, rule.penalty, rule.cliff, *(x.numpy() for x in top), threads(queries),
    )  # fmt: skip
    return top


def empty(queries: int, k: int, device: torch.device) -> Top:
    """Room for the best k edges of each query."""
    return Top(
        torch.empty(queries, k, dtype=torch.int32, device=device),
        torch.empty(queries, k, dtype=torch.float64, device=device),
        torch.empty(queries, k, 3, dtype=torch.int32, device=device),
        torch.empty(queries, dtype=torch.int64, device=device),
    )
