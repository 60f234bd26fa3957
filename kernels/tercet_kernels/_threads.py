"""One number of threads for torch and for the Numba kernels, and what work is worth a second one.

A parallel region costs 2 us while its threads still spin from the last one; 5 to 10 ms later they sleep, and waking one
costs 0.15 ms at best and a tick of the scheduler (4 to 8 ms) when its core is taken (measured on 2 cores). Work below
`WORTH` runs in the calling thread.
"""

import threading

import numba
import torch
from numba.np.ufunc.parallel import _launch_threads

WORTH = 1_000_000  # steps of about a nanosecond: half of them saved are several wake-ups

_state = {"started": False}
_mine = threading.local()  # Numba's number is a thread's own, too


def threads(items: int, steps: float | None = None) -> int:
    """Set Numba to the threads that some work is worth; returns in how many parts the work is to be cut.

    Never more threads than parts, nor than torch uses, so one item never wakes a second thread. Numba's OpenMP layer
    sets the number of threads of the whole process when it starts, torch's too, so torch's is put back then.

    Args:
        items: what can be cut: parts hold whole items.
        steps: an estimate of the whole work, in steps of about a nanosecond; None: enough for all threads.
    """
    wanted = torch.get_num_threads()
    if not _state["started"]:
        _launch_threads()
        torch.set_num_threads(wanted)
        _state["started"] = True
    few = steps is not None and steps < WORTH
    parts = 1 if few else max(1, min(wanted, numba.config.NUMBA_NUM_THREADS, items))
    if getattr(_mine, "parts", 0) != parts:  # setting it costs as much as a small kernel
        numba.set_num_threads(parts)
        _mine.parts = parts
    return parts
