"""Evaluations in partitions: the same results however they are cut, stopped and gone on with; nothing lost silently."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

pytest.importorskip("ir_measures")
pytest.importorskip("scipy")

import tercet
from tercet.errors import InvalidArgument, InvalidData
from tercet.evaluate import Outcome, Queries, Run, read_evaluations, read_mode, read_summary
from tercet.evaluate.config import read_config
from tests.evaluate.small import QRELS, QUERIES, engine, toy

ROOT = Path(__file__).resolve().parents[2]
MANY = {f"q{i}": text for i, text in enumerate([*QUERIES.values(), "  ", *QUERIES.values()])}  # the fifth is blank
JUDGED = {f"q{i}": ids for i, ids in enumerate([*QRELS.values(), ["1"], *QRELS.values()])}
MODES = {
    "recall": {"projection": "full"}, "narrow": {"verb": "recall", "wide_search_top_k": 2}, "hybrid_search": {},
    "mh": {"verb": "passage_search", "mode": "multihop"}, "semantic_subgraph": {"k": 1, "expand": 1},
}  # fmt: skip
RANKINGS = ("run*.trec", "results.parquet", "config.toml", "query_vectors.npy")


def job(out=None, modes=MODES, **options):
    given = {"prefix": "p:", "k": 3, "resamples": 100, "partition": 2} | options
    return tercet.evaluate(engine(), MANY, JUDGED, modes, out=out, **given)


def rankings(folder):
    """The bytes of all files that don't hold times."""
    return {p.name: p.read_bytes() for pattern in RANKINGS for p in folder.glob(pattern)}


def same(a, b):
    for name, mode in a.modes.items():
        other = b.modes[name]
        assert mode.run.to_arrow().equals(other.run.to_arrow()), name
        assert mode.run.state.tolist() == other.run.state.tolist()
        assert mode.run.errors == other.run.errors
        np.testing.assert_array_equal(mode.run.cut_ties, other.run.cut_ties)
        np.testing.assert_array_equal(a.evaluations[name].values, b.evaluations[name].values)


@pytest.mark.parametrize("size", [1, 3, 8, 100])
def test_partitions_dont_change_results(size, tmp_path):
    whole = job(partition=None)
    parts = job(partition=size)
    kept = job(tmp_path / "r", partition=size)
    same(whole, parts)
    same(whole, kept)
    assert parts.modes["recall"].amortised["seconds"].shape == (9,)
    assert sum(parts.modes["recall"].amortised["seconds"]) == pytest.approx(parts.modes["recall"].seconds)
    assert not (tmp_path / "r" / "parts").exists()
    assert parts.evaluations["mh"].failed == ["q4"]


def test_a_folder_holds_what_the_conventions_ask_for(tmp_path):
    out = tmp_path / "r"
    report = job(out, latency=3, reference="exact")
    names = {p.name for p in out.iterdir()}
    assert names == {
        "config.toml", "env.txt", "latency.parquet", "log.txt", "manifest.json", "per_query.parquet",
        "query_vectors.npy", "results.parquet", "run.trec", *(f"run.{n}.trec" for n in [*MODES, "dense", "bm25"][1:]),
        "summary.json", "summary.md",
    }  # fmt: skip
    text = "".join((out / n).read_text() for n in ("config.toml", "env.txt", "log.txt", "manifest.json",
                                                   "summary.json", "summary.md"))  # fmt: skip
    assert str(tmp_path) not in text
    assert str(ROOT) not in text
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["data"]["graph"]["nodes"] == 8
    assert manifest["data"]["queries"]["count"] == 9
    assert set(manifest["files"]) == names - {"manifest.json", "summary.json"}
    assert manifest["query_vectors"]["dimension"] == 4
    vectors = np.load(out / "query_vectors.npy")
    assert vectors.shape == (9, 4)
    assert np.allclose(np.linalg.norm(vectors[[0, 8]], axis=1), 1)
    results = pq.read_table(out / "results.parquet").to_pylist()
    first = next(r for r in results if r["mode"] == "recall" and r["query"] == "q0")
    assert (first["rank"], first["id"]) == (1, "1")
    assert json.loads(first["reason"])[0] in ("p:1", "n:alpha")
    assert first["part.source_distance"] == 0.0
    assert first["part.dense"] is None
    assert {r["hop"] for r in results if r["mode"] == "semantic_subgraph"} <= {0, 1}
    assert all(r["part.dense"] is not None for r in results if r["mode"] == "mh")
    each = pq.read_table(out / "per_query.parquet").to_pylist()
    assert len(each) == 9 * 7
    assert all(r["seconds"] > 0 and r["available"] is not None for r in each)
    assert {r["query"]: r["status"] for r in each if r["mode"] == "mh"}["q4"] == "failed"
    latency = pq.read_table(out / "latency.parquet")
    assert latency.num_rows == 3 * 7
    assert read_summary(out)["modes"]["mh"]["latency"]["n"] == 3
    assert set(report.agreements) == {"recall", "narrow"}
    assert report.agreements["narrow"].reference == "narrow-exact"
    made = read_config(out / "config.toml")
    again = tercet.evaluate(engine(), MANY, JUDGED, **made)
    same(report, again)
    back = read_evaluations(out)
    assert back["mh"].means == report.evaluations["mh"].means
    assert back["mh"].failed == ["q4"]


