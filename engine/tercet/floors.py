"""Floors: the full projection from lower bounds of all terms, a byte each, where rows and weights allow it."""

from typing import NamedTuple

import torch

from tercet.candidates import Bound
from tercet.collection import Collection
from tercet.index.exact import ExactIndex
from tercet.index.segmented import SegmentedIndex
from tercet.plan import Plan
from tercet.terms import edge_rule
from tercet_kernels._arena import arena
from tercet_kernels.edge_prune import Pruned
from tercet_kernels.edge_search import Terms, edge_search
from tercet_kernels.nearest import Codes
from tercet_kernels.term_floors import BYTES, LARGEST, WIDEST, pack_bytes, padded, term_floors

LEAST = 1 << 12  # with fewer edges than this all of them are looked at faster
RANGE = 1.275  # distances that the bytes tell apart; of text vectors, few are beyond
ROUNDOFF = 1e-6


class Piece(NamedTuple):
    """Rows of an index and the elements they belong to."""

    codes: Codes
    column: torch.Tensor | int  # (v,) int32 element of each row, -1: none; or that of row 0, and the others follow


class Rows(NamedTuple):
    """The one row of each of n elements."""

    pieces: tuple[Piece, ...]
    address: torch.Tensor  # (n,) int64 where its float32 elements are, 0: it has none
    whole: bool  # every element has one
    held: tuple[torch.Tensor, ...]  # what the addresses point into


def best_edges(plan: Plan, queries: torch.Tensor, k: int) -> Pruned | None:
    """The edges that are among the k best of each query, and which queries are left; None where that isn't built.

    It is for bytes that the processor multiplies, float32 rows, one at most for an element and one for every node, no
    filters or limits of distance, and terms that are a distance times a weight that isn't negative.
    """
    graph, s = plan.graph, plan.scoring
    if not BYTES or queries.device.type != "cpu" or graph.num_edges < LEAST or queries.shape[1] > WIDEST:
        return None
    if s.influence > 0 or s.personal is not None or plan.max_distance is not None or plan.projection == "incident":
        return None
    if any(m is not None for m in plan.masks(plan.bound)) or plan.allowed is not None:
        return None
    least = edge_rule(plan).floor
    lightest, heaviest, alike = graph.once("_node_factors", lambda: _factors(graph.importance))
    step = RANGE * max(heaviest, 0.0) / LARGEST
    if least is None or not lightest >= 0.0 or not 0.0 < step < torch.inf or not 0.0 <= s.penalty < torch.inf:
        return None
    nodes = _rows(plan, "node", plan.node_bound, graph.num_nodes)
    keys = _rows(plan, "relation", plan.relation_bound, len(graph.keys))
    if nodes is None or keys is None or not nodes.whole or nodes.address.shape[0] == 0:
        return None
    factor = graph.once("_node_factor", lambda: 2.0 - graph.importance[: 1 if alike else None])
    weight = graph.once("_node_weight", lambda: _weights(factor, step, padded(graph.num_nodes)))
    same = graph.once("_same_edges", lambda: bool(graph.edge_importance.min() == graph.edge_importance.max()))
    packed = pack_bytes(queries)
    shapes = [(queries.shape[0], padded(n)) for n in (graph.num_nodes, len(graph.keys) + 1)]
    with (
        arena.lend("node_floor", shapes[0], torch.uint8, queries.device) as node_floor,
        arena.lend("key_floor", shapes[1], torch.uint8, queries.device) as key_floor,
    ):
        node_floor[:, graph.num_nodes :] = LARGEST
        key_floor[:, len(graph.keys) :] = LARGEST
        missing = min(LARGEST, int(s.penalty * least / step * (1.0 - ROUNDOFF)))
        if keys.whole:
            key_floor[:, len(graph.keys)] = missing
        else:
            key_floor[:, : len(graph.keys) + 1] = missing
        for piece in nodes.pieces:
            term_floors(piece.codes, packed, weight, node_floor, piece.column)
        own = torch.tensor([least / step * (1.0 - ROUNDOFF)])
        for piece in keys.pieces:
            term_floors(piece.codes, packed, own, key_floor, piece.column)
        importance = graph.edge_importance[:1] if same else graph.edge_importance
        terms = Terms(nodes.address, keys.address, factor, importance, s.penalty)
        ends = (plan.topology, (graph.out.other, graph.into.other))
        return edge_search(*ends, node_floor, key_floor, step, terms, queries, k)


