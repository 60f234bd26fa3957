"""Plain Python form of `passage_links`: sets of names."""

import numpy as np


def passage_links(
    held: tuple[np.ndarray, np.ndarray], called: tuple[np.ndarray, np.ndarray], weight: np.ndarray, first: np.ndarray,
    second: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # fmt: skip
    """See `tercet_kernels.passage_links`."""

    def of(lists: tuple[np.ndarray, np.ndarray], passage: int) -> list[int]:
        indptr, name = lists
        return name[indptr[passage] : indptr[passage + 1]].tolist()

    named, back, shared = [], [], []
    for a, b in zip(first.tolist(), second.tolist(), strict=True):
        named.append(bool(set(of(held, a)) & set(of(called, b))))
        back.append(bool(set(of(called, a)) & set(of(held, b))))
        every = sum(weight[n] for n in of(held, a))
        both = sum(weight[n] for n in of(held, a) if n in set(of(held, b)))
        shared.append(both / every if every > 0 else 0.0)
    return np.array(named, bool), np.array(back, bool), np.array(shared, np.float64)
