"""What calls of each verb look like: their arguments, and which of them may differ within one batch."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from inspect import Parameter, signature
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch

from tercet.conditions import LabelFilter
from tercet.errors import InvalidArgument
from tercet.retrieve.hits import Hits
from tercet.retrieve.waypoints import is_waypoint

FILTERS = ("filter_labels", "filter_props", "filter")
EACH = {  # arguments that a list gives to each query
    "recall": ("top_k", "wide_search_top_k", "node_name", "filter"),
    "semantic_search": ("k", *FILTERS),
    "text_search": ("k", *FILTERS),
    "hybrid_search": ("k", *FILTERS),
    "passage_search": ("k", *FILTERS),
    "semantic_subgraph": ("k", *FILTERS),
    "text_subgraph": ("k", *FILTERS),
    "hybrid_subgraph": ("k", *FILTERS),
    "path_context": FILTERS,
    "subgraph": (),
    "rank_subgraph": (),
}
VERBS = tuple(EACH)
SUBJECT = {"path_context": "waypoints", "subgraph": "seeds", "rank_subgraph": "seeds"}
COUNTS = {"top_k": 64, "k": 64, "wide_search_top_k": 256}  # up to so many they cost a batch about the same
WORDS_ONLY = ("text_search", "text_subgraph")  # their texts aren't encoded
MASKS = (pc.Expression, np.ndarray, torch.Tensor, pa.Array, list, tuple, set, frozenset)  # a filter of one query
LABELS = (list, tuple, set, frozenset, LabelFilter)


class Odd(Exception):
    """An argument in a form that only a call of its own can take, or refuse."""


@dataclass(frozen=True)
class Form:
    """The arguments of a verb."""

    verb: str
    subject: str  # "queries", "seeds" or "waypoints": what there is one of for each query
    names: frozenset[str]
    defaults: dict[str, Any]
    each: tuple[str, ...]

    def check(self, arguments: Mapping[str, Any]) -> None:
        """Refuse arguments that the verb doesn't have, and a call about nothing.

        Raises:
            InvalidArgument: names the argument.
        """
        if not self.names >= arguments.keys():
            unknown = sorted(map(str, arguments.keys() - self.names))
            known = ", ".join(sorted(self.names))
            raise InvalidArgument(f"{self.verb}: no argument {', '.join(map(repr, unknown))}; there are {known}")
        if arguments.get(self.subject) is None and (
            self.subject not in self.defaults or arguments.get("vectors") is None
        ):
            more = " or vectors" if self.subject in self.defaults else ""
            raise InvalidArgument(f"{self.verb}: expected {self.subject}{more}, got none")


@cache
def form_of(verb: str) -> Form:
    """The form of a verb.

    Raises:
        InvalidArgument: no such verb.
    """
    if verb not in EACH:
        raise InvalidArgument(f"verb: expected one of {', '.join(VERBS)}, got {verb!r}")
    from tercet.engine import Engine  # an engine imports this package

    parameters = dict(signature(getattr(Engine, verb)).parameters)
    del parameters["self"]
    defaults = {name: p.default for name, p in parameters.items() if p.default is not Parameter.empty}
    return Form(verb, SUBJECT.get(verb, "queries"), frozenset(parameters), defaults, EACH[verb])


def each_of(name: str, value: Any, queries: int) -> tuple[list[Any], bool]:
    """An argument as one value for each query, or as one for all of them; the second value says which.

    Raises:
        Odd: the value isn't in one of the forms that mean the same alone and in a list.
    """
    if name == "node_name":
        return _names(value, queries)
    if name == "filter":
        return _masks(value, queries, MASKS, batched=_has(value, MASKS))
    if name == "filter_labels":
        return _masks(value, queries, LABELS, batched=_has(value, LABELS))
    if name == "filter_props":
        return _masks(value, queries, object, batched=isinstance(value, (list, tuple)))
    none = name == "wide_search_top_k"
    if _is_count(value, none):
        return [value], False
    if isinstance(value, (list, tuple)) and len(value) == queries and all(_is_count(v, none) for v in value):
        return list(value), True
    raise Odd(name)


def items_of(subject: str, value: Any) -> tuple[list[Any], bool]:
    """Seeds or waypoints as one item for each query, and whether there was one query, not a list.

    Raises:
        Odd: the value isn't in one of the forms that mean the same alone and in a list.
    """
    if isinstance(value, Hits):
        return [value], True
    if not isinstance(value, (list, tuple)):
        raise Odd(subject)
    if subject == "waypoints":
        if not value or is_waypoint(value):
            raise Odd(subject)
        single = any(is_waypoint(v) for v in value)
        return ([list(value)] if single else [list(v) for v in value]), single
    lists = [isinstance(v, (list, tuple, Hits, np.ndarray)) for v in value]
    if value and all(lists):
        return list(value), False
    return [list(value)], True


def _is_count(value: Any, none: bool) -> bool:
    if value is None:
        return none
    return (type(value) is int or isinstance(value, np.integer)) and int(value) >= 1  # a wrong one is refused alone


def _names(value: Any, queries: int) -> tuple[list[Any], bool]:
    if value is None:
        return [None], False
    if isinstance(value, str):
        return [(value,)], False
    if not isinstance(value, (list, tuple)):
        raise Odd("node_name")
    if all(isinstance(v, str) for v in value):
        return [tuple(value)], False
    if len(value) != queries or not all(
        v is None or (isinstance(v, (list, tuple)) and all(isinstance(x, str) for x in v)) for v in value
    ):
        raise Odd("node_name")
    return [None if v is None else tuple(v) for v in value], True


def _has(value: Any, kinds: tuple[type, ...]) -> bool:
    """A list of filters, rather than a list that is one."""
    return isinstance(value, (list, tuple)) and any(v is None or isinstance(v, kinds) for v in value)


def _masks(value: Any, queries: int, kinds: Any, *, batched: bool) -> tuple[list[Any], bool]:
    if batched:
        if len(value) != queries or not all(v is None or isinstance(v, kinds) for v in value):
            raise Odd("filter")
        return list(value), True
    if value is not None and not isinstance(value, kinds):
        raise Odd("filter")
    return [value], False
