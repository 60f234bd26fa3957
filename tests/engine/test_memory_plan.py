"""The memory plan against real memory, refusals before loading, and batches that are halved until they fit."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from typer.testing import CliRunner

import tercet
from tercet import cli, memory, memory_plan
from tercet import engine as engine_module
from tercet.errors import InvalidArgument, NotEnoughMemory, StoreError, TercetError
from tercet.memory_parts import of_engine
from tercet.tables import no_texts, one_piece

PROBE = Path(__file__).with_name("memory_probe.py")
WIDTH = 384


def engine_of(nodes: int, edges: int, *, dimension: int = 8, keys: int = 20, **options: Any) -> tercet.Engine:
    rng = np.random.default_rng(0)
    ids = pa.array([f"node-{i:07d}" for i in range(nodes)], pa.large_string())
    names = pa.array([f"the name of {i}" for i in range(nodes)], pa.large_string())
    relations = pa.array([f"relation {i}" for i in range(keys)], pa.large_string())
    pick = lambda column: column.take(pa.array(rng.integers(0, len(column), edges)))  # noqa: E731
    graph = tercet.Graph.from_tables(
        pa.table({"id": ids, "name": names}),
        pa.table({"source": pick(ids), "target": pick(ids), "relation": pick(relations)}),
    )
    vectors = [torch.from_numpy(rng.standard_normal((n, dimension), np.float32)) for n in (nodes, keys)]
    collections = [
        tercet.Collection.build("name", vectors[0], ids),
        tercet.Collection.build("relation", vectors[1], relations, "relation"),
    ]
    return tercet.Engine(graph, collections, device="cpu", **options)


@pytest.fixture(scope="module")
def engine() -> tercet.Engine:
    return engine_of(300, 2000)


@pytest.fixture
def queries() -> torch.Tensor:
    return torch.randn(50, 8, generator=torch.Generator().manual_seed(1))


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="the peak of a process is read from /proc")
def test_the_real_peak_is_within_15_percent_of_the_plan(tmp_path: Path) -> None:
    engine_of(2000, 10_000, dimension=WIDTH).save(tmp_path / "small")
    engine_of(150_000, 500_000, dimension=WIDTH).save(tmp_path / "large")
    command = [sys.executable, str(PROBE), str(tmp_path / "small"), str(tmp_path / "large")]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ})
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout.splitlines()[-1])
    assert set(found) == {"induced", "incident", "full", "unlimited"}
    for name, of in found.items():
        assert abs(of["planned"] - of["real"]) <= 0.15 * of["real"], (name, of)
        assert of["resident"] > 150_000 * WIDTH * 4
    # the tables of all nodes are a large part of the peak, so a plan that left them out would fail
    assert found["full"]["real"] - found["full"]["resident"] > 0.3 * found["full"]["real"]


def test_a_plan_names_its_parts_and_sums_them(engine: tercet.Engine, tmp_path: Path) -> None:
    engine.save(tmp_path / "store")
    plan = tercet.estimate_memory(tmp_path / "store")
    parts = {p.name: p for p in plan.parts}
    for name, rows in (("vectors of name", 300), ("vectors of relation", 20)):
        assert 0 <= parts[name].bytes - rows * 8 * 4 <= 200  # the header of the file
        assert parts[name].mapped == parts[name].bytes
    # per edge: three int32 rows (key and relation are one), lists of one and twice two int32 (the far ends of those by
    # source are the targets); per node: four offsets; weights are all the same
    arrays = 32 * 2000 + 32 * 300
    assert 0 <= parts["graph arrays"].bytes - arrays <= 25 * 128 + 64
    assert plan.resident == sum(p.bytes for p in plan.parts)
    assert plan.peak == plan.resident + plan.opening + plan.working
    told = plan.to_json()
    assert json.loads(json.dumps(told)) == told
    assert told["peak"] == plan.peak
    assert "vectors of name" in str(plan)
    assert "peak" in str(plan)


def test_a_store_and_its_engine_have_one_plan(engine: tercet.Engine, tmp_path: Path) -> None:
    engine.save(tmp_path / "store")
    before = tercet.estimate_memory(tmp_path / "store")
    opened = tercet.open(tmp_path / "store", "cpu").estimate_memory()
    assert opened.working == before.working
    assert abs(opened.resident - before.resident) < 0.05 * before.resident
    assert opened.opening == 0  # that is over
    by_name = {p.name: p for p in opened.parts}
    if Path("/proc/self/maps").exists():
        assert by_name["vectors of name"].mapped == by_name["vectors of name"].bytes
        assert next(p for p in engine.estimate_memory().parts if p.name == "vectors of name").mapped == 0


def test_a_store_is_planned_without_reading_its_arrays(
    engine: tercet.Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.save(tmp_path / "store")
    monkeypatch.setattr("tercet.arrays.read_array", lambda file: pytest.fail(f"{file} was read"))
    monkeypatch.setattr(np, "memmap", lambda *args: pytest.fail(f"{args[0]} was mapped"))
    assert tercet.estimate_memory(tmp_path / "store").resident > 0


def test_the_command_line_shows_the_plan(engine: tercet.Engine, tmp_path: Path) -> None:
    engine.save(tmp_path / "store")
    run = lambda *more: CliRunner().invoke(cli.app, ["info", str(tmp_path / "store"), *more]).output  # noqa: E731
    assert "memory" not in json.loads(run("--json"))
    told = json.loads(run("--json", "--memory", "--batch", "32", "--wide-search-top-k", "0"))["memory"]
    assert told == json.loads(json.dumps(told))
    expected = tercet.estimate_memory(tmp_path / "store", batch=32, wide_search_top_k=None)
    assert {k: told[k] for k in ("peak", "batch", "projection")} == {
        "peak": expected.peak, "batch": 32, "projection": "full",
    }  # fmt: skip
    assert "resident" in run("--memory")
    assert "resident" not in run()


def test_few_queries_and_half_precision_are_planned_with_codes(monkeypatch) -> None:
    monkeypatch.setattr("tercet.index.exact.BYTES", False)
    few = engine_of(300, 500)
    made = lambda plan: sum(p.bytes for p in plan.parts if p.name == "codes of vectors")  # noqa: E731
    assert made(few.estimate_memory(batch=17)) == 0
    assert made(few.estimate_memory(batch=16)) == (300 + 20) * (64 + 12)
    few.recall(vectors=torch.randn(16, 8))
    index = few.collections[0].index
    assert sum(x.nbytes for x in index.codes[:4]) == 300 * (64 + 12)  # type: ignore[attr-defined]
    monkeypatch.setattr("tercet.index.exact.BYTES", True)  # then any search reads them
    assert made(few.estimate_memory(batch=17)) == (300 + 20) * (64 + 12)


def test_more_of_everything_takes_more(engine: tercet.Engine) -> None:
    plan = engine.estimate_memory
    assert plan(batch=512).working > plan(batch=256).working
    assert plan(wide_search_top_k=200).working > plan(wide_search_top_k=100).working
    assert plan(top_k=50).working > plan(top_k=5).working
    assert plan(projection="full").working > plan(projection="induced").working
    assert plan(projection="neighborhood").working > plan(projection="induced").working
    assert plan(wide_search_top_k=None).projection == "full"


@pytest.mark.parametrize("wrong", [
    {"batch": 0}, {"top_k": 0}, {"wide_search_top_k": 0}, {"projection": "some"}, {"device": "abacus"},
])  # fmt: skip
def test_wrong_arguments_are_refused(engine: tercet.Engine, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        engine.estimate_memory(**wrong)


def test_a_plan_of_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError):
        tercet.estimate_memory(tmp_path)


def test_a_plan_for_another_device_moves_the_arrays_and_leaves_the_text(engine: tercet.Engine) -> None:
    plan = engine.estimate_memory(device="cuda")
    where = {p.name: p.device for p in plan.parts}
    assert where["vectors of name"] == where["graph arrays"] == where["rows of owners"] == "cuda:0"
    assert where["node and edge text"] == where["owners of name"] == "cpu"
    assert plan.host > 0
    assert plan.mapped == 0
    if not torch.cuda.is_available():
        assert plan.free is None


def test_loading_more_than_is_free_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = engine_of(20_000, 60_000, dimension=64)
    engine.save(tmp_path / "store")
    monkeypatch.setattr(memory_plan, "free_bytes", lambda device: 2_000_000)
    with pytest.raises(NotEnoughMemory, match=r"wanted .* MB, free 2.0 MB: graph arrays 2\.\d MB") as error:
        tercet.open(tmp_path / "store", "cpu")
    assert isinstance(error.value, TercetError)
    assert isinstance(error.value, MemoryError)
    assert "check_memory=False" in str(error.value)
    assert "mapped, not counted: node and edge text" in str(error.value)
    assert "vectors of name 5.1 MB" in str(error.value)
    assert tercet.open(tmp_path / "store", "cpu", check_memory=False).graph.num_edges == engine.graph.num_edges
    # mapped vectors alone don't count, nor does what is in memory already
    monkeypatch.setattr(memory_plan, "free_bytes", lambda device: 6_000_000)
    tercet.open(tmp_path / "store", "cpu")
    monkeypatch.setattr(memory_plan, "free_bytes", lambda device: 1_000_000)
    tercet.Engine(engine.graph, engine.collections, device="cpu")


def test_another_device_wants_all_of_it() -> None:
    engine = engine_of(100, 500)
    sizes = of_engine(engine.graph, engine.collections, "native")
    placed = memory_plan._placed(sizes, torch.device("cuda", 0))
    moving = sum(p.bytes for p in placed if p.device == "cuda:0")
    assert moving > 56 * 500 + (100 + 20) * 8 * 4


def _tight(most: int, error: Exception, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Let searches of more than `most` queries fail; returns the sizes that were tried."""
    tried: list[int] = []
    retrieve = engine_module.retrieve

    def fake(plan: Any, queries: torch.Tensor) -> Any:
        tried.append(queries.shape[0])
        if queries.shape[0] > most:
            raise error
        return retrieve(plan, queries)

    monkeypatch.setattr(engine_module, "retrieve", fake)
    return tried


