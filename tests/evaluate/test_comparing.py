"""Two runs side by side by their folders, and the report of one as a page."""

import json
import re
import shutil
from html.parser import HTMLParser

import numpy as np
import pytest

pytest.importorskip("ir_measures")
pytest.importorskip("scipy")

import tercet
from tercet.errors import InvalidArgument, InvalidData
from tercet.evaluate import compare, compare_folders, grid
from tercet.evaluate.cells import short_names
from tercet.evaluate.charts import histogram, log_ticks, pareto, ticks
from tercet.evaluate.page import page
from tests.evaluate.small import QRELS, QUERIES, engine

EVIL = "</script><img src=x onerror=alert(1)>"
MANY = {f"q{i}": text for i, text in enumerate([*QUERIES.values()] * 8)}
JUDGED = {f"q{i}": ids for i, ids in enumerate([*QRELS.values()] * 8)}


def run(out, modes, qrels=JUDGED, **options):
    rows = [{"id": q, "text": t, "kind": EVIL if i % 2 else "plain"} for i, (q, t) in enumerate(MANY.items())]
    return tercet.evaluate(
        engine(), rows, qrels, modes, out=out, **({"prefix": "p:", "k": 3, "resamples": 200} | options)
    )


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    a = run(folder / "a", {"recall": {"wide_search_top_k": 1}, "text_search": {}})
    b = run(folder / "b", {"recall": {"wide_search_top_k": 4}, "passage_search": {}}, context_k=2)
    return folder / "a", folder / "b", a, b


def test_what_differs_is_said(folders):
    a, b, first, second = folders
    made = compare_folders(a, b)
    assert made.settings == {"context_k": (5, 2), "modes.recall.wide_search_top_k": (1, 4),
                             "modes.text_search.verb": ("text_search", None),
                             "modes.passage_search.verb": (None, "passage_search")}  # fmt: skip
    assert made.only == (["text_search"], ["passage_search"])
    assert {r.system for r in made.comparison.rows} == {"recall", "dense", "bm25"}
    direct = compare({"A": first.evaluations["recall"], "B": second.evaluations["recall"]}, ["A"])
    row = next(r for r in made.comparison.rows if (r.system, r.measure) == ("recall", "nDCG@10"))
    expected = next(r for r in direct.rows if r.measure == "nDCG@10")
    assert (row.difference, row.low, row.high, row.p, row.n) == (
        expected.difference, expected.low, expected.high, expected.p, expected.n)  # fmt: skip
    assert row.p_holm >= row.p  # corrected over all rows
    same = made.agreements["dense"]
    assert same.means["exact_order"] == 1.0
    assert made.agreements["recall"].means["exact_order"] < 1.0
    text = str(made)
    assert "modes.recall.wide" in text.replace("\\", "")
    assert "Only in B: passage_search" in text
    json.dumps(made.summary(), allow_nan=False)


def test_pairs_may_be_named(folders):
    a, b, first, second = folders
    made = compare_folders(a, b, modes=[("text_search", "passage_search")], measures=["R@1"])
    (row,) = made.comparison.rows
    assert row.system == "passage_search / text_search"
    assert (
        row.difference
        == second.evaluations["passage_search"].means["R@1"] - first.evaluations["text_search"].means["R@1"]
    )
    with pytest.raises(InvalidArgument, match="compare: B has no ranking of 'text_search': there are recall"):
        compare_folders(a, b, modes=[("text_search", "text_search")])


def test_other_qrels_are_refused(folders, tmp_path):
    run(tmp_path / "c", {"recall": {}}, JUDGED | {"q0": ["1", "2"]})
    with pytest.raises(InvalidData, match=r"judged by different qrels \(40 judgements of 32 queries and 41 judgements"):
        compare_folders(folders[0], tmp_path / "c")
    shutil.copytree(folders[1], tmp_path / "d")
    (tmp_path / "d" / "results.parquet").unlink()
    with pytest.raises(InvalidData, match=r"half-written run folder: results.parquet is missing"):
        compare_folders(folders[0], tmp_path / "d")


class Tags(HTMLParser):
    """The tags of a page, and what they refer to."""

    def __init__(self):
        super().__init__()
        self.open, self.links, self.seen = [], [], []

    def handle_starttag(self, tag, attributes):
        self.seen.append(tag)
        self.links += [v for k, v in attributes if k in ("src", "href", "xlink:href", "data")]
        if tag not in ("meta", "line", "rect", "circle", "polyline", "path"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.seen.append(tag)

    def handle_endtag(self, tag):
        if tag not in ("rect", "circle"):
            assert self.open.pop() == tag


def test_the_page_needs_nothing_else_and_takes_no_text_for_code(folders, tmp_path):
    made = run(tmp_path / EVIL.replace("/", "|"), grid({"recall": {"wide_search_top_k": [1, 4], "top_k": [3, 5]}}) | {
        "broken": {"verb": "recall", "projection": "no"}}, latency=2, reference="exact")  # fmt: skip
    text = page(tmp_path / EVIL.replace("/", "|"))
    tags = Tags()
    tags.feed(text)
    assert not tags.open
    assert not tags.links
    assert not {"script", "link", "img", "iframe"} & set(tags.seen)
    assert tags.seen.count("svg") == 3
    assert not re.search(r"https?://", text)
    best = max(e.means["R@5"] for n, e in made.evaluations.items() if n not in made.baselines)
    assert f'<strong class="">{best:.4f}</strong>' in text
    assert "did not run: InvalidArgument: projection" in text
    assert "recall · 4 · 5" in text
    assert "prefers-color-scheme: dark" in text
    assert "p99" in text


def test_a_page_of_queries_that_failed(tmp_path):
    tercet.evaluate(engine(), QUERIES | {"q5": " "}, QRELS | {"q5": ["1"]}, {"recall": {}}, prefix="p:", k=3,
                    resamples=50, out=tmp_path / "r")  # fmt: skip
    text = page(tmp_path / "r")
    assert "3 queries that failed" in text  # of recall and both baselines
    assert "the query is blank" in text
    assert "1 failed" in text


def test_marks_and_lines():
    assert ticks(0.0, 1.0) == pytest.approx([0, 0.2, 0.4, 0.6, 0.8, 1.0])
    assert ticks(3.0, 3.0) == [3.0]
    assert log_ticks(3, 250) == [5, 10, 20, 50, 100, 200]
    assert log_ticks(1, 1e6) == [10.0**i for i in range(7)]
    assert pareto([(1, 5), (2, 4), (1.5, 4), (3, 1), (2, 3)]) == [(1, 5), (2, 4), (3, 1)]
    names = ["recall[a=1,b=x]", "recall[a=2,b=x]", "dense"]
    assert short_names(names) == dict(zip(names, ["recall · 1 · x", "recall · 2 · x", "dense"], strict=True))
    twice = ["recall[a=1]", "recall[b=1]"]
    assert short_names(twice) == {n: n for n in twice}
    drawn = histogram([0.0, 0.0, 0.5, -1.0, 1.0], "x")
    assert "same: 2 of 5" in drawn
    assert "better: 2" in drawn
    assert drawn.count("<rect") == 3
    assert np.isfinite([float(v) for v in re.findall(r'height="([\d.]+)"', drawn)]).all()
