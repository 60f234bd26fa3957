"""The search that CUDA runs, on any device: its ways differ in speed only."""

import pytest
import torch

from tercet.index import cuda_search
from tercet.index.cuda_search import Choice, Way, propose, split_error
from tercet_kernels.cosine.reference import norms

WAYS = [Way(product, cut) for product in ("float32", "split") for cut in ("all", "blocks")]


@pytest.fixture(params=["cpu", *(["cuda"] if torch.cuda.is_available() else [])])
def device(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(autouse=True)
def untried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_search, "choices", {})
    monkeypatch.setattr(cuda_search, "BLOCK", 8)
    monkeypatch.setattr(cuda_search, "TILE_BYTES", 1)  # tiles of 256 rows


def rows_and_queries(device: str, half: bool) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
    g = torch.Generator().manual_seed(0)
    vectors = torch.nn.functional.normalize(torch.randn(1003, 48, generator=g), dim=1)
    queries = torch.nn.functional.normalize(torch.randn(5, 48, generator=g), dim=1)
    if not half:
        return vectors.to(device), queries.to(device), None
    vectors = (vectors * torch.rand(1003, 1, generator=g).add(0.5)).half()
    return vectors.to(device), queries.to(device), (1 / norms(vectors)).to(device)


def exact(vectors: torch.Tensor, queries: torch.Tensor, scale: torch.Tensor | None) -> torch.Tensor:
    rows = vectors.double()
    return 1.0 - queries.double() @ (rows if scale is None else rows * scale[:, None]).T


def force(monkeypatch: pytest.MonkeyPatch, way: Way) -> None:
    monkeypatch.setattr(cuda_search, "_choose", lambda *args: way)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("take", [1, 9, 300, 1003])
def test_proposals_are_the_nearest_within_the_error(device, monkeypatch, way: Way, half: bool, take: int) -> None:
    if way.product == "split" and not half:
        pytest.skip("only float16 rows are multiplied in parts")
    force(monkeypatch, way)
    vectors, queries, scale = rows_and_queries(device, half)
    rows, distance = propose(vectors, queries, take, scale)
    true = exact(vectors, queries, scale)
    assert rows.dtype == torch.int32
    assert all(len(set(row)) == take for row in rows.tolist())
    assert (distance.diff(dim=1) >= 0).all()
    bound = split_error(48) if way.product == "split" else 1.05 * (48 + 4) * 2.0**-24
    assert (distance - true.gather(1, rows.long())).abs().max() <= bound
    limit = true.kthvalue(take, dim=1).values[:, None]
    assert (true.gather(1, rows.long()) <= limit + 2 * bound).all()


def test_the_bound_is_sharp_enough_to_need_both_halves(device, monkeypatch) -> None:
    """With the first part of the queries alone the distances are out of bound."""
    force(monkeypatch, Way("split", "all"))
    vectors, queries, scale = rows_and_queries(device, True)
    whole = cuda_search._halves
    monkeypatch.setattr(cuda_search, "_halves", lambda x: torch.cat([whole(x)[: len(x)], torch.zeros_like(x).half()]))
    rows, distance = propose(vectors, queries, 1003, scale)
    assert (distance - exact(vectors, queries, scale).gather(1, rows.long())).abs().max() > split_error(48)


@pytest.mark.parametrize("way", WAYS[:2])
def test_hidden_and_forbidden_rows_are_left_out(device, monkeypatch, way: Way) -> None:
    force(monkeypatch, way)
    vectors, queries, _ = rows_and_queries(device, False)
    hidden = torch.zeros(1003, dtype=torch.bool, device=device)
    hidden[::3] = True
    allowed = torch.zeros(2, 1003, dtype=torch.bool, device=device)
    allowed[1, 4:6] = True
    row = torch.tensor([-1, 0, 1, -1, 1], dtype=torch.int32, device=device)
    rows, distance = propose(vectors, queries, 20, None, hidden, allowed, row)
    assert not (rows[rows >= 0] % 3 == 0).any()
    assert (rows[0] >= 0).all()
    assert (rows[1] == -1).all()
    assert torch.isinf(distance[1]).all()
    assert sorted(rows[2].tolist()) == [-1] * 18 + [4, 5]


def test_the_fastest_way_is_kept_for_a_shape(device, monkeypatch) -> None:
    cost = iter([3.0, 2.0, 4.0, 5.0, 1.0, 1.0])
    monkeypatch.setattr(cuda_search, "_seconds", lambda call, where: call() and next(cost))
    vectors, queries, scale = rows_and_queries(device, True)
    want = propose(vectors, queries, 9, scale)
    (first,) = cuda_search.choices.values()
    assert first == Choice(
        Way("split", "blocks"), dict(zip([WAYS[2], WAYS[3], WAYS[0], WAYS[1]], (3.0, 2.0, 4.0, 5.0), strict=True))
    )
    assert torch.equal(propose(vectors, queries, 9, scale)[0], want[0])
    assert len(cuda_search.choices) == 1
    propose(vectors.float(), queries, 9)  # another dtype: tried anew
    assert len(cuda_search.choices) == 2


def test_trying_takes_the_first_tile_only(device, monkeypatch) -> None:
    monkeypatch.setattr(cuda_search, "TRIES", 1)
    lengths: list[int] = []
    cut = cuda_search._cut
    monkeypatch.setattr(cuda_search, "_cut", lambda tile, *rest: lengths.append(tile.shape[1]) or cut(tile, *rest))
    vectors, queries, _ = rows_and_queries(device, False)
    propose(vectors, queries, 9)
    assert lengths == [256] * 4 + [256, 256, 256, 235]


def test_faiss_gives_rows_and_products(device, monkeypatch) -> None:
    """A stand-in for FAISS's GPU call, which fills places it has no row for with -1."""
    from contextlib import nullcontext

    vectors, queries, _ = rows_and_queries(device, False)

    def brute_force(faiss, queries, vectors, found):
        best = (queries @ vectors.T).topk(found.shape[1] - 1, dim=1)
        found[:, :-1] = best.indices
        return torch.cat([best.values, torch.full_like(best.values[:, :1], torch.nan)], 1)

    monkeypatch.setattr(cuda_search.faiss_cuda, "brute_force", brute_force)
    monkeypatch.setattr(cuda_search.faiss_cuda, "on_stream", lambda *args: nullcontext())
    force(monkeypatch, Way("faiss", "all"))
    rows, distance = propose(vectors, queries, 9)
    force(monkeypatch, WAYS[0])
    want = propose(vectors, queries, 9)
    assert torch.equal(rows[:, :8], want[0][:, :8])
    assert (rows[:, 8] == -1).all()
    assert torch.isinf(distance[:, 8]).all()
