"""Segmented indexes: the results of an index built at once over the rows that are left."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tercet import Collection
from tercet.collection_update import added_rows, changed_rows, compacted
from tercet.index import segmented
from tercet.index.exact import ExactIndex
from tercet.index.segmented import SegmentedIndex
from tests.engine.conftest import DEVICES


@pytest.fixture(autouse=True, scope="module")
def many_segments():
    """Segments of few rows, which aren't merged because they are small."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segmented, "SMALL", 0)
        yield


OWNERS = [f"n{i:02d}" for i in range(40)]
POOL = np.random.default_rng(0).normal(size=(12, 5)).astype(np.float32)  # few, so that distances tie


def built(rows: list[tuple[str, int]], order: str, dtype: str, zero: str) -> Collection:
    vectors = np.array([POOL[v] for _, v in rows], np.float32).reshape(-1, 5)
    return Collection.build("c", vectors, [o for o, _ in rows], order=order, dtype=dtype, zero_vectors=zero)


@st.composite
def histories(draw):
    owners, vector = st.sampled_from(OWNERS), st.integers(0, 11)
    first = draw(st.lists(st.tuples(owners, vector), min_size=12, max_size=40))
    changes = st.tuples(st.lists(owners, max_size=8), st.lists(st.tuples(owners, vector), max_size=6))
    return first, draw(st.lists(changes, min_size=1, max_size=5))


def applied(history, order: str, dtype: str):
    """The collection after all changes, and the rows that one built from scratch has."""
    rows, changes = history
    if order == "canonical":
        rows = sorted(rows, key=lambda r: r[0])
    made = built(rows, order, dtype, "worst")
    for gone, come in changes:
        lost = {*gone, *(o for o, _ in come)}
        mask = np.array([o.as_py() in lost for o in made.owner], bool)
        added = (
            added_rows(made, np.array([POOL[v] for _, v in come]), [o for o, _ in come], strip=True) if come else None
        )
        made = changed_rows(made, np.flatnonzero(mask), added).collection
        rows = [r for r in rows if r[0] not in lost] + come
        if order == "canonical":
            rows = sorted(rows, key=lambda r: r[0])
    return made, rows


@given(histories(), st.sampled_from(["canonical", "input"]), st.sampled_from(["float32", "float16"]),
       st.sampled_from(DEVICES), st.integers(0, 100))  # fmt: skip
@settings(max_examples=120, deadline=None, derandomize=True)
def test_equals_an_index_built_at_once(history, order, dtype, device, seed) -> None:
    if order == "input":
        history = ([("z", 0), *history[0]], history[1])  # never sorted by owner
    made, rows = applied(history, order, dtype)
    want = built(rows, order, dtype, "worst")
    assert made.owner.to_pylist() == want.owner.to_pylist()
    rng = np.random.default_rng(seed)
    queries = torch.nn.functional.normalize(torch.from_numpy(rng.normal(size=(20, 5)).astype(np.float32))).to(device)
    queries[0] = torch.from_numpy(POOL[0] / np.linalg.norm(POOL[0]))
    index, other = made.index.to(torch.device(device)), want.index.to(torch.device(device))
    assert isinstance(index, SegmentedIndex)
    size = want.size
    assert (index.size, index.dimension, index.kind, index.hides) == (size, 5, "exact", False)
    exact = other.dense(queries)
    assert torch.equal(index.dense(queries), exact)
    assert bool(((index.approximate(queries) - exact).abs() <= index.error).all())
    masks = torch.from_numpy(rng.random((3, size)) < 0.4).to(device)
    row_of = torch.from_numpy(rng.integers(-1, 3, 20).astype(np.int32)).to(device)
    for b in (1, 20):
        for k in (1, 3, size, size + 5):
            for given_masks in ((), (masks, row_of[:b].contiguous())):
                got, should = (i.search(queries[:b], k, *given_masks) for i in (index, other))
                assert torch.equal(got[0], should[0])
                assert torch.equal(got[1], should[1])
    query = torch.from_numpy(rng.integers(0, 20, 30).astype(np.int32)).to(device)
    if size:
        row = torch.from_numpy(rng.integers(0, size, 30).astype(np.int32)).to(device)
        assert torch.equal(index.pairs(queries, query, row), exact[query.long(), row.long()])
    whole = compacted(made).index
    assert isinstance(whole, ExactIndex)
    assert torch.equal(whole.vectors, want.index.vectors)


