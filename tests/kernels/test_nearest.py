"""`nearest`: the integer first pass never changes an answer."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit

from tercet_kernels import _simd
from tercet_kernels import nearest as op
from tercet_kernels.cosine import reference as cosine
from tercet_kernels.nearest import Codes, bounds, dense, dense_error, encode, nearest, reference, rounding


@pytest.fixture(params=["bytes", "sampled", "words"])
def form(request, monkeypatch):
    """How codes are multiplied: as bytes, whatever the processor, with and without a sample first; or as int16."""
    monkeypatch.setattr(op, "BYTES", request.param != "words")
    monkeypatch.setattr(op, "LEAST", 32 if request.param == "sampled" else 1 << 60)
    return request.param


def same(got, wanted):
    torch.testing.assert_close(got[0], wanted[0], rtol=0, atol=0)
    torch.testing.assert_close(got[1], wanted[1], rtol=0, atol=0)


def expected(example, k, **more):
    options = {"hidden": None, "allowed": None, "allowed_row": None, **more}
    return reference.nearest(example["vectors"], options.pop("scale", None), example["queries"], k, **options)


@pytest.mark.parametrize("rows", [1, 2, 5, 239, 240, 241, 1000])
@pytest.mark.parametrize("queries", [1, 2, 3, 8, 9, 33])
def test_equals_the_reference_at_every_size(rows, queries):
    example = reference.example(queries, rows, 48, seed=rows + queries)
    for k in (1, 7, rows, rows + 3):
        same(nearest(**example, k=k), expected(example, k))


@pytest.mark.parametrize("rows", [1, 2, 5, 11, 12, 13, 239, 240, 241, 1000])
@pytest.mark.parametrize("queries", [1, 2, 3, 8, 9, 16, 17, 33, 65])
def test_codes_equal_the_reference_at_every_size(rows, queries, form):
    example = reference.example(queries, rows, 48, seed=rows + queries)
    codes = encode(example["vectors"])
    for k in (1, 7, rows, rows + 3):
        same(nearest(**example, k=k, codes=codes), expected(example, k))


def test_what_a_sample_foresees_wrongly_is_found(form, monkeypatch):
    """Each 16th row is near, so the sample has them all; and only the last rows are near, so it has next to none."""
    example = reference.example(40, 4000, 48, seed=1)
    calls = []
    group = op._group
    monkeypatch.setattr(op, "_group", lambda *a, **more: calls.append(more["sample"]) or group(*a, **more))
    for near in (np.arange(0, 4000, 16), np.arange(3750, 4000)):
        vectors = example["vectors"].clone()
        vectors[near] = torch.nn.functional.normalize(example["queries"][:1] + 0.3 * vectors[near], dim=1)
        queries = torch.nn.functional.normalize(example["queries"][:1] + 0.3 * example["queries"], dim=1)
        one = {"vectors": vectors, "queries": queries}
        calls.clear()
        same(nearest(**one, k=100, codes=encode(vectors)), expected(one, 100))
        if form != "sampled":
            assert calls == [True]
        elif near[0] == 0:
            assert calls[:2] == [True, False]  # and those that failed were searched once more


def test_bytes_are_multiplied_without_the_instruction(monkeypatch):
    rng = np.random.default_rng(0)
    rows, queries = rng.integers(-127, 128, (3, 64)).astype(np.int8), rng.integers(0, 256, (_simd.LANES, 64))
    packed = queries.reshape(-1, 16, 4).transpose(1, 0, 2).astype(np.uint8).copy()
    begin = (-128 * rows.sum(axis=1, dtype=np.int64)).astype(np.int32)
    ones, zeros = np.ones(_simd.LANES, np.float32), np.zeros(_simd.LANES, np.float32)
    bounds = np.full(_simd.LANES, 5.0, np.float32)
    wanted = rows.astype(np.int64) @ (queries - 128).T
    for instruction in {_simd.BYTES, ""}:
        monkeypatch.setattr(_simd, "BYTES", instruction)
        tile, out, hits = _simd.byte_tile(3, 1), np.empty((3, _simd.LANES), np.int32), np.zeros(3, np.int64)

        @njit
        def run(addresses, tile=tile):
            rows, queries, begin, ones, zeros, bounds, out, hits = addresses
            return tile(rows, 64, queries, 16, begin, ones, ones, ones, zeros, zeros, bounds, out, hits)

        some = run(tuple(x.ctypes.data for x in (rows, packed, begin, ones, zeros, bounds, out, hits)))
        np.testing.assert_array_equal(out, wanted)
        assert some == np.bitwise_or.reduce(hits)
        assert [[hit >> lane & 1 for lane in range(_simd.LANES)] for hit in hits.tolist()] == (wanted >= 5).tolist()


@pytest.mark.parametrize("dimension", [1, 2, 15, 16, 17, 63, 65, 384, 1025])
def test_any_width(dimension):
    example = reference.example(19, 300, dimension, seed=dimension)
    for codes in (None, encode(example["vectors"])):
        same(nearest(**example, k=12, codes=codes), expected(example, 12))


@pytest.mark.parametrize("dimension", [1, 2, 63, 65, 384, 1025])
def test_codes_of_any_width(dimension, form):
    example = reference.example(19, 300, dimension, seed=dimension)
    same(nearest(**example, k=12, codes=encode(example["vectors"])), expected(example, 12))


@pytest.mark.parametrize("coded", [False, True])
def test_equal_rows_come_by_row_and_overrun_the_buffers(coded, form):
    vectors = torch.nn.functional.normalize(torch.ones(3000, 24), dim=1)
    vectors[7] = -vectors[7]
    example = {"vectors": vectors, "queries": vectors[:3].clone()}
    got = nearest(**example, k=4, codes=encode(vectors) if coded else None)
    assert got[0].tolist() == [[0, 1, 2, 3]] * 3  # the buffer holds 536 rows, all 2,999 are within the bounds
    same(got, expected(example, 4))


@pytest.mark.parametrize("coded", [False, True])
def test_hidden_and_filtered_rows(coded, form):
    example = reference.example(6, 500, 40, seed=4)
    g = torch.Generator().manual_seed(1)
    hidden = torch.rand(500, generator=g) < 0.4
    allowed = torch.rand(3, 500, generator=g) < 0.3
    allowed[2] = False
    allowed[2, 499] = True
    row = torch.tensor([0, -1, 1, 2, -1, 0], dtype=torch.int32)
    options = {"hidden": hidden, "allowed": allowed, "allowed_row": row}
    codes = encode(example["vectors"]) if coded else None
    got = nearest(**example, k=20, codes=codes, **options)
    same(got, expected(example, 20, **options))
    assert (got[0][3, 1:] == -1).all()  # the third filter admits one row at most


def test_half_precision_rows_are_searched_by_their_codes(form):
    example = reference.example(5, 400, 40, seed=2)
    half = (example["vectors"] * 3).half()
    scale = 1.0 / cosine.norms(half)
    given_ = {"vectors": half, "queries": example["queries"]}
    for queries in (1, 5):
        part = {**given_, "queries": example["queries"][:queries]}
        same(nearest(**part, k=9, scale=scale, codes=encode(half, scale)), expected(part, 9, scale=scale))
    with pytest.raises(ValueError, match="codes"):
        nearest(**given_, k=9, scale=scale)


def test_zero_rows_and_zero_queries(form):
    vectors = torch.eye(40)[:30].clone()
    vectors[3] = 0.0
    queries = torch.stack([torch.zeros(40), vectors[5]])
    example = {"vectors": vectors, "queries": queries}
    for codes in (None, encode(vectors)):
        got = nearest(**example, k=30, codes=codes)
        same(got, expected(example, 30))
        assert got[0][0].tolist() == list(range(30))  # all at distance 1


def test_largest_products_fit(form):
    """A unit vector along an axis and one spread evenly have the largest codes: their products stay within int32."""
    for width in (2, 384, 4096):
        even = torch.nn.functional.normalize(torch.ones(1, width), dim=1)
        rows = torch.cat([even, torch.eye(width)[:1], -even, even])
        example = {"vectors": rows, "queries": rows.clone()}
        for codes in (None, encode(rows)):
            same(nearest(**example, k=3, codes=codes), expected(example, 3))


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 20), st.integers(1, 60), st.integers(1, 30), st.booleans())
def test_near_ties(seed, queries, rows, k, coded):
    """Rows that differ in the last bits only: rounding to integers can't tell them apart, the bounds must."""
    g = torch.Generator().manual_seed(seed)
    base = torch.nn.functional.normalize(torch.randn(1, 32, generator=g), dim=1)
    vectors = torch.nn.functional.normalize(base + 1e-6 * torch.randn(rows, 32, generator=g), dim=1)
    other = torch.nn.functional.normalize(base + 1e-3 * torch.randn(queries, 32, generator=g), dim=1)
    example = {"vectors": vectors, "queries": other}
    same(nearest(**example, k=k, codes=encode(vectors) if coded else None), expected(example, k))


