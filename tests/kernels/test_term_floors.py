"""`term_floors`: no byte says more than the exact term, and none much less."""

import pytest
import torch

from tercet_kernels.nearest import encode
from tercet_kernels.term_floors import LARGEST, pack_bytes, padded, term_floors


def unit(rows, width, seed):
    return torch.nn.functional.normalize(torch.randn(rows, width, generator=torch.Generator().manual_seed(seed)), dim=1)


def exact(vectors, queries, weight):
    return (1.0 - queries.double() @ vectors.double().T) * weight


@pytest.mark.parametrize("width", [1, 63, 64, 100, 384])
@pytest.mark.parametrize("queries", [1, 2, 3, 16, 17, 33, 70])
@pytest.mark.parametrize("rows", [1, 11, 12, 191, 193, 450])
def test_bounds(width, queries, rows):
    vectors, asked = unit(rows, width, 1), unit(queries, width, 2)
    if rows > 11:
        vectors[3] = 0.0
        vectors[5] = asked[0]
        vectors[7] = -asked[0]
    out = torch.full((queries, padded(rows)), 77, dtype=torch.uint8)
    weight = torch.tensor([100.0])
    term_floors(encode(vectors), pack_bytes(asked), weight, out)
    wanted = exact(vectors, asked, 100.0).clamp(0.0, 200.0)
    got = out[:, :rows].double()
    assert bool((got <= wanted + 1e-4).all())
    assert bool((got >= wanted - 5.0).all())  # 2 roundings to 127 levels, and one to whole steps
    assert bool((out[:, rows:] == 77).all())


def test_far_terms_are_the_largest_byte():
    vectors, asked = unit(200, 64, 3), unit(20, 64, 4)
    out = torch.zeros(20, padded(200), dtype=torch.uint8)
    term_floors(encode(vectors), pack_bytes(asked), torch.tensor([1e6]), out)
    assert bool((out[:, :200] == LARGEST).all())
    term_floors(encode(vectors), pack_bytes(asked), torch.tensor([0.0]), out)
    assert bool((out[:, :200] == 0).all())


@pytest.mark.parametrize("queries", [1, 20])
@pytest.mark.parametrize("alike", [True, False])
def test_columns_and_weights(queries, alike):
    rows, columns = 300, 500
    vectors, asked = unit(rows, 32, 5), unit(queries, 32, 6)
    g = torch.Generator().manual_seed(7)
    weight = torch.full((1,), 90.0) if alike else 100.0 * torch.rand(padded(columns), generator=g)
    column = torch.randperm(columns, generator=g)[:rows].int()
    column[::7] = -1
    codes, packed = encode(vectors), pack_bytes(asked)
    whole = torch.zeros(queries, padded(columns), dtype=torch.uint8)
    term_floors(codes, packed, weight, whole, column)
    has = column >= 0
    own = weight if alike else weight[column[has].long()]
    wanted = exact(vectors, asked, 1.0)[:, has] * own
    got = whole[:, column[has].long()].double()
    assert bool((got <= wanted + 1e-4).all())
    assert bool((got >= wanted - 5.0).all())
    rest = torch.ones(whole.shape[1], dtype=torch.bool)
    rest[column[has].long()] = False
    assert bool((whole[:, rest] == 0).all())
    moved = torch.zeros_like(whole)
    term_floors(codes, packed, weight, moved, 123)
    same = torch.zeros_like(whole)
    term_floors(codes, packed, weight, same, torch.arange(123, 123 + rows, dtype=torch.int32))
    assert torch.equal(moved, same)


def test_wrong_arguments():
    vectors, asked = unit(10, 8, 1), unit(2, 8, 2)
    out = torch.zeros(2, 64, dtype=torch.uint8)
    codes, packed, weight = encode(vectors), pack_bytes(asked), torch.ones(1)
    with pytest.raises(ValueError, match="weight"):
        term_floors(codes, packed, torch.ones(3), out)
    with pytest.raises(ValueError, match="column"):
        term_floors(codes, packed, weight, out, 60)
    with pytest.raises(ValueError, match="column"):
        term_floors(codes, packed, weight, out, torch.zeros(9, dtype=torch.int32))
    with pytest.raises(ValueError, match="out"):
        term_floors(codes, packed, weight, out[:1])
