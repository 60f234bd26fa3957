"""The report: tables from cells, plots, and a page that needs nothing else."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from bench.records import Folder, Run, read
from bench.report import markdown, page, write
from bench.tables import tables_of
from tercet.errors import InvalidArgument

WORKLOAD = {"name": "tiny", "nodes": 10, "edges": 20, "relations": 3, "dimension": 4, "vectors": "clustered, seeded"}
MANIFEST = {
    "commit": "abc1234", "dirty": False, "date": "2026-01-02 03:04", "python": "3.11.0", "threads": 2, "seed": 0,
    "versions": {"tercet": "0.1.0", "torch": "2.0"},
    "machine": {"id": "x", "cpu": "A <CPU>", "capability": "AVX2", "cores": 2, "memory_gib": 8.0, "device": "cpu"},
}  # fmt: skip


def timed(suite: str, system: str, median: float, settings: dict[str, Any], **more: Any) -> dict[str, Any]:
    rate = {"qps": settings["batch"] / median} if "batch" in settings else {}
    return {
        "suite": suite, "system": system, "workload": WORKLOAD, "settings": settings, "median_s": median,
        "p20_s": median * 0.9, "p80_s": median * 1.5, "cpu_s": median, "repeats": 3, **rate, **more,
    }  # fmt: skip


def cells() -> list[dict[str, Any]]:
    wide = {"wide": 100, "top_k": 10}
    agree = {"same": 3, "queries": 4}
    out = [
        timed("recall", "tercet", 0.001 * batch**0.5, {"batch": batch, "wide": 100, "top_k": 10},
              stages={"search": 0.0005, "rank": 0.0001}, alone_same="4/4")
        for batch in (1, 16)
    ]  # fmt: skip
    out += [timed("search", "torch", 0.002, {"batch": b, "k": 5}, recall=1.0, gb_s=3.0, gflop_s=40.0) for b in (1, 64)]
    for knob, recall, median in ((8, 0.8, 0.001), (16, 0.9, 0.004), (32, 0.85, 0.008)):
        settings = {"batch": 64, "k": 5, "index": "ivf", "nprobe": knob}
        out.append(timed("search", "tercet-approx", median, settings, recall=recall))
    out += [
        timed("cognee", "tercet", 0.01, {"batch": 4, **wide}),
        timed("cognee", "tercet", 0.01, {"batch": 8, "wide": 0, "top_k": 10}),
        timed("cognee", "cognee", 0.5, {"batch": 1, **wide}, agreement=agree),
        {"suite": "cognee", "system": "cognee", "workload": WORKLOAD, "settings": {}, "skipped": "a | pipe <b>"},
        {"suite": "memory", "system": "tercet", "workload": None, "settings": {}, "refused": "test_a.py::test_b"},
    ]
    for nodes in (10, 20):
        row = timed("scaling", "tercet", nodes / 1e3, {"batch": 2, "stage": "expand", "candidates": "uniform"})
        out.append({**row, "workload": {**WORKLOAD, "name": f"n{nodes}", "nodes": nodes, "edges": 2 * nodes}})
    machine = {"bytes": 8, "flops": 8, "gb_s": 10.0, "gflop_s": 100.0}
    out += [timed("roofline", "machine", 0.1, {"measure": m}, **machine) for m in ("copy", "read", "gemm")]
    stage = {"stage": "search", "batch": 2}
    more = {"bytes": 100, "flops": 50, "gb_s": 1.0, "gflop_s": 0.5}
    return [*out, timed("roofline", "tercet", 0.1, stage, share=0.1, bound="memory", **more)]


RECALL = """### Recall

Engine.recall on vectors, warm; milliseconds are medians (20 to 80 %). "alone": queries that have the same edges and score bits alone as in the batch.

