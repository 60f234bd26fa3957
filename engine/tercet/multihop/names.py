"""Names that questions mention: of entities, and titles of passages, as spelled, folded, or in another order."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tercet.retrieve.tokenizer import Tokens, tokenize
from tercet_kernels.lexical_topk import text_rows
from tercet_kernels.name_spans import key_spans, name_spans, sorted_names

# Words that relate others and name nothing: a name of one of these alone isn't looked for, and they don't tell names
# apart.
FUNCTION_WORDS = tuple(
    [
        "a",
        "an",
        "the",
        "of",
        "in",
        "on",
        "at",
        "to",
        "for",
        "and",
        "or",
        "is",
        "was",
        "were",
        "are",
        "be",
        "been",
        "by",
        "with",
        "from",
        "as",
        "s",
        "that",
        "this",
        "which",
        "who",
        "whom",
        "whose",
        "what",
        "when",
        "where",
        "why",
        "how",
        "did",
        "does",
        "do",
        "has",
        "have",
        "had",
        "it",
        "its",
        "his",
        "her",
        "he",
        "she",
        "they",
        "their",
        "not",
        "no",
        "than",
        "then",
    ]
)
MOST_ALIKE = 5  # names with the same words that one run of a question stands for
Words = tuple[np.ndarray, np.ndarray]  # indptr (G + 1,) int64, word (W,) int32


class Links(NamedTuple):
    """Names in each of B questions, ascending within one."""

    indptr: np.ndarray  # (B + 1,) int64
    name: np.ndarray  # (S,) int32 rows of `Names`
    weight: np.ndarray  # (S,) float64 above 0


@dataclass(frozen=True, eq=False)
class Names:
    """The distinct names of a graph, folded, so that `São Paulo` and `sao paulo` are one."""

    vocabulary: pa.LargeStringArray  # (V,) words, ascending by their bytes
    words: Words  # of each name, in the order of `sorted_names`
    row: np.ndarray  # (G,) int32 the name at each place of that order
    stem: np.ndarray  # (V,) int32 the word without an ending, -1 for a function word
    keys: Words  # distinct sets of stems of two words or more
    of_key: Words  # indptr, names of each

    @staticmethod
    def build(texts: pa.Array) -> tuple["Names", np.ndarray]:
        """Names of texts, numbered by first appearance.

        Args:
            texts: (T,) strings.

        Returns:
            the names, and (T,) int32 which of them each text is, -1 for one without a word.
        """
        tokens = tokenize(texts)
        vocabulary, place = _sorted_words(tokens.words)
        words: Words = (tokens.indptr, place[tokens.word] if len(place) else tokens.word)
        of_text, first = _distinct(words)
        chosen = _take(words, first)
        order = sorted_names(*chosen)
        stem = _stems(vocabulary, np.asarray(pc.is_in(vocabulary, value_set=_function_words()), bool))
        keys, of_key = _keys(chosen, stem)
        return Names(vocabulary, _take(chosen, order), order.astype(np.int32), stem, keys, of_key), of_text

    def __len__(self) -> int:
        return len(self.row)

    def link(self, questions: list[str], frequency: np.ndarray, *, capital: float, near: float) -> Links:
        """The names in each question, the longest where one is part of another.

        A name weighs its number of words over log2(1 + the passages that have it), `capital` times that if the
        question writes one of its words with a capital (not counting its first word), and `near` times that if only
        its words are there, in another order, with or without function words, or in another number.

        Args:
            questions: (B,) texts.
            frequency: (G,) passages of each name.
        """
        tokens = tokenize(questions)
        word = text_rows(*_bytes(self.vocabulary), *_bytes(tokens.words))[tokens.word].astype(np.int32)
        function = np.asarray(pc.is_in(tokens.words, value_set=_function_words()), bool)[tokens.word]
        letter = np.asarray(pc.less(pc.utf8_length(tokens.words), 2), bool)[tokens.word]
        marked = _capitals(questions, tokens)
        end, place = name_spans(self.words, tokens.indptr, word, function | letter)
        start = np.flatnonzero(place >= 0)
        found: list[tuple[np.ndarray, ...]] = [(start, end[start], self.row[place[start]], np.ones(len(start)))]
        if near > 0 and len(self.keys[0]) > 1:
            bare = text_rows(*_bytes(self.vocabulary), *_bytes(_bare(tokens.words)))[tokens.word]
            known = np.where(word >= 0, word, bare)  # a plural that no name has may still be one of a word that one has
            stem = np.where(known >= 0, self.stem[np.maximum(known, 0)], -1).astype(np.int32)
            near_end, key = key_spans(self.keys, tokens.indptr, stem, function, marked, end)
            start = np.flatnonzero(key >= 0)
            counts = np.diff(self.of_key[0])[key[start]]
            at = np.repeat(self.of_key[0][key[start]], counts) + _ramp(counts)
            start = np.repeat(start, counts)
            found.append((start, near_end[start], self.of_key[1][at], np.full(len(start), near)))
        return _weighed(found, tokens.indptr, marked, frequency, capital)


def _weighed(
    found: list[tuple[np.ndarray, ...]], indptr: np.ndarray, marked: np.ndarray, frequency: np.ndarray, capital: float
) -> Links:
    """The best weight of each name in each question."""
    start, end, name, factor = (np.concatenate(column) for column in zip(*found, strict=True))
    marks = np.concatenate([np.zeros(1, np.int64), np.cumsum(marked)])
    weight = (end - start) / np.log2(1.0 + np.maximum(frequency[name], 1)) * factor
    weight = np.where(marks[end] > marks[start], capital * weight, weight)
    query = np.searchsorted(indptr, start, side="right") - 1
    kept = weight > 0
    query, name, weight = query[kept], name[kept], weight[kept]
    order = np.lexsort((-weight, name, query))
    query, name, weight = query[order], name[order], weight[order]
    fresh = np.ones(len(query), bool)
    fresh[1:] = (query[1:] != query[:-1]) | (name[1:] != name[:-1])
    bounds = np.searchsorted(query[fresh], np.arange(len(indptr)))
    return Links(bounds.astype(np.int64), name[fresh].astype(np.int32), weight[fresh])


def _capitals(questions: list[str], tokens: Tokens) -> np.ndarray:
    """(M,) bool tokens that the question has, after its first word, in a word that begins with a capital."""
    raised = [" ".join(w for w in text.split()[1:] if _capital(w)) for text in questions]
    capitals = tokenize(raised)
    place = pc.index_in(capitals.words, value_set=tokens.words)
    row = np.asarray(pc.fill_null(place, -1), np.int64)[capitals.word] if len(capitals.word) else np.zeros(0, np.int64)
    size = len(tokens.words) + 1
    have = np.repeat(np.arange(len(questions)), np.diff(capitals.indptr)) * size + row
    asked = np.repeat(np.arange(len(questions)), np.diff(tokens.indptr)) * size + tokens.word
    return np.isin(asked, have[row >= 0])


def _capital(word: str) -> bool:
    return next((c.isupper() for c in word if c.isalnum()), False)


def _sorted_words(words: pa.LargeStringArray) -> tuple[pa.LargeStringArray, np.ndarray]:
    """Words ascending, and the place of each there."""
    order = np.asarray(pc.array_sort_indices(words), np.int64)
    place = np.empty(len(order), np.int32)
    place[order] = np.arange(len(order), dtype=np.int32)
    return words.take(pa.array(order)), place


def _distinct(words: Words) -> tuple[np.ndarray, np.ndarray]:
    """(T,) int32 which distinct list each is, numbered by first appearance (-1: empty), and the first text of each."""
    indptr, word = words
    order = sorted_names(indptr, word)
    counts = np.diff(indptr)
    same = np.zeros(len(order), bool)  # as the one before in the order
    if len(order) > 1:
        same[1:] = _equal(words, order[1:], order[:-1])
    group = np.cumsum(~same) - 1
    of_text = np.full(len(counts), -1, np.int64)
    of_text[order] = group
    first = np.full(int(group[-1]) + 1 if len(group) else 0, len(counts), np.int64)
    np.minimum.at(first, of_text, np.arange(len(counts)))
    first = first[counts[first] > 0] if len(first) else first
    first = np.sort(first)
    number = np.full(len(group) + 1, -1, np.int32)
    number[of_text[first]] = np.arange(len(first), dtype=np.int32)
    return number[of_text], first


def _equal(words: Words, one: np.ndarray, two: np.ndarray) -> np.ndarray:
    """Whether two lists each are the same."""
    indptr, word = words
    counts = np.diff(indptr)
    equal = counts[one] == counts[two]
    at = np.flatnonzero(equal)
    left = np.repeat(indptr[one[at]], counts[one[at]]) + _ramp(counts[one[at]])
    right = np.repeat(indptr[two[at]], counts[one[at]]) + _ramp(counts[one[at]])
    differs = np.repeat(at, counts[one[at]])[word[left] != word[right]]
    equal[differs] = False
    return equal


def _take(words: Words, rows: np.ndarray) -> Words:
    """Some of the lists."""
    indptr, word = words
    counts = np.diff(indptr)[rows]
    at = np.repeat(indptr[rows], counts) + _ramp(counts)
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)]), word[at]


def _ramp(counts: np.ndarray) -> np.ndarray:
    """0, 1, … for each count."""
    ends = np.cumsum(counts)
    return np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - counts, counts)


def _function_words() -> pa.Array:
    return pa.array(FUNCTION_WORDS, pa.large_string())


def _stems(vocabulary: pa.LargeStringArray, function: np.ndarray) -> np.ndarray:
    """(V,) int32 one number for a word and its plural in -s; -1 for function words."""
    number = np.asarray(_bare(vocabulary).dictionary_encode().indices, np.int32)
    return np.where(function, -1, number).astype(np.int32)


def _bare(words: pa.LargeStringArray) -> pa.LargeStringArray:
    """Words without the -s of a plural."""
    long = pc.and_(pc.greater(pc.utf8_length(words), 3), pc.ends_with(words, "s"))
    plural = pc.and_(long, pc.invert(pc.ends_with(words, "ss")))
    return pc.if_else(plural, pc.utf8_slice_codeunits(words, 0, -1), words)


def _keys(names: Words, stem: np.ndarray) -> tuple[Words, Words]:
    """The sets of stems of names with two words or more, and the names of each, at most `MOST_ALIKE`."""
    indptr, word = names
    value = stem[word] if len(word) else word
    owner = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    kept = value >= 0
    order = np.lexsort((value[kept], owner[kept]))
    owner, value = owner[kept][order], value[kept][order]
    counts = np.bincount(owner, minlength=len(indptr) - 1)
    rows = np.flatnonzero(counts >= 2)
    every: Words = (np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)]), value.astype(np.int32))
    lists = _take(every, rows)
    group, first = _distinct(lists)
    distinct = _take(lists, first)
    turn = sorted_names(*distinct)
    place = np.empty(len(turn), np.int64)
    place[turn] = np.arange(len(turn))
    key = place[group] if len(group) else np.zeros(0, np.int64)
    by_key = np.argsort(key, kind="stable")
    held = np.bincount(key, minlength=len(turn))
    rank = _ramp(held)
    chosen = by_key[rank < MOST_ALIKE]
    held = np.minimum(held, MOST_ALIKE)
    return _take(distinct, turn), (
        np.concatenate([np.zeros(1, np.int64), np.cumsum(held)]),
        rows[chosen].astype(np.int32),
    )


def _bytes(texts: pa.LargeStringArray) -> tuple[np.ndarray, np.ndarray]:
    """Offsets and bytes of strings."""
    if texts.offset or not len(texts):
        texts = pa.concat_arrays([texts]) if len(texts) else texts
    _, offsets, data = texts.buffers()
    bounds = (
        np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
        if len(texts)
        else np.zeros(1, np.int64)
    )
    held = np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(0, np.uint8)
    for array in (bounds, held):
        array.setflags(write=False)
    return bounds, held
