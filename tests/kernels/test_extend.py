import pytest
import torch

from tercet_kernels.extend import extend, reference
from tests.kernels.cases import assert_same, group

ORDERS = ["edge", "rank", "node", "distance"]
NAMES = ("direction", "order", "rank", "near", "relation", "walkable", "allowed", "allowed_row", "limit")


def forms(case: dict, order: str, **options) -> list:
    given = {**case, "order": order, **options}
    given["rank"] = given["rank"] if order == "rank" else None
    given["near"] = given["near"] if order == "distance" else None
    plain = [given.pop(n) for n in ("topology", "indptr", "node", "hop", "begin", "level")]
    return [extend(*plain, **given), reference.extend(*plain, *({"direction": "both", **given}.get(n) for n in NAMES))]


@pytest.mark.parametrize("size", [0, 1, 63, 64, 65, 1000])
@pytest.mark.parametrize("order", ORDERS)
def test_equals_the_composition(device: str, size: int, order: str) -> None:
    case = reference.example(5, max(size, 1), 3 * size, max(size // 20, 1), size, device)
    limit = torch.tensor([0, 1, 3, 10**6, -1], device=device)
    for direction in ("both", "out", "in"):
        for most in (None, limit):
            got, want = forms(case, order, direction=direction, limit=most)
            assert_same(got, want)
            assert (got.taken <= got.available).all()


def test_nearer_nodes_come_first_and_those_without_a_vector_last(device: str) -> None:
    case = reference.example(3, 30, 200, 2, 7, device)
    got, _ = forms(case, "distance", allowed=None, allowed_row=None)
    near = case["near"]
    for q, nodes in enumerate(group(got.indptr, got.node)):
        fresh = nodes[int(got.indptr[q + 1] - got.indptr[q] - got.taken[q]) :]
        far = [float(1 - near.queries[q] @ near.vectors[near.row[v]]) if near.row[v] >= 0 else 9.0 for v in fresh]
        assert far == pytest.approx(sorted(far), abs=1e-6)
        assert len(fresh) > 3


def test_a_cut_query_has_no_frontier_left(device: str) -> None:
    case = reference.example(4, 40, 200, 4, 1, device)
    got, _ = forms(case, "node", limit=torch.tensor([1, 1000, 0, 2], device=device))
    ends, begin = got.indptr[1:].tolist(), got.begin.tolist()
    for q in range(4):
        cut = int(got.available[q]) > int(got.taken[q])
        assert begin[q] == (ends[q] if cut else ends[q] - int(got.taken[q]))


def test_does_not_depend_on_threads_or_on_groups(monkeypatch) -> None:
    case = reference.example(9, 60, 200, 8, seed=5)
    want = forms(case, "distance")[1]
    for count in (1, 2, 4):
        monkeypatch.setattr("tercet_kernels.extend.threads", lambda items, steps, count=count: count)
        assert_same(forms(case, "distance")[0], want)
    monkeypatch.setattr("tercet_kernels.extend.ROOM", 1)
    assert_same(forms(case, "distance")[0], want)


@pytest.mark.parametrize(
    ("name", "change"),
    [("hop", lambda x: x[1:]), ("begin", lambda x: x[1:]), ("order", lambda x: "best"), ("direction", lambda x: "up"),
     ("near", lambda x: x._replace(row=x.row.long())), ("near", lambda x: x._replace(queries=x.queries[1:]))],
)  # fmt: skip
def test_refuses_other_shapes_and_options(device: str, name: str, change) -> None:
    case = {**reference.example(device=device), "order": "distance", "direction": "both", "rank": None}
    with pytest.raises(ValueError, match=rf"^{name}[.\w]*: expected"):
        extend(**case | {name: change(case[name])})
