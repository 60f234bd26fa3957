"""A run as Markdown, from its summary and manifest."""

from collections.abc import Mapping
from typing import Any

SHOWN = ("nDCG@10", "R@2", "R@5", "R@10", "RR@10", "AP", "all_recall@5", "context_tokens")
MANY = 80  # rows of differences, beyond which the summary has fewer measures


def markdown(manifest: Mapping[str, Any], summary: Mapping[str, Any]) -> str:
    """Tables of measures, differences, agreement, slices and speed, and all remarks."""
    return "\n\n".join(part for part in (
        f"# {escaped(str(manifest['run']))}", about(manifest, summary), "## Measures", measures(summary),
        *_section("Against the baselines", differences(summary["comparison"])),
        *_section("Agreement", agreements(summary["agreements"])), "## Speed", speed(summary),
        *(part for field, values in summary["slices"].items() for part in _section(f"By {field}", by_slice(values))),
        *_section("Remarks", "\n".join(f"- {escaped(r)}" for r in remarks(summary))),
    ) if part) + "\n"  # fmt: skip


def about(manifest: Mapping[str, Any], summary: Mapping[str, Any]) -> str:
    """What the numbers depend on, in a paragraph."""
    data, machine, versions = manifest["data"], manifest["machine"], manifest["versions"]
    graph = data.get("graph")
    parts = [
        f"{summary['queries']:,} queries, {data['qrels']['judgements']:,} judgements of {summary['judged_queries']:,} "
        f"queries, judged by {summary['level']}, first {summary['k']} documents"
    ]  # fmt: skip
    if graph is not None:
        parts.append(f"graph of {graph['nodes']:,} nodes and {graph['edges']:,} edges")
    commit = (
        f", commit {manifest['commit']}{' with changes' if manifest.get('dirty') else ''}"
        if "commit" in manifest
        else ""
    )
    where = f"{machine['cpu']}, {machine['threads']} of {machine['cores']} cores"
    where += f", {machine['gpu']}" if str(manifest.get("device", "cpu")).startswith("cuda") else ""
    parts += [f"Tercet {versions['tercet']}{commit}", where, str(manifest["date"])]
    return escaped("; ".join(parts)) + "."


def measures(summary: Mapping[str, Any]) -> str:
    """A row a mode."""
    ran = [m for m in summary["modes"].values() if m["evaluation"] is not None]
    columns = [c for c in SHOWN if ran and all(c in m["evaluation"]["means"] for m in ran)]
    rows = []
    for name, mode in summary["modes"].items():
        if mode["evaluation"] is None:
            rows.append([name, f"did not run: {mode['error']}", *[""] * (len(columns) + 2)])
            continue
        e = mode["evaluation"]
        cells = [_value(c, e["means"][c], mode["intervals"].get(c)) for c in columns]
        rows.append([name, *cells, str(len(e["failed"])), str(e["counts"]["empty"]), str(e["counts"]["missing"])])
    constant = summary["constant"]["means"]
    rows.append(["constant scorer", *[_value(c, constant.get(c), None) for c in columns], "", "", ""])
    return table(["mode", *columns, "failed", "empty", "missing"], rows)


def differences(comparison: Mapping[str, Any]) -> str:
    """A row a system, baseline and measure; of many, the first two measures alone."""
    few = list(dict.fromkeys(r["measure"] for r in comparison["rows"]))[
        : None if len(comparison["rows"]) <= MANY else 2
    ]
    rows = [
        [r["measure"], r["system"], r["baseline"], f"{r['difference']:+.4f}", f"{r['low']:+.4f} to {r['high']:+.4f}",
         "" if r["p_holm"] is None else f"{r['p_holm']:.4f}", f"{r['wins']} / {r['ties']} / {r['losses']}",
         str(r["n"]), r["note"]] for r in comparison["rows"] if r["low"] is not None and r["measure"] in few
    ]  # fmt: skip
    head = ["measure", "system", "against", "difference", "95 % interval", "p (Holm)", "win / tie / loss", "n", ""]
    return table(head, rows) if rows else ""


