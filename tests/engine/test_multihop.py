"""Passage search over several hops, on a graph that is small enough to see through."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pytest
import torch

import tercet
from tercet.errors import InvalidArgument
from tercet.index.raw import RawIndex
from tercet.multihop import ranking
from tercet.multihop.settings import MODES, MultihopSettings

CONFIG = Path(__file__).parents[2] / "configs" / "eval" / "multihop.toml"
D = 8
PASSAGES = {
    "p0": ("Lothair II", "Lothair II was a king and the son of Ermengarde of Tours.", 0),
    "p1": ("Ermengarde of Tours", "She died on a spring day.", 1),
    "p2": ("Mothers", "Mothers and their days of death, in general.", 2),
    "p3": ("Kings", "Many kings died.", 3),
    "p4": ("Rivers", "Rivers meet the sea.", 4),
    "p5": ("Death", "When do people die?", 5),
}
ENTITIES = {"Lothair II": 0, "lothair ii": 0, "Ermengarde of Tours": 1, "king": 3, "sea": 4}
MENTIONS = {"p0": ["Lothair II", "Ermengarde of Tours", "king"], "p1": ["Ermengarde of Tours"], "p3": ["king"],
            "p4": ["sea"]}  # fmt: skip
FACTS = [("Lothair II", "son of", "Ermengarde of Tours", "p0"), ("Lothair II", "was", "king", "p0")]
QUESTION = "When did Lothair Ii's mother die?"


def axis(*places):
    out = np.zeros(D, np.float32)
    out[list(places)] = 1.0
    return out / np.linalg.norm(out)


QUERY = (axis(2, 5) + 0.3 * axis(0))[None]


def engine(facts=FACTS, entities=True, relations=True, dtype="float32", index="exact", chunks=None, owners=PASSAGES):
    names = list(ENTITIES)
    nodes = {
        "id": [*PASSAGES, *(f"n:{n}" for n in names)], "name": [*(t for t, _, _ in PASSAGES.values()), *names],
        "type": ["DocumentChunk"] * len(PASSAGES) + ["Entity"] * len(names),
        "text": [*(f"{t}\n{x}" for t, x, _ in PASSAGES.values()), *([None] * len(names))],
    }  # fmt: skip
    edges = [(f"n:{s}", r, f"n:{o}", p) for s, r, o, p in facts]
    edges += [(p, "mentions", f"n:{n}", None) for p, held in MENTIONS.items() for n in held]
    columns = zip(*edges, strict=True)
    graph = tercet.Graph.from_tables(
        nodes, dict(zip(("source", "relation", "target", "passage"), columns, strict=True))
    )
    rows = np.stack([axis(a) for *_, a in PASSAGES.values()]) if chunks is None else chunks
    made = [tercet.Collection.build("chunks", rows, list(owners), "node", dtype=dtype, index=index)]
    if entities:
        rows = np.stack([axis(a, 6) for a in ENTITIES.values()])
        made.append(tercet.Collection.build("names", rows, [f"n:{n}" for n in names], "node", dtype=dtype))
    if relations:
        made.append(
            tercet.Collection.build("r", np.stack([axis(2), axis(3)]), ["son of", "was"], "relation", dtype=dtype)
        )
    return tercet.Engine(graph, made, device="cpu")


def found(results, place=0):
    return results[place].ids()


def test_the_second_passage_is_found_through_the_first():
    dense = engine().passage_search([QUESTION], 6, vectors=QUERY, mode="dense")
    assert "p1" not in found(dense)[:3]
    assert set(found(engine().passage_search([QUESTION], 2, vectors=QUERY))) == {"p0", "p1"}


def test_parts_add_up_to_the_score():
    got = engine().passage_search([QUESTION], 6, vectors=QUERY)[0]
    weights = MultihopSettings().second
    for hit in got:
        total = sum(weights[name] * value for name, value in hit["parts"].items())
        assert hit["score"] == pytest.approx(total, abs=1e-9)
    assert set(engine().passage_search([QUESTION], 2, vectors=QUERY).to_arrow().schema.names) >= {"dense", "residual"}


@pytest.mark.parametrize("mode", MODES)
def test_a_batch_answers_like_single_calls(mode, monkeypatch):
    e = engine()
    rng = np.random.default_rng(1)
    texts = [QUESTION, "where do rivers meet the sea", "xyzzy", "the King", QUESTION]
    vectors = np.concatenate([QUERY, rng.normal(size=(4, D)).astype(np.float32)])
    every = e.passage_search(texts, 4, vectors=vectors, mode=mode)
    monkeypatch.setattr(ranking, "MOST", 2)
    tiled = e.passage_search(texts, 4, vectors=vectors, mode=mode)
    for i, text in enumerate(texts):
        one = e.passage_search([text], 4, vectors=vectors[i : i + 1], mode=mode)
        for other in (one[0], tiled[i]):
            assert other.ids() == every[i].ids()
            assert other.scores.tolist() == every[i].scores.tolist()
            assert [h["parts"] for h in other] == [h["parts"] for h in every[i]]
    turned = e.passage_search(texts[::-1], 4, vectors=vectors[::-1].copy(), mode=mode)
    assert [h.scores.tolist() for h in turned][::-1] == [h.scores.tolist() for h in every]
    monkeypatch.setattr(ranking, "TILE_BYTES", 1)
    small = e.passage_search(texts, 4, vectors=vectors, mode=mode)
    assert (small.score == every.score).all()
    assert (small.node == every.node).all()


def test_dense_is_the_semantic_search_of_passages():
    e = engine()
    want = e.semantic_search(vectors=QUERY, k=6, collections=["chunks"])[0]
    got = e.passage_search(vectors=QUERY, k=6, mode="dense")[0]
    assert got.ids() == want.ids()
    assert got.scores.tolist() == want.scores.tolist()


def test_bad_queries_fail_alone():
    bad = np.concatenate([QUERY, QUERY * np.nan, QUERY])
    got = engine().passage_search([QUESTION, "x", QUESTION], 2, vectors=bad)
    assert got.status == ["ok", "failed", "ok"]
    assert found(got) == found(got, 2)
    assert "finite" in got[1].error
    assert len(engine().passage_search([], 2, vectors=np.zeros((0, D), np.float32))) == 0


def test_vectors_without_text_and_questions_without_names():
    e = engine()
    assert e.passage_search(vectors=QUERY, k=3).status == ["ok"]
    assert e.passage_search(["zzz qqq"], 3, vectors=QUERY).status == ["ok"]


def test_filters():
    e = engine()
    given = [["p1", "p4"], None, ["n:sea"], pc.field("id") == "p5"]
    got = e.passage_search([QUESTION] * 4, 6, vectors=np.repeat(QUERY, 4, 0), filter=given)
    assert set(found(got)) <= {"p1", "p4"}
    assert found(got, 1) == found(e.passage_search([QUESTION], 6, vectors=QUERY))
    assert got.status == ["ok", "ok", "filtered_out", "ok"]
    assert found(got, 3) == ["p5"]


def test_words_count_beside_the_best_passage_of_the_filter():
    asked = ["kings and mothers and their days of death in general"]  # p2 has most of these words
    got = engine().passage_search(asked, 6, vectors=QUERY, mode="lexical", filter=["p3", "p4"])[0]
    assert (got.ids()[0], got.scores[0]) == ("p3", 1.0)


def test_vectors_of_passages_outside_a_filter_count_nothing():
    moved = np.stack([axis(a) for *_, a in PASSAGES.values()])
    moved[[2, 5]] = QUERY / np.linalg.norm(QUERY)
    options = {"vectors": QUERY, "filter": ["p0", "p1", "p3", "p4"]}
    got, want = (e.passage_search([QUESTION], 6, **options)[0] for e in (engine(chunks=moved), engine()))
    assert got.scores.tolist() == want.scores.tolist()
    assert got.ids() == want.ids()
    assert [h["parts"] for h in got] == [h["parts"] for h in want]


def test_k_may_differ_and_exceed_the_pool():
    got = engine().passage_search([QUESTION] * 2, [1, 100], vectors=np.repeat(QUERY, 2, 0))
    assert len(got[0]) == 1
    assert 2 <= len(got[1]) <= len(PASSAGES)
    assert found(got, 1)[:1] == found(got)


@pytest.mark.parametrize(("mode", "wanted"), [("dense", 6), ("lexical", 2)])
def test_more_than_the_candidates_may_be_asked_for(mode, wanted):
    weights = MODES[mode].first
    settings = {"first": weights, "second": {}, "candidates": 1, "near_passages": 1}
    got = engine().passage_search(
        ["the king and the sea"] * 2, [2, 6], vectors=np.repeat(QUERY, 2, 0), settings=settings
    )
    assert got[1].ids()[:2] == got[0].ids()
    assert sum(h["parts"][mode] > 0 or mode == "dense" for h in got[1]) == wanted


@pytest.mark.parametrize("options", [
    {"facts": []}, {"relations": False}, {"entities": False}, {"dtype": "float16"}, {"facts": [], "entities": False},
])  # fmt: skip
def test_parts_of_a_graph_may_be_missing(options):
    assert "p0" in found(engine(**options).passage_search([QUESTION], 3, vectors=QUERY))


def test_an_approximate_index():
    pytest.importorskip("faiss")
    assert set(found(engine(index="hnsw").passage_search([QUESTION], 2, vectors=QUERY))) == {"p0", "p1"}


def test_a_passage_is_as_similar_as_its_nearest_row():
    rows = np.stack([axis(7), axis(2, 5), axis(1), axis(2), axis(3), axis(4), axis(5)])
    e = engine(chunks=rows, owners=["p1", "p1", "p0", "p2", "p3", "p4", "p5"])
    want = e.semantic_search(vectors=QUERY, k=6, collections=["chunks"])[0]
    got = e.passage_search(vectors=QUERY, k=6, mode="dense")[0]
    assert got.ids()[0] == "p1"
    assert got.ids() == want.ids()
    assert got.scores.tolist() == want.scores.tolist()
    again = engine(chunks=rows[[1, 0, 2, 3, 4, 5, 6]], owners=["p1", "p1", "p0", "p2", "p3", "p4", "p5"])
    every = [x.passage_search([QUESTION], 6, vectors=QUERY)[0] for x in (e, again)]
    assert every[0].scores.tolist() == every[1].scores.tolist()  # the order of a passage's rows doesn't matter


def test_passages_without_vectors_are_found_by_words_and_names():
    rows = np.stack([axis(0), axis(2), axis(5), np.zeros(D, np.float32)])
    e = engine(chunks=rows, owners=["p0", "p2", "p5", "p4"])  # p1 and p3 have none, p4 one of zeros
    got = e.passage_search([QUESTION, "rivers and the sea"], 6, vectors=np.repeat(QUERY, 2, 0))
    hits = {h["node"].id: h for h in got[0]}
    assert "p1" in hits
    assert hits["p1"]["parts"]["dense"] == hits["p1"]["parts"]["residual"] == 0.0
    assert {h["node"].id: h["parts"]["dense"] for h in got[1]}["p4"] == 0.0
    assert np.isfinite(got.score).all()


@pytest.mark.parametrize("mode", MODES)
def test_a_graph_of_one_passage(mode):
    graph = tercet.Graph.from_tables(
        {"id": ["p"], "name": ["Rivers"], "type": ["Chunk"]}, {"source": [], "target": [], "relation": []}
    )
    e = tercet.Engine(graph, [tercet.Collection.build("c", axis(0)[None], ["p"], "node")], device="cpu")
    got = e.passage_search(["rivers", "x"], 3, vectors=np.stack([axis(0), axis(1)]), mode=mode)
    assert found(got) == ["p"]
    assert np.isfinite(got.score).all()


def test_empty_names_loops_and_repeated_facts_are_read():
    nodes = {
        "id": ["a", "b", "c", "x", "y", "z", "w"], "type": ["Chunk"] * 3 + ["Entity"] * 4,
        "name": ["8f2c-41d0", "", None, "Ann Lee", "ann lee", "", None],
        "text": ["Ann Lee lives here", "", None, None, None, None, None],
    }  # fmt: skip
    edges = {
        "source": ["x", "x", "x", "x", "z", "a", "a", "a", "b"],
        "target": ["x", "y", "z", "z", "w", "x", "x", "z", "w"],
        "relation": ["is", "is", "has", "has", "has", "in", "in", "in", "in"],
    }  # fmt: skip
    graph = tercet.Graph.from_tables(nodes, edges)
    made = [
        tercet.Collection.build("c", np.stack([axis(0), axis(1), axis(2)]), ["a", "b", "c"], "node"),
        tercet.Collection.build("n", np.stack([axis(0, 4), axis(4), axis(5)]), ["x", "y", "z"], "node"),
    ]
    e = tercet.Engine(graph, made, device="cpu")
    asked = ["where is Ann Lee?", "8f2c 41d0", "?"]
    got = e.passage_search(
        asked, 3, vectors=np.stack([axis(2), axis(2), axis(2)]), settings={"first": {"walk": 1.0}, "second": {}}
    )
    assert found(got)[:1] == ["a"]
    assert found(got, 1)[:1] == ["a"]
    assert np.isfinite(got.score).all()
    facts = e._passage_graph(None, 10.0).facts
    assert facts is not None
    assert np.bincount(facts.fact).max() == 1  # both ends of each are one name, which lists it once


def test_engines_of_one_graph_keep_apart():
    one = engine()
    other = tercet.Engine(one.graph, one.collections[:1], device="cpu")  # no vectors of facts
    want = one.passage_search([QUESTION], 6, vectors=QUERY, mode="paths")[0]
    got = other.passage_search([QUESTION], 6, vectors=QUERY, mode="paths")[0]
    assert any(h["parts"]["path"] > 0 for h in want)
    assert all(h["parts"]["path"] == 0 for h in got)


def test_updates_are_seen():
    e = engine()
    before = e._passage_graph(None, 10.0)
    assert found(e.passage_search(vectors=QUERY, k=1, mode="dense")) != ["p9"]
    assert e._passage_graph(None, 10.0) is before
    e.upsert(nodes={"id": ["p9"], "name": ["New"], "type": ["DocumentChunk"], "text": ["a new one"]},
             vectors={"chunks": (["p9"], QUERY)})  # fmt: skip
    assert found(e.passage_search(vectors=QUERY, k=1, mode="dense")) == ["p9"]
    assert found(e.passage_search(["new one"], 1, vectors=QUERY, mode="lexical")) == ["p9"]
    assert "p9" in found(e.passage_search([QUESTION], 3, vectors=QUERY))
    assert e._passage_graph(None, 10.0) is not before


def test_wrong_calls_are_told():
    e = engine()
    for wrong, words in (
        ({"mode": "magic"}, "mode"), ({"settings": {"first": {"magic": 1.0}}}, "no signal 'magic'"),
        ({"settings": {"magic": 1}}, "no setting 'magic'"), ({"settings": {"damping": 2}}, "damping"),
        ({"settings": {"candidates": 0}}, "candidates"), ({"settings": "nowhere.toml"}, "nowhere.toml"),
        ({"settings": {"first": {"dense": "much"}}}, "weight of 'dense'"), ({"settings": {"second": 3}}, "second"),
        ({"settings": {"first": {"dense": float("nan")}}}, "weight of 'dense'"), ({"settings": {"near": "x"}}, "near"),
        ({"settings": {"floor": None}}, "floor"), ({"settings": 3}, "by name"),
        ({"settings": {"damping": 0.5}, "mode": "magic"}, "mode"),
        ({"passage_type": "Page"}, "DocumentChunk"), ({"settings": {"first": {}}}, "first"),
    ):  # fmt: skip
        with pytest.raises(InvalidArgument, match=words):
            e.passage_search([QUESTION], 2, vectors=QUERY, **wrong)
    with pytest.raises(InvalidArgument, match="vectors of passages"):
        tercet.Engine(e.graph, e.collections[1:], device="cpu").passage_search([QUESTION], 2, vectors=QUERY)


def test_vectors_that_are_kept_as_given_are_refused():
    e = engine()
    chunks = e.collections[0]
    raw = replace(chunks, index=RawIndex.build(torch.eye(len(PASSAGES), D), "l2"))
    with pytest.raises(InvalidArgument, match="unit norm"):
        tercet.Engine(e.graph, [raw], device="cpu").passage_search([QUESTION], 2, vectors=QUERY)


def test_settings_of_a_file(tmp_path):
    file = tmp_path / "s.toml"
    file.write_text("[multihop]\ncandidates = 7\n[multihop.first]\ndense = 2.0\n[multihop.second]\n")
    got = MultihopSettings.read(file)
    assert (got.candidates, got.first, got.second, got.found) == (7, {"dense": 2.0}, {}, MultihopSettings().found)
    one, two = (engine().passage_search(vectors=QUERY, k=3, **x)[0] for x in ({"settings": file}, {"mode": "dense"}))
    assert one.scores.tolist() == [2 * s for s in two.scores.tolist()]
    for text, words in (("multihop = 3", "by name"), ("[multihop", "not valid TOML"), ("[multihop]\nx = 1", "'x'")):
        file.write_text(text)
        with pytest.raises(InvalidArgument, match=words):
            MultihopSettings.read(file)


def test_the_settings_in_configs_are_the_modes():
    assert MultihopSettings.read(CONFIG) == MODES["multihop"]


def test_a_filter_may_admit_nothing_where_passages_have_several_rows():
    e = engine(chunks=np.stack([axis(0), axis(1), axis(2)]), owners=["p0", "p0", "p1"], entities=False)
    for verb in (e.semantic_search, e.passage_search):
        assert verb(vectors=QUERY, k=3, filter=["n:sea"]).status == ["filtered_out"]
