"""The report of a run as one HTML page that refers to nothing outside itself, made of its folder alone."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tercet.evaluate.cells import Cell, axes_of, escaped, figure, formatted, row_head, section, short_names, table
from tercet.evaluate.charts import Bar, Point, bars, histogram, pareto, scatter
from tercet.evaluate.folder import CONFIG, read_evaluations, read_manifest, read_summary
from tercet.evaluate.markdown import SHOWN, remarks
from tercet.evaluate.metrics import Evaluation
from tercet.evaluate.style import STYLE

MAIN = ("R@5", "nDCG@10", "R@10", "AP")  # the first that was measured is drawn
MOST_BARS = 24  # the best ones; baselines always
MOST_ROWS = 24  # of differences, before they are folded away


def page(folder: str | Path) -> str:
    """The page of a finished run.

    Raises:
        InvalidArgument: no such folder.
        InvalidData: half-written, see `read_summary`.
    """
    folder = Path(folder)
    summary, manifest, evaluations = read_summary(folder), read_manifest(folder), read_evaluations(folder)
    ran = {n: m for n, m in summary["modes"].items() if m["evaluation"] is not None}
    main = next((m for m in MAIN if ran and all(m in r["evaluation"]["means"] for r in ran.values())), None)
    parts = [_head(folder.name, manifest, summary)]
    if main is not None:
        parts += [_tiles(summary, ran, main), section("What was found", _measures(summary)),
                  section(f"{main}, with 95 % bootstrap intervals", _bars(summary, ran, main)),
                  section(f"{main} against speed", _curve(summary, ran, main)),
                  section("Query by query", _per_query(summary, ran, evaluations, main)),
                  section("Against the baselines", _differences(summary, main)),
                  *(section(f"By {f}", _slices(v, main)) for f, v in summary["slices"].items())]  # fmt: skip
    parts += [section("Agreement with the reference", _agreements(summary)), section("Speed", _speed(summary)),
              section("What a reader must know", _remarks(summary)), _settings(folder, manifest)]  # fmt: skip
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escaped(folder.name)}: evaluation</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" '
        f'content="light dark"><style>{STYLE}</style></head><body><main>{"".join(parts)}</main></body></html>\n'
    )


def _head(name: str, manifest: Mapping[str, Any], summary: Mapping[str, Any]) -> str:
    data, machine = manifest["data"], manifest["machine"]
    graph = data.get("graph")
    facts = [f"{summary['queries']:,} queries", f"{data['qrels']['judgements']:,} judgements by {summary['level']}"]
    if graph is not None:
        facts.append(f"{graph['nodes']:,} nodes, {graph['edges']:,} edges")
    facts.append(f"{machine['cpu']}, {machine['threads']} of {machine['cores']} cores"
                 if str(manifest.get("device", "cpu")) == "cpu" else str(machine.get("gpu")))  # fmt: skip
    facts.append(
        f"Tercet {manifest['versions']['tercet']}" + (f" at {manifest['commit']}" if "commit" in manifest else "")
    )
    facts.append(str(manifest["date"])[:16])
    inside = " · ".join(f"<span>{escaped(f)}</span>" for f in facts)
    title = f'<p class="kicker">Retrieval evaluation</p><h1>{escaped(name)}</h1>'
    return f'<header>{title}<p class="facts">{inside}</p></header>'


def _tiles(summary: Mapping[str, Any], ran: Mapping[str, Any], main: str) -> str:
    """The best system, how far it is from the best baseline, and what went wrong."""
    mean = lambda n: ran[n]["evaluation"]["means"][main] or 0.0  # noqa: E731
    own = [n for n in ran if n not in summary["baselines"]]
    tiles = []
    if own:
        best = max(own, key=mean)
        tiles.append((f"best {main}", f"{mean(best):.4f}", best, ""))
        base = [n for n in ran if n in summary["baselines"]]
        if base:
            rival = max(base, key=mean)
            row = next((r for r in summary["comparison"]["rows"] if (r["system"], r["baseline"], r["measure"]) ==
                        (best, rival, main) and r["low"] is not None), None)  # fmt: skip
            bounds = f"{row['low']:+.3f} to {row['high']:+.3f}" if row else "not tested"
            gap = mean(best) - mean(rival)
            tiles.append((f"on {rival}", f"{gap:+.4f}", bounds, "good" if gap > 0 else "bad"))
        rate = max(own, key=lambda n: ran[n]["queries_per_second"] or 0.0)
        tiles.append(("fastest", f"{ran[rate]['queries_per_second'] or 0:,.0f}/s", rate, ""))
    lost = {what: max(_lost(m, what) for m in ran.values()) for what in ("failed", "empty", "missing")}
    silent = len(summary["modes"]) - len(ran)
    worst = ", ".join(f"{n} {what}" for what, n in lost.items() if n) or "none failed, empty or missing"
    tiles.append(("queries lost, at most", str(max(lost.values())), worst, "bad" if max(lost.values()) else ""))
    if silent:
        tiles.append(("did not run", str(silent), "of the modes; see below", "bad"))
    inside = "".join(
        f'<div class="tile"><span>{escaped(a)}</span><strong class="{c}">{escaped(b)}</strong>'
        f"<small>{escaped(d)}</small></div>" for a, b, d, c in tiles
    )  # fmt: skip
    return f'<div class="tiles">{inside}</div>'


def _lost(mode: Mapping[str, Any], what: str) -> int:
    e = mode["evaluation"]
    return int(e["counts"]["empty"]) if what == "empty" else len(e[what])


def _measures(summary: Mapping[str, Any]) -> str:
    ran = {n: m for n, m in summary["modes"].items() if m["evaluation"] is not None}
    columns = [c for c in SHOWN if all(c in m["evaluation"]["means"] for m in ran.values())]
    best = {c: max((m["evaluation"]["means"][c] or 0.0) for m in ran.values()) for c in columns if "tokens" not in c}
    rows: list[list[Cell]] = []
    for name, mode in summary["modes"].items():
        label: Cell = (name, "base") if name in summary["baselines"] else row_head(name)
        if mode["evaluation"] is None:
            rows.append([label, (f"did not run: {mode['error']}", "wide bad")])
            continue
        means = mode["evaluation"]["means"]
        cells = [
            (formatted(c, means[c]), "best" if c in best and means[c] == best[c] and means[c] else "") for c in columns
        ]
        lost = [(str(n), "bad" if n else "none") for n in (_lost(mode, w) for w in ("failed", "empty", "missing"))]
        rows.append([label, *cells, *lost])
    constant = summary["constant"]["means"]
    rows.append([("constant scorer", "base"), *((formatted(c, constant.get(c)), "none") for c in columns), "", "", ""])
    note = f'<p class="note">{escaped(axes_of(list(ran)))}</p>' if axes_of(list(ran)) else ""
    return note + table(["", *columns, "failed", "empty", "missing"], rows, len(columns) + 3)


def _bars(summary: Mapping[str, Any], ran: Mapping[str, Any], main: str) -> str:
    groups, labels = _groups(summary, ran), short_names(list(ran))
    rows = []
    for n, m in ran.items():
        low, high = m["intervals"].get(main) or (None, None)
        rows.append(Bar(labels[n], m["evaluation"]["means"][main] or 0.0, low, high, groups[n]))
    rows.sort(key=lambda r: -r.value)
    shown = [r for i, r in enumerate(rows) if i < MOST_BARS or r.group < 0]
    base = [r.value for r in rows if r.group < 0]
    note = ("The dashed line is the best baseline." if base else "") + axes_of(list(ran))
    note += f" The {len(rows) - len(shown)} lowest are left out." if len(rows) > len(shown) else ""
    return figure(bars(shown, main, max(base, default=None)), note)


def _curve(summary: Mapping[str, Any], ran: Mapping[str, Any], main: str) -> str:
    groups, labels = _groups(summary, ran), short_names(list(ran))
    verb_of = {labels[n]: str(m["verb"]) for n, m in ran.items()}
    points = []
    for n, m in ran.items():
        mean, rate = m["evaluation"]["means"][main], m["queries_per_second"]
        if rate and mean is not None:
            points.append(Point(labels[n], mean, rate, groups[n]))
    if len(points) < 2:
        return ""
    verbs: dict[int, str] = {}
    for p in points:
        verbs.setdefault(p.group, "baselines" if p.group < 0 else verb_of[p.name])
    best = pareto([(p.x, p.y) for p in points])
    on = [p for p in points if (p.x, p.y) in best]
    key = "".join(
        f'<span class="key {"base" if g < 0 else f"c{g % 6}"}">{escaped(v)}</span>' for g, v in sorted(verbs.items())
    )
    found = table(["on the line", main, "queries/s"], [[p.name, f"{p.x:.4f}", f"{p.y:,.0f}"] for p in sorted(
        on, key=lambda p: -p.x)], 2)  # fmt: skip
    note = "Up and to the right is better. No other way of retrieving is better in both than those on the line."
    note += axes_of(list(ran))
    return f'<p class="keys">{key}</p>' + figure(scatter(points, main, "queries/s"), note) + found


def _per_query(summary: Mapping[str, Any], ran: Mapping[str, Any], evaluations: Mapping[str, Any], main: str) -> str:
    """How the best system differs from the best baseline."""
    mean = lambda n: ran[n]["evaluation"]["means"][main] or 0.0  # noqa: E731
    own, base = ([n for n in ran if (n in summary["baselines"]) is is_base] for is_base in (False, True))
    if not own or not base:
        return ""
    best, rival = max(own, key=mean), max(base, key=mean)
    a, b = evaluations[best], evaluations[rival]
    assert isinstance(a, Evaluation)
    assert isinstance(b, Evaluation)
    delta = a[main] - b[main]
    delta = delta[~np.isnan(delta)]
    note = f"{main} of each query, {best} less {rival}."
    return figure(histogram(delta.tolist(), f"{main}: {short_names([best])[best]} less {rival}"), note)


def _differences(summary: Mapping[str, Any], main: str) -> str:
    rows: list[list[Cell]] = []
    found = [r for r in summary["comparison"]["rows"] if r["measure"] == main and r["low"] is not None]
    for r in sorted(found, key=lambda r: (summary["baselines"].index(r["baseline"]), -r["difference"])):
        sure = "good" if r["low"] > 0 else "bad" if r["high"] < 0 else "none"
        rows.append([
            row_head(r["system"]), (r["baseline"], "base"), (f"{r['difference']:+.4f}", sure),
            f"{r['low']:+.4f} to {r['high']:+.4f}", "" if r["p_holm"] is None else f"{r['p_holm']:.4f}",
            f"{r['wins']} / {r['ties']} / {r['losses']}", r["note"],
        ])  # fmt: skip
    head = ["", "against", f"difference in {main}", "95 % interval", "p (Holm)", "win / tie / loss", ""]
    note = "Paired over queries; the interval is a bootstrap's, p a randomisation test's, corrected over the whole run."
    if not rows:
        return ""
    rest = rows[MOST_ROWS:]
    more = f"<details><summary>{len(rest)} more</summary>{table(head, rest, 6)}</details>" if rest else ""
    return f'<p class="note">{note}</p>' + table(head, rows[:MOST_ROWS], 6) + more


def _slices(values: Mapping[str, Any], main: str) -> str:
    modes = list(dict.fromkeys(m for found in values.values() for m in found))
    head = ["", *(f"{v} · {max((o['n'] for o in found.values()), default=0)}" for v, found in values.items())]
    rows: list[list[Cell]] = []
    for mode in modes:
        means = [found.get(mode, {}).get("means", {}).get(main) for found in values.values()]
        rows.append(
            [
                row_head(mode),
                *(("", "none") if m is None else (f"{m:.3f}", f"heat h{min(int(m * 10), 9)}") for m in means),
            ]
        )
    return f'<p class="note">{main} by value, with how many queries have it.</p>' + table(head, rows, len(values))


def _agreements(summary: Mapping[str, Any]) -> str:
    rows: list[list[Cell]] = []
    for name, a in summary["agreements"].items():
        overlap = next((v for k, v in a.items() if k.startswith("overlap@")), None)
        values = (overlap, a["exact_order"], a["rbo"], a["tau"], a["max_score_difference"])
        rows.append(
            [
                row_head(name),
                (a["reference"].partition("[")[0], "base"),
                *("" if v is None else f"{v:.4g}" for v in values),
            ]
        )
    return (
        table(["", "reference", "overlap@10", "same order", "RBO", "tau", "largest score difference"], rows, 6)
        if rows
        else ""
    )


def _speed(summary: Mapping[str, Any]) -> str:
    timed = any(m["latency"] for m in summary["modes"].values())
    rows: list[list[Cell]] = []
    for name, m in summary["modes"].items():
        if m["error"] is not None:
            continue
        total = sum(m["stages"].values()) or 1.0
        stages = ", ".join(f"{s} {v / total:.0%}" for s, v in m["stages"].items() if v / total >= 0.01)
        row: list[Cell] = [
            row_head(name),
            "" if m["queries_per_second"] is None else f"{m['queries_per_second']:,.0f}",
            f"{m['seconds']:.2f} s",
        ]
        if timed:
            found = m["latency"] or {}
            row += [f"{found[q] * 1000:.1f} ms" if q in found else "" for q in ("p50", "p95", "p99", "max")]
        rows.append([*row, (stages, "left")])
    head = ["", "queries/s", "all queries", *(["p50", "p95", "p99", "max"] if timed else []), "stages"]
    note = f"Encoding took {summary['encode_seconds']:.2f} s, which isn't counted. Queries were given all at once"
    note += "; the quantiles are of single ones, one in flight." if timed else "."
    return f'<p class="note">{note}</p>' + table(head, rows, 6 if timed else 2)


def _remarks(summary: Mapping[str, Any]) -> str:
    found = remarks(summary)
    failed = [(n, q, e) for n, m in summary["modes"].items() if m["evaluation"] is not None
              for q, e in m["evaluation"]["failed"].items()]  # fmt: skip
    out = f"<ul>{''.join(f'<li>{escaped(r)}</li>' for r in found)}</ul>" if found else '<p class="note">Nothing.</p>'
    if failed:
        rows: list[list[Cell]] = [[n, q, (e, "left")] for n, q, e in failed[:50]]
        inside = table(["", "query", "error"], rows, 0)
        out += f"<details><summary>{len(failed)} queries that failed</summary>{inside}</details>"
    return out


def _settings(folder: Path, manifest: Mapping[str, Any]) -> str:
    config = (folder / CONFIG).read_text(encoding="utf-8")
    rows: list[list[Cell]] = [[k, (v, "left")] for k, v in _flat(manifest) if not k.startswith("files.")]
    return (f"<section><h2>Settings</h2><details><summary>config.toml</summary><pre>{escaped(config)}</pre></details>"
            f"<details><summary>manifest.json</summary>{table(['', ''], rows, 0)}</details></section>")  # fmt: skip


def _flat(value: Any, above: str = "") -> list[tuple[str, str]]:
    if isinstance(value, Mapping):
        return [pair for k, v in value.items() for pair in _flat(v, f"{above}{'.' if above else ''}{k}")]
    if isinstance(value, list):
        return [pair for i, v in enumerate(value) for pair in _flat(v, f"{above}.{i}")]
    return [(above, "none" if value is None else str(value))]


def _groups(summary: Mapping[str, Any], ran: Mapping[str, Any]) -> dict[str, int]:
    """A colour for each verb; -1 for baselines."""
    verbs = list(dict.fromkeys(m["verb"] for n, m in ran.items() if n not in summary["baselines"]))
    return {n: -1 if n in summary["baselines"] else verbs.index(m["verb"]) for n, m in ran.items()}
