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
def lower_bound(offsets, data, wanted_offsets, wanted, order, place, found):
    size = offsets.size - 1
    for p in range(place.size):
        begin, end = wanted_offsets[p], wanted_offsets[p + 1]
        low, high = 0, size
        while low < high:
            middle = (low + high) // 2
            row = order[middle] if order.size else middle
            if compare(data, offsets[row], offsets[row + 1], wanted, begin, end) < 0:
                low = middle + 1
            else:
                high = middle
        place[p] = low
        if low < size:
            row = order[low] if order.size else low
            found[p] = compare(data, offsets[row], offsets[row + 1], wanted, begin, end) == 0