def test_codes_bound_their_error():
    vectors = reference.example(1, 200, 50, seed=3)["vectors"]
    codes = encode(vectors)
    assert isinstance(codes, Codes)
    rest = vectors.double() - codes.code[:, :50].double() * codes.step.double()[:, None]
    assert (rest.norm(dim=1) <= codes.error.double()).all()
    assert (codes.code[:, 50:] == 0).all()
    assert torch.equal(codes.first, -128 * codes.code.sum(dim=1, dtype=torch.int32))
    assert codes.longest >= float((codes.code.double().norm(dim=1)).max())


def test_threads_and_groups_dont_change_answers(monkeypatch):
    example = reference.example(40, 900, 48, seed=9)
    wanted = expected(example, 15)
    monkeypatch.setattr(op, "BUFFER_BYTES", 1 << 10)  # groups of as many queries as a vector has lanes
    for parts in (1, 2, 5):
        monkeypatch.setattr(op, "threads", lambda items, *_, parts=parts: min(parts, items))
        same(nearest(**example, k=15), wanted)
        for form in (False, True):
            monkeypatch.setattr(op, "BYTES", form)
            same(nearest(**example, k=15, codes=encode(example["vectors"])), wanted)


def test_select_finds_the_kth_largest():
    rng = np.random.default_rng(0)
    for size in (1, 2, 3, 10, 257):
        values = rng.integers(0, 9, size).astype(np.float32)
        for k in range(1, size + 1):
            work = values.copy()
            assert bounds.select(work, size, k) == np.sort(values)[size - k]
            assert (work[: k - 1] >= work[k - 1]).all()


