"""Numba form of `lower_bound`."""

from numba import njit


@njit(nogil=True, cache=True)
def compare(data, low, high, other, other_low, other_high):
    """Below, at or above 0 as the first text is smaller than, equal to or larger than the other."""
    length, other_length = high - low, other_high - other_low
    for i in range(min(length, other_length)):
        a, b = data[low + i], other[other_low + i]
        if a != b:
            return -1 if a < b else 1
    return length - other_length


@njit(nogil=True, cache=True)
def lower_bound(offsets, data, wanted_offsets, wanted, place, found):
    for p in range(place.size):
        begin, end = wanted_offsets[p], wanted_offsets[p + 1]
        low, high = 0, offsets.size - 1
        while low < high:
            middle = (low + high) // 2
            if compare(data, offsets[middle], offsets[middle + 1], wanted, begin, end) < 0:
                low = middle + 1
            else:
                high = middle
        place[p] = low
        found[p] = low < offsets.size - 1 and compare(data, offsets[low], offsets[low + 1], wanted, begin, end) == 0
