"""Settings: `configs/bench/default.toml` holds all of them; other files and `--set` hold differences."""

import tomllib
from collections.abc import Iterable
from copy import deepcopy
from pathlib import Path
from typing import Any

from bench.machine import ROOT
from tercet.errors import InvalidArgument

FOLDER = ROOT / "configs" / "bench"
DEFAULT = FOLDER / "default.toml"
Config = dict[str, dict[str, Any]]  # table, setting, value


def load(files: Iterable[str | Path] = (), sets: Iterable[str] = ()) -> Config:
    """The default settings with the differences of some files, in order, then those of the command line.

    Args:
        files: TOML files; a bare name such as `quick` is one of `configs/bench`.
        sets: `table.setting=value`, the value as in TOML.

    Raises:
        InvalidArgument: a table or setting that the defaults don't have, or a value of another type; both are named.
    """
    config = _read(DEFAULT)
    for name in files:
        path = find(name)
        merge(config, _read(path), str(path))
    for text in sets:
        place, equals, value = text.partition("=")
        table, dot, key = place.strip().partition(".")
        if not equals or not dot:
            raise InvalidArgument(f"--set: expected table.setting=value, got {text!r}")
        merge(config, {table: {key: _value(text, value)}}, "--set")
    return config


def find(name: str | Path) -> Path:
    """The file of a name: a path, or the stem of a file in `configs/bench`."""
    path = Path(name)
    if path.suffix != ".toml" and path.name == str(name):
        path = FOLDER / f"{name}.toml"
    if not path.is_file():
        known = ", ".join(sorted(p.stem for p in FOLDER.glob("*.toml")))
        raise InvalidArgument(f"{path}: no such file; configs/bench has {known}")
    return path


def merge(config: Config, other: dict[str, Any], where: str) -> None:
    """Put the values of `other` over those of `config`."""
    for table, settings in other.items():
        if table not in config:
            raise InvalidArgument(f"{where}: unknown table {table!r}; there are {', '.join(config)}")
        if not isinstance(settings, dict):
            raise InvalidArgument(f"{where}: {table}: expected a table, got {settings!r}")
        for key, value in settings.items():
            if key not in config[table]:
                raise InvalidArgument(f"{where}: unknown setting '{table}.{key}'; it has {', '.join(config[table])}")
            config[table][key] = _checked(f"{where}: {table}.{key}", config[table][key], value)


def _checked(place: str, default: Any, value: Any) -> Any:
    if isinstance(default, float) and type(value) is int:
        return float(value)
    if type(value) is not type(default):
        raise InvalidArgument(f"{place}: expected {type(default).__name__}, got {value!r}")
    if isinstance(default, list) and default:
        return [_checked(f"{place}[{i}]", default[0], v) for i, v in enumerate(value)]
    return deepcopy(value)


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise InvalidArgument(f"{path}: {error}") from error


def _value(text: str, value: str) -> Any:
    try:
        return tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError as error:
        raise InvalidArgument(f"--set {text!r}: the value isn't TOML: {error}") from error
