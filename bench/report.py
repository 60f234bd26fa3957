"""The report of runs on one machine: Markdown, one self-contained HTML page, and its plots as SVG files."""

import html
from pathlib import Path
from typing import Any

from bench.plots import Plot, plots_of
from bench.records import Run
from bench.tables import Table, tables_of
from tercet.errors import InvalidArgument

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 72em; margin: 2em auto; padding: 0 1em; color: #1a1a1a }
table { border-collapse: collapse; font-size: 13px } td, th { padding: .2em .7em; border-bottom: 1px solid #ddd }
th { text-align: left; background: #f5f5f5 } td.number { text-align: right; font-variant-numeric: tabular-nums }
svg { max-width: 100%; height: auto } div.wide { overflow-x: auto }
@media (prefers-color-scheme: dark) { body { background: #16181c; color: #e6e6e6 } th { background: #23262c }
  td, th { border-color: #3a3d44 } figure { background: #fff; color: #111; padding: .5em; margin: 1em 0 } }
"""


def write(runs: list[Run], out: Path) -> list[Path]:
    """Write `report.md`, `report.html` and `plots/*.svg`; returns their paths.

    Raises:
        InvalidArgument: the runs are of different machines, threads or commits.
        MissingDependency: matplotlib isn't installed.
    """
    head = about(runs)
    cells = [c for run in runs for c in run.cells]
    tables, plots = tables_of(cells), plots_of(cells)
    (out / "plots").mkdir(parents=True, exist_ok=True)
    paths = [out / "report.md", out / "report.html"]
    paths[0].write_text(markdown(head, tables, plots), encoding="utf-8")
    paths[1].write_text(page(head, tables, plots), encoding="utf-8")
    for plot in plots:
        paths.append(out / "plots" / f"{plot.name}.svg")
        paths[-1].write_text(plot.svg, encoding="utf-8")
    return paths


def about(runs: list[Run]) -> str:
    """What the figures depend on, in a sentence."""
    first: dict[str, Any] = runs[0].manifest
    for run in runs[1:]:
        for what in ("commit", "threads"):
            if run.manifest[what] != first[what]:
                pair = f"{run.manifest[what]} and {first[what]}"
                raise InvalidArgument(f"report: {run.folder} has another {what} than {runs[0].folder}, {pair}")
        if run.manifest["machine"]["id"] != first["machine"]["id"]:
            raise InvalidArgument(f"report: {run.folder} is of another machine than {runs[0].folder}")
    machine = first["machine"]
    libraries = ", ".join(f"{name} {version}" for name, version in first["versions"].items() if name != "tercet")
    changed = " with changes" if any(run.manifest["dirty"] for run in runs) else ""
    hardware = f"{machine['cpu']} ({machine['capability']}), {machine['cores']} cores, {machine['memory_gib']} GiB"
    return (
        f"Commit {first['commit']}{changed}, {first['date']}; {hardware}, {first['threads']} threads, "
        f"device {machine['device']}; Python {first['python']}, {libraries}; seed {first['seed']}. "
        "Times are medians with the quantiles 20 and 80, never the best of many."
    )


def markdown(head: str, tables: list[Table], plots: list[Plot]) -> str:
    """The tables, and the plots as links to their files."""
    parts = ["# Benchmark", head, *(t.markdown() for t in tables)]
    parts += [f"![{p.title}: {p.describes}](plots/{p.name}.svg)" for p in plots]
    return "\n\n".join(part for part in parts if part) + "\n"


def page(head: str, tables: list[Table], plots: list[Plot]) -> str:
    """One HTML page that refers to nothing outside itself."""
    figures = "".join(
        f"<figure>{p.inline()}<figcaption>{html.escape(f'{p.title}: {p.describes}.')}</figcaption></figure>"
        for p in plots
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Tercet: benchmark</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{STYLE}</style></head><body><main><h1>Tercet: benchmark</h1><p>{html.escape(head)}</p>"
        f"<h2>Plots</h2>{figures}<h2>Tables</h2>{''.join(t.html() for t in tables)}</main></body></html>\n"
    )
