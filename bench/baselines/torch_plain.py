"""Retrieval in plain torch: a matrix product and `topk`, then the kernels' references or one dense pass."""

import torch

from bench.prepare import FACTOR, PENALTY, Scene
from tercet_kernels._types import EdgeRule, NodeHits, RelationHits, Top, Topology
from tercet_kernels.fragment import reference as fragment
from tercet_kernels.triplet_topk import reference as triplet_topk

SCORES_AT_ONCE = 1 << 24  # entries of (queries, edges) held by the dense pass


def search(vectors: torch.Tensor, queries: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """(rows, cosine distances) of the k nearest; one query reads the matrix as a vector product."""
    product = (vectors @ queries[0])[None] if queries.shape[0] == 1 else queries @ vectors.T
    cosine, row = product.topk(min(k, vectors.shape[0]), dim=1)
    return row, 1.0 - cosine


def graph_stage(scene: Scene, k: int) -> Top:
    """Fragment, scores and top-k of fixed candidates by the references."""
    found = fragment.fragment(scene.topology, scene.hits)
    return triplet_topk.triplet_topk(scene.topology, found, scene.hits, scene.missing, scene.relations, scene.rule, k)


class Pipeline:
    """A limited search from query vectors to the best triplets.

    Args:
        nodes: (vectors, owner) of each node collection, no node in two of them.
        relations: (vectors, owner) of the relation collection; owner -1 is a text that no edge has.
    """

    def __init__(
        self,
        topology: Topology,
        nodes: list[tuple[torch.Tensor, torch.Tensor]],
        relations: tuple[torch.Tensor, torch.Tensor],
    ) -> None:
        self.topology, self.nodes, self.relations = topology, nodes, relations
        half = torch.full((topology.source.shape[0],), 0.5, dtype=torch.float64)
        self.missing = torch.full((topology.num_nodes,), FACTOR * PENALTY, dtype=torch.float64)
        self.rule = EdgeRule(half, half, 0.0, PENALTY, False)

    def limited(self, queries: torch.Tensor, wide: int, k: int) -> Top:
        """Both ends among the candidates."""
        found = [self._hits(queries, *pair, wide) for pair in self.nodes]
        owner, distance = (torch.cat(x, dim=1) for x in zip(*found, strict=True))
        owner, order = owner.sort(dim=1)
        hits = NodeHits(
            torch.arange(len(queries) + 1) * owner.shape[1], owner.flatten().int(),
            FACTOR * distance.gather(1, order).flatten().double(),
        )  # fmt: skip
        key, distance = self._hits(queries, *self.relations, wide)
        key, order = key.sort(dim=1)
        relations = RelationHits(
            torch.arange(len(queries) + 1) * key.shape[1], key.flatten().int(), distance.gather(1, order).flatten()
        )
        return graph_stage(Scene(self.topology, hits, relations, self.missing, self.rule), k)

    def full(self, queries: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Every edge: (edge, score) of the best; scores of as many queries at once as fit."""
        source, target, key = (x.long() for x in self.topology[:3])
        step = max(1, SCORES_AT_ONCE // max(len(source), 1))
        edges, scores = [], []
        for start in range(0, len(queries), step):
            part = queries[start : start + step]
            node = torch.empty(len(part), self.topology.num_nodes)
            for vectors, owner in self.nodes:
                node[:, owner.long()] = 1.0 - part @ vectors.T
            relation = torch.empty(len(part), self.topology.num_keys + 1)  # the last: texts that no edge has
            relation[:, self.relations[1].long()] = 1.0 - part @ self.relations[0].T
            total = node[:, source]
            total += node[:, target]
            total += relation[:, key]
            best = total.topk(k, dim=1, largest=False)
            edges.append(best.indices)
            scores.append(FACTOR * best.values)
        return torch.cat(edges), torch.cat(scores)

    @staticmethod
    def _hits(
        queries: torch.Tensor, vectors: torch.Tensor, owner: torch.Tensor, wide: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        row, distance = search(vectors, queries, wide)
        return owner[row], distance
