"""`tercet bench` hands over to the checkout's benchmark."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from tercet import cli


def test_arguments_and_exit_status_pass_through(capfd: pytest.CaptureFixture[str]) -> None:
    assert CliRunner().invoke(cli.app, ["bench", "run", "--set", "run.nosuch=1"]).exit_code == 2
    assert "run.nosuch" in capfd.readouterr().err
    assert CliRunner().invoke(cli.app, ["bench", "list"]).exit_code == 0
    assert "roofline" in capfd.readouterr().out
    assert CliRunner().invoke(cli.app, ["bench", "--help"]).exit_code == 0
    assert "python -m bench" in capfd.readouterr().out


def test_without_a_checkout_it_says_so_in_a_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(cli, "__file__", str(tmp_path / "lib" / "tercet" / "cli.py"))
    got = CliRunner().invoke(cli.app, ["bench"])
    assert got.exit_code == 2
    assert got.output.count("\n") == 1
    assert "checkout" in got.output
