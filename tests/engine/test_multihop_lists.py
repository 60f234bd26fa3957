"""Lists of the passage search, against plain dicts and sets."""

from collections import defaultdict

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tercet.multihop import lists
from tercet.multihop.listed import Listed, best_listed, best_of_board, largest, summed

PAIRS = st.lists(st.tuples(st.integers(0, 4), st.integers(-1, 6)), max_size=30)
VALUES = st.lists(st.tuples(st.integers(0, 19), st.sampled_from([-1.0, 0.0, 0.25, 0.5, 2.0])), max_size=40)


def columns(rows, *dtypes):
    return [np.array([r[i] for r in rows], d) for i, d in enumerate(dtypes)]


def read(made):
    return [made[1][a:b].tolist() for a, b in zip(made[0][:-1], made[0][1:], strict=True)]


@settings(deadline=None)
@given(PAIRS, PAIRS, st.lists(st.integers(0, 4), max_size=8))
def test_lists(pairs, more, rows):
    one, two = (lists.of_pairs(*columns(p, np.int64, np.int64), 5) for p in (pairs, more))
    sets = [[{i for o, i in p if o == owner and i >= 0} for owner in range(5)] for p in (pairs, more)]
    assert read(one) == [sorted(s) for s in sets[0]]
    assert read(lists.joined(one, two)) == [sorted(a | b) for a, b in zip(*sets, strict=True)]
    assert read(lists.turned(one, 7)) == [[o for o in range(5) if i in sets[0][o]] for i in range(7)]
    picked = np.array(rows, np.int64)
    assert read(lists.taken(one, picked)) == [sorted(sets[0][r]) for r in rows]
    at, item = lists.expanded(one, picked)
    assert list(zip(at.tolist(), item.tolist(), strict=True)) == [
        (i, x) for i, r in enumerate(rows) for x in sorted(sets[0][r])
    ]
    assert lists.owners(one[0]).tolist() == [o for o in range(5) for _ in sets[0][o]]


@settings(deadline=None)
@given(VALUES, st.lists(st.integers(0, 19), max_size=10))
def test_values_of_keys(rows, asked):
    key, value = columns(rows, np.int64, np.float64)
    every = defaultdict(list)
    for k, v in rows:
        every[k].append(v)
    total, most = summed(key, value), largest(key, value)
    assert dict(zip(total.key.tolist(), total.value.tolist(), strict=True)) == {k: sum(v) for k, v in every.items()}
    best = {k: max(v) for k, v in every.items() if max(v) > 0}
    assert dict(zip(most.key.tolist(), most.value.tolist(), strict=True)) == best
    assert (np.diff(total.key) > 0).all()
    assert (np.diff(most.key) > 0).all()
    assert most.at(np.array(asked, np.int64)).tolist() == [best.get(k, 0.0) for k in asked]


@settings(deadline=None)
@given(VALUES, st.lists(st.integers(1, 6), min_size=4, max_size=4))
def test_a_board_and_a_list_propose_the_same(rows, most):
    signal = largest(*columns(rows, np.int64, np.float64))
    board = torch.zeros(4, 5, dtype=torch.float64)
    board.view(-1)[torch.from_numpy(signal.key)] = torch.from_numpy(signal.value)
    counts = np.array(most, np.int64)
    got = best_listed(signal, counts, 5).tolist()
    assert got == sorted(best_of_board(board, counts).tolist())
    for query in range(4):
        shown = sorted(board[query].tolist(), reverse=True)
        cut = shown[most[query]] if most[query] < 5 else 0.0
        assert [k - 5 * query for k in got if k // 5 == query] == [p for p in range(5) if board[query, p] > cut]


def test_nothing():
    none = Listed(np.zeros(0, np.int64), np.zeros(0))
    assert none.at(np.array([3])).tolist() == [0.0]
    assert (
        len(best_listed(none, np.array([2, 2]), 5)) == len(best_of_board(torch.zeros(0, 5), np.zeros(0, np.int64))) == 0
    )
    assert len(none.inside(torch.ones(2, 5, dtype=torch.bool)).key) == 0
