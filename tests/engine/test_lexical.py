import math
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tercet import Graph
from tercet.carried import Carried
from tercet.errors import InvalidArgument, InvalidData
from tercet.filters import Filters, node_masks
from tercet.retrieve.lexical import LexicalIndex, TextHits
from tercet.retrieve.tokenizer import tokenize

DOCUMENTS = ["ENOSPC retry policy", "state-of-the-art retry", "向量检索系统很快", "", "cats and dogs, not birds"]


def found(hits: TextHits) -> list[list[tuple[int, float]]]:
    rows = list(zip(hits.node.tolist(), hits.score.tolist(), strict=True))
    return [rows[low:high] for low, high in pairwise(hits.indptr.tolist())]


def nodes(hits: TextHits) -> list[list[int]]:
    return [[node for node, _ in rows] for rows in found(hits)]


def lucene(documents: list[list[str]], query: list[str], k1: float, b: float) -> dict[int, float]:
    """BM25 by the formula, with dictionaries and float64."""
    mean = sum(map(len, documents)) / len(documents)
    score: dict[int, float] = {}
    for token in query:
        held = [i for i, document in enumerate(documents) if token in document]
        idf = math.log(1 + (len(documents) - len(held) + 0.5) / (len(held) + 0.5))
        for i in held:
            f = documents[i].count(token)
            part = idf * f / (f + k1 * (1 - b + b * len(documents[i]) / mean))
            score[i] = score.get(i, 0.0) + part
    return score


word = st.sampled_from(["ada", "bee", "cat", "dog", "elk"])
text = st.lists(word, max_size=8)


@given(
    documents=st.lists(text, min_size=1, max_size=8),
    queries=st.lists(st.lists(st.one_of(word, st.just("unknown")), max_size=5), max_size=4),
    k1=st.sampled_from([0.0, 0.9, 1.5]),
    b=st.sampled_from([0.0, 0.4, 0.75, 1.0]),
)
@settings(max_examples=60, deadline=None, derandomize=True)
def test_scores_follow_the_formula(documents, queries, k1: float, b: float) -> None:
    index = LexicalIndex.build([" ".join(words) for words in documents], k1=k1, b=b)
    hits = index.search([" ".join(words) for words in queries], k=20)
    for query, rows, available in zip(queries, found(hits), hits.available.tolist(), strict=True):
        want = lucene(documents, query, k1, b)
        assert dict(rows) == pytest.approx(want, rel=1e-5)
        assert available == len(want)
        assert rows == sorted(rows, key=lambda row: (-row[1], row[0]))
    assert hits.tokens.tolist() == [len(query) for query in queries]
    held = {token for document in documents for token in document}
    assert hits.known.tolist() == [sum(token in held for token in query) for query in queries]


@pytest.mark.parametrize("method", ["lucene", "robertson", "atire"])
def test_scores_are_those_of_bm25s(method: str) -> None:
    bm25s = pytest.importorskip("bm25s", reason="bm25s isn't installed")
    rng = np.random.default_rng(3)
    documents = [" ".join(rng.choice(list("abcdefghijklmnop"), rng.integers(1, 12))) for _ in range(200)]
    queries = [" ".join(rng.choice(list("abcdefghijklmnop"), 4, replace=False)) for _ in range(10)]
    theirs = bm25s.BM25(method=method, k1=1.2, b=0.6)
    theirs.index([document.split() for document in documents], show_progress=False)
    index = LexicalIndex.build(documents, k1=1.2, b=0.6, method=method)
    for query, rows in zip(queries, found(index.search(queries, 200)), strict=True):
        scores = theirs.get_scores(query.split())
        assert [score for _, score in rows] == pytest.approx([scores[node] for node, _ in rows], rel=1e-5)
        matching = {i for i, document in enumerate(documents) if set(document.split()) & set(query.split())}
        assert {node for node, _ in rows} == matching


def test_plain_questions_are_legal_and_find_what_their_words_say() -> None:
    """The cases of questions with apostrophes, hyphens, operators, a lone quote and Chinese."""
    index = LexicalIndex.build(DOCUMENTS)
    questions = [
        "what's the ENOSPC policy, roughly?",
        "state-of-the-art",
        "AND OR NOT *",
        '"unbalanced',
        "检索",
        "",
        "?!",
    ]
    hits = index.search(questions, 5)
    first = [rows[0] if rows else None for rows in nodes(hits)]
    assert first == [0, 1, 4, None, 2, None, None]
    assert hits.tokens.tolist() == [6, 4, 3, 1, 1, 0, 0]
    assert hits.known.tolist() == [3, 4, 2, 0, 1, 0, 0]
    assert hits.available.tolist() == [2, 1, 1, 0, 1, 0, 0]


def test_spelling_variants_meet() -> None:
    index = LexicalIndex.build(["Café Müller", "CAFE muller", "data_base １２３", "straße"])
    queries = ["cafe", "data", "data_base", "123", "STRASSE"]
    assert nodes(index.search(queries, 9)) == [[0, 1], [2], [2], [2], [3]]


