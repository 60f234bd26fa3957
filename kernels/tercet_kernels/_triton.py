"""Whether the Triton forms can run."""

import functools
import importlib.util


@functools.cache
def has_triton() -> bool:
    """True where Triton is installed; without it, the plain torch forms serve CUDA, stage by stage."""
    return importlib.util.find_spec("triton") is not None
