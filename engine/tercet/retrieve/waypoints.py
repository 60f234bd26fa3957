"""Waypoints: what routes run between, located as nodes of the graph."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from tercet.clock import Clock
from tercet.errors import InvalidArgument, InvalidData, UnknownId
from tercet.filters import Filters
from tercet.node import Node
from tercet.query import QueryBatch, embed
from tercet.retrieve.nearest import nearest_nodes
from tercet.retrieve.ragged import Ragged, offsets, place_of, query_of

if TYPE_CHECKING:
    from tercet.candidates import Bound
    from tercet.retrieve.verbs import Verbs


@dataclass(frozen=True, eq=False)
class Waypoints:
    """W waypoints of all items, with their candidates."""

    indptr: torch.Tensor  # (B + 1,) int64 waypoints of each item; none for an item that failed
    candidates: Ragged  # of each waypoint, best first
    text: list[str | None]  # (B,) what was asked
    errors: dict[int, str]
    single: bool  # one item, not a list of items


def is_waypoint(value: Any) -> bool:
    """A text, a node or a vector, rather than a list of waypoints."""
    if isinstance(value, (str, bytes, Node, Mapping)):
        return True
    if isinstance(value, (np.ndarray, torch.Tensor)):
        return value.ndim == 1
    if isinstance(value, (list, tuple)):
        return bool(value) and all(isinstance(x, (int, float, np.number)) and not isinstance(x, bool) for x in value)
    return not hasattr(value, "__iter__")  # something wrong, to be refused as a waypoint


def read_items(waypoints: Any) -> tuple[list[list[Any]], bool]:
    """The lists of waypoints of a call, and whether it was about one.

    Raises:
        InvalidArgument: neither a list of waypoints nor a list of such lists.
    """
    if isinstance(waypoints, (str, bytes, Mapping, Node)) or not hasattr(waypoints, "__iter__"):
        raise InvalidArgument(
            f"waypoints: expected a list of texts, vectors or nodes, or a list of such lists, got "
            f"{type(waypoints).__name__}"
        )
    items = list(waypoints)
    single = not items or any(is_waypoint(x) for x in items)
    return ([items] if single else [list(x) for x in items]), single


def locate(
    verbs: "Verbs", waypoints: Any, k: int, bound: "list[Bound]", filters: "tuple[Any, Any, Any]", clock: Clock
) -> Waypoints:
    """Find the k nearest nodes of every waypoint of every item.

    Raises:
        InvalidArgument: a call about one item that is wrong.
    """
    items, single = read_items(waypoints)
    errors: dict[int, str] = {}
    for i, item in enumerate(items):
        if problem := wrong(item):
            errors[i] = problem
    every = [(i, w) for i, item in enumerate(items) if i not in errors for w in item]
    batch, fixed = _embedded(verbs, [w for _, w in every])
    for at, problem in batch.errors.items():
        if at not in fixed:
            errors.setdefault(every[at][0], f"waypoint {_place(every, at)}: {problem}")
    if single and errors:
        raise InvalidArgument(f"waypoints: {errors[0]}")
    owner = torch.tensor([i for i, _ in every], dtype=torch.int64)
    masks = verbs._filters(len(items), *filters)
    per_waypoint = Filters(masks.masks, masks.row[owner] if every else masks.row[:0])
    with clock.stage("search"):
        counts = torch.full((len(every),), k, dtype=torch.int64)
        found = nearest_nodes(bound, verbs.graph.num_nodes, batch, counts, per_waypoint, verbs.device).hits
    found = _with_nodes(found, fixed)
    good = torch.tensor([i not in errors for i, _ in every], dtype=torch.bool)
    found, owner = _of(found, good), owner[good]
    indptr = offsets(torch.bincount(owner, minlength=len(items)))
    text = [" → ".join(_shown(w) for w in item) for item in items]
    return Waypoints(indptr, found, list(text), errors, single)


def given_candidates(found: list[list[tuple[int, float]]]) -> Ragged:
    """Candidates that are known: (node row, score) of each waypoint, best first."""
    counts = torch.tensor([len(x) for x in found], dtype=torch.int64)
    rows, scores = ([pair[i] for x in found for pair in x] for i in (0, 1))
    return Ragged(offsets(counts), torch.tensor(rows, dtype=torch.int32), torch.tensor(scores, dtype=torch.float64))


def wrong(item: list[Any]) -> str | None:
    """What is wrong with an item, as far as its form tells."""
    if len(item) < 2:
        return f"expected at least 2 waypoints, got {len(item)}"
    for i, w in enumerate(item):
        if isinstance(w, bytes) or not is_waypoint(w) or not (
            isinstance(w, (str, Node)) or hasattr(w, "__iter__")
        ):  # fmt: skip
            return f"waypoint {i}: expected a text, a vector or a node, got {w!r} ({type(w).__name__})"
        if isinstance(w, Mapping) and "node" not in w:
            return f"waypoint {i}: expected a hit with a 'node', got {sorted(map(str, w))}"
    return None


def _embedded(verbs: "Verbs", waypoints: list[Any]) -> tuple[QueryBatch, dict[int, int]]:
    """One batch of all waypoints; those that are nodes have their row in the second value."""
    fixed: dict[int, int] = {}
    rows = torch.zeros(len(waypoints), verbs.dimension)
    raw = torch.zeros(len(waypoints), verbs.dimension)
    errors: dict[int, str] = {}
    texts = [i for i, w in enumerate(waypoints) if isinstance(w, str)]
    vectors = [i for i, w in enumerate(waypoints) if not isinstance(w, (str, Node, Mapping))]
    for group, given in (
        (texts, {"queries": [waypoints[i] for i in texts], "vectors": None}),
        (vectors, {"queries": None, "vectors": [waypoints[i] for i in vectors]}),
    ):
        if group:
            got = embed(**given, encoder=verbs.encoder, dimension=verbs.dimension, raise_blank=False)
            at = torch.tensor(group)
            rows[at] = got.embedding
            raw[at] = got.embedding if got.raw is None else got.raw
            errors.update({group[i]: problem for i, problem in got.errors.items()})
    for i, w in enumerate(waypoints):
        if isinstance(w, (Node, Mapping)):
            node = w["node"] if isinstance(w, Mapping) else w
            try:
                fixed[i] = verbs.graph.row(node.id if isinstance(node, Node) else node)
            except (InvalidData, UnknownId) as error:  # the fault of this item alone
                errors[i] = str(error)
            else:
                errors[i] = "a node"  # not searched
    return QueryBatch([w if isinstance(w, str) else None for w in waypoints], rows, errors, False, raw), fixed


def _place(every: list[tuple[int, Any]], at: int) -> int:
    """The place of a waypoint in its item."""
    return sum(1 for i, _ in every[:at] if i == every[at][0])


def _with_nodes(found: Ragged, fixed: dict[int, int]) -> Ragged:
    """The candidates, with the nodes that waypoints name themselves."""
    if not fixed:
        return found
    counts = found.indptr.diff()
    at = torch.tensor(sorted(fixed), device=counts.device)
    counts[at] = 1
    indptr = offsets(counts)
    node = torch.empty(int(indptr[-1]), dtype=torch.int32, device=counts.device)
    score = torch.full((int(indptr[-1]),), torch.nan, dtype=torch.float64, device=counts.device)
    to = indptr[query_of(found.indptr)] + place_of(found.indptr)
    node[to], score[to] = found.node, found.score
    node[indptr[at]] = torch.tensor([fixed[i] for i in sorted(fixed)], dtype=torch.int32, device=counts.device)
    return Ragged(indptr, node, score)


def _of(found: Ragged, keep: torch.Tensor) -> Ragged:
    """The lists of some waypoints."""
    keep = keep.to(found.indptr.device)
    inside = keep[query_of(found.indptr)]
    return Ragged(offsets(found.indptr.diff()[keep]), found.node[inside], found.score[inside])


def _shown(waypoint: Any) -> str:
    if isinstance(waypoint, str):
        return waypoint
    if isinstance(waypoint, Mapping):
        waypoint = waypoint.get("node")
    return waypoint.title if isinstance(waypoint, Node) else str(waypoint) if isinstance(waypoint, int) else "(vector)"
