"""Counts of tokens: an estimate that needs no tokenizer, or a counter of the caller's."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tercet.errors import InvalidArgument
from tercet.titles import row_slices

Counter: TypeAlias = Callable[[list[str]], Sequence[int]]
Counts: TypeAlias = npt.NDArray[np.int64]

# Letters and digits in one piece, but each Han, kana or Hangul character alone; [^\P{L}...] is \p{L} without those.
_CJK = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}"
_SPACE = r"\s\p{Z}\x0b\x1c-\x1f\x{85}"
_TOKEN = rf"[{_CJK}]|(?:[^\P{{L}}{_CJK}]|[^\P{{N}}{_CJK}])+|[^{_SPACE}]"

# The same for ASCII: 0 white space, 2 a letter or digit, 1 any other.
_WORD = 2
_BYTE_KIND = np.array(
    [0 if chr(byte).isspace() else _WORD if chr(byte).isalnum() else 1 for byte in range(256)], np.uint8
)


def count_tokens(strings: pa.Array | pa.ChunkedArray) -> Counts:
    """Tokens of each string, as an estimate that needs no tokenizer; a null has none.

    A token is a run of letters and digits, or a single Han, Hiragana, Katakana or Hangul character, or any other
    character that isn't white space.
    """
    column = strings.cast(pa.large_string())
    column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    counts = [_part_tokens(pc.fill_null(part, "")) for part in row_slices(column)]
    return np.concatenate(counts) if counts else np.zeros(0, dtype=np.int64)


def _part_tokens(strings: pa.Array) -> Counts:
    # Arrow's matcher takes 0.2 us a token, bytes in numpy a tenth of that, but only ASCII has a byte a character.
    counts = _ascii_tokens(strings)
    wide = pc.invert(pc.string_is_ascii(strings))
    if pc.any(wide).as_py():
        counts[wide.to_numpy(zero_copy_only=False)] = pc.count_substring_regex(strings.filter(wide), _TOKEN)
    return counts


def _ascii_tokens(strings: pa.Array) -> Counts:
    counts = np.zeros(len(strings), dtype=np.int64)
    _, offsets, data = strings.buffers()
    ends = np.frombuffer(offsets, dtype=np.int64)[strings.offset :][: len(strings) + 1]
    filled = np.flatnonzero(ends[1:] > ends[:-1])
    if len(filled):
        kind = _BYTE_KIND[np.frombuffer(data, dtype=np.uint8)[ends[0] : ends[-1]]]
        opens = kind > 0
        opens[1:] &= (kind[1:] & kind[:-1]) != _WORD
        begin = ends[filled] - ends[0]
        opens[begin] = kind[begin] > 0
        counts[filled] = np.add.reduceat(opens, begin, dtype=np.int64)
    return counts


def count(strings: pa.Array, counter: Counter | None) -> Counts:
    if counter is None:
        return count_tokens(strings)
    counts = np.asarray(counter(strings.to_pylist()))
    if counts.shape != (len(strings),) or (len(strings) and counts.dtype.kind not in "iu"):
        raise InvalidArgument(f"counter: expected {len(strings)} integers, got {counts.dtype} of shape {counts.shape}")
    return counts.astype(np.int64)
