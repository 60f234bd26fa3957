"""The values of one property as flat arrays, made from Arrow columns and from JSON values."""

import datetime
import decimal
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tercet.errors import InvalidArgument
from tercet.ids import text_column

MISSING, BOOLEAN, NUMBER, TEXT, NESTED = range(5)
_KINDS = {type(None): MISSING, bool: BOOLEAN, int: NUMBER, float: NUMBER, str: TEXT, list: NESTED, dict: NESTED}
_EXACT = 2**53  # from here on float64 doesn't hold every integer


@dataclass(frozen=True, eq=False)
class Property:
    """The values of one property, row by row, split by kind."""

    kind: np.ndarray  # (N,) int8: MISSING (or null), BOOLEAN, NUMBER, TEXT, NESTED (a list or an object)
    number: np.ndarray  # (N,) float64 of numbers, and of booleans as 0 and 1; NaN elsewhere
    whole: np.ndarray  # (N,) bool, numbers that are integers within int64
    integer: np.ndarray | None  # (N,) int64 of the whole ones, where one is too large for float64 to tell from the next
    words: pa.LargeStringArray  # (N,) text, and compact JSON of what is nested; null elsewhere

    @cached_property
    def text(self) -> pa.LargeStringArray:
        """(N,) every value as text: 2 is "2", 2.5 is "2.5", true is "1"; null where there is none."""
        return self.spelled(repr)

    def integers(self) -> np.ndarray:
        """(N,) int64 of integers, and of booleans as 0 and 1; 0 elsewhere."""
        small = self.kind == BOOLEAN if self.integer is not None else self.whole | (self.kind == BOOLEAN)
        out = np.where(small, self.number, 0.0).astype(np.int64)
        return out if self.integer is None else np.where(self.whole, self.integer, out)

    def spelled(self, real: Callable[[float], str]) -> pa.LargeStringArray:
        """Every value as text, numbers that aren't integers as `real` spells them (called once a distinct number)."""
        out = self.words
        whole = self.whole | (self.kind == BOOLEAN)
        if whole.any():
            digits = pa.array(self.integers()[whole]).cast(pa.large_string())
            out = pc.replace_with_mask(out, pa.array(whole), digits)
        rest = (self.kind == NUMBER) & ~self.whole
        if rest.any():
            distinct, at = np.unique(self.number[rest], return_inverse=True)
            texts = pa.array([real(float(v)) for v in distinct], pa.large_string())
            out = pc.replace_with_mask(out, pa.array(rest), texts.take(pa.array(at)))
        return out


