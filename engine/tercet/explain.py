"""The parts of triplets' scores, for people to read."""

import math
from typing import Any

import torch

from tercet.candidates import Bound, Hits
from tercet.plan import Plan
from tercet.ranking import Ranking
from tercet.terms import edge_rule, node_terms
from tercet_kernels.effective import effective

PARTS = ("source", "target", "relation")


def parts_of(plan: Plan, ranking: Ranking, row: int, count: int) -> list[dict[str, dict[str, Any]]]:
    """The parts of one query's best `count` scores.

    Returns:
        for each triplet `source`, `target` and `relation`, each with raw and effective distance, weights, matched
        collection and rank there; None for what isn't there.
    """
    edge = ranking.edge[row, :count].long()
    found = ((ranking.nodes, plan.node_bound), (ranking.relations, plan.relation_bound))
    columns = []
    for i, name in enumerate(PARTS):
        slot, distance = ranking.slot[row, :count, i], ranking.distance[row, :count, i].contiguous()
        if name == "relation":
            weights, term = _edge_weights(plan, edge), _edge_terms(plan, edge, distance)
        else:
            node = (plan.graph.source if name == "source" else plan.graph.target)[edge]
            weights, term = _node_weights(plan, node.long()), node_terms(plan, node, distance)
        hits, bound = found[name == "relation"]
        rows = zip(distance.tolist(), slot.tolist(), term.tolist(), weights, _matches(hits, bound, slot), strict=True)
        columns.append([{"distance": d if s >= 0 else None, "effective": t, **w, **m} for d, s, t, w, m in rows])
    return [dict(zip(PARTS, parts, strict=True)) for parts in zip(*columns, strict=True)]


def _edge_terms(plan: Plan, edge: torch.Tensor, distance: torch.Tensor) -> torch.Tensor:
    rule = edge_rule(plan)
    return effective(
        distance.double(), rule.importance[edge], rule.feedback[edge], influence=rule.influence,
        penalty=rule.penalty, cliff=rule.cliff,
    )  # fmt: skip


def _edge_weights(plan: Plan, edge: torch.Tensor) -> list[dict[str, float]]:
    columns = (plan.graph.edge_importance[edge].tolist(), plan.graph.edge_feedback[edge].tolist())
    return [{"importance": w, "feedback": g} for w, g in zip(*columns, strict=True)]


def _node_weights(plan: Plan, node: torch.Tensor) -> list[dict[str, float]]:
    columns = (plan.graph.importance[node].tolist(), plan.graph.feedback[node].tolist())
    out = [{"importance": w, "feedback": g} for w, g in zip(*columns, strict=True)]
    if plan.scoring.personal is not None:
        for weights, personal in zip(out, plan.scoring.personal[node].tolist(), strict=True):
            if not math.isnan(personal):
                weights["personal"] = personal
    return out


def _matches(hits: Hits, bound: list[Bound], slot: torch.Tensor) -> list[dict[str, Any]]:
    """The collection that each slot's distance is from, and the rank there."""
    out = []
    for s in slot.tolist():
        which, rank = (int(hits.collection[s]), int(hits.rank[s])) if s >= 0 else (-1, -1)
        name = bound[which].collection.name if which >= 0 else None
        out.append({"collection": name, "rank": rank if rank >= 0 else None})
    return out
