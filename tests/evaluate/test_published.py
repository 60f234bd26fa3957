"""The recall values that others published with their rankings, recomputed from the rankings alone."""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("ir_measures")
pytest.importorskip("pytrec_eval")

from tercet.evaluate import Qrels, Queries, Run, read_runs, score_run
from tercet.formats.tables import read_json_lines

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"
needs_data = pytest.mark.skipif(not SHARED.is_dir(), reason="the data sets in ../shared/data aren't on this machine")
MEASURES = ("R@5", "R@10", "all_recall@10")


def published(name):
    return [row for _, row in read_json_lines(SHARED / name / "external_runs.jsonl.gz")]


@needs_data
@pytest.mark.parametrize("name", ["musique", "2wikimultihopqa"])
def test_every_published_recall_is_reproduced_exactly(name):
    qrels = Qrels.read(SHARED / name / "questions.jsonl.gz")
    runs = read_runs(SHARED / name / "external_runs.jsonl.gz")
    assert len(runs) == 3
    found = {}
    for run in runs.values():
        made = score_run(run, qrels, measures=MEASURES)
        assert (made.n, made.missing, made.unjudged) == (700, [], ())
        found[run.name] = dict(zip(made.queries.to_pylist(), made.values.tolist(), strict=True))
    rows = published(name)
    assert len(rows) == 2_100
    wrong = [r for r in rows if found[r["run"]][r["id"]][:2] != [r["recall_5"], r["recall_10"]]]
    assert wrong == []


@needs_data
def test_published_shares_of_questions_with_all_evidence():
    """fast-graphrag's "All queries" column: the share of questions for which every gold passage came back."""
    qrels = Qrels.read(SHARED / "2wikimultihopqa" / "questions.jsonl.gz")
    path = SHARED / "2wikimultihopqa" / "fast_graphrag_runs.jsonl.gz"
    runs = read_runs(path, by=("run", "subset"), repeats="first")
    perfect: dict[str, dict[str, bool]] = {}
    for _, row in read_json_lines(path):
        perfect.setdefault(f"{row['run']}-{row['subset']}", {})[row["id"]] = row["perfect"]
    means = {}
    for name, run in runs.items():
        asked = Queries.of(dict.fromkeys(run.queries.to_pylist(), "text"))
        made = score_run(run, qrels, measures=["all_recall@8"], queries=asked)
        assert dict(zip(made.queries.to_pylist(), made["all_recall@8"] == 1, strict=True)) == perfect[name]
        means[name] = round(made.means["all_recall@8"], 2)
    assert means == {
        "circlemind_graph-51": 0.96, "circlemind_graph-101": 0.93, "vectordb-51": 0.49, "vectordb-101": 0.42,
        "nano_graphrag_local-51": 0.75, "nano_graphrag_local-101": 0.73, "lightrag_local-51": 0.47,
        "lightrag_local-101": 0.45,
    }  # fmt: skip


@needs_data
def test_weights_of_repeated_questions():
    queries = Queries.read(SHARED / "hotpotqa" / "questions.jsonl.gz")
    weights = queries.weights("rows")
    assert len(queries) == 661
    assert weights.max() > 1
    qrels = Qrels.read(SHARED / "hotpotqa" / "questions.jsonl.gz")
    gold = qrels.to_dict()
    even = {q: list(gold[q]) for q in list(gold)[::2]}  # every other question answered rightly
    made = score_run(Run.of_lists("even", even), qrels, measures=["R@2"], queries=queries, weight="rows")
    right = np.isin(queries.ids.to_pylist(), list(even))
    assert made.means["R@2"] == pytest.approx(weights[right].sum() / weights.sum(), abs=1e-15)
    assert made.means["R@2"] != pytest.approx(right.mean(), abs=1e-6)


@needs_data
def test_answers_of_a_knowledge_graph_are_nodes():
    qrels = Qrels.read(SHARED / "metaqa" / "questions.jsonl.gz", gold="answers")
    assert len(qrels) == 54_762
    assert qrels.to_dict()["1hop-dev-0"] == {"Once Were Warriors": 1, "Tracker": 1, "River Queen": 1}
