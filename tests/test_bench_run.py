"""Runs of tiny graphs: every suite of this process yields cells that say what they hold."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from bench.cli import main
from bench.config import load
from bench.gate import Gate
from bench.records import identity, read
from bench.run import run

TINY = [
    "run.budget_s=0.3", "run.repeats=2", "run.warmup=1", "run.queries=8", "run.dimension=16", "run.wide=20",
    'recall.workloads=["uniform:200:800", "type_hubs:200:800:each"]', "recall.batches=[1, 12]", "recall.wide=[20, 0]",
    "recall.cold=false", 'search.workloads=["uniform:400:400"]', "search.batches=[1, 8]", "search.approx_batches=[8]",
    "search.k=5", "search.hnsw_ef_search=[16]", "search.ivf_nprobe=[1, 4]", "search.pq_nprobe=[4]",
    'graph.workloads=["power_law:200:900"]', "graph.batches=[4]", "graph.count=30", "graph.relations=10",
    'pipeline.workloads=["uniform:200:800"]', "pipeline.batches=[1, 8]", 'full.workloads=["type_hubs:200:800"]',
    "full.batches=[8]", 'render.workloads=["uniform:200:800"]', "render.batch=8", "render.wide=50",
    'scaling.workloads=["uniform:100:400", "uniform:200:800"]', "scaling.batch=4", "scaling.count=10",
    'build.workloads=["uniform:200:800"]', "roofline.copy_mb=1", "roofline.gemm=64", "roofline.batches=[1, 4]",
    'roofline.search=["uniform:200:800"]', 'roofline.graph=["uniform:200:800"]', "roofline.count=20", "roofline.k=5",
]  # fmt: skip
SUITES = ["reference", "recall", "search", "graph", "pipeline", "full", "render", "build", "scaling", "roofline"]


class Green(Gate):
    def red(self, files: object) -> str:
        return ""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("bench") / "run"
    assert run(load([], [*TINY, f"run.suites={json.dumps(SUITES)}"]), out, Green()) == 0
    return out


def test_every_suite_is_timed(folder: Path) -> None:
    cells = read(folder).cells
    assert list(dict.fromkeys(c["suite"] for c in cells)) == SUITES
    for c in [c for c in cells if "skipped" not in c]:
        assert 0 < c["p20_s"] <= c["median_s"] <= c["p80_s"], c
        assert len(c["samples_s"]) == c["repeats"]
        assert c["median_s"] == pytest.approx(np.median(c["samples_s"]))
    assert len({identity(c) for c in cells}) == len(cells)


def test_the_manifest_says_what_the_figures_depend_on(folder: Path) -> None:
    manifest = read(folder).manifest
    assert manifest["seed"] == 0
    assert manifest["threads"] >= 1
    assert manifest["machine"]["id"]
    assert {"torch", "numpy"} <= manifest["versions"].keys()
    assert manifest["config"]["run"]["suites"] == SUITES


def test_answers_agree_and_do_not_depend_on_the_batch(folder: Path) -> None:
    cells = read(folder).cells
    compared = [c for c in cells if "agreement" in c]
    assert {(c["suite"], c["system"]) for c in compared} >= {
        ("graph", "torch"),
        ("pipeline", "torch"),
        ("full", "torch"),
    }
    for c in compared:
        assert c["agreement"]["same"] == c["agreement"]["queries"] > 0, c
    for c in [c for c in cells if "alone_same" in c]:
        same, of = c["alone_same"].split("/")
        assert same == of


def test_recall_stands_beside_every_search(folder: Path) -> None:
    cells = [c for c in read(folder).cells if c["suite"] == "search" and "skipped" not in c]
    assert {c["system"] for c in cells} >= {"tercet", "torch"}
    for c in cells:
        assert c["recall"] == 1.0 if c["system"] != "tercet-approx" else 0 < c["recall"] <= 1, c
    few, many = (
        next((c["recall"] for c in cells if c["settings"].get("nprobe") == n and c["settings"]["index"] == "ivf"), None)
        for n in (1, 4)
    )
    if few is not None:
        assert few <= many


def test_bytes_operations_and_shares(folder: Path) -> None:
    cells = read(folder).cells
    search = next(c for c in cells if c["suite"] == "search" and c["system"] == "torch" and c["settings"]["batch"] == 8)
    assert search["flops"] == 2 * 8 * 400 * 16
    assert search["bytes"] == 4 * 16 * (400 + 8)
    assert search["gflop_s"] == pytest.approx(search["flops"] / search["median_s"] / 1e9)
    shares = [c for c in cells if "share" in c]
    assert shares
    assert all(c["share"] > 0 and c["bound"] in ("memory", "arithmetic") for c in shares)


def test_rankings_are_kept(folder: Path) -> None:
    cell = next(c for c in read(folder).cells if c["suite"] == "recall" and c["settings"]["batch"] == 12)
    with np.load(folder / cell["rankings"], allow_pickle=False) as kept:
        assert kept["edges"].shape == kept["scores"].shape == (12, 10)
        np.testing.assert_array_equal(kept["edges"][:4], kept["edges"][8:])  # 8 queries repeat


def test_results_are_never_overwritten(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--suites", "reference", "--out", str(folder)]) == 2
    assert "never overwritten" in capsys.readouterr().err


def test_run_is_the_command_when_none_is_named(tmp_path: Path) -> None:
    out = tmp_path / "run"
    assert main(["--suites", "reference", "--set", "run.budget_s=0.2", "--out", str(out)]) == 0
    assert [c["system"] for c in read(out).cells] == ["torch"]


def test_wrong_settings_end_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--set", "run.nosuch=1"]) == 2
    assert "run.nosuch" in capsys.readouterr().err


def test_the_first_call_of_a_process(tmp_path: Path) -> None:
    sets = [*TINY, 'run.suites=["memory"]', 'memory.workloads=["uniform:200:800"]', "memory.wide=[20]",
            "memory.batches=[4]"]  # fmt: skip
    assert run(load([], sets), tmp_path / "run", Green()) == 0
    (cell,) = read(tmp_path / "run").cells
    assert cell["settings"]["cold"]
    assert (cell["warmups"], cell["repeats"]) == (0, 1)
    assert cell["data_bytes"] > 4 * 16 * (200 + 800)
    assert cell["peak_bytes"] is None or cell["peak_bytes"] >= 0
    assert cell["second_s"] < cell["import_s"] + cell["median_s"] + cell["build_s"]


def test_a_process_that_fails_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "/bin/false")
    sets = [*TINY, 'run.suites=["memory"]', 'memory.workloads=["uniform:50:100"]', "memory.wide=[20]",
            "memory.batches=[1, 2]"]  # fmt: skip
    assert run(load([], sets), tmp_path / "run", Green()) == 1
    assert ["ended with 1" in c["refused"] for c in read(tmp_path / "run").cells] == [True, True]
