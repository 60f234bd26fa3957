"""Sweeps: a grid over the arguments of a verb, as one mode a point."""

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

from tercet.errors import InvalidArgument

MOST = 1000  # points of one sweep; more is a slip


def grid(sweeps: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """The modes of some sweeps.

    Every list is an axis, in nested tables too: `{"recall": {"wide_search_top_k": [50, 200], "top_k": 20}}` gives
    `recall[wide_search_top_k=50]` and `recall[wide_search_top_k=200]`, both with `top_k` 20. The last axis changes
    first. An axis of one value isn't part of the name. An argument that is a list itself is written as a list of it.

    Args:
        sweeps: by name, arguments of a verb; `verb` where the name isn't one.

    Raises:
        InvalidArgument: an axis without a value or with one twice, or more than 1,000 points.
    """
    out: dict[str, dict[str, Any]] = {}
    for name, given in sweeps.items():
        if not isinstance(given, Mapping):
            raise InvalidArgument(f"sweep[{name!r}]: expected arguments, got {given!r:.100}")
        base = {"verb": given.get("verb", name)}
        axes = dict(_axes(name, {k: v for k, v in given.items() if k != "verb"}, ()))
        points = 1
        for values in axes.values():
            points *= len(values)
        if points > MOST:
            raise InvalidArgument(f"sweep[{name!r}]: {points:,} points, expected at most {MOST:,}")
        varied = [path for path, values in axes.items() if len(values) > 1]
        for chosen in product(*axes.values()):
            point = dict(zip(axes, chosen, strict=True))
            label = ",".join(f"{'.'.join(path)}={shown(point[path])}" for path in varied)
            out[f"{name}[{label}]" if label else name] = base | _nested(point)
    return out


def shown(value: Any) -> str:
    """A value inside the name of a mode: no white space, no slash."""
    text = ";".join(map(shown, value)) if isinstance(value, (list, tuple)) else str(value)
    return "_".join(text.replace("/", "|").replace(",", ";").split())


def _axes(name: str, given: Mapping[str, Any], above: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], list[Any]]]:
    """Each argument's path and its values."""
    for key, value in given.items():
        path = (*above, key)
        if isinstance(value, Mapping):
            yield from _axes(name, value, path)
            continue
        values = list(value) if isinstance(value, (list, tuple)) else [value]
        if not values or len({shown(v) for v in values}) < len(values):
            raise InvalidArgument(f"sweep[{name!r}]: expected distinct values for {'.'.join(path)}, got {value!r}")
        yield path, values


def _nested(point: Mapping[tuple[str, ...], Any]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for path, value in point.items():
        inner = out
        for key in path[:-1]:
            inner = inner.setdefault(key, {})
        inner[path[-1]] = value
    return out
