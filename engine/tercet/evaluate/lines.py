"""Lines of plain text files that may be gzipped, and what many readers check of them."""

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tercet.errors import InvalidArgument, InvalidData
from tercet.ids import canonical

SHOWN = 5  # ids named in a message


def ending(path: Path) -> str:
    """The ending of a file's name without `.gz`, in lower case: ".tsv" of "qrels/test.tsv.gz"."""
    return Path(path.name.lower().removesuffix(".gz")).suffix


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """(line number from 1, line) of each line that isn't blank.

    Raises:
        InvalidArgument: no such file.
        InvalidData: the file isn't UTF-8 or gzip.
    """
    if not path.is_file():
        raise InvalidArgument(f"{path}: no such file")
    number = 0
    packed = path.name.lower().endswith(".gz")
    try:
        with gzip.open(path, "rt", encoding="utf-8-sig") if packed else path.open(encoding="utf-8-sig") as stream:
            for number, line in enumerate(stream, 1):
                if line.strip():
                    yield number, line.rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise InvalidData(f"{path} after line {number}: not valid UTF-8: {error.reason}") from error
    except (gzip.BadGzipFile, EOFError) as error:
        raise InvalidData(f"{path} after line {number}: damaged gzip file: {error}") from error


def id_of(value: Any, place: str) -> str:
    """An id as the string that it is known by.

    Raises:
        InvalidData: it is blank, or neither text nor an integer.
    """
    made = canonical(value, place)
    if not made.strip():
        raise InvalidData(f"{place}: expected an id, got {value!r}")
    return made


def coded(ids: list[str]) -> tuple[np.ndarray, pa.LargeStringArray]:
    """(T,) int32 codes of ids, and the distinct ids in order of first appearance."""
    column = pa.array(ids, pa.large_string()).dictionary_encode()
    return np.asarray(column.indices).astype(np.int32), column.dictionary


def some(ids: Any) -> str:
    """A few ids for a message."""
    shown = [repr(str(i)) for i in list(ids)[:SHOWN]]
    return ", ".join(shown) + (f" and {len(ids) - SHOWN} more" if len(ids) > SHOWN else "")


def offsets(counts: Any) -> np.ndarray:
    """(B + 1,) int64 offsets of lists of these lengths."""
    out = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=out[1:])
    return out
