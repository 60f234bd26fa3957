"""Titles of whole columns against the plain rule, over every character there is."""

import sys

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tercet import titles
from tercet.titles import reference_title, text_titles

# White space of all kinds, letters whose lower case is special, stop words, punctuation inside and at the ends.
PIECES = [" ", "  ", "\t", "\n", "\x0b", "\x1c", "\x1f", "\x85", "\u00a0", "\u1680", "\u2028", "\u3000", "\u200b"]
PIECES += ["the", "The", "AND", "of", "graph", "Graph", "node", "NODE.", '"node"', "--", "(", "'tis", "it's", "x-y"]
PIECES += ["\u0130", "I", "\u0131", "ΟΔΟΣ", "Σ", "ΑΣ'", "ß", "\u1e9e", "\u212a", "\u01c5", "数据", "\U00010d50", "\x00"]

texts = st.one_of(
    st.lists(st.sampled_from(PIECES), max_size=30).map("".join),
    st.lists(st.sampled_from(PIECES), max_size=30).map(" ".join),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=40),
)


def column(values: list[str | None]) -> pa.Array:
    return pa.array(values, pa.large_string())


def expected(values: list[str | None]) -> list[str | None]:
    return [None if value is None else reference_title(value) for value in values]


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("One", "One... [one]"),
        ("   \n\t ", "... []"),
        ("the of and", "the of and... []"),
        ("a b c d e f g h h", "a b c d e f g... [h, b, c]"),
        (
            '"Quoted" word, word; (word) \'tis Tis --',
            '"Quoted" word, word; (word) \'tis Tis --... [word, tis, quoted]',
        ),
        ("new\tline  double\u3000space", "new line double space... [new, line, double]"),
        ("ΟΔΟΣ ΟΔΟΣ. x", "ΟΔΟΣ ΟΔΟΣ. x... [οδος, x]"),
    ],
)
def test_examples_by_hand(text: str, title: str) -> None:
    assert reference_title(text) == title
    assert text_titles(column([text])).to_pylist() == [title]


@settings(max_examples=400, deadline=None)
@given(st.lists(st.none() | texts, max_size=8))
def test_equals_the_plain_rule(values: list[str | None]) -> None:
    got = text_titles(column(values))
    assert got.type == pa.large_string()
    assert got.to_pylist() == expected(values)


def test_every_code_point() -> None:
    points = [chr(point) for point in range(sys.maxunicode + 1) if not 0xD800 <= point <= 0xDFFF]
    rows = [" ".join(f"{char}X{char}z{char}" for char in points[i : i + 3]) for i in range(0, len(points), 3)]
    got = text_titles(column(rows)).to_pylist()
    wrong = [row for row, title in zip(rows, got, strict=True) if title != reference_title(row)]
    assert wrong == []


@settings(max_examples=60, deadline=None)
@given(values=st.lists(st.none() | texts, max_size=20), rows=st.integers(1, 6), size=st.integers(1, 60))
def test_slices_do_not_show(values: list[str | None], rows: int, size: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(titles, "_SLICE_ROWS", rows)
        patch.setattr(titles, "_SLICE_BYTES", size)
        assert text_titles(column(values)).to_pylist() == expected(values)


def test_chunks_types_and_offsets() -> None:
    values = ["first of all", None, "second text text", "", "third"]
    chunked = pa.chunked_array([values[:2], [], values[2:]], pa.string())
    assert text_titles(chunked).to_pylist() == expected(values)
    assert text_titles(pa.array(values).dictionary_encode()).to_pylist() == expected(values)
    assert text_titles(column(values).slice(1, 3)).to_pylist() == expected(values[1:4])
    assert text_titles(pa.chunked_array([], pa.string())).to_pylist() == []
    assert text_titles(column([None, None])).to_pylist() == [None, None]


def test_large_texts_with_many_keywords() -> None:
    long = " ".join(f"w{i % 977}" for i in range(40_000)) + " tail" * 50
    values = [long, "short", long.upper()]
    assert text_titles(column(values)).to_pylist() == expected(values)
