"""The GPU benchmark: a smoke run on the CPU, and what it makes of its rows."""

import json
from pathlib import Path

import pytest
import torch

from bench import gpu, gpu_checks
from tercet_kernels.fragment import reference as fragments


def test_every_step_runs_and_every_op_is_equal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert gpu.main(["--small", "--device", "cpu", "--out", str(tmp_path)]) == 0
    rows = [json.loads(line) for line in (tmp_path / "cells.jsonl").read_text().splitlines()]
    assert rows[0]["torch"] == torch.__version__
    checks = {row["op"]: row["check"] for row in rows if "check" in row}
    assert set(checks) == set(gpu_checks.PROBLEMS) | {"recall"}
    assert all(found["problems"] >= 5 and found["failed"] == [] for found in checks.values())
    timed = [row for row in rows if "median_s" in row]
    assert {row["op"] for row in timed} >= {"copy", "matmul", "propose", *checks} - {"captured"}
    assert all(row["median_s"] > 0 and row["bytes"] > 0 for row in timed)
    printed = capsys.readouterr().out
    assert printed.rstrip().endswith("- check recall: 5 problems, all equal")
    assert (tmp_path / "table.md").read_text().count("\n| ") == len(timed) + 1


def test_an_op_that_differs_is_named_and_not_timed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    case = fragments.example(2, nodes=9, edges=30, hits=4)

    def wrong(**arguments):
        got = fragments.fragment(**arguments)
        return got._replace(edge=got.edge.flip(0))

    monkeypatch.setitem(
        gpu_checks.PROBLEMS, "expand", lambda: iter([("one", wrong, fragments.fragment, {**case, "either": True})])
    )
    monkeypatch.setitem(gpu.STEPS, "expand", (("expand",), lambda bench: pytest.fail("timed")))
    code = gpu.main(["--small", "--device", "cpu", "--out", str(tmp_path), "--steps", "expand"])
    assert code == 1
    assert "check expand: 1 problems, 2 DIFFER, first: one: device" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("got", "want", "differs"),
    [
        (torch.tensor([1.0, torch.nan]), torch.tensor([1.0, torch.nan]), False),
        (torch.tensor([1.0]), torch.tensor([1.0 + 1e-7]), True),
        (torch.tensor([1]), torch.tensor([1], dtype=torch.int32), True),
        (torch.tensor([1]), torch.tensor([[1]]), True),
        ((torch.tensor([1]), torch.tensor([2])), (torch.tensor([1]), torch.tensor([3])), True),
    ],
)
def test_differ(got, want, differs: bool) -> None:
    assert gpu_checks.differ(got, want) is differs


def test_shares_are_of_the_measured_copy_and_matrix_rates() -> None:
    row = {"flops": 0, "rate": None, "queries": None, "problem": "x"}
    text = gpu.table(
        [
            {**row, "op": "copy", "median_s": 1.0, "bytes": 4_000_000_000},
            {**row, "op": "matmul", "median_s": 1.0, "bytes": 1, "flops": 8_000_000_000_000, "rate": "fp16"},
            {
                **row,
                "op": "search",
                "median_s": 0.5,
                "bytes": 500_000_000,
                "flops": 10**12,
                "rate": "fp16",
                "queries": 8,
            },
            {"op": "fragment", "error": "exit 1: fault"},
        ]
    )
    assert "| search | x | 500.000 | 1 | 25% | 2.00 | 25% | 16 |" in text
    assert text.endswith("- step fragment FAILED: exit 1: fault")


@pytest.mark.skipif(torch.cuda.is_available(), reason="a CUDA device is here")
def test_without_cuda_it_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert gpu.main(["--out", str(tmp_path)]) == 2
    assert "sees no CUDA device" in capsys.readouterr().err
    assert gpu.main(["--out", str(tmp_path), "--device", "cpu"]) == 2
    assert list(tmp_path.iterdir()) == []


def test_a_step_that_faults_or_hangs_costs_one_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = gpu.argparse.Namespace(device="cpu", budget=1.0, small=True)
    monkeypatch.setattr(gpu.sys, "executable", "/bin/false")
    assert gpu.in_a_process("limits", tmp_path, given) == "exit 1: "
    (tmp_path / "wait").write_text("#!/bin/sh\nexec sleep 9\n")
    (tmp_path / "wait").chmod(0o755)
    monkeypatch.setattr(gpu.sys, "executable", str(tmp_path / "wait"))
    monkeypatch.setattr(gpu, "STEP_SECONDS", 0.1)
    assert gpu.in_a_process("limits", tmp_path, given) == "stopped after 0.1 s"