def test_ties_go_to_the_smaller_row_and_k_may_differ(device: str) -> None:
    index = LexicalIndex.build(["same words", "other", "same words", "same words"]).to(device)
    hits = index.search(["same", "same", "words same", "none"], [2, 1, 9, 3])
    assert nodes(hits) == [[0, 2], [0], [0, 2, 3], []]
    assert hits.available.tolist() == [3, 3, 3, 0]
    assert hits.score.dtype == torch.float64


def test_a_filter_counts_before_the_cut_and_no_hit_lies_outside(device: str) -> None:
    """20,000 texts that all hold a word; tags on 322 and 1 and 0 of them, and no filter: 100, 1, 0 and 100 results."""
    size = 20_000
    tags = np.full(size, "none")
    tags[np.random.default_rng(0).permutation(size)[:323]] = "t1"
    tags[int(np.flatnonzero(tags == "t1")[5])] = "t2"
    texts = [f"common {'word ' * (i % 7)}" for i in range(size)]
    masks = torch.from_numpy(np.stack([tags == tag for tag in ("t1", "t2", "t3")]))
    assert masks.sum(1).tolist() == [322, 1, 0]
    filters = Filters(masks, torch.tensor([0, 1, 2, -1], dtype=torch.int32))
    index = LexicalIndex.build(texts).to(device)
    hits = index.search(["common"] * 4, 100, filters)
    assert hits.available.tolist() == [322, 1, 0, size]
    assert [len(rows) for rows in nodes(hits)] == [100, 1, 0, 100]
    scores = dict(found(index.search(["common"], size))[0])
    for rows, mask in zip(found(hits), [*masks, torch.ones(size, dtype=torch.bool)], strict=True):
        inside = [(node, scores[node]) for node in mask.nonzero().squeeze(1).tolist()]
        assert rows == sorted(inside, key=lambda row: (-row[1], row[0]))[:100]


def test_a_query_is_answered_with_the_same_bits_alone_and_in_any_batch(device: str) -> None:
    rng = np.random.default_rng(1)
    vocabulary = [f"w{i}" for i in range(60)]
    texts = [" ".join(rng.choice(vocabulary, rng.integers(0, 9))) for _ in range(500)]
    queries = [" ".join(rng.choice(vocabulary, rng.integers(0, 7))) for _ in range(12)]
    index = LexicalIndex.build(texts).to(device)
    whole = found(index.search(queries, 30))
    for rows in ([11, *range(11)], [5], [3, 3]):
        assert found(index.search([queries[q] for q in rows], 30)) == [whole[q] for q in rows]


def graph() -> Graph:
    """Rows a, ab, b; the one in the middle has no text in any of the usual columns."""
    return Graph.from_tables(
        {"id": ["b", "a", "ab"], "name": ["Danube", "River", None], "text": ["a river", None, None],
         "description": [None, "long", None], "topic": ["geo", "geo", "delta"], "size": [1, 2, 3]},
        {"source": ["a"], "relation": ["near"], "target": ["b"]},
    )  # fmt: skip


def test_document_i_is_node_row_i() -> None:
    g = graph()
    index = LexicalIndex.build(g)
    assert index.num_documents == 3
    assert nodes(index.search(["danube", "LONG", "delta"], 5)) == [[g.row("b")], [g.row("a")], []]
    by_topic = LexicalIndex.build(g, ["topic"])
    assert nodes(by_topic.search(["delta"], 5)) == [[g.row("ab")]]
    filters = node_masks(g, ["b"], 1)
    assert nodes(index.search(["river"], 5, filters)) == [[g.row("b")]]
    assert sorted(nodes(index.search(["river"], 5, node_masks(g, None, 1)))[0]) == sorted([g.row("a"), g.row("b")])


def test_stop_words_are_neither_indexed_nor_found() -> None:
    index = LexicalIndex.build(["the cat", "the dog"], stopwords=["The"])
    assert nodes(index.search(["the", "the dog"], 5)) == [[], [1]]
    assert index.vocabulary.to_pylist() == ["cat", "dog"]


@pytest.mark.parametrize("texts", [[], [""], ["", "?!", "—"]])
def test_an_index_without_tokens_finds_nothing(texts: list[str]) -> None:
    index = LexicalIndex.build(texts)
    assert index.num_documents == len(texts)
    hits = index.search(["word", ""], 3)
    assert nodes(hits) == [[], []]
    assert hits.tokens.tolist() == [1, 0]
    assert nodes(index.search([], 3)) == []
    again = LexicalIndex.from_arrays(index.arrays(), index.vocabulary, index.settings)
    assert nodes(again.search(["word"], 3)) == [[]]


