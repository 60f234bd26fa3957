"""Settings as TOML, so that what a run was made with can be run again."""

import json
import re
from collections.abc import Mapping
from typing import Any

BARE = re.compile(r"[A-Za-z0-9_-]+")
NONE = "none"  # TOML has no null: this text stands for it in the arguments of a mode


def to_toml(values: Mapping[str, Any], place: tuple[str, ...] = ()) -> str:
    """A mapping of numbers, texts, lists and mappings as TOML; None is the text "none", NaN and infinity TOML's own.

    Values of other kinds become a comment that says what they were.
    """
    lines, tables = [], []
    for key, value in values.items():
        if isinstance(value, Mapping):
            tables.append((key, value))
        elif _can(value):
            lines.append(f"{_key(key)} = {_value(value)}")
        else:
            lines.append(f"# {_key(key)} = {type(value).__name__}, which a file can't hold")
    parts = ["\n".join(lines)] if lines else []
    for key, value in tables:
        path = (*place, key)
        head = f"[{'.'.join(map(_key, path))}]"
        inner = to_toml(value, path)
        own = not value or any(not isinstance(v, Mapping) for v in value.values())
        parts.append(f"{head}\n{inner}" if own else inner)
    return "\n\n".join(parts).rstrip("\n") + ("" if place else "\n")


def without_none(value: Any) -> Any:
    """Arguments as read from a file, with None for the text "none"."""
    if isinstance(value, dict):
        return {k: without_none(v) for k, v in value.items()}
    if isinstance(value, list):
        return [without_none(v) for v in value]
    return None if value == NONE else value


def _key(key: str) -> str:
    return key if BARE.fullmatch(key) else json.dumps(key, ensure_ascii=False)


def _can(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return all(_can(v) for v in value)
    if isinstance(value, Mapping):
        return all(_can(v) for v in value.values())
    return value is None or isinstance(value, (bool, int, float, str))


def _value(value: Any) -> str:
    if value is None:
        return f'"{NONE}"'
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return repr(value)  # nan and inf are spelled as TOML spells them
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_key(k)} = {_value(v)}" for k, v in value.items()) + "}"
    # JSON's escapes are TOML's, but for DEL, which TOML wants escaped and JSON leaves
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007F") if isinstance(value, str) else str(value)
