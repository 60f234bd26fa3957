"""What Tercet is timed beside gives the same answers, where it is installed."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from bench.baselines import faiss_flat, igraph_induced, scipy_csr, torch_plain
from bench.baselines.peers import find_python
from bench.config import load
from bench.prepare import CANDIDATES, batch_of, draw, engine_of, scene, topology_of
from bench.suites import Bench, cognee
from bench.suites.graph import rank, same
from bench.suites.pipeline import agreement, plain_of
from bench.workloads import Workload, make
from tercet_kernels.fragment.reference import make_topology

KINDS = ("uniform", "power_law", "type_hubs")


@pytest.fixture(scope="module", params=KINDS)
def given(request: pytest.FixtureRequest) -> Workload:
    return make(150, 700, 16, request.param, relation_texts=12, num_queries=6)


def test_the_layout_is_that_of_the_reference(given: Workload) -> None:
    got = topology_of(given)
    columns = (torch.from_numpy(x) for x in (given.source, given.target, given.relation))
    expected = make_topology(*columns, given.num_nodes, 12)
    for name, a, b in zip(got._fields, got, expected, strict=True):
        assert torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b, name


@pytest.mark.parametrize("kind", CANDIDATES)
def test_candidates_are_distinct_and_seeded(given: Workload, kind: str) -> None:
    topology = topology_of(given)
    first, again = (scene(topology, kind, 3, 20, 5, seed=4) for _ in "ab")
    assert torch.equal(first.hits.node, again.hits.node)
    for start, end in zip(first.hits.indptr, first.hits.indptr[1:], strict=False):
        assert (first.hits.node[start:end].diff() > 0).all()
    assert first.hits.indptr.tolist() == [0, 20, 40, 60]


def test_topical_candidates_have_more_edges_among_them() -> None:
    topology = topology_of(make(2_000, 8_000, 1, num_queries=0))
    found = {kind: int(rank(scene(topology, kind, 4, 50, 5, 0), 5).available.sum()) for kind in CANDIDATES}
    assert found["topical"] > 3 * found["uniform"]


def test_hubs_are_drawn_by_degree() -> None:
    import numpy as np

    topology = topology_of(make(2_000, 8_000, 1, "power_law", num_queries=0))
    degree = (topology.out_indptr.diff() + topology.in_indptr.diff()).numpy()
    rng = np.random.default_rng(0)
    assert degree[draw(rng, topology, "hubs", 50)].mean() > 3 * degree[draw(rng, topology, "uniform", 50)].mean()


def test_torch(given: Workload) -> None:
    engine, queries = engine_of(given), batch_of(given, 6)
    plain = plain_of(engine)
    limited = plain.limited(queries, 40, 5)
    assert agreement(engine, queries, limited[:2], 5, 40)["same"] == 6
    assert agreement(engine, queries, plain.full(queries, 5), 5, 0)["same"] == 6
    wrong = limited.edge.roll(1, dims=0), limited.score.roll(1, dims=0)
    assert agreement(engine, queries, wrong, 5, 40)["same"] < 6


def test_the_dense_pass_in_tiles(given: Workload, monkeypatch: pytest.MonkeyPatch) -> None:
    plain, queries = plain_of(engine_of(given)), batch_of(given, 6)
    whole = plain.full(queries, 5)
    monkeypatch.setattr(torch_plain, "SCORES_AT_ONCE", 1500)
    for a, b in zip(whole, plain.full(queries, 5), strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("kind", CANDIDATES)
def test_edges_among_candidates(given: Workload, kind: str) -> None:
    made = scene(topology_of(given), kind, 5, 40, 8, seed=1)
    best = rank(made, 6)
    assert same(best, torch_plain.graph_stage(made, 6)) == 5
    for module, package in ((scipy_csr, "scipy"), (igraph_induced, "igraph")):
        try:
            count = module.counter(made.topology)
        except ImportError:
            pytest.skip(f"{package} isn't installed")
        assert count(made.hits) == best.available.tolist()


@pytest.mark.parametrize("threshold", [faiss_flat.SHIPPED, 1])
def test_faiss(given: Workload, threshold: int) -> None:
    pytest.importorskip("faiss", reason="faiss isn't installed")
    import faiss

    before = faiss.cvar.distance_compute_blas_threshold
    vectors, queries = torch.from_numpy(given.node_vectors), batch_of(given, 6)
    got = faiss_flat.searcher(vectors, threshold)(queries, 10)
    assert torch.equal(got.sort(dim=1).values, torch_plain.search(vectors, queries, 10)[0].sort(dim=1).values)
    assert faiss.cvar.distance_compute_blas_threshold == before


def peer_cells(suite: Any, name: str, library: str, package: str, sets: list[str]) -> list[dict[str, Any]]:
    python, reason = find_python(library, package)
    if python is None:
        pytest.skip(reason)
    tiny = ["run.budget_s=0.2", "run.repeats=1", "run.dimension=16", "run.wide=20"]
    return list(suite.cells(Bench(load([], [*tiny, *sets]), name)))


def test_cognee() -> None:
    sets = ['cognee.workloads=["type_hubs:120:500"]', "cognee.batches=[1, 4]", "cognee.budget_s=3"]
    cells = [c for c in peer_cells(cognee, "cognee", "cognee", "cognee", sets) if c["system"] == "cognee"]
    assert {(c["settings"]["batch"], c["settings"]["wide"]) for c in cells} == {(1, 20), (1, 0), (4, 0)}
    for c in cells:
        assert c["agreement"]["same"] == c["agreement"]["queries"] > 0, c


def test_a_missing_peer_is_skipped_with_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERCET_BENCH_COGNEE_PYTHON", "/nowhere/python")
    assert find_python("cognee", "cognee") == (None, "TERCET_BENCH_COGNEE_PYTHON names no file")
    config = load(
        [], ["run.budget_s=0.1", "run.repeats=1", "cognee.batches=[1]", 'cognee.workloads=["uniform:50:100"]']
    )
    cells = list(cognee.cells(Bench(config, "cognee")))
    assert cells[-1]["skipped"] == "TERCET_BENCH_COGNEE_PYTHON names no file"
