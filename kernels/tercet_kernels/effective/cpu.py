"""Scalar form of the effective distance for Numba kernels (edges have no personal weight)."""

from numba import njit


@njit(nogil=True, cache=True, inline="always")
def effective(distance, matched, importance, feedback, influence, penalty, cliff):
    filled = distance if matched else penalty
    factor = 2.0 - importance
    if cliff:
        x = factor * filled
        if influence > 0.0 and not (x >= penalty or x < 0.0 or x > 2.0):
            x = 2.0 * ((1.0 - influence) * (x / 2.0) + influence * (1.0 - feedback))
        return x
    if influence > 0.0 and matched:
        filled = 2.0 * ((1.0 - influence) * (filled / 2.0) + influence * (1.0 - feedback))
    return factor * filled
