"""The gate: red tests keep a suite from being timed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.config import load
from bench.gate import Gate
from bench.run import run
from tercet.errors import InvalidArgument


def files(folder: Path) -> None:
    (folder / "test_green.py").write_text("def test_good():\n    pass\n")
    (folder / "test_red.py").write_text("def test_good():\n    pass\ndef test_bad():\n    assert 1 == 2\n")
    (folder / "test_broken.py").write_text("import nosuchmodule\n")


def test_verdicts(tmp_path: Path) -> None:
    files(tmp_path)
    gate = Gate(tmp_path)
    assert gate.red(["test_green.py"]) == ""
    assert gate.red(["test_green.py", "test_red.py"]) == "test_red.py::test_bad"
    assert gate.red(["test_broken.py"]) == "test_broken.py"
    assert gate.red(["test_none.py"]) == "test_none.py is missing"
    assert gate.red([]) == ""


def test_a_file_is_judged_once(tmp_path: Path) -> None:
    files(tmp_path)
    gate = Gate(tmp_path)
    assert gate.red(["test_red.py"])
    (tmp_path / "test_red.py").write_text("def test_good():\n    pass\n")
    assert gate.red(["test_red.py"]) == "test_red.py::test_bad"
    assert Gate(tmp_path).red(["test_red.py"]) == ""


def test_a_suite_is_refused_and_the_run_fails(tmp_path: Path) -> None:
    (tmp_path / "tests" / "engine").mkdir(parents=True)
    (tmp_path / "tests" / "kernels").mkdir()
    for name in ("engine/test_context.py", "engine/test_recall.py"):
        (tmp_path / "tests" / name).write_text("def test_it():\n    raise RuntimeError\n")
    config = load([], ['run.suites=["render"]'])
    assert run(config, tmp_path / "out", Gate(tmp_path)) == 1
    (cell,) = [json.loads(line) for line in (tmp_path / "out" / "cells.jsonl").read_text().splitlines()]
    assert cell["refused"] == "tests/engine/test_context.py::test_it"
    assert "median_s" not in cell
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert manifest["gate"]["tests/engine/test_context.py"] == "tests/engine/test_context.py::test_it"


def test_an_unknown_suite_ends_a_run_before_it_starts(tmp_path: Path) -> None:
    config = load([], ['run.suites=["reference", "nosuch"]'])
    with pytest.raises(InvalidArgument, match="nosuch"):
        run(config, tmp_path / "out")
    assert not (tmp_path / "out").exists()
