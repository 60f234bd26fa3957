"""What is found of a real set may not become worse than it was when these numbers were recorded."""

from pathlib import Path

import pytest

pytest.importorskip("ir_measures")
pytest.importorskip("scipy")

import tercet
from tercet import build
from tercet.evaluate import Queries

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"
pytestmark = pytest.mark.skipif(
    not (SHARED / "musique_train100").is_dir(), reason="the data sets in ../shared/data aren't on this machine"
)
R5 = {"dense": 0.6286, "bm25": 0.5190, "full": 0.5333, "first": 0.7560, "multihop": 0.7595}
TOLERANCE = 0.005  # a third of a query of 70


@pytest.fixture(scope="module")
def report():
    made, read = build.from_openie(SHARED / "musique_train100", None, vectors=SHARED / "minilm")
    source = SHARED / "musique_train100" / "questions.jsonl.gz"
    queries = Queries.read(source, vectors=SHARED / "minilm" / "musique_train100.questions.f16.npy")
    modes = {"full": {"verb": "recall", "projection": "full"}} | {
        mode: {"verb": "passage_search", "mode": mode} for mode in ("first", "multihop")
    }
    return tercet.evaluate(made, queries, source, modes, prefix="passage:", citations=read.citations, resamples=200)


@pytest.mark.parametrize("mode", R5)
def test_recall_at_5_doesnt_fall(report, mode):
    got = report.evaluations[mode]
    assert got.n == 70
    assert not got.failed
    assert got.means["R@5"] >= R5[mode] - TOLERANCE


def test_the_order_of_the_ways(report):
    means = {mode: e.means["R@5"] for mode, e in report.evaluations.items()}
    assert means["multihop"] > means["dense"] + 0.1
    assert means["first"] > means["dense"] > means["bm25"]
