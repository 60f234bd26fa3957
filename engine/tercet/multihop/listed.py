"""Signals that few passages have, as sorted lists, and which of a signal's passages are proposed."""

from typing import NamedTuple

import numpy as np
import torch

from tercet.multihop.lists import hit


class Listed(NamedTuple):
    """Values above 0 of some passages for a tile's queries; all others have 0."""

    key: np.ndarray  # (X,) int64 query * P + passage, ascending and distinct
    value: np.ndarray  # (X,) float64

    def at(self, key: np.ndarray) -> np.ndarray:
        """(T,) float64 values of given passages."""
        place, there = hit(self.key, key)
        out = np.zeros(len(key))
        out[there] = self.value[place[there]]
        return out

    def inside(self, allowed: torch.Tensor | None) -> "Listed":
        """The passages of a mask, (b, P) bool; None: all."""
        if allowed is None:
            return self
        kept = allowed.view(-1)[torch.from_numpy(self.key)].numpy()
        return Listed(self.key[kept], self.value[kept])


def summed(key: np.ndarray, value: np.ndarray) -> Listed:
    """The sum of the values of each key, added in their order."""
    distinct, place = np.unique(key, return_inverse=True)
    return Listed(distinct, np.bincount(place, value, minlength=len(distinct)).astype(np.float64))


def largest(key: np.ndarray, value: np.ndarray) -> Listed:
    """The largest value of each key, where it is above 0."""
    key, value = key[value > 0], value[value > 0]
    order = np.argsort(key, kind="stable")
    key, value = key[order], value[order]
    begin = np.flatnonzero(np.diff(key, prepend=-1))
    return Listed(key[begin], np.maximum.reduceat(value, begin) if len(begin) else value)


def best_listed(signal: Listed, most: np.ndarray, passages: int) -> np.ndarray:
    """Keys of the passages that a signal proposes for each query: those above its (most + 1)-th value.

    Args:
        most: (b,) int64; where the last ones tie none of them is taken.
    """
    query = signal.key // max(passages, 1)
    order = np.lexsort((-signal.value, query))
    rank = np.arange(len(query)) - np.searchsorted(query, np.arange(len(most)))[query]  # both ascend by query
    after = order[rank == most[query]]
    cut = np.zeros(len(most))
    cut[query[after]] = signal.value[after]
    return signal.key[signal.value > cut[query]]


def best_of_board(board: torch.Tensor, most: np.ndarray) -> np.ndarray:
    """As `best_listed`, of values at least 0 of all passages, (b, P) float64."""
    queries, passages = board.shape
    if not queries or not passages:
        return np.zeros(0, np.int64)
    value, passage = board.topk(min(int(most.max()) + 1, passages), dim=1)
    place = torch.from_numpy(np.minimum(most, value.shape[1] - 1))
    cut = torch.where(torch.from_numpy(most) < value.shape[1], value.gather(1, place[:, None])[:, 0], 0.0)
    query, rank = torch.nonzero(value > cut[:, None], as_tuple=True)
    return (query * passages + passage[query, rank]).numpy()
