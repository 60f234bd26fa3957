"""Settings of an evaluation from a TOML file."""

import inspect
import tomllib
from pathlib import Path
from typing import Any

from tercet.errors import InvalidArgument, InvalidData

NOT_SETTINGS = ("engine", "queries", "qrels", "settings", "citations", "count_tokens", "out", "resume", "ray", "actors",
                "progress")  # fmt: skip


def read_config(path: str | Path) -> dict[str, Any]:
    """The keyword arguments of `evaluate` that a file holds: its options on top, and a table `modes.<name>` a mode.

    A table `sweep.<name>` stands for a mode a point of its grid, see `tercet.evaluate.sweep`. TOML has no null, so the
    text "none" is None in both.

    ```toml
    level = "passage"
    prefix = "passage:"
    [modes.recall]
    wide_search_top_k = 200
    [modes.hybrid]
    verb = "hybrid_search"
    [sweep.wide]
    verb = "recall"
    wide_search_top_k = [50, 100, 200]
    ```

    Raises:
        InvalidArgument: no such file, or an unknown option.
        InvalidData: not TOML.
    """
    from tercet.evaluate.modes import check_modes
    from tercet.evaluate.report import evaluate
    from tercet.evaluate.sweep import grid
    from tercet.evaluate.toml import without_none

    path = Path(path)
    if not path.is_file():
        raise InvalidArgument(f"{path}: no such file")
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidData(f"{path}: not valid TOML: {error}") from error
    modes, sweeps = found.pop("modes", None), found.pop("sweep", None)
    known = sorted(set(inspect.signature(evaluate).parameters) - set(NOT_SETTINGS))
    unknown = sorted(set(found) - set(known))
    if unknown:
        raise InvalidArgument(
            f"{path}: unknown options {', '.join(unknown)}; known are {', '.join(known)}, modes, sweep"
        )
    settings: dict[str, Any] = {}
    for what, tables in (("modes", modes), ("sweep", sweeps)):
        if tables is None:
            continue
        if not isinstance(tables, dict) or not tables or not all(isinstance(t, dict) for t in tables.values()):
            raise InvalidArgument(f"{path}: expected tables [{what}.<name>], got {tables!r:.100}")
        made = without_none(tables)
        made = grid(made) if what == "sweep" else made
        twice = sorted(set(made) & set(settings))
        if twice:
            raise InvalidArgument(f"{path}: {twice[0]!r} is both a mode and a point of a sweep")
        settings |= made
    if settings:
        check_modes(settings)
        found["settings"] = settings
    return found
