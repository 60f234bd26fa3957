"""Names that questions mention: of entities, and titles of passages, as spelled, folded, or in another order."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tercet.multihop.lists import Lists, expanded, offsets, owners, ramp, taken
from tercet.retrieve.tokenizer import Tokens, bytes_of, tokenize
from tercet_kernels.lexical_topk import text_rows
from tercet_kernels.name_spans import key_spans, name_spans, sorted_names

# Words that relate others and name nothing: a name of one of these alone isn't looked for, and they don't tell names
# apart.
FUNCTION_WORDS = (
    "a", "an", "the", "of", "in", "on", "at", "to", "for", "and", "or", "is", "was", "were", "are", "be", "been", "by",
    "with", "from", "as", "s", "that", "this", "which", "who", "whom", "whose", "what", "when", "where", "why", "how",
    "did", "does", "do", "has", "have", "had", "it", "its", "his", "her", "he", "she", "they", "their", "not", "no",
    "than", "then",
)  # fmt: skip
MOST_ALIKE = 5  # names with the same words that one run of a question stands for


class Links(NamedTuple):
    """Names in each of B questions, ascending within one."""

    indptr: np.ndarray  # (B + 1,) int64
    name: np.ndarray  # (S,) int32 rows of `Names`
    weight: np.ndarray  # (S,) float64 above 0


class Spans(NamedTuple):
    """Runs of words that stand for names."""

    start: np.ndarray  # (X,) int64 place of the first word among those of all questions
    end: np.ndarray  # (X,) int64 place after the last one
    name: np.ndarray  # (X,) int32 rows of `Names`
    factor: np.ndarray  # (X,) float64 how much the name counts


@dataclass(frozen=True, eq=False)
class Names:
    """The distinct names of a graph, folded, so that `São Paulo` and `sao paulo` are one."""

    vocabulary: pa.LargeStringArray  # (V,) words, ascending by their bytes
    words: Lists  # of each name, in the order of `sorted_names`
    row: np.ndarray  # (G,) int32 the name at each place of that order
    stems: pa.LargeStringArray  # (U,) words without the ending of a plural, ascending by their bytes
    keys: Lists  # distinct sets of stems of two words or more, function words left out
    of_key: Lists  # indptr, names of each

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
        words: Lists = (tokens.indptr, place[tokens.word] if len(place) else tokens.word)
        of_text, first = _distinct(words)
        chosen = taken(words, first)
        order = sorted_names(*chosen)
        bare = _bare(vocabulary)
        stems, _ = _sorted_words(bare.unique())
        stem = np.where(_among(vocabulary), np.int32(-1), _rows(stems, bare))
        keys, of_key = _keys(chosen, stem)
        return Names(vocabulary, taken(chosen, order), order.astype(np.int32), stems, keys, of_key), of_text

    def __len__(self) -> int:
        return len(self.row)

    def link(self, questions: list[str], frequency: np.ndarray, *, capital: float, near: float) -> Links:
        """The names in each question, the longest where one is part of another.

        A name weighs its number of words over log2(1 + the passages that have it), `capital` times that if the
        question writes one of its words with a capital (not counting its first word), and `near` times that if only
        its words are there, one of them with a capital: in another order, with or without function words, or in
        another number.

        Args:
            questions: (B,) texts.
            frequency: (G,) passages of each name.
            capital, near: at least 0.
        """
        tokens = tokenize(questions)
        marked = _capitals(questions, tokens)
        function = _among(tokens.words)[tokens.word]
        letter = np.asarray(pc.less(pc.utf8_length(tokens.words), 2), bool)[tokens.word]
        word = _rows(self.vocabulary, tokens.words)[tokens.word]
        end, place = name_spans(self.words, tokens.indptr, word, function | letter)
        start = np.flatnonzero(place >= 0)
        found = [Spans(start, end[start], self.row[place[start]], np.ones(len(start)))]
        if near > 0 and len(self.keys[0]) > 1:
            stem = _rows(self.stems, _bare(tokens.words))[tokens.word]
            end, key = key_spans(self.keys, tokens.indptr, stem, function, marked, end)
            start = np.flatnonzero(key >= 0)
            at, name = expanded(self.of_key, key[start])
            found.append(Spans(start[at], end[start[at]], name, np.full(len(at), near)))
        return _weighed(found, tokens.indptr, marked, frequency, capital)


def _weighed(
    found: list[Spans], indptr: np.ndarray, marked: np.ndarray, frequency: np.ndarray, capital: float
) -> Links:
    """The best weight of each name in each question."""
    start, end, name, factor = (np.concatenate(column) for column in zip(*found, strict=True))
    marks = offsets(marked)
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
    have = owners(capitals.indptr) * size + row
    asked = owners(tokens.indptr) * size + tokens.word
    return np.isin(asked, have[row >= 0])


def _capital(word: str) -> bool:
    return next((c.isupper() for c in word if c.isalnum()), False)


def _sorted_words(words: pa.LargeStringArray) -> tuple[pa.LargeStringArray, np.ndarray]:
    """Words ascending, and the place of each there."""
    order = np.asarray(pc.array_sort_indices(words), np.int64)
    place = np.empty(len(order), np.int32)
    place[order] = np.arange(len(order), dtype=np.int32)
    return words.take(pa.array(order)), place


def _distinct(words: Lists) -> tuple[np.ndarray, np.ndarray]:
    """(T,) int32 which distinct list each is, numbered by first appearance (-1: empty), and the first text of each."""
    indptr, word = words
    order = sorted_names(indptr, word)
    counts = np.diff(indptr)
    same = np.zeros(len(order), bool)  # as the one before in the order
    if len(order) > 1:
        same[1:] = _equal(words, order[1:], order[:-1])
    first = order[~same]  # the first text of each group: equal ones keep their order
    named = np.flatnonzero(counts[first] > 0)
    named = named[np.argsort(first[named])]
    number = np.full(len(first), -1, np.int32)
    number[named] = np.arange(len(named), dtype=np.int32)
    of_text = np.empty(len(counts), np.int32)
    of_text[order] = number[np.cumsum(~same) - 1]
    return of_text, first[named]


def _equal(words: Lists, one: np.ndarray, two: np.ndarray) -> np.ndarray:
    """Whether two lists each are the same."""
    counts = np.diff(words[0])
    equal = counts[one] == counts[two]
    rows = np.flatnonzero(equal)
    at, left = expanded(words, one[rows])
    equal[rows[at[left != expanded(words, two[rows])[1]]]] = False
    return equal


def _among(words: pa.LargeStringArray) -> np.ndarray:
    """(W,) bool words that are function words."""
    return np.asarray(pc.is_in(words, value_set=pa.array(FUNCTION_WORDS, pa.large_string())), bool)


def _rows(column: pa.LargeStringArray, words: pa.LargeStringArray) -> np.ndarray:
    """(W,) int32 rows of words in an ascending column, -1 for one that it lacks."""
    return text_rows(*bytes_of(column), *bytes_of(words)).astype(np.int32)


def _bare(words: pa.LargeStringArray) -> pa.LargeStringArray:
    """Words without the -s of a plural."""
    long = pc.and_(pc.greater(pc.utf8_length(words), 3), pc.ends_with(words, "s"))
    plural = pc.and_(long, pc.invert(pc.ends_with(words, "ss")))
    return pc.if_else(plural, pc.utf8_slice_codeunits(words, 0, -1), words)


def _keys(names: Lists, stem: np.ndarray) -> tuple[Lists, Lists]:
    """The sets of stems of names with two words or more, and the names of each, at most `MOST_ALIKE`."""
    indptr, word = names
    owner, value = owners(indptr), stem[word] if len(word) else word
    kept = value >= 0
    order = np.lexsort((value[kept], owner[kept]))
    counts = np.bincount(owner[kept], minlength=len(indptr) - 1)
    rows = np.flatnonzero(counts >= 2)
    lists = taken((offsets(counts), value[kept][order].astype(np.int32)), rows)
    group, first = _distinct(lists)
    turn = sorted_names(*taken(lists, first))
    place = np.empty(len(turn), np.int64)
    place[turn] = np.arange(len(turn))
    key = place[group]
    held = np.bincount(key, minlength=len(turn))
    alike = rows[np.argsort(key, kind="stable")][ramp(held) < MOST_ALIKE]
    return taken(lists, first[turn]), (offsets(np.minimum(held, MOST_ALIKE)), alike.astype(np.int32))
