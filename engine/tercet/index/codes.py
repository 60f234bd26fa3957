"""The int8 codes of a collection's rows as files, so that the first search after opening needn't read all the rows."""

from pathlib import Path

import numpy as np
import torch

from tercet.arrays import read_array
from tercet.errors import StoreError
from tercet_kernels._simd import ROW_BLOCK
from tercet_kernels.nearest import Codes, encode

FILES = tuple(f"codes{name}.npy" for name in ("", ".step", ".error", ".first", ".longest"))  # as the fields of `Codes`
ROWS = 1 << 16  # encoded at a time, so that a save takes little memory
PADDED = 64  # a row's codes are a multiple of so many


def write_codes(folder: Path, vectors: torch.Tensor, scale: torch.Tensor | None, made: Codes | None) -> None:
    """Write what `encode` gives for (V, D) rows, V at least 1; `made`: where that is there already."""
    if made is None:
        numbers = _encoded(folder, vectors, scale)
    else:
        np.save(folder / FILES[0], made.code.numpy(), allow_pickle=False)
        numbers = [*(x.numpy() for x in made[1:4]), np.array([made.longest])]
    for name, values in zip(FILES[1:], numbers, strict=True):
        np.save(folder / name, values, allow_pickle=False)


def read_codes(folder: Path, rows: int, width: int) -> Codes | None:
    """Map the codes of (V, D) rows; None where there are none.

    Raises:
        StoreError: a file can't be read, or doesn't fit the rows.
    """
    if not (folder / FILES[0]).exists():
        return None
    arrays = [read_array(folder / name) for name in FILES]
    shapes = (_shape(rows, width), *[(rows,)] * 3, (1,))
    kinds = (np.int8, np.float32, np.float32, np.int32, np.float64)
    for name, array, shape, kind in zip(FILES, arrays, shapes, kinds, strict=True):
        if array.shape != shape or array.dtype != kind:
            raise StoreError(
                f"{folder / name}: expected {shape} {np.dtype(kind)}, found {array.shape} {array.dtype}"
            )  # fmt: skip
    code, step, error, first = (torch.from_numpy(x) for x in arrays[:4])
    return Codes(code, step, error, first, float(arrays[4][0]))


def _encoded(folder: Path, vectors: torch.Tensor, scale: torch.Tensor | None) -> list[np.ndarray]:
    """Write the codes themselves, and return the other fields of `Codes`."""
    rows, width = vectors.shape
    code = np.lib.format.open_memmap(folder / FILES[0], "w+", np.int8, _shape(rows, width))
    step, error, first = np.empty(rows, np.float32), np.empty(rows, np.float32), np.empty(rows, np.int32)
    least, most = np.inf, 0.0
    for start in range(0, rows, ROWS):
        part = slice(start, start + ROWS)
        few = encode(vectors[part], None if scale is None else scale[part])
        code[part] = few.code[: len(code) - start].numpy()
        step[part], error[part], first[part] = few.step, few.error, few.first
        some = few.step[few.step > 0]
        least = min(least, float(some.min()) if some.shape[0] else np.inf)
        most = max(most, float(few.error.max()))
    code.flush()
    return [step, error, first, np.array([(1.0 + most) / (least if np.isfinite(least) else 1.0)])]


def _shape(rows: int, width: int) -> tuple[int, int]:
    return max(rows, ROW_BLOCK), -(-width // PADDED) * PADDED
