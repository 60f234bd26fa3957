"""`tercet eval` and `tercet eval score`, in this process."""

import json

import pytest
from typer.testing import CliRunner

pytest.importorskip("ir_measures")
pytest.importorskip("scipy")

import tercet
from tercet import cli
from tercet.errors import InvalidArgument, InvalidData
from tests.evaluate.small import QRELS, QUERIES, engine, toy


@pytest.fixture
def files(tmp_path, monkeypatch):
    """A store, queries and qrels; stores open with the toy encoder."""
    engine(None).save(tmp_path / "g.store")
    (tmp_path / "queries.jsonl").write_text(
        "".join(json.dumps({"id": q, "question": t, "hops": len(t) % 2}) + "\n" for q, t in QUERIES.items())
    )
    rows = "".join(f"{q}\t{d}\t1\n" for q, ds in QRELS.items() for d in ds)
    (tmp_path / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\n" + rows)
    (tmp_path / "c.toml").write_text('prefix = "p:"\nk = 3\nresamples = 100\n[modes.recall]\n[modes.hybrid_search]\n')
    opened = tercet.open
    monkeypatch.setattr(
        tercet, "open", lambda path, encoder=None, **more: opened(path, encoder=toy, **more), raising=False
    )
    return tmp_path


def run(*arguments, code=0):
    result = CliRunner().invoke(cli.app, [str(a) for a in arguments], catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result.output


def given(files):
    return ["--store", files / "g.store", "--queries", files / "queries.jsonl", "--qrels", files / "qrels.tsv",
            "--config", files / "c.toml"]  # fmt: skip


@pytest.mark.parametrize("spelled", [["eval"], ["eval", "run"]])
def test_eval_runs_writes_and_prints(files, spelled):
    text = run(*spelled, *given(files), "--out", files / "runs" / "a")
    assert "dense" in text
    assert "results in" in text
    made = json.loads((files / "runs" / "a" / "summary.json").read_text())
    assert list(made["modes"]) == ["recall", "hybrid_search", "dense", "bm25"]
    with pytest.raises(InvalidArgument, match="never written over"):
        run(*spelled, *given(files), "--out", files / "runs" / "a")


def test_score_of_a_written_run(files):
    run("eval", *given(files), "--out", files / "out")
    made = json.loads(run("eval", "score", files / "out" / "run.dense.trec", files / "qrels.tsv", "--json"))
    assert made["means"]["RR@10"] == 1.0
    text = run("eval", "score", files / "out" / "run.dense.trec", files / "qrels.tsv", "--queries",
               files / "queries.jsonl", "--by", "hops", "--measure", "R@1")  # fmt: skip
    assert "hops=0" in text
    assert "R@1" in text


def test_json(files):
    made = json.loads(run("eval", *given(files), "--json", "--k", "2"))
    assert made["k"] == 2  # options win over the configuration
    assert made["modes"]["dense"]["evaluation"]["means"]["RR@10"] == 1.0


def test_a_mode_that_did_not_run_is_exit_status_1(files):
    (files / "c.toml").write_text('prefix = "p:"\nresamples = 100\n[modes.recall]\nprojection = "nope"\n')
    assert "did not run" in run("eval", *given(files), code=1)


def test_wrong_use(files):
    with pytest.raises(InvalidArgument, match="tercet eval: expected --queries, --qrels"):
        run("eval", "--store", files / "g.store")
    (files / "r.trec").write_text("x Q0 d 1 1 s\n")
    with pytest.raises(InvalidData, match="have no query in common"):
        run("eval", "score", files / "r.trec", files / "qrels.tsv")


def test_a_run_is_resumed_reported_and_compared(files):
    out = files / "out"
    run("eval", *given(files), "--out", out, "--partition", 2, "--latency", 2, "--quiet")
    for name in ("manifest.json", "config.toml", "results.parquet", "latency.parquet", "summary.md"):
        assert (out / name).is_file(), name
    text = run("eval", "report", out, "--html", files / "page.html")
    assert text.startswith("# out")
    assert (files / "page.html").read_text().startswith("<!doctype html>")
    run("eval", "report", out)
    assert (out / "report.html").is_file()
    again = [*given(files)[:-1], out / "config.toml", "--out", files / "again", "--quiet"]
    assert run("eval", *again) == ""  # the configuration that was written can be run
    text = run("eval", "compare", out, files / "again")
    assert "No setting differs." in text
    made = json.loads(run("eval", "compare", out, files / "again", "--mode", "recall=hybrid_search", "--measure", "R@1",
                          "--json"))  # fmt: skip
    assert [r["system"] for r in made["comparison"]["rows"]] == ["hybrid_search / recall"]
    (out / "summary.json").unlink()
    with pytest.raises(InvalidData, match="half-written run folder"):
        run("eval", "report", out)


def test_resume_is_asked_for(files):
    out = files / "out"
    (out / "parts").mkdir(parents=True)
    with pytest.raises(InvalidArgument, match=r"half-written run folder.*--resume"):
        run("eval", *given(files), "--out", out)
    run("eval", *given(files), "--out", out, "--resume", "--quiet")
    assert (out / "summary.json").is_file()


def test_sweeps_of_a_file(files):
    (files / "c.toml").write_text('prefix = "p:"\nresamples = 100\n[sweep.recall]\nwide_search_top_k = [1, "none"]\n')
    made = json.loads(run("eval", *given(files), "--json"))
    assert list(made["modes"])[:2] == ["recall[wide_search_top_k=1]", "recall[wide_search_top_k=None]"]
