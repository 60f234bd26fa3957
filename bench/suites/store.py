"""A large store on disk: save, open, the first questions, updates and their saves, beside the disk itself.

Every step runs in a process of its own. "cold" is only said where the system was asked to forget the files and did.
"""

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from bench.machine import ROOT
from bench.pages import bytes_of, cached, copy_time, drop, read_time
from bench.records import Cell, cell, describe, refused, skipped
from bench.suites import Bench
from bench.timing import Timing

TESTS = (
    "tests/engine/test_store.py", "tests/engine/test_store_damage.py", "tests/engine/test_updates.py",
    "tests/engine/test_memory_plan.py",
)  # fmt: skip
FORGOTTEN = 0.02  # the share of its pages that a cold store may have left in memory


class Failed(Exception):
    """A step's process ended with an error."""


def cells(bench: Bench) -> Iterator[Cell]:
    for spec in bench.own["workloads"]:
        given = bench.workload(spec)
        about = describe(given)
        with tempfile.TemporaryDirectory(prefix="store-", dir=bench.own["folder"] or None) as folder:
            file = Path(folder) / "workload.npz"
            given.save(file)
            try:
                yield from _steps(bench, about, Path(folder), file)
            except Failed as error:
                yield refused("tercet", about, {"call": "store"}, str(error))


def _steps(bench: Bench, about: dict[str, Any], folder: Path, file: Path) -> Iterator[Cell]:
    store, own = folder / "store", bench.own
    saves = []
    for _ in range(own["saves"]):
        shutil.rmtree(store, ignore_errors=True)
        saves.append(_run(bench, "save", {"workload": str(file), "store": str(store)})["save"])
    file.unlink()
    size = bytes_of(store)
    yield _cell(about, {"call": "save"}, saves, bytes=size, store_bytes=size)
    yield from _disk(bench, about, store, folder / "plain", size)
    asked = {"store": str(store), "batches": own["batches"]}
    _run(bench, "open", {**asked, "verify": False})  # may compile kernels, as at the first start after an installation
    for verify in (True, False):
        for cold in (True, False):
            found, shares = [], []
            for _ in range(own["opens"]):
                shares.append(drop(store) if cold else cached(store.rglob("*.*")))
                if not cold:
                    read_time(store)
                found.append(_run(bench, "open", {**asked, "verify": verify}))
            if cold and not all(s is not None and s <= FORGOTTEN for s in shares):
                settings = {"call": "open", "verify": verify, "pages": "cold"}
                yield skipped("tercet", about, settings, f"the files stay in memory, shares of them: {shares}")
                continue
            state = {"verify": verify, "pages": "cold" if cold else "warm"}
            opened = [f["open"] for f in found]
            yield _cell(
                about,
                {"call": "open", **state},
                opened,
                bytes=size,
                import_s=_median(opened, "import_s"),
                **{name: _median(opened, name) for name in ("held_bytes", "mapped_bytes") if name in opened[0]},
            )
            if verify:  # then all files were read, and the first query meets a warm store
                continue
            for name in [n for n in found[0] if n != "open"]:
                order, batch = name.split()
                settings = {"call": f"{order} recall", "queries": int(batch), **state}
                yield _cell(about, settings, [f[name] for f in found])
    yield from _updates(bench, about, store)


def _disk(bench: Bench, about: dict[str, Any], store: Path, beside: Path, size: int) -> Iterator[Cell]:
    """The same bytes, plainly written and read."""
    writes, reads, warm = [], [], []
    for _ in range(bench.own["opens"]):
        writes.append(copy_time(store, beside))
        beside.unlink()
        share = drop(store)
        if share is not None and share <= FORGOTTEN:
            reads.append(read_time(store))
        else:
            read_time(store)
        warm.append(read_time(store))
    calls = (("write and fsync", writes), ("read, cold", reads), ("read, warm", warm))
    for name, spent in calls:
        if spent:
            yield cell("disk", about, {"call": name}, _timing([{"wall_s": s, "cpu_s": 0.0} for s in spent]), bytes=size)


def _updates(bench: Bench, about: dict[str, Any], store: Path) -> Iterator[Cell]:
    own = bench.own
    found = _run(bench, "update", {"store": str(store), "rows": own["rows"], "repeats": own["updates"]})
    if not found["same"]:
        raise Failed("the store that was opened again isn't the engine that was saved")
    for name in found["rounds"][0]:
        steps = [r[name] for r in found["rounds"]]
        settings = {"call": name, "rows": own["rows"] if name.endswith("upsert") else 1}
        more = {} if "written_bytes" not in steps[0] else {"written_bytes": _median(steps, "written_bytes")}
        yield _cell(about, settings, steps, first_s=steps[0]["wall_s"], **more)


def _cell(about: dict[str, Any], settings: dict[str, Any], steps: list[Mapping[str, Any]], **more: Any) -> Cell:
    return cell("tercet", about, settings, _timing(steps), peak_bytes=_median(steps, "peak_bytes"), **more)


def _timing(steps: list[Mapping[str, Any]]) -> Timing:
    walls = [s["wall_s"] for s in steps]
    p20, median, p80 = np.quantile(walls, (0.2, 0.5, 0.8)).tolist()
    return Timing(p20, median, p80, float(np.median([s["cpu_s"] for s in steps])), len(walls), 0, None, tuple(walls))


def _median(steps: list[Mapping[str, Any]], name: str) -> float | None:
    values = [s[name] for s in steps if s[name] is not None]
    return float(np.median(values)) if values else None


def _run(bench: Bench, step: str, asked: dict[str, Any]) -> dict[str, Any]:
    run = bench.run
    given = {**asked, "seed": run["seed"], "threads": run["threads"], "top_k": run["top_k"], "wide": run["wide"]}
    command = [sys.executable, "-m", "bench.store_steps", step, json.dumps(given)]
    try:
        ran = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=bench.own["timeout_s"]
        )
    except subprocess.TimeoutExpired as error:
        raise Failed(f"{step}: not done within {bench.own['timeout_s']:.0f} s") from error
    if ran.returncode:
        last = " ".join(ran.stderr.strip().splitlines()[-1:])
        raise Failed(f"{step}: the process ended with {ran.returncode}: {last}")
    out: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return out
