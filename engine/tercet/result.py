"""The answer to one query: its triplets, text and seeds, and where they come from."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import torch

from tercet.candidates import rescore
from tercet.explain import parts_of
from tercet.ranking import Status

if TYPE_CHECKING:
    from tercet.recall import Group, Recall
    from tercet.why import Why


@dataclass(frozen=True)
class Triplet:
    """One ranked fact."""

    source: str
    relation: str
    target: str
    score: float
    edge: int  # row of the graph's edges
    edge_id: str | None
    edge_text: str | None


@dataclass(frozen=True, eq=False)
class Result:
    """The answer to one query."""

    recall: "Recall"
    place: int

    @property
    def query(self) -> str | None:
        return self.recall.queries.text[self.place]

    @property
    def error(self) -> str | None:
        """What is wrong with the query, when its status is `failed`."""
        return self.recall.queries.errors.get(self.place)

    @property
    def version(self) -> int:
        """Of the engine, which the answer is from."""
        return self.recall.version

    @property
    def status(self) -> str:
        """The name of a `Status`."""
        return Status(int(self.recall._host("status", int(Status.failed))[self.place])).name

    @property
    def edges(self) -> np.ndarray:
        """(n,) int32 edge rows, best first."""
        row = self.recall._host("edge", -1)[self.place]
        return row[row >= 0]

    @property
    def scores(self) -> np.ndarray:
        """(n,) float64, ascending."""
        return self.recall._host("score", np.inf)[self.place][: len(self.edges)]

    @property
    def distances(self) -> np.ndarray:
        """(n, 3) float32 raw distances of source, target and relation; +inf where nothing matched."""
        return self.recall._host("distance", np.inf)[self.place][: len(self.edges)]

    @property
    def triplets(self) -> list[Triplet]:
        source, relation, target, edge_id, edge_text = self.recall._facts(self.place)
        scores, edges = self.scores.tolist(), self.edges.tolist()
        rows = zip(source, relation, target, scores, edges, edge_id, edge_text, strict=True)
        return [Triplet(s, r or "", t, *rest) for s, r, t, *rest in rows]

    @property
    def text(self) -> str:
        """The context text; empty when nothing was found."""
        return self.recall._rendered()[0][self.place].as_py()

    @property
    def dropped(self) -> list[Triplet]:
        """Ranked triplets that `max_context_tokens` left out of the text."""
        return self.triplets[int(self.recall._rendered()[1][self.place]) :]

    @property
    def seeds(self) -> list[tuple[str, float]]:
        """(node id, distance) of the candidates that the search found, nearest first."""
        found = self.recall._group(self.place)
        if found is None:
            return []
        node, distance = _candidates(*found)
        return list(zip(found[0].plan.graph.ids.take(pa.array(node)).to_pylist(), distance.tolist(), strict=True))

    def explain(self) -> dict[str, Any]:
        """Every part of every score, and what happened on the way.

        Returns:
            status, timings (seconds of the whole batch by stage), halved (see `Recall.halved`), counts (candidates,
            taken, available, truncated, and share_read of its edge lists where the whole graph was searched) and for
            each triplet its parts: id, raw distance, effective distance, weights, matched collection, rank there.
        """
        found = self.recall._group(self.place)
        head = {
            "query": self.query, "status": self.status, "error": self.error, "timings": dict(self.recall.timings),
            "halved": self.recall.halved,
        }  # fmt: skip
        if found is None:
            return {**head, "counts": {"candidates": 0, "taken": 0, "available": 0, "truncated": 0}, "triplets": []}
        group, row = found
        ranking, taken = group.ranking, len(self.edges)
        available = int(ranking.available[row])
        counts: dict[str, float] = {
            "candidates": len(_candidates(group, row)[0]), "taken": taken, "available": available,
            "truncated": max(available - taken, 0), "dropped_from_text": len(self.dropped),
        }  # fmt: skip
        if ranking.read is not None:
            counts["share_read"] = int(ranking.read[row]) / max(2 * group.plan.graph.num_edges, 1)
        parts = parts_of(group.plan, group.ranking, row, taken)
        triplets = [
            {"source": t.source, "relation": t.relation, "target": t.target, "score": t.score, "parts": p}
            for t, p in zip(self.triplets, parts, strict=True)
        ]
        return {**head, "counts": counts, "triplets": triplets}

    def why(self, *, edge: Any = None, node: Any = None) -> "Why":
        """Why an edge or a node did not come back; see `Engine.why`."""
        assert self.recall.why_ is not None
        return self.recall.why_(self.place, edge=edge, node=node)

    def __repr__(self) -> str:
        return f"Result({self.query!r}, {self.status}, {len(self.edges)} triplets)"


def _candidates(group: "Group", row: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows and distances of a query's candidate nodes, nearest first; without a limit all nodes with a distance are."""
    plan, hits = group.plan, group.ranking.candidates
    if plan.wide is None and plan.projection != "neighborhood":
        every = torch.arange(plan.graph.num_nodes, dtype=torch.int32, device=group.queries.device)
        query = torch.full_like(every, row)
        masks = plan.masks(plan.node_bound)
        exact, _ = rescore(plan.node_bound, group.queries, query, every, "best", masks, plan.max_distance)
        node, distance = every.cpu().numpy(), exact.cpu().numpy()
    else:
        part = slice(int(hits.indptr[row]), int(hits.indptr[row + 1]))
        node, distance = hits.element[part].cpu().numpy(), hits.nearest[part].cpu().numpy()
    order = np.lexsort((node, distance))
    order = order[(node[order] < plan.graph.num_nodes) & np.isfinite(distance[order])]
    return node[order], distance[order]
