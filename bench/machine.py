"""What the figures of a run depend on besides its settings."""

import hashlib
import os
import platform
import subprocess
import sys
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import torch

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = (
    "tercet", "torch", "numba", "numpy", "pyarrow", "faiss-cpu", "scipy", "igraph", "networkx", "sentence-transformers",
)  # fmt: skip


def about() -> dict[str, Any]:
    """Commit, versions and machine; call it after the number of threads is set."""
    return {
        "commit": _git("rev-parse", "--short", "HEAD"), "dirty": bool(_git("status", "--porcelain")),
        "date": time.strftime("%Y-%m-%d %H:%M"), "python": platform.python_version(), "versions": versions(),
        "machine": machine(), "threads": torch.get_num_threads(),
    }  # fmt: skip


def versions() -> dict[str, str]:
    """Installed versions of what is timed; packages that aren't there are left out."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def machine() -> dict[str, Any]:
    """What stays the same between two runs that can be compared."""
    out: dict[str, Any] = {
        "cpu": processor(), "capability": torch.backends.cpu.get_cpu_capability(), "cores": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30, 1),
        "system": f"{platform.system()} {platform.machine()}", "byteorder": sys.byteorder,
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
    }  # fmt: skip
    out["id"] = hashlib.sha256(repr(sorted(out.items())).encode()).hexdigest()[:12]
    return out


def processor() -> str:
    """The processor's name, where the system tells."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.processor())


def busy() -> float | None:
    """The machine's load a core over the last minute; more than that of the benchmark itself means company."""
    return float(np.round(os.getloadavg()[0] / (os.cpu_count() or 1), 2)) if hasattr(os, "getloadavg") else None


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()
