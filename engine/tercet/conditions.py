"""Filters by label and property as values: frozen, hashable, checked when they are made."""

import datetime
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from tercet.errors import InvalidArgument, InvalidFilter
from tercet.labels import name_tuple
from tercet.properties import check_key
from tercet.property_values import compact, is_nan

Mode = Literal["native", "grafito"]
ORDERED = ("gt", "gte", "lt", "lte")
TEXTUAL = ("contains", "starts_with", "ends_with")


@dataclass(frozen=True)
class PropertyFilter:
    """A condition on one property; made by its functions, used as a value in a dict of properties.

    Raises (all of them):
        InvalidFilter: a value of the wrong kind, or not of `expected_type`, or a pattern that isn't one.
    """

    operator: str
    values: tuple[Any, ...]
    case_sensitive: bool = True

    def __post_init__(self) -> None:
        if self.operator not in (*ORDERED, *TEXTUAL, "ne", "between", "regex"):
            raise InvalidFilter(f"PropertyFilter: expected one of its functions, got the operator {self.operator!r}")

    @staticmethod
    def gt(value: Any, expected_type: Any = None) -> "PropertyFilter":
        """Above the value, among values of its class: numbers (booleans are 0 and 1), or text by code points."""
        return _comparison("gt", value, expected_type=expected_type)

    @staticmethod
    def gte(value: Any, expected_type: Any = None) -> "PropertyFilter":
        """At or above the value; see `gt`."""
        return _comparison("gte", value, expected_type=expected_type)

    @staticmethod
    def lt(value: Any, expected_type: Any = None) -> "PropertyFilter":
        """Below the value; see `gt`."""
        return _comparison("lt", value, expected_type=expected_type)

    @staticmethod
    def lte(value: Any, expected_type: Any = None) -> "PropertyFilter":
        """At or below the value; see `gt`."""
        return _comparison("lte", value, expected_type=expected_type)

    @staticmethod
    def ne(value: Any, expected_type: Any = None) -> "PropertyFilter":
        """Another value than this, or none."""
        return _comparison("ne", value, expected_type=expected_type)

    @staticmethod
    def between(low: Any, high: Any, expected_type: Any = None) -> "PropertyFilter":
        """From low to high, both included; no value is between reversed bounds."""
        return _comparison("between", low, high, expected_type=expected_type)

    @staticmethod
    def contains(value: str, case_sensitive: bool = True) -> "PropertyFilter":
        """The value as text (numbers too) has this part."""
        return _part("contains", value, case_sensitive)

    @staticmethod
    def starts_with(value: str, case_sensitive: bool = True) -> "PropertyFilter":
        """The value as text begins so."""
        return _part("starts_with", value, case_sensitive)

    @staticmethod
    def ends_with(value: str, case_sensitive: bool = True) -> "PropertyFilter":
        """The value as text ends so."""
        return _part("ends_with", value, case_sensitive)

    @staticmethod
    def regex(pattern: str, case_sensitive: bool = True) -> "PropertyFilter":
        """A pattern of Python's `re` is found in the value as text."""
        made = _part("regex", pattern, case_sensitive)
        try:
            re.compile(pattern)
        except re.error as error:
            raise InvalidFilter(f"regex: {pattern!r} is no pattern: {error}") from error
        return made


@dataclass(frozen=True)
class PropertyFilterGroup:
    """Several dicts of properties (or groups), of which any or all must hold."""

    operator: Literal["or", "and"]
    of: tuple[Any, ...]  # groups, and dicts as sorted tuples of (key, condition)

    def __post_init__(self) -> None:
        if self.operator not in ("or", "and"):
            raise InvalidFilter(f"PropertyFilterGroup: expected 'or' or 'and', got {self.operator!r}")

    @staticmethod
    def or_(*filters: Any) -> "PropertyFilterGroup":
        """At least one of the dicts holds; within a dict all keys must.

        Raises:
            InvalidFilter: no filter, something else than a dict or group, a key or a value that can't be one.
        """
        return _group("or", filters)

    @staticmethod
    def and_(*filters: Any) -> "PropertyFilterGroup":
        """All of the dicts hold; see `or_`."""
        return _group("and", filters)


@dataclass(frozen=True)
class LabelFilter:
    """Nodes with any, or with all, of some labels; ASCII letters match in either case."""

    mode: Literal["any", "all"]
    names: tuple[str, ...]

    @staticmethod
    def any(labels: Iterable[str]) -> "LabelFilter":
        """At least one of the labels.

        Raises:
            InvalidFilter: no label, a plain string, or something else than strings.
        """
        return _labels("any", labels)

    @staticmethod
    def all(labels: Iterable[str]) -> "LabelFilter":
        """Every one of the labels; see `any`."""
        return _labels("all", labels)


@dataclass(frozen=True)
class Json:
    """A list or an object as a condition: its JSON text, which can be hashed and changes no more."""

    text: str


