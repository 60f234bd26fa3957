"""Settings of an evaluation from a TOML file."""

import inspect
import tomllib
from pathlib import Path
from typing import Any

from tercet.errors import InvalidArgument, InvalidData

NOT_SETTINGS = ("engine", "queries", "qrels", "settings", "citations", "count_tokens")


def read_config(path: str | Path) -> dict[str, Any]:
    """The keyword arguments of `evaluate` that a file holds: its options on top, and a table `modes.<name>` a mode.

    ```toml
    level = "passage"
    prefix = "passage:"
    [modes.recall]
    wide_search_top_k = 200
    [modes.hybrid]
    verb = "hybrid_search"
    ```

    Raises:
        InvalidArgument: no such file, or an unknown option.
        InvalidData: not TOML.
    """
    from tercet.evaluate.modes import check_modes
    from tercet.evaluate.report import evaluate

    path = Path(path)
    if not path.is_file():
        raise InvalidArgument(f"{path}: no such file")
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidData(f"{path}: not valid TOML: {error}") from error
    modes = found.pop("modes", None)
    known = sorted(set(inspect.signature(evaluate).parameters) - set(NOT_SETTINGS))
    unknown = sorted(set(found) - set(known))
    if unknown:
        raise InvalidArgument(f"{path}: unknown options {', '.join(unknown)}; known are {', '.join(known)}, modes")
    if modes is not None:
        if not isinstance(modes, dict) or not modes:
            raise InvalidArgument(f"{path}: expected tables [modes.<name>], got {modes!r:.100}")
        check_modes(modes)
        found["settings"] = modes
    return found
