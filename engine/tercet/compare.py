"""Conditions on one property, evaluated for all rows at once.

Two ways of comparing: `sqlite=False` is this engine's own, `sqlite=True` that of a database that stores JSON in
SQLite, in which lists and objects are their text, letters fold in ASCII only, and a null compares with nothing.
"""

import json
import math
import operator
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tercet.property_values import BOOLEAN, MISSING, NESTED, NUMBER, TEXT, Property, compact, is_nan

_SIGNS = {"eq": operator.eq, "gt": operator.gt, "gte": operator.ge, "lt": operator.lt, "lte": operator.le}
_WORDS = {"eq": pc.equal, "gt": pc.greater, "gte": pc.greater_equal, "lt": pc.less, "lte": pc.less_equal}


def ordered(prop: Property, relation: str, value: Any, *, sqlite: bool) -> np.ndarray:
    """Rows whose value is of the same class and stands in the relation: eq, gt, gte, lt or lte.

    Numbers compare exactly (integers beyond 2**53 too), booleans as 0 and 1, text by code points.

    Args:
        value: a number, a boolean or text; None and NaN compare with nothing.

    Returns:
        (N,) bool.
    """
    if isinstance(value, str):
        held = np.asarray(pc.fill_null(_WORDS[relation](prop.words, pa.scalar(value, pa.large_string())), False))
        return held if sqlite else held & (prop.kind == TEXT)
    if value is None or is_nan(value):
        return np.zeros(len(prop.kind), bool)
    held = _SIGNS[relation](_sign(prop, value), 0)
    return held & ((prop.kind == NUMBER) | (prop.kind == BOOLEAN))


def between(prop: Property, low: Any, high: Any, *, sqlite: bool) -> np.ndarray:
    """Rows from low to high, both included; in SQLite every number is below every text."""
    held = ordered(prop, "gte", low, sqlite=sqlite)
    if isinstance(high, str) and not isinstance(low, str):
        return held
    return held & ordered(prop, "lte", high, sqlite=sqlite)


def equals(prop: Property, value: Any, *, sqlite: bool) -> np.ndarray:
    """Rows with a value; None: rows without one.

    Args:
        value: for a list or an object: compared by content, or in SQLite by text, sorted keys against stored ones.
    """
    if value is None:
        return prop.kind == MISSING
    if not isinstance(value, (list, dict)):
        return ordered(prop, "eq", value, sqlite=sqlite)
    if sqlite:
        return ordered(prop, "eq", sorted_json(value), sqlite=True)
    return _on_distinct(prop.words, lambda text: json.loads(text) == value, prop.kind == NESTED)


def differs(prop: Property, value: Any, *, sqlite: bool) -> np.ndarray:
    """Rows without the value: those with another, and those with none."""
    if sqlite and (value is None or is_nan(value)):
        return prop.kind == MISSING  # a comparison with null is never true
    return ~equals(prop, value, sqlite=sqlite)


def holds_text(prop: Property, where: str, part: str, *, case_sensitive: bool, sqlite: bool) -> np.ndarray:
    """Rows whose value, as text, contains, starts_with or ends_with a part.

    Without case, texts are compared case-folded (Unicode); in SQLite only their ASCII letters are lowered, against the
    part lowered in full. Booleans are no text, except in SQLite, where they are "0" and "1".
    """
    texts = prop.spelled(sqlite_real) if sqlite else prop.text
    candidates = prop.kind != MISSING if sqlite else prop.kind > BOOLEAN
    if case_sensitive:
        if sqlite and where == "ends_with" and not part:
            return candidates & np.asarray(pc.fill_null(pc.equal(texts, ""), False))
    elif sqlite:
        texts, part = pc.ascii_lower(texts), part.lower()
    elif pc.all(pc.string_is_ascii(texts), min_count=0).as_py():
        texts, part = pc.ascii_lower(texts), part.casefold()
    else:
        tests: dict[str, Callable[[str, str], bool]] = {
            "contains": operator.contains, "starts_with": str.startswith, "ends_with": str.endswith,
        }  # fmt: skip
        test = tests[where]
        folded = part.casefold()
        return _on_distinct(texts, lambda text: test(text.casefold(), folded), candidates)
    match = {"contains": pc.match_substring, "starts_with": pc.starts_with, "ends_with": pc.ends_with}[where]
    return candidates & np.asarray(pc.fill_null(match(texts, part), False))


def matches(prop: Property, pattern: re.Pattern[str], *, sqlite: bool) -> np.ndarray:
    """Rows in whose value, as text, a pattern of Python's `re` is found; each distinct text is searched once.

    Arrow's own pattern matching is of another dialect, without look-around and back references.
    """
    candidates = prop.kind != MISSING if sqlite else prop.kind > BOOLEAN
    return _on_distinct(prop.text, lambda text: pattern.search(text) is not None, candidates)


def sorted_json(value: Any) -> str:
    """JSON text without blanks, keys sorted."""
    return json.dumps(json.loads(compact(value)), ensure_ascii=False, separators=(",", ":"), sort_keys=True)


def sqlite_real(value: float) -> str:
    """A float as SQLite writes it: 15 digits, always with a point."""
    if math.isinf(value):
        return "Inf" if value > 0 else "-Inf"
    digits, exponent, power = f"{value:.15g}".partition("e")
    return f"{digits}{'' if '.' in digits else '.0'}{exponent}{power}"


def _sign(prop: Property, value: Any) -> np.ndarray:
    """(N,) int8: -1, 0 or 1 as the number is below, equal to or above the value, which may be any integer or float."""
    try:
        near = float(value)
    except OverflowError:
        return np.full(len(prop.kind), -1 if value > 0 else 1, np.int8)
    sign = (prop.number > near).astype(np.int8) - (prop.number < near)
    if math.isinf(near) or abs(near) < 2**53:
        return sign
    tied = np.flatnonzero(prop.number == near)  # these may still differ in the digits that float64 drops
    exact = int(value)
    sign[tied] = (int(near) > exact) - (int(near) < exact)
    if prop.integer is not None:
        whole = tied[prop.whole[tied]]
        held = prop.integer[whole]
        if -(2**63) <= exact < 2**63:
            sign[whole] = (held > exact).astype(np.int8) - (held < exact)
        else:
            sign[whole] = -1 if exact > 0 else 1
    return sign


def _on_distinct(texts: pa.LargeStringArray, test: Callable[[str], bool], candidates: np.ndarray) -> np.ndarray:
    """A test of Python's on each distinct text among the candidates."""
    at = np.flatnonzero(candidates)
    encoded = texts.take(pa.array(at)).dictionary_encode()
    held = np.fromiter((test(text) for text in encoded.dictionary.to_pylist()), bool, len(encoded.dictionary))
    out = np.zeros(len(texts), bool)
    if len(held):
        out[at] = held[np.asarray(encoded.indices)]
    return out
