"""Filters by label and property: values that say which nodes are wanted, and the masks they give.

`mode="grafito"` answers as Grafito 0.8.6 does, accidents included; `mode="native"` means the same by the same filter,
except that

- a list as a property's condition means any of its values (in Grafito: equal to that list);
- objects are equal whatever the order of their keys, and a list's text is no text to compare with;
- letters fold as in Unicode when `case_sensitive=False` (in Grafito: ASCII only);
- `ends_with("")` finds all texts, `ne(None)` all that have the property, a label named twice is a label named once;
- booleans are no text for `contains`, `starts_with`, `ends_with` and `regex`;
- what would silently mean something else is an error: a plain string for labels, a group under a key, an empty dict in
  a group, None, NaN or two classes as bounds.
"""

import json
import re
from collections.abc import Callable
from functools import partial, reduce
from typing import Any

import numpy as np
import torch

from tercet import compare, conditions
from tercet.conditions import Json, LabelFilter, Mode, PropertyFilter, PropertyFilterGroup
from tercet.errors import InvalidArgument
from tercet.filters import Filters
from tercet.graph import Graph
from tercet.labels import fold_ascii, label_mask
from tercet.properties import property_column

__all__ = ["LabelFilter", "PropertyFilter", "PropertyFilterGroup", "filter_masks", "match_nodes"]

_KEPT_BYTES = 64 << 20  # of masks, with a graph
_LEAST_KEPT = 16


def match_nodes(graph: Graph, labels: Any = None, properties: Any = None, *, mode: Mode = "native") -> np.ndarray:
    """Which nodes have the labels and the properties.

    Args:
        labels: a list (all of them) or a `LabelFilter`; None or empty: any node.
        properties: a dict (all of its keys) or a `PropertyFilterGroup`; None or empty: any node. Conditions are plain
            values (equality), None (missing or null), lists and dicts, or a `PropertyFilter`.
        mode: "native" or "grafito"; see the module.

    Returns:
        (N,) bool, read-only: the masks of the last filters are kept with the graph.

    Raises:
        InvalidFilter: a filter that can't be one.
        InvalidArgument: an unknown mode, labels that are no list of strings, or a column that can't be compared.
        InvalidData: see `property_column`.
    """
    _check_mode(mode)
    key = conditions.read_labels(labels, mode, "labels"), conditions.read_properties(properties, mode, "properties")
    return _mask(graph, *key, mode)


def filter_masks(
    graph: Graph, queries: int, filter_labels: Any = None, filter_props: Any = None, mode: Mode = "native"
) -> Filters:
    """Masks of filters by label and property, for all queries or for each of them.

    Args:
        queries: B.
        filter_labels: as `labels` of `match_nodes` for all queries (a list of strings is one filter), or a list of B
            such filters or Nones.
        filter_props: as `properties` of `match_nodes` for all queries, or a list of B such filters or Nones.

    Returns:
        each distinct pair of filters once; queries with neither have none.

    Raises:
        InvalidArgument: a list of the wrong length, or as `match_nodes`; the message names the query.
    """
    _check_mode(mode)
    batched = _is_label_batch(filter_labels), isinstance(filter_props, (list, tuple))
    of_query: list[list[Any]] = []
    for name, given, each, read in (
        ("filter_labels", filter_labels, batched[0], conditions.read_labels),
        ("filter_props", filter_props, batched[1], conditions.read_properties),
    ):
        if not each or not given:
            of_query.append([read(None if each else given, mode, name)] * queries)
        elif len(given) != queries:
            raise InvalidArgument(f"{name}: expected one filter or one for each of {queries} queries, got {len(given)}")
        else:
            of_query.append([read(one, mode, f"{name} of query {i}") for i, one in enumerate(given)])
    places: dict[tuple[Any, Any], int] = {(None, None): -1}
    row = [places.setdefault(pair, len(places) - 1) for pair in zip(*of_query, strict=True)]
    masks = np.zeros((len(places) - 1, graph.num_nodes), bool)
    for pair, place in places.items():
        if place >= 0:
            masks[place] = _mask(graph, *pair, mode)
    return Filters(torch.from_numpy(masks), torch.tensor(row, dtype=torch.int32))


