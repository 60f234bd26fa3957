"""The arguments of a recall, checked, with one value for each query."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from tercet.errors import InvalidArgument
from tercet.filters import Filters, node_masks
from tercet.graph import Graph
from tercet.plan import Scoring
from tercet.query import QueryBatch
from tercet.rules import PROJECTIONS, Projection, Rules

NO_LIMIT = -1
LISTS = (list, tuple, np.ndarray, torch.Tensor)  # one value a query


@dataclass(frozen=True, eq=False)
class Arguments:
    """What a batch of B queries asks for."""

    top_k: np.ndarray  # (B,) int64
    wide: np.ndarray  # (B,) int64, NO_LIMIT for every row
    node_names: list[tuple[str, ...] | None]  # (B,)
    route: np.ndarray  # (B,) queries with equal numbers can run together
    filters: Filters
    projection: Projection | None
    rules: Rules
    operator: str
    node_type: str
    depth: int | None
    seed_top_k: int | None
    penalty: float
    influence: float
    personal: torch.Tensor | None  # (N,) float64, NaN where there is none
    personal_influence: float
    max_distance: float | None
    single_list: bool  # asked as a list, in a mode whose lists ignore node sets in the search

    def projection_of(self, query: int, unlimited: bool) -> Projection:
        """The projection of a query: what was asked for, or what its other arguments imply."""
        if self.projection is not None:
            return self.projection
        if self.depth is not None:
            return "neighborhood"
        if self.node_names[query] is not None and (self.rules.scoped_limit or self.node_names[query]):
            return "nodeset"
        if unlimited:
            return "full"
        return "induced" if self.rules.admit == "both" else "incident"

    def scoring(self, device: torch.device) -> Scoring:
        """How distances become scores."""
        personal = None if self.personal is None else self.personal.to(device)
        return Scoring(self.penalty, self.influence, self.rules.cliff, personal, self.personal_influence)


def read_arguments(
    graph: Graph,
    rules: Rules,
    batch: QueryBatch,
    *,
    top_k: Any,
    wide: Any,
    projection: str | None,
    node_name: Any,
    operator: str,
    node_type: str,
    depth: int | None,
    seed_top_k: int | None,
    penalty: float,
    influence: float,
    personal_weights: Mapping[Any, float] | None,
    personal_influence: float,
    max_distance: float | None,
    filter: Any,
) -> Arguments:
    """Check the arguments of `Engine.recall`.

    Raises:
        InvalidArgument: names the argument, what was expected and what was got.
    """
    queries = len(batch)
    if projection is not None and projection not in PROJECTIONS:
        raise InvalidArgument(f"projection: expected one of {', '.join(PROJECTIONS)}, got {projection!r}")
    if rules.scoped_limit and operator not in ("OR", "AND"):
        raise InvalidArgument(f"node_name_filter_operator: expected 'OR' or 'AND', got {operator!r}")
    if depth is not None and (isinstance(depth, bool) or not isinstance(depth, (int, np.integer)) or depth < 1):
        raise InvalidArgument(f"neighborhood_depth: expected at least 1, got {depth!r}")
    if projection == "neighborhood" and depth is None:
        raise InvalidArgument("projection 'neighborhood' needs neighborhood_depth")
    names = _names(node_name, queries)
    scoped = np.array([n is not None for n in names], dtype=bool)
    if projection == "nodeset" and any(n is None for n in names):
        raise InvalidArgument("projection 'nodeset' needs node_name")
    _number("triplet_distance_penalty", penalty)
    _number("personal_influence", personal_influence)
    if seed_top_k is not None:
        whole("neighborhood_seed_top_k", seed_top_k, least=0 if rules.batch_limit else None)
    if not _number("feedback_influence", influence, finite=False) or not 0 <= influence <= 1:
        raise InvalidArgument(f"feedback_influence: expected a number in [0, 1], got {influence!r}")
    if max_distance is not None:
        _number("max_distance", max_distance)
    k = _counts("top_k", top_k, queries)
    limit = _limits(wide, queries, least=1 if rules.batch_limit else None)
    if not rules.batch_limit and not batch.single:
        limit[:] = NO_LIMIT
    if not rules.scoped_limit:
        limit[scoped] = NO_LIMIT
    route = (limit == NO_LIMIT) + 2 * scoped
    if not rules.scoped_limit:  # each node set has a graph of its own
        distinct = {n: i for i, n in enumerate(dict.fromkeys(names))}
        route = route + 4 * np.array([distinct[n] for n in names], np.int64)
    return Arguments(
        top_k=k, wide=limit, node_names=names, route=route,
        filters=node_masks(graph, filter, queries), projection=projection, rules=rules,  # type: ignore[arg-type]
        operator=operator, node_type=node_type, depth=depth, seed_top_k=seed_top_k, penalty=float(penalty),
        influence=float(influence), personal=_personal(graph, personal_weights, lenient=rules.cliff),
        personal_influence=float(personal_influence), max_distance=max_distance,
        single_list=not rules.batch_limit and not batch.single,
    )  # fmt: skip


def per_query(name: str, value: Any, queries: int) -> list[Any]:
    """One value for each query, from one for all or a list.

    Raises:
        InvalidArgument: a list of the wrong length.
    """
    if isinstance(value, LISTS):
        values = list(value.tolist() if hasattr(value, "tolist") else value)
        if len(values) != queries:
            raise InvalidArgument(f"{name}: expected one value or one for each of {queries} queries, got {len(values)}")
        return values
    return [value] * queries


def _counts(name: str, value: Any, queries: int) -> np.ndarray:
    values = per_query(name, value, queries)
    for i, v in enumerate(values if isinstance(value, LISTS) else values[:1]):
        if isinstance(v, bool) or not isinstance(v, (int, np.integer)) or v < 1:
            raise InvalidArgument(f"{name}: expected an integer of at least 1, got {v!r}" + _at(value, i))
    return np.array(values, np.int64)


def _limits(value: Any, queries: int, least: int | None) -> np.ndarray:
    if value is None:
        return np.full(queries, NO_LIMIT, np.int64)
    values = per_query("wide_search_top_k", value, queries)
    for i, v in enumerate(values if isinstance(value, LISTS) else values[:1]):
        if v is None:
            continue
        if isinstance(v, bool) or not isinstance(v, (int, np.integer)) or (least is not None and v < least):
            raise InvalidArgument(
                f"wide_search_top_k: expected an integer of at least 1 or None, got {v!r}" + _at(value, i)
            )
    return np.array([NO_LIMIT if v is None else max(v, 0) for v in values], np.int64)


def whole(name: str, value: Any, least: int | None) -> None:
    """Check a count.

    Raises:
        InvalidArgument: not an integer, or below the least one allowed.
    """
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or (least is not None and value < least):
        wanted = "an integer" if least is None else f"an integer of at least {least}"
        raise InvalidArgument(f"{name}: expected {wanted} or None, got {value!r}")


def _at(value: Any, i: int) -> str:
    return f" for query {i}" if isinstance(value, (list, tuple)) else ""


def _names(node_name: Any, queries: int) -> list[tuple[str, ...] | None]:
    if node_name is None or isinstance(node_name, str):
        return [None if node_name is None else (node_name,)] * queries
    rows = list(node_name)
    if all(isinstance(r, str) for r in rows):
        return [tuple(rows)] * queries
    for r in rows:
        if r is not None and not isinstance(r, (list, tuple)):
            raise InvalidArgument(f"node_name: expected names, or a list of names for each query, got {r!r}")
    if len(rows) != queries:
        raise InvalidArgument(f"node_name: expected names for each of {queries} queries, got {len(rows)}")
    return [None if r is None else tuple(r) for r in rows]


def _personal(graph: Graph, weights: Mapping[Any, float] | None, *, lenient: bool) -> torch.Tensor | None:
    if not weights:
        return None
    if not lenient:
        for node, value in weights.items():
            _number(f"personal_weights[{node!r}]", value)
    rows = graph.rows(list(weights))
    out = np.full(graph.num_nodes, np.nan)
    try:
        values = np.array([float(v) for v in weights.values()])
    except (TypeError, ValueError) as error:
        raise InvalidArgument(f"personal_weights: expected numbers ({error})") from error
    out[rows[rows >= 0]] = values[rows >= 0]
    return torch.from_numpy(out)


def _number(name: str, value: Any, finite: bool = True) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise InvalidArgument(f"{name}: expected a number, got {value!r}")
    if finite and not math.isfinite(value):
        raise InvalidArgument(f"{name}: expected a finite number, got {value!r}")
    return True
