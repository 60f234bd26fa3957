"""Settings of the multi-hop passage search, and the named modes that are made of them."""

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from tercet.errors import InvalidArgument

FIRST = ("dense", "lexical", "walk", "walk_near", "mention", "path", "chain")  # signals of a passage by itself
LOOK_BACK = ("residual", "named", "named_by", "shared")  # and beside the passages found first
SECOND = (*FIRST, *LOOK_BACK)

# Fitted by `python -m bench.quality fit`, see docs/quality.md.
FITTED_FIRST: Mapping[str, float] = {
    "dense": 3.133, "lexical": 1.305, "walk": 0.519, "walk_near": 0.169, "mention": -2.621, "path": 1.545,
    "chain": 0.518,
}  # fmt: skip
FITTED_SECOND: Mapping[str, float] = {
    "dense": -0.194, "lexical": 1.186, "walk": 0.499, "walk_near": 0.161, "mention": -1.949, "path": 0.644,
    "chain": 0.719, "residual": 6.248, "named": 1.217, "named_by": -0.649, "shared": 0.851,
}  # fmt: skip


@dataclass(frozen=True)
class MultihopSettings:
    """What `Engine.passage_search` adds up, and how each signal is made.

    A passage's score is the sum of its signals, each times its weight; a signal without a weight isn't computed.
    """

    first: Mapping[str, float] = field(default_factory=lambda: dict(FITTED_FIRST))  # weights of the first look
    second: Mapping[str, float] = field(default_factory=lambda: dict(FITTED_SECOND))  # of the second; empty: none
    candidates: int = 50  # passages that each signal proposes, or k if that is more
    found: int = 5  # best passages of the first look that the second one starts from
    residual: float = 0.5  # how much of a found passage's vector is taken off the query's
    damping: float = 0.5  # of the walks
    title_weight: float = 10.0  # of the step between a passage and the name it is called by; one to a name in it is 1
    near_passages: int = 5  # nearest passages that `walk_near` starts from
    capital: float = 10.0  # how much more a name counts that the query writes with a capital
    near: float = 0.5  # how much a name counts whose words stand in another order or number; 0: only as spelled
    width: int = 10  # entities of the beam of paths
    branches: int = 20  # facts followed from each
    most_facts: int = 1000  # of an entity that are looked at
    tolerance: float = 1e-3  # of the walks; recall is the same from 1e-2 to 1e-5
    floor: float = 1e-6  # share of a walk below which all passages count alike

    def __post_init__(self) -> None:
        for name, known in (("first", FIRST), ("second", SECOND)):
            _check_weights(name, getattr(self, name), known)
        if not self.first:
            raise InvalidArgument("settings first: expected a weight for at least one signal")
        for name in ("candidates", "found", "near_passages", "width", "branches", "most_facts"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise InvalidArgument(f"settings {name}: expected an integer of at least 1, got {value!r}")
        for name in ("damping", "tolerance", "floor"):
            value = getattr(self, name)
            if not _is_number(value) or not 0 < value < 1:
                raise InvalidArgument(f"settings {name}: expected a number between 0 and 1, got {value!r}")
        for name in ("residual", "title_weight", "capital", "near"):
            value = getattr(self, name)
            if not _is_number(value) or value < 0:
                raise InvalidArgument(f"settings {name}: expected a number of at least 0, got {value!r}")

    @staticmethod
    def read(path: str | Path) -> "MultihopSettings":
        """The settings of a TOML file, under `[multihop]`; what it doesn't name is as by default.

        Raises:
            InvalidArgument: no such file, not TOML, or an unknown or wrong setting.
        """
        try:
            given = tomllib.loads(Path(path).read_text(encoding="utf-8"))
        except OSError as error:
            raise InvalidArgument(f"settings {path}: {error.strerror}") from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise InvalidArgument(f"settings {path}: not valid TOML: {error}") from error
        return MultihopSettings.of(given.get("multihop", {}), str(path))

    @staticmethod
    def of(given: Mapping[str, Any], place: str = "settings") -> "MultihopSettings":
        """The settings of a mapping; what it doesn't name is as by default.

        Raises:
            InvalidArgument: not a mapping, or an unknown or wrong setting.
        """
        if not isinstance(given, Mapping):
            raise InvalidArgument(f"{place}: expected settings by name, got {given!r}")
        known = {f.name for f in fields(MultihopSettings)}
        unknown = [name for name in given if name not in known]
        if unknown:
            raise InvalidArgument(f"{place}: no setting {unknown[0]!r}; there are {', '.join(sorted(known))}")
        return MultihopSettings(**given)


def _check_weights(name: str, weights: Any, known: tuple[str, ...]) -> None:
    if not isinstance(weights, Mapping):
        raise InvalidArgument(f"settings {name}: expected weights of signals, got {weights!r}")
    for signal, weight in weights.items():
        if signal not in known:
            raise InvalidArgument(f"settings {name}: no signal {signal!r}; there are {', '.join(known)}")
        if not _is_number(weight):
            raise InvalidArgument(f"settings {name}: expected a number as the weight of {signal!r}, got {weight!r}")


def _is_number(value: Any) -> bool:
    """Whether a value is a finite number."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


# Each mode is a set of weights; all but the last are its parts, for comparison.
MODES: Mapping[str, MultihopSettings] = {
    "dense": MultihopSettings({"dense": 1.0}, {}),
    "lexical": MultihopSettings({"lexical": 1.0}, {}),
    "walk": MultihopSettings({"walk": 1.0, "dense": 3.0}, {}),
    "paths": MultihopSettings({"path": 1.0, "chain": 0.3, "dense": 1.0}, {}),
    "first": MultihopSettings(second={}),
    "multihop": MultihopSettings(),
}


def settings_of(mode: str, settings: MultihopSettings | Mapping[str, Any] | str | Path | None) -> MultihopSettings:
    """The settings that a call means: its own, a file's, or those of the mode."""
    if mode not in MODES:
        raise InvalidArgument(f"mode: expected one of {', '.join(map(repr, MODES))}, got {mode!r}")
    if settings is None:
        return MODES[mode]
    if isinstance(settings, MultihopSettings):
        return settings
    return MultihopSettings.read(settings) if isinstance(settings, (str, Path)) else MultihopSettings.of(settings)