def _mask(graph: Graph, labels: LabelFilter | None, properties: PropertyFilterGroup | None, mode: Mode) -> np.ndarray:
    kept: dict[Any, np.ndarray] = graph.once("_filter_masks", dict)
    key = labels, properties, mode
    mask = kept.pop(key, None)
    if mask is None:
        mask = np.ones(graph.num_nodes, bool) if properties is None else _group_mask(graph, properties, mode)
        if labels is not None:
            mask = mask & _label_mask(graph, labels, mode)
        mask.setflags(write=False)
    kept[key] = mask  # the last used one at the end
    while len(kept) > max(_LEAST_KEPT, _KEPT_BYTES // max(graph.num_nodes, 1)):
        kept.pop(next(iter(kept)), None)
    return mask


def _label_mask(graph: Graph, labels: LabelFilter, mode: Mode) -> np.ndarray:
    mask = label_mask(graph, labels.names, mode=labels.mode, fold_case=True)
    repeated = len({fold_ascii(n) for n in labels.names}) < len(labels.names)
    if mode == "grafito" and labels.mode == "all" and repeated:
        return np.zeros(graph.num_nodes, bool)  # it counts the labels found against the labels asked for
    return mask


def _group_mask(graph: Graph, group: PropertyFilterGroup, mode: Mode) -> np.ndarray:
    parts = []
    for one in group.of:
        if isinstance(one, PropertyFilterGroup):
            parts.append(_group_mask(graph, one, mode))
        elif one:
            parts.append(reduce(np.logical_and, [_condition_mask(graph, key, what, mode) for key, what in one]))
    if not parts:
        return np.ones(graph.num_nodes, bool)
    return reduce(np.logical_or if group.operator == "or" else np.logical_and, parts)


def _condition_mask(graph: Graph, key: str, condition: Any, mode: Mode) -> np.ndarray:
    if isinstance(condition, PropertyFilterGroup):
        return _group_mask(graph, condition, mode)
    prop = property_column(graph, key)
    sqlite = mode == "grafito"
    if not isinstance(condition, PropertyFilter):
        value = json.loads(condition.text) if isinstance(condition, Json) else condition
        if sqlite or not isinstance(value, list):
            return compare.equals(prop, value, sqlite=sqlite)
        none = np.zeros(graph.num_nodes, bool)
        return reduce(np.logical_or, (compare.equals(prop, one, sqlite=False) for one in value), none)
    name, values = condition.operator, condition.values
    if name == "regex":
        flags = re.NOFLAG if condition.case_sensitive else re.IGNORECASE
        return compare.matches(prop, re.compile(values[0], flags), sqlite=sqlite)
    test: Callable[..., np.ndarray]
    if name in conditions.TEXTUAL:
        test = partial(compare.holds_text, where=name, case_sensitive=condition.case_sensitive)
        return test(prop, part=values[0], sqlite=sqlite)
    if name in conditions.ORDERED:
        return compare.ordered(prop, name, values[0], sqlite=sqlite)
    test = compare.between if name == "between" else compare.differs
    return test(prop, *values, sqlite=sqlite)


def _check_mode(mode: str) -> None:
    if mode not in ("native", "grafito"):
        raise InvalidArgument(f"mode: expected 'native' or 'grafito', got {mode!r}")


def _is_label_batch(given: Any) -> bool:
    """A list whose entries are filters themselves, rather than labels."""
    kinds = (list, tuple, set, frozenset, LabelFilter)
    return isinstance(given, (list, tuple)) and any(x is None or isinstance(x, kinds) for x in given)
