"""The plots of a report; the only file that imports matplotlib. Text stays text in the SVG, so it can be read aloud."""

import io
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from bench.records import Cell
from tercet.errors import MissingDependency

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")  # told apart by most eyes
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
WIDTH, HEIGHT = 7.2, 4.4  # inches


@dataclass(frozen=True)
class Plot:
    name: str  # of the file
    title: str
    describes: str  # what it shows, in words
    svg: str  # with an XML head, as in a file of its own

    def inline(self) -> str:
        """For HTML: without the XML head, and with a name and a description for screen readers."""
        body = re.sub(
            r"<\?xml.*?\?>|<!DOCTYPE.*?>|<metadata>.*?</metadata>| xmlns(:\w+)?=\"[^\"]*\"", "", self.svg, flags=re.S
        )
        return body.replace("<svg", f'<svg role="img" aria-label="{self.title}: {self.describes}"', 1).strip()


def plots_of(cells: list[Cell]) -> list[Plot]:
    """Each plot that the cells give rise to.

    Raises:
        MissingDependency: matplotlib isn't installed.
    """
    timed = [c for c in cells if "median_s" in c]
    drawn = []
    for name, title, describes, draw in (
        ("recall-qps", "Recall@k against queries a second", "higher and further right is better", recall_qps),
        ("qps-batch", "Engine.recall: queries a second against batch size", "one line a graph and limit", recall_batch),
        ("search-batch", "Search alone: queries a second against batch size", "exact systems", search_batch),
        ("time-nodes", "Time of graph stages while nodes and edges double", "fixed candidates", time_nodes),
        ("time-edges", "Time of graph stages while edges double, nodes fixed", "fixed candidates", time_edges),
        ("roofline", "Operations a second against operations a byte", "the roof is this machine's", roofline),
    ):
        svg = _figure(name, title, timed, draw)
        if svg:
            drawn.append(Plot(name, title, describes, svg))
    return drawn


def recall_qps(axes: Any, cells: list[Cell]) -> bool:
    """Points of the search suite at the largest batch that approximate indexes have; the Pareto line joins the best."""
    cells = [c for c in cells if c["suite"] == "search"]
    batches = {c["settings"]["batch"] for c in cells if c["system"] == "tercet-approx"}
    if not batches:
        return False
    batch = max(batches)
    graph = next(c for c in cells if c["system"] == "tercet-approx")["workload"]["name"]
    points = [c for c in cells if c["settings"]["batch"] == batch and c["workload"]["name"] == graph]
    groups: dict[str, list[Cell]] = {}
    for c in points:
        index = c["settings"].get("index")
        groups.setdefault(f"{index} ({c['system']})" if index else c["system"], []).append(c)
    for i, (name, group) in enumerate(groups.items()):
        x, y = [c["recall"] for c in group], [c["qps"] for c in group]
        axes.plot(x, y, MARKERS[i % 7], color=COLOURS[i % 7], label=name.strip(), markersize=7)
    best = pareto([(c["recall"], c["qps"]) for c in points])
    axes.plot(*zip(*best, strict=True), "-", color="#888888", linewidth=1, zorder=0, label="Pareto line")
    axes.set(xlabel=f"recall@{points[0]['settings']['k']}", ylabel="queries a second", yscale="log")
    axes.set_title(f"{graph}, batches of {batch}", fontsize=9, loc="right")
    return True


