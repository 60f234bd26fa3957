"""`python -m bench.gpu`: checks and times everything that runs on a CUDA device, and prints a table last.

It needs torch, Triton, NumPy, Numba and pyarrow, and runs from the repository's root with PYTHONPATH=engine:kernels:.
where Tercet isn't installed. Each step is a process of its own, so that a kernel that faults or hangs costs one step.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from bench.gpu_cells import captured, cosine, engine_of, expansion, fragments, levels, recall, search, whole_graph
from bench.gpu_checks import PROBLEMS, check, recall_check
from bench.gpu_limits import ROOT, Bench, about, limits

STEPS: dict[str, tuple[tuple[str, ...], Callable[[Bench], Iterator[dict[str, Any]]]]] = {  # checks first, then cells
    "limits": ((), limits),
    "cosine": (("cosine",), cosine),
    "search": (("search",), search),
    "fragment": (("fragment", "triplet_topk", "fragment_topk"), fragments),
    "captured": (("captured",), captured),
    "expand": (("expand",), expansion),
    "neighbors": (("neighbors",), levels),
    "edge_filter": (("edge_filter",), whole_graph),
    "recall": (("recall",), recall),
}
STEP_SECONDS = 200  # a step that takes longer is stopped
SMALL_CASES = 6  # problems of each check in a smoke run


def run_step(name: str, bench: Bench) -> Iterator[dict[str, Any]]:
    """Rows of one step; an op that fails its check isn't timed."""
    checks, cells = STEPS[name]
    good = True
    for op in checks:
        if op == "recall":
            found = recall_check(bench.device, engine_of)
        else:
            every = list(PROBLEMS[op]())
            spread = every[:: max(1, len(every) // SMALL_CASES)] if bench.small else every
            found = check(iter(spread), bench.device)
        good &= not found["failed"]
        yield {"op": op, "check": found}
    if good:
        yield from cells(bench)


def write(name: str, bench: Bench, folder: Path) -> None:
    """Append the rows of one step as they come."""
    with (folder / "cells.jsonl").open("a", encoding="utf-8") as sink:
        for row in run_step(name, bench):
            sink.write(json.dumps({"step": name, **row}) + "\n")
            sink.flush()


def in_a_process(name: str, folder: Path, given: argparse.Namespace) -> str | None:
    """Run a step in a process of its own; returns what went wrong."""
    command = [sys.executable, "-m", "bench.gpu", "--step", name, "--out", str(folder), "--device", given.device,
               "--budget", str(given.budget), *(["--small"] if given.small else [])]  # fmt: skip
    log = folder / f"{name}.log"
    with log.open("w", encoding="utf-8") as sink:
        try:
            done = subprocess.run(
                command, cwd=ROOT, stdout=sink, stderr=subprocess.STDOUT, timeout=STEP_SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            return f"stopped after {STEP_SECONDS} s"
    if done.returncode == 0:
        return None
    last = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-1:]
    return f"exit {done.returncode}: {' '.join(last)}"


def table(rows: list[dict[str, Any]]) -> str:
    """The timed rows with their shares of what the device can do, then what was checked."""
    timed = [r for r in rows if "median_s" in r]
    copy = next((r["bytes"] / r["median_s"] for r in timed if r["op"] == "copy"), None)
    rates = {r["rate"]: r["flops"] / r["median_s"] for r in timed if r["op"] == "matmul"}
    lines = [
        "| op | problem | ms | GB/s | of copy | TFLOP/s | of matrix rate | queries/s |",
        "|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    for r in timed:
        bandwidth, rate = r["bytes"] / r["median_s"], r["flops"] / r["median_s"]
        best = rates.get(r["rate"])
        columns = [
            r["op"], r["problem"], f"{r['median_s'] * 1e3:,.3f}", f"{bandwidth / 1e9:,.0f}",
            f"{bandwidth / copy:.0%}" if copy else "", f"{rate / 1e12:,.2f}" if r["flops"] else "",
            f"{rate / best:.0%}" if best and r["flops"] else "",
            f"{r['queries'] / r['median_s']:,.0f}" if r["queries"] else "",
        ]  # fmt: skip
        lines.append("| " + " | ".join(columns) + " |")
    lines.append("")
    for r in rows:
        if "check" in r:
            failed = r["check"]["failed"]
            verdict = "all equal" if not failed else f"{len(failed)} DIFFER, first: {failed[0]}"
            lines.append(f"- check {r['op']}: {r['check']['problems']} problems, {verdict}")
        elif "error" in r:
            lines.append(f"- step {r['op']} FAILED: {r['error']}")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Returns 0 when all is well, 1 when a check or a step failed, 2 without CUDA."""
    parser = argparse.ArgumentParser(prog="python -m bench.gpu", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("runs/gpu"), help="folder for cells.jsonl, table.md and logs")
    parser.add_argument("--small", action="store_true", help="tiny sizes: whether everything runs")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--budget", type=float, default=2.0, help="seconds a cell")
    parser.add_argument("--steps", nargs="+", choices=STEPS, default=list(STEPS))
    parser.add_argument("--step", choices=STEPS, help="one step in this process, added to what the folder holds")
    given = parser.parse_args(arguments)
    device = torch.device(given.device)
    if device.type == "cuda" and not torch.cuda.is_available():
        print(f"bench.gpu: torch {torch.__version__} sees no CUDA device", file=sys.stderr)
        return 2
    if device.type != "cuda" and not given.small:
        print(f"bench.gpu: on {given.device!r} only --small runs", file=sys.stderr)
        return 2
    bench = Bench(device, given.small, 0.02 if given.small else given.budget, 3 if given.small else 15)
    given.out.mkdir(parents=True, exist_ok=True)
    if given.step:
        write(given.step, bench, given.out)
        return 0
    cells, machine = given.out / "cells.jsonl", about(device)
    cells.write_text(json.dumps({"step": "about", **machine}) + "\n", encoding="utf-8")
    print(json.dumps(machine))
    errors = []
    for name in given.steps:
        print(f"{name} ...", flush=True)
        if device.type != "cuda":
            write(name, bench, given.out)
            continue
        wrong = in_a_process(name, given.out, given)
        if wrong is not None:
            errors.append({"step": name, "op": name, "error": wrong})
    with cells.open("a", encoding="utf-8") as sink:
        sink.writelines(json.dumps(row) + "\n" for row in errors)
    rows = [json.loads(line) for line in cells.read_text(encoding="utf-8").splitlines()]
    text = table(rows)
    (given.out / "table.md").write_text(f"{json.dumps(machine)}\n\n{text}\n", encoding="utf-8")
    print(text)
    failed = any(r["check"]["failed"] for r in rows if "check" in r)
    return 1 if errors or failed else 0


if __name__ == "__main__":
    sys.exit(main())
