"""Agreement of rankings against slow definitions, and by hand."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tercet.errors import InvalidArgument, InvalidData
from tercet.evaluate import Run, agreement
from tests.evaluate import oracle

RANKINGS = st.lists(st.sampled_from("abcdefghij"), unique=True, max_size=10)
PAIRS = st.dictionaries(st.sampled_from(["q1", "q2", "q3"]), st.tuples(RANKINGS, RANKINGS), min_size=1)


@settings(max_examples=80, deadline=None)
@given(PAIRS, st.integers(1, 6), st.sampled_from([0.5, 0.9]))
def test_every_value_is_that_of_its_definition(pairs, k, p):
    first = Run.of_lists("a", {q: a for q, (a, _) in pairs.items()})
    second = Run.of_lists("b", {q: b for q, (_, b) in reversed(pairs.items())})
    got = agreement(first, second, k, p=p)
    for i, q in enumerate(got.queries.to_pylist()):
        a, b = pairs[q]
        most = max(len(a[:k]), len(b[:k]))
        assert got.overlap[i] == (len(set(a[:k]) & set(b[:k])) / most if most else 1.0)
        assert got.exact[i] == (a[:k] == b[:k])
        assert got.rbo[i] == pytest.approx(oracle.rbo(a, b, p))
        expected = oracle.tau(a, b)
        assert np.isnan(got.tau[i]) if expected is None else got.tau[i] == pytest.approx(expected)


def test_rbo_by_hand():
    same = agreement(Run.of_lists("a", {"q": list("abc")}), Run.of_lists("b", {"q": list("abc")}))
    assert same.rbo[0] == pytest.approx(1.0)
    apart = agreement(Run.of_lists("a", {"q": list("abc")}), Run.of_lists("b", {"q": list("xyz")}))
    assert apart.rbo[0] == 0.0
    swapped = agreement(Run.of_lists("a", {"q": ["a", "b"]}), Run.of_lists("b", {"q": ["b", "a"]}), p=0.5)
    assert swapped.rbo[0] == pytest.approx(0.5)  # (1-p)/p * p^2 * 1 + p^2


def test_scores():
    a = Run.of_dict("a", {"q": {"x": 1.0, "y": 0.5}, "r": {"x": 1.0}})
    b = Run.of_dict("b", {"q": {"x": 0.75, "z": 0.5}, "r": {"z": 3.0}})
    got = agreement(a, b)
    assert got.score_difference[0] == 0.25
    assert np.isnan(got.score_difference[1])
    assert got.means["max_score_difference"] == 0.25
    ranks = agreement(a, Run.of_lists("c", {"q": ["x"]}))
    assert np.isnan(ranks.means["max_score_difference"])  # ranks are no scores
    assert ranks.summary()["max_score_difference"] is None


def test_places_without_an_id_never_agree():
    got = agreement(Run.of_lists("a", {"q": [None, "d"]}), Run.of_lists("b", {"q": [None, "d"]}), 2)
    assert (got.overlap[0], bool(got.exact[0])) == (0.5, False)


def test_queries_that_cannot_be_compared_are_listed():
    a = Run.of_lists("a", {"q": ["d"], "f": [], "only": ["d"]}, errors={"f": "broken"})
    b = Run.of_lists("b", {"q": ["d"], "f": ["d"], "more": ["d"]})
    got = agreement(a, b)
    assert (got.queries.to_pylist(), got.failed, got.only_run, got.only_reference) == (
        ["q"], ("f",), ("only",), ("more",)
    )  # fmt: skip
    assert "1 queries failed (left out): 'f'" in str(got)
    with pytest.raises(InvalidData, match="no query in common"):
        agreement(a, Run.of_lists("c", {"z": ["d"]}))


@pytest.mark.parametrize("wrong", [{"k": 0}, {"k": True}, {"p": 1.0}, {"p": 0.0}])
def test_wrong_arguments(wrong):
    run = Run.of_lists("a", {"q": ["d"]})
    with pytest.raises(InvalidArgument, match=next(iter(wrong))):
        agreement(run, run, **wrong)
