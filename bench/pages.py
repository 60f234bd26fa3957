"""Files and the page cache: how much of them is in memory, dropping them from it, and what the disk does with bytes."""

import ctypes
import mmap
import os
import time
from collections.abc import Iterable
from pathlib import Path

CHUNK = 1 << 22


def files_of(folder: Path) -> dict[str, tuple[int, int]]:
    """(inode, bytes) of the files in a folder, by name."""
    found = ((p, p.stat()) for p in sorted(folder.rglob("*")) if p.is_file())
    return {p.relative_to(folder).as_posix(): (s.st_ino, s.st_size) for p, s in found}


def bytes_of(folder: Path) -> int:
    return sum(size for _, size in files_of(folder).values())


def written(before: dict[str, tuple[int, int]], after: dict[str, tuple[int, int]]) -> int:
    """Bytes of the files that are new, or stand where another one stood."""
    return sum(about[1] for name, about in after.items() if before.get(name) != about)


def drop(folder: Path) -> float | None:
    """Ask the system to forget the pages of a folder's files; the share still in memory, None where it can't be asked.

    Only clean pages go that no process has mapped, so the files are brought to the disk first.
    """
    if not hasattr(os, "posix_fadvise"):
        return None
    for file in folder.rglob("*"):
        if file.is_file():
            held = os.open(file, os.O_RDONLY)
            try:
                os.fsync(held)
                os.posix_fadvise(held, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(held)
    return cached(p for p in folder.rglob("*") if p.is_file())


def cached(files: Iterable[Path]) -> float | None:
    """The share of some files' pages that is in memory; None where the system doesn't tell."""
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "mincore"):
        return None
    libc.mincore.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)
    there = total = 0
    for file in files:
        size = file.stat().st_size
        if not size:
            continue
        pages = -(-size // mmap.PAGESIZE)
        marks = (ctypes.c_ubyte * pages)()
        with file.open("rb") as source, mmap.mmap(source.fileno(), 0, access=mmap.ACCESS_COPY) as view:
            first = ctypes.c_char.from_buffer(view)
            failed = libc.mincore(ctypes.addressof(first), size, marks)
            del first
        if failed:
            return None
        there += sum(mark & 1 for mark in marks)
        total += pages
    return there / total if total else 1.0


def copy_time(folder: Path, beside: Path) -> float:
    """Seconds to write the bytes of a folder's files to one new file and wait for the disk."""
    begin = time.perf_counter()
    spent = 0.0
    with beside.open("wb", buffering=0) as sink:
        for file in sorted(p for p in folder.rglob("*") if p.is_file()):
            with file.open("rb", buffering=0) as source:
                while chunk := source.read(CHUNK):  # reading isn't what is timed
                    begin = time.perf_counter()
                    sink.write(chunk)
                    spent += time.perf_counter() - begin
        begin = time.perf_counter()
        os.fsync(sink.fileno())
    return spent + time.perf_counter() - begin


def read_time(folder: Path) -> float:
    """Seconds to read a folder's files once, in order."""
    room = memoryview(bytearray(CHUNK))
    begin = time.perf_counter()
    for file in sorted(p for p in folder.rglob("*") if p.is_file()):
        with file.open("rb", buffering=0) as source:
            while source.readinto(room):
                pass
    return time.perf_counter() - begin
