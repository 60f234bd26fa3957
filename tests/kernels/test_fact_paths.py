"""Beam search over paths of facts."""

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tercet_kernels.fact_paths import Facts, fact_paths, fact_scale, reference


def random_facts(rng, entities=12, count=40, width=16):
    source, target = (rng.integers(0, entities, count).astype(np.int32) for _ in range(2))
    relation = rng.integers(-1, 4, count).astype(np.int32)
    names, relations = (rng.normal(size=(n, width)).astype(np.float32) for n in (entities, 4))
    entity, other = np.concatenate([source, target]), np.concatenate([target, source])
    order = np.argsort(entity, kind="stable")
    indptr = np.concatenate([[0], np.cumsum(np.bincount(entity, minlength=entities))]).astype(np.int64)
    fact = (order % max(count, 1)).astype(np.int32)
    scale = fact_scale(source, target, relation, names, relations)
    return Facts(indptr, fact, other[order].astype(np.int32), source, target, relation, names, relations, scale)


def random_seeds(rng, queries=6, entities=12, width=16):
    query = rng.normal(size=(queries, width)).astype(np.float32)
    query /= np.linalg.norm(query, axis=1, keepdims=True)
    seeds = [rng.permutation(entities)[: rng.integers(0, 4)] for _ in range(queries)]
    indptr = np.concatenate([[0], np.cumsum([len(s) for s in seeds])]).astype(np.int64)
    seed = np.concatenate(seeds).astype(np.int32)
    return query, indptr, seed, rng.random(len(seed)) + 0.2


@example(0, 8, 56, 2, 1, 1, 3, 1)  # two facts between the same names
@example(0, 8, 56, 1, 1, 1, 3, 1)
@settings(deadline=None, max_examples=60)
@given(
    st.integers(0, 10**6), st.sampled_from([8, 16, 20]), st.integers(0, 60), st.integers(1, 3), st.integers(1, 4),
    st.integers(1, 5), st.integers(1, 9), st.integers(1, 3),
)  # fmt: skip
def test_paths_score_like_those_of_the_reference(seed, dimension, count, hops, width, branches, most_facts, most_seeds):
    rng = np.random.default_rng(seed)
    facts, asked = random_facts(rng, count=count, width=dimension), random_seeds(rng, width=dimension)
    # paths of the same facts in another order score alike up to rounding, so a beam that cuts among them may go on
    # with either: further hops are compared where nothing is cut
    if hops > 1:
        width, branches, hops = 12, 60, 2
    options = {
        "hops": hops, "width": width, "branches": branches, "most_facts": most_facts, "most_seeds": most_seeds,
    }  # fmt: skip
    got, want = fact_paths(facts, *asked, **options), reference.fact_paths(facts, *asked, **options)
    whole = reference.fact_paths(facts, *asked, **options | {"hops": 1, "branches": 60})
    for b, every in enumerate(want):
        scores = np.sort([s for *_, s in whole[b][0]])
        apart = bool((np.diff(scores) > 1e-3).all())  # of two facts that tie either may be taken, and gone on from
        for hop, steps in enumerate(every if apart else every[:1]):
            count = int((got.fact[b, hop] >= 0).sum())
            assert count == len(steps)
            assert (got.score[b, hop, count:] == -np.inf).all()
            np.testing.assert_allclose(got.score[b, hop, :count], [s for *_, s in steps], atol=2e-4)
        if apart:
            assert got.fact[b, 0, : len(every[0])].tolist() == [f for f, *_ in every[0]]
            assert got.entity[b, 0, : len(every[0])].tolist() == [e for _, e, _ in every[0]]


def test_threads_leave_the_bits_alone():
    rng = np.random.default_rng(5)
    facts, asked = random_facts(rng), random_seeds(rng, queries=9)
    made, before = [], torch.get_num_threads()
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            scale = fact_scale(facts.source, facts.target, facts.relation, facts.names, facts.relations)
            made.append((scale, *fact_paths(facts, *asked)))
    finally:
        torch.set_num_threads(before)
    assert all((one == two).all() for one, two in zip(*made, strict=True))


def test_scale_by_hand():
    names = np.array([[3, 4], [-3, -4], [0, 0]], np.float32)
    source, target = np.array([0, 0, -1, 0], np.int32), np.array([-1, 1, 2, 0], np.int32)
    none = np.full(4, -1, np.int32)
    scale = fact_scale(source, target, none, names, np.zeros((0, 2), np.float32))
    assert scale.tolist() == [0.2, 0.0, 0.0, 0.1]
    assert len(fact_scale(none[:0], none[:0], none[:0], names, names[:0])) == 0


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


def test_nothing_to_walk():
    facts = random_facts(np.random.default_rng(0))
    query = np.ones((1, 16), np.float32) / 4
    none = fact_paths(facts, query, np.zeros(2, np.int64), np.zeros(0, np.int32), np.zeros(0))
    assert (none.fact == -1).all()
    assert (none.score == -np.inf).all()
    nobody = fact_paths(facts, query[:0], np.zeros(1, np.int64), np.zeros(0, np.int32), np.zeros(0), branches=3)
    assert nobody.fact.shape == (0, 2, 30)


@pytest.mark.parametrize(("change", "words"), [
    ({"queries": np.ones((1, 8), np.float32)}, "queries"), ({"queries": np.ones((1, 16))}, "queries"),
    ({"seed": np.array([99], np.int32)}, "seed"), ({"seed": np.array([-1], np.int32)}, "seed"),
    ({"seed": np.array([1])}, "seed"), ({"weight": np.ones(2)}, "weight"),
    ({"weight": np.ones(1, np.float32)}, "weight"), ({"indptr": np.array([0, 1], np.int32)}, "indptr"),
    ({"indptr": np.array([0, 1, 1])}, "indptr"), ({"width": 0}, "width"), ({"hops": 0}, "hops"),
    ({"branches": 0}, "branches"), ({"most_facts": 0}, "most_facts"), ({"most_seeds": 0}, "most_seeds"),
])  # fmt: skip
def test_wrong_arguments_are_named(change, words):
    given = {
        "queries": np.ones((1, 16), np.float32) / 4, "indptr": np.array([0, 1]), "seed": np.array([1], np.int32),
        "weight": np.ones(1),
    }  # fmt: skip
    facts = random_facts(np.random.default_rng(0))
    assert (fact_paths(facts, **given).fact >= 0).any()
    with pytest.raises(ValueError, match=words):
        fact_paths(facts, **(given | change))
