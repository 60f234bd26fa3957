"""Leaving out the search of relations that can't matter changes no answer."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.prepare import batch_of, engine_of
from bench.workloads import make
from tercet import late, projection
from tercet.index import exact
from tercet.index.segmented import SegmentedIndex
from tercet.late import passed_over


@pytest.fixture
def asked(monkeypatch):
    """What `passed_over` said, call by call, of collections of any size."""
    said = []

    def ask(*arguments):
        said.append(passed_over(*arguments))
        return said[-1]

    monkeypatch.setattr(late, "pays", lambda rows: rows > 0)
    monkeypatch.setattr(exact, "pays", lambda rows: rows > 0)
    monkeypatch.setattr(projection, "passed_over", ask)
    return said


def both(monkeypatch, engine, **call):
    """The answers with and without the short cut."""
    mine = engine.recall(**call)
    with monkeypatch.context() as m:
        m.setattr(projection, "passed_over", lambda *_: None)
        return mine, engine.recall(**call)


def same(mine, plain):
    assert mine.status == plain.status
    assert torch.equal(mine.edges, plain.edges)
    np.testing.assert_array_equal(mine.scores, plain.scores)
    assert torch.equal(mine.distances, plain.distances)
    for a, b in zip(mine, plain, strict=True):
        assert {**a.explain(), "timings": {}} == {**b.explain(), "timings": {}}


@pytest.mark.parametrize("kind", ["uniform", "power_law", "type_hubs"])
def test_answers_are_the_same(monkeypatch, asked, kind):
    given_ = make(300, 1500, 32, kind, relation_texts="each", seed=5, num_queries=32)
    engine = engine_of(given_)
    for wide in (1, 10, 60, [5, 40, 1, 300] * 8):
        same(*both(monkeypatch, engine, vectors=batch_of(given_, 32), top_k=7, wide_search_top_k=wide))
    settled = torch.cat(asked)
    assert len(settled) == 4 * 32
    assert bool(settled.any())  # some queries were left out,
    assert not bool(settled.all())  # some weren't


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 999), st.integers(5, 60), st.integers(1, 4), st.integers(1, 80), st.integers(1, 70), st.data())
def test_answers_are_the_same_on_any_graph(seed, nodes, dense, texts, wide, data):
    given_ = make(nodes, nodes * dense // 2 + 1, 16, "uniform", relation_texts=texts, seed=seed, num_queries=9)
    call = {
        "vectors": batch_of(given_, 9),
        "top_k": data.draw(st.integers(1, 9)),
        "wide_search_top_k": wide,
        "max_distance": data.draw(st.sampled_from([None, 0.5, 1.0])),
    }
    with pytest.MonkeyPatch.context() as m:
        m.setattr(late, "pays", lambda rows: rows > 0)
        m.setattr(exact, "pays", lambda rows: rows > 0)
        same(*both(m, engine_of(given_), **call))


def test_other_projections_are_searched_as_ever(monkeypatch, asked):
    given_ = make(100, 300, 16, "uniform", relation_texts="each", seed=1, num_queries=4)
    engine = engine_of(given_)
    for call in (
        {"projection": "incident"},
        {"projection": "neighborhood", "neighborhood_depth": 1},
        {"projection": "full"},
    ):
        same(*both(monkeypatch, engine, vectors=batch_of(given_, 4), wide_search_top_k=10, **call))
    assert asked == [None] * 3


def test_what_was_found_at_all_is_still_said(monkeypatch, asked):
    """A filter that admits no node leaves the relations' candidates: `empty_fragment`, not `no_hits`."""
    given_ = make(100, 300, 16, "uniform", relation_texts="each", seed=1, num_queries=3)
    engine = engine_of(given_)
    mask = np.zeros(100, bool)
    mask[3] = True
    for filter_ in (mask, ~mask):
        same(*both(monkeypatch, engine, vectors=batch_of(given_, 3), wide_search_top_k=10, filter=filter_))
    same(*both(monkeypatch, engine, vectors=batch_of(given_, 3), wide_search_top_k=10, max_distance=1e-4))
    assert len(asked) == 3


def test_collections_that_have_changed(monkeypatch, asked):
    """New relations lie in a segment of their own, deleted ones in the first: neither is forgotten."""
    given_ = make(300, 1500, 32, "uniform", relation_texts="each", seed=5, num_queries=32)
    engine = engine_of(given_)
    name, ids = "EdgeType_relationship_name", np.asarray(given_.node_ids)
    fresh = [f"new {i}" for i in range(40)]
    owners = [*fresh, *given_.relation_texts[::3]]
    rows = given_.query_vectors[np.arange(len(owners)) % 32]
    engine.upsert(
        edges={"source": ids[:40], "target": ids[40:80], "relation": fresh}, vectors={name: (owners, rows)}
    )  # fmt: skip
    engine.delete(nodes=ids[90:95].tolist())
    index = engine.collections[-1].index
    assert isinstance(index, SegmentedIndex)
    assert bool((index.segments[0].row < 0).any())
    for wide in (10, 60):
        same(*both(monkeypatch, engine, vectors=batch_of(given_, 32), top_k=7, wide_search_top_k=wide))
    assert bool(torch.cat(asked).any())
