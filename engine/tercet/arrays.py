"""Flat columns, and array files, read with care: what the header says is compared with the file before it is mapped."""

import math
from pathlib import Path

import numpy as np
import torch

from tercet.errors import StoreError

_HEADERS = {1: np.lib.format.read_array_header_1_0, 2: np.lib.format.read_array_header_2_0}


def read_array(file: Path) -> np.ndarray:
    """Map a .npy file copy-on-write, since torch wants a writable buffer.

    Raises:
        StoreError: not an array file, an array of objects, or a length that differs from what its header says.
    """
    try:
        with file.open("rb") as source:
            shape, fortran, dtype = _HEADERS[np.lib.format.read_magic(source)[0]](source)
            offset = source.tell()
    except (ValueError, KeyError, EOFError) as error:
        raise StoreError(f"{file}: not an array file ({error})") from error
    if dtype.hasobject:
        raise StoreError(f"{file}: an array of Python objects")
    expected, found = offset + math.prod(shape) * dtype.itemsize, file.stat().st_size
    if expected != found:
        raise StoreError(f"{file}: expected {expected} bytes by its header, found {found}")
    if expected == offset:
        return np.empty(shape, dtype)
    return np.memmap(file, dtype, "c", offset, shape, "F" if fortran else "C")


def column(values: np.ndarray | torch.Tensor) -> torch.Tensor:
    """Numbers of eight bytes as a tensor; one that stands in every row takes the memory of one (stride 0)."""
    rows = torch.from_numpy(values) if isinstance(values, np.ndarray) else values
    if rows.shape[0] < 2 or rows.stride(0) == 0:
        return rows
    bits = rows.view(torch.int64)
    same = int(bits[0]) == int(bits[-1]) and bool((bits == bits[0]).all())
    return rows[:1].clone().expand(rows.shape) if same else rows


def is_repeated(rows: torch.Tensor) -> bool:
    """Whether a column is one value for all rows, see `column`."""
    return rows.shape[0] > 1 and rows.stride(0) == 0
