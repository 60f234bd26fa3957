import unicodedata
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tercet.errors import InvalidArgument
from tercet.retrieve import tokenizer
from tercet.retrieve.tokenizer import Tokens, tokenize


def lists(tokens: Tokens) -> list[list[str]]:
    words = tokens.words.to_pylist()
    assert len(set(words)) == len(words)
    assert tokens.indptr[0] == 0
    return [[words[w] for w in tokens.word[low:high]] for low, high in pairwise(tokens.indptr)]


def words(text: str) -> list[str]:
    return lists(tokenize([text]))[0]


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("Attention is all", "attention is all"),
        ("data_base state-of-the-art it's", "data base state of the art it s"),
        ("COVID-19, v2.0 (x=y)", "covid 19 v2 0 x y"),
        ("AND OR NOT *", "and or not"),
        ('"unbalanced', "unbalanced"),
        ("Café CAFE cafe\u0301", "cafe cafe cafe"),
        ("straße STRASSE", "strasse strasse"),
        ("１２３ ｆｕｌｌ ﬁne ①", "123 full fine 1"),
        ("Łódź Ærø İstanbul ısı", "lodz aero istanbul isi"),
        ("naïve Ελληνικά ΕΛΛΗΝΙΚΆ ς", "naive ελληνικα ελληνικα σ"),
        ("co\u00adoperate a\u200db zero\u200bwidth", "cooperate ab zero width"),
        ("שָׁלוֹם مَرْحَبًا", "שלום مرحبا"),
        ("हिन्दी भाषा", "हिन्दी भाषा"),  # vowel signs belong to their word
        ("1️⃣ 🙂", "1"),
        ("", ""),
        ("?! \n\t —", ""),
    ],
)
def test_words_are_folded(text: str, want: str) -> None:
    assert words(text) == want.split()


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("検索", "検索"),
        ("向量检索系统", "向量 量检 检索 索系 系统"),
        ("索", "索"),
        ("東京タワー observation", "東京 京タ タワ ワー observation"),
        ("한국어 검색", "한국 국어 검색"),
        ("iPhone手机2024年x", "iphone 手机 2024 年 x"),
        ("ｶﾞｶﾞ", "ガガ"),
        ("が\u3099", "が"),
        ("葛\U000e0100城", "葛城"),  # a variation selector doesn't part
        ("検。索", "検 索"),
    ],
)
def test_cjk_runs_become_pairs(text: str, want: str) -> None:
    assert words(text) == want.split()


def test_a_mark_without_a_word_before_it_is_no_token() -> None:
    assert words("\u0902") == []
    assert words("\u0902x \u093f") == ["x"]


def test_rows_keep_their_tokens_whatever_they_hold() -> None:
    texts = ["a\nb", "", "\n", "c", "\ud800d\ud800", "e\x00f"]
    assert lists(tokenize(texts)) == [["a", "b"], [], [], ["c"], ["d"], ["e", "f"]]


@pytest.mark.parametrize(
    "make", [pa.array, lambda x: pa.array(x, pa.large_string()), lambda x: pa.chunked_array([x, x])]
)
def test_takes_arrow_columns_with_nulls(make: Any) -> None:
    got = lists(tokenize(make(["b a", None, "a"])))
    assert got == [["b", "a"], [], ["a"]] * (len(got) // 3)


def test_no_texts() -> None:
    tokens = tokenize([])
    assert tokens.indptr.tolist() == [0]
    assert len(tokens.word) == len(tokens.words) == 0
    assert (tokens.indptr.dtype, tokens.word.dtype, tokens.words.type) == (np.int64, np.int32, pa.large_string())


def test_stop_words_are_folded_too_and_left_out() -> None:
    tokens = tokenize(["The café of the town", "of", "inn"], stopwords=["THE", "of", "Cafe"])
    assert lists(tokens) == [["town"], [], ["inn"]]
    assert tokens.words.to_pylist() == ["town", "inn"]
    assert lists(tokenize(["a b"], stopwords=["z"])) == [["a", "b"]]


@given(st.lists(st.text(max_size=12), max_size=6))
@settings(max_examples=200, deadline=None, derandomize=True)
def test_a_text_has_the_same_tokens_alone_and_in_any_batch(texts: list[str]) -> None:
    assert lists(tokenize(texts)) == [words(text) for text in texts]


@given(st.text(st.characters(max_codepoint=0x10FF), max_size=20))
@settings(max_examples=300, deadline=None, derandomize=True)
def test_a_token_is_its_own_only_token(text: str) -> None:
    for word in words(text):
        assert words(word) == [word]


@given(st.text(max_size=20))
@settings(max_examples=200, deadline=None, derandomize=True)
def test_case_and_composition_make_no_difference(text: str) -> None:
    plain = words(text)
    assert words(text.casefold()) == plain
    assert words(unicodedata.normalize("NFD", text)) == plain
    assert words(unicodedata.normalize("NFKC", text)) == plain


def test_many_texts_are_cut_into_slices_and_joined_again(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = ["Ä b", "", "cc dd 検索", "x" * 40, "b", "ä"]
    want = lists(tokenize(texts))
    monkeypatch.setattr(tokenizer, "_SLICE_CHARACTERS", 5)
    got = tokenize(texts)
    assert lists(got) == want
    assert got.words.to_pylist() == ["a", "b", "cc", "dd", "検索", "x" * 40]


@pytest.mark.parametrize("texts", ["one text", b"bytes", [1], ["a", b"b"]])
def test_refuses_what_is_no_list_of_texts(texts: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"^texts"):
        tokenize(texts)