def floor_bytes(queries: int, nodes: int, keys: int, threads: int) -> int:
    """What `best_edges` takes for some queries at once: two tables, and notes of nodes."""
    return queries * (padded(nodes) + padded(keys + 1)) + 20 * nodes * threads


def _factors(importance: torch.Tensor) -> tuple[float, float, bool]:
    """The smallest and largest factor of nodes, and whether they are the same."""
    if not importance.numel():
        return 0.0, 0.0, True
    least, most = (float(x) for x in importance.aminmax())
    return 2.0 - most, 2.0 - least, least == most


def _weights(factor: torch.Tensor, step: float, size: int) -> torch.Tensor:
    """(1,) or (size,) float32 steps that a distance of 1 makes, none too many."""
    made = (factor / step * (1.0 - ROUNDOFF)).float()
    return made if made.shape[0] == 1 else torch.cat([made, made.new_zeros(size - made.shape[0])])


def _rows(plan: Plan, kind: str, bound: list[Bound], size: int) -> Rows | None:
    """Where each element's row is, None if one has several, or rows that aren't float32 or are searched otherwise."""
    got: Rows | None = plan.graph.latest(f"_rows_{kind}", (size, *bound), lambda: _located(bound, size))
    return got


def _located(bound: list[Bound], size: int) -> Rows | None:
    address = torch.zeros(size, dtype=torch.int64)
    pieces, held, filled = [], [], 0
    for b in bound:
        found = _pieces(b.collection)
        if found is None or not b.distinct:
            return None
        for index, row in found:
            owner = b.owner if row is None else torch.where(row < 0, -1, b.owner[row.clamp(min=0).long()])
            if index.hidden is not None:
                owner = owner.masked_fill(index.hidden, -1)
            owner = owner.masked_fill(owner >= size, -1).int().contiguous()
            has = torch.nonzero(owner >= 0).flatten()
            filled += has.shape[0]
            vectors = index.vectors
            address[owner[has].long()] = vectors.data_ptr() + has * (vectors.stride(0) * vectors.element_size())
            held.append(vectors)
            pieces.append((index, owner))
    whole = int((address != 0).sum())
    if whole != filled:  # an element with rows in two collections
        return None
    made = tuple(Piece(index.codes, _following(owner)) for index, owner in pieces if index.size)
    return Rows(made, address, whole == size, tuple(held))


def _pieces(collection: Collection) -> list[tuple[ExactIndex, torch.Tensor | None]] | None:
    """The indexes of a collection and the rows of it that theirs are, None: the same."""
    index = collection.index
    parts: list[tuple[ExactIndex, torch.Tensor | None]] = []
    if isinstance(index, ExactIndex):
        parts.append((index, None))
    elif isinstance(index, SegmentedIndex):
        for s in index.segments:
            if not isinstance(s.live, ExactIndex):
                return None
            parts.append((s.live, s.row))
    else:
        return None
    plain = all(i.scale is None and i.vectors.dtype == torch.float32 for i, _ in parts)
    return parts if plain and all(i.vectors.is_contiguous() for i, _ in parts) else None


def _following(owner: torch.Tensor) -> torch.Tensor | int:
    """The first of owners that follow each other, else all of them."""
    first = int(owner[0]) if owner.shape[0] else 0
    follow = first >= 0 and torch.equal(owner, torch.arange(first, first + owner.shape[0], dtype=torch.int32))
    return first if follow else owner
