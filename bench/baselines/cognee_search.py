"""Time cognee's triplet search on a workload, its stores replaced by in-memory stubs.

Run by the Python of an environment that holds cognee (and not Tercet), with OMP_NUM_THREADS=1:

    python cognee_search.py WORKLOAD.npz [--budget 60] [--batches 1 16 256] [--top-k 10] [--no-limited]

One JSON line a cell on stdout, the rest on stderr: the time of a call of `batch` queries (quantiles of wall time,
`cpu_s` and `stages` as medians of CPU time; cognee computes on one thread) and the ranked triplets of its queries.

What is timed is `brute_force_triplet_search` itself, on one event loop. All that favours it: embeddings, hit lists and
records are prepared beforehand, the time inside the stubs is measured and subtracted, garbage is collected between
calls and the prepared objects are hidden from the collector.
Only cognee, NumPy, the standard library and the two files beside this one are imported.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import tempfile
from pathlib import Path
from typing import TextIO

import numpy as np
from cognee_calls import Calls


def isolate(directory: Path) -> None:
    """Before cognee is imported: no network, no telemetry, no file outside `directory`."""
    (directory / "empty.env").touch()
    os.environ.update(
        TELEMETRY_DISABLED="1",
        COGNEE_TRACING_ENABLED="false",
        LITELLM_LOCAL_MODEL_COST_MAP="True",
        LOG_LEVEL="ERROR",
        COGNEE_LOG_FILE="false",
        COGNEE_ENV_FILE=str(directory / "empty.env"),
        HOME=str(directory),
        **{f"{name}_ROOT_DIRECTORY": str(directory / name.lower()) for name in ("DATA", "SYSTEM", "CACHE")},
        **{f"COGNEE_{name}_DIR": str(directory / name.lower()) for name in ("LOGS", "REPOS")},
    )
    os.chdir(directory)

    def refuse(*_: object) -> None:
        raise OSError("the benchmark runs without network")

    socket.socket.connect = refuse  # type: ignore[method-assign, assignment]


async def main(asked: argparse.Namespace, out: TextIO) -> None:
    with np.load(asked.workload, allow_pickle=False) as arrays:
        calls = Calls(dict(arrays), asked)
    await calls.calibrate()
    if asked.limited:
        print(json.dumps(await calls.limited()), file=out, flush=True)
    for batch in asked.batches:
        print(json.dumps(await calls.full(batch)), file=out, flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workload", type=lambda text: Path(text).resolve(), help="what Workload.save wrote")
    parser.add_argument("--budget", type=float, default=60, help="seconds a cell")
    parser.add_argument("--batches", type=int, nargs="*", default=[1, 16, 256], help="of searches without a limit")
    parser.add_argument("--limited", action=argparse.BooleanOptionalAction, default=True, help="limited searches too")
    parser.add_argument("--top-k", type=int, default=10)
    parser.add_argument("--wide", type=int, default=100)
    parser.add_argument("--max-hits", type=int, default=3_000_000, help="prepared hits, about 500 bytes each")
    parsed = parser.parse_args()
    lines = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # libraries print: only result lines may reach the caller's pipe
    with tempfile.TemporaryDirectory() as scratch:
        isolate(Path(scratch))
        asyncio.run(main(parsed, lines))
