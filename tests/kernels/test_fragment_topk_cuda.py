"""`fragment_topk` for fixed shapes: without a host sync, and as a CUDA graph."""

from collections.abc import Callable
from types import ModuleType

import pytest
import torch

from tercet_kernels._types import NodeHits, RelationHits, Top
from tercet_kernels.fragment.reference import fragment as plain_fragment
from tercet_kernels.triplet_topk import reference as triplets
from tests.kernels.cases import assert_same
from tests.kernels.test_triplet_topk import rough

Form = Callable[[str], ModuleType]
BOTH_AND_EITHER = pytest.mark.parametrize("either", [False, True])


@pytest.fixture
def form(triton_form: Form, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    fragments = triton_form("fragment")
    if not torch.cuda.is_available():
        monkeypatch.setattr(fragments, "BLOCK", dict.fromkeys(fragments.BLOCK, (8, 16)))  # fewer steps to interpret
    return triton_form("fragment_topk")


def problem(device: str, either: bool, queries: int = 3) -> tuple[dict, Top, int]:
    """Arguments, the result, and the size of the fragments."""
    case = rough(triplets.example(queries, nodes=12, edges=60, hits=5, device=device))
    found = plain_fragment(case["topology"], case["hits"], either)
    want = triplets.triplet_topk(**case | {"fragment": found}, k=7)
    del case["fragment"]
    return case, want, found.edge.shape[0]


def lengthened(case: dict) -> dict:
    """Columns with places behind the last slice, full of what must not be read as a hit."""
    hits, relations = case["hits"], case["relations"]
    more = lambda column, value: torch.cat([column, column.new_full((6,), value)])  # noqa: E731
    return case | {
        "hits": NodeHits(hits.indptr, more(hits.node, 0), more(hits.term, torch.nan)),
        "relations": RelationHits(relations.indptr, more(relations.key, 0), more(relations.distance, torch.nan)),
    }


@BOTH_AND_EITHER
@pytest.mark.parametrize("queries", [1, 3])
def test_padding_does_not_show(triton_device: str, form: ModuleType, either: bool, queries: int) -> None:
    case, want, size = problem(triton_device, either, queries)
    for room in (size, size + 9):
        top, total = form.padded(**lengthened(case), k=7, either=either, room=room)
        assert_same(top, want)
        assert int(total) == size


@BOTH_AND_EITHER
def test_too_little_room_is_told_and_nothing_is_written_beyond(
    triton_device: str, form: ModuleType, monkeypatch, either: bool
) -> None:
    case, _, size = problem(triton_device, either)
    rooms: list[torch.Tensor] = []
    full = torch.full

    def with_guard(shape: tuple[int, ...], value: float, **options) -> torch.Tensor:
        rooms.append(full((shape[0] + 64,), value, **options))
        return rooms[-1][: shape[0]]

    monkeypatch.setattr(form.torch, "full", with_guard)
    _, total = form.padded(**case, k=7, either=either, room=size - 2)
    assert int(total) == size
    assert len(rooms) == 3
    for column in rooms:
        assert (column[size - 2 :] == column[-1]).all()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@BOTH_AND_EITHER
def test_a_captured_pipeline_serves_batch_after_batch(triton_form: Form, either: bool) -> None:
    form = triton_form("fragment_topk")
    case, want, size = problem("cuda", either)
    shape = form.Shape(3, case["hits"].node.shape[0] + 4, case["relations"].key.shape[0] + 4, size)
    captured = form.Captured(case["topology"], case["rule"], 7, shape, either=either)
    inputs = case["hits"], case["missing"], case["relations"]
    for _ in range(2):
        assert_same(captured(*inputs), want)
        nothing = NodeHits(inputs[0].indptr * 0, *(x[:0] for x in inputs[0][1:]))
        assert (captured(nothing, *inputs[1:]).edge == -1).all()
    assert captured(inputs[0]._replace(indptr=inputs[0].indptr[1:]), *inputs[1:]) is None
    tight = form.Captured(case["topology"], case["rule"], 7, shape._replace(edges=size - 1), either=either)
    assert tight(*inputs) is None
