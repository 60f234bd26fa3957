"""Beam search over paths of facts."""

import numpy as np
import pytest

from tercet_kernels.fact_paths import Facts, fact_paths, fact_scale, reference


def random_facts(rng, entities=12, count=40, width=16):
    source, target = (rng.integers(0, entities, count).astype(np.int32) for _ in range(2))
    relation = rng.integers(-1, 4, count).astype(np.int32)
    names, relations = (rng.normal(size=(n, width)).astype(np.float32) for n in (entities, 4))
    entity, other = np.concatenate([source, target]), np.concatenate([target, source])
    order = np.argsort(entity, kind="stable")
    indptr = np.concatenate([[0], np.cumsum(np.bincount(entity, minlength=entities))]).astype(np.int64)
    fact = (order % count).astype(np.int32)
    scale = fact_scale(source, target, relation, names, relations)
    return Facts(indptr, fact, other[order].astype(np.int32), source, target, relation, names, relations, scale)


def random_seeds(rng, queries=6, entities=12, width=16):
    query = rng.normal(size=(queries, width)).astype(np.float32)
    query /= np.linalg.norm(query, axis=1, keepdims=True)
    seeds = [rng.permutation(entities)[: rng.integers(0, 4)] for _ in range(queries)]
    indptr = np.concatenate([[0], np.cumsum([len(s) for s in seeds])]).astype(np.int64)
    seed = np.concatenate(seeds).astype(np.int32)
    return query, indptr, seed, rng.random(len(seed)) + 0.2


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("width", [8, 16, 20])
def test_paths_score_like_those_of_the_reference(seed, width):
    rng = np.random.default_rng(seed)
    facts, asked = random_facts(rng, width=width), random_seeds(rng, width=width)
    settings = {"hops": 3, "width": 3, "branches": 4}
    got, want = fact_paths(facts, *asked, **settings), reference.fact_paths(facts, *asked, **settings)
    for b, hops in enumerate(want):
        for hop, steps in enumerate(hops):
            count = int((got.fact[b, hop] >= 0).sum())
            assert count == len(steps)
            # facts of one path in another order score alike up to rounding, so scores are compared
            np.testing.assert_allclose(got.score[b, hop, :count], [s for *_, s in steps], atol=2e-4)


def test_a_query_alone_is_bit_equal_to_one_in_a_batch():
    rng = np.random.default_rng(3)
    facts = random_facts(rng)
    query, indptr, seed, weight = random_seeds(rng)
    every = fact_paths(facts, query, indptr, seed, weight)
    for b in range(len(query)):
        part = slice(indptr[b], indptr[b + 1])
        own = np.array([0, indptr[b + 1] - indptr[b]], np.int64)
        alone = fact_paths(facts, query[b : b + 1], own, seed[part], weight[part])
        for one, all_ in zip(alone, every, strict=True):
            size = min(one.shape[2], all_.shape[2])
            assert (one[0, :, :size] == all_[b, :, :size]).all()


def test_two_facts_together_beat_one_alone():
    names = np.eye(4, dtype=np.float32)[:3]  # x, y, z
    source, target = np.array([0, 1], np.int32), np.array([1, 2], np.int32)
    relation, relations = np.full(2, -1, np.int32), np.zeros((0, 4), np.float32)
    scale = fact_scale(source, target, relation, names, relations)
    facts = Facts(np.array([0, 1, 3, 4]), np.array([0, 0, 1, 1], np.int32), np.array([1, 0, 2, 1], np.int32),
                  source, target, relation, names, relations, scale)  # fmt: skip
    query = np.array([[1, 2, 1, 0]], np.float32) / np.sqrt(np.float32(6))
    got = fact_paths(facts, query, np.array([0, 1]), np.zeros(1, np.int32), np.ones(1))
    assert (got.fact[0, 0, 0], got.entity[0, 0, 0]) == (0, 1)
    assert (got.fact[0, 1, 0], got.entity[0, 1, 0]) == (1, 2)
    assert got.score[0, 1, 0] == pytest.approx(1.0, abs=1e-6)
    assert got.score[0, 0, 0] == pytest.approx(3 / np.sqrt(12), abs=1e-6)


def test_no_seeds_and_wrong_arguments():
    facts = random_facts(np.random.default_rng(0))
    query = np.ones((1, 16), np.float32) / 4
    none = fact_paths(facts, query, np.zeros(2, np.int64), np.zeros(0, np.int32), np.zeros(0))
    assert (none.fact == -1).all()
    with pytest.raises(ValueError, match="queries"):
        fact_paths(facts, query[:, :8], np.zeros(2, np.int64), np.zeros(0, np.int32), np.zeros(0))
    with pytest.raises(ValueError, match="seed"):
        fact_paths(facts, query, np.array([0, 1]), np.array([99], np.int32), np.ones(1))
    with pytest.raises(ValueError, match="width"):
        fact_paths(facts, query, np.zeros(2, np.int64), np.zeros(0, np.int32), np.zeros(0), width=0)
