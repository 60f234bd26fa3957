"""Triton form of the effective distance, for kernels launched without fused multiply-add."""

import triton
import triton.language as tl


@triton.jit
def blend(distance, feedback, influence):
    # halving rounds as dividing by 2 does, and needs no division
    return 2.0 * ((1.0 - influence) * (distance * 0.5) + influence * (1.0 - feedback))


@triton.jit
def effective(distance, matched, importance, feedback, influence, penalty, CLIFF: tl.constexpr, BLEND: tl.constexpr):
    """The term of edges (no personal weight), all in float64; BLEND: influence is above 0."""
    filled = tl.where(matched, distance, penalty)
    factor = 2.0 - importance
    if CLIFF:
        result = factor * filled
        if BLEND:
            closed = (result >= penalty) | (result < 0.0) | (result > 2.0)
            result = tl.where(closed, result, blend(result, feedback, influence))
    else:
        if BLEND:
            filled = tl.where(matched, blend(filled, feedback, influence), filled)
        result = factor * filled
    return result
