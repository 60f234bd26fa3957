"""Measures against the slow oracle, by hand, and what every bad input gets."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("ir_measures")
pytest.importorskip("pytrec_eval")

from tercet.errors import InvalidArgument, InvalidData
from tercet.evaluate import Context, Qrels, Queries, Run, score_run, shared_share
from tercet.evaluate.checks import constant_run, constant_scorer_passes
from tests.evaluate import oracle

NAMES = ["RR", "AP"] + [f"{m}@{k}" for k in (1, 2, 5, 10) for m in ("R", "nDCG", "RR", "hit", "all_recall")]
DOCUMENTS = [f"d{i}" for i in range(14)]


@st.composite
def cases(draw):
    """Rankings without a score, and graded qrels with at least one relevant document each."""
    queries = [f"q{i}" for i in range(draw(st.integers(1, 4)))]
    run = {q: draw(st.lists(st.sampled_from(DOCUMENTS), unique=True, max_size=14)) for q in queries}
    qrels = {}
    for q in queries:
        judged = draw(st.dictionaries(st.sampled_from(DOCUMENTS), st.integers(-1, 3), max_size=6))
        qrels[q] = {"d0": 1} | judged if not any(g >= 1 for g in judged.values()) else judged
        if not any(g >= 1 for g in qrels[q].values()):
            qrels[q]["d0"] = 1
    return run, qrels


@settings(max_examples=60, deadline=None)
@given(cases())
def test_measures_are_those_of_the_oracle(case):
    run, qrels = case
    got = score_run(Run.of_lists("r", run), Qrels.of(qrels), measures=NAMES)
    for i, q in enumerate(got.queries.to_pylist()):
        expected = oracle.measures(run[q], qrels[q])
        assert got.values[i, : len(NAMES)] == pytest.approx([expected[m] for m in NAMES], abs=1e-9)
        assert got["returned"][i] == len(run[q])


def test_by_hand():
    run = Run.of_lists("r", {"q": ["x", "a", "b", "y"], "p": ["c"]})
    got = score_run(run, Qrels.of({"q": {"a": 2, "b": 1, "z": 1}, "p": ["c"]}),
                    measures=["RR@10", "R@2", "AP", "nDCG@10", "hit@1", "all_recall@1"])  # fmt: skip
    gain = 2 / np.log2(3) + 1 / np.log2(4)
    ideal = 2 + 1 / np.log2(3) + 1 / np.log2(4)
    assert got.values[0, :6] == pytest.approx([1 / 2, 1 / 3, (1 / 2 + 2 / 3) / 3, gain / ideal, 0, 0])
    assert got.values[1, :6].tolist() == [1, 1, 1, 1, 1, 1]
    assert got.means["R@2"] == pytest.approx(2 / 3)
    assert "R@2" in str(got)


def test_order_decides_and_not_the_name_of_a_document():
    """Equal scores keep the order of the run: nothing is settled anew by trec_eval."""
    run = Run.of_arrays("r", ["q"], np.array([0, 3]), np.array([0, 1, 2]), ["a", "b", "c"], np.zeros(3))
    assert score_run(run, Qrels.of({"q": ["a"]}), measures=["RR"]).means["RR"] == 1.0
    assert score_run(run, Qrels.of({"q": ["c"]}), measures=["RR"]).means["RR"] == pytest.approx(1 / 3)
    assert run.tied_at(1).tolist() == [True]
    assert run.tied_at(3).tolist() == [False]
    assert run.cut(2).tied_at(2).tolist() == [True]  # what was cut off is remembered
    got = score_run(run.cut(1), Qrels.of({"q": ["a"]}), measures=["RR"])
    assert got.ties[1] == 1
    assert "tied at a cut: 1 at 1" in str(got)


def test_scores_that_single_precision_cannot_tell_apart_keep_their_order():
    scores = np.array([1 + 2e-12, 1 + 1e-12, 1.0])
    run = Run.of_arrays("r", ["q"], np.array([0, 3]), np.array([0, 1, 2]), ["a", "b", "c"], scores)
    assert score_run(run, Qrels.of({"q": ["c"]}), measures=["RR"]).means["RR"] == pytest.approx(1 / 3)


def test_a_constant_scorer_is_not_rewarded():
    qrels = Qrels.of({f"q{i}": [f"d{i}"] for i in range(20)})
    assert constant_scorer_passes(qrels)
    assert constant_scorer_passes(Qrels.of({"q": ["z", "a"], "p": ["m"]}))
    run = constant_run(qrels.queries, qrels.documents, 5)
    got = score_run(run, qrels, measures=["R@5"])
    assert got.means["R@5"] == 5 / 20  # each document is right for one query


def test_positions_of_the_input_do_not_decide_ties():
    """What MTEB once did: positives listed first, one score, MRR 1."""
    first = Run.of_dict("r", {"q": {"a": 1.0, "x": 1.0, "y": 1.0}})
    last = Run.of_dict("r", {"q": {"y": 1.0, "x": 1.0, "a": 1.0}})
    values = [score_run(r, Qrels.of({"q": ["a"]}), measures=["RR"]).means["RR"] for r in (first, last)]
    assert values == pytest.approx([1 / 3, 1 / 3])


def test_missing_queries_are_zero_or_left_out_or_refused_and_always_listed():
    run, qrels = Run.of_lists("r", {"a": ["d"], "other": ["d"]}), Qrels.of({"a": ["d"], "b": ["d"]})
    zero = score_run(run, qrels, measures=["R@1"])
    assert (zero.means["R@1"], zero.n, zero.missing, zero.unjudged) == (0.5, 2, ["b"], ("other",))
    assert zero.counts == {
        "judged": 2, "scored": 2, "empty": 0, "failed": 0, "missing": 1, "unjudged": 1, "not_asked": 0
    }  # fmt: skip
    assert "1 queries missing from the run (count as 0): 'b'" in str(zero)
    skip = score_run(run, qrels, measures=["R@1"], missing="skip")
    assert (skip.means["R@1"], skip.n, skip.missing) == (1.0, 1, ["b"])
    assert skip.to_arrow()["R@1"].to_pylist() == [1.0, None]
    with pytest.raises(InvalidData, match="1 judged queries are missing or failed: 'b'"):
        score_run(run, qrels, missing="error")
    with pytest.raises(InvalidArgument, match="missing: expected 'zero', 'skip' or 'error'"):
        score_run(run, qrels, missing="drop")  # type: ignore[arg-type]


def test_failed_is_not_empty():
    run = Run.of_lists("r", {"a": ["d"], "b": [], "c": []}, errors={"c": "the query is blank"})
    got = score_run(run, Qrels.of({q: ["d"] for q in "abc"}), measures=["R@1"])
    assert (got.empty, got.failed) == (["b"], ["c"])
    assert got.summary()["failed"] == {"c": "the query is blank"}
    assert got.to_arrow().select(["status", "error"]).to_pylist()[1:] == [
        {"status": "empty", "error": None}, {"status": "failed", "error": "the query is blank"}
    ]  # fmt: skip
    left = score_run(run, Qrels.of({q: ["d"] for q in "abc"}), measures=["R@1"], missing="skip")
    assert (left.n, left.means["R@1"]) == (2, 0.5)  # an empty answer is an answer


def test_run_and_qrels_with_different_ids_are_refused():
    with pytest.raises(InvalidData, match=r"run 'r' and qrels have no query in common: '1' against 'q1'"):
        score_run(Run.of_lists("r", {"1": ["d"]}), Qrels.of({"q1": ["d"]}))
    got = score_run(Run.of_lists("r", {"1": ["passage:4"]}), Qrels.of({"1": ["4"]}), measures=["R@1"])
    assert "are their ids written alike? 'passage:4' against '4'" in str(got)
    with pytest.raises(InvalidData, match="queries and qrels have no query in common"):
        score_run(Run.of_lists("r", {"1": ["d"]}), Qrels.of({"1": ["d"]}), queries=Queries.of({"2": "text"}))


def test_queries_without_a_relevant_document_are_left_out():
    run, qrels = Run.of_lists("r", {"a": ["d"], "b": ["d"]}), Qrels.of({"a": ["d"], "b": {"d": 0}})
    got = score_run(run, qrels, measures=["R@1"])
    assert (len(got), got.unjudged) == (1, ("b",))
    with pytest.raises(InvalidData, match="no relevant document"):
        score_run(run, Qrels.of({"a": {"d": 0}}))


def test_queries_restrict_what_is_judged():
    got = score_run(Run.of_lists("r", {"a": ["d"]}), Qrels.of({"a": ["d"], "b": ["d"]}), measures=["R@1"],
                    queries=Queries.of({"a": "text"}))  # fmt: skip
    assert (got.means["R@1"], got.not_asked) == (1.0, ("b",))


def test_weights_and_slices():
    queries = Queries.of([{"id": q, "text": "t", "rows": r, "hops": h} for q, r, h in
                          (("a", 3, 2), ("b", 1, 10), ("c", 1, None))])  # fmt: skip
    run = Run.of_lists("r", {"a": ["d"], "b": ["x"], "c": ["d"]})
    got = score_run(run, Qrels.of({q: ["d"] for q in "abc"}), measures=["R@1"], queries=queries, weight="rows")
    assert got.means["R@1"] == 4 / 5
    parts = got.slices("hops")
    assert {k: (e.n, e.means["R@1"]) for k, e in parts.items()} == {"2": (1, 1.0), "10": (1, 0.0), "(none)": (1, 1.0)}
    assert list(parts) == ["2", "10", "(none)"]
    with pytest.raises(InvalidArgument, match="the queries have no 'kind', only rows, hops"):
        got.slices("kind")
    with pytest.raises(InvalidData, match="expected weights above 0, got None for query 'c'"):
        queries.weights("hops")
    with pytest.raises(InvalidArgument, match="weight: 'rows' is a field of queries"):
        score_run(run, Qrels.of({"a": ["d"]}), weight="rows")


def test_context_tokens():
    run = Run.of_lists("r", {"a": ["d", "e"], "b": ["x"], "c": []})
    context = Context(np.array([50, 10, 0]), np.array([1, 1, 0]))
    got = score_run(run, Qrels.of({"a": ["d", "e"], "b": ["d"], "c": ["d"]}), measures=["R@2"], context=context)
    assert got["context_tokens"].tolist() == [50, 10, 0]
    assert got["recall_per_1k_tokens"].tolist() == [1000 * 0.5 / 50, 0, 0]  # only the first document is in the text


def test_near_identical_rankings_are_flagged():
    same = Run.of_lists("r", {f"q{i}": ["a", "b"] for i in range(4)})
    assert shared_share(same, 10) == 1.0
    apart = Run.of_lists("r", {f"q{i}": [f"a{i}", f"b{i}"] for i in range(4)})
    assert shared_share(apart, 10) == 0.0
    half = Run.of_lists("r", {"p": ["a", "b"], "q": ["b", "c"]})
    assert shared_share(half, 10) == 0.5
    assert "near-identical rankings" in str(score_run(same, Qrels.of({"q0": ["a"]}), measures=["R@1"]))


def test_places_without_an_id_keep_their_rank():
    got = score_run(Run.of_lists("r", {"q": [None, None, "d"]}), Qrels.of({"q": ["d"]}), measures=["RR", "R@2"])
    assert got.values[0, :2] == pytest.approx([1 / 3, 0])


@pytest.mark.parametrize("name", ["nDCG", "R@0x", "Nonsense@3", "hit@0", "Compat@10"])
def test_unknown_measures(name):
    if name == "nDCG":  # without a cut is a measure
        assert score_run(Run.of_lists("r", {"q": ["d"]}), Qrels.of({"q": ["d"]}), measures=[name]).means[name] == 1.0
        return
    with pytest.raises(InvalidArgument, match="measure"):
        score_run(Run.of_lists("r", {"q": ["d"]}), Qrels.of({"q": ["d"]}), measures=[name])
