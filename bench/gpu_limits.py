"""Time on a device, and what the device can do at most: copy bandwidth and matrix rates."""

import platform
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch

ROOT = Path(__file__).resolve().parent.parent
WARMUPS = 2
FLUSH = 4  # times the L2 cache


@dataclass(frozen=True)
class Timing:
    """What `Bench.timed` found; seconds a call."""

    p20_s: float
    median_s: float
    p80_s: float
    repeats: int
    peak_bytes: int | None  # on the device, above what was held before; None on the CPU


@dataclass(frozen=True)
class Bench:
    """Where and how long a step runs."""

    device: torch.device
    small: bool  # tiny sizes: whether everything runs, not how fast
    budget_s: float  # of one cell
    repeats: int = 15

    @property
    def free_bytes(self) -> int:
        """Memory that a problem may take."""
        return int(torch.cuda.mem_get_info(self.device)[0]) if self.device.type == "cuda" else 1 << 30

    def generator(self, seed: int) -> torch.Generator:
        return torch.Generator(self.device).manual_seed(seed)

    def timed(self, call: Callable[[], object]) -> Timing:
        """Quantiles of a call's time, from an L2 cache that holds nothing of it.

        CUDA events around a call count the gaps in which the device waits for the host too.
        """
        on_cuda = self.device.type == "cuda"
        begin = time.perf_counter()
        for _ in range(WARMUPS):
            call()
        peak = None
        if on_cuda:
            torch.cuda.synchronize(self.device)
            torch.cuda.reset_peak_memory_stats(self.device)
            before = torch.cuda.memory_allocated(self.device)
            call()
            torch.cuda.synchronize(self.device)
            peak = torch.cuda.max_memory_allocated(self.device) - before
        spent: list[float] = []
        flush = torch.empty(FLUSH * l2_bytes(self.device), dtype=torch.int8, device=self.device) if on_cuda else None
        while not spent or (len(spent) < self.repeats and time.perf_counter() - begin < self.budget_s):
            spent.append(_once(call, self.device, flush))
        p20, median, p80 = np.quantile(spent, (0.2, 0.5, 0.8)).tolist()
        return Timing(p20, median, p80, len(spent), peak)

    def cell(
        self,
        op: str,
        problem: str,
        call: Callable[[], object],
        *,
        num_bytes: int,
        flops: int = 0,
        rate: str | None = None,
        queries: int | None = None,
        **more: Any,
    ) -> dict[str, Any]:
        """One timed row.

        Args:
            num_bytes: what has to move at least, each input byte that is needed and each result byte once.
            flops: multiplications and additions; rate: which matrix rate they compare with, if any.
            queries: answered by the call.
        """
        return {
            "op": op, "problem": problem, **asdict(self.timed(call)), "bytes": num_bytes, "flops": flops, "rate": rate,
            "queries": queries, **more,
        }  # fmt: skip


def _once(call: Callable[[], object], device: torch.device, flush: torch.Tensor | None) -> float:
    if flush is None:
        begin = time.perf_counter()
        call()
        return time.perf_counter() - begin
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    flush.zero_()
    start.record()
    call()
    end.record()
    torch.cuda.synchronize(device)
    return start.elapsed_time(end) / 1e3


def l2_bytes(device: torch.device) -> int:
    """The L2 cache's size; a large one where torch doesn't tell."""
    return int(getattr(torch.cuda.get_device_properties(device), "L2_cache_size", 0)) or 128 << 20


def limits(bench: Bench) -> Iterator[dict[str, Any]]:
    """Copy bandwidth and the rates of square products, as torch reaches them: what the other rows are shares of.

    float32 is torch's default: without TF32.
    """
    size = 1 << 16 if bench.small else min(4 << 30, bench.free_bytes // 8)
    source = torch.zeros(size, dtype=torch.int8, device=bench.device)
    target = torch.empty_like(source)
    yield bench.cell("copy", f"{size:,} bytes", partial(target.copy_, source), num_bytes=2 * size)
    del source, target
    side = 128 if bench.small else 8192
    for name, dtype in (("fp32", torch.float32), ("fp16", torch.float16), ("bf16", torch.bfloat16)):
        a = torch.randn(side, side, generator=bench.generator(0), device=bench.device).to(dtype)
        yield bench.cell(
            "matmul", f"{name} {side} x {side} x {side}", lambda a=a: a @ a, num_bytes=3 * side**2 * dtype.itemsize,
            flops=2 * side**3, rate=name,
        )  # fmt: skip


def about(device: torch.device) -> dict[str, Any]:
    """What the figures depend on."""
    found: dict[str, Any] = {"device": str(device), "python": platform.python_version(), "commit": _commit()}
    for name in ("torch", "triton", "numpy", "numba", "pyarrow", "cupy", "faiss", "pylibcugraph"):
        found[name] = import_module(name).__version__ if find_spec(name) else None
    if device.type == "cuda":
        about_device = torch.cuda.get_device_properties(device)
        found |= {
            "device": about_device.name, "capability": f"{about_device.major}.{about_device.minor}",
            "multiprocessors": about_device.multi_processor_count, "memory_bytes": about_device.total_memory,
            "l2_bytes": l2_bytes(device), "cuda": torch.version.cuda,
        }  # fmt: skip
    return found


def _commit() -> str | None:
    git = shutil.which("git")
    if git is None:
        return None
    asked = [git, "describe", "--always", "--dirty"]
    return subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip() or None
