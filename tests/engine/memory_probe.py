"""A process of its own that opens a store and says how far its memory grew: `memory_probe.py SMALL STORE`.

A small store of the same kind comes first, so that imports, compiled kernels and threads are there before the level is
taken. Then everything that the large one holds is read, and one batch of each projection is answered.
"""

import gc
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch

import tercet
from tercet.memory_parts import _leaves

WARM = 32  # queries; more would leave memory behind that the measured batch takes again
ASKED: dict[str, dict[str, Any]] = {
    "induced": {"projection": "induced"},
    "incident": {"projection": "incident"},
    "full": {"projection": "full"},
    "unlimited": {"wide_search_top_k": None},
}
BATCH = 256


def status(field: str) -> int:
    text = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) << 10 for line in text.splitlines() if line.startswith(f"{field}:"))


def ask(engine: tercet.Engine, batch: int, given: dict[str, Any]) -> None:
    queries = torch.randn(batch, engine.dimension, generator=torch.Generator().manual_seed(1))
    found = engine.recall(vectors=queries, **given)
    assert found.halved == 0
    found.texts()
    found.to_arrow()


def touch(engine: tercet.Engine) -> float:
    """Read something of every page."""
    total = 0.0
    for leaf in _leaves([engine.graph, *(x for c in engine.collections for x in (c.index, c.owner))]):
        if isinstance(leaf, torch.Tensor):
            total += float(leaf.flatten()[::512].double().sum())
        elif isinstance(leaf, np.ndarray):
            total += float(leaf.ravel()[::512].sum())
        else:
            total += sum(int(np.frombuffer(b, np.uint8)[::4096].sum()) for b in leaf.buffers() if b is not None)
    return total


def main(small: str, store: str) -> None:
    engine = tercet.open(small, "cpu")
    for given in ASKED.values():
        ask(engine, WARM, given)
    del engine
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")
    level = status("VmRSS")
    plans = {name: tercet.estimate_memory(store, batch=BATCH, **given) for name, given in ASKED.items()}
    engine = tercet.open(store, "cpu", verify=False)
    touch(engine)
    out = {}
    for name, given in ASKED.items():
        ask(engine, BATCH, given)
        out[name] = {"real": status("VmHWM") - level, "planned": plans[name].peak, "resident": plans[name].resident}
        gc.collect()
        Path("/proc/self/clear_refs").write_text("5")
    print(json.dumps(out))


if __name__ == "__main__":
    main(*sys.argv[1:])
