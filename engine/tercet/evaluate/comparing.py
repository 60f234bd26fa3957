"""Two run folders side by side: what differs in how they were made, and in what they found. Nothing is run."""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tercet.errors import InvalidArgument, InvalidData
from tercet.evaluate.agreement import Agreement, agreement
from tercet.evaluate.folder import CONFIG, read_evaluations, read_manifest, read_mode
from tercet.evaluate.markdown import agreements, differences, table
from tercet.evaluate.metrics import Evaluation
from tercet.evaluate.significance import Comparison, compare, corrected

SETTINGS = (
    "data.engine",
    "data.queries",
    "data.graph",
    "mode",
    "device",
    "versions",
    "commit",
    "machine",
    "query_vectors",
)


@dataclass(frozen=True, eq=False)
class Side:
    """What `compare_folders` found; in pairs, the first is of A and the second of B."""

    names: tuple[str, str]
    settings: dict[str, tuple[Any, Any]]  # what differs, by its path; None where one hasn't got it
    comparison: Comparison  # B against A
    agreements: dict[str, Agreement]  # B with A
    only: tuple[list[str], list[str]]  # modes that only one has, or that did not run in the other

    def summary(self) -> dict[str, Any]:
        """What fits into JSON."""
        return {
            "a": self.names[0], "b": self.names[1], "settings": {k: list(v) for k, v in self.settings.items()},
            "comparison": self.comparison.summary(),
            "agreements": {n: a.summary() for n, a in self.agreements.items()},
            "only_a": self.only[0], "only_b": self.only[1],
        }  # fmt: skip

    def __str__(self) -> str:
        a, b = self.names
        rows = [[k, _shown(x), _shown(y)] for k, (x, y) in self.settings.items()]
        parts = [f"# {b} against {a}"]
        parts += ["## What differs", table(["setting", "A", "B"], rows)] if rows else ["No setting differs."]
        found = differences(self.comparison.summary())
        parts += ["## Differences, B less A", found] if found else []
        found = agreements({n: x.summary() for n, x in self.agreements.items()})
        parts += ["## Agreement of B with A", found] if found else []
        parts += [f"Only in {n}: {', '.join(names)}" for n, names in zip("AB", self.only, strict=True) if names]
        return "\n\n".join(parts)


def compare_folders(
    a: str | Path,
    b: str | Path,
    *,
    modes: Sequence[tuple[str, str]] | None = None,
    measures: Sequence[str] | None = None,
    resamples: int = 10_000,
    seed: int = 0,
) -> Side:
    """Compare run B with run A, from their folders alone.

    Args:
        modes: pairs of a mode of A and one of B; None: those of the same name that ran in both, or without any the
            first of each.
        measures, resamples, seed: as in `compare`.

    Raises:
        InvalidArgument: no such folder, mode or measure.
        InvalidData: half-written folders; or they were judged by different qrels, so that no number can be compared.
    """
    folders = (Path(a), Path(b))
    manifests = [read_manifest(f) for f in folders]
    hashes = [m["data"]["qrels"]["sha256"] for m in manifests]
    if hashes[0] != hashes[1]:
        counts = [f"{m['data']['qrels']['judgements']} judgements of {m['data']['qrels']['queries']} queries"
                  for m in manifests]  # fmt: skip
        raise InvalidData(
            f"compare: {folders[0]} and {folders[1]} were judged by different qrels ({' and '.join(counts)})"
        )
    found = [read_evaluations(f) for f in folders]
    pairs = list(modes) if modes is not None else _pairs(found)
    for i, side in enumerate("AB"):
        for pair in pairs:
            if not isinstance(found[i].get(pair[i]), Evaluation):
                why = found[i].get(pair[i], f"there are {', '.join(found[i])}")
                raise InvalidArgument(f"compare: {side} has no ranking of {pair[i]!r}: {why}")
    rows: list[Any] = []
    left_out: dict[str, str] = {}
    made = None
    for mine, theirs in pairs:
        one = {"A": replace(found[0][mine], name="A"), "B": replace(found[1][theirs], name="B")}  # type: ignore[type-var]
        made = compare(one, ["A"], measures=measures, resamples=resamples, seed=seed)
        name = mine if mine == theirs else f"{theirs} / {mine}"
        rows += [replace(r, system=name, baseline="A") for r in made.rows]
        left_out |= made.left_out
    comparison = Comparison(corrected(rows), left_out, resamples, seed, 0.01 if made is None else made.least)
    agreed = {theirs: agreement(read_mode(folders[1], theirs), replace(read_mode(folders[0], mine), name=f"A:{mine}"))
              for mine, theirs in pairs}  # fmt: skip
    only = tuple([n for n in found[i] if n not in {p[i] for p in pairs}] for i in (0, 1))
    return Side((folders[0].name, folders[1].name), settings_that_differ(folders, manifests), comparison, agreed,
                only)  # type: ignore[arg-type]  # fmt: skip


def settings_that_differ(folders: Sequence[Path], manifests: Sequence[Mapping[str, Any]]) -> dict[str, tuple[Any, Any]]:
    """By path, the settings of two runs that aren't equal: those of the configuration, then what they ran on."""
    config = [_flat(tomllib.loads((f / CONFIG).read_text(encoding="utf-8"))) for f in folders]
    about = [_flat({k: _at(m, k) for k in SETTINGS}) for m in manifests]
    out = {}
    for first, second in (config, about):
        for key in dict.fromkeys([*first, *second]):
            if first.get(key) != second.get(key):
                out[key] = (first.get(key), second.get(key))
    return out


def _pairs(found: Sequence[Mapping[str, Evaluation | str]]) -> list[tuple[str, str]]:
    ran = [[n for n, e in f.items() if isinstance(e, Evaluation)] for f in found]
    same = [(n, n) for n in ran[0] if n in ran[1]]
    own = [n for n, _ in same if n not in ("dense", "bm25")]
    return same if own or not ran[0] or not ran[1] else [(ran[0][0], ran[1][0]), *same]


def _flat(values: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    out: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, Mapping):
            out |= _flat(value, f"{above}{key}.")
        else:
            out[f"{above}{key}"] = value
    return out


def _at(values: Mapping[str, Any], path: str) -> Any:
    for key in path.split("."):
        values = values.get(key, {}) if isinstance(values, Mapping) else {}
    return values


def _shown(value: Any) -> str:
    text = "-" if value is None else str(value)
    return text if len(text) <= 60 else f"{text[:57]}…"
