"""Intervals, tests and their correction, by hand and against SciPy."""

from itertools import product

import numpy as np
import pytest

pytest.importorskip("ir_measures")
pytest.importorskip("scipy")

from scipy import stats

from tercet.errors import InvalidArgument, InvalidData
from tercet.evaluate import Qrels, Run, compare, score_run
from tercet.evaluate.significance import holm, interval, paired_t, randomisation

QRELS = Qrels.of({f"q{i}": ["d"] for i in range(60)})


def system(name, right, queries=60, **options):
    """Answers the first `right` queries rightly."""
    lists = {f"q{i}": ["d"] if i < right else ["x"] for i in range(queries)}
    return score_run(Run.of_lists(name, lists, **options), QRELS, measures=["R@5", "RR"])


def test_holm_by_hand():
    got = holm(np.array([0.01, 0.04, np.nan, 0.03, 0.5]))
    np.testing.assert_allclose(got, [0.04, 0.09, np.nan, 0.09, 0.5])  # 0.01*4, max(0.03*3, 0.04*2), ...
    assert holm(np.zeros(0)).tolist() == []
    assert holm(np.array([0.9, 0.8])).tolist() == [1.0, 1.0]


def test_interval_is_that_of_the_bootstrap():
    rng = np.random.default_rng(3)
    delta = rng.normal(0.1, 1, (200, 2))
    low, high = interval(delta, np.ones(200), 10_000, 0)
    for c in range(2):
        known = stats.bootstrap((delta[:, c],), np.mean, method="percentile", n_resamples=10_000, rng=1)
        assert (low[c], high[c]) == pytest.approx(known.confidence_interval, abs=0.01)
    again = interval(delta, np.ones(200), 10_000, 0)
    np.testing.assert_array_equal(again, (low, high))  # seeded
    assert (interval(delta, np.ones(200), 10_000, 1)[0] != low).any()


def test_interval_of_weighted_means():
    delta, weights = np.array([[1.0], [0.0]]), np.array([3.0, 1.0])
    low, high = interval(delta, weights, 4_000, 0)
    assert (low[0], high[0]) == (0.0, 1.0)
    repeated = interval(np.array([[2.0]] * 5), np.arange(1.0, 6.0), 100, 0)
    assert (repeated[0][0], repeated[1][0]) == (2.0, 2.0)


def test_randomisation_against_all_signs():
    delta = np.array([[0.5], [0.25], [-0.1], [0.4], [0.2], [0.3], [0.1], [-0.2]])
    sums = [abs(np.dot(s, delta[:, 0])) for s in product([-1, 1], repeat=8)]
    exact = np.mean(np.array(sums) >= abs(delta.sum()) - 1e-12)
    assert randomisation(delta, np.ones(8), 20_000, 0)[0] == pytest.approx(exact, abs=0.01)
    assert randomisation(np.zeros((30, 1)), np.ones(30), 500, 0)[0] == 1.0
    assert randomisation(np.ones((30, 1)), np.ones(30), 999, 0)[0] == 1 / 1000  # never 0


def test_paired_t_is_scipys():
    delta = np.random.default_rng(0).normal(size=(40, 3))
    delta[:, 2] = 0.25
    got = paired_t(delta)
    assert got[0] == pytest.approx(stats.ttest_rel(delta[:, 0], np.zeros(40)).pvalue)
    assert np.isnan(got[2])


def test_comparison_by_hand():
    got = compare({"good": system("good", 40), "base": system("base", 30), "bad": system("bad", 10)}, ["base"])
    first = next(r for r in got.rows if r.system == "good" and r.measure == "R@5")
    assert (first.n, first.wins, first.ties, first.losses) == (60, 10, 50, 0)
    assert (first.mean, first.baseline_mean) == pytest.approx((40 / 60, 0.5))
    assert first.difference == pytest.approx(10 / 60)
    assert 0 < first.low < first.difference < first.high
    assert first.p == pytest.approx(2 / 2**10, abs=0.002)  # only all ten signs alike are as extreme
    assert [r.measure for r in got.rows] == ["R@5", "R@5"]  # of the usual measures all have only this
    assert all(r.p_holm >= r.p for r in got.rows)
    assert got.to_arrow().num_rows == 2
    assert "good" in str(got)


def test_too_few_and_small():
    few = {n: system(n, r, 60).take(np.arange(20)) for n, r in (("a", 10), ("base", 5))}
    row = compare(few, ["base"]).rows[0]
    assert row.note == "too few"
    assert np.isnan([row.p, row.p_t, row.p_holm]).all()
    assert row.difference == pytest.approx(5 / 20)
    small = compare({"a": system("a", 31), "base": system("base", 30)}, ["base"], least=0.05).rows[0]
    assert small.note == "small"


def test_what_did_not_run_takes_no_part():
    got = compare({"a": system("a", 40), "base": system("base", 30), "gone": "did not run: no encoder"}, ["base"])
    assert {r.system for r in got.rows} == {"a"}
    assert got.left_out == {"gone": "did not run: no encoder"}
    assert "gone: not compared, did not run: no encoder" in str(got)
    none = compare({"a": system("a", 40), "base": "did not run"}, ["base"])
    assert none.rows == ()


def test_other_queries_are_refused():
    other = score_run(Run.of_lists("x", {"p": ["d"]}), Qrels.of({"p": ["d"]}), measures=["R@5"])
    with pytest.raises(InvalidData, match="'x' and 'base' were judged on different queries"):
        compare({"x": other, "base": system("base", 3)}, ["base"])
    with pytest.raises(InvalidArgument, match="baselines: no 'dense'; there are a"):
        compare({"a": system("a", 3)}, ["dense"])
    with pytest.raises(InvalidArgument, match="measure"):
        compare({"a": system("a", 3), "b": system("b", 3)}, ["b"], measures=["nDCG@3"])


def test_skipped_queries_are_left_out_of_the_pair():
    lists = {f"q{i}": ["d"] for i in range(60)}
    skipping = score_run(Run.of_lists("s", lists, errors={"q0": "broken"}), QRELS, measures=["R@5"], missing="skip")
    row = compare({"s": skipping, "base": system("base", 30)}, ["base"]).rows[0]
    assert (row.n, row.wins) == (59, 30)