def read_labels(labels: Any, mode: Mode, place: str) -> LabelFilter | None:
    """A filter by label as a value, None where it asks for nothing; `place` names it in errors."""
    if labels is None or isinstance(labels, LabelFilter):
        return labels
    if isinstance(labels, str) and mode == "grafito":
        labels = list(labels)
    names = name_tuple(place, labels)
    return LabelFilter("all", names) if names else None


def read_properties(properties: Any, mode: Mode, place: str) -> PropertyFilterGroup | None:
    """A filter by properties as a value, None where it asks for nothing; `place` names it in errors."""
    if properties is None or (isinstance(properties, Mapping) and not properties):
        return None
    if isinstance(properties, Mapping):
        group = _group("and", (properties,), place)
    elif isinstance(properties, PropertyFilterGroup):
        group = properties
    else:
        raise InvalidFilter(f"{place}: expected a dict or a PropertyFilterGroup, got {type(properties).__name__}")
    if mode == "native":
        _check_native(group, place)
    return group


def _check_native(group: PropertyFilterGroup, place: str) -> None:
    """Refuse what Grafito takes in a sense that nobody means."""
    for one in group.of:
        if isinstance(one, PropertyFilterGroup):
            _check_native(one, place)
            continue
        if not one:
            raise InvalidFilter(f"{place}: an empty dict in a group")
        for key, condition in one:
            if isinstance(condition, PropertyFilterGroup):
                raise InvalidFilter(f"{place}: a group under the key {key!r}; a group has keys of its own")
            if not isinstance(condition, PropertyFilter) or condition.operator not in (*ORDERED, "between", "ne"):
                continue
            values = condition.values
            if any(is_nan(v) or (v is None and condition.operator != "ne") for v in values):
                raise InvalidFilter(f"{place}, {key!r}: nothing compares with {values[0]!r}")
            if len({isinstance(v, str) for v in values}) > 1:
                raise InvalidFilter(f"{place}, {key!r}: expected bounds of one class, got {values}")


def _comparison(name: str, *values: Any, expected_type: Any = None) -> PropertyFilter:
    if expected_type is not None:
        try:
            wrong = [v for v in values if not isinstance(v, expected_type)]
        except TypeError as error:
            raise InvalidFilter(f"{name}: expected_type {expected_type!r} is no type") from error
        if wrong:
            raise InvalidFilter(f"{name}: expected {expected_type}, got {wrong[0]!r} ({type(wrong[0]).__name__})")
    plain = tuple(_scalar(v) for v in values)
    for given, value in zip(values, plain, strict=True):
        if value is not None and not isinstance(value, (str, int, float)):
            raise InvalidFilter(f"{name}: expected a number, a boolean, text or a date, got {given!r}")
    return PropertyFilter(name, plain)


def _part(name: str, value: Any, case_sensitive: Any) -> PropertyFilter:
    if not isinstance(value, str):
        raise InvalidFilter(f"{name}: expected text, got {value!r} ({type(value).__name__})")
    return PropertyFilter(name, (value,), bool(case_sensitive))


def _group(operator: Literal["or", "and"], filters: tuple[Any, ...], place: str = "group") -> PropertyFilterGroup:
    if not filters:
        raise InvalidFilter(f"{place}: expected at least one filter")
    frozen: list[Any] = []
    for one in filters:
        if isinstance(one, PropertyFilterGroup):
            frozen.append(one)
        elif isinstance(one, Mapping):
            for key in one:
                check_key(key)
            frozen.append(tuple((key, _frozen(one[key], f"{place}, {key!r}")) for key in sorted(one)))
        else:
            raise InvalidFilter(f"{place}: expected dicts and groups, got {one!r}")
    return PropertyFilterGroup(operator, tuple(frozen))


def _labels(mode: Literal["any", "all"], labels: Iterable[str]) -> LabelFilter:
    try:
        names = name_tuple("labels", labels)
    except InvalidArgument as error:
        raise InvalidFilter(str(error)) from error
    if not names:
        raise InvalidFilter("labels: expected at least one label")
    return LabelFilter(mode, names)


def _frozen(value: Any, place: str) -> Any:
    if isinstance(value, (PropertyFilter, PropertyFilterGroup)):
        return value
    value = _scalar(value)
    if value is None or isinstance(value, (str, int, float)):
        return value
    if isinstance(value, (list, tuple, dict)):
        try:
            return Json(compact(value))
        except (TypeError, ValueError) as error:
            raise InvalidFilter(f"{place}: expected a value that JSON can hold, got {value!r}") from error
    raise InvalidFilter(f"{place}: expected a plain value or a PropertyFilter, got {value!r} ({type(value).__name__})")


def _scalar(value: Any) -> Any:
    """A single value as plain Python: numpy's numbers as Python's, dates and times as ISO 8601."""
    if isinstance(value, np.generic):
        return value.item()
    return value.isoformat() if isinstance(value, (datetime.date, datetime.time)) else value
