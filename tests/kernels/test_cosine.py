import numpy as np
import pytest
import torch

from tercet_kernels import cosine
from tercet_kernels.cosine import least_distances, norms, pair_distances, reference
from tests.kernels.cases import assert_same

SIZES = [0, 1, 63, 64, 65, 1000]


def plain_loop(example: dict, scale: torch.Tensor | None = None) -> list[float]:
    """The formula in Python floats, element by element."""
    queries, vectors = example["queries"].tolist(), example["vectors"].tolist()
    out = []
    for q, r in zip(example["query"].tolist(), example["row"].tolist(), strict=True):
        lanes = [0.0] * 16
        for i, (x, y) in enumerate(zip(queries[q], vectors[r], strict=True)):
            lanes[i % 16] += x * y
        while len(lanes) > 1:
            half = len(lanes) // 2
            lanes = [lanes[i] + lanes[half + i] for i in range(half)]
        product = lanes[0] if scale is None else lanes[0] * float(scale[r])
        out.append(float(np.float32(min(max(1.0 - product, 0.0), 2.0))))
    return out


def wild(pairs: int, dimension: int, device: str) -> dict:
    """Huge products that cancel: any other order of the sums shows in the result, not just in its last bits."""
    example = reference.example(pairs, dimension, seed=pairs + dimension)
    g = torch.Generator().manual_seed(dimension)
    half = dimension // 3  # as many elements stay small
    plus, minus = torch.randperm(dimension, generator=g)[: 2 * half].split(max(half, 1)) if half else ([], [])
    x, y = (1 + torch.rand(n, half, generator=g) for n in (7, 50))
    example["queries"][:, plus] = example["queries"][:, minus] = x * 2**31
    example["vectors"][:, plus] = (y * 2**14).half().float()  # float16 holds them too
    example["vectors"][:, minus] = -example["vectors"][:, plus]
    return {name: x.to(device) for name, x in example.items()}


def halved(example: dict) -> tuple[dict, torch.Tensor]:
    """The same rows in float16, with factors that aren't powers of two."""
    vectors = example["vectors"].half()
    g = torch.Generator().manual_seed(0)
    return example | {"vectors": vectors}, (0.9 + 0.2 * torch.rand(50, generator=g).double()).to(vectors.device)


@pytest.mark.parametrize("dimension", [1, 15, 16, 17, 64, 384])
def test_has_the_bits_of_a_plain_loop(device: str, dimension: int) -> None:
    for example in (reference.example(40, dimension, seed=dimension, device=device), wild(40, dimension, device)):
        assert pair_distances(**example).tolist() == plain_loop(example)
        narrow, scale = halved(example)
        assert pair_distances(**narrow, scale=scale).tolist() == plain_loop(narrow, scale)


@pytest.mark.parametrize("pairs", SIZES)
def test_equals_the_reference(device: str, pairs: int) -> None:
    example = wild(pairs, 33, device)
    assert_same([pair_distances(**example)], [reference.pair_distances(**example)])
    narrow, scale = halved(example)
    assert_same([pair_distances(**narrow, scale=scale)], [reference.pair_distances(**narrow, scale=scale)])


@pytest.mark.parametrize("dimension", [1, 16, 37])
@pytest.mark.parametrize("pairs", [0, 1, 32, 65])
def test_triton_form_equals_the_reference(triton_device: str, triton_form, pairs: int, dimension: int) -> None:
    form = triton_form("cosine")
    example = wild(pairs, dimension, triton_device)
    # 1 - 0.9999 leaves few digits, so a product that was rounded shows
    near = reference.example(pairs, dimension, device=triton_device)
    near["vectors"] = 0.9999 * near["queries"].repeat(8, 1)
    narrow, scale = halved(example)
    for case, by in ((example, None), (near, None), (narrow, None), (narrow, scale)):
        out = torch.empty(pairs, dtype=torch.float32, device=triton_device)
        form.pair_distances(*case.values(), by, out)
        assert_same([out], [reference.pair_distances(**case, scale=by)])


def test_triton_form_clamps_and_keeps_nan(triton_device: str, triton_form) -> None:
    queries = torch.tensor([[1.0, 0.0], [torch.nan, 0.0]], device=triton_device)
    vectors = torch.tensor([[1.5, 0.0], [-1.5, 0.0], [1.0, 0.0]], device=triton_device)
    query = torch.tensor([0, 0, 0, 1], dtype=torch.int32, device=triton_device)
    row = torch.tensor([0, 1, 2, 2], dtype=torch.int32, device=triton_device)
    out = torch.empty(4, device=triton_device)
    triton_form("cosine").pair_distances(queries, vectors, query, row, None, out)
    assert_same([out], [torch.tensor([0.0, 2.0, 0.0, torch.nan])])


def test_triton_form_is_launched_without_fused_multiply_add(triton_device: str, triton_form, monkeypatch) -> None:
    form, options = triton_form("cosine"), {}
    monkeypatch.setattr(form, "pair_distances_kernel", {(1,): lambda *args, **given: options.update(given)})
    example = reference.example(3, 4, device=triton_device)
    form.pair_distances(*example.values(), None, torch.empty(3, device=triton_device))
    assert options["enable_fp_fusion"] is False


def test_another_order_shows_in_wild_examples() -> None:
    example = wild(200, 64, "cpu")
    got = pair_distances(**example)
    order = torch.randperm(64, generator=torch.Generator().manual_seed(0))
    moved = example | {name: example[name][:, order].contiguous() for name in ("queries", "vectors")}
    assert ((got > 0) & (got < 2)).sum() > 100
    assert (pair_distances(**moved) != got).sum() > 100