# How many files have been moved to their place when the process dies: the vectors alone, some partitions, all of them
# and some results.
MOMENTS = (1, 4, 9)


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """Folders by moment whose jobs were killed then, and that of one that wasn't, with its report."""
    folder = tmp_path_factory.mktemp("killed")
    code = f"from tests.evaluate.test_job import die_at_all; die_at_all({str(folder)!r})"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False, capture_output=True, text=True)
    assert done.stdout.split() == [str(-signal.SIGKILL)] * len(MOMENTS), done.stderr
    return {moment: folder / str(moment) for moment in MOMENTS}, folder / "whole", job(folder / "whole")


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_killed_job_goes_on(moment, killed):
    out, whole, report = killed[0][moment], killed[1], killed[2]
    assert not (out / "summary.json").exists()
    with pytest.raises(InvalidData, match=r"half-written run folder: summary\.json is missing"):
        read_summary(out)
    if (out / "parts" / "job.json").exists():
        there = min(max(moment - 2, 0), 5)
        with pytest.raises(InvalidArgument, match=rf"{there} of 5 partitions are there; resume=True"):
            job(out)
    encoded = []

    def counting(texts):
        encoded.append(len(texts))
        return toy(texts)

    made = engine(counting)
    encoded.clear()
    again = tercet.evaluate(made, MANY, JUDGED, MODES, prefix="p:", k=3, resamples=100, partition=2, out=out,
                            resume=True)  # fmt: skip
    same(report, again)
    assert rankings(out) == rankings(whole)
    assert bool(encoded) == (moment < 2)
    assert {p.name for p in out.iterdir()} == {p.name for p in whole.iterdir()}
    read_summary(out)
    with pytest.raises(InvalidArgument, match="never written over"):
        job(out, resume=True)


def die_at_all(folder):
    """A process a moment, which prints what became of it; nothing is computed before they part."""
    for moment in MOMENTS:
        child = os.fork()
        if not child:
            die_at(f"{folder}/{moment}", moment)
            os._exit(1)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


def die_at(out, moment):
    """Run the job, and be killed when so many files of the folder have been moved to their place."""
    moved, count = os.replace, 0

    def replace(source, target):
        nonlocal count
        if str(target).startswith(out):
            if count == moment:
                os.kill(os.getpid(), signal.SIGKILL)
            count += 1
        moved(source, target)

    os.replace = replace
    job(Path(out))


def stopped(out, after):
    """A folder whose job was stopped after some partitions."""
    calls = 0

    def stop(engine_, batch, k):
        nonlocal calls
        calls += 1
        if calls > after + 1:  # one call is to warm up
            raise KeyboardInterrupt
        return Run.of_lists("stop", {q: ["1"] for q in MANY})

    with pytest.raises(KeyboardInterrupt):
        job(out, {"recall": {}, "stop": stop})
    return stop


def test_partitions_of_another_configuration_are_refused(tmp_path):
    out = tmp_path / "r"
    stop = stopped(out, 2)
    assert len(list((out / "parts").glob("*.arrow"))) == 2
    for options, what in (({"k": 2}, "k, triplets differs"), ({"partition": 3}, "partition differs"),
                          ({"baselines": ["bm25"]}, "baselines differs")):  # fmt: skip
        with pytest.raises(InvalidArgument, match=f"made with another configuration; {what}"):
            job(out, {"recall": {}, "stop": stop}, resume=True, **options)
    with pytest.raises(InvalidArgument, match="another configuration; modes differs"):
        job(out, {"recall": {"top_k": 2}, "stop": stop}, resume=True)
    with pytest.raises(InvalidArgument, match="another configuration; queries, vectors differs"):
        tercet.evaluate(engine(), MANY | {"q0": "delta"}, JUDGED, {"recall": {}, "stop": stop}, prefix="p:", k=3,
                        resamples=100, partition=2, out=out, resume=True)  # fmt: skip
    other = tmp_path / "s"
    stopped(other, 3)
    (out / "parts" / "00000.arrow").write_bytes((other / "parts" / "00000.arrow").read_bytes())
    file = out / "parts" / "00001.arrow"
    made = json.loads((out / "parts" / "job.json").read_text())["digest"].encode()
    file.write_bytes(file.read_bytes().replace(made, made[::-1]))
    with pytest.raises(InvalidData, match=r"00001.arrow: a partition of another configuration"):
        job(out, {"recall": {}, "stop": stop}, resume=True)


def test_two_at_work_on_one_folder_are_one_too_many(tmp_path):
    said = []

    def tell(done, total, left, what):
        if done and not said:
            with pytest.raises(InvalidArgument, match="another process is at work") as told:
                job(tmp_path / "r", resume=True)
            said.append(told)

    kept = job(tmp_path / "r", progress=tell)
    assert said
    same(kept, job())
    assert not list((tmp_path / "r").glob("**/lock"))


