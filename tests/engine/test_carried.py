"""Rows that stay: histories and runs against plain lists."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tercet.carried import Carried, runs_of, taken_by, through
from tercet.splice import Splice

rows = st.lists(st.integers(0, 30), max_size=20)


@given(rows)
def test_runs_stand_for_their_values(values) -> None:
    runs = runs_of(np.array(values, np.int64))
    assert taken_by(runs).tolist() == values
    assert (runs[:, 1] > 0).all()
    assert len(runs) <= 1 or (runs[1:, 0] != runs[:-1].sum(axis=1)).all()  # as few as there can be


@given(rows, st.data())
@settings(max_examples=200)
def test_runs_through_runs(values, data) -> None:
    places = data.draw(st.lists(st.integers(0, len(values) - 1), max_size=20)) if values else []
    made = through(runs_of(np.array(values, np.int64)), runs_of(np.array(places, np.int64)))
    assert taken_by(made).tolist() == [values[p] for p in places]


carried = st.lists(st.one_of(st.just(-1), st.integers(0, 30)), max_size=20).map(
    lambda values: np.array([v if v < 0 or v > max(values[:i], default=-1) else -1 for i, v in enumerate(values)], int)
)


@given(carried)
def test_carried_rows_as_runs(row) -> None:
    made = Carried.of(row)
    assert made.row.tolist() == row.tolist()
    assert made.changed.tolist() == np.flatnonzero(row < 0).tolist()
    want = row.copy()
    want[row < 0] = 50 + np.arange((row < 0).sum())
    assert taken_by(made.choice(50)).tolist() == want.tolist()


@given(carried, st.data())
@settings(max_examples=200)
def test_carried_through_carried(row, data) -> None:
    places = data.draw(st.lists(st.integers(-1, len(row) - 1), max_size=20)) if len(row) else [-1]
    later = np.array([p if p < 0 or p > max(places[:i], default=-1) else -1 for i, p in enumerate(places)], int)
    made = Carried.of(row).through(Carried.of(later))
    assert made.row.tolist() == [-1 if p < 0 else row[p] for p in later]


def test_a_history_by_hand() -> None:
    first = Splice.taken(np.array([0, 4, 2, 3]), 4).carried  # row 1 went, a new row came in its place
    assert first.row.tolist() == [0, -1, 2, 3]
    second = first.through(Splice.of(4, np.array([0, 3]), np.array([4])).carried)
    assert second.row.tolist() == [-1, 2, -1]
    assert second.changed.tolist() == [0, 2]
    assert second.through(Carried()) is second
    assert Carried().through(second) is second
    assert Carried().changed.tolist() == []
    gone = second.through(Splice.of(3, np.arange(3), np.zeros(0, int)).carried)
    assert gone.row.tolist() == []
    assert gone.through(Splice.of(0, np.zeros(0, int), np.array([0, 0])).carried).row.tolist() == [-1, -1]
