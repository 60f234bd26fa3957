"""Raw results: a folder with `manifest.json`, `cells.jsonl` and the rankings of small cells as `.npz`."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench.timing import Timing
from bench.workloads import Workload
from tercet.errors import InvalidArgument, InvalidData

Cell = dict[str, Any]
RANKED_AT_MOST = 1 << 18  # entries of a ranking that is kept


@dataclass(frozen=True)
class Run:
    """What a folder holds."""

    manifest: dict[str, Any]
    cells: list[Cell]
    folder: Path


class Folder:
    """Writes a run; a cell is on disk as soon as it is known."""

    def __init__(self, path: Path) -> None:
        if path.exists() and any(path.iterdir()):
            raise InvalidArgument(f"{path}: results are never overwritten; give --out another folder")
        path.mkdir(parents=True, exist_ok=True)
        self.path, self.count = path, 0

    def manifest(self, about: dict[str, Any]) -> None:
        text = json.dumps(about, indent=2, default=str)
        (self.path / "manifest.json").write_text(text + "\n", encoding="utf-8")

    def put(self, cell: Cell) -> Cell:
        """Append a cell; arrays under "ranking" go to a file of their own."""
        ranking = cell.pop("ranking", None)
        if ranking is not None and sum(a.size for a in ranking.values()) <= RANKED_AT_MOST:
            name = f"rankings/{self.count:04d}.npz"
            (self.path / "rankings").mkdir(exist_ok=True)
            np.savez_compressed(self.path / name, allow_pickle=False, **ranking)
            cell["rankings"] = name
        with (self.path / "cells.jsonl").open("a", encoding="utf-8") as sink:
            sink.write(json.dumps(cell) + "\n")
        self.count += 1
        return cell


def read(path: str | Path) -> Run:
    """The run that a `Folder` wrote."""
    folder = Path(path)
    for name in ("manifest.json", "cells.jsonl"):
        if not (folder / name).is_file():
            raise InvalidArgument(f"{folder}: expected the folder of a run, it has no {name}")
    cells = []
    for number, line in enumerate((folder / "cells.jsonl").read_text(encoding="utf-8").splitlines(), 1):
        try:
            cells.append(json.loads(line))
        except json.JSONDecodeError as error:
            raise InvalidData(f"{folder / 'cells.jsonl'} line {number}: {error}") from error
    return Run(json.loads((folder / "manifest.json").read_text(encoding="utf-8")), cells, folder)


def identity(cell: Cell) -> str:
    """What two cells have to agree in to be compared."""
    workload = cell.get("workload") or {}
    return json.dumps([cell["suite"], cell["system"], workload.get("name"), cell.get("settings", {})], sort_keys=True)


def describe(workload: Workload) -> dict[str, Any]:
    """A workload as cells name it."""
    return {
        "name": workload.name, "nodes": workload.num_nodes, "edges": workload.num_edges,
        "relations": len(workload.relation_vectors), "dimension": workload.node_vectors.shape[1],
        "vectors": workload.vectors,
    }  # fmt: skip


def cell(system: str, workload: dict[str, Any] | None, settings: dict[str, Any], timing: Timing, **more: Any) -> Cell:
    """One timed cell; `batch` among the settings gives a rate, `bytes` and `flops` among `more` give theirs."""
    out: Cell = {
        "system": system, "workload": workload, "settings": settings, "p20_s": timing.p20_s,
        "median_s": timing.median_s, "p80_s": timing.p80_s, "cpu_s": timing.cpu_s, "repeats": timing.repeats,
        "warmups": timing.warmups, "samples_s": list(timing.samples_s), "growth_bytes": timing.peak_rss_delta,
    }  # fmt: skip
    if "batch" in settings:
        out["qps"] = settings["batch"] / timing.median_s
    for count, rate in (("bytes", "gb_s"), ("flops", "gflop_s")):
        if count in more:
            out[rate] = more[count] / timing.median_s / 1e9
    return {**out, **more}


def skipped(system: str, workload: dict[str, Any] | None, settings: dict[str, Any], reason: str) -> Cell:
    """A cell that couldn't be timed, and why."""
    return {"system": system, "workload": workload, "settings": settings, "skipped": reason}


def refused(system: str, workload: dict[str, Any] | None, settings: dict[str, Any], reason: str) -> Cell:
    """A cell of Tercet that must not stand for anything: its tests are red, or it failed. The run fails with it."""
    return {"system": system, "workload": workload, "settings": settings, "refused": reason}
