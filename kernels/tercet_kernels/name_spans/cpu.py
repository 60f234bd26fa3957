"""Numba form: the range of names that begin with the words read so far shrinks word by word."""

import numpy as np
from numba import njit, prange


@njit(nogil=True, cache=True)
def bound(indptr, word, low, high, depth, wanted, after):
    """The first name in [low, high) whose word at `depth` is at least `wanted`, or above it with `after`."""
    while low < high:
        middle = (low + high) // 2
        at = indptr[middle] + depth
        here = word[at] if at < indptr[middle + 1] else np.int32(-1)
        if here < wanted or (after and here == wanted):
            low = middle + 1
        else:
            high = middle
    return low


@njit(nogil=True, cache=True)
def longest(indptr, word, text, start, stop, lone):
    """(end, name) of the longest name that the words from `start` on spell; (0, -1) for none."""
    low, high = np.int64(0), np.int64(indptr.size - 1)
    end, name = np.int64(0), np.int64(-1)
    for at in range(start, stop):
        if text[at] < 0:
            break
        depth = at - start
        low = bound(indptr, word, low, high, depth, text[at], False)
        high = bound(indptr, word, low, high, depth, text[at], True)
        if low >= high:
            break
        if indptr[low + 1] - indptr[low] == depth + 1 and not (depth == 0 and lone[start]):
            end, name = np.int64(at + 1), low
    return end, name


@njit(nogil=True, cache=True)
def drop_inner(start, stop, end, name):
    """Take out what lies within a run that starts before."""
    reach = np.int64(0)
    for at in range(start, stop):
        if name[at] < 0:
            continue
        if end[at] <= reach:
            end[at], name[at] = 0, -1
        else:
            reach = end[at]


@njit(nogil=True, cache=True, parallel=True)
def name_spans(n_indptr, n_word, indptr, word, lone, end, name, threads):
    texts = indptr.size - 1
    for t in prange(threads):
        for b in range(texts * np.int64(t) // threads, texts * (np.int64(t) + 1) // threads):
            for at in range(indptr[b], indptr[b + 1]):
                end[at], name[at] = longest(n_indptr, n_word, word, at, indptr[b + 1], lone)
            drop_inner(indptr[b], indptr[b + 1], end, name)


@njit(nogil=True, cache=True)
def find(indptr, word, wanted, count):
    """The row of a list of words, or -1."""
    low, high = np.int64(0), np.int64(indptr.size - 1)
    for depth in range(count):
        low = bound(indptr, word, low, high, depth, wanted[depth], False)
        high = bound(indptr, word, low, high, depth, wanted[depth], True)
        if low >= high:
            return np.int64(-1)
    return low if indptr[low + 1] - indptr[low] == count else np.int64(-1)


@njit(nogil=True, cache=True)
def longest_key(k_indptr, k_word, stem, blank, marked, start, stop, covered, first, most, held):
    """(end, key) of the longest run from `start` on; `first` is where the text begins."""
    end, key = np.int64(0), np.int64(-1)
    reach = np.int64(0)  # what is covered from `start` or before
    for at in range(first, start + 1):
        reach = max(reach, covered[at])
    count, seen = 0, False
    for at in range(start, min(stop, start + most)):
        seen = seen or marked[at]
        if blank[at]:
            continue
        if stem[at] < 0:
            break
        place = count
        while place > 0 and held[place - 1] > stem[at]:
            held[place] = held[place - 1]
            place -= 1
        held[place] = stem[at]
        count += 1
        if count < 2 or not seen or at < reach:
            continue
        row = find(k_indptr, k_word, held, count)
        if row >= 0:
            end, key = np.int64(at + 1), row
    return end, key


@njit(nogil=True, cache=True, parallel=True)
def key_spans(k_indptr, k_word, indptr, stem, blank, marked, covered, most, end, key, threads):
    texts = indptr.size - 1
    for t in prange(threads):
        held = np.empty(most, np.int32)
        for b in range(texts * np.int64(t) // threads, texts * (np.int64(t) + 1) // threads):
            for at in range(indptr[b], indptr[b + 1]):
                if not blank[at]:
                    end[at], key[at] = longest_key(
                        k_indptr, k_word, stem, blank, marked, at, indptr[b + 1], covered, indptr[b], most, held
                    )
            drop_inner(indptr[b], indptr[b + 1], end, key)
