"""Fragment, scores and top-k in one pass on the CPU: the fragment is never written down.

The same result, bit for bit, as `triplet_topk(fragment(...))`, which is its reference.
"""

import torch

from tercet_kernels._checks import check_node_hits, check_scoring, held
from tercet_kernels._slots import bits_for
from tercet_kernels._threads import threads
from tercet_kernels._types import EdgeRule, NodeHits, RelationHits, Top, Topology
from tercet_kernels.fragment import fragment
from tercet_kernels.fragment_topk import cpu
from tercet_kernels.triplet_topk import empty, triplet_topk

STEPS = 100  # of about a nanosecond for a hit and its list


def fragment_topk(
    topology: Topology,
    hits: NodeHits,
    missing: torch.Tensor,
    relations: RelationHits,
    rule: EdgeRule,
    k: int,
    *,
    either: bool = False,
) -> Top:
    """The best k edges among those that each query's hits admit; see `fragment` and `triplet_topk`.

    Off the CPU the two stages run one after the other.

    Raises:
        ValueError: k is below 1, or a shape, dtype or device differs from the types' contracts.
    """
    if hits.node.device.type != "cpu":
        return triplet_topk(topology, fragment(topology, hits, either=either), hits, missing, relations, rule, k)
    check_node_hits(topology, hits)
    check_scoring(topology, hits.indptr.shape[0] - 1, missing, relations, rule, k)
    top = empty(hits.indptr.shape[0] - 1, k, hits.node.device)
    source, target, key, *lists, out_indptr, out_edge, in_indptr, in_edge = [x.numpy() for x in topology[:-1]]
    importance, feedback = held(rule.importance).numpy(), held(rule.feedback).numpy()
    weights = (importance, feedback, float(rule.influence), float(rule.penalty), rule.cliff)
    given = [x.numpy() for x in (*hits, *relations, *top)]
    floor = -1.0 if rule.floor is None else float(rule.floor)
    apart = held(missing)
    nearest = float(apart.min()) if either and missing.shape[0] else 0.0
    cpu.fragment_topk(
        tuple(lists), (out_indptr, out_edge, in_indptr, in_edge), (source, target, key), tuple(given[:3]),
        tuple(given[3:6]), weights, floor, apart.numpy(), nearest, either, topology.num_keys, tuple(given[6:]),
        threads(top.edge.shape[0], hits.node.shape[0] * STEPS),
    )  # fmt: skip
    return top


def scratch_bytes(hits: int, nodes: int, relations: int, keys: int, parts: int) -> int:
    """What a call on the CPU takes beside its result, with so many hits and relation hits of a query at most."""
    return 4 * parts * ((1 << bits_for(hits, nodes)) + (1 << bits_for(relations, keys)))
