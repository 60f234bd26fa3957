"""Segments of the cache: three files that one writer appends to, and anyone reads.

`NAME.rows` holds float32 vectors, `NAME.keys` a digest and a checksum for each, and `NAME.json`, the header, says how
many of them count. A commit appends rows and keys, brings them to the disk and then replaces the header in one step, so
what follows the counted rows is what a stopped writer left, and is ignored. Names begin with the time, so later
segments sort after earlier ones.

The writer holds a lock (flock) on its rows until it ends, however it ends; it keeps others from removing the segment.
Readers take no locks.
"""

import fcntl
import io
import json
import os
import re
import secrets
import time
import weakref
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tercet.embedding.checksum import checksums
from tercet.embedding.identity import Identity, canonical, key_of
from tercet.errors import StoreError

FORMAT = 1
KEY = np.dtype([("digest", "<u8", (2,)), ("check", "<u8")])
PARTS = (".json", ".keys", ".rows")
NAME = re.compile(r"[0-9a-f]{16}-[0-9a-f]{8}")
FIELDS = {"format": int, "about": dict, "dimension": int, "count": int, "keys_crc32": int, "header_crc32": int}


@dataclass(frozen=True, eq=False)
class Segment:
    """What a header counts: `count` keys, and where their rows are."""

    stem: Path  # the files' path without a suffix
    about: dict[str, Any]
    dimension: int
    keys: np.ndarray  # (count,) KEY

    @property
    def file(self) -> Path:
        """The vectors' file."""
        return self.stem.with_suffix(".rows")

    def rows(self) -> np.ndarray:
        """(at most count, D) float32, mapped; fewer where the file was cut."""
        there = min(len(self.keys), self.file.stat().st_size // (4 * self.dimension))
        if there == 0:
            return np.empty((0, self.dimension), "<f4")
        return np.asarray(np.memmap(self.file, "<f4", "r", shape=(there, self.dimension)))


def read_segment(stem: Path) -> tuple[Segment | None, list[str]]:
    """A segment as its header counts it now, and what is wrong with its files.

    Without a sound header nothing of it is used. Keys and rows that were cut or changed leave the rest usable: each
    row is checked when it is read.

    Raises:
        FileNotFoundError: there is no header (any more).
        StoreError: a sound header of another version of the format.
    """
    file = stem.with_suffix(".json")
    content = file.read_bytes()
    try:
        header = json.loads(content)
    except (ValueError, RecursionError) as error:
        return None, [f"{file}: expected JSON, found {content[:20]!r} ({error}); the segment is ignored"]
    problem = _header_problem(header, file)
    if problem:
        return None, [f"{file}: {problem}; the segment is ignored"]
    dimension, count = header["dimension"], header["count"]
    problems = []
    keys_file = stem.with_suffix(".keys")
    try:
        raw = _head(keys_file, count * KEY.itemsize)
        there = stem.with_suffix(".rows").stat().st_size
    except FileNotFoundError as error:
        if not file.exists():  # removed meanwhile
            raise
        return None, [f"{error.filename}: expected the file that {file.name} names, found none; the segment is ignored"]
    if len(raw) < count * KEY.itemsize:
        problems.append(f"{keys_file}: expected {count * KEY.itemsize} bytes, found {len(raw)}; the rest is used")
    elif (found := zlib.crc32(raw)) != header["keys_crc32"]:
        problems.append(
            f"{keys_file}: expected crc32 {header['keys_crc32']:08x}, found {found:08x}; what fits its row is used"
        )
    if there < 4 * dimension * count:
        problems.append(
            f"{stem.with_suffix('.rows')}: expected {4 * dimension * count} bytes, found {there}; the rest is used"
        )
    keys = np.frombuffer(raw, KEY, len(raw) // KEY.itemsize)
    return Segment(stem, header["about"], dimension, keys), problems


def _head(file: Path, size: int) -> bytes:
    with file.open("rb") as source:
        return source.read(min(size, os.fstat(source.fileno()).st_size))


def _header_problem(header: Any, file: Path) -> str | None:
    if not isinstance(header, dict):
        return f"expected an object, found {type(header).__name__}"
    for field, kind in FIELDS.items():
        if type(header.get(field)) is not kind:
            return f"{field}: expected {kind.__name__}, found {header.get(field)!r:.40}"
    expected = _header_crc(header)
    if header["header_crc32"] != expected:
        return f"expected header_crc32 {expected}, found {header['header_crc32']}"
    if header["format"] != FORMAT:
        raise StoreError(f"{file}: expected cache format {FORMAT}, found {header['format']}")
    if key_of(header["about"]) != file.parent.name:
        return f"expected an encoder of the key {file.parent.name}, found {key_of(header['about'])}"
    if header["dimension"] < 1 or header["dimension"] != header["about"].get("dimension"):
        return f"expected dimension {header['about'].get('dimension')}, found {header['dimension']}"
    if header["count"] < 1:
        return f"expected a positive count, found {header['count']}"
    return None


def _header_crc(header: dict[str, Any]) -> int:
    return zlib.crc32(canonical({k: v for k, v in header.items() if k != "header_crc32"}))


class Writer:
    """Appends to one new segment in the folder of an encoder.

    Raises:
        StoreError: the files can't be made.
    """

    def __init__(self, folder: Path, who: Identity) -> None:
        self.who, self.count, self.pid = who, 0, os.getpid()
        self._crc = 0
        try:
            folder.mkdir(parents=True, exist_ok=True)
            while True:  # until the lock is held on a file that nobody removed before it was
                self.stem = folder / f"{time.time_ns():016x}-{secrets.token_hex(4)}"
                self._rows = self.stem.with_suffix(".rows").open("xb", buffering=0)
                if _lock(self._rows.fileno()) and os.fstat(self._rows.fileno()).st_nlink:
                    break
                self._rows.close()
            self._keys = self.stem.with_suffix(".keys").open("xb", buffering=0)
            self._closed = weakref.finalize(self, _close, self._rows, self._keys)  # also where nobody calls `close`
            sync_folder(folder.parent)
            sync_folder(folder.parent.parent)
        except OSError as error:
            raise StoreError(f"{folder}: a segment of the cache can't be made: {error}") from error

    @property
    def bytes(self) -> int:
        """Bytes of the vectors so far."""
        return 4 * self.who.dimension * self.count

    def append(self, digest: np.ndarray, rows: np.ndarray) -> None:
        """Write keys and rows and bring them to the disk; when this returns, they stay.

        After an error the writer is of no more use; what it committed before stays.

        Args:
            digest: (B, 2) uint64.
            rows: (B, D) float32.

        Raises:
            StoreError: names the segment.
        """
        keys = np.empty(len(rows), KEY)
        keys["digest"], keys["check"] = digest, checksums(digest, rows)
        raw = keys.tobytes()
        try:
            _write(self._rows, np.ascontiguousarray(rows, "<f4").data.cast("B"))
            _write(self._keys, memoryview(raw))
            self._crc = zlib.crc32(raw, self._crc)
            self.count += len(rows)
            self._replace_header()
        except OSError as error:
            raise StoreError(f"{self.stem}: {len(rows)} vectors can't be written: {error}") from error

    def _replace_header(self) -> None:
        header: dict[str, Any] = {
            "format": FORMAT, "about": self.who.about, "dimension": self.who.dimension, "count": self.count,
            "keys_crc32": self._crc,
        }  # fmt: skip
        header["header_crc32"] = _header_crc(header)
        beside = self.stem.with_suffix(".new")
        with beside.open("wb") as sink:
            sink.write(json.dumps(header, indent=1).encode("ascii"))
            sink.flush()
            os.fsync(sink.fileno())
        os.replace(beside, self.stem.with_suffix(".json"))
        sync_folder(self.stem.parent)

    def close(self) -> None:
        """Let go of the segment; one without a commit is removed."""
        if self.pid == os.getpid() and not self.count:
            remove(self.stem)
        self._closed()


def _write(file: io.FileIO, content: memoryview) -> None:
    while content:
        content = content[file.write(content) :]
    os.fsync(file.fileno())


def _close(*files: io.FileIO) -> None:
    for file in files:
        file.close()


def sync_folder(folder: Path) -> None:
    """Bring a folder's names to the disk."""
    place = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(place)
    finally:
        os.close(place)


def names(folder: Path) -> list[Path]:
    """The stems of a folder's segments and of what is left of segments, oldest first."""
    return sorted({p.with_suffix("") for p in folder.iterdir() if NAME.fullmatch(p.stem)})


@contextmanager
def unwritten(stem: Path) -> Iterator[bool]:
    """Whether nobody writes to a segment, and keep it so meanwhile."""
    try:
        file = stem.with_suffix(".rows").open("rb")
    except FileNotFoundError:  # a writer makes the rows first and locks them
        yield True
        return
    with file:
        yield _lock(file.fileno())


def remove(stem: Path) -> None:
    """Remove a segment, the header first, so that what is left by a stop counts for nothing."""
    for suffix in (".json", ".new", ".keys", ".rows"):
        stem.with_suffix(suffix).unlink(missing_ok=True)


def _lock(place: int) -> bool:
    try:
        fcntl.flock(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
