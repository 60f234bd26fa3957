"""Workloads whose nodes and queries have texts, and routes to look for: what searches for subgraphs are timed on."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.workloads import QUERY_PULL, Workload
from tercet.errors import InvalidArgument

LABEL = "Entity"
WORDS = 5_000  # of the vocabulary
LENGTH = 8  # words of a node's text
ASKED = 2  # words of a query's text; more where others ask the same
STEPS = 3  # of the walk from one waypoint to the next, so that a route of this length exists
DRAWS = 100


@dataclass(frozen=True, eq=False, kw_only=True)
class TextWorkload(Workload):
    """A workload with a text for each node and query, and lists of waypoints."""

    node_texts: NDArray[np.str_]  # (N,)
    query_texts: NDArray[np.str_]  # (Q,) all different
    waypoints: NDArray[np.float32]  # (Q, W, D) of unit norm

    @property
    def node_columns(self) -> dict[str, Any]:
        """What an engine's node table holds besides the ids."""
        return {"labels": [[LABEL]] * self.num_nodes, "text": self.node_texts.tolist()}


def with_texts(given: Workload, num_waypoints: int = 3, seed: int = 0) -> TextWorkload:
    """Add texts and waypoints; the same arguments give the same ones.

    A node's text is LENGTH words of a vocabulary in which the r-th word is drawn as often as 1 / r. A query's text is
    words of the node nearest to its vector. Waypoints are vectors near nodes, each STEPS random steps from the one
    before it, either way along the edges.

    Raises:
        InvalidArgument: the queries can't have different texts, or there are fewer than two waypoints.
    """
    if num_waypoints < 2:
        raise InvalidArgument(f"num_waypoints: expected at least 2, got {num_waypoints}")
    rng = np.random.default_rng([seed, given.num_nodes, 1])  # not the stream that drew the vectors
    law = 1 / np.arange(1, WORDS + 1)
    word = rng.choice(WORDS, (given.num_nodes, LENGTH), p=law / law.sum())
    vocabulary = np.array([f"w{rank:04d}" for rank in range(WORDS)])
    near = (given.query_vectors @ given.node_vectors.T).argmax(axis=1)
    places = _walks(rng, given, len(given.query_vectors), num_waypoints)
    old = {f.name: getattr(given, f.name) for f in fields(Workload)}
    return TextWorkload(
        **old,
        node_texts=np.array([" ".join(row) for row in vocabulary[word]]),
        query_texts=np.array(_questions(rng, vocabulary, word[near]), dtype=np.str_),
        waypoints=_perturbed(rng, given.node_vectors[places]),
    )


def _questions(rng: np.random.Generator, vocabulary: NDArray[np.str_], word: NDArray[np.int64]) -> list[str]:
    """A text of some of the words of each row."""
    found: dict[str, None] = {}
    for row in word:
        own = np.unique(row)
        for draw in range(DRAWS):
            size = min(len(own), ASKED + draw // 10)
            text = " ".join(vocabulary[rng.choice(own, size, replace=False)])
            if text not in found:
                found[text] = None
                break
        else:
            raise InvalidArgument(f"queries: {len(word)} different texts can't be drawn from the nearest nodes' words")
    return list(found)


def _walks(rng: np.random.Generator, given: Workload, count: int, stops: int) -> NDArray[np.int64]:
    """(count, stops) nodes on random walks; one without edges stays where it is."""
    ends = np.concatenate([given.source, given.target]).astype(np.int64)
    other = np.concatenate([given.target, given.source]).astype(np.int64)
    order = np.argsort(ends, kind="stable")
    indptr = np.concatenate([[0], np.cumsum(np.bincount(ends, minlength=given.num_nodes))])
    at = rng.integers(given.num_nodes, size=count)
    out = [at]
    for _ in range(stops - 1):
        for _ in range(STEPS if len(order) else 0):
            degree = indptr[at + 1] - indptr[at]
            step = indptr[at] + (rng.random(count) * degree).astype(np.int64)
            at = np.where(degree > 0, other[order[np.minimum(step, len(order) - 1)]], at)
        out.append(at)
    return np.stack(out, axis=1)


def _perturbed(rng: np.random.Generator, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Unit vectors at a cosine of about QUERY_PULL from the given ones."""
    share = rng.uniform(*QUERY_PULL, size=(*vectors.shape[:-1], 1)).astype(np.float32)
    noise = _unit(rng.standard_normal(vectors.shape, dtype=np.float32))
    return _unit(share * vectors + np.sqrt(1 - share**2) * noise)


def _unit(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    return (vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)).astype(np.float32, copy=False)
