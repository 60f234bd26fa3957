"""Titles for nodes that carry a text: the first words, then the words that occur most.

The rule is that of `reference_title`. `text_titles` applies it to a whole column: words are split once, cleaned once
per distinct word, and counted by sorting packed integers.
"""

import string
from collections import Counter
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

NUM_HEAD_WORDS = 7
NUM_KEYWORDS = 3

_WORDS_OF_NO_SUBJECT = """
a an the and or but is are was were in on at to for with by about of from as that this these those it its them they
their he she his her him we our you your not be been being have has had do does did can could will would shall should
may might must when where which who whom whose why how
"""
STOP_WORDS = frozenset(_WORDS_OF_NO_SUBJECT.split())

# A slice bounds the memory used at a time. Its row, word and position numbers must also fit into 63 bits together: at
# most 16 bits of rows and, as a word takes two bytes with its space, 23 bits each of words and positions.
_SLICE_ROWS = 50_000
_SLICE_BYTES = 1 << 23

_NOT_KEYWORDS = pa.array(["", *sorted(STOP_WORDS)], pa.large_string())


def reference_title(text: str) -> str:
    """The title of one text, in plain Python.

    The first 7 whitespace-separated words joined by one space, `... [`, up to 3 keywords joined by `, `, `]`. Keywords
    are the words in lower case without ASCII punctuation at their ends that are neither empty nor stop words, most
    frequent first, ties by first occurrence.
    """
    words = text.split()
    keywords = (word.lower().strip(string.punctuation) for word in words)
    counts = Counter(word for word in keywords if word and word not in STOP_WORDS)
    shown = ", ".join(word for word, _ in counts.most_common(NUM_KEYWORDS))
    return f"{' '.join(words[:NUM_HEAD_WORDS])}... [{shown}]"


def text_titles(text: pa.Array | pa.ChunkedArray) -> pa.Array:
    """The titles of a column of texts: `reference_title` of every row, null where the text is null.

    Args:
        text: (N,) strings of any Arrow string type.

    Returns:
        (N,) large_string.

    Memory: the result and about 20 times 8 MB of text (or the longest text, when that is more).
    """
    chunks = text.chunks if isinstance(text, pa.ChunkedArray) else [text]
    titles = [_slice_titles(part) for chunk in chunks for part in row_slices(chunk.cast(pa.large_string()))]
    return pa.concat_arrays(titles) if titles else pa.array([], pa.large_string())


def row_slices(text: pa.Array) -> Iterator[pa.Array]:
    """The array in parts of bounded rows and bytes, never less than one row."""
    size = pc.fill_null(pc.binary_length(text), 0).to_numpy(zero_copy_only=False)
    end = np.cumsum(size, dtype=np.int64)
    start = 0
    while start < len(text):
        before = end[start - 1] if start else 0
        stop = int(np.searchsorted(end, before + _SLICE_BYTES, side="right"))
        stop = max(start + 1, min(stop, start + _SLICE_ROWS))
        yield text.slice(start, stop - start)
        start = stop


def _slice_titles(text: pa.Array) -> pa.Array:
    # Arrow splits at the same characters as str.split, but gives empty words for space at the ends.
    words = pc.utf8_split_whitespace(pc.utf8_trim_whitespace(pc.fill_null(text, "")))
    offsets = words.offsets.to_numpy()
    head = join_columns(*(_nth_word(words.values, offsets, place) for place in range(NUM_HEAD_WORDS)), separator=" ")
    first, *more = _keywords(words.values, offsets)
    keywords = join_columns(pc.fill_null(first, ""), *more, separator=", ")
    title = join_columns(head, "... [", keywords, "]")
    return pc.if_else(text.is_valid(), title, _scalar(None))


def _nth_word(words: pa.Array, offsets: npt.NDArray[np.int32], place: int) -> pa.Array:
    row = offsets[:-1] + place
    return words.take(pa.array(row, mask=row >= offsets[1:]))


def _keywords(words: pa.Array, offsets: npt.NDArray[np.int32]) -> list[pa.Array]:
    """The first, second and third keyword of every row, as columns; null where a row has fewer."""
    num_rows = len(offsets) - 1
    distinct = words.dictionary_encode()
    cleaned = pc.ascii_trim(_lower(distinct.dictionary), characters=string.punctuation).dictionary_encode()
    keys = cleaned.dictionary
    key = cleaned.indices.to_numpy()[distinct.indices.to_numpy()].astype(np.int64)
    dropped = pc.is_in(keys, value_set=_NOT_KEYWORDS).to_numpy(zero_copy_only=False)

    place = np.flatnonzero(~dropped[key])
    row = np.repeat(np.arange(num_rows, dtype=np.int64), np.diff(offsets))[place]
    columns = _most_common(row, key, place, num_rows, len(keys))
    return [keys.take(pa.array(column, mask=column < 0)) for column in columns]


def _most_common(
    row: npt.NDArray[np.int64], key: npt.NDArray[np.int64], place: npt.NDArray[np.int64], num_rows: int, num_keys: int
) -> npt.NDArray[np.int64]:
    """The keys that occur most in each row, (3, num_rows), ties to the first place; -1 where a row has fewer.

    `row` belongs to `place`, the ascending positions in `key` that count.
    """
    columns = np.full((NUM_KEYWORDS, num_rows), -1, dtype=np.int64)
    if not len(place):
        return columns
    place_bits = len(key).bit_length()
    key_bits = num_keys.bit_length()
    last = (1 << place_bits) - 1

    packed = np.sort((row << (key_bits + place_bits)) | (key[place] << place_bits) | place)
    start = _run_starts(packed >> place_bits)
    count = np.diff(start, append=len(packed))
    first = packed[start] & last
    rank = (count << place_bits) | (last - first)  # larger is better, unique, never 0

    run_row = packed[start] >> (key_bits + place_bits)
    row_start = _run_starts(run_row)
    row_size = np.diff(row_start, append=len(run_row))
    for column in columns:
        best = np.maximum.reduceat(rank, row_start)
        column[run_row[row_start]] = np.where(best > 0, key[np.where(best > 0, last - (best & last), 0)], -1)
        rank[rank == np.repeat(best, row_size)] = 0
    return columns


def _run_starts(values: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Where each run of equal values begins."""
    return np.flatnonzero(np.concatenate([[True], values[1:] != values[:-1]]))


def _lower(words: pa.Array) -> pa.Array:
    """The words in lower case, as str.lower does it.

    Arrow's own tables differ from Python's (U+0130, final sigma, newer alphabets), so words with other than ASCII
    characters go through Python. These are distinct words, few next to the text.
    """
    plain = pc.string_is_ascii(words)
    lowered = pc.ascii_lower(words)
    if pc.all(plain).as_py() is not False:
        return lowered
    other = pc.invert(plain)
    return pc.replace_with_mask(
        lowered, other, pa.array([word.lower() for word in words.filter(other).to_pylist()], pa.large_string())
    )


def join_columns(*parts: pa.Array | str, separator: str = "") -> pa.Array:
    """The large_string columns and constants joined row by row, nulls left out.

    Some part of every row must not be null: Arrow drops a row that is null in all of them.
    """
    scalars = [_scalar(part) if isinstance(part, str) else part for part in (*parts, separator)]
    return pc.binary_join_element_wise(*scalars, null_handling="skip")


def _scalar(value: str | None) -> pa.Scalar:
    return pa.scalar(value, pa.large_string())
