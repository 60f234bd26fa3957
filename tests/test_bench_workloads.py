"""The benchmark's inputs and its stopwatch."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench import timing, workloads
from bench.workloads import KINDS, Workload, make
from tercet.errors import InvalidArgument


def degrees(workload: Workload) -> np.ndarray:
    return np.bincount(np.concatenate([workload.source, workload.target]), minlength=workload.num_nodes)


@pytest.mark.parametrize("kind", KINDS)
def test_shapes_dtypes_and_unit_norm(kind: str) -> None:
    got = make(300, 900, dimension=32, kind=kind, relation_texts=7, num_queries=5)
    assert (got.num_nodes, got.num_edges) == (300, 900)
    for column, bound in ((got.source, 300), (got.target, 300), (got.relation, 7)):
        assert column.shape == (900,)
        assert column.dtype == np.int32
        assert column.min() >= 0
        assert column.max() < bound
    for vectors, rows in ((got.node_vectors, 300), (got.relation_vectors, 7), (got.query_vectors, 5)):
        assert vectors.shape == (rows, 32)
        assert vectors.dtype == np.float32
        np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert got.node_ids[1] == "n000001"
    assert len(got.node_ids) == 300
    assert got.relation_texts[5] == "relation 5"
    assert len(got.relation_texts) == 7


@given(
    kind=st.sampled_from(KINDS),
    num_nodes=st.integers(20, 200),
    per_node=st.integers(1, 4),
    relations=st.sampled_from([1, 2, 50]),
    seed=st.integers(0, 2**32 - 1),
)
@settings(max_examples=40, deadline=None)
def test_edges_are_distinct_sorted_and_without_self_loops(
    kind: str, num_nodes: int, per_node: int, relations: int, seed: int
) -> None:
    got = make(num_nodes, num_nodes * per_node, 4, kind, relation_texts=relations, seed=seed, num_queries=1)
    triples = list(zip(got.source.tolist(), got.target.tolist(), got.relation.tolist(), strict=True))
    assert len(triples) == num_nodes * per_node
    assert triples == sorted(set(triples))
    assert all(source != target for source, target, _ in triples)


@pytest.mark.parametrize("kind", KINDS)
def test_the_seed_decides(kind: str) -> None:
    first, again, other = (make(200, 800, 8, kind, relation_texts=9, seed=seed, num_queries=3) for seed in (4, 4, 5))
    for field in ("source", "target", "relation", "node_vectors", "relation_vectors", "query_vectors"):
        np.testing.assert_array_equal(getattr(first, field), getattr(again, field))
        assert not np.array_equal(getattr(first, field), getattr(other, field)), field


@pytest.mark.parametrize("kind", KINDS)
def test_save_and_load(kind: str, tmp_path: Path) -> None:
    first = make(200, 800, 8, kind, relation_texts=9, num_queries=3)
    first.save(tmp_path / "w")
    again = Workload.load(tmp_path / "w")
    for field in first.__dataclass_fields__:
        np.testing.assert_array_equal(getattr(first, field), getattr(again, field))
    assert type(again.name) is type(again.vectors) is str
    assert type(again.num_nodes) is int


def test_uniform_has_no_hub() -> None:
    got = degrees(make(10_000, 50_000, 2))
    assert got.sum() == 100_000
    assert got.max() < 40  # mean 10, Poisson


@pytest.mark.parametrize("num_nodes", [1_000, 10_000])
def test_power_law_has_hubs_of_a_fifth_and_a_long_tail(num_nodes: int) -> None:
    got = np.sort(degrees(make(num_nodes, 5 * num_nodes, 2, "power_law")))[::-1]
    assert num_nodes / 10 < got[0] < num_nodes / 4
    assert np.median(got) < got.mean() == 10
    assert got[: num_nodes // 100].sum() > 0.1 * got.sum()
    ranks = np.arange(num_nodes // 100, num_nodes // 10)  # past the capped hubs, before the sparse tail
    slope = np.polyfit(np.log(ranks + 1), np.log(got[ranks]), 1)[0]
    assert slope == pytest.approx(-workloads.ZIPF_EXPONENT, abs=0.1)


def test_power_law_hubs_are_not_the_first_rows() -> None:
    hubs = np.argsort(-degrees(make(2_000, 10_000, 2, "power_law")))[:20]
    assert hubs.max() > 1_000


@pytest.mark.parametrize(("num_nodes", "num_types"), [(50, 1), (1_000, 10), (10_000, 20)])
def test_type_hubs_give_every_entity_one_type(num_nodes: int, num_types: int) -> None:
    got = make(num_nodes, 5 * num_nodes, 2, "type_hubs")
    typed = got.relation == 0
    assert got.source[typed].tolist() == list(range(num_types, num_nodes))
    assert got.target[typed].max() == num_types - 1
    assert min(got.source.min(), got.target[~typed].min()) >= num_types
    by_type = degrees(got)[:num_types]
    assert by_type.sum() == num_nodes - num_types
    assert by_type.min() > 0.6 * num_nodes / num_types
    assert degrees(got)[num_types:].max() < 40


def test_vectors_look_like_an_encoders() -> None:
    got = make(5_000, 5_000)
    cosine = got.node_vectors[:500] @ got.node_vectors.T
    cosine[np.arange(500), np.arange(500)] = -1
    nearest = cosine.max(axis=1)
    assert np.quantile(nearest, 0.05) > 0.4
    assert np.quantile(nearest, 0.95) < 0.85
    assert abs(np.median(cosine)) < 0.05
    to_nodes = (got.query_vectors @ got.node_vectors.T).max(axis=1)
    assert np.quantile(to_nodes, 0.05) > 0.4
    assert np.quantile(to_nodes, 0.95) < 0.85
    assert np.median((got.query_vectors @ got.relation_vectors.T).max(axis=1)) > 0.3


@pytest.mark.parametrize(
    "arguments",
    [
        {"kind": "star"},
        {"num_nodes": 1},
        {"num_edges": -1},
        {"dimension": 0},
        {"relation_texts": 0},
        {"num_queries": -1},
        {"kind": "type_hubs", "num_edges": 20},
        {"num_nodes": 3, "num_edges": 7, "relation_texts": 1},
    ],
)
def test_refuses(arguments: dict[str, object]) -> None:
    with pytest.raises(InvalidArgument):
        make(**{"num_nodes": 100, "num_edges": 200, "dimension": 4, **arguments})  # type: ignore[arg-type]


def test_a_full_graph_can_be_drawn() -> None:
    got = make(3, 6, 2, relation_texts=1)
    assert sorted(zip(got.source.tolist(), got.target.tolist(), strict=True)) == [
        (0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1),
    ]  # fmt: skip


def test_measure_orders_its_quantiles_and_counts_its_calls() -> None:
    calls: list[int] = []
    got = timing.measure(lambda: calls.append(1), warmup=2, repeats=5)
    assert len(calls) == 7
    assert (got.warmups, got.repeats) == (2, 5)
    assert 0 <= got.p20_s <= got.median_s <= got.p80_s
    assert got.peak_rss_delta is None


def test_measure_takes_the_median_not_the_best() -> None:
    waits = iter([0.0, 0.03, 0.03])
    got = timing.measure(lambda: time.sleep(next(waits)), warmup=0, repeats=3)
    assert got.median_s >= 0.03
    assert got.cpu_s < 0.02


def test_an_edge_text_each() -> None:
    got = make(50, 200, 4, relation_texts="each", num_queries=1)
    assert got.relation.tolist() == list(range(200))
    assert len(got.relation_vectors) == 200
    assert "each" in got.name


def test_measure_keeps_every_sample_and_times_only_the_call() -> None:
    given: list[int] = []

    def before() -> int:
        time.sleep(0.02)
        return 7

    got = timing.measure(given.append, before=before, warmup=1, repeats=3)
    assert given == [7] * 4
    assert len(got.samples_s) == 3
    assert max(got.samples_s) < 0.01
    assert got.median_s == sorted(got.samples_s)[1]


def test_measure_keeps_the_budget() -> None:
    got = timing.measure(lambda: time.sleep(0.05), repeats=1000, budget_s=0.2)
    assert 1 <= got.repeats <= 3
    long = timing.measure(lambda: time.sleep(0.05), budget_s=0.06)
    assert (long.repeats, long.warmups) == (1, 0)
    assert long.median_s >= 0.05


def test_measure_sees_memory() -> None:
    got = timing.measure(lambda: np.ones(50_000_000 // 8), memory=True, repeats=2)
    if got.peak_rss_delta is None:
        pytest.skip("the system doesn't report peak memory")
    assert got.peak_rss_delta > 30_000_000


def test_measure_refuses() -> None:
    with pytest.raises(InvalidArgument):
        timing.measure(lambda: None, repeats=0)
