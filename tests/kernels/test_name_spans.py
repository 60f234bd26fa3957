"""Names in texts: the longest runs, and runs with the words of a name in any order."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tercet_kernels.name_spans import key_spans, name_spans, reference, sorted_names


def lists(rows):
    counts = [len(r) for r in rows]
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64), np.array([w for r in rows for w in r], np.int32)


NAME = st.lists(st.integers(0, 4), min_size=1, max_size=3).map(tuple)
TEXTS = st.lists(st.lists(st.integers(-1, 4), max_size=10), max_size=6)


@settings(deadline=None)
@given(st.lists(NAME, max_size=12))
def test_sorted_names_orders_by_words_with_prefixes_first(names):
    order = sorted_names(*lists(names))
    assert [names[i] for i in order] == sorted(names)


@settings(deadline=None)
@given(st.sets(NAME, max_size=15), TEXTS, st.randoms(use_true_random=False))
def test_spans_are_those_of_the_reference(names, texts, random):
    table = lists(sorted(names))
    indptr, word = lists(texts)
    lone, blank, marked = (np.array([random.random() < p for _ in word], bool) for p in (0.3, 0.2, 0.4))
    got, want = name_spans(table, indptr, word, lone), reference.name_spans(table, indptr, word, lone)
    assert all((a == b).all() for a, b in zip(got, want, strict=True))
    keys = lists(sorted({tuple(sorted(n)) for n in names if len(n) > 1}))
    near = key_spans(keys, indptr, word, blank, marked, got[0])
    far = reference.key_spans(keys, indptr, word, blank, marked, got[0])
    assert all((a == b).all() for a, b in zip(near, far, strict=True))


def test_the_longest_name_wins():
    table = lists([(0,), (0, 1), (1, 2)])
    end, name = name_spans(table, *lists([[0, 1, 2], [1, 0]]), np.zeros(5, bool))
    assert name.tolist() == [1, 2, -1, -1, 0]
    assert end.tolist() == [2, 3, 0, 0, 5]


def test_words_in_another_order():
    keys = lists([(1, 2)])
    indptr, stem = lists([[2, 0, 1]])
    free, marks = np.zeros(3, np.int64), np.array([True, False, False])
    end, key = key_spans(keys, indptr, stem, np.array([False, True, False]), marks, free)
    assert (end.tolist(), key.tolist()) == ([3, 0, 0], [0, -1, -1])
    assert key_spans(keys, indptr, stem, np.zeros(3, bool), marks, free)[1].max() == -1  # 0 counts now


def test_nothing():
    table, none = lists([]), np.zeros(0, bool)
    assert len(sorted_names(*table)) == 0
    assert [len(x) for x in name_spans(table, *lists([]), none)] == [0, 0]
    assert [len(x) for x in name_spans(table, *lists([[], []]), none)] == [0, 0]
    assert name_spans(table, *lists([[0, 1]]), np.zeros(2, bool))[1].tolist() == [-1, -1]
    two = np.ones(2, bool)
    assert key_spans(table, *lists([[0, 1]]), ~two, two, np.zeros(2, np.int64))[1].tolist() == [-1, -1]


def test_a_text_alone_and_other_threads_give_the_same():
    rng = np.random.default_rng(2)
    table = lists(sorted({tuple(rng.integers(0, 6, rng.integers(1, 4)).tolist()) for _ in range(60)}))
    keys = lists(sorted({tuple(sorted(rng.integers(0, 6, 2).tolist())) for _ in range(20)}))
    texts = [rng.integers(-1, 6, rng.integers(0, 40)).tolist() for _ in range(600)]
    indptr, word = lists(texts)
    lone, blank, marked = (rng.random(len(word)) < p for p in (0.3, 0.2, 0.4))
    every, before = [], torch.get_num_threads()
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            spans = name_spans(table, indptr, word, lone)
            every.append((*spans, *key_spans(keys, indptr, word, blank, marked, spans[0])))
    finally:
        torch.set_num_threads(before)
    assert all((one == two).all() for one, two in zip(*every, strict=True))
    for b in range(0, 600, 97):
        at = slice(indptr[b], indptr[b + 1])
        own = np.array([0, indptr[b + 1] - indptr[b]])
        end, name = name_spans(table, own, word[at], lone[at])
        assert name.tolist() == every[0][1][at].tolist()
        assert (end[name >= 0] + indptr[b]).tolist() == every[0][0][at][name >= 0].tolist()


@pytest.mark.parametrize(("names", "words"), [
    ((np.array([0, 1], np.int32), np.zeros(1, np.int32)), "names indptr"),
    ((np.zeros((1, 1), np.int64), np.zeros(0, np.int32)), "names indptr"),
    ((np.array([0, 1]), np.zeros(1)), "names words"), ((np.array([0, 1]), np.zeros(2, np.int32)), "names words"),
])  # fmt: skip
def test_wrong_names_are_told(names, words):
    with pytest.raises(ValueError, match=words):
        sorted_names(*names)


def test_wrong_arguments_are_named():
    table = lists([(0,)])
    with pytest.raises(ValueError, match="lone"):
        name_spans(table, *lists([[0]]), np.zeros(2, bool))
    with pytest.raises(ValueError, match="texts words"):
        name_spans(table, np.array([0, 2]), np.zeros(1, np.int32), np.zeros(1, bool))
    with pytest.raises(ValueError, match="covered"):
        key_spans(table, *lists([[0]]), np.zeros(1, bool), np.zeros(1, bool), np.zeros(1, np.int32))