def test_wrong_arguments_are_named():
    example = reference.example(2, 10, 8)
    with pytest.raises(ValueError, match="queries"):
        nearest(example["vectors"], example["queries"][:, :5].contiguous(), 3)
    with pytest.raises(ValueError, match="k"):
        nearest(**example, k=0)


@pytest.mark.parametrize("rows", [1, 239, 241, 600])
@pytest.mark.parametrize("queries", [1, 8, 9, 17, 40])
def test_dense_distances_are_within_their_error(rows, queries):
    for dimension in (3, 48, 384):
        example = reference.example(queries, rows, dimension, seed=rows)
        got = dense(**example)
        exact = 1.0 - example["queries"].double() @ example["vectors"].double().T
        assert got.shape == (queries, rows)
        assert float((got.double() - exact).abs().max()) <= dense_error(dimension)


def test_dense_distances_by_owner():
    example = reference.example(5, 300, 20, seed=1)
    owner = torch.randperm(400, generator=torch.Generator().manual_seed(2))[:300].int()
    owner[7], owner[9] = -1, 400
    before = torch.full((5, 400), 0.5)
    before[:, :50] = torch.inf
    got = dense(**example, out=before.clone(), owner=owner)
    plain = dense(**example)
    wanted = before.clone()
    for row in range(300):
        if 0 <= owner[row] < 400:
            wanted[:, owner[row]] = torch.minimum(wanted[:, owner[row]], plain[:, row])
    assert torch.equal(got, wanted)


@pytest.mark.parametrize("dimension", [1, 2, 24, 384, 4096])
@pytest.mark.parametrize("spike", [0.0, 0.5, 0.99, 0.999999])
def test_the_error_of_dense_distances_covers_what_rounding_can_do(dimension, spike):
    """A query along an axis has the largest step, so its other elements lose most."""
    rest = torch.nn.functional.normalize(torch.rand(1, dimension, generator=torch.Generator().manual_seed(1)), dim=1)
    query = rest * (1 - spike**2) ** 0.5
    query[0, 0] = max(spike, float(query[0, 0]))
    query = torch.nn.functional.normalize(query, dim=1)
    ints = np.empty(query.shape, np.int16)
    unit, left, norm = rounding.round_queries(query.numpy(), rounding.ONE, ints)
    row = op._row_error(dimension)
    assert 0.5 * dimension**0.5 * unit >= left / 1.000001
    assert row * norm + 0.5 * dimension**0.5 * unit * (1 + row) <= dense_error(dimension)
