"""Comparing two runs: what counts as slower, and what can't be compared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.cli import main
from bench.compare import compare, show
from bench.records import Folder, Run, read
from tercet.errors import InvalidArgument


def timed(system: str, median: float, spread: float = 0.02, suite: str = "recall", **more: Any) -> dict[str, Any]:
    return {
        "suite": suite, "system": system, "workload": {"name": "w"}, "settings": {"batch": 1}, "median_s": median,
        "p20_s": median * (1 - spread), "p80_s": median * (1 + spread), "repeats": 5, **more,
    }  # fmt: skip


def run_of(*cells: dict[str, Any], machine: str = "a", threads: int = 1) -> Run:
    return Run({"machine": {"id": machine}, "threads": threads}, list(cells), Path("nowhere"))


def test_slower_beyond_the_noise_fails() -> None:
    found = compare(run_of(timed("tercet", 1.0)), run_of(timed("tercet", 1.2)))
    assert [p.worse for p in found.pairs] == [True]
    assert found.failed
    assert "1.20x" in show(found)
    assert "WORSE" in show(found)


@pytest.mark.parametrize(
    ("old", "new", "spread"),
    [
        (1.0, 1.2, 0.15),  # the quantiles overlap
        (1.0, 1.08, 0.001),  # beyond the noise, within the threshold
        (1.2, 1.0, 0.001),  # faster
    ],
)
def test_noise_and_small_changes_pass(old: float, new: float, spread: float) -> None:
    found = compare(run_of(timed("tercet", old, spread)), run_of(timed("tercet", new, spread)))
    assert not found.failed
    assert (found.pairs[0].verdict == "better") == (new < old)


def test_a_busy_machine_slows_the_others_too() -> None:
    others = [timed("torch", 1.0) | {"settings": {"batch": b}} for b in range(5)]
    slowed = [c | timed("torch", 1.5) | {"settings": c["settings"]} for c in others]
    old, busy = run_of(timed("tercet", 1.0), *others), run_of(timed("tercet", 1.4), *slowed)
    assert not compare(old, busy).failed
    assert compare(old, busy).others == pytest.approx((1.5, 1.5, 1.5))
    assert compare(old, run_of(timed("tercet", 1.6), *slowed)).failed
    assert compare(old, run_of(timed("tercet", 1.4), *others)).failed


def test_another_system_never_fails_a_comparison() -> None:
    found = compare(run_of(timed("torch", 1.0), timed("scipy", 1.0)), run_of(timed("torch", 9.0), timed("scipy", 1.0)))
    assert not found.failed
    assert {p.verdict for p in found.pairs} == {"slower", "noise"}


def test_few_samples_show_no_spread() -> None:
    found = compare(run_of(timed("tercet", 1.0)), run_of(timed("tercet", 2.0) | {"repeats": 2}))
    assert [p.verdict for p in found.pairs] == ["few samples"]
    assert not found.failed


def test_only_equal_cells_are_paired() -> None:
    old = run_of(timed("tercet", 1.0), timed("torch", 1.0))
    new = run_of(timed("tercet", 1.0, suite="search"), timed("torch", 9.0) | {"settings": {"batch": 2}})
    found = compare(old, new)
    assert found.pairs == []
    assert len(found.only_old) == len(found.only_new) == 2
    assert not found.failed


def test_a_refused_cell_fails() -> None:
    refused = {"suite": "recall", "system": "tercet", "workload": None, "settings": {}, "refused": "test_x.py::test_y"}
    found = compare(run_of(timed("tercet", 1.0)), run_of(timed("tercet", 1.0), refused))
    assert found.failed
    assert "test_x.py::test_y" in show(found)


@pytest.mark.parametrize("other", [{"machine": "b"}, {"threads": 2}])
def test_other_machines_and_threads_are_refused(other: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument, match="--across-machines"):
        compare(run_of(timed("tercet", 1.0)), run_of(timed("tercet", 1.0), **other))


def test_across_machines_multiples_of_the_reference_are_compared() -> None:
    old = run_of(timed("torch", 0.1, suite="reference"), timed("tercet", 1.0))
    same = run_of(timed("torch", 0.3, suite="reference"), timed("tercet", 3.0), machine="b")
    slow = run_of(timed("torch", 0.3, suite="reference"), timed("tercet", 4.0), machine="b")
    assert compare(old, same, across=True).pairs[0].ratio == pytest.approx(1.0)
    assert not compare(old, same, across=True).failed
    assert compare(old, slow, across=True).pairs[0].ratio == pytest.approx(4 / 3)
    assert compare(old, slow, across=True).failed
    with pytest.raises(InvalidArgument, match="reference"):
        compare(run_of(timed("tercet", 1.0)), same, across=True)


def test_kept_rankings_are_compared(tmp_path: Path) -> None:
    for name, edge in (("a", 1), ("b", 1), ("c", 2)):
        folder = Folder(tmp_path / name)
        folder.manifest({"machine": {"id": "a"}, "threads": 1})
        folder.put(timed("tercet", 1.0, ranking={"edges": np.array([[edge]]), "scores": np.array([[np.nan]])}))
    a, b, c = (read(tmp_path / name) for name in "abc")
    assert compare(a, b).pairs[0].rankings == "same"
    assert compare(a, c).pairs[0].rankings == "differ"


def test_exit_status(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, median in (("old", 1.0), ("new", 2.0)):
        folder = Folder(tmp_path / name)
        folder.manifest({"machine": {"id": "a"}, "threads": 1})
        folder.put(timed("tercet", median))
    assert main(["compare", str(tmp_path / "old"), str(tmp_path / "new")]) == 1
    assert main(["compare", str(tmp_path / "new"), str(tmp_path / "old")]) == 0
    assert main(["compare", str(tmp_path), str(tmp_path / "old")]) == 2
    assert "manifest.json" in capsys.readouterr().err
