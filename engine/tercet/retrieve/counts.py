"""How often each document holds each token: counted, merged with those of other documents, weighed by BM25."""

import math
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tercet.carried import Carried
from tercet.retrieve.tokenizer import Tokens
from tercet.sorted_text import merge_names


class Counts(NamedTuple):
    """The documents of each token, a slice a token, ascending by document within it."""

    indptr: np.ndarray  # (V + 1,) int64
    document: np.ndarray  # (P,) int32
    frequency: np.ndarray  # (P,) int32
    length: np.ndarray  # (N,) int32 tokens of each document
    words: pa.LargeStringArray  # (V,) ascending by their bytes; each is in some document


def counted(tokens: Tokens) -> Counts:
    """The counts of tokenised texts."""
    order = pc.sort_indices(tokens.words)
    row = np.empty(len(order), np.int64)
    row[np.asarray(order)] = np.arange(len(order))
    length = np.diff(tokens.indptr).astype(np.int32)
    size = max(len(length), 1)
    key = np.sort(row[tokens.word] * size + np.repeat(np.arange(len(length)), length))
    first = np.flatnonzero(np.concatenate([[True], key[1:] != key[:-1]])) if len(key) else np.zeros(0, np.int64)
    token, document = np.divmod(key[first], size)
    frequency = np.diff(first, append=len(key)).astype(np.int32)
    return Counts(_offsets(token, len(order)), document.astype(np.int32), frequency, length, tokens.words.take(order))


def merged(held: Counts, carried: Carried, fresh: Counts) -> Counts:
    """The counts of changed documents.

    Args:
        carried: which of the held documents each one is; those that are none are the fresh ones, in order.
    """
    if carried.row is None:
        return held
    size = len(carried.row)
    stays = carried.row >= 0
    place = np.full(len(held.length), -1, np.int32)
    place[carried.row[stays]] = np.flatnonzero(stays)
    token = np.repeat(np.arange(len(held.words), dtype=np.int32), np.diff(held.indptr))
    document = place[held.document] if len(place) else held.document
    kept = document >= 0
    frequency = held.frequency
    if not kept.all():
        token, document, frequency = token[kept], document[kept], frequency[kept]
    new_token = np.repeat(np.arange(len(fresh.words), dtype=np.int32), np.diff(fresh.indptr))
    names = merge_names(held.words, fresh.words, token, new_token)
    key = _numbered(names.old, token) * size + document
    new_document = carried.changed[fresh.document]
    new_key = _numbered(names.new, new_token) * size + new_document
    # both ascend: documents keep their order, and so do tokens
    at = np.searchsorted(key, new_key) + np.arange(len(new_key))
    old = np.ones(len(key) + len(new_key), bool)
    old[at] = False
    columns = []
    for a, b in ((names.old[token] if len(token) else token, names.new[new_token] if len(new_token) else new_token),
                 (document, new_document), (frequency, fresh.frequency)):  # fmt: skip
        column = np.empty(len(old), np.int32)
        column[old], column[at] = a, b
        columns.append(column)
    length = np.empty(size, np.int32)
    length[stays], length[~stays] = held.length[carried.row[stays]], fresh.length
    return Counts(_offsets(columns[0], len(names.names)), columns[1], columns[2], length, names.names)


def weighed(counts: Counts, k1: float, b: float, method: str) -> np.ndarray:
    """(P,) float32 what a token weighs in a document: float64 throughout but for the rounded idf.

    The variants are those of Kamphuis et al., "Which BM25 Do You Mean?" (2020); see `LexicalIndex.build`.
    """
    number = len(counts.length)
    if not len(counts.document):
        return np.zeros(0, np.float32)
    held, which = np.unique(np.diff(counts.indptr), return_inverse=True)
    idf = np.array([_idf(int(n), number, method) for n in held], np.float32)[which]
    mean = counts.length.sum(dtype=np.int64) / number
    damping = k1 * ((1 - b) + b * counts.length / mean)
    f, per_document = counts.frequency.astype(np.float64), damping[counts.document]
    if method == "atire":
        part = f * (k1 + 1) / (f + per_document)
    else:
        part = f / (per_document + f)
    return (np.repeat(idf, np.diff(counts.indptr)) * part).astype(np.float32)


def _idf(held: int, documents: int, method: str) -> float:
    if held == 0:
        return 0.0
    if method == "atire":
        return math.log(documents / held)
    odds = (documents - held + 0.5) / (held + 0.5)
    return math.log(1 + odds) if method == "lucene" else math.log(max(odds, 1.0))


def _numbered(row: np.ndarray, code: np.ndarray) -> np.ndarray:
    return row[code].astype(np.int64) if len(code) else np.zeros(0, np.int64)


def _offsets(token: np.ndarray, size: int) -> np.ndarray:
    out = np.zeros(size + 1, np.int64)
    np.cumsum(np.bincount(token, minlength=size), out=out[1:])
    return out
