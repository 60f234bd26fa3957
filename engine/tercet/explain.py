"""The parts of a triplet's score, for people to read."""

from typing import Any

import torch

from tercet.plan import Plan
from tercet.ranking import Ranking
from tercet.terms import node_terms
from tercet_kernels.effective import effective


def parts_of(plan: Plan, ranking: Ranking, row: int, rank: int) -> dict[str, dict[str, Any]]:
    """The parts of one triplet's score: raw and effective distance, weights, matched collection and rank there."""
    graph, edge = plan.graph, int(ranking.edge[row, rank])
    out: dict[str, dict[str, Any]] = {}
    for i, (name, bound, hits) in enumerate(
        (("source", plan.node_bound, ranking.nodes), ("target", plan.node_bound, ranking.nodes),
         ("relation", plan.relation_bound, ranking.relations))
    ):  # fmt: skip
        slot, distance = int(ranking.slot[row, rank, i]), ranking.distance[row, rank, i]
        which = int(hits.collection[slot]) if slot >= 0 else -1
        part: dict[str, Any] = {"distance": float(distance) if slot >= 0 else None}
        if name == "relation":
            s = plan.scoring
            weights = {
                "importance": float(graph.edge_importance[edge]),
                "feedback": float(graph.edge_feedback[edge]),
            }
            term = effective(
                distance.double()[None], weights["importance"], weights["feedback"], influence=s.influence,
                penalty=s.penalty, cliff=s.cliff,
            )  # fmt: skip
        else:
            node = (graph.source if name == "source" else graph.target)[edge]
            weights = {"importance": float(graph.importance[node]), "feedback": float(graph.feedback[node])}
            if plan.scoring.personal is not None and not torch.isnan(plan.scoring.personal[node]):
                weights["personal"] = float(plan.scoring.personal[node])
            term = node_terms(plan, node[None], distance[None])
        part |= {"effective": float(term[0]), **weights}
        part["collection"] = bound[which].collection.name if which >= 0 else None
        rank_there = int(hits.rank[slot]) if slot >= 0 else -1
        part["rank"] = rank_there if rank_there >= 0 else None
        out[name] = part
    return out
