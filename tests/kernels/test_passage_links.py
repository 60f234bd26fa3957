"""What pairs of passages have in common."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tercet_kernels.passage_links import passage_links, reference

SETS = st.lists(st.tuples(st.sets(st.integers(0, 7), max_size=5), st.sets(st.integers(0, 7), max_size=2)), min_size=1)


def lists(rows):
    counts = [len(r) for r in rows]
    flat = [w for r in rows for w in sorted(r)]
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64), np.array(flat, np.int32)


@settings(deadline=None)
@given(SETS, st.randoms(use_true_random=False))
def test_links_are_those_of_the_reference(passages, random):
    held, called = lists([h for h, _ in passages]), lists([c for _, c in passages])
    weight = np.array([random.random() + 0.1 for _ in range(8)])
    first, second = (np.array([random.randrange(len(passages)) for _ in range(20)], np.int64) for _ in range(2))
    got = passage_links(held, called, weight, first, second)
    want = reference.passage_links(held, called, weight, first, second)
    assert (got[0] == want[0]).all()
    assert (got[1] == want[1]).all()
    np.testing.assert_allclose(got[2], want[2], rtol=1e-12)


def test_by_hand():
    held, called = lists([{0, 1}, {1, 2}, set()]), lists([{0}, {1}, set()])
    pairs = np.array([0, 1, 0]), np.array([1, 0, 2])
    named, back, shared = passage_links(held, called, np.array([3.0, 1.0, 1.0]), *pairs)
    assert named.tolist() == [True, False, False]
    assert back.tolist() == [False, True, False]
    assert shared.tolist() == [0.25, 0.5, 0.0]


def test_nothing_and_other_threads():
    rng = np.random.default_rng(4)
    held = lists([set(rng.integers(0, 50, 12).tolist()) for _ in range(30)])
    called = lists([set(rng.integers(0, 50, 2).tolist()) for _ in range(30)])
    weight = rng.random(50) + 0.1
    none = np.zeros(0, np.int64)
    assert [len(x) for x in passage_links(held, called, weight, none, none)] == [0, 0, 0]
    first, second = rng.integers(0, 30, (2, 20000))  # enough for two threads
    every, before = [], torch.get_num_threads()
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            every.append(passage_links(held, called, weight, first, second))
    finally:
        torch.set_num_threads(before)
    assert all((one == two).all() for one, two in zip(*every, strict=True))


def test_wrong_lists_are_named():
    held, one = lists([{0}]), np.zeros(1, np.int64)
    for what, wrong in (("held", (held[0].astype(np.int32), held[1])), ("held", (held[0], held[1].astype(np.int64))),
                        ("held", (held[0], np.zeros(2, np.int32)))):  # fmt: skip
        with pytest.raises(ValueError, match=what):
            passage_links(wrong, held, np.ones(1), one, one)
        with pytest.raises(ValueError, match="called"):
            passage_links(held, wrong, np.ones(1), one, one)


def test_wrong_arguments_are_named():
    held = lists([{0}])
    with pytest.raises(ValueError, match="second"):
        passage_links(held, held, np.ones(1), np.zeros(1, np.int64), np.zeros(2, np.int64))
    with pytest.raises(ValueError, match="called"):
        passage_links(held, lists([{0}, {0}]), np.ones(1), np.zeros(1, np.int64), np.zeros(1, np.int64))
    with pytest.raises(ValueError, match="weight"):
        passage_links(held, held, np.ones(1, np.float32), np.zeros(1, np.int64), np.zeros(1, np.int64))
    for wrong in (-1, 1):
        with pytest.raises(ValueError, match="second: expected passages from 0 to 0"):
            passage_links(held, held, np.ones(1), np.zeros(1, np.int64), np.array([wrong]))
