"""Plain torch form of `node_terms`."""

import torch

from tercet_kernels._types import NodeRule
from tercet_kernels.effective import effective


def node_terms(node: torch.Tensor, distance: torch.Tensor, rule: NodeRule) -> torch.Tensor:
    known = node < rule.importance.shape[0]
    inside = torch.where(known, node, 0).long()

    def pick(weights: torch.Tensor, absent: float) -> torch.Tensor:
        blank = weights.new_full(inside.shape, absent)
        return torch.where(known, weights[inside], blank) if weights.shape[0] else blank

    return effective(
        distance.double(), pick(rule.importance, 0.5), pick(rule.feedback, 0.5), influence=rule.influence,
        penalty=rule.penalty, cliff=rule.cliff,
        personal=None if rule.personal is None else pick(rule.personal, torch.nan),
        personal_influence=rule.personal_influence,
    )  # fmt: skip


def example(nodes: int, hits: int, seed: int = 0, device: str = "cpu") -> dict:
    """Some of the nodes are beyond the graph, some unmatched, some without a personal weight."""
    generator = torch.Generator().manual_seed(seed)
    draw = lambda size: torch.rand(size, generator=generator)  # noqa: E731
    node = torch.randint(0, nodes + 3, (hits,), generator=generator, dtype=torch.int32)
    distance = (2.2 * draw(hits)).masked_fill(draw(hits) < 0.2, torch.inf).clamp(max=2.0)
    distance = distance.masked_fill(draw(hits) < 0.2, torch.inf)
    personal = draw(nodes).double().masked_fill(draw(nodes) < 0.5, torch.nan)
    weights = [x.to(device) for x in (draw(nodes).double(), draw(nodes).double(), personal)]
    rule = NodeRule(weights[0], weights[1], 0.3, 1.5, False, weights[2], 0.4)
    return {"node": node.to(device), "distance": distance.to(device), "rule": rule}
