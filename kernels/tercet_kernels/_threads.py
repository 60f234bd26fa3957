"""How many threads a CPU kernel may use."""

import numba
import torch


def threads(per_query: torch.Tensor) -> int:
    """As many as torch is set to, but not more than Numba has or than there are queries."""
    return max(1, min(torch.get_num_threads(), numba.get_num_threads(), per_query.shape[0]))
