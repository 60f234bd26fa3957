"""The names that texts mention: the longest runs of words that are a name."""

import numpy as np

from tercet_kernels._threads import threads
from tercet_kernels.name_spans import cpu

__all__ = ["MOST_WORDS", "key_spans", "name_spans", "sorted_names"]

MOST_WORDS = 8  # of a run that is compared as a set of words


def sorted_names(indptr: np.ndarray, word: np.ndarray) -> np.ndarray:
    """The order of word lists that `name_spans` and `key_spans` search in: by their words, a prefix first.

    Args:
        indptr: (G + 1,) int64 offsets of each name's words.
        word: (W,) int32.

    Returns:
        (G,) int64 rows of the names, stable for equal lists.
    """
    _check(indptr, word, "names")
    if len(indptr) < 2:
        return np.zeros(0, np.int64)
    counts = np.diff(indptr)
    order = np.arange(len(counts))
    for depth in range(int(counts.max()) - 1, -1, -1):  # least significant word first
        at = np.where(counts > depth, indptr[:-1] + depth, 0)
        key = np.where(counts > depth, word[at], -1) if len(word) else np.full(len(counts), -1, np.int32)
        order = order[np.argsort(key[order], kind="stable")]
    return order


def name_spans(
    names: tuple[np.ndarray, np.ndarray],
    indptr: np.ndarray,
    word: np.ndarray,
    lone: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """The names in each text that aren't part of a longer one there.

    Args:
        names: (indptr (G + 1,) int64, word (W,) int32): distinct lists of words, in the order of `sorted_names`.
        indptr: (B + 1,) int64 offsets of each text's words.
        word: (M,) int32 words of the texts, -1 for one that no name has.
        lone: (M,) bool words that are no name by themselves.

    Returns:
        (end (M,) int64, name (M,) int64): the name that starts at each word and the place after its last word;
        end 0 and name -1 where none does.

    Raises:
        ValueError: a shape or dtype differs from the above.
    """
    _check(*names, "names")
    _check(indptr, word, "texts")
    if lone.dtype != np.bool_ or lone.shape != word.shape:
        raise ValueError(f"lone: expected {word.shape} bool, got {lone.shape} {lone.dtype}")
    end, name = np.zeros(len(word), np.int64), np.full(len(word), -1, np.int64)
    cpu.name_spans(*names, indptr, word, lone, end, name, threads(len(indptr) - 1, 200.0 * len(word)))
    return end, name


def key_spans(
    keys: tuple[np.ndarray, np.ndarray],
    indptr: np.ndarray,
    stem: np.ndarray,
    blank: np.ndarray,
    marked: np.ndarray,
    covered: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Runs of words that hold the words of a name in any order, with blank words between them.

    A run has 2 to `MOST_WORDS` words, at least two of which aren't blank, begins and ends with one that isn't, holds a
    marked word, and isn't part of what is covered. Of the runs that start at a word the longest counts, and none that
    is part of another.

    Args:
        keys: (indptr (K + 1,) int64, stem (W,) int32): distinct ascending lists, in the order of `sorted_names`.
        indptr: (B + 1,) int64 offsets of each text's words.
        stem: (M,) int32, -1 for one that no key has.
        blank: (M,) bool words that don't count.
        marked: (M,) bool words of which a run needs one.
        covered: (M,) int64 the end of a run that starts at the word, 0 for none: what `name_spans` gives.

    Returns:
        (end (M,) int64, key (M,) int64), as for `name_spans`.

    Raises:
        ValueError: a shape or dtype differs from the above.
    """
    _check(*keys, "keys")
    _check(indptr, stem, "texts")
    for what, given, dtype in (
        ("blank", blank, np.bool_),
        ("marked", marked, np.bool_),
        ("covered", covered, np.int64),
    ):
        if given.dtype != dtype or given.shape != stem.shape:
            raise ValueError(f"{what}: expected {stem.shape} {np.dtype(dtype)}, got {given.shape} {given.dtype}")
    end, key = np.zeros(len(stem), np.int64), np.full(len(stem), -1, np.int64)
    cpu.key_spans(
        *keys, indptr, stem, blank, marked, covered, MOST_WORDS, end, key, threads(len(indptr) - 1, 800.0 * len(stem))
    )
    return end, key


def _check(indptr: np.ndarray, word: np.ndarray, what: str) -> None:
    if indptr.dtype != np.int64 or indptr.ndim != 1 or len(indptr) < 1:
        raise ValueError(f"{what} indptr: expected one dimension of int64, got {indptr.shape} {indptr.dtype}")
    if word.dtype != np.int32 or word.shape != (int(indptr[-1]),):
        raise ValueError(f"{what} words: expected ({int(indptr[-1])},) int32, got {word.shape} {word.dtype}")
