"""Time a call: every sample of wall time, their quantiles, process CPU time and, if asked, the growth of memory."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tercet.errors import InvalidArgument


@dataclass(frozen=True)
class Timing:
    """What `measure` found; times are seconds a call."""

    p20_s: float
    median_s: float
    p80_s: float
    cpu_s: float  # median CPU time of the process, all threads together
    repeats: int  # timed calls
    warmups: int  # calls before them; 0 says that the figures include what only a first call pays
    peak_rss_delta: int | None  # bytes
    samples_s: tuple[float, ...] = ()  # wall time of each timed call, in order


def measure(
    fn: Callable[..., object],
    *,
    before: Callable[[], object] | None = None,
    warmup: int = 1,
    repeats: int = 7,
    budget_s: float = 30,
    memory: bool = False,
) -> Timing:
    """Call `fn` again and again and return the quantiles 20, 50 and 80 of its wall time.

    Args:
        fn: the call. It has to wait for its own device work (`torch.cuda.synchronize`) before it returns.
        before: called ahead of each call, untimed; `fn` gets its result as the only argument.
        warmup: untimed calls first.
        repeats: most timed calls.
        budget_s: wall time for everything. Another call starts only if one as long as the longest so far still fits;
            at least one is timed. Where the first warm-up leaves no room for a timed call, it becomes the timed one
            and `warmups` is 0.
        memory: also report by how much the resident memory rose above its level before the timed calls, at its
            highest. None where the system doesn't tell (it takes Linux's /proc).

    Raises:
        InvalidArgument: `repeats` below 1 or `warmup` below 0.
    """
    if repeats < 1 or warmup < 0:
        raise InvalidArgument(f"measure: expected repeats >= 1 and warmup >= 0, got {repeats} and {warmup}")
    start = time.perf_counter()
    level = reset_peak_rss() if memory else None
    warm: list[tuple[float, float]] = []
    timed: list[tuple[float, float]] = []

    def fits() -> bool:
        longest = max((wall for wall, _ in warm + timed), default=0.0)
        return time.perf_counter() - start + longest <= budget_s

    while len(warm) < warmup and (not warm or fits()):
        warm.append(_once(fn, before))
    if len(warm) == 1 and not fits():
        timed, warm = warm, []
    elif memory:
        level = reset_peak_rss()
    while len(timed) < repeats and (not timed or fits()):
        timed.append(_once(fn, before))
    wall, cpu = np.array(timed).T
    p20, median, p80 = np.quantile(wall, (0.2, 0.5, 0.8)).tolist()
    peak = None if level is None else max(0, status_bytes("VmHWM") - level)
    return Timing(p20, median, p80, float(np.median(cpu)), len(timed), len(warm), peak, tuple(wall.tolist()))


def _once(fn: Callable[..., object], before: Callable[[], object] | None) -> tuple[float, float]:
    given = () if before is None else (before(),)
    cpu, wall = time.process_time(), time.perf_counter()
    fn(*given)
    return time.perf_counter() - wall, time.process_time() - cpu


def reset_peak_rss() -> int | None:
    """Set the process's peak resident memory to its present value and return that; None where that can't be done."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
        return status_bytes("VmRSS")
    except OSError:
        return None


def anonymous_bytes() -> int | None:
    """Memory of this process that isn't pages of files, which the system can drop; None where nothing tells."""
    try:
        return status_bytes("RssAnon")
    except OSError:
        return None


def status_bytes(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    raise OSError(f"/proc/self/status has no {field}")