def test_is_near_numpy(device: str) -> None:
    example = reference.example(500, 384, device=device)
    x, y = (example[a][example[b].long()].cpu().double().numpy() for a, b in (("queries", "query"), ("vectors", "row")))
    want = 1 - (x * y).sum(1) / (np.linalg.norm(x, axis=1) * np.linalg.norm(y, axis=1))
    np.testing.assert_allclose(pair_distances(**example).cpu().numpy(), want, rtol=0, atol=1e-6)


def test_is_the_same_alone_permuted_and_swapped(device: str) -> None:
    example = reference.example(300, 50, device=device)
    queries, vectors, query, row = example.values()
    got = pair_distances(**example)
    order = torch.randperm(300, generator=torch.Generator().manual_seed(0)).to(device)
    assert_same([pair_distances(queries, vectors, query[order], row[order])], [got[order]])
    for i in (0, 17, 299):
        alone = pair_distances(queries[query[i] :][:1], vectors, torch.zeros_like(query[:1]), row[i : i + 1])
        assert_same([alone], [got[i : i + 1]])
    assert_same([pair_distances(vectors, queries, row, query)], [got])


def test_does_not_depend_on_the_size_of_its_steps(device: str, monkeypatch) -> None:
    example, scale = halved(reference.example(100, 20, device=device))
    got, want = pair_distances(**example, scale=scale), reference.pair_distances(**example, scale=scale)
    monkeypatch.setattr(cosine, "GATHER_ROWS", 7)
    monkeypatch.setattr(reference, "ROWS", 9)
    assert_same([pair_distances(**example, scale=scale), reference.pair_distances(**example, scale=scale)], [got, want])
    assert_same([got], [want])


def test_stays_within_0_and_2(device: str) -> None:
    row = torch.nn.functional.normalize(torch.randn(1, 384, generator=torch.Generator().manual_seed(1)), dim=1).to(
        device
    )
    vectors = torch.cat([row, -row, 1.001 * row, -1.001 * row])
    got = pair_distances(
        row, vectors, *(torch.tensor(x, dtype=torch.int32, device=device) for x in ([0] * 4, range(4)))
    )
    np.testing.assert_allclose(got.cpu().numpy(), [0, 2, 0, 2], rtol=0, atol=1e-6)
    assert got[2] == 0
    assert got[3] == 2


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("queries", lambda x: x.double()),
        ("queries", lambda x: x[0]),
        ("queries", lambda x: x.T.contiguous().T),
        ("vectors", lambda x: x.double()),
        ("vectors", lambda x: x[:, 1:]),
        ("query", lambda x: x.long()),
        ("row", lambda x: x[1:]),
        ("row", lambda x: x.long()),
        ("scale", lambda x: x.float()),
        ("scale", lambda x: x[1:]),
    ],
)
def test_refuses_other_shapes_and_dtypes(device: str, name: str, change) -> None:
    example = reference.example(5, 8, device=device)
    example["scale"] = torch.ones(50, dtype=torch.float64, device=device)
    with pytest.raises(ValueError, match=f"^{name}: expected"):
        pair_distances(**example | {name: change(example[name])})


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_norms_are_those_of_numpy(device: str, dtype: torch.dtype) -> None:
    vectors = torch.randn(70, 37, generator=torch.Generator().manual_seed(0)).to(dtype).to(device)
    vectors[3] = 0
    want = np.linalg.norm(vectors.cpu().double().numpy(), axis=1)
    np.testing.assert_allclose(norms(vectors).cpu().numpy(), want, rtol=1e-14)
    assert norms(vectors[:0]).shape == (0,)
    assert_same([norms(vectors[5:6])], [norms(vectors)[5:6]])


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_cuda_without_triton_has_the_same_bits(monkeypatch) -> None:
    example = reference.example(300, 50, device="cuda")
    want = pair_distances(**example)
    monkeypatch.setattr(cosine, "has_triton", lambda: False)
    assert_same([pair_distances(**example)], [want])


@pytest.mark.parametrize("dimension", [1, 15, 16, 17, 384])
@pytest.mark.parametrize("half", [False, True])
def test_least_distances_are_those_of_the_pairs(dimension, half, device):
    g = torch.Generator().manual_seed(dimension)
    unit = lambda n: torch.nn.functional.normalize(torch.randn(n, dimension, generator=g), dim=1)  # noqa: E731
    queries, vectors = unit(40).to(device), unit(90).to(device)
    scale = None
    if half:
        vectors = vectors.half()
        scale = 1.0 / norms(vectors)
    counts = torch.randint(0, 7, (40,), generator=g)
    counts[0] = counts[39] = 0
    indptr = torch.cat([torch.zeros(1, dtype=torch.int64), counts.cumsum(0)])
    row = torch.randint(0, 90, (int(indptr[-1]),), generator=g).int().to(device)
    got = least_distances(queries, vectors, indptr.to(device), row, scale)
    query = torch.repeat_interleave(torch.arange(40), counts).int().to(device)
    pairs = pair_distances(queries, vectors, query, row, scale).cpu()
    wanted = [
        float(pairs[low:high].min()) if low < high else float("inf") for low, high in indptr.unfold(0, 2, 1).tolist()
    ]
    assert got.tolist() == wanted


def test_least_distances_of_wrong_arguments(device):
    rows = torch.eye(4, device=device)
    with pytest.raises(ValueError, match="indptr"):
        least_distances(rows, rows, torch.zeros(4, dtype=torch.int64, device=device), torch.zeros(0).int().to(device))
