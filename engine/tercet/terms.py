"""Terms: what nodes and edges add to the score of a triplet under a plan."""

import torch

from tercet.arrays import is_repeated
from tercet.plan import Plan
from tercet_kernels import node_terms as kernels
from tercet_kernels._checks import held
from tercet_kernels._types import EdgeRule, NodeRule


def node_terms(plan: Plan, node: torch.Tensor, distance: torch.Tensor) -> torch.Tensor:
    """float64 effective distances of nodes, of any shape; ids beyond the graph count as nodes of average weight."""
    s, graph = plan.scoring, plan.graph
    rule = NodeRule(graph.importance, graph.feedback, s.influence, s.penalty, s.cliff, s.personal, s.personal_influence)
    node, distance = node.int().contiguous(), distance.contiguous()
    if distance.dim() == 1:
        return kernels.node_terms(node, distance, rule)
    return kernels.node_terms(node.view(-1), distance.view(-1), rule).view(distance.shape)


def edge_rule(plan: Plan) -> EdgeRule:
    """How edges score in this plan."""
    s = plan.scoring
    graph = plan.graph
    return EdgeRule(graph.edge_importance, graph.edge_feedback, s.influence, s.penalty, s.cliff, _floor(plan))


def _floor(plan: Plan) -> float | None:
    """See `EdgeRule.floor`; None where weights or the rule let terms fall below what distances say."""
    s, importance, feedback = plan.scoring, plan.graph.edge_importance, plan.graph.edge_feedback
    if s.penalty < 0 or (s.influence > 0 and s.cliff) or not 0 <= s.influence <= 1 or not importance.shape[0]:
        return None
    factor = 2.0 - plan.graph.once("_most_important", lambda: float(held(importance).max()))
    usual = plan.graph.once("_usual_feedback", lambda: _usual(feedback))
    if not factor >= 0 or not (usual or s.influence == 0):
        return None
    return factor if s.influence == 0 else factor * (1.0 - s.influence) * (1.0 - 1e-12)  # what rounding may take


def _usual(feedback: torch.Tensor) -> bool:
    """Whether all are in [0, 1]."""
    least, most = held(feedback).aminmax()  # of a repeated value it would write down all rows
    return bool((least >= 0) & (most <= 1))


def missing_terms(plan: Plan) -> torch.Tensor:
    """(N,) float64 term of each node when it isn't matched; one value for all where they weigh the same."""
    s, graph = plan.scoring, plan.graph

    def make() -> torch.Tensor:
        if s.personal is None and is_repeated(graph.importance) and is_repeated(graph.feedback):  # on the CPU
            one = torch.zeros(1, dtype=torch.int32)
            return node_terms(plan, one, torch.full((1,), torch.inf)).expand(graph.num_nodes)
        every = torch.arange(graph.num_nodes, dtype=torch.int32, device=graph.device)
        return node_terms(plan, every, torch.full(every.shape, torch.inf, device=every.device))

    if s.personal is not None:
        return make()
    return graph.latest("_missing", (s.penalty, s.influence, s.cliff), make)  # as long as the graph
