"""Beam search over paths of facts, each scored against the query as one vector."""

from typing import NamedTuple

import numpy as np

from tercet_kernels._threads import threads
from tercet_kernels.fact_paths import cpu

__all__ = ["Facts", "Steps", "fact_paths", "fact_scale"]


class Facts(NamedTuple):
    """Facts between entities; the vector of one is the sum of those of its parts, of unit norm.

    A part without a vector has row -1 and adds nothing.
    """

    indptr: np.ndarray  # (M + 1,) int64 offsets of each entity's facts
    fact: np.ndarray  # (L,) int32
    other: np.ndarray  # (L,) int32 the entity at the other end
    source: np.ndarray  # (F,) int32 rows of names
    target: np.ndarray  # (F,) int32 rows of names
    relation: np.ndarray  # (F,) int32 rows of relations
    names: np.ndarray  # (V, D) float32
    relations: np.ndarray  # (R, D) float32
    scale: np.ndarray  # (F,) float64 one over the norm of the sum, 0 where it is zero; see `fact_scale`


class Steps(NamedTuple):
    """The facts that the search came by, a row a query and step, best first; absent places hold -1 and -inf."""

    fact: np.ndarray  # (B, hops, C) int32
    entity: np.ndarray  # (B, hops, C) int32 where the fact leads
    score: np.ndarray  # (B, hops, C) float32 of the path up to there


def fact_scale(
    source: np.ndarray, target: np.ndarray, relation: np.ndarray, names: np.ndarray, relations: np.ndarray
) -> np.ndarray:
    """(F,) float64 one over the norm of each fact's summed vectors; 0 where the sum is zero.

    Args:
        source, target, relation: (F,) int32 rows of names, names and relations, -1 for none.
        names: (V, D) float32.
        relations: (R, D) float32.
    """
    out = np.zeros(len(source), np.float64)
    cpu.fact_scale(source, target, relation, names, relations, out, threads(max(1, len(source)), 500.0 * len(source)))
    return out


def fact_paths(
    facts: Facts,
    queries: np.ndarray,
    indptr: np.ndarray,
    seed: np.ndarray,
    weight: np.ndarray,
    *,
    hops: int = 2,
    width: int = 10,
    branches: int = 20,
    most_facts: int = 1000,
    most_seeds: int = 32,
) -> Steps:
    """Walk from each query's entities along the facts that, together, say most of what it asks.

    A path's score is the cosine of the query with the sum of its facts' vectors, times the weight of the seed that it
    begins at. From each entity of the beam the `branches` best facts are followed, none twice on a path; the `width`
    best steps that lead to distinct entities are the next beam. Ties go to the path that comes from the earlier place
    in the beam, then to the fact earlier in the entity's list. (After PropRAG, arXiv 2504.18070, which encodes each
    path's text; here vectors of parts that the index has are added up.)

    Args:
        facts: the facts.
        queries: (B, D) float32 of unit norm.
        indptr: (B + 1,) int64 offsets of each query's seeds.
        seed: (S,) int32 entities, none twice for a query.
        weight: (S,) float64 above 0.
        hops: facts of a path at most.
        width: entities of the beam.
        branches: facts followed from each.
        most_facts: of an entity with more, the first in its list are looked at.
        most_seeds: of a query with more, the first are used.

    Returns:
        Steps, with C = branches * max(width, most_seeds) places, fewer where no query has so many seeds.

    Raises:
        ValueError: a shape or dtype differs from the above.
    """
    _check(facts, queries, indptr, seed, weight)
    for what, number in (("hops", hops), ("width", width), ("branches", branches), ("most_facts", most_facts),
                         ("most_seeds", most_seeds)):  # fmt: skip
        if number < 1:
            raise ValueError(f"{what}: expected at least 1, got {number}")
    seeds = min(most_seeds, int(np.diff(indptr).max(initial=0)))
    places = branches * max(width if hops > 1 else 0, seeds, 1)
    shape = (len(queries), hops, places)
    out = Steps(np.full(shape, -1, np.int32), np.full(shape, -1, np.int32), np.full(shape, -np.inf, np.float32))
    cpu.fact_paths(
        tuple(facts), queries, indptr, seed, weight, (hops, width, branches, most_facts, seeds), out.fact, out.entity,
        out.score, threads(len(queries), 2e6 * len(queries)),
    )  # fmt: skip
    return out


def _check(facts: Facts, queries: np.ndarray, indptr: np.ndarray, seed: np.ndarray, weight: np.ndarray) -> None:
    for what, given, dtype in (
        ("queries", queries, np.float32), ("names", facts.names, np.float32),
        ("relations", facts.relations, np.float32), ("indptr", indptr, np.int64), ("seed", seed, np.int32),
        ("weight", weight, np.float64), ("scale", facts.scale, np.float64),
    ):  # fmt: skip
        if given.dtype != dtype:
            raise ValueError(f"{what}: expected {np.dtype(dtype)}, got {given.dtype}")
    if queries.ndim != 2 or queries.shape[1] != facts.names.shape[1]:
        raise ValueError(f"queries: expected (B, {facts.names.shape[1]}), got {queries.shape}")
    if indptr.shape != (len(queries) + 1,):
        raise ValueError(f"indptr: expected ({len(queries) + 1},), got {indptr.shape}")
    if seed.shape != weight.shape or seed.shape != (int(indptr[-1]),):
        raise ValueError(f"weight: expected ({int(indptr[-1])},) beside seed {seed.shape}, got {weight.shape}")
    size = len(facts.indptr) - 1
    if len(seed) and not 0 <= seed.min() <= seed.max() < size:
        raise ValueError(f"seed: expected entities from 0 to {size - 1}, got {seed.min()} to {seed.max()}")
