import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tercet_kernels.rank_fusion import rank_fusion, reference
from tests.kernels.cases import assert_same, group, offsets_of

lists = st.lists(st.lists(st.integers(0, 9), max_size=6), min_size=3, max_size=3)


@given(first=lists, second=lists, weights=st.tuples(st.sampled_from([0.0, 0.5, 1.0, 3.0]), st.sampled_from([1.0, 2.0])),
       rrf_k=st.sampled_from([0.0, 1.0, 60.0]), limit=st.integers(0, 12))  # fmt: skip
@settings(max_examples=60, deadline=None, derandomize=True)
def test_equals_sums_in_a_dictionary(first, second, weights, rrf_k, limit) -> None:
    halves = [first, second]
    got = rank_fusion(
        [offsets_of(h) for h in halves], [torch.tensor([v for x in h for v in x], dtype=torch.int32) for h in halves],
        weights, rrf_k, torch.full((3,), limit),
    )  # fmt: skip
    for q in range(3):
        score: dict[int, float] = {}
        for half, weight in zip(halves, weights, strict=True):
            for v in dict.fromkeys(half[q]):
                if weight > 0:
                    score[v] = score.get(v, 0.0) + weight / (rrf_k + half[q].index(v) + 1)
        want = sorted(score, key=lambda v: (-score[v], v))
        assert group(got.indptr, got.node)[q] == want[:limit]
        assert group(got.indptr, got.score)[q] == [score[v] for v in want[:limit]]
        assert int(got.available[q]) == len(want)
        for v, ranks in zip(want, group(got.indptr, got.ranks)[q], strict=False):
            assert ranks == [h[q].index(v) + 1 if v in h[q] else 0 for h in halves]


@pytest.mark.parametrize("size", [0, 1, 63, 64, 65, 1000])
def test_equals_the_reference(device: str, size: int) -> None:
    case = reference.example(5, size, max(size, 1), seed=size, device=device)
    assert_same(rank_fusion(**case), reference.rank_fusion(**case))


def test_does_not_depend_on_the_number_of_threads(monkeypatch) -> None:
    case = reference.example(9, 30, 40)
    want = reference.rank_fusion(**case)
    for count in (1, 2, 5):
        monkeypatch.setattr("tercet_kernels.rank_fusion.threads", lambda items, steps, count=count: count)
        assert_same(rank_fusion(**case), want)


@pytest.mark.parametrize(
    ("name", "change"),
    [("limit", lambda x: x.int()), ("nodes", lambda x: [x[0].long(), x[1]]), ("nodes", lambda x: x[:1]),
     ("indptrs", lambda x: [x[0][1:], x[1]])],
)  # fmt: skip
def test_refuses_other_shapes_and_dtypes(device: str, name: str, change) -> None:
    case = reference.example(device=device)
    with pytest.raises(ValueError, match=f"^{name}.*expected"):
        rank_fusion(**case | {name: change(case[name])})
