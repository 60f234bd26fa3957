"""Collections: unit rows, owners, zero vectors, half precision, what is refused."""

import numpy as np
import pyarrow as pa
import pytest
import torch

from tercet import Collection
from tercet.errors import InvalidArgument, InvalidData, TercetError
from tests.engine.small import QUERY, at, engine, graph, relations, triplets

UNITS = torch.eye(3)


def found(made, query, k=10):
    """(owner, distance) of the nearest rows."""
    row, distance = made.index.search(torch.as_tensor(query, dtype=torch.float32)[None], k)
    rows = [r for r in row[0].tolist() if r >= 0]
    return list(zip((made.owner[r].as_py() for r in rows), distance[0].tolist(), strict=False))


@pytest.mark.parametrize(
    "make",
    [
        lambda v: v.tolist(), lambda v: v, lambda v: v.astype(np.float64), torch.from_numpy,
        lambda v: torch.from_numpy(v).double(), lambda v: torch.from_numpy(v).requires_grad_(),
        lambda v: (v * 4).astype(np.int64), np.asfortranarray,
        lambda v: pa.array(v.tolist()), lambda v: pa.FixedSizeListArray.from_arrays(pa.array(v.ravel()), 2),
        lambda v: pa.chunked_array([pa.array(v[:1].tolist()), pa.array(v[1:].tolist())]), lambda v: v[::-1][::-1],
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("error")
def test_any_kind_of_vectors(make):
    rows = np.array([[3.0, 4.0], [0.0, 2.0], [1.0, 0.0]], np.float32)
    made = Collection.build("c", make(rows), owner=["x", "y", "z"])
    assert (made.size, made.dimension, made.kind) == (3, 2, "node")
    assert found(made, [1.0, 0.0]) == [("z", 0.0), ("x", pytest.approx(0.4)), ("y", 1.0)]
    lengths = made.index.vectors.double().norm(dim=1)
    assert torch.allclose(lengths, torch.ones(3, dtype=torch.float64), atol=1e-7)


def test_the_callers_rows_are_left_alone():
    rows = torch.tensor([[3.0, 4.0], [0.0, 2.0]])
    Collection.build("c", rows, owner=["y", "x"])
    assert rows.tolist() == [[3.0, 4.0], [0.0, 2.0]]


def test_huge_and_tiny_rows_keep_their_direction():
    made = Collection.build("c", np.array([[3e30, 4e30], [3e-30, 4e-30]], np.float32), owner=["big", "small"])
    assert [d for _, d in found(made, [0.6, 0.8])] == pytest.approx([0.0, 0.0], abs=1e-6)


def test_ties_go_to_the_smaller_owner_in_any_load_order():
    rng = np.random.default_rng(0)
    owners = [f"{i}" for i in range(30)]
    for _ in range(5):
        order = rng.permutation(30)
        made = Collection.build("c", at([0.2] * 30), owner=[owners[i] for i in order])
        assert [o for o, _ in found(made, QUERY, 7)] == sorted(owners)[:7]
    kept = Collection.build("c", at([0.2] * 3), owner=["c", "a", "b"], order="input")
    assert [o for o, _ in found(kept, QUERY)] == ["c", "a", "b"]


def test_relation_owners_are_folded_as_edge_texts_are():
    made = relations({"Works At": 0.1, " it's ": 0.2, "x": 0.3})
    assert sorted(made.owner.to_pylist()) == ["its", "works_at", "x"]
    result = engine(graph([("a", "works at", "b")]), made).recall(vectors=QUERY, projection="full")[0]
    assert result.distances[0, 2] == pytest.approx(0.1)
    same = Collection.build("c", at([0.1]), owner=["Works At"], kind="relation", fold_owner=False)
    assert same.owner.to_pylist() == ["Works At"]


def test_relation_texts_own_themselves():
    encoder = lambda texts: [[float(len(t)), 1.0] for t in texts]  # noqa: E731
    made = Collection.build("c", texts=["Knows Of", "is"], kind="relation", encoder=encoder)
    assert sorted(made.owner.to_pylist()) == ["is", "knows_of"]
    told = []
    named = Collection.build("c", texts=["t"] * 1100, owner=range(1100), encoder=encoder, progress=told.append)
    assert named.size == told[-1] == 1100
    assert told == sorted(told)


def test_zero_vectors():
    for zero, want in (("worst", [("a", 0.1), ("z", 1.0)]), ("hide", [("a", 0.1)])):
        with pytest.warns(UserWarning, match=r"'c'.*1 zero vector, first in row 0"):
            made = Collection.build("c", [[0.0, 0.0], *at([0.1])], owner=["z", "a"], zero_vectors=zero)
        assert found(made, QUERY) == [(o, pytest.approx(d)) for o, d in want]
        assert [made.owner[int(i)].as_py() for i in made.zero_norm] == ["z"]
        for wide in (100, None):
            made_engine = engine(graph([("a", "r", "z")]), made)
            result = made_engine.recall(vectors=QUERY, wide_search_top_k=wide, projection="full")[0]
            assert result.distances[0, 1] == (1.0 if zero == "worst" else np.inf)


def test_half_precision_is_exact_for_what_is_stored():
    rows = np.random.default_rng(1).normal(size=(200, 48)).astype(np.float32)
    made = Collection.build("c", rows, owner=range(200), dtype="float16")
    assert made.index.vectors.dtype == torch.float16
    stored = made.index.vectors.double()
    query = torch.nn.functional.normalize(torch.randn(1, 48, generator=torch.Generator().manual_seed(1)))
    want = 1 - (query.double() @ (stored / stored.norm(dim=1, keepdim=True)).T)[0]
    row, distance = made.index.search(query, 200)
    assert torch.allclose(distance[0].double(), want[row[0].long()], atol=1e-7)
    assert torch.equal(made.index.dense(query)[0][row[0].long()], distance[0])


@pytest.mark.parametrize("width", [1, 2, 15, 16, 17, 31, 33, 384])
def test_search_finds_the_true_nearest(width, device):
    rng = np.random.default_rng(width)
    rows = rng.normal(size=(700, width)).astype(np.float32)
    rows[rng.integers(0, 700, 200)] = rows[0]
    made = Collection.build("c", rows, owner=np.arange(700), order="input")
    index = made.index.to(torch.device(device))
    queries = torch.nn.functional.normalize(torch.from_numpy(rng.normal(size=(9, width)).astype(np.float32))).to(device)
    exact = index.dense(queries)
    for k in (1, 5, 100, 699, 700, 900):
        row, distance = index.search(queries, k)
        want = exact.sort(dim=1, stable=True)
        assert torch.equal(row.long(), want.indices[:, :k])
        assert torch.equal(distance, want.values[:, :k])
    assert (index.approximate(queries) - exact).abs().max() <= index.error


def test_search_within_a_mask(device):
    rng = np.random.default_rng(3)
    index = Collection.build("c", rng.normal(size=(500, 8)), owner=np.arange(500), order="input").index
    index = index.to(torch.device(device))
    queries = torch.nn.functional.normalize(torch.from_numpy(rng.normal(size=(5, 8)).astype(np.float32))).to(device)
    masks = torch.from_numpy(np.stack([rng.random(500) < 0.05, np.zeros(500, bool), np.arange(500) == 77])).to(device)
    row_of = torch.tensor([0, 1, 2, -1, 0], dtype=torch.int32, device=device)
    row, distance = index.search(queries, 40, masks, row_of)
    exact = index.dense(queries)
    for q, mask in enumerate(row_of.tolist()):
        values = exact[q] if mask < 0 else exact[q].masked_fill(~masks[mask], torch.inf)
        want = values.sort(stable=True)
        open_ = torch.isfinite(want.values[:40])
        assert torch.equal(distance[q], want.values[:40])
        assert torch.equal(row[q].long(), torch.where(open_, want.indices[:40], -1))


@pytest.mark.parametrize(
    "options",
    [
        {"vectors": UNITS, "owner": ["a", "b"]},
        {"vectors": UNITS[0], "owner": ["a", "b", "c"]},
        {"vectors": UNITS, "owner": ["a", None, "c"]},
        {"vectors": UNITS, "owner": ["a", 1.5, "c"]},
        {"vectors": UNITS},
        {"owner": ["a"]},
        {"texts": ["a"], "owner": ["a"]},
        {"texts": ["a", None], "owner": ["a", "b"], "encoder": lambda texts: [[1.0]] * len(texts)},
        {"vectors": [[1.0], [1.0, 2.0]], "owner": ["a", "b"]},
        {"vectors": pa.array([[1.0], [1.0, 2.0]]), "owner": ["a", "b"]},
        {"vectors": pa.array([[1.0], None]), "owner": ["a", "b"]},
        {"vectors": [["x"]], "owner": ["a"]},
        {"vectors": UNITS, "owner": ["a", "b", "c"], "kind": "edge"},
        {"vectors": UNITS, "owner": ["a", "b", "c"], "order": "input", "belongs_to_set": [["s"]]},
        {"vectors": UNITS, "owner": ["a", "b", "c"], "dtype": "float64"},
        {"vectors": UNITS, "owner": ["c", "b", "a"], "belongs_to_set": [["s"], [], []]},
        {"vectors": UNITS, "owner": ["a", "b", "c"], "order": "sorted"},
        {"vectors": UNITS, "owner": ["a", "b", "c"], "zero_vectors": "drop"},
    ],
)
def test_wrong_calls(options):
    with pytest.raises((InvalidArgument, InvalidData), match="'c'"):
        Collection.build("c", **options)


def test_unknown_index():
    with pytest.raises(InvalidArgument, match="'fastest'"):
        Collection.build("c", UNITS, owner=["a", "b", "c"], index="fastest")


def test_vectors_on_any_device(device):
    made = Collection.build("c", UNITS.to(device), owner=["c", "b", "a"])
    assert [owner for owner, _ in found(made, [1.0, 0.0, 0.0], 1)] == ["c"]


def test_owners_must_be_in_the_graph():
    made = Collection.build("c", UNITS[:, :2] + 1, owner=["a", "ghost", "b"])
    with pytest.raises(InvalidData, match=r"'c'.*1 of 3 owners.*'ghost'"):
        engine(graph([("a", "r", "b")]), made)
    with pytest.raises(TercetError, match="names must differ"):
        engine(graph([("a", "r", "b")]), *[Collection.build("c", [[1.0, 0.0]], owner=["a"])] * 2)


def test_a_relation_that_no_edge_has_is_never_matched():
    made = relations({"unknown": 0.0, "r": 0.4})
    for wide, distance in ((1, np.inf), (2, 0.4), (None, 0.4)):
        found_engine = engine(graph([("a", "r", "b")]), made, Collection.build("n", at([0.1]), owner=["a"]))
        result = found_engine.recall(vectors=QUERY, projection="full", wide_search_top_k=wide)[0]
        assert triplets(result) == [("a", "r", "b")]
        assert result.distances[0, 2] == pytest.approx(distance)


def test_set_rows():
    made = Collection.build(
        "c", UNITS, owner=["b", "a", "c"], order="input", belongs_to_set=[["s", "s"], ["s", "t"], []]
    )
    assert made.set_rows(["s"], "OR").tolist() == [True, True, False]
    assert made.set_rows(["s", "t"], "AND").tolist() == [False, True, False]
