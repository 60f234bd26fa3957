"""One number of threads for torch and for the Numba kernels."""

import numba
import torch
from numba.np.ufunc.parallel import _launch_threads

_state = {"started": False}


def threads(items: int) -> int:
    """Set Numba to the threads that torch uses; returns in how many parts the work of so many items is to be cut.

    Numba's OpenMP layer sets the number of threads of the whole process when it starts, torch's too, so torch's is put
    back then.
    """
    wanted = torch.get_num_threads()
    if not _state["started"]:
        _launch_threads()
        torch.set_num_threads(wanted)
        _state["started"] = True
    most = min(wanted, numba.config.NUMBA_NUM_THREADS)
    numba.set_num_threads(most)
    return max(1, min(most, items))
