"""The tables of a report, as headings and rows of text; `markdown` and `html` write them down."""

import html as escape
from dataclasses import dataclass
from typing import Any

from bench.records import Cell


@dataclass(frozen=True)
class Table:
    title: str
    note: str
    head: list[str]
    rows: list[list[str]]

    def markdown(self) -> str:
        """Numbers to the right."""
        sides = ["---:" if self._number(i) else "---" for i in range(len(self.head))]
        lines = [self.head, sides, *self.rows]
        body = "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |" for line in lines)
        return f"### {self.title}\n\n{self.note}\n\n{body}"

    def html(self) -> str:
        """With a caption and scoped headings, for those who listen."""
        text = escape.escape
        head = "".join(f'<th scope="col">{text(h)}</th>' for h in self.head)
        classes = ["number" if self._number(i) else "text" for i in range(len(self.head))]
        rows = "".join(
            "<tr>" + "".join(f'<td class="{c}">{text(v)}</td>' for c, v in zip(classes, row, strict=True)) + "</tr>"
            for row in self.rows
        )
        return (
            f"<h3>{text(self.title)}</h3><p>{text(self.note)}</p><div class=wide><table>"
            f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
        )

    def _number(self, column: int) -> bool:
        texts = [row[column] for row in self.rows if row[column]]
        return bool(texts) and all(t[0].isdigit() for t in texts)


def tables_of(cells: list[Cell]) -> list[Table]:
    """All tables that the cells give rise to."""
    timed = [c for c in cells if "median_s" in c]
    made = [
        _summary(
            "Recall", "Engine.recall on vectors, warm; milliseconds are medians (20 to 80 %). \"alone\": queries that "
            "have the same edges and score bits alone as in the batch.",
            [c for c in timed if c["suite"] == "recall" and not c["settings"].get("cold")],
            ("workload", "settings", "time", "rate", "stages", "alone"),
        ),
        _summary(
            "First call of a process", "Cold: a fresh process that finds compiled kernels on disk. Memory is the "
            "highest of the call, above what the process held before it; held is what isn't pages of files, above "
            "the imports; data are the vectors and three int32 an edge.",
            [c for c in timed if c["settings"].get("cold")],
            ("suite", "workload", "settings", "time", "import", "build", "second", "peak", "held", "data"),
        ),
        _summary(
            "Search alone", "Recall@k counts rows no farther than the k-th nearest.",
            [c for c in timed if c["suite"] == "search"],
            ("workload", "system", "settings", "time", "rate", "recall", "gb_s", "gflop_s"),
        ),
        _summary(
            "Fixed candidates", "Fragment, scores and top-k. SciPy and igraph find the edges only.",
            [c for c in timed if c["suite"] == "graph"],
            ("workload", "system", "settings", "time", "rate", "edges", "agrees"),
        ),
        _paired("End to end beside plain torch", [c for c in timed if c["suite"] in ("pipeline", "full")], "torch"),
        _paired(
            "Beside Cognee", [c for c in timed if c["suite"] == "cognee"], "cognee",
            "Cognee's vector search costs nothing here: its stores are prepared answers whose time is subtracted. It "
            "has no batch form of a limited search, so its rate there is that of calls one after another.",
        ),
        _verbs([c for c in timed if c["suite"] == "grafito" and c["settings"]["call"] != "pagerank"]),
        _ranks([c for c in timed if c["suite"] == "grafito" and c["settings"]["call"] == "pagerank"]),
        _summary(
            "Subgraphs by stage", "Where Tercet's time goes; milliseconds are medians.",
            [c for c in timed if c["suite"] == "grafito" and c["settings"].get("form") == "arrays"],
            ("workload", "settings", "time", "stages"),
        ),
        *(
            _summary(title, note, [c for c in timed if c["suite"] == suite], columns)
            for suite, title, note, columns in (
                ("render", "Texts and tables", "Of a batch that is ranked already.",
                 ("workload", "settings", "time", "triplets", "written")),
                ("encode", "Texts", "", ("workload", "system", "settings", "time", "rate", "stages")),
                ("build", "Build", "", ("workload", "settings", "time", "peak")),
                ("store", "Store on disk", "Steps in processes of their own, beside plain writes and reads of the same "
                 "bytes; memory is the highest of a call, above what the process held before it.",
                 ("workload", "system", "settings", "time", "gb_s", "peak", "written")),
                ("scaling", "Growth", "Fixed candidates while nodes and edges grow.",
                 ("workload", "settings", "time", "visited")),
                ("roofline", "Roofline", "Bytes and operations are counted from sizes; the share is that of the time "
                 "which this machine needs at least.",
                 ("system", "workload", "settings", "time", "gb_s", "gflop_s", "share")),
            )
        ),
    ]  # fmt: skip
    left = [c for c in cells if "skipped" in c or "refused" in c]
    if left:
        rows = [
            [c["suite"], c["system"], _workload(c), _settings(c), str(c.get("refused") or c["skipped"])] for c in left
        ]
        made.append(
            Table("Not timed", "Refused cells wait for red tests.", ["suite", "system", "graph", "cell", "why"], rows)
        )
    return [t for t in made if t is not None and t.rows]


