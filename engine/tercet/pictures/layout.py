"""Where the nodes of a picture lie: the same place for the same graph, on every run.

Not networkx's spring layout: from 500 nodes on that needs SciPy, its places change between versions, and it throws the
parts of a disconnected graph far apart. Here each connected part is laid out by stress majorisation (Gansner, Koren
and North 2004: Euclidean distances as near as can be to hop distances), overlaps are pushed apart, and the parts are
packed.
"""

from collections.abc import Sequence

import numpy as np

HOP = 150.0  # wished length of an edge, in pixels
SPACE = np.array([104.0, 64.0])  # room of a node with its caption below, in pixels
GAP = 70.0  # between the parts, in pixels
ASPECT = 1.7  # of a screen less the panel
LARGEST = 1500  # nodes; beyond, all-pairs distances cost too much
ROUNDS = 60


def layout(count: int, source: Sequence[int], target: Sequence[int], hops: Sequence[int | None]) -> np.ndarray:
    """The place of each node, y growing downwards.

    Args:
        count: nodes.
        source, target: (E,) node numbers.
        hops: (count,) hops of each node, or None; read only beyond 1500 nodes.

    Returns:
        (count, 2) float64 pixels, centred on 0. Up to 1500 nodes by stress, beyond in rings by hops.
    """
    if count > LARGEST:
        return _rings(hops)
    ends = np.array([source, target], dtype=np.int64).reshape(2, -1)
    linked = np.zeros((count, count), dtype=bool)
    linked[ends[0], ends[1]] = linked[ends[1], ends[0]] = True
    np.fill_diagonal(linked, False)
    distance = _distances(linked)
    parts, seen = [], np.zeros(count, dtype=bool)
    for node in range(count):
        if not seen[node]:
            part = np.flatnonzero(distance[node] >= 0)
            seen[part] = True
            parts.append(part)
    return _pack([(part, _spread(_stress(distance[np.ix_(part, part)]))) for part in parts], count)


def _distances(linked: np.ndarray) -> np.ndarray:
    """(n, n) float32 hop distances by breadth-first steps from all nodes at once; -1 where there is no way."""
    step = linked.astype(np.float32)
    distance = np.where(linked, np.float32(1), np.float32(-1))
    np.fill_diagonal(distance, 0)
    front, hop = step, 1
    while front.any():
        hop += 1
        front = ((front @ step > 0) & (distance < 0)).astype(np.float32)
        distance[front > 0] = hop
    return distance


def _stress(distance: np.ndarray) -> np.ndarray:
    """(n, 2) places whose distances are near `distance` (n, n) hops, pairs weighted by 1 / hops²."""
    n = len(distance)
    if n < 3:
        return np.stack([np.arange(n) * HOP, np.zeros(n)], axis=1)
    degree = (distance == 1).sum(axis=1)
    # The neighbours of a hub need a longer circle than others.
    longer = np.maximum(np.minimum(degree[:, None], degree[None, :]) / 2, 1.0) ** 0.25
    wished = np.where(distance == 1, longer, distance + 0.5 * (longer - 1)).astype(np.float64)
    np.fill_diagonal(wished, 0.0)
    square = wished**2
    centred = -0.5 * (square - square.mean(0) - square.mean(1)[:, None] + square.mean())
    value, vector = np.linalg.eigh(centred)
    place = vector[:, [-1, -2]] * np.sqrt(np.maximum(value[[-1, -2]], 0.0))
    place += np.random.default_rng(n).normal(scale=0.05, size=place.shape)  # leaves of one node start at one point
    weight = np.zeros_like(wished)
    np.divide(1.0, square, out=weight, where=square > 0)
    laplacian = np.diag(weight.sum(1)) - weight
    inverse = np.linalg.inv(laplacian + 1.0 / n)  # the constant vector is its null space
    pull = weight * wished
    for _ in range(ROUNDS):
        _, _, apart = _pairs(place)
        ratio = pull / np.maximum(apart, 1e-9)
        place = inverse @ (ratio.sum(1)[:, None] * place - ratio @ place)
    return _upright(place) * HOP


def _pairs(place: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """From each node to each other: steps in x and y, and the distance; each (n, n)."""
    right = place[:, 0, None] - place[None, :, 0]
    down = place[:, 1, None] - place[None, :, 1]
    return right, down, np.sqrt(right * right + down * down)


def _upright(place: np.ndarray) -> np.ndarray:
    """`place` (n, 2) turned so that it is widest from left to right, its first node left of and above the middle."""
    place = place - place.mean(0)
    _, axes = np.linalg.eigh(place.T @ place)
    place = place @ axes[:, ::-1]
    return place * np.where(place[0] > 0, -1.0, 1.0)


def _spread(place: np.ndarray) -> np.ndarray:
    """`place` (n, 2) with overlapping nodes pushed apart, each pair by half of what it lacks."""
    room = SPACE * np.clip(10 / np.sqrt(len(place)), 0.45, 1.0)  # captions of a crowd are shown from near only
    scaled = place / room
    for _ in range(ROUNDS):
        right, down, apart = _pairs(scaled)
        lacks = np.maximum(1.0 - apart, 0.0)
        np.fill_diagonal(lacks, 0.0)
        if lacks.max(initial=0.0) < 0.02:
            break
        lacks *= 0.5 / np.maximum(apart, 1e-6)
        pushed = np.stack([(right * lacks).sum(1), (down * lacks).sum(1)], axis=1)
        scaled = scaled + np.clip(pushed, -0.5, 0.5)
    return scaled * room


def _pack(parts: list[tuple[np.ndarray, np.ndarray]], count: int) -> np.ndarray:
    """All parts on shelves, the largest first; the shelves as wide as gives the picture a screen's shape."""
    place = np.zeros((count, 2))
    parts = sorted(parts, key=lambda part: -len(part[0]))  # stable: by first node among equals
    low = [spots.min(0) for _, spots in parts]
    size = [np.ptp(spots, axis=0) + SPACE + (GAP if len(part) > 1 else 12.0) for part, spots in parts]
    area = sum(float(wide * high) for wide, high in size)
    width = max([(area * ASPECT) ** 0.5, *(float(wide) for wide, _ in size)])
    x = y = shelf = 0.0
    for (part, spots), corner, (wide, high) in zip(parts, low, size, strict=True):
        if x > 0 and x + wide > width:
            x, y, shelf = 0.0, y + shelf, 0.0
        place[part] = spots - corner + (x, y)
        x, shelf = x + wide, max(shelf, high)
    return place - (place.min(0) + place.max(0)) / 2 if count else place


def _rings(hops: Sequence[int | None]) -> np.ndarray:
    """Rings about the middle, fewest hops innermost, as many rings a hop as its nodes need."""
    known = np.array([np.inf if hop is None else hop for hop in hops])
    order = np.argsort(known, kind="stable")
    place = np.zeros((len(known), 2))
    radius, done = 0.0, 0
    space = float(SPACE.max()) * 0.6
    for hop in np.unique(known):
        left = int((known == hop).sum())
        while left:
            room = min(left, max(1, int(2 * np.pi * radius / space)))
            angle = 2 * np.pi * np.arange(room) / room
            place[order[done : done + room]] = radius * np.stack([np.cos(angle), np.sin(angle)], axis=1)
            done, left, radius = done + room, left - room, radius + space
        radius += space / 2
    return place
