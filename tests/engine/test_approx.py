"""FAISS indexes: what they return is scored exactly, counted exactly, and doesn't depend on the batch."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tercet.collection import Collection
from tercet.errors import InvalidArgument, MissingDependency, StoreError
from tercet.index import build_index, load_index
from tercet.index.approx import SMALL, FaissIndex
from tercet.index.exact import ExactIndex
from tercet.index.options import OPTIONS

faiss = pytest.importorskip("faiss", reason="FAISS isn't installed")

MINILM = Path(__file__).resolve().parents[3] / "shared" / "data" / "minilm"
ALL_LISTS = {"nprobe": 10**6}
KINDS = {"hnsw": {}, "ivf": {}, "pq": {"m": 6}}
ROWS, WIDTH, K = 3000, 24, 20
cpu_faiss = pytest.mark.skipif(faiss.get_num_gpus() > 0, reason="this FAISS sees a GPU")


def unit(rows, seed, width=WIDTH):
    """Clustered rows of unit norm, no two alike."""
    generator = torch.Generator().manual_seed(seed)
    centres = torch.randn(40, width, generator=torch.Generator().manual_seed(7))
    x = centres[torch.randint(40, (rows,), generator=generator)] + torch.randn(rows, width, generator=generator)
    return (x.double() / x.double().norm(dim=1, keepdim=True)).float()


def reciprocal(half):
    return 1.0 / half.double().norm(dim=1)


VECTORS, QUERIES = unit(ROWS, 0), unit(24, 1)
EXACT = ExactIndex(VECTORS)


@pytest.fixture(scope="module", params=KINDS)
def index(request):
    return build_index(request.param, VECTORS, None, None, **KINDS[request.param])


@pytest.fixture(scope="module")
def all_lists():
    return build_index("ivf", VECTORS, None, None, **ALL_LISTS)


@pytest.fixture
def paths(monkeypatch):
    """How many queries FAISS and the exact index over the whole collection were asked."""
    asked = {"faiss": 0, "exact": 0}
    propose, search = FaissIndex._propose, ExactIndex.search

    def count_propose(self, queries, *rest):
        asked["faiss"] += len(queries)
        return propose(self, queries, *rest)

    def count_search(self, queries, *rest):
        asked["exact"] += len(queries) * (self.size == ROWS)
        return search(self, queries, *rest)

    monkeypatch.setattr(FaissIndex, "_propose", count_propose)
    monkeypatch.setattr(ExactIndex, "search", count_search)
    return asked


def masks(share, seed=3):
    """Three masks, and rows that use them in turn, with none between."""
    allowed = torch.rand(3, ROWS, generator=torch.Generator().manual_seed(seed)) < torch.tensor(share)[:, None]
    return allowed, torch.arange(len(QUERIES)).int() % 4 - 1


def recall(got, wanted):
    shared = [len(set(a.tolist()) & set(b.tolist())) for a, b in zip(got, wanted, strict=True)]
    return sum(shared) / wanted.numel()


def check(index, rows, distances, k, allowed=None, allowed_row=None):
    """Everything that holds whatever FAISS proposed."""
    assert rows.dtype == torch.int32
    assert distances.dtype == torch.float32
    assert rows.shape == distances.shape == (len(QUERIES), min(k, index.size))
    for q, (row, distance) in enumerate(zip(rows, distances, strict=True)):
        seen = torch.ones(index.size, dtype=torch.bool) if index.inner.hidden is None else ~index.inner.hidden
        if allowed_row is not None and allowed_row[q] >= 0:
            seen = seen & allowed[allowed_row[q]]
        got = row[row >= 0]
        assert len(got) == min(k, int(seen.sum()))
        assert torch.equal(row[: len(got)], got)
        assert (distance[len(got) :] == torch.inf).all()
        assert seen[got.long()].all()
        assert len(set(got.tolist())) == len(got)
        exact = index.pairs(QUERIES, torch.full_like(got, q), got)
        assert torch.equal(exact, distance[: len(got)])
        pairs = list(zip(exact.tolist(), got.tolist(), strict=True))
        assert pairs == sorted(pairs)


def test_all_lists_probed_is_exact(all_lists, paths):
    rows, distances = all_lists.search(QUERIES, K)
    assert paths == {"faiss": len(QUERIES), "exact": 0}
    wanted = EXACT.search(QUERIES, K)
    assert torch.equal(rows, wanted[0])
    assert torch.equal(distances, wanted[1])


def test_all_lists_probed_is_exact_behind_masks(all_lists, paths):
    allowed, allowed_row = masks([0.9, 0.6, 0.45])
    rows, distances = all_lists.search(QUERIES, K, allowed, allowed_row)
    assert paths == {"faiss": len(QUERIES), "exact": 0}
    wanted = EXACT.search(QUERIES, K, allowed, allowed_row)
    assert torch.equal(rows, wanted[0])
    assert torch.equal(distances, wanted[1])


def test_float16_rows_keep_their_exact_distances():
    half = VECTORS.half()
    scale = reciprocal(half)
    found = build_index("ivf", half, scale, None, **ALL_LISTS).search(QUERIES, K)
    for got, wanted in zip(found, ExactIndex(half, scale).search(QUERIES, K), strict=True):
        assert torch.equal(got, wanted)


def test_finds_most_of_the_nearest(index, paths):
    rows, distances = index.search(QUERIES, K)
    assert paths == {"faiss": len(QUERIES), "exact": 0}
    check(index, rows, distances, K)
    assert recall(rows, EXACT.search(QUERIES, K)[0]) > 0.8


def test_a_wider_search_finds_more():
    narrow, wide = (build_index("ivf", VECTORS, None, None, nlist=70, nprobe=n).search(QUERIES, K)[0] for n in (1, 20))
    wanted = EXACT.search(QUERIES, K)[0]
    assert recall(narrow, wanted) < recall(wide, wanted) - 0.1


def test_proposals_are_scored_not_trusted(index, monkeypatch):
    everything = torch.arange(ROWS).int().flip(0).repeat(len(QUERIES), 1)
    monkeypatch.setattr(FaissIndex, "_propose", lambda self, queries, *_: everything[: len(queries)])
    for got, wanted in zip(index.search(QUERIES, K), EXACT.search(QUERIES, K), strict=True):
        assert torch.equal(got, wanted)


def test_a_query_left_short_is_searched_exactly(index, monkeypatch):
    propose = FaissIndex._propose

    def lose_some(self, queries, *rest):
        found = propose(self, queries, *rest)
        found[::2, K - 1 :] = -1
        return found

    monkeypatch.setattr(FaissIndex, "_propose", lose_some)
    rows, distances = index.search(QUERIES, K)
    check(index, rows, distances, K)
    assert torch.equal(rows[::2], EXACT.search(QUERIES, K)[0][::2])


@pytest.mark.parametrize("masked", [False, True])
def test_alone_as_in_any_batch(index, masked):
    allowed, allowed_row = masks([0.9, 0.6, 0.01]) if masked else (None, None)
    together = index.search(QUERIES, K, allowed, allowed_row)
    order = torch.randperm(len(QUERIES), generator=torch.Generator().manual_seed(5))
    for part in [*order.split(1), *order.split(7)]:
        alone = index.search(QUERIES[part], K, allowed, None if allowed_row is None else allowed_row[part])
        for got, wanted in zip(alone, together, strict=True):
            assert torch.equal(got, wanted[part])


def test_threads_change_nothing_and_stay_as_they_are(index):
    wanted, before = index.search(QUERIES, K), torch.get_num_threads()
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            own = faiss.omp_get_max_threads()
            assert torch.equal(index.search(QUERIES, K)[0], wanted[0])
            assert (torch.get_num_threads(), faiss.omp_get_max_threads()) == (threads, own)
    finally:
        torch.set_num_threads(before)


@settings(max_examples=10, deadline=None)
@given(st.lists(st.sampled_from([0.0, 0.001, 0.02, 0.2, 0.5, 0.8, 1.0]), min_size=3, max_size=3), st.integers(1, 150))
def test_masks_hold_and_counts_are_exact(index, share, k):
    allowed, allowed_row = masks(share, seed=k)
    check(index, *index.search(QUERIES, k, allowed, allowed_row), k, allowed, allowed_row)


def test_masks_reach_faiss_and_few_rows_do_not(index, paths):
    allowed, allowed_row = masks([0.9, 0.7, 0.1])
    rows, _ = index.search(QUERIES, K, allowed, allowed_row)
    assert paths == {"faiss": len(QUERIES) * 3 // 4, "exact": 0}
    wanted = EXACT.search(QUERIES, K, allowed, allowed_row)[0]
    assert torch.equal(rows[allowed_row == 2], wanted[allowed_row == 2])
    assert recall(rows, wanted) > 0.8


def test_a_mask_widens_the_search():
    half = torch.arange(ROWS) % 2 == 0
    lists = build_index("ivf", VECTORS, None, None, nlist=70, nprobe=10)
    graph = build_index("hnsw", VECTORS[:300], None, None, ef_search=150)
    assert [lists._parameters(faiss, K, 44, mask).nprobe for mask in (None, half)] == [10, 15]
    assert [graph._parameters(faiss, K, 44, mask).efSearch for mask in (None, half)] == [150, 300]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shown", [60, 2900])
def test_hidden_rows_never_come_back(kind, shown):
    vectors = VECTORS.clone()
    hidden = torch.zeros(ROWS, dtype=torch.bool)
    hidden[torch.randperm(ROWS, generator=torch.Generator().manual_seed(2))[shown:]] = True
    vectors[hidden] = 0.0
    index = build_index(kind, vectors, None, hidden, **({"m": 2} if kind == "pq" else {}))
    allowed, allowed_row = masks([0.9, 0.6, 0.01])
    assert index.hides
    check(index, *index.search(QUERIES, 100), 100)
    check(index, *index.search(QUERIES, 100, allowed, allowed_row), 100, allowed, allowed_row)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rows", [0, 1, 2, SMALL - 1, SMALL, SMALL + 1, 700])
def test_small_collections(kind, rows, capfd):
    index = build_index(kind, VECTORS[:rows], None, None, **KINDS[kind])
    for k in (1, 12, rows + 1):
        check(index, *index.search(QUERIES, k), k)
    assert (index.ann is None) == (rows < SMALL)
    got = index.search(QUERIES, rows + 1)
    for mine, wanted in zip(got, ExactIndex(VECTORS[:rows]).search(QUERIES, rows + 1), strict=True):
        assert torch.equal(mine, wanted)
    assert index.search(QUERIES[:0], 5)[0].shape == (0, min(5, rows))
    assert capfd.readouterr() == ("", "")


def test_many_lists_train_without_a_warning(capfd):
    build_index("ivf", VECTORS[:300], None, None, nlist=200)
    assert capfd.readouterr() == ("", "")


def test_wide_queries_are_exact(index, paths):
    rows, _ = index.search(QUERIES, 200)
    assert paths["faiss"] == 0
    assert torch.equal(rows, EXACT.search(QUERIES, 200)[0])


def test_distances_are_the_exact_index(index):
    assert index.error == EXACT.error
    assert torch.equal(index.dense(QUERIES), EXACT.dense(QUERIES))
    assert torch.equal(index.approximate(QUERIES), EXACT.approximate(QUERIES))
    assert (index.size, index.dimension, index.hides) == (ROWS, WIDTH, False)


def test_save_and_load(index, tmp_path):
    index.save(tmp_path)
    again = load_index(index.kind, tmp_path)
    assert again.options == index.options
    for got, wanted in zip(again.search(QUERIES, K), index.search(QUERIES, K), strict=True):
        assert torch.equal(got, wanted)
    np.save(tmp_path / "vectors.npy", VECTORS[:-1].numpy())
    with pytest.raises(StoreError, match=r"expected 2999 rows of 24, found 3000 of 24"):
        load_index(index.kind, tmp_path)


@pytest.mark.parametrize("rows", [0, 5])
def test_save_and_load_without_a_faiss_index(rows, tmp_path):
    build_index("ivf", VECTORS[:rows], None, None).save(tmp_path)
    assert not (tmp_path / "index.faiss").exists()
    check(again := load_index("ivf", tmp_path), *again.search(QUERIES, 3), 3)


def test_two_builds_of_lists_are_the_same():
    one, two = (build_index("pq", VECTORS, None, None, m=2) for _ in range(2))
    assert torch.equal(one.centroids.vectors, two.centroids.vectors)
    assert torch.equal(one.search(QUERIES, K)[0], two.search(QUERIES, K)[0])


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("hnsw", {"nprobe": 3}, "unknown option 'nprobe'; it has M, ef_construction, ef_search, overfetch"),
        ("ivf", {"nprobe": 0}, "nprobe must be an integer of at least 1, got 0"),
        ("ivf", {"nlist": 2.5}, "nlist must be an integer of at least 1, got 2.5"),
        ("hnsw", {"M": 1}, "M must be an integer of at least 2, got 1"),
        ("hnsw", {"M": True}, "M must be an integer of at least 2, got True"),
        ("pq", {"m": 5}, "m must divide the dimension 24, got 5"),
        ("exact", {"nprobe": 3}, "it has no options, got nprobe"),
        ("annoy", {}, "expected 'exact' or one of"),
    ],
)
def test_wrong_options(kind, options, message):
    with pytest.raises(InvalidArgument, match=message):
        build_index(kind, VECTORS[:300], None, None, **options)


def test_options_are_cut_at_what_there_is():
    assert build_index("ivf", VECTORS[:300], None, None, nlist=1000, nprobe=2000).options["nprobe"] == 300
    assert build_index("ivf", VECTORS[:300], None, None).options["nlist"] == 7
    assert build_index("pq", VECTORS[:300], None, None, m=None).options["m"] == 3


def test_collection_passes_options_on():
    made = Collection.build(
        "Entity_name", VECTORS, [str(i) for i in range(ROWS)], index="ivf", index_options={"nlist": 9, "nprobe": 4}
    )
    assert (made.index.kind, made.index.ann.nlist, made.index.options["nprobe"]) == ("ivf", 9, 4)
    with pytest.raises(InvalidArgument, match="unknown option 'ef'"):
        Collection.build("Entity_name", VECTORS, [str(i) for i in range(ROWS)], index="hnsw", index_options={"ef": 4})


def test_the_torch_patches_of_faiss_do_no_harm(index):
    wanted = index.search(QUERIES, K)[0]
    import faiss.contrib.torch_utils  # noqa: F401

    assert torch.equal(index.search(QUERIES, K)[0], wanted)
    assert torch.equal(
        build_index("ivf", VECTORS, None, None, **ALL_LISTS).search(QUERIES, K)[0], EXACT.search(QUERIES, K)[0]
    )


def test_without_faiss(monkeypatch):
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(MissingDependency, match=r"tercet\[cpu\]"):
        build_index("hnsw", VECTORS[:5], None, None)


@cpu_faiss
def test_cuda_kinds_say_what_they_miss(all_lists):
    for kind in ("flat", "cagra"):
        with pytest.raises(MissingDependency, match="sees none"):
            build_index(kind, VECTORS, None, None)
        with pytest.raises(InvalidArgument, match="is searched on CUDA"):
            FaissIndex(kind, EXACT, dict(OPTIONS[kind])).search(QUERIES, K)
    with pytest.raises(MissingDependency, match="index 'ivf' on CUDA needs a FAISS with CUDA"):
        all_lists.to(torch.device("cuda"))


def test_devices(index):
    assert index.to(torch.device("cpu")) is index
    if index.kind != "ivf":
        with pytest.raises(InvalidArgument, match="CUDA has exact, flat, ivf, cagra; the CPU has exact, hnsw, ivf, pq"):
            index.to(torch.device("cuda"))


@pytest.mark.skipif(not torch.cuda.is_available() or faiss.get_num_gpus() == 0, reason="no GPU for FAISS")
@pytest.mark.parametrize("kind", ["flat", "ivf", "cagra"])
def test_cuda(kind, tmp_path):
    if kind == "cagra" and not hasattr(faiss, "GpuIndexCagra"):
        pytest.skip("this FAISS has no cuVS")
    device = torch.device("cuda", 0)
    index = build_index(kind, VECTORS, None, None, **(ALL_LISTS if kind == "ivf" else {})).to(device)
    allowed, allowed_row = masks([0.9, 0.6, 0.01])
    rows, distances = (x.cpu() for x in index.search(QUERIES.to(device), K))
    assert recall(rows, EXACT.search(QUERIES, K)[0]) > (0.9 if kind == "cagra" else 0.999)
    check(index.to(torch.device("cpu")), rows, distances, K)
    masked = index.search(QUERIES.to(device), K, allowed.to(device), allowed_row.to(device))
    assert torch.equal(
        masked[0].cpu()[allowed_row >= 0], EXACT.search(QUERIES, K, allowed, allowed_row)[0][allowed_row >= 0]
    )
    index.save(tmp_path)
    again = load_index(kind, tmp_path).to(device)
    assert recall(again.search(QUERIES.to(device), K)[0].cpu(), rows) > 0.9


@pytest.mark.skipif(not MINILM.is_dir(), reason="the shared data sets aren't beside the repository")
def test_real_names_are_found():
    data = np.load(MINILM / "musique_train100.names.i8.npz")
    names = torch.from_numpy(data["codes"].astype(np.float32) * data["scale"][:, None])
    names /= names.norm(dim=1, keepdim=True)
    queries = torch.from_numpy(np.load(MINILM / "musique_train100.questions.f16.npy")).float()
    queries /= queries.norm(dim=1, keepdim=True)
    wanted = ExactIndex(names).search(queries, 100)[0]
    assert recall(build_index("ivf", names, None, None).search(queries, 100)[0], wanted) > 0.93
