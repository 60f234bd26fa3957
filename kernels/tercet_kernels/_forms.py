"""Which form of each kernel serves a device."""

from pathlib import Path

import torch

from tercet_kernels._triton import has_triton


def forms(device: torch.device) -> dict[str, str]:
    """The form of each op: "numba" on the CPU; on CUDA "triton" where the op has it, else "torch" (the reference)."""
    out = {}
    for folder in sorted(Path(__file__).parent.iterdir()):
        compiled = (folder / ("cpu.py" if device.type == "cpu" else "cuda.py")).exists()
        if not (folder / "reference.py").exists():
            continue
        if device.type == "cpu":
            out[folder.name] = "numba" if compiled else "torch"
        else:
            out[folder.name] = "triton" if compiled and device.type == "cuda" and has_triton() else "torch"
    return out
