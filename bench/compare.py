"""Two runs, cell by cell: what became slower beyond the noise.

Noise is what can be seen of it: the spread of a cell's own samples, and how much the cells of other systems changed,
whose code is the same in both runs. On a busy machine the second is the larger by far.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from bench.records import Cell, Run, identity
from tercet.errors import InvalidArgument

FEWEST = 3  # samples that show a spread


@dataclass(frozen=True)
class Pair:
    """A cell in both runs; times are seconds, or multiples of the reference workload's across machines."""

    name: str
    old_median: float
    new_median: float
    noise: float  # spread between the quantiles 20 and 80 over the median, the larger of both runs
    ours: bool  # Tercet's, not another system's
    verdict: str  # "WORSE", "better", "noise", "small", "few samples"; "slower" for another system
    rankings: str  # "same", "differ" or "" where not both runs kept them

    @property
    def ratio(self) -> float:
        return self.new_median / self.old_median

    @property
    def worse(self) -> bool:
        return self.verdict == "WORSE"


@dataclass(frozen=True)
class Comparison:
    pairs: list[Pair]
    refused: list[str]  # in the new run
    only_old: list[str]
    only_new: list[str]
    others: tuple[float, float, float] | None  # quantiles 5, 50 and 95 of the ratios of other systems' cells

    @property
    def failed(self) -> bool:
        return bool(self.refused) or any(p.worse for p in self.pairs)


def compare(old: Run, new: Run, threshold: float = 0.10, *, across: bool = False) -> Comparison:
    """Pair the cells of two runs by suite, system, workload and settings.

    A cell of Tercet is worse when its median grew by more than `threshold` and by more than 95 % of the other
    systems' cells, its quantile 20 is beyond the old quantile 80, and both hold three samples at least.

    Args:
        across: take each time as a multiple of the run's own reference workload, so that machines may differ.

    Raises:
        InvalidArgument: machines or threads differ and `across` is off, or a run lacks the reference workload.
    """
    if not across:
        for what, a, b in (
            ("machine", old.manifest["machine"]["id"], new.manifest["machine"]["id"]),
            ("threads", old.manifest["threads"], new.manifest["threads"]),
        ):
            if a != b:
                raise InvalidArgument(f"compare: the runs have another {what}, {a} and {b}; see --across-machines")
    units = [_reference(run) for run in (old, new)]
    if across and None in units:
        missing = (old if units[0] is None else new).folder
        raise InvalidArgument(f"{missing}: no cell of the suite 'reference', which --across-machines needs")
    timed = [{identity(c): c for c in run.cells if "median_s" in c} for run in (old, new)]
    shared = [key for key in timed[0] if key in timed[1]]
    if across:
        shared = [key for key in shared if timed[0][key]["suite"] != "reference"]
    scale = [unit if across and unit else 1.0 for unit in units]
    both = [(timed[0][key], timed[1][key]) for key in shared]
    control = [_ratio(pair, scale) for pair in both if not _ours(pair[1])]
    others = tuple(np.quantile(control, (0.05, 0.5, 0.95)).tolist()) if control else None
    within = (1 / (1 + threshold), 1 + threshold)
    if others is not None:
        within = min(within[0], others[0]), max(within[1], others[2])
    pairs = [_pair((old, new), pair, scale, within) for pair in both]
    gone = [name_of(timed[0][key]) for key in timed[0] if key not in timed[1]]
    added = [name_of(timed[1][key]) for key in timed[1] if key not in timed[0]]
    refused = [f"{c['suite']}: {c['refused']}" for c in new.cells if "refused" in c]
    return Comparison(pairs, refused, gone, added, others)


def _ours(cell: Cell) -> bool:
    return str(cell["system"]).startswith("tercet")


def _ratio(cells: tuple[Cell, Cell], scale: list[float]) -> float:
    return float(cells[1]["median_s"] / scale[1] / (cells[0]["median_s"] / scale[0]))


def _pair(runs: tuple[Run, Run], cells: tuple[Cell, Cell], scale: list[float], within: tuple[float, float]) -> Pair:
    low, middle, high = ([c[q] / s for c, s in zip(cells, scale, strict=True)] for q in ("p20_s", "median_s", "p80_s"))
    ratio = middle[1] / middle[0]
    noise = max((h - lo) / m for lo, m, h in zip(low, middle, high, strict=True))
    if min(c["repeats"] for c in cells) < FEWEST:
        verdict = "few samples"
    elif low[1] <= high[0] and high[1] >= low[0]:
        verdict = "noise"
    elif within[0] <= ratio <= within[1]:
        verdict = "small"
    else:
        verdict = "better" if ratio < 1 else "WORSE" if _ours(cells[1]) else "slower"
    return Pair(name_of(cells[1]), middle[0], middle[1], noise, _ours(cells[1]), verdict, _rankings(runs, cells))


def _rankings(runs: tuple[Run, Run], cells: tuple[Cell, Cell]) -> str:
    paths = [run.folder / cell["rankings"] for run, cell in zip(runs, cells, strict=True) if "rankings" in cell]
    if len(paths) < 2 or not all(p.is_file() for p in paths):
        return ""
    with np.load(paths[0], allow_pickle=False) as a, np.load(paths[1], allow_pickle=False) as b:
        return "same" if all(np.array_equal(a[k], b[k], equal_nan=a[k].dtype.kind == "f") for k in a) else "differ"


def _reference(run: Run) -> float | None:
    return next((c["median_s"] for c in run.cells if c["suite"] == "reference" and "median_s" in c), None)


def name_of(cell: dict[str, Any]) -> str:
    """A cell as people name it."""
    settings = " ".join(f"{k}={v}" for k, v in cell.get("settings", {}).items())
    return " ".join(x for x in (cell["suite"], cell["system"], (cell.get("workload") or {}).get("name"), settings) if x)


def show(found: Comparison) -> str:
    """A line a pair, Tercet's before the others and the worst first, then what has no partner."""
    lines = []
    for pair in sorted(found.pairs, key=lambda p: (not p.ours, -p.ratio)):
        ranked = f"  rankings {pair.rankings}" if pair.rankings else ""
        lines.append(f"{pair.ratio:6.2f}x  noise {pair.noise:4.0%}  {pair.verdict:11} {pair.name}{ranked}")
    lines += [f"REFUSED {name}" for name in found.refused]
    lines += [f"only in the old run: {name}" for name in found.only_old]
    lines += [f"only in the new run: {name}" for name in found.only_new]
    if found.others is not None:
        low, middle, high = found.others
        lines.append(
            f"other systems took {middle:.2f} times as long in the new run (5 to 95 %: {low:.2f} to {high:.2f})"
        )
    worse = sum(p.worse for p in found.pairs)
    lines.append(f"{len(found.pairs)} cells compared, {worse} worse beyond the noise")
    return "\n".join(lines)