def _summary(title: str, note: str, cells: list[Cell], columns: tuple[str, ...]) -> Table:
    head = {**{c: c for c in columns}, "time": "ms", "rate": "a second", "workload": "graph", "settings": "cell"}
    units = {
        "gb_s": "GB/s",
        "gflop_s": "GFLOP/s",
        "import": "import, s",
        "build": "build, s",
        "second": "second call, ms",
    }
    names = [units.get(c, head[c]) for c in columns]
    return Table(title, note, names, [[COLUMNS[c](cell) for c in columns] for cell in cells])


def _paired(title: str, cells: list[Cell], other: str, note: str = "") -> Table:
    """A row for each cell of Tercet, with the other system's beside it."""
    theirs = {_key(c): c for c in cells if c["system"] == other}
    rows = []
    for c in cells:
        if c["system"] != "tercet":
            continue
        key = _key(c)
        # the other system's own batch, its largest that fits its budget, or single calls
        fitting = [p for k, p in theirs.items() if k[::2] == key[::2] and k[1] <= key[1]]
        peer = max(fitting, key=lambda p: p["settings"]["batch"], default=None)
        row = [_workload(c), _limit(c), str(key[1]), _time(c), f"{c['qps']:,.0f}"]
        if peer is None:
            rows.append([*row, "not measured", "", ""])
            continue
        aside = "" if peer["settings"]["batch"] == key[1] else f" (batches of {peer['settings']['batch']})"
        agree = peer["agreement"]
        times = c["qps"] / peer["qps"]
        rows.append(
            [*row, f"{peer['qps']:,.2f}{aside}", f"{times:,.0f}" if times >= 10 else f"{times:.2f}",
             f"{agree['same']}/{agree['queries']}"]
        )  # fmt: skip
    return Table(
        title, note or "The same graph, vectors and queries; rankings compared up to rounding.",
        ["graph", "limit", "batch", "Tercet, ms", "Tercet, q/s", f"{other}, q/s", "ratio", "same rankings"], rows,
    )  # fmt: skip


def _verbs(cells: list[Cell]) -> Table:
    """A row for each call, batch and index of Grafito's, with Tercet's arrays, its objects and Grafito's rules."""
    rows = []
    for peer in [c for c in cells if c["system"] == "grafito"]:
        mine = [c for c in cells if c["system"] == "tercet" and _question(c) == _question(peer)]
        for batch in dict.fromkeys(c["settings"]["batch"] for c in mine):
            forms = {(c["settings"]["mode"], c["settings"]["form"]): c for c in mine if c["settings"]["batch"] == batch}
            sides = [forms.get(k) for k in (("native", "arrays"), ("native", "objects"), ("grafito", "arrays"))]
            rows.append(
                [_workload(peer), _call(peer), str(batch), *(_each(c) for c in sides), peer["settings"]["backend"],
                 _each(peer), *(_times(peer, c) for c in sides), COLUMNS["agrees"](peer)]
            )  # fmt: skip
    return Table(
        "Beside Grafito", "Milliseconds are medians a query; Grafito has no batch form, so its are those of single "
        "calls. Tercet's answers are arrays, or the objects that Grafito makes, too; \"its rules\": arrays, by "
        "Grafito's rules, by which the answers are compared: the same seeds, nodes, relationships and routes.",
        ["graph", "call", "batch", "Tercet, ms", "objects, ms", "its rules, ms", "index", "Grafito, ms", "ratio",
         "ratio, objects", "ratio, its rules", "same answers"], rows,
    )  # fmt: skip


