"""Passage search over several hops, on a graph that is small enough to see through."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import tercet
from tercet.errors import InvalidArgument
from tercet.multihop import ranking
from tercet.multihop.names import Names
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


def engine(facts=FACTS, entities=True, relations=True, dtype="float32", index="exact"):
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
    chunks = np.stack([axis(a) for *_, a in PASSAGES.values()])
    made = [tercet.Collection.build("chunks", chunks, list(PASSAGES), "node", dtype=dtype, index=index)]
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


def test_k_may_differ_and_exceed_the_pool():
    got = engine().passage_search([QUESTION] * 2, [1, 100], vectors=np.repeat(QUERY, 2, 0))
    assert len(got[0]) == 1
    assert 2 <= len(got[1]) <= len(PASSAGES)
    assert found(got, 1)[:1] == found(got)


@pytest.mark.parametrize("options", [
    {"facts": []}, {"relations": False}, {"entities": False}, {"dtype": "float16"}, {"facts": [], "entities": False},
])  # fmt: skip
def test_parts_of_a_graph_may_be_missing(options):
    assert "p0" in found(engine(**options).passage_search([QUESTION], 3, vectors=QUERY))


def test_an_approximate_index():
    pytest.importorskip("faiss")
    assert set(found(engine(index="hnsw").passage_search([QUESTION], 2, vectors=QUERY))) == {"p0", "p1"}


def test_updates_are_seen():
    e = engine()
    assert found(e.passage_search(vectors=QUERY, k=1, mode="dense")) != ["p9"]
    e.upsert(nodes={"id": ["p9"], "name": ["New"], "type": ["DocumentChunk"], "text": ["a new one"]},
             vectors={"chunks": (["p9"], QUERY)})  # fmt: skip
    assert found(e.passage_search(vectors=QUERY, k=1, mode="dense")) == ["p9"]
    assert found(e.passage_search(["new one"], 1, vectors=QUERY, mode="lexical")) == ["p9"]


def test_wrong_calls_are_told():
    e = engine()
    for wrong, words in (
        ({"mode": "magic"}, "mode"), ({"settings": {"first": {"magic": 1.0}}}, "no signal 'magic'"),
        ({"settings": {"magic": 1}}, "no setting 'magic'"), ({"settings": {"damping": 2}}, "damping"),
        ({"settings": {"candidates": 0}}, "candidates"), ({"settings": "nowhere.toml"}, "nowhere.toml"),
        ({"passage_type": "Page"}, "DocumentChunk"), ({"settings": {"first": {}}}, "first"),
    ):  # fmt: skip
        with pytest.raises(InvalidArgument, match=words):
            e.passage_search([QUESTION], 2, vectors=QUERY, **wrong)
    with pytest.raises(InvalidArgument, match="vectors of passages"):
        tercet.Engine(e.graph, e.collections[1:], device="cpu").passage_search([QUESTION], 2, vectors=QUERY)


def test_the_settings_in_configs_are_the_modes():
    assert MultihopSettings.read(CONFIG) == MODES["multihop"]


def linked(texts, questions, **options):
    names, of_text = Names.build(pa.array(texts, pa.large_string()))
    got = names.link(questions, np.ones(len(names), np.int64), **{"capital": 10.0, "near": 0.5, **options})
    back = {int(row): text for row, text in reversed(list(zip(of_text, texts, strict=True)))}
    return [{back[int(n)]: float(w) for n, w in zip(got.name[a:b], got.weight[a:b], strict=True)}
            for a, b in zip(got.indptr[:-1], got.indptr[1:], strict=True)]  # fmt: skip


def test_names_are_folded_and_the_longest_counts():
    texts = ["São Paulo", "Paulo", "the", "X"]
    assert linked(texts, ["is sao paulo big", "the X of it", "Paulo"]) == [{"São Paulo": 2.0}, {}, {"Paulo": 1.0}]


def test_capitals_and_rarity_weigh():
    assert linked(["harbour", "old town"], ["in the Harbour", "an old town"]) == [{"harbour": 10.0}, {"old town": 2.0}]
    names, _ = Names.build(pa.array(["harbour"], pa.large_string()))
    rare, common = (names.link(["a harbour"], np.array([n]), capital=1.0, near=0.0).weight[0] for n in (1, 15))
    assert (rare, common) == (1.0, 0.25)


def test_words_in_another_order_and_number():
    texts = ["treaty of Versailles", "Paris treaty"]
    assert linked(texts, ["who signed the Versailles Treaties"]) == [{}]  # only -s is an ending
    assert linked(texts, ["who signed the Versailles treaty"]) == [{"treaty of Versailles": 10.0}]
    assert linked(texts, ["who signed the Versailles treatys"]) == [{"treaty of Versailles": 10.0}]
    assert linked(texts, ["who signed the Versailles treaty"], near=0.0) == [{}]
    assert linked(texts, ["who signed the versailles treaty"]) == [{}]  # needs a capital
    assert linked(["東京", "京都"], ["東京 はどこ"]) == [{"東京": 1.0}]