def test_enter_writes_what_approximate_gives() -> None:
    made, _ = applied(([(o, i % 12) for i, o in enumerate(OWNERS)], [(OWNERS[3:9], [(OWNERS[20], 0), ("x", 1)])]),
                         "canonical", "float32")  # fmt: skip
    queries = torch.nn.functional.normalize(torch.randn(3, 5, generator=torch.Generator().manual_seed(0)))
    owner = torch.randperm(made.size, generator=torch.Generator().manual_seed(1)).int()
    owner[0] = -1
    out = torch.full((3, made.size + 2), torch.inf)
    out[:, int(owner[5])] = 0.0  # what is nearer stays
    assert made.index.enter(queries, out, owner)
    near = made.index.approximate(queries)
    assert torch.equal(out[:, owner[1:5].long()], near[:, 1:5])
    assert out[:, int(owner[5])].tolist() == [0.0] * 3
    assert bool(torch.isinf(out[:, made.size :]).all())


def test_the_base_is_never_touched_and_few_segments_are_kept() -> None:
    made = built([(o, i % 12) for i, o in enumerate(OWNERS)], "canonical", "float32", "worst")
    base = made.index
    for i in range(16):
        made = changed_rows(made, np.zeros(0, int), added_rows(made, POOL[:1], [f"x{i:02d}"], strip=True)).collection
    assert made.index.segments[0].index is base
    assert [s.size for s in made.index.segments] == [40, 16]
    assert made.index.segments[0].live is base
    made.index.search(torch.eye(5)[:1], 3)
    gone = np.array([0])
    assert changed_rows(made, gone, None).collection.index.segments[0].live.codes is base.codes


def test_small_segments_are_one(monkeypatch) -> None:
    monkeypatch.setattr(segmented, "SMALL", 5)
    made = built([(o, i % 12) for i, o in enumerate(OWNERS)], "canonical", "float32", "worst")
    for i in range(8):
        made = changed_rows(made, np.zeros(0, int), added_rows(made, POOL[:1], [f"x{i}"], strip=True)).collection
    assert [s.size for s in made.index.segments] == [40, 6, 2]


def test_hidden_rows_stay_hidden() -> None:
    with pytest.warns(UserWarning, match="zero vector"):
        made = Collection.build("c", [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]], ["a", "b", "c"], zero_vectors="hide")
    with pytest.warns(UserWarning, match="zero vector"):
        added = added_rows(made, [[0.0, 0.0], [1.0, 1.0]], ["d", "c"], strip=True)
    made = changed_rows(made, np.array([2]), added).collection
    assert made.owner.to_pylist() == ["a", "b", "c", "d"]
    assert made.zero_norm.tolist() == [0, 3]
    assert made.index.hides
    assert made.index.hidden.tolist() == [True, False, False, True]
    row, _ = made.index.search(torch.tensor([[1.0, 0.0]]), 4)
    assert row.tolist() == [[1, 2, -1, -1]]
    for whole in (made.index.dense, made.index.approximate):
        assert torch.isinf(whole(torch.tensor([[1.0, 0.0]]))).tolist() == [[True, False, False, True]]
    left = changed_rows(made, np.array([0, 3]), None).collection
    assert not left.index.hides


@pytest.mark.parametrize("kind", ["hnsw", "ivf"])
def test_approximate_indexes_hide_and_take_on_rows(kind, tmp_path) -> None:
    pytest.importorskip("faiss", reason="FAISS isn't installed")
    rng = np.random.default_rng(5)
    vectors, owners = rng.normal(size=(2000, 16)).astype(np.float32), [f"{i:04d}" for i in range(2000)]
    made = Collection.build("c", vectors, owners, index=kind)
    gone = rng.random(2000) < 0.3
    fresh = rng.normal(size=(50, 16)).astype(np.float32)
    changed = changed_rows(
        made, np.flatnonzero(gone), added_rows(made, fresh, [f"x{i}" for i in range(50)], strip=True)
    ).collection
    kept = [o for o, g in zip(owners, gone, strict=True) if not g]
    want = Collection.build("c", np.concatenate([vectors[~gone], fresh]), [*kept, *(f"x{i}" for i in range(50))])
    assert changed.owner.to_pylist() == want.owner.to_pylist()
    queries = torch.nn.functional.normalize(torch.from_numpy(rng.normal(size=(40, 16)).astype(np.float32)))
    got, should = changed.index.search(queries, 10), want.index.search(queries, 10)
    hits = [len(set(a) & set(b)) for a, b in zip(got[0].tolist(), should[0].tolist(), strict=True)]
    assert sum(hits) >= 0.85 * 400
    assert bool((got[0] >= 0).all())
    exact = want.index.dense(queries)
    assert torch.equal(got[1], exact.gather(1, got[0].long()))
    self_found = changed.index.search(torch.nn.functional.normalize(torch.from_numpy(fresh[:5])), 1)
    assert [changed.owner[int(r)].as_py() for r in self_found[0][:, 0]] == [f"x{i}" for i in range(5)]
    assert compacted(changed).index.kind == kind
    assert torch.equal(compacted(changed).index.inner.vectors, want.index.vectors)
    changed.index.save(tmp_path / "index")
    assert type(made.index).load(kind, tmp_path / "index").size == want.size