def agreements(found: Mapping[str, Any]) -> str:
    """A row a mode that has a reference."""
    rows = []
    for name, a in found.items():
        overlap = next((v for k, v in a.items() if k.startswith("overlap@")), None)
        values = [overlap, a["exact_order"], a["rbo"], a["tau"], a["max_score_difference"]]
        rows.append([name, a["reference"], *("" if v is None else f"{v:.4g}" for v in values), str(a["n"])])
    return (
        table(["mode", "reference", "overlap", "same order", "RBO", "tau", "largest score difference", "n"], rows)
        if rows
        else ""
    )


def speed(summary: Mapping[str, Any]) -> str:
    """A row a mode: throughput, stages, latency of single queries where it was measured."""
    timed = any(m["latency"] for m in summary["modes"].values())
    rows = []
    for name, mode in summary["modes"].items():
        if mode["error"] is not None:
            continue
        rate = mode["queries_per_second"]
        row = [name, "" if rate is None else f"{rate:,.0f}", f"{mode['seconds']:.3f}",
               ", ".join(f"{k} {v:.3f}" for k, v in mode["stages"].items())]  # fmt: skip
        if timed:
            found = mode["latency"] or {}
            row += [f"{found[q] * 1000:.2f}" if q in found else "" for q in ("p50", "p95", "p99", "max")]
        rows.append(row)
    head = ["mode", "queries/s", "seconds", "stages (s)", *(["p50 ms", "p95 ms", "p99 ms", "max ms"] if timed else [])]
    return table(head, rows) + f"\n\nEncoding took {summary['encode_seconds']:.2f} s, which isn't counted."


def by_slice(values: Mapping[str, Any]) -> str:
    """A row a mode, a column a value of the field; R@5 where it was measured."""
    modes = list(dict.fromkeys(m for found in values.values() for m in found))
    have = [m for found in values.values() for one in found.values() for m in one["means"]]
    measure = next((m for m in ("R@5", "nDCG@10", *have) if m in have), None)
    if measure is None:
        return ""
    head = [
        f"mode ({measure})",
        *(f"{v} (n = {max((o['n'] for o in f.values()), default=0)})" for v, f in values.items()),
    ]
    rows = [
        [mode, *(_value(measure, found.get(mode, {}).get("means", {}).get(measure), None) for found in values.values())]
        for mode in modes
    ]
    return table(head, rows)


def remarks(summary: Mapping[str, Any]) -> list[str]:
    """What a reader of the numbers must know."""
    out = list(summary["notes"])
    for name, mode in summary["modes"].items():
        e = mode["evaluation"]
        if e is None:
            out.append(f"{name} did not run: {mode['error']}; it takes no part in tests")
            continue
        counted = {"zero": "count as 0", "skip": "are left out", "error": ""}[e["policy"]]
        for query, error in list(e["failed"].items())[:3]:
            out.append(f"{name}: {len(e['failed'])} queries failed ({counted}), such as {query!r}: {error}")
            break
        if e["missing"]:
            out.append(f"{name}: {len(e['missing'])} judged queries are missing from the run ({counted})")
        tied = ", ".join(f"{n} at {k}" for k, n in e["tied_at_cut"].items() if n)
        if tied:
            out.append(f"{name}: queries tied at a cut: {tied}")
        out += [f"{name}: {note}" for note in e["notes"]]
    out += [f"{name}: not compared, {why}" for name, why in summary["comparison"]["left_out"].items()]
    return out + [f"check failed: {name}" for name, good in summary["checks"].items() if not good]


def table(head: list[str], rows: list[list[str]]) -> str:
    """A Markdown table; all but the first column are right-aligned."""
    lines = [[escaped(cell) for cell in line] for line in (head, *rows)]
    lines.insert(1, ["---", *["---:"] * (len(head) - 1)])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def escaped(text: str) -> str:
    """A text whose signs mean nothing to Markdown."""
    for sign in ("\\", "|", "<", "*", "_", "`", "["):
        text = text.replace(sign, f"\\{sign}")
    return " ".join(text.split())


def _section(title: str, body: str) -> list[str]:
    return [f"## {escaped(title)}", body] if body else []


def _value(measure: str, value: float | None, bounds: Any) -> str:
    if value is None:
        return ""
    if measure.endswith("tokens"):
        return f"{value:,.0f}"
    return f"{value:.4f}" + (f" ({bounds[0]:.3f} to {bounds[1]:.3f})" if bounds else "")
