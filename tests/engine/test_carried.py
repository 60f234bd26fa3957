"""Rows that stay: histories and runs against plain lists."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tercet.carried import Carried, runs_of, taken_by, through

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


def test_a_history_by_hand() -> None:
    first = Carried().then(np.array([0, 4, 2, 3]), 4)  # row 1 went, a new row came in its place
    assert first.row.tolist() == [0, -1, 2, 3]
    second = first.then(np.array([1, 2, 4]), 4)
    assert second.row.tolist() == [-1, 2, -1]
    assert second.changed.tolist() == [0, 2]
    assert first.through(Carried(np.array([1, 2, -1], np.int32))).row.tolist() == second.row.tolist()
    assert second.through(Carried()) is second
    assert second.then(None, 3) is second
    assert Carried().changed.tolist() == []
    gone = second.then(np.zeros(0, np.int64), 3)
    assert gone.row.tolist() == []
    assert gone.then(np.array([0, 1]), 0).row.tolist() == [-1, -1]
