"""The benchmark's settings: defaults, differences, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import real
from bench.config import FOLDER, load
from bench.prepare import CANDIDATES, parse
from bench.suites import NAMES, gating_tests
from tercet.errors import InvalidArgument


def write(folder: Path, text: str) -> Path:
    path = folder / "mine.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_file_changes_what_it_names_and_nothing_else(tmp_path: Path) -> None:
    default = load()
    got = load([write(tmp_path, "[recall]\nbatches = [3]\n[run]\nbudget_s = 1\n")], ["recall.cold=false"])
    assert got["recall"] == {**default["recall"], "batches": [3], "cold": False}
    assert got["run"] == {**default["run"], "budget_s": 1.0}
    assert got["search"] == default["search"]


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("[recall]\nbatchs = [1]", "'recall.batchs'"),
        ("[reccall]\nbatches = [1]", "'reccall'"),
        ("[recall]\nbatches = 1", "recall.batches: expected list, got 1"),
        ("[recall]\nbatches = ['x']", r"recall.batches\[0\]: expected int, got 'x'"),
        ("[recall]\ncold = 1", "recall.cold: expected bool, got 1"),
        ("recall = 1", "recall: expected a table"),
        ("[recall", "mine.toml"),
    ],
)
def test_what_the_defaults_do_not_have_is_refused_by_name(tmp_path: Path, text: str, named: str) -> None:
    with pytest.raises(InvalidArgument, match=named):
        load([write(tmp_path, text)])


@pytest.mark.parametrize(
    ("text", "named"),
    [("recall.cold", "--set"), ("cold=true", "--set"), ("recall.cold=maybe", "TOML"), ("recall.batchs=[1]", "batchs")],
)
def test_bad_settings_of_the_command_line(text: str, named: str) -> None:
    with pytest.raises(InvalidArgument, match=named):
        load([], [text])


def test_an_unknown_file_names_the_known_ones() -> None:
    with pytest.raises(InvalidArgument, match="quick"):
        load(["nosuch"])


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.toml")), ids=lambda p: p.stem)
def test_every_configuration_names_real_suites_workloads_and_tests(path: Path) -> None:
    config = load([path])
    assert set(config["run"]["suites"]) <= set(NAMES)
    assert set(config) == {*NAMES, "run", "check"}
    for suite in NAMES:
        missing = [f for f in gating_tests(suite) if not (FOLDER.parents[1] / f).is_file()]
        assert not missing, suite
        specs = config[suite].get("workloads", [])
        for spec in [s for s in specs if s not in real.NAMES]:
            parse(spec)
        assert set(config[suite].get("candidates", [])) <= set(CANDIDATES)


def test_every_default_has_a_comment() -> None:
    lines = (FOLDER / "default.toml").read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if " = " in line and "#" not in line] == []


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("uniform:500:2k", ("uniform", 500, 2000, None)),
        ("type_hubs:10k:50k:each", ("type_hubs", 10_000, 50_000, "each")),
        ("power_law:1M:10M:50k", ("power_law", 1_000_000, 10_000_000, 50_000)),
    ],
)
def test_workloads_by_name(spec: str, expected: tuple[object, ...]) -> None:
    assert parse(spec) == expected


@pytest.mark.parametrize("spec", ["star:1k:2k", "uniform:1k", "uniform:1k:two", "uniform:1k:2k:3:4", "wordnet"])
def test_no_workload(spec: str) -> None:
    with pytest.raises(InvalidArgument, match="workload"):
        parse(spec)
