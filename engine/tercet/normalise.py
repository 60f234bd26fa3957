"""Text folding with exactly the results of Python's own string methods, a column at a time."""

import string
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

PUNCTUATION = string.punctuation


@cache
def _lower_exceptions() -> str:
    """A pattern of the characters that Arrow lowers otherwise than Python does (context or length changes)."""
    every = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000]
    lowered = pc.utf8_lower(pa.array(every)).to_pylist()
    odd = [c for c, low in zip(every, lowered, strict=True) if c.lower() != low]
    odd.append("\u03a3")  # a final sigma depends on its neighbours
    return "[" + "".join(f"\\x{{{ord(c):X}}}" for c in odd) + "]"


def lower(column: pa.LargeStringArray) -> pa.LargeStringArray:
    """`str.lower` of every row; nulls stay null."""
    out = pc.utf8_lower(column)
    odd = pc.fill_null(pc.match_substring_regex(column, _lower_exceptions()), False)
    if pc.any(odd).as_py():
        fixed = [text.lower() for text in column.filter(odd).to_pylist()]
        out = pc.replace_with_mask(out, odd, pa.array(fixed, pa.large_string()))
    return out


def relation_keys(edge_text: pa.LargeStringArray, relation: pa.LargeStringArray, *, strip: bool) -> pa.LargeStringArray:
    """The text that edges share a distance by: the edge's own text, else its relation, folded.

    Folding is lower case, spaces to `_`, apostrophes dropped; with `strip`, white space around the text goes first and
    a blank text counts as none.

    Returns:
        large_string, null where an edge has no text at all (it is never matched).
    """
    if strip:
        edge_text, relation = pc.utf8_trim_whitespace(edge_text), pc.utf8_trim_whitespace(relation)
    key = pc.if_else(pc.fill_null(pc.not_equal(edge_text, ""), False), edge_text, relation)
    key = pc.if_else(pc.fill_null(pc.not_equal(key, ""), False), key, pa.scalar(None, pa.large_string()))
    return fold(key)


def fold(key: pa.LargeStringArray) -> pa.LargeStringArray:
    """Lower case, spaces to `_`, apostrophes dropped."""
    folded = pc.replace_substring(pc.replace_substring(lower(key), " ", "_"), "'", "")
    return folded


def encode(column: pa.LargeStringArray) -> tuple[np.ndarray, pa.LargeStringArray]:
    """Codes (int32, -1 for null) into the sorted distinct values of a column."""
    encoded = pc.dictionary_encode(column)
    order = np.asarray(pc.sort_indices(encoded.dictionary)).astype(np.int64)
    rank = np.empty(len(order), np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    codes = np.asarray(pc.fill_null(encoded.indices, -1))
    ranked = np.where(codes < 0, -1, rank[codes] if len(rank) else -1).astype(np.int32)
    return ranked, encoded.dictionary.take(pa.array(order))