def _ranks(cells: list[Cell]) -> Table:
    """A row for each batch and library beside Tercet."""
    rows = []
    for peer in [c for c in cells if c["system"] != "tercet"]:
        for c in [c for c in cells if c["system"] == "tercet" and _question(c) == _question(peer)]:
            rows.append(
                [_workload(c), str(c["settings"]["batch"]), _each(c), peer["system"], _each(peer), _times(peer, c),
                 COLUMNS["agrees"](peer)]
            )  # fmt: skip
    return Table(
        "Personalised PageRank", "Milliseconds are medians a query; the others answer single queries. Same: the scores "
        "of the best nodes, within 1e-5.",
        ["graph", "batch", "Tercet, ms", "library", "its ms", "ratio", "same scores"], rows,
    )  # fmt: skip


def _question(cell: Cell) -> tuple[str, str]:
    """What cells of several systems have in common."""
    return _workload(cell), _call(cell)


def _call(cell: Cell) -> str:
    settings = cell["settings"]
    return ", ".join([settings["call"], *(f"{k} {v}" for k, v in settings.items() if k in ARGUMENTS)])


def _each(cell: Cell | None) -> str:
    """Milliseconds a query."""
    return "" if cell is None else f"{cell['median_s'] * 1e3 / cell['settings']['batch']:.3g}"


def _times(slow: Cell, fast: Cell | None) -> str:
    """How many times as many queries a second."""
    if fast is None:
        return ""
    times = fast["qps"] / slow["qps"]
    return f"{times:,.0f}" if times >= 10 else f"{times:.2g}"


def _key(cell: Cell) -> tuple[str, int, int]:
    return _workload(cell), cell["settings"]["batch"], cell["settings"]["wide"]


def _workload(cell: Cell) -> str:
    return str((cell.get("workload") or {}).get("name", ""))


def _limit(cell: Cell) -> str:
    return str(cell["settings"]["wide"]) if cell["settings"]["wide"] else "none"


def _settings(cell: Cell) -> str:
    settings = {k: v for k, v in cell["settings"].items() if v is not True}  # cold cells have a table of their own
    return ", ".join("no limit" if (k, v) == ("wide", 0) else f"{k} {v}" for k, v in settings.items())


def _time(cell: Cell) -> str:
    """Milliseconds: median and the quantiles around it, to three digits."""
    low, middle, high = (f"{cell[q] * 1e3:.3g}" if cell[q] < 1 else f"{cell[q] * 1e3:,.0f}" for q in QUANTILES)
    return middle if cell["repeats"] == 1 else f"{middle} ({low} to {high})"


def _bytes(count: Any) -> str:
    return "" if count is None else f"{count / 1e6:,.1f} MB"


ARGUMENTS = ("k", "expand", "max_hops", "seeds", "top_k")
QUANTILES = ("p20_s", "median_s", "p80_s")
COLUMNS = {
    "suite": lambda c: c["suite"],
    "system": lambda c: c["system"],
    "workload": _workload,
    "settings": _settings,
    "time": _time,
    "rate": lambda c: f"{c['qps']:,.0f}" if "qps" in c else "",
    "stages": lambda c: ", ".join(f"{s} {v * 1e3:.2f}" for s, v in c.get("stages", {}).items()),
    "alone": lambda c: c.get("alone_same", ""),
    "recall": lambda c: f"{c['recall']:.4f}" if c.get("recall") is not None else "",
    "gb_s": lambda c: f"{c['gb_s']:,.1f}" if "gb_s" in c else "",
    "gflop_s": lambda c: f"{c['gflop_s']:,.1f}" if "gflop_s" in c else "",
    "share": lambda c: f"{c['share']:.0%} of {c['bound']}" if "share" in c else "",
    "edges": lambda c: f"{c['fragment_edges']:,}" if "fragment_edges" in c else "",
    "visited": lambda c: f"{c['visited_entries']:,}" if "visited_entries" in c else "",
    "agrees": lambda c: f"{c['agreement']['same']}/{c['agreement']['queries']}" if "agreement" in c else "",
    "triplets": lambda c: f"{c['triplets']:,}",
    "written": lambda c: _bytes(c.get("written_bytes")),
    "peak": lambda c: _bytes(c.get("peak_bytes")),
    "data": lambda c: _bytes(c.get("data_bytes")),
    "held": lambda c: _bytes(c.get("held_bytes")),
    "import": lambda c: f"{c['import_s']:.2f}",
    "build": lambda c: f"{c['build_s']:.2f}",
    "second": lambda c: f"{c['second_s'] * 1e3:.3g}",
}
