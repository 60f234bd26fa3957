"""Arguments as hashable values, so that calls with equal settings can be found and run together."""

from collections.abc import Hashable
from typing import Any

from tercet.conditions import LabelFilter, PropertyFilter, PropertyFilterGroup

PLAIN = (bool, int, float, str, bytes, type(None))
FROZEN = (LabelFilter, PropertyFilter, PropertyFilterGroup)  # values that hash and compare by what they say
LONG = 256  # entries; a longer container is known by identity, because looking into it takes the caller's time


class Same:
    """An object known by identity; holding it keeps the identity from being given to another."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and other.value is self.value


def frozen(value: Any, loose: list[Any]) -> tuple[Hashable, Any]:
    """A key of a value, and a copy of it that its owner can't change.

    Values that are neither plain nor short containers of plain ones (masks, expressions, functions) are their own copy
    and are keyed by identity.

    Args:
        loose: gets the values that were keyed by identity.

    Returns:
        equal keys for equal values of equal types, and the copy.
    """
    kind = type(value)
    if kind in PLAIN:
        return (kind, value), value
    if kind in (list, tuple, set, frozenset) and len(value) <= LONG:
        pairs = [frozen(v, loose) for v in value]
        keys = [key for key, _ in pairs]
        unordered = kind in (set, frozenset)
        return (kind, frozenset(keys) if unordered else tuple(keys)), kind(copy for _, copy in pairs)
    if kind is dict and len(value) <= LONG:
        items = [(frozen(k, loose), frozen(v, loose)) for k, v in value.items()]
        return (dict, tuple((k[0], v[0]) for k, v in items)), {k[1]: v[1] for k, v in items}
    if kind in FROZEN:
        try:
            hash(value)
        except TypeError:  # holds a list that someone may still change
            pass
        else:
            return (kind, value), value
    loose.append(value)
    return Same(value), value