def pareto(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """The points that no other one beats in both numbers, ascending by the first."""
    kept: list[tuple[float, float]] = []
    for x, y in sorted(points, key=lambda p: (-p[0], -p[1])):
        if not kept or y > kept[-1][1]:
            kept.append((x, y))
    return kept[::-1]


def recall_batch(axes: Any, cells: list[Cell]) -> bool:
    """Recall's rate by batch, a line for each graph and limit."""
    cells = [c for c in cells if c["suite"] == "recall" and not c["settings"].get("cold")]

    def group(c: Cell) -> str:
        wide = c["settings"]["wide"]
        return f"{c['workload']['name']}, {f'limit {wide}' if wide else 'no limit'}"

    return _lines(axes, cells, group, _rate, "queries a batch", "queries a second")


def search_batch(axes: Any, cells: list[Cell]) -> bool:
    """The exact systems' rate by batch on the first graph."""
    cells = [c for c in cells if c["suite"] == "search" and c["system"] != "tercet-approx"]
    cells = [c for c in cells if c["workload"] == cells[0]["workload"]]
    if cells:
        axes.set_title(cells[0]["workload"]["name"], fontsize=9, loc="right")

    def group(c: Cell) -> str:
        threshold = c["settings"].get("blas_threshold")
        return c["system"] if threshold is None else f"{c['system']}, threshold {threshold:,}"

    return _lines(axes, cells, group, _rate, "queries a batch", "queries a second")


def _rate(cell: Cell) -> tuple[float, float]:
    return cell["settings"]["batch"], cell["qps"]


def time_nodes(axes: Any, cells: list[Cell]) -> bool:
    """Graphs whose edges grow with their nodes."""
    return _growth(axes, cells, "nodes")


def time_edges(axes: Any, cells: list[Cell]) -> bool:
    """Graphs of one size with more and more edges."""
    return _growth(axes, cells, "edges")


def _growth(axes: Any, cells: list[Cell], what: str) -> bool:
    cells = [c for c in cells if c["suite"] == "scaling"]
    if what == "nodes":  # of graphs with as many edges a node as most have
        kept = _largest_group(cells, lambda c: round(c["workload"]["edges"] / c["workload"]["nodes"], 3))
    else:  # of graphs with as many nodes as most have
        kept = _largest_group(cells, lambda c: c["workload"]["nodes"])
    if len({c["workload"][what] for c in kept}) < 2:
        return False
    first = kept[0]["workload"]
    aside = f"{first['edges'] / first['nodes']:g} edges a node" if what == "nodes" else f"{first['nodes']:,} nodes"
    axes.set_title(aside, fontsize=9, loc="right")

    def group(c: Cell) -> str:
        s = c["settings"]
        return ", ".join(x for x in (s["stage"], s.get("candidates", ""), f"batches of {s['batch']}") if x)

    return _lines(axes, kept, group, lambda c: (c["workload"][what], c["median_s"] * 1e3), what, "milliseconds a batch")


def _largest_group(cells: list[Cell], key: Callable[[Cell], float]) -> list[Cell]:
    sizes: dict[float, set[str]] = {}
    for c in cells:
        sizes.setdefault(key(c), set()).add(c["workload"]["name"])
    usual = max(sizes, key=lambda k: len(sizes[k]), default=None)
    return [c for c in cells if key(c) == usual]


def roofline(axes: Any, cells: list[Cell]) -> bool:
    """Roofs measured in the run, and every cell with counted bytes and operations."""
    machine = {c["settings"]["measure"]: c for c in cells if c["system"] == "machine"}
    points = [c for c in cells if c["suite"] == "roofline" and c["system"] != "machine"]
    if not {"read", "gemm"} <= machine.keys() or not points:
        return False
    bandwidth, peak = machine["read"]["gb_s"], machine["gemm"]["gflop_s"]
    at = [c["flops"] / c["bytes"] for c in points]
    x = np.geomspace(min(*at, peak / bandwidth) / 3, max(*at, peak / bandwidth) * 3, 200)
    roof = f"roof: {bandwidth:.0f} GB/s read, {peak:.0f} GFLOP/s"
    axes.plot(x, np.minimum(x * bandwidth, peak), "-", color="#444444", linewidth=1.5, label=roof)
    for i, c in enumerate(points):
        s = c["settings"]
        name = f"{s['stage']} {s.get('candidates', '')}, batches of {s['batch']}".replace(" ,", ",")
        axes.plot(
            at[i], c["gflop_s"], MARKERS[i % 7], color=COLOURS[i % 7], markersize=8, label=f"{name}: {c['share']:.0%}"
        )
    axes.set(xlabel="operations a byte (FLOP/B)", ylabel="GFLOP/s", xscale="log", yscale="log")
    return True


def _lines(
    axes: Any,
    cells: list[Cell],
    group: Callable[[Cell], str],
    point: Callable[[Cell], tuple[float, float]],
    x: str,
    y: str,
) -> bool:
    groups: dict[str, list[tuple[float, float]]] = {}
    for c in cells:
        groups.setdefault(group(c), []).append(point(c))
    if not groups or all(len(points) < 2 for points in groups.values()):
        return False
    for i, (name, points) in enumerate(groups.items()):
        style = MARKERS[i % 7] + ("-" if i < 7 else "--")
        axes.plot(*zip(*sorted(points), strict=True), style, color=COLOURS[i % 7], label=name, markersize=5)
    axes.set(xlabel=x, ylabel=y, xscale="log", yscale="log")
    measured = sorted({p[0] for points in groups.values() for p in points})
    axes.set_xticks(measured, [f"{value:,}" for value in measured], rotation=45 if measured[-1] > 9999 else 0)
    axes.set_xticks([], minor=True)
    return True


def _figure(name: str, title: str, cells: list[Cell], draw: Callable[[Any, list[Cell]], bool]) -> str:
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingDependency("plots need matplotlib: pip install 'tercet[bench]'") from error
    # names of parts come from the plot's own, so that several plots can be in one page
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": name, "font.family": "sans-serif", "font.size": 9}):
        figure = Figure(figsize=(WIDTH, HEIGHT), layout="constrained")
        axes = figure.add_subplot()
        if not draw(axes, cells):
            return ""
        figure.suptitle(title, fontsize=11)
        axes.grid(True, which="both", linewidth=0.3, color="#cccccc")
        if axes.get_yscale() == "log":
            axes.yaxis.set_major_formatter("{x:,g}")
            axes.yaxis.set_minor_formatter("{x:,g}" if np.ptp(np.log10(axes.get_ylim())) < 1.2 else "")
        axes.legend(fontsize=7.5, framealpha=0.8)
        out = io.StringIO()
        figure.savefig(out, format="svg", metadata={"Date": None, "Title": title})
    return out.getvalue()