def from_arrow(column: pa.Array, place: str) -> Property:
    """A property from an Arrow column.

    Raises:
        InvalidArgument: the column's type can't be compared.
    """
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    kind, size = column.type, len(column)
    valid = np.asarray(pc.is_valid(column))
    blank = pa.nulls(size, pa.large_string())
    none = np.zeros(size, bool)
    if pa.types.is_null(kind):
        return Property(np.zeros(size, np.int8), np.full(size, np.nan), none, None, blank)
    if pa.types.is_boolean(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        number = np.asarray(pc.fill_null(column.cast(pa.float64(), safe=False), np.nan))
        code = BOOLEAN if pa.types.is_boolean(kind) else NUMBER
        return Property(np.where(np.isnan(number), MISSING, code).astype(np.int8), number, none, None, blank)
    if pa.types.is_integer(kind):
        number = np.asarray(pc.fill_null(column.cast(pa.float64(), safe=False), np.nan))
        whole = valid
        if pa.types.is_uint64(kind):
            whole = np.asarray(pc.fill_null(pc.less_equal(column, pa.scalar(2**63 - 1, pa.uint64())), False))
        integer = None
        if bool((np.abs(number[valid]) >= _EXACT).any()):
            integer = np.asarray(pc.fill_null(column.cast(pa.int64(), safe=False), 0))
        return Property((valid * NUMBER).astype(np.int8), number, whole, integer, blank)
    nothing = np.full(size, np.nan)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return Property((valid * TEXT).astype(np.int8), nothing, none, None, column.cast(pa.large_string()))
    if pa.types.is_temporal(kind) and not pa.types.is_duration(kind) and not pa.types.is_interval(kind):
        encoded = column.dictionary_encode()
        texts = pa.array(plain_values(encoded.dictionary), pa.large_string()).take(encoded.indices)
        return Property((valid * TEXT).astype(np.int8), nothing, none, None, texts)
    if pa.types.is_nested(kind):  # Arrow writes no JSON: a loop over the rows, on first use
        texts = pa.array([None if v is None else compact(v) for v in plain_values(column)], pa.large_string())
        return Property((valid * NESTED).astype(np.int8), nothing, none, None, texts)
    raise InvalidArgument(f"{place}: a column of {kind} can't be used as a property in filters")


def from_values(rows: np.ndarray, values: list[Any], size: int, place: str) -> Property:
    """A property from its values at some rows, as JSON gives them; `place` names it in errors."""
    where = np.full(size, -1, np.int64)
    where[rows] = np.arange(len(rows))
    kinds = set(map(type, values))
    if kinds == {str}:
        return from_arrow(text_column(values, place).take(pa.array(where, mask=where < 0)), place)
    if kinds in ({int}, {float}) and not (kinds == {int} and (max(values) >= 2**63 or min(values) < -(2**63))):
        return from_arrow(pa.array(values).take(pa.array(where, mask=where < 0)), place)
    return _from_mixed(rows, values, size, place)


def _from_mixed(rows: np.ndarray, values: list[Any], size: int, place: str) -> Property:
    held = np.fromiter((_KINDS[type(v)] for v in values), np.int8, len(values))
    held[np.fromiter((is_nan(v) for v in values), bool, len(values))] = MISSING
    kind = np.zeros(size, np.int8)
    kind[rows] = held
    number, whole, integer = np.full(size, np.nan), np.zeros(size, bool), None
    numeric = np.flatnonzero((held == BOOLEAN) | (held == NUMBER))
    numbers = [values[i] for i in numeric.tolist()]
    number[rows[numeric]] = np.fromiter((_nearest(v) for v in numbers), np.float64, len(numbers))
    whole[rows[numeric]] = np.fromiter((type(v) is int and -(2**63) <= v < 2**63 for v in numbers), bool, len(numbers))
    if bool((np.abs(number[whole]) >= _EXACT).any()):
        integer = np.zeros(size, np.int64)
        integer[whole] = np.array([v for v in numbers if type(v) is int and -(2**63) <= v < 2**63], np.int64)
    texts = np.flatnonzero(held >= TEXT)
    words = text_column([v if isinstance(v, str) else compact(v) for v in (values[i] for i in texts.tolist())], place)
    where = np.full(size, -1, np.int64)
    where[rows[texts]] = np.arange(len(texts))
    return Property(kind, number, whole, integer, words.take(pa.array(where, mask=where < 0)))


def first_of(first: Property, second: Property) -> Property:
    """The values of the first, and those of the second where the first has none."""
    gap = first.kind == MISSING
    integer = None
    if first.integer is not None or second.integer is not None:
        integer = np.where(gap, second.integers(), first.integers())
    return Property(
        np.where(gap, second.kind, first.kind), np.where(gap, second.number, first.number),
        np.where(gap, second.whole, first.whole), integer, pc.if_else(pa.array(gap), second.words, first.words),
    )  # fmt: skip


def compact(value: Any) -> str:
    """JSON text without blanks, keys in the order they have; dates and times as ISO 8601."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_as_json)


def plain_values(column: pa.Array) -> list[Any]:
    """An Arrow column as JSON-like Python values: NaN and null fields of structs are dropped, times are ISO text."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_timestamp(column.type) and column.type.unit == "ns":
        column = column.cast(pa.timestamp("us", column.type.tz), safe=False)  # Python's times end there
    values = column.to_pylist()
    if pa.types.is_floating(column.type) or pa.types.is_temporal(column.type) or pa.types.is_decimal(column.type):
        return [_plain(value) for value in values]
    return [_plain(value) for value in values] if pa.types.is_nested(column.type) else values


def is_nan(value: Any) -> bool:
    """Whether a value is the float that equals nothing."""
    return isinstance(value, float) and math.isnan(value)


def _nearest(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:  # an integer beyond the floats
        return float("inf") if value > 0 else float("-inf")


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return None if math.isnan(value) else value
    if isinstance(value, dict):
        return {k: inner for k, v in value.items() if (inner := _plain(v)) is not None}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    return _as_json(value) if isinstance(value, (datetime.date, datetime.time, decimal.Decimal)) else value


def _as_json(value: Any) -> Any:
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, decimal.Decimal):
        return float(value)
    raise TypeError(f"{type(value).__name__} isn't JSON")
