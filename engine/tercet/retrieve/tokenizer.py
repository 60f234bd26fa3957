"""Tokens: the words of texts, folded so that spelling variants meet, a whole column at a time.

Folding decomposes (NFKD), folds case, decomposes again, drops the marks that people leave out when they type, and
composes what is left (NFC). So `Café` and `cafe`, `straße` and `STRASSE`, `１２３` and `123` are the same words.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tercet.errors import InvalidArgument

# What a character does to a word.
_BREAK, _WORD, _CJK, _MARK, _DROPPED = range(5)

_ASSIGNED = 0x32400  # letters and marks all lie below
_SUPPLEMENT = slice(0xE0000, 0xE1000)  # tags and variation selectors
_CJK_RANGES = (
    (0x1100, 0x11FF), (0x3130, 0x318F), (0xA960, 0xA97F), (0xAC00, 0xD7FF),  # Hangul
    (0x2E80, 0x2FDF), (0x3005, 0x3007), (0x3021, 0x3029), (0x3038, 0x303B), (0x3400, 0x4DBF), (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF), (0x20000, _ASSIGNED - 1),  # Han
    (0x3041, 0x3096), (0x309D, 0x30FF), (0x31F0, 0x31FF), (0x1B000, 0x1B16F),  # kana
)  # fmt: skip
_ZERO_WIDTH_SPACE = 0x200B  # a format character that does part words
# Canonical combining classes: overlays, the points of Hebrew, Arabic and Syriac, and diacritics above or below. The
# marks of other scripts are vowels, and those of kana are letters of their own.
_LEFT_OUT = {1, *range(10, 37), *range(200, 241)}
_STROKES = (("æ", "ae"), ("œ", "oe"), ("ø", "o"), ("ł", "l"), ("đ", "d"), ("ħ", "h"), ("ŧ", "t"), ("ı", "i"))

_SLICE_CHARACTERS = 1 << 22  # bounds the memory used at a time: about 40 bytes a character


@dataclass(frozen=True, eq=False)
class Tokens:
    """The tokens of T texts: those of text t are words[word[indptr[t]:indptr[t + 1]]], in the order of the text."""

    indptr: np.ndarray  # (T + 1,) int64
    word: np.ndarray  # (M,) int32 rows of words
    words: pa.LargeStringArray  # (W,) distinct, by first occurrence


def tokenize(texts: pa.Array | pa.ChunkedArray | list[str], stopwords: Iterable[str] = ()) -> Tokens:
    """Split texts into folded words.

    A word is a run of letters, digits and their marks; `_` and `-` part words, so `data_base` is found by `data` and
    by `data_base`. A run of Han, Hiragana, Katakana or Hangul becomes its overlapping pairs of characters, a lone
    character itself. Any text is legal and may have no token.

    Args:
        texts: (T,) strings; a null has no tokens.
        stopwords: words to leave out, folded like the texts.

    Raises:
        InvalidArgument: `texts` is one string, or holds something that isn't a string.
    """
    rows = _strings(texts)
    parts = [_slice_tokens(part) for part in _slices(rows)]
    counts = np.concatenate([np.zeros(1, np.int64), *(count for count, _ in parts)])
    column = pa.chunked_array([token for _, token in parts], pa.large_string()).combine_chunks()
    encoded = column.dictionary_encode() if len(parts) == 1 else pc.dictionary_encode(column)
    encoded = encoded.combine_chunks() if isinstance(encoded, pa.ChunkedArray) else encoded
    tokens = Tokens(np.cumsum(counts), np.asarray(encoded.indices, np.int32), encoded.dictionary)
    stop = list(stopwords)
    return _without(tokens, tokenize(stop).words) if stop else tokens


def bytes_of(texts: pa.LargeStringArray) -> tuple[np.ndarray, np.ndarray]:
    """Offsets (T + 1,) int64 and the bytes that they point into."""
    _, offsets, data = texts.buffers()
    first, last = texts.offset, texts.offset + len(texts) + 1
    bounds = np.frombuffer(offsets, np.int64)[first:last] if len(texts) else np.zeros(1, np.int64)
    held = np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(0, np.uint8)
    for array in (bounds, held):
        array.setflags(write=False)  # Numba compiles once more for arrays that could be written
    return bounds, held


def _strings(texts: pa.Array | pa.ChunkedArray | list[str]) -> list[str]:
    if isinstance(texts, (str, bytes)):
        raise InvalidArgument(f"texts: expected a list of strings, got one {type(texts).__name__}")
    rows = texts.to_pylist() if isinstance(texts, (pa.Array, pa.ChunkedArray)) else list(texts)
    for i, text in enumerate(rows):
        if text is None:
            rows[i] = ""
        elif not isinstance(text, str):
            raise InvalidArgument(f"texts row {i}: expected a string, got {text!r} ({type(text).__name__})")
    return rows


def _slices(rows: list[str]) -> Iterator[list[str]]:
    ends = np.cumsum(np.fromiter(map(len, rows), np.int64, len(rows)))
    cuts = np.searchsorted(ends, np.arange(1, (ends[-1] if len(rows) else 0) // _SLICE_CHARACTERS + 1)
                           * _SLICE_CHARACTERS)  # fmt: skip
    for low, high in zip([0, *cuts], [*cuts, len(rows)], strict=True):
        yield rows[low:high]


def _slice_tokens(rows: list[str]) -> tuple[np.ndarray, pa.LargeStringArray]:
    """Tokens a text, and the tokens of all."""
    character = _folded("".join(text.replace("\n", " ") + "\n" for text in rows))
    kind = _settled(_kinds()[character])
    # A word starts at its first letter; of a run of n CJK characters the first n - 1 start a pair, and a lone one
    # starts itself.
    padded = np.concatenate([np.zeros(1, np.uint8), kind, np.zeros(1, np.uint8)])
    before, after = padded[:-2], padded[2:]
    is_word, is_cjk = kind == _WORD, kind == _CJK
    first = is_word & (before != _WORD)
    start = np.flatnonzero(first | (is_cjk & ((after == _CJK) | (before != _CJK))))
    length = 1 + (is_cjk & (after == _CJK))[start].astype(np.int64)
    length[first[start]] = np.flatnonzero(is_word & (after != _WORD)) + 1 - np.flatnonzero(first)
    row = np.searchsorted(start, np.flatnonzero(character == ord("\n")))
    return np.diff(row, prepend=0), _texts(character, start, length)


def _settled(kind: np.ndarray) -> np.ndarray:
    """Marks belong to the word before them, and are breaks elsewhere."""
    mark = np.flatnonzero(kind == _MARK)
    if len(mark):
        base = np.arange(len(kind))
        base[mark] = 0
        base = np.maximum.accumulate(base)[mark]  # character 0 may be a mark itself: then it stays one
        kind[mark] = np.where(kind[base] == _WORD, _WORD, _BREAK)
    return kind


def _texts(character: np.ndarray, start: np.ndarray, length: np.ndarray) -> pa.LargeStringArray:
    """Strings of the given stretches of characters."""
    ends = np.cumsum(length)
    place = np.arange(ends[-1] if len(ends) else 0) + np.repeat(start - ends + length, length)
    points = character[place].astype("<u4")
    data = points.tobytes().decode("utf-32-le").encode()
    offsets = np.concatenate([np.zeros(1, np.int64), ends])
    if len(data) > len(points):
        width = 1 + (points >= 0x80).astype(np.int64) + (points >= 0x800) + (points >= 0x10000)
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(width)])[offsets]
    return pa.LargeStringArray.from_buffers(len(start), pa.py_buffer(offsets), pa.py_buffer(data))


def _folded(text: str) -> np.ndarray:
    """The characters of a folded text as code points."""
    if text.isascii():
        return np.frombuffer(text.lower().encode(), np.uint8)
    text = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold())
    for stroked, plain in _STROKES:
        text = text.replace(stroked, plain)
    kept = _points(text)
    kept = kept[_kinds()[kept] != _DROPPED]
    return _points(unicodedata.normalize("NFC", kept.tobytes().decode("utf-32-le", "surrogatepass")))


def _points(text: str) -> np.ndarray:
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4")


@cache
def _kinds() -> np.ndarray:
    """(0x110000,) uint8: what each character does to a word."""
    kind = np.full(0x110000, _BREAK, np.uint8)
    for run in re.finditer(r"[^\W_]+", "".join(map(chr, range(_ASSIGNED)))):
        kind[run.start() : run.end()] = _WORD
    for low, high in _CJK_RANGES:
        kind[low : high + 1][kind[low : high + 1] == _WORD] = _CJK
    for point in range(0x80, _ASSIGNED):
        category = unicodedata.category(chr(point))
        if category in ("Mn", "Mc"):
            left_out = unicodedata.combining(chr(point)) in _LEFT_OUT or 0xFE00 <= point <= 0xFE0F
            kind[point] = _DROPPED if left_out else _MARK
        elif category in ("Cf", "Me"):
            kind[point] = _DROPPED
    kind[_SUPPLEMENT] = _DROPPED
    kind[_ZERO_WIDTH_SPACE] = _BREAK
    return kind


def _without(tokens: Tokens, stop: pa.LargeStringArray) -> Tokens:
    """The same tokens without some words."""
    kept = ~np.asarray(pc.is_in(tokens.words, value_set=stop), bool)
    if kept.all():
        return tokens
    stays = kept[tokens.word]
    before = np.concatenate([np.zeros(1, np.int64), np.cumsum(stays)])
    row = np.cumsum(kept, dtype=np.int32) - np.int32(1)
    return Tokens(before[tokens.indptr], row[tokens.word[stays]], tokens.words.filter(pa.array(kept)))