def test_a_cut_partition_is_run_again(tmp_path):
    out = tmp_path / "r"
    stopped(out, 3)
    file = out / "parts" / "00001.arrow"
    file.write_bytes(file.read_bytes()[:-50])

    def stop(engine_, batch, k):
        return Run.of_lists("stop", {q: ["1"] for q in MANY})

    stop.__qualname__ = "stopped.<locals>.stop"
    got = job(out, {"recall": {}, "stop": stop}, resume=True)
    same(job(None, {"recall": {}, "stop": stop}), got)
    assert "partition 1 is damaged and is run again" in (out / "log.txt").read_text()


def test_folders_of_something_else_are_left_alone(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    for resume in (False, True):
        with pytest.raises(InvalidArgument, match="isn't a run that could be gone on with; results are never written"):
            job(tmp_path, resume=resume)
    (tmp_path / "empty").mkdir()
    job(tmp_path / "empty", {"recall": {}})
    assert read_mode(tmp_path / "empty").name == "recall"


def test_a_mode_that_raises_in_some_partitions_fails_for_their_queries(tmp_path):
    def fragile(engine_, batch, k):
        if any(text and "gamma" in text for text in batch.text):
            raise RuntimeError("no gamma")
        return engine_.semantic_search(batch.text, k, filter_labels=["DocumentChunk"])

    got = job(tmp_path / "r", {"recall": {}, "fragile": fragile}, partition=2)
    # partitions (q0 q1) (q2 q3) (q4 q5) (q6 q7) (q8); q1 and q6 ask for gamma
    failed = ["q0", "q1", "q4", "q6", "q7"]
    assert got.evaluations["fragile"].failed == failed  # q4 is blank
    assert got.evaluations["fragile"].n == 9
    assert got.evaluations["fragile"].means["R@5"] == pytest.approx(4 / 9)
    assert got.modes["fragile"].run.errors[0] == "RuntimeError: no gamma"
    assert any("fragile: raised in 2 of 5 partitions, whose queries failed: RuntimeError: no gamma" in n
               for n in got.notes)  # fmt: skip
    assert "partition 0: 2 queries" in (tmp_path / "r" / "log.txt").read_text()
    assert "fragile raised RuntimeError: no gamma" in (tmp_path / "r" / "log.txt").read_text()
    assert list(read_summary(tmp_path / "r")["modes"]["fragile"]["failed"]) == failed
    assert "raised in 2 of 5 partitions" in (tmp_path / "r" / "summary.md").read_text()
    skip = job(None, {"recall": {}, "fragile": fragile}, missing="skip")
    assert skip.evaluations["fragile"].n == 4
    assert skip.evaluations["fragile"].means["R@5"] == 1.0
    with pytest.raises(InvalidData, match="'fragile': 5 judged queries are missing or failed"):
        job(None, {"fragile": fragile}, missing="error")
    assert job(None, {"recall": {}, "bad": {"verb": "recall", "projection": "no"}}).did_not_run["bad"].startswith(
        "InvalidArgument: projection")  # fmt: skip


def test_functions_may_leave_queries_and_find_other_documents(tmp_path):
    def some(engine_, batch, k):
        found = {"q0": ["1", "elsewhere"], "q3": ["there", "4"], "q7": []}
        return Run.of_lists("some", found, errors={"q7": "no luck"})

    got = job(tmp_path / "r", {"some": some}, baselines=())
    run = got.modes["some"].run
    assert run.queries.to_pylist() == ["q0", "q3", "q7"]
    assert run.to_arrow()["id"].to_pylist() == ["1", "elsewhere", "there", "4"]
    assert run.errors == {2: "no luck"}
    assert got.evaluations["some"].missing == ["q1", "q2", "q4", "q5", "q6", "q8"]
    back = read_mode(tmp_path / "r")
    assert (back.state == Outcome.failed).sum() == 1
    same(job(None, {"some": some}, baselines=(), partition=9), got)


def test_progress_is_told(tmp_path):
    told = []
    job(tmp_path / "r", {"recall": {}}, progress=lambda *what: told.append(what))
    assert told[0] == (0, 9, None, "")
    assert told[-1][:2] == (9, 9)
    assert told[-1][2] == 0
    assert {what for *_, what in told} == {"", "recall", "dense", "bm25"}
    assert all(left is None or left >= 0 for _, _, left, _ in told)


def test_vectors_that_are_given_are_used(tmp_path):
    vectors = toy(MANY.values()) * 3
    queries = Queries.of(MANY).with_vectors(vectors)
    got = tercet.evaluate(engine(None), queries, JUDGED, {"semantic_search": {}}, prefix="p:", k=3, resamples=100,
                          out=tmp_path / "r", partition=4)  # fmt: skip
    assert got.evaluations["dense"].failed == []  # a vector is an answer to a blank text
    assert json.loads((tmp_path / "r" / "manifest.json").read_text())["query_vectors"]["model"] == "given"


def test_wrong_numbers():
    with pytest.raises(InvalidArgument, match="partition: expected an integer of at least 1, got 0"):
        job(partition=0)
    with pytest.raises(InvalidArgument, match="latency: expected an integer of at least 0, got -1"):
        job(latency=-1)
