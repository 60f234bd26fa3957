"""What pairs of passages have in common: the names that one has and the other is called by."""

import numpy as np

from tercet_kernels._threads import threads
from tercet_kernels.passage_links import cpu

__all__ = ["passage_links"]


def passage_links(
    held: tuple[np.ndarray, np.ndarray],
    called: tuple[np.ndarray, np.ndarray],
    weight: np.ndarray,
    first: np.ndarray,
    second: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """How each second passage hangs together with the first.

    Args:
        held: (indptr (P + 1,) int64, name (H,) int32): names in each passage, ascending and distinct within it.
        called: (indptr (P + 1,) int64, name (T,) int32): names that each passage is about, likewise.
        weight: (M,) float64 of each name, above 0.
        first, second: (X,) int64 passages.

    Returns:
        named (X,) bool: the first passage holds a name that the second is called by; back (X,) bool: the other way
        round; shared (X,) float64: the weight of the names that both hold over that of the first's, 0 without any.

    Raises:
        ValueError: a shape or dtype differs from the above.
    """
    for what, (indptr, name) in (("held", held), ("called", called)):
        if indptr.dtype != np.int64 or name.dtype != np.int32 or name.shape != (int(indptr[-1]),):
            raise ValueError(
                f"{what}: expected int64 offsets of int32 names, got {indptr.dtype} {name.shape} {name.dtype}"
            )
    if held[0].shape != called[0].shape:
        raise ValueError(f"called: expected {len(held[0]) - 1} passages, got {len(called[0]) - 1}")
    if weight.dtype != np.float64:
        raise ValueError(f"weight: expected float64, got {weight.dtype}")
    if first.dtype != np.int64 or second.dtype != np.int64 or first.shape != second.shape:
        raise ValueError(f"second: expected {first.shape} int64, got {second.shape} {second.dtype}")
    size = len(held[0]) - 1
    for what, passage in (("first", first), ("second", second)):
        if len(passage) and not 0 <= passage.min() <= passage.max() < size:
            raise ValueError(f"{what}: expected passages from 0 to {size - 1}, got {passage.min()} to {passage.max()}")
    named, back = np.zeros(len(first), np.bool_), np.zeros(len(first), np.bool_)
    shared = np.zeros(len(first), np.float64)
    cpu.passage_links(
        *held, *called, weight, first, second, named, back, shared, threads(max(1, len(first)), 150.0 * len(first))
    )
    return named, back, shared
