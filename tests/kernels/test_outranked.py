"""`outranked`: what it says is true, and it says so where very many rows are nearer."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tercet_kernels import outranked as op
from tercet_kernels.cosine import reference as cosine
from tercet_kernels.nearest import encode
from tercet_kernels.nearest.reference import example
from tercet_kernels.outranked import outranked, reference


def at_rank(vectors, queries, rank):
    """(B,) the distance that `rank` rows are nearer than, or as near as."""
    count = queries.shape[0]
    query = torch.arange(count, dtype=torch.int32).repeat_interleave(len(vectors))
    row = torch.arange(len(vectors), dtype=torch.int32).repeat(count)
    distance = cosine.pair_distances(queries, vectors, query, row, None).view(count, -1)
    return distance.sort(dim=1).values[:, min(rank, len(vectors) - 1)].contiguous()


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 1000), st.integers(1, 70), st.integers(1, 2000), st.integers(0, 120), st.integers(0, 2000),
    st.booleans(),
)  # fmt: skip
def test_what_is_proven_is_true(seed, queries, rows, wide, rank, hides):
    one = example(queries, rows, 24, seed)
    distance = at_rank(one["vectors"], one["queries"], rank)
    hidden = torch.rand(rows, generator=torch.Generator().manual_seed(seed)) < 0.5 if hides else None
    wides = torch.full((queries,), wide, dtype=torch.int64)
    got = outranked(encode(one["vectors"]), one["queries"], distance, wides, hidden)
    truth = reference.outranked(one["vectors"], one["queries"], distance, wides, hidden)
    assert not bool((got & ~truth).any())


@pytest.mark.parametrize("queries", [1, 16, 17, 40, 70])
def test_it_is_found_where_very_many_rows_are_nearer(queries):
    one = example(queries, 20_000, 48, seed=queries)
    codes = encode(one["vectors"])
    wide = torch.full((queries,), 100, dtype=torch.int64)
    for rank, known in ((19_999, True), (5_000, True), (50, False), (0, False)):
        got = outranked(codes, one["queries"], at_rank(one["vectors"], one["queries"], rank), wide)
        assert got.tolist() == [known] * queries


def test_each_query_has_its_own_distance_and_width():
    one = example(5, 20_000, 48, seed=1)
    far = at_rank(one["vectors"], one["queries"], 10_000)
    distance = torch.stack([far[0], torch.tensor(torch.inf), far[2], far[3], torch.tensor(0.0)])
    wide = torch.tensor([100, 100, 9_999_999, 0, 100])
    got = outranked(encode(one["vectors"]), one["queries"], distance, wide)
    assert got.tolist() == [True, True, False, True, False]


def test_hidden_rows_and_rows_that_are_as_near_dont_count():
    vectors = torch.nn.functional.normalize(torch.ones(5_000, 24), dim=1)
    queries, wide = vectors[:2].clone(), torch.full((2,), 10, dtype=torch.int64)
    codes = encode(vectors)
    same = at_rank(vectors, queries, 0)
    assert not outranked(codes, queries, same, wide).any()
    assert outranked(codes, queries, same + 0.5, wide).all()
    assert not outranked(codes, queries, same + 0.5, wide, torch.ones(5_000, dtype=torch.bool)).any()


def test_no_rows_no_queries_and_zero_queries():
    none = encode(torch.zeros(0, 8))
    one = torch.ones(1, dtype=torch.int64)
    assert outranked(none, torch.zeros(1, 8), torch.ones(1), one).tolist() == [False]
    assert outranked(none, torch.zeros(0, 8), torch.ones(0), one[:0]).tolist() == []
    rows = example(1, 3_000, 8, seed=0)["vectors"]
    assert outranked(encode(rows), torch.zeros(1, 8), torch.ones(1), one).tolist() == [False]  # all are as far: 1.0
    assert outranked(encode(rows), torch.zeros(1, 8), torch.full((1,), 1.1), one).tolist() == [True]


def test_threads_dont_change_what_is_known(monkeypatch):
    one = example(150, 9_000, 48, seed=3)
    distance, wide = at_rank(one["vectors"], one["queries"], 1_500), torch.full((150,), 100, dtype=torch.int64)
    said = []
    for parts in (1, 2, 5):
        monkeypatch.setattr(op, "threads", lambda items, *_, parts=parts: min(parts, items))
        said.append(outranked(encode(one["vectors"]), one["queries"], distance, wide).numpy())
    np.testing.assert_array_equal(said[0], said[1])
    np.testing.assert_array_equal(said[0], said[2])


def test_wrong_arguments_are_named():
    codes = encode(torch.eye(4))
    with pytest.raises(ValueError, match="distance"):
        outranked(codes, torch.eye(4), torch.ones(3), torch.ones(4, dtype=torch.int64))
    with pytest.raises(ValueError, match="wide"):
        outranked(codes, torch.eye(4), torch.ones(4), torch.ones(4, dtype=torch.int32))