def test_saved_parts_give_the_same_answers() -> None:
    index = LexicalIndex.build(pa.array([*DOCUMENTS, None]), k1=1.2, b=0.5, method="atire")
    again = LexicalIndex.from_arrays(index.arrays(), index.vocabulary, index.settings)
    queries = ["retry policy", "检索", "art of birds"]
    assert found(again.search(queries, 9)) == found(index.search(queries, 9))
    assert again.settings == index.settings == {"num_documents": 6, "k1": 1.2, "b": 0.5, "method": "atire"}
    sliced = pa.concat_arrays([pa.array(["", ""], pa.large_string()), index.vocabulary])[2:]
    moved = LexicalIndex.from_arrays(index.arrays(), sliced, index.settings)
    assert found(moved.search(queries, 9)) == found(index.search(queries, 9))


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("indptr", lambda x: x[:-1]),
        ("indptr", lambda x: x[::-1].copy()),
        ("indptr", lambda x: x.astype(np.int32)),
        ("document", lambda x: x + 3),
        ("document", lambda x: x[:-1]),
        ("document", lambda x: x.astype(np.int64)),
        ("weight", lambda x: x[:-1]),
        ("weight", lambda x: x.astype(np.float64)),
        ("frequency", lambda x: x[:-1]),
        ("frequency", lambda x: x.astype(np.int64)),
        ("length", lambda x: x[:-1]),
    ],
)
def test_refuses_parts_that_do_not_fit(name: str, change: Any) -> None:
    index = LexicalIndex.build(DOCUMENTS)
    arrays = index.arrays()
    with pytest.raises(InvalidData, match=r"^lexical "):
        LexicalIndex.from_arrays(arrays | {name: change(arrays[name])}, index.vocabulary, index.settings)


def test_refuses_a_vocabulary_out_of_order() -> None:
    index = LexicalIndex.build(["b a"])
    with pytest.raises(InvalidData, match="ascending order"):
        LexicalIndex.from_arrays(index.arrays(), index.vocabulary[::-1], index.settings)


@pytest.mark.parametrize(
    ("message", "options"),
    [
        ("^columns: the node table has no column 'title'", {"columns": ["title"]}),
        ("^columns: expected a column of text, 'size' holds", {"columns": ["size"]}),
        ("^columns: expected at least one", {"columns": []}),
        ("^method: expected one of", {"method": "bm25l"}),
        ("^k1: expected", {"k1": -1}),
        ("^b: expected", {"b": 1.5}),
    ],
)
def test_refuses_bad_parameters(message: str, options: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument, match=message):
        LexicalIndex.build(graph(), **options)


def everything(documents: int, queries: int) -> Filters:
    return Filters(torch.ones(1, documents, dtype=torch.bool), torch.zeros(queries, dtype=torch.int32))


@pytest.mark.parametrize(
    ("message", "call"),
    [
        ("^texts: expected a list of queries", {"texts": "river"}),
        ("^texts row 1: expected a string", {"texts": ["river", 5]}),
        ("^k: expected at least 1, got 0", {"k": 0}),
        ("^k: expected one number, or one for each of 2", {"k": [1]}),
        ("^k: expected whole numbers", {"k": 1.5}),
        ("^filters: expected masks over 5", {"filters": everything(4, 2)}),
        ("^filters: expected a row for each", {"filters": everything(5, 1)}),
    ],
)
def test_refuses_bad_searches(message: str, call: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument, match=message):
        LexicalIndex.build(DOCUMENTS).search(**{"texts": ["river", "art"], "k": 3} | call)


@given(
    before=st.lists(text, max_size=7),
    kept=st.lists(st.booleans(), min_size=7, max_size=7),
    fresh=st.lists(st.tuples(st.integers(0, 7), text), max_size=5),
    method=st.sampled_from(["lucene", "robertson", "atire"]),
)
@settings(max_examples=150, deadline=None, derandomize=True)
def test_an_index_brought_up_to_date_is_a_new_one(before, kept, fresh, method) -> None:
    """Documents go, others come between them; every array is the same to the last bit."""
    held = [(i, " ".join(words)) for i, words in enumerate(before)]
    now = [pair for pair, stays in zip(held, kept, strict=False) if stays]
    for at, words in fresh:
        now.insert(min(at, len(now)), (-1, " ".join(words)))
    row = np.array([i for i, _ in now], np.int32)
    texts = [t for _, t in now]
    ids = [f"{i:02d}" for i in range(len(now))]
    after = Graph.from_tables({"id": ids, "name": texts}, {"source": [], "target": [], "relation": []})
    old = LexicalIndex.build([t for _, t in held], k1=1.1, b=0.6, method=method, stopwords=["elk"])
    want = LexicalIndex.build(texts, k1=1.1, b=0.6, method=method, stopwords=["elk"])
    got = old.updated(after, ["name"], Carried.of(row))
    assert got.vocabulary.equals(want.vocabulary)
    assert got.settings == want.settings
    for name, array in want.arrays().items():
        assert got.arrays()[name].dtype == array.dtype
        assert got.arrays()[name].tobytes() == array.tobytes(), name


def test_the_vocabulary_is_sorted_by_its_bytes() -> None:
    index = LexicalIndex.build(["zz b é 検索 a\U0001d7d8 ab"])
    words = index.vocabulary.to_pylist()
    assert [w.encode() for w in words] == sorted(w.encode() for w in words)
    assert set(words) == set(tokenize(["zz b é 検索 a\U0001d7d8 ab"]).words.to_pylist())
