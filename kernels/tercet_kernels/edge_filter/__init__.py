"""The edges of the whole graph that can be among the k best of each query, from approximate terms."""

import torch

from tercet_kernels._checks import check, check_k, check_rule, held
from tercet_kernels._threads import threads
from tercet_kernels._triton import has_triton
from tercet_kernels._types import EdgeRule, Topology
from tercet_kernels.edge_filter import cpu, reference


def edge_filter(
    topology: Topology,
    node_term: torch.Tensor,
    key_value: torch.Tensor,
    rule: EdgeRule | None,
    margin: torch.Tensor,
    k: int,
    matched: torch.Tensor | None = None,
    tied: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Edges whose approximate score is at most the k-th smallest plus a margin.

    If no approximate score is further than margin / 2 from the exact one, then the k edges of the smallest exact
    scores (ties included) are all among them.

    Args:
        topology: the graph.
        node_term: (B, N) float32 approximate node terms; +inf keeps the edges of a node out.
        key_value: (B, R + 1) float32; column R is for edges without a key. With `rule` None these are edge terms,
            else raw distances (+inf: not matched) of which each edge makes its term by its own weights.
        rule: the weights of the edges, or None.
        margin: (B,) float32.
        k: at least 1.
        matched: (B, N) bool: admit only edges with a matched end.
        tied: (B,) float32 an approximate score of each query that only edges with one and the same exact score have
            (NaN: none). Of these no more than the first k are needed, and the CPU form leaves the others out.

    Returns:
        (indptr (B + 1,) int64, edge (M,) int32), ascending by edge within a query.

    Raises:
        ValueError: k is below 1, or a shape, dtype or device differs from the above.

    Memory: the result, and 8 k + 1024 int32 a query on the CPU; on CUDA see `cuda.edge_filter`, or without
    Triton (B, 2**18) scores at a time.
    """
    check_k(k)
    device, queries = topology.source.device, margin.shape[0]
    check("margin", margin, (None,), torch.float32, device)
    check("node_term", node_term, (queries, topology.num_nodes), torch.float32, device)
    check("key_value", key_value, (queries, topology.num_keys + 1), torch.float32, device)
    if rule is not None:
        check_rule(topology, rule)
    if matched is not None:
        matched = matched.contiguous()
        check("matched", matched, node_term.shape, torch.bool, device)
    if node_term.is_cuda and has_triton():
        from tercet_kernels.edge_filter import cuda

        return cuda.edge_filter(topology, node_term, key_value, rule, margin, k, matched)
    if node_term.device.type != "cpu":
        return reference.edge_filter(topology, node_term, key_value, rule, margin, k, matched)
    if tied is None:
        tied = torch.full_like(margin, torch.nan)
    check("tied", tied, (queries,), torch.float32, device)
    none = torch.ones(1, dtype=torch.float64)
    out = cpu.edge_filter(
        *(x.numpy() for x in (
            topology.source, topology.target, topology.key, node_term, key_value,
            none if rule is None else held(rule.importance), none if rule is None else held(rule.feedback))),
        rule is not None, 0.0 if rule is None else rule.influence, 0.0 if rule is None else rule.penalty,
        False if rule is None else rule.cliff, margin.numpy(), k,
        (torch.ones(1, 1, dtype=torch.bool) if matched is None else matched).numpy(), matched is not None,
        tied.numpy(), threads(margin.shape[0]),
    )  # fmt: skip
    return torch.from_numpy(out[0]), torch.from_numpy(out[1])
