"""What nodes add to the score of a triplet: `effective` with each node's own weights looked up."""

import torch

from tercet_kernels._checks import check, held
from tercet_kernels._threads import threads
from tercet_kernels._types import NodeRule
from tercet_kernels.node_terms import cpu, reference

STEPS = 6  # of a nanosecond, a node


def node_terms(node: torch.Tensor, distance: torch.Tensor, rule: NodeRule) -> torch.Tensor:
    """The effective distance of each node; see `effective`.

    Args:
        node: (T,) int32, at least 0; from N on: nodes without weights, which count as 0.5, and as no personal weight.
        distance: (T,) float32, +inf where nothing matched.
        rule: the weights and how they act.

    Returns:
        (T,) float64.

    Raises:
        ValueError: a shape, dtype or device differs from the above.
    """
    device = node.device
    check("node", node, (None,), torch.int32, device)
    check("distance", distance, tuple(node.shape), torch.float32, device)
    for name, weight in (("importance", rule.importance), ("feedback", rule.feedback), ("personal", rule.personal)):
        if weight is not None:
            check(f"rule.{name}", weight, tuple(rule.importance.shape), torch.float64, device, repeated=True)
    if device.type != "cpu":
        return reference.node_terms(node, distance, rule)
    out = torch.empty(node.shape, dtype=torch.float64)
    importance, feedback = held(rule.importance), held(rule.feedback)
    personal = importance if rule.personal is None else rule.personal.contiguous()
    cpu.node_terms(
        *(x.numpy() for x in (node, distance, importance, feedback, personal)), rule.importance.shape[0],
        rule.personal is not None, float(rule.influence), float(rule.penalty), rule.cliff,
        float(rule.personal_influence), out.numpy(), threads(node.shape[0], STEPS * node.shape[0]),
    )  # fmt: skip
    return out
