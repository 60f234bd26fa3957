"""Mixed load with updates, cancellations and bad queries: nothing is lost or mixed up, and memory stays flat."""

import pytest

from bench.soak import Found, Soak, soak


def test_a_short_soak_loses_and_mixes_up_nothing():
    found = soak(seconds=8.0, num_nodes=400, rate=50.0, seed=3)
    assert found.wrong == []
    assert found.lost == 0
    assert found.versions > 5
    for outcome in ("ok", "failed", "refused", "cancelled", "deadline"):
        assert found.outcomes[outcome] > 0, outcome


def test_a_mixed_up_answer_is_noticed():
    load = Soak(0.0, 200, 1.0, 0)
    asked = {"verb": "recall", "arguments": {"queries": "old bridge", "top_k": 3}, "how": {}, "cancel": None}
    view = load.views[1]
    assert load._judged(asked, view.recall("old bridge", top_k=3)[0]) == ("ok", None)
    for other in (view.recall("new bridge", top_k=3)[0], view.recall("old bridge", top_k=2)[0]):
        outcome, problem = load._judged(asked, other)
        assert outcome == "ok"
        assert problem is not None
    assert load._judged(asked, ValueError("x"))[1] is not None


def test_growing_memory_and_lost_requests_are_noticed():
    flat, steep = [10 << 20] * 100, [i << 20 for i in range(200)]
    assert Found(sent=1, outcomes=_ok(), memory=flat).good
    assert not Found(sent=1, outcomes=_ok(), memory=steep).good
    assert not Found(sent=2, outcomes=_ok(), memory=flat, lost=1).good
    assert not Found(memory=flat).good  # nothing was answered


def _ok():
    return Found().outcomes.__class__({"ok": 1})


@pytest.mark.slow
def test_five_minutes():
    found = soak(seconds=300.0, num_nodes=3000, rate=150.0, seed=1)
    assert found.good, found
