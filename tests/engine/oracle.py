"""Retrieval in plain Python: dicts, loops and float64, one query at a time. Native rules only.

Edges are numbered as a graph in canonical order numbers them. Distances are one minus a dot product added in 16 lanes,
element i to lane i mod 16, the lanes folded in halves, and rounded to float32.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

LANES = 16


@dataclass(frozen=True)
class Node:
    id: str
    importance: float = 0.5
    feedback: float = 0.5
    sets: tuple[str, ...] = ()
    type: str | None = None
    name: str | None = None


@dataclass(frozen=True)
class Edge:
    source: str
    relation: str | None
    target: str
    id: str | None = None
    text: str | None = None
    importance: float = 0.5
    feedback: float = 0.5

    @property
    def key(self) -> str | None:
        """The text that edges share a distance by."""
        text = (self.text or "").strip() or (self.relation or "").strip()
        return text.lower().replace(" ", "_").replace("'", "") or None

    def order(self) -> tuple[Any, ...]:
        """Ties go by source, relation, target, edge id and edge text; an absent one comes first."""
        optional = ((text is not None, text or "") for text in (self.relation, self.id, self.text))
        relation, edge_id, text = optional
        return (self.source, relation, self.target, edge_id, text)


@dataclass(frozen=True)
class Rows:
    """A collection: the owner and the vector of each row."""

    name: str
    kind: str
    owners: tuple[str, ...]
    vectors: tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class World:
    nodes: Mapping[str, Node]
    edges: Sequence[Edge]  # in tie order
    collections: Sequence[Rows]


@dataclass(frozen=True)
class Ask:
    """One query with its settings."""

    vector: tuple[float, ...]
    top_k: int = 5
    wide: int | None = 100
    projection: str = "induced"
    node_name: tuple[str, ...] | None = None
    operator: str = "OR"
    depth: int = 1
    seed_top_k: int | None = 10
    penalty: float = 6.5
    influence: float = 0.0
    personal: Mapping[str, float] = field(default_factory=dict)
    personal_influence: float = 0.3
    max_distance: float | None = None
    allowed: frozenset[str] | None = None


@dataclass(frozen=True)
class Answer:
    status: str
    edges: list[int]
    scores: list[float]
    distances: list[tuple[float, float, float]]  # source, target, relation; inf where nothing matched
    collections: list[tuple[str | None, str | None, str | None]]
    available: int
    seeds: list[tuple[str, float]]


Found = dict[str, tuple[float, str]]  # element: its distance, and the collection that has it


def merged(edges: Sequence[Edge]) -> list[Edge]:
    """Edges in tie order; those without an id that agree in everything else are one, with the larger weights."""
    out: list[Edge] = []
    for edge in sorted(edges, key=Edge.order):
        if out and edge.id is None and out[-1].order() == edge.order():
            last = out.pop()
            weights = max(last.importance, edge.importance), max(last.feedback, edge.feedback)
            edge = Edge(edge.source, edge.relation, edge.target, None, edge.text, *weights)  # noqa: PLW2901
        out.append(edge)
    return out


def unit(vector: Sequence[float]) -> tuple[float, ...]:
    """The float32 vector of length one."""
    values = [float(np.float32(x)) for x in vector]
    length = math.sqrt(_dot(values, values))
    return tuple(float(np.float32(x / length)) for x in values)


def distance(a: Sequence[float], b: Sequence[float]) -> float:
    """The float32 cosine distance of two unit vectors."""
    return float(np.float32(min(max(1.0 - _dot(a, b), 0.0), 2.0)))


def _dot(a: Sequence[float], b: Sequence[float]) -> float:
    lanes = [0.0] * LANES
    for i, (x, y) in enumerate(zip(a, b, strict=True)):
        lanes[i % LANES] += x * y
    while len(lanes) > 1:
        half = len(lanes) // 2
        lanes = [lanes[i] + lanes[half + i] for i in range(half)]
    return lanes[0]


def answer(world: World, ask: Ask) -> Answer:
    """What a query gets."""
    allowed = _allowed(world, ask)
    nodes, keys = (_search(world, ask, kind, allowed) for kind in ("node", "relation"))
    touched = bool(nodes) or any(e.key in keys for e in world.edges)
    table, edges = _project(world, ask, nodes, allowed)
    ranked = []
    for i in edges if touched else ():
        edge = world.edges[i]
        matched = [table.get(edge.source), table.get(edge.target), keys.get(edge.key) if edge.key else None]
        ends = [world.nodes[edge.source], world.nodes[edge.target]]
        terms = [_term(ask, m, n, ask.personal.get(n.id)) for m, n in zip(matched, ends, strict=False)]
        score = (terms[0] + terms[1]) + _term(ask, matched[2], edge, None)
        ranked.append((score, i, matched))
    best = sorted(ranked, key=lambda x: x[:2])[: ask.top_k]
    return Answer(
        _status(world, nodes, allowed, touched, len(edges)),
        [i for _, i, _ in best],
        [score for score, _, _ in best],
        [tuple(math.inf if m is None else m[0] for m in matched) for *_, matched in best],
        [tuple(None if m is None else m[1] for m in matched) for *_, matched in best],
        len(edges),
        sorted(((node, found[0]) for node, found in nodes.items()), key=lambda x: (x[1], x[0])),
    )


def _allowed(world: World, ask: Ask) -> set[str] | None:
    """Nodes that may be used; None for all."""
    allowed = None if ask.allowed is None else set(ask.allowed)
    if ask.node_name is None:
        return allowed
    held = []
    for name in ask.node_name:
        stands = {n.id for n in world.nodes.values() if n.type == "NodeSet" and n.name == name}
        inside = {n.id for n in world.nodes.values() if name in n.sets}
        for edge in world.edges:
            if edge.source in stands:
                inside.add(edge.target)
            if edge.target in stands:
                inside.add(edge.source)
        held.append((inside, stands))
    inside = [i for i, _ in held]
    found = set.intersection(*inside) if ask.operator == "AND" else set.union(*inside)
    found |= set.union(*(stands for _, stands in held))
    return found if allowed is None else found & allowed


def _search(world: World, ask: Ask, kind: str, allowed: set[str] | None) -> Found:
    """The best hit of each element over the candidates of all collections of a kind."""
    out: Found = {}
    limit = None if ask.max_distance is None else float(np.float32(ask.max_distance))
    for rows in world.collections:
        if rows.kind != kind:
            continue
        hits = [(distance(ask.vector, v), owner) for owner, v in zip(rows.owners, rows.vectors, strict=True)]
        if kind == "node" and allowed is not None:
            hits = [h for h in hits if h[1] in allowed]
        for d, owner in sorted(hits)[: ask.wide]:
            if (limit is None or d <= limit) and (owner not in out or d < out[owner][0]):
                out[owner] = (d, rows.name)
    return out


def _project(world: World, ask: Ask, nodes: Found, allowed: set[str] | None) -> tuple[Found, list[int]]:
    """Distances of nodes, and the edges that may be ranked."""
    table = nodes
    if ask.projection == "neighborhood":
        inside = _near(world, ask, nodes, allowed)
        every = _search(world, _without_limit(ask), "node", allowed)
        table = {n: nodes.get(n, every.get(n)) for n in inside}
        table = {n: found for n, found in table.items() if found is not None}
        admitted = lambda e: e.source in inside and e.target in inside  # noqa: E731
    elif ask.projection == "induced":
        admitted = lambda e: e.source in nodes and e.target in nodes  # noqa: E731
    elif ask.projection == "incident":
        admitted = lambda e: e.source in nodes or e.target in nodes  # noqa: E731
    else:
        admitted = lambda e: True  # noqa: E731
    usable = lambda e: allowed is None or (e.source in allowed and e.target in allowed)  # noqa: E731
    return table, [i for i, e in enumerate(world.edges) if admitted(e) and usable(e)]


def _without_limit(ask: Ask) -> Ask:
    return Ask(**{**vars(ask), "wide": None})


def _near(world: World, ask: Ask, nodes: Found, allowed: set[str] | None) -> set[str]:
    """Nodes within `depth` undirected steps of the nearest candidates."""
    nearest = sorted(nodes, key=lambda n: (nodes[n][0], n))
    inside = set(nearest[: ask.seed_top_k])
    for _ in range(ask.depth):
        reached = {e.target for e in world.edges if e.source in inside}
        reached |= {e.source for e in world.edges if e.target in inside}
        inside |= reached if allowed is None else reached & allowed
    return inside


def _term(ask: Ask, matched: tuple[float, str] | None, element: Node | Edge, personal: float | None) -> float:
    """The effective distance of one element."""
    factor = 2.0 - element.importance
    if matched is None:
        return factor * ask.penalty
    d = matched[0]
    if ask.influence > 0:
        d = 2.0 * ((1.0 - ask.influence) * (d / 2.0) + ask.influence * (1.0 - element.feedback))
    d = factor * d
    return d if personal is None else d * (1.0 - ask.personal_influence * (2.0 * personal - 1.0))


def _status(world: World, nodes: Found, allowed: set[str] | None, touched: bool, available: int) -> str:
    if not world.nodes:
        return "empty_graph"
    if allowed is not None:
        rows = [owner for c in world.collections if c.kind == "node" for owner in c.owners]
        nothing_left = bool(rows) and not any(owner in allowed for owner in rows)
        if not allowed or (nothing_left and not (touched and available)):
            return "filtered_out"
    if not touched:
        return "no_hits"
    if not world.edges:
        return "no_edges"
    return "ok" if available else "empty_fragment"
