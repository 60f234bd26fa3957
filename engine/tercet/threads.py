"""One number of threads for torch, the Numba kernels and FAISS."""

import os
import sys

import numpy as np
import torch

from tercet.errors import InvalidArgument


def set_threads(count: int) -> None:
    """Let this thread, and those started from here on, compute with `count` threads.

    One setting governs all: the Numba kernels and FAISS are called with torch's number (`torch.set_num_threads` is the
    same setting). torch and the kernels share one OpenMP pool, FAISS too where it is imported after torch, so there
    are never two pools at work. A kernel uses fewer threads where its work isn't worth more (see
    `tercet_kernels._threads`), and never more than `NUMBA_NUM_THREADS`, which the environment may lower. Results don't
    depend on it.

    Raises:
        InvalidArgument: no integer, or not from 1 to the number of cores that this process may use.
    """
    most = cores()
    if isinstance(count, bool) or not isinstance(count, (int, np.integer)) or not 1 <= count <= most:
        raise InvalidArgument(
            f"threads: expected an integer from 1 to {most}, the cores of this process, got {count!r}"
        )
    torch.set_num_threads(int(count))
    faiss = sys.modules.get("faiss")  # imported later, it is given torch's number with each call
    if faiss is not None:
        faiss.omp_set_num_threads(int(count))


def cores() -> int:
    """Processor cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
