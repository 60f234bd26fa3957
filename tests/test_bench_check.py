"""Ratios of Tercet's stages to plain torch, in this process: the speed that every change must keep."""

from __future__ import annotations

import time

import pytest

from bench.check import check, ratio, show
from bench.cli import main
from bench.config import load


def test_stages_keep_their_ratios_to_plain_torch() -> None:
    found = check(load())
    assert {r.name for r in found} == {"search", "graph", "pipeline", "full", "expand"}
    assert all(r.good for r in found), show(found)


def test_a_ratio_over_its_limit_is_measured_again_and_fails() -> None:
    slow, fast = (lambda: time.sleep(0.2)), (lambda: time.sleep(0.002))  # far apart on a busy machine, too
    over = ratio("x", slow, fast, limit=1.5, repeats=2, attempts=2)
    assert not over.good
    assert over.attempts == 2
    assert "OVER in 2 attempts" in show([over])
    under = ratio("x", fast, slow, limit=1.5, repeats=2, attempts=2)
    assert under.good
    assert under.attempts == 1


def test_exit_status(capsys: pytest.CaptureFixture[str]) -> None:
    small = ["check.nodes=200", "check.edges=800", "check.batch=2", "check.repeats=1", "check.attempts=1"]
    easy = [f"check.{name}=1000" for name in ("search", "graph", "pipeline", "full", "expand")]
    flags = [x for s in [*small, *easy] for x in ("--set", s)]
    assert main(["check", *flags]) == 0
    assert main(["check", *flags, "--set", "check.graph=0.0"]) == 1
    assert "graph" in capsys.readouterr().out