@pytest.mark.parametrize("error", [
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"), MemoryError(),
    RuntimeError("[enforce fail at alloc_cpu.cpp:124] err == 0. DefaultCPUAllocator: can't allocate memory"),
], ids=["cuda", "numpy", "torch"])  # fmt: skip
@pytest.mark.parametrize("given", [{}, {"wide_search_top_k": None}, {"projection": "incident"}], ids=str)
def test_a_batch_that_does_not_fit_is_halved_and_says_so(
    engine: tercet.Engine, queries: torch.Tensor, error: Exception, given: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    whole = engine.recall(vectors=queries, **given)
    assert whole.halved == 0
    tried = _tight(7, error, monkeypatch)
    parts = engine.recall(vectors=queries, **given)
    assert parts.halved == 3
    assert tried[:3] == [50, 25, 13]
    assert all(n <= 7 for n in tried[3:])
    assert sum(tried[3:]) == 50
    assert torch.equal(parts.edges, whole.edges)
    assert torch.equal(parts.distances, whole.distances)
    assert torch.equal(parts.scores.nan_to_num(), whole.scores.nan_to_num())
    assert parts.status == whole.status
    assert parts.texts() == whole.texts()
    assert parts[49].explain()["halved"] == 3
    assert whole[0].explain()["halved"] == 0


def test_a_query_that_does_not_fit_alone_is_refused(
    engine: tercet.Engine, queries: torch.Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = _tight(0, MemoryError("no room"), monkeypatch)
    with pytest.raises(NotEnoughMemory, match="one query alone doesn't fit") as error:
        engine.recall(vectors=queries[:4])
    assert isinstance(error.value.__cause__, MemoryError)
    assert tried == [4, 2, 1]


def test_other_errors_are_not_taken_for_a_lack_of_memory(
    engine: tercet.Engine, queries: torch.Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = _tight(0, RuntimeError("expected scalar type Float but found Double"), monkeypatch)
    with pytest.raises(RuntimeError, match="scalar type"):
        engine.recall(vectors=queries)
    assert tried == [50]


def test_later_chunks_begin_with_what_fitted(
    engine: tercet.Engine, queries: torch.Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = _tight(10, MemoryError(), monkeypatch)
    got = engine.recall(vectors=queries, batch_size=20)
    assert tried == [20, 10, 10, 10, 10, 10]
    assert got.halved == 1


@pytest.mark.parametrize(("limit", "expected"), [("1000000", 700_000), ("max", None)])
def test_the_limit_of_a_control_group_counts(
    limit: str, expected: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Version 2: 400 kB in use, 100 kB of which are file pages that can be dropped."""
    own = tmp_path / "cgroup"
    own.write_text("0::/outer/inner\n")
    group = tmp_path / "sys" / "outer"
    (group / "inner").mkdir(parents=True)
    (group / "memory.max").write_text(f"{limit}\n")  # that of a group further up
    (group / "memory.current").write_text("400000\n")
    (group / "memory.stat").write_text("anon 300000\ninactive_file 60000\nactive_file 40000\n")
    (group / "inner" / "memory.max").write_text("max\n")
    monkeypatch.setattr(memory, "OWN_GROUPS", own)
    monkeypatch.setattr(memory, "GROUPS", tmp_path / "sys")
    free = memory.free_bytes(torch.device("cpu"))
    assert free == expected if expected is not None else free > 1 << 20


def test_the_limit_of_a_control_group_of_version_1_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a container the path in /proc is the host's, and the group lies at the root of the mount."""
    own = tmp_path / "cgroup"
    own.write_text("5:cpu:/docker/abc\n4:memory:/docker/abc\n0::/\n")
    group = tmp_path / "sys" / "memory"
    group.mkdir(parents=True)
    (group / "memory.limit_in_bytes").write_text("2000000\n")
    (group / "memory.usage_in_bytes").write_text("1500000\n")
    (group / "memory.stat").write_text("total_inactive_file 100000\ntotal_active_file 0\n")
    monkeypatch.setattr(memory, "OWN_GROUPS", own)
    monkeypatch.setattr(memory, "GROUPS", tmp_path / "sys")
    assert memory.free_bytes(torch.device("cpu")) == 600_000


@pytest.mark.parametrize("count", [0, 1, 1000])
def test_absent_texts_are_nulls(count: int) -> None:
    blank = no_texts(count)
    blank.validate(full=True)
    assert blank.equals(pa.nulls(count, pa.large_string()))
    assert blank.take(pa.array([0] * min(count, 1), pa.int64())).to_pylist() == [None] * min(count, 1)


def test_one_piece_copies_only_what_is_in_several() -> None:
    column = pa.chunked_array([["a", "b"]])
    assert one_piece(column).buffers()[2].address == column.chunk(0).buffers()[2].address
    assert one_piece(pa.chunked_array([["a"], ["b"]])).to_pylist() == ["a", "b"]
    assert len(one_piece(pa.chunked_array([], pa.string()))) == 0