| graph | cell | ms | a second | stages | alone |
| --- | --- | ---: | ---: | --- | ---: |
| tiny | batch 1, wide 100, top_k 10 | 1 (0.9 to 1.5) | 1,000 | search 0.50, rank 0.10 | 4/4 |
| tiny | batch 16, wide 100, top_k 10 | 4 (3.6 to 6) | 4,000 | search 0.50, rank 0.10 | 4/4 |"""  # noqa: E501


def test_markdown_of_known_cells() -> None:
    text = markdown("head", tables_of(cells()), [])
    assert RECALL in text
    assert (
        "| tiny | tercet-approx | batch 64, k 5, index ivf, nprobe 16 | 4 (3.6 to 6) | 16,000 | 0.9000 |  |  |" in text
    )
    # a limited search in batches stands beside single calls; one without a limit was not measured
    assert "| tiny | 100 | 4 | 10 (9 to 15) | 400 | 2.00 (batches of 1) | 200 | 3/4 |" in text
    assert "| tiny | none | 8 | 10 (9 to 15) | 800 | not measured |  |  |" in text
    assert "| memory | tercet |  |  | test_a.py::test_b |" in text
    assert "| cognee | cognee | tiny |  | a / pipe <b> |" in text
    for line in [x for x in text.splitlines() if x.startswith("|")]:
        assert line.count("|") > 4


def test_every_cell_without_a_time_is_listed() -> None:
    refused = [c for c in cells() if "median_s" not in c]
    assert len(tables_of(refused)[0].rows) == len(refused) == 2


def folder_of(tmp_path: Path) -> Run:
    folder = Folder(tmp_path / "run")
    folder.manifest(MANIFEST)
    for cell in cells():
        folder.put(cell)
    return read(tmp_path / "run")


def test_the_page_is_complete_and_refers_to_nothing_outside(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the bench extra isn't installed")
    paths = write([folder_of(tmp_path)], tmp_path / "out")
    names = {"recall-qps", "qps-batch", "time-nodes", "roofline", "search-batch"}
    assert {p.stem for p in paths if p.suffix == ".svg"} == names
    text = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert text.count("<svg") == text.count('role="img" aria-label=') == len(names)
    assert "http" not in re.sub(r"<style.*?</style>", "", text, flags=re.S)
    assert not re.search(r"""(src|href)=["'](?!#)""", text)
    assert "<script" not in text
    assert "A &lt;CPU&gt;" in text
    assert "queries a second</text>" in text  # text of the plots stays text
    for name in re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', text):
        assert f'id="{name[0] or name[1]}"' in text
    markdown_text = (tmp_path / "out" / "report.md").read_text(encoding="utf-8")
    for name in names:
        assert f"(plots/{name}.svg)" in markdown_text
        assert (tmp_path / "out" / "plots" / f"{name}.svg").read_text(encoding="utf-8").startswith("<?xml")


def test_the_same_cells_give_the_same_page(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the bench extra isn't installed")
    run = folder_of(tmp_path)
    first, second = (write([run], tmp_path / name)[1].read_bytes() for name in ("a", "b"))
    assert first == second


def test_runs_of_two_machines_are_not_put_together(tmp_path: Path) -> None:
    run = folder_of(tmp_path)
    for other in ({"commit": "def"}, {"threads": 1}, {"machine": {**MANIFEST["machine"], "id": "y"}}):  # type: ignore[dict-item]
        with pytest.raises(InvalidArgument, match="another"):
            write([run, Run({**MANIFEST, **other}, [], tmp_path)], tmp_path / "out")


def test_the_pareto_line_holds_what_nothing_beats() -> None:
    plots = pytest.importorskip("bench.plots")
    assert plots.pareto([(0.5, 9), (0.8, 5), (0.7, 4), (0.9, 5), (1.0, 1), (0.5, 8)]) == [(0.5, 9), (0.9, 5), (1.0, 1)]


def test_html_escapes() -> None:
    assert "a | pipe &lt;b&gt;" in page("<head>", tables_of(cells()), [])
    assert "&lt;head&gt;" in page("<head>", [], [])
