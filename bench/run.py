"""A run: suites after one another, each behind its gate, every cell written as it comes."""

import time
from pathlib import Path
from typing import Any

import torch

from bench.config import Config
from bench.gate import Gate
from bench.machine import about, busy
from bench.records import Cell, Folder, refused, skipped
from bench.suites import cells_of, gating_tests
from tercet.errors import MissingDependency


def run(config: Config, out: Path, gate: Gate | None = None) -> int:
    """Time the suites of a configuration.

    Returns:
        0, or 1 when a suite was refused because its tests are red, or a cell because its process failed.

    Raises:
        InvalidArgument: an unknown suite or workload, or `out` holds results.
    """
    suites = config["run"]["suites"]
    needed = {suite: gating_tests(suite) for suite in suites}  # an unknown suite ends the run before it starts
    folder = Folder(out)
    if config["run"]["threads"]:
        torch.set_num_threads(config["run"]["threads"])
    gate = gate or Gate()
    manifest: dict[str, Any] = {**about(), "seed": config["run"]["seed"], "config": config, "gate": gate.verdicts}
    folder.manifest(manifest)
    failed = False
    for suite in suites:
        red = gate.red(needed[suite])
        if red:
            failed = True
            show(folder.put({"suite": suite, **refused("tercet", None, {}, red)}))
            continue
        try:
            for cell in cells_of(config, suite):
                failed |= "refused" in cell
                show(folder.put({**cell, "busy": busy()}))
        except MissingDependency as error:
            show(folder.put({"suite": suite, **skipped("tercet", None, {}, str(error))}))
    folder.manifest({**manifest, "ended": time.strftime("%Y-%m-%d %H:%M")})
    print(f"{folder.count} cells in {out}; `python -m bench report {out}` makes the page")
    return 1 if failed else 0


def show(cell: Cell) -> None:
    """A line for the terminal."""
    print(line(cell), flush=True)


def line(cell: Cell) -> str:
    """A cell in one line."""
    name = (cell.get("workload") or {}).get("name", "")
    settings = " ".join(f"{k}={v}" for k, v in cell.get("settings", {}).items())
    head = f"{cell['suite']:9} {cell['system']:14} {name:26} {settings:44}"
    for why in ("refused", "skipped"):
        if why in cell:
            return f"{head} {why}: {cell[why]}"
    parts = [f"{cell['median_s'] * 1e3:10.3f} ms"]
    if "qps" in cell:
        parts.append(f"{cell['qps']:12,.{1 if cell['qps'] >= 1 else 4}f}/s")
    if cell.get("recall") is not None:
        parts.append(f"recall {cell['recall']:.4f}")
    if "share" in cell:
        parts.append(f"{cell['share']:.0%} of the {cell['bound']} roof")
    if "agreement" in cell:
        parts.append(f"agrees {cell['agreement']['same']}/{cell['agreement']['queries']}")
    if cell.get("stages"):
        parts.append("[" + ", ".join(f"{s} {v * 1e3:.2f}" for s, v in cell["stages"].items()) + "]")
    return f"{head} {'  '.join(parts)}"
