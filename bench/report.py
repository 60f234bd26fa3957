"""`python -m bench.report runs/bench.jsonl`: the cells of a run as Markdown."""

import json
import sys
from pathlib import Path
from typing import Any


def table(cells: list[dict[str, Any]]) -> str:
    """Tercet and Cognee side by side, a row for each graph, limit and batch."""
    ours = {key(c): c for c in cells if c["system"] == "tercet" and c.get("input") == "vectors"}
    theirs = {key(c): c for c in cells if c["system"] == "cognee" and "median_s" in c}
    lines = [
        "| graph | wide | batch | Tercet q/s | search / rest, ms | Cognee q/s | ratio | same rankings |",
        "|---|---|---:|---:|---|---:|---:|---|",
    ]
    for at, cell in ours.items():
        other = nearest(theirs, at)
        search = cell["stages"].get("search", cell["stages"].get("full", 0.0)) * 1e3
        rest = cell["median_s"] * 1e3 - search
        columns = [cell["workload"], str(cell["wide_search_top_k"]), str(cell["batch"]), f"{cell['qps']:,.0f}",
                   f"{search:.1f} / {rest:.1f}"]  # fmt: skip
        if other is None:
            columns += ["not measured", "", ""]
        else:
            agree = other["agreement"]
            note = "" if other["batch"] == cell["batch"] else f" (batches of {other['batch']})"
            columns += [
                f"{other['qps']:.2f}{note}",
                f"{cell['qps'] / other['qps']:,.0f}",
                f"{agree['same']}/{agree['queries']}",
            ]
        lines.append("| " + " | ".join(columns) + " |")
    return "\n".join(lines)


def key(cell: dict[str, Any]) -> tuple[str, int | None, int]:
    return cell["workload"], cell["wide_search_top_k"], cell.get("asked_batch", cell["batch"])


def nearest(
    cells: dict[tuple[str, int | None, int], dict[str, Any]], at: tuple[str, int | None, int]
) -> dict[str, Any] | None:
    """The other system's cell of this size and batch, or its only one for a limited search (calls one by one)."""
    return cells.get(at) or next((c for k, c in cells.items() if k[:2] == at[:2] and at[1] is not None), None)


def texts(cells: list[dict[str, Any]]) -> str:
    """Recall on texts, with the encoder's share."""
    lines = ["| graph | batch | q/s | encode, ms | retrieve, ms |", "|---|---:|---:|---:|---:|"]
    for c in cells:
        if c["system"] == "tercet" and c.get("input") == "texts":
            embed = c["stages"]["embed"] * 1e3
            rest = c["median_s"] * 1e3 - embed
            lines.append(f"| {c['workload']} | {c['batch']} | {c['qps']:,.1f} | {embed:,.1f} | {rest:,.1f} |")
    return "\n".join(lines)


def report(cells: list[dict[str, Any]]) -> str:
    """All of a run."""
    head = cells[0]
    built = [c for c in cells if c.get("what") == "Graph.from_tables"]
    parts = [
        f"Commit {head['commit']}{' with changes' if head['dirty'] else ''}, {head['date']}; {head['cpu']} "
        f"({head['capability']}), {head['threads']} threads, torch {head['torch']}, Python {head['python']}, "
        f"device {head['device']}. Medians.",
        table(cells),
    ]
    if any(c.get("input") == "texts" for c in cells):
        parts.append(texts(cells))
    parts += [
        f"`Graph.from_tables`, {c['nodes']:,} nodes and {c['edges']:,} edges: {c['median_s']:.1f} s, "
        f"{c['peak_rss_delta'] / 1e9:.1f} GB above what it began with."
        for c in built
    ]
    skipped = [c for c in cells if "skipped" in c]
    parts += [f"Skipped: {c['system']} {c['workload']}: {c['skipped']}" for c in skipped]
    return "\n\n".join(parts)


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        print("usage: python -m bench.report RUN.jsonl", file=sys.stderr)
        return 2
    lines = Path(arguments[0]).read_text(encoding="utf-8").splitlines()
    print(report([json.loads(line) for line in lines]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
