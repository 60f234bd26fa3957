"""Evaluations of an engine from beginning to end, on a graph that can be seen, and on a real one."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("ir_measures")
pytest.importorskip("pytrec_eval")
pytest.importorskip("scipy")

import tercet
from tercet import build
from tercet.errors import InvalidArgument, InvalidData
from tercet.evaluate import Outcome, Queries, Run, read_mode, read_summary, triplet_id, write_report
from tercet.evaluate.config import read_config
from tests.evaluate.small import QRELS, QUERIES, engine

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"
needs_data = pytest.mark.skipif(not SHARED.is_dir(), reason="the data sets in ../shared/data aren't on this machine")
FAST = {"resamples": 200}


def evaluated(settings=None, **options):
    return tercet.evaluate(engine(), QUERIES, QRELS, settings, prefix="p:", k=3, **(FAST | options))


def test_baselines_find_what_can_be_seen():
    got = evaluated({"semantic_search": {}})
    assert list(got.modes) == ["semantic_search", "dense", "bm25"]
    for name in ("dense", "bm25"):
        assert got.evaluations[name].means["RR@10"] == 1.0
        assert got.modes[name].run.queries.to_pylist() == ["q1", "q2", "q3", "q4"]
    dense = got.modes["dense"].run
    assert dense.to_arrow()["id"].to_pylist()[:1] == ["1"]
    assert got.evaluations["dense"].means["R@2"] == 1.0
    assert np.all(got.evaluations["dense"]["returned"] == 3)
    assert got.evaluations["bm25"]["returned"].tolist() == [1, 1, 2, 1]  # only those that hold a word of the query
    assert got.encode_seconds > 0
    assert got.modes["dense"].queries_per_second > 0
    assert got.constant.means["R@1"] == 1 / 4  # the last id for all: right for q4
    assert all(got.checks.values())
    assert got.comparison.rows[0].note == "too few"


def test_dense_is_the_exact_ranking_of_the_passages():
    got = evaluated({"semantic_search": {}})
    made = engine()
    direct = made.semantic_search(list(QUERIES.values()), 3, filter_labels=["DocumentChunk"])
    expected = [i.removeprefix("p:") for hits in direct for i in hits.ids()]
    assert got.modes["dense"].run.to_arrow()["id"].to_pylist() == expected


def test_baselines_leave_other_nodes_aside():
    """Names are nearer to the queries than passages, and shorter."""
    got = tercet.evaluate(engine(joined=True), QUERIES, QRELS, {"semantic_search": {}}, prefix="p:", k=3, **FAST)
    assert (got.evaluations["dense"]["returned"] == 3).all()
    assert got.evaluations["dense"].means["RR@10"] == 1.0
    assert (got.evaluations["semantic_search"]["returned"] < 3).any()  # which has to find its passages among all nodes


@pytest.mark.parametrize("index", ["exact", "hnsw"])
def test_dense_is_exact_whatever_the_index_and_after_an_update(index):
    if index == "hnsw":
        pytest.importorskip("faiss", reason="FAISS isn't installed")
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(9_000, 16)).astype(np.float32)
    ids = [f"{i:04}" for i in range(9_000)]
    graph = tercet.Graph.from_tables({"id": ids, "type": ["DocumentChunk"] * 9_000, "text": ids},
                                     {"source": [], "target": [], "relation": []})  # fmt: skip
    poor = {"M": 2, "ef_search": 1, "ef_construction": 4} if index == "hnsw" else None
    made = tercet.Engine(graph, [tercet.Collection.build("text", vectors, ids, index=index, index_options=poor)])
    asked = rng.normal(size=(20, 16)).astype(np.float32)
    for step in range(2):
        if step == 1:
            vectors[5] = asked[0]
            made.upsert(vectors={"text": (["0005"], vectors[5:6])})
        cosine = asked / np.linalg.norm(asked, axis=1)[:, None] @ (vectors / np.linalg.norm(vectors, axis=1)[:, None]).T
        expected = np.argsort(-cosine, axis=1)[:, :10]
        queries = Queries.of({f"q{i}": "text" for i in range(20)}).with_vectors(asked)
        got = tercet.evaluate(made, queries, {"q0": ["0005"]}, {"semantic_search": {}}, k=10, **FAST)
        found = np.array(got.modes["dense"].run.to_arrow()["id"].to_pylist()).astype(int).reshape(20, 10)
        np.testing.assert_array_equal(found, expected)
        assert np.array_equal(got.modes["semantic_search"].run.document, got.modes["dense"].run.document) == (
            index == "exact"
        )
    assert got.evaluations["dense"].means["R@1"] == 1.0


def test_triplets_count_for_the_passages_they_cite():
    got = evaluated({"recall": {"projection": "full"}}, baselines=())
    made = engine()
    direct = made.recall(list(QUERIES.values()), top_k=16, projection="full")
    run = got.modes["recall"].run
    cited = made.graph.edges.column("passage").to_pylist()
    for i, result in enumerate(direct):
        order = []
        for e in result.edges:
            ends = [x for x in (made.graph.triplet(e)[0], made.graph.triplet(e)[2]) if x.startswith("p:")]
            order += [cited[e], *ends]
        expected = [p.removeprefix("p:") for p in dict.fromkeys(order)][:3]
        ids = run.to_arrow()["id"].to_pylist()[run.indptr[i] : run.indptr[i + 1]]
        assert ids == expected
    assert run.scores_are == "negated distances"


def test_nodes_and_triplets_are_judged_too():
    nodes = tercet.evaluate(engine(), QUERIES, {"q1": ["n:alpha"], "q2": ["n:gamma"]}, {"semantic_search": {}},
                            level="node", k=3, **FAST)  # fmt: skip
    assert nodes.evaluations["semantic_search"].means["R@2"] == 1.0
    assert nodes.evaluations["semantic_search"].unjudged == ("q3", "q4")
    fact = triplet_id("n:alpha", "leads to", "n:beta")
    facts = tercet.evaluate(engine(), QUERIES, {"q3": [fact]}, {"recall": {}, "semantic_search": {}}, level="triplet",
                            k=3, **FAST)  # fmt: skip
    assert facts.evaluations["recall"].means["R@1"] == 1.0
    assert facts.baselines == ()
    assert any("no baselines" in note for note in facts.notes)
    assert "this verb ranks nodes" in facts.did_not_run["semantic_search"]


def test_subgraphs_and_functions_are_modes():
    def only_one(engine_, batch, k):
        assert len(batch) in (4,)
        return Run.of_lists("any", {q: ["1"] for q in QUERIES})

    got = evaluated({"semantic_subgraph": {"k": 1, "expand": 1}, "mine": only_one})
    assert got.modes["semantic_subgraph"].run.scores_are == "ranks"
    assert got.evaluations["semantic_subgraph"].means["R@1"] > 0
    assert got.evaluations["mine"].means["R@1"] == (1 + 0 + 0.5 + 0) / 4
    assert got.modes["mine"].run.name == "mine"


def test_a_mode_that_raises_did_not_run():
    def broken(engine_, batch, k):
        raise RuntimeError("out of order")

    got = evaluated({"recall": {}, "wrong": {"verb": "recall", "projection": "nope"}, "broken": broken})
    assert set(got.did_not_run) == {"wrong", "broken"}
    assert got.did_not_run["broken"] == "RuntimeError: out of order"
    assert {r.system for r in got.comparison.rows} == {"recall"}
    assert set(got.evaluations) == {"recall", "dense", "bm25"}
    assert "did not run: InvalidArgument: projection" in str(got)
    assert got.summary()["modes"]["wrong"]["evaluation"] is None


def test_queries_that_fail_are_counted_and_listed():
    asked = QUERIES | {"q5": "  "}
    got = tercet.evaluate(engine(), asked, QRELS | {"q5": ["1"]}, {"recall": {}}, prefix="p:", k=3, **FAST)
    for name in ("recall", "dense", "bm25"):
        assert got.evaluations[name].failed == ["q5"], name
        assert got.evaluations[name].n == 5
        assert got.modes[name].run.state.tolist().count(Outcome.failed) == 1
    assert "1 queries failed (count as 0): 'q5'" in str(got)
    skip = tercet.evaluate(engine(), asked, QRELS | {"q5": ["1"]}, {"recall": {}}, prefix="p:", k=3, missing="skip",
                           **FAST)  # fmt: skip
    assert skip.evaluations["dense"].n == 4
    assert skip.evaluations["dense"].means["RR@10"] == 1.0


def test_without_an_encoder_only_texts_are_searched():
    got = tercet.evaluate(engine(None), QUERIES, QRELS, {"recall": {}, "text_search": {}}, prefix="p:", k=3, **FAST)
    assert set(got.did_not_run) == {"recall", "dense"}
    assert got.evaluations["bm25"].means["RR@10"] == 1.0
    assert got.comparison.left_out["dense"].startswith("did not run")


def test_encodes_once():
    calls = []

    def counting(texts):
        from tests.evaluate.small import toy

        calls.append(len(texts))
        return toy(texts)

    made = engine(counting)
    before = len(calls)
    tercet.evaluate(made, QUERIES, QRELS, {"recall": {}, "hybrid_search": {}}, prefix="p:", k=3, **FAST)
    assert calls[before:] == [4]


def test_context_of_a_mode_is_its_own_top_k():
    got = evaluated({"one": {"verb": "recall", "top_k": 1}, "two": {"verb": "recall", "top_k": 2}}, baselines=())
    made = engine()
    for name, k in (("one", 1), ("two", 2)):
        texts = made.recall(list(QUERIES.values()), top_k=k).texts()
        expected = [len(t) for t in texts]
        counted = evaluated({name: {"verb": "recall", "top_k": k}}, baselines=(),
                            count_tokens=lambda ts: [len(t) for t in ts])  # fmt: skip
        assert counted.evaluations[name]["context_tokens"].tolist() == expected
    tokens = [got.evaluations[n]["context_tokens"] for n in ("one", "two")]
    assert (tokens[0] < tokens[1]).all()
    np.testing.assert_array_equal(got.evaluations["one"]["R@5"], got.evaluations["two"]["R@5"])  # judged alike


def test_agreement_with_the_exact_ranking_or_another():
    got = evaluated({"recall": {"wide_search_top_k": 1}}, reference="exact")
    assert list(got.agreements) == ["recall"]
    assert 0 < got.agreements["recall"].means["rbo"] <= 1
    got = evaluated({"recall": {}}, reference="dense")
    assert set(got.agreements) == {"recall", "bm25"}
    got = evaluated({"recall": {}}, reference=Run.of_lists("given", {"q1": ["1"]}))
    assert got.agreements["dense"].only_run == ("q2", "q3", "q4")
    with pytest.raises(InvalidArgument, match="no such file"):
        evaluated(reference="nowhere.trec")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"settings": {"recall": {"top": 3}}}, r"settings\['recall'\]: recall has no top; it has .*top_k"),
        ({"settings": {"x": {}}}, r"the verb 'x' is none of recall"),
        ({"settings": {"dense": {"verb": "recall"}}}, r"a mode can't be called 'dense'"),
        ({"settings": {"recall": 3}}, r"expected arguments or a function"),
        ({"baselines": ["tfidf"]}, r"baselines: expected some of dense, bm25, got tfidf"),
        ({"level": "chunk"}, r"level: expected one of"),
        ({"k": 0}, r"k: expected an integer"),
        ({"measures": ["Fun@3"]}, r"measure"),
        ({"weight": "rows"}, r"the queries have no 'rows'"),
    ],
)
def test_wrong_calls_are_refused_before_anything_runs(options, message):
    settings = options.pop("settings", {"recall": {}})
    with pytest.raises(InvalidArgument, match=message):
        tercet.evaluate(engine(), QUERIES, QRELS, settings, **({"prefix": "p:", "k": 3} | options))


def test_documents_under_other_ids_are_refused():
    with pytest.raises(InvalidData, match="with prefix='p:'"):
        tercet.evaluate(engine(), QUERIES, QRELS)


def test_folder(tmp_path):
    got = evaluated({"recall": {}, "wrong": {"verb": "recall", "projection": "nope"}})
    out = write_report(got, tmp_path / "runs" / "first")
    assert sorted(p.name for p in out.iterdir()) == [
        "config.toml", "env.txt", "log.txt", "manifest.json", "per_query.parquet", "query_vectors.npy",
        "results.parquet", "run.bm25.trec", "run.dense.trec", "run.trec", "summary.json", "summary.md",
    ]  # fmt: skip
    summary = read_summary(out)
    assert summary["modes"]["recall"]["evaluation"]["means"] == got.evaluations["recall"].means
    back = read_mode(out, "dense")
    assert back.to_arrow()["id"].to_pylist() == got.modes["dense"].run.to_arrow()["id"].to_pylist()
    assert [p.name for p in out.parent.iterdir()] == ["first"]  # nothing half-made lies around
    with pytest.raises(InvalidArgument, match="never written over"):
        write_report(got, out)
    with pytest.raises(InvalidArgument, match="the mode 'wrong' did not run"):
        read_mode(out, "wrong")
    with pytest.raises(InvalidArgument, match="no mode 'x'"):
        read_mode(out, "x")


def test_failed_and_empty_queries_come_back_from_a_folder(tmp_path):
    asked = QUERIES | {"q5": " ", "q6": "unknown words"}
    got = tercet.evaluate(engine(), asked, QRELS, {"text_search": {}}, prefix="p:", k=3, **FAST)
    back = read_mode(write_report(got, tmp_path / "r"), "bm25")
    state = dict(zip(back.queries.to_pylist(), back.state.tolist(), strict=True))
    assert (state["q5"], state["q6"], state["q1"]) == (Outcome.failed, Outcome.empty, Outcome.ok)
    assert list(back.errors.values()) == ["the query is blank"]


@pytest.mark.parametrize("broken", ["no summary", "half a summary", "no run", "half a run"])
def test_half_written_folders_are_refused(tmp_path, broken):
    out = write_report(evaluated({"recall": {}}), tmp_path / "r")
    if broken == "no summary":
        (out / "summary.json").unlink()
        message = "half-written run folder: summary.json is missing"
    elif broken == "half a summary":
        (out / "summary.json").write_text((out / "summary.json").read_text()[:200])
        message = "half-written or damaged summary"
    elif broken == "no run":
        (out / "run.trec").unlink()
        message = "half-written run folder: run.trec is missing"
    else:
        (out / "run.trec").write_text((out / "run.trec").read_text()[:-20])
        message = "run.trec was cut or changed"
    with pytest.raises(InvalidData, match=message):
        read_mode(out)
    shutil.rmtree(out)
    with pytest.raises(InvalidArgument, match="no such folder"):
        read_summary(out)


def test_ids_with_white_space_are_escaped_in_a_folder(tmp_path):
    got = tercet.evaluate(engine(), {"the first": "alpha"}, {"the first": ["n:alpha"]}, {"semantic_search": {}},
                          level="node", k=3, **FAST)  # fmt: skip
    out = write_report(got, tmp_path / "r")
    assert read_summary(out)["modes"]["semantic_search"]["ids_escaped"]
    assert (out / "run.trec").read_text().startswith("the%20first Q0 n:alpha 1 ")
    assert read_mode(out).queries.to_pylist() == ["the first"]


def test_config(tmp_path):
    path = tmp_path / "c.toml"
    path.write_text('k = 5\nprefix = "p:"\n[modes.wide]\nverb = "recall"\nwide_search_top_k = 9\n')
    assert read_config(path) == {"k": 5, "prefix": "p:",
                                 "settings": {"wide": {"verb": "recall", "wide_search_top_k": 9}}}  # fmt: skip
    for text, kind, message in (
        ("kk = 5", InvalidArgument, "unknown options kk; known are .*prefix"),
        ("k = ", InvalidData, "not valid TOML"),
        ("modes = 3", InvalidArgument, r"expected tables \[modes"),
        ("[modes.recall]\ntop = 1", InvalidArgument, "recall has no top"),
    ):
        path.write_text(text)
        with pytest.raises(kind, match=message):
            read_config(path)
    with pytest.raises(InvalidArgument, match="no such file"):
        read_config(tmp_path / "none.toml")


def test_the_configuration_that_is_an_example_can_be_read():
    made = read_config(Path(__file__).resolve().parents[2] / "configs" / "eval" / "passages.toml")
    assert list(made["settings"]) == ["recall", "incident", "hybrid_search"]


@needs_data
def test_small_real_set():
    made, read = build.from_openie(SHARED / "musique_train100", None, vectors=SHARED / "minilm")
    source = SHARED / "musique_train100" / "questions.jsonl.gz"
    queries = Queries.read(source, vectors=SHARED / "minilm" / "musique_train100.questions.f16.npy")
    options = {"prefix": "passage:", **FAST}
    got = tercet.evaluate(made, queries, source, citations=read.citations, **options)
    means = {name: e.means for name, e in got.evaluations.items()}
    assert 0.40 < means["dense"]["R@2"] < 0.56
    assert 0.35 < means["bm25"]["R@2"] < 0.50
    assert 0.25 < means["recall"]["R@2"] < 0.45
    vectors = np.load(SHARED / "minilm" / "musique_train100.passages.f16.npy").astype(np.float32)
    asked = queries.vectors
    near = asked / np.linalg.norm(asked, axis=1)[:, None] @ (vectors / np.linalg.norm(vectors, axis=1)[:, None]).T
    best = near.argmax(axis=1).astype(str).tolist()
    run = got.modes["dense"].run
    assert run.to_arrow()["id"].take(run.indptr[:-1]).to_pylist() == best
    assert sum(e.n for e in got.evaluations["dense"].slices("type").values()) == 70
    assert got.constant.means["R@100"] < 0.15  # chance is 100 / 1890
    held = got.evaluations["recall"]
    assert (held["recall_per_1k_tokens"] >= 0).all()
    assert held["context_tokens"].min() > 0
    json.dumps(got.summary(), allow_nan=False)
    first = tercet.evaluate(made, queries, source, **options)  # only the passage that each triple was first read in
    assert first.evaluations["recall"].means["R@100"] <= means["recall"]["R@100"]
