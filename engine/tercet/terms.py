"""Terms: what nodes and edges add to the score of a triplet under a plan."""

import torch

from tercet.plan import Plan
from tercet_kernels._types import EdgeRule
from tercet_kernels.effective import effective


def node_terms(plan: Plan, node: torch.Tensor, distance: torch.Tensor) -> torch.Tensor:
    """float64 effective distances of nodes; ids beyond the graph get that of an average node."""
    inside = (node < plan.graph.num_nodes).long() * node.long()
    s = plan.scoring
    pick = lambda x: x[inside] if x.shape[0] else x.new_full(inside.shape, 0.5)  # noqa: E731
    return effective(
        distance.double(), pick(plan.graph.importance), pick(plan.graph.feedback), influence=s.influence,
        penalty=s.penalty, cliff=s.cliff, personal=None if s.personal is None else pick(s.personal),
        personal_influence=s.personal_influence,
    )  # fmt: skip


def edge_rule(plan: Plan) -> EdgeRule:
    """How edges score in this plan."""
    s = plan.scoring
    return EdgeRule(plan.graph.edge_importance, plan.graph.edge_feedback, s.influence, s.penalty, s.cliff)


def missing_terms(plan: Plan) -> torch.Tensor:
    """(N,) float64 term of each node when it isn't matched."""

    def make() -> torch.Tensor:
        every = torch.arange(plan.graph.num_nodes, device=plan.graph.device)
        return node_terms(plan, every, torch.full(every.shape, torch.inf, device=every.device))

    s = plan.scoring
    if s.personal is not None:
        return make()
    return plan.graph.latest("_missing", (s.penalty, s.influence, s.cliff), make)  # as long as the graph
