"""Names that questions mention."""

import numpy as np
import pyarrow as pa
import pytest

from tercet.multihop.names import MOST_ALIKE, Names


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


def test_texts_that_fold_alike_are_one_name():
    names, of_text = Names.build(pa.array(["B c", None, "A", "b  C!", "", "á", "..."], pa.large_string()))
    assert of_text.tolist() == [0, -1, 1, 0, -1, 1, -1]
    assert len(names) == 2


def test_function_words_and_letters_are_no_names_alone():
    texts = ["The Who", "who", "A", "it", "Plan B"]
    assert linked(texts, ["who is it, A or B", "did The Who sing", "a plan b"]) == [
        {},
        {"The Who": 20.0},
        {"Plan B": 2.0},
    ]


def test_the_first_word_of_a_question_has_no_capital():
    assert linked(["paris", "rome"], ["Paris or Rome"]) == [{"paris": 1.0, "rome": 10.0}]


def test_plurals():
    texts = ["black cats", "glass door"]
    assert linked(texts, ["the Black cat"]) == [{"black cats": 10.0}]
    assert linked(texts, ["the Glass doors"]) == [{"glass door": 10.0}]
    assert linked(texts, ["the Glas door"]) == [{}]  # -ss is no plural
    assert linked(["boss men"], ["the Bos men"]) == [{}]


def test_han_and_kana_are_pairs_of_characters():
    assert linked(["東京都", "京都"], ["東京都の人", "京都へ"]) == [{"東京都": 2.0}, {"京都": 1.0}]


def test_names_alike_are_cut():
    texts = [" ".join(["of"] * i + ["Tower", "London"]) for i in range(MOST_ALIKE + 2)]
    assert len(linked(texts, ["the London Tower"])[0]) == MOST_ALIKE


@pytest.mark.parametrize("texts", [[], [None], ["", "?!"], ["the"]])
def test_without_names_nothing_is_found(texts):
    names, of_text = Names.build(pa.array(texts, pa.large_string()))
    assert len(of_text) == len(texts)
    got = names.link(["the harbour", "", "?"], np.ones(len(names), np.int64), capital=10.0, near=0.5)
    assert got.indptr.tolist() == [0, 0, 0, 0]
    assert names.link([], np.ones(len(names), np.int64), capital=10.0, near=0.5).indptr.tolist() == [0]


def test_a_question_alone_links_as_in_a_batch():
    texts = ["old harbour", "harbour", "harbour old town", "king", "town of the king"]
    asked = ["the Old harbour town", "", "a king of the Town", "the old harbour"]
    assert linked(texts, asked) == [linked(texts, [a])[0] for a in asked]
