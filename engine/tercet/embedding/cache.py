"""Vectors on disk, by encoder and text, so that no text is encoded twice and a stopped import loses little."""

import os
import re
import threading
import warnings
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import torch

from tercet.embedding.checksum import digests
from tercet.embedding.identity import Identity, bare, identity
from tercet.embedding.index import Index
from tercet.embedding.segment import Segment, Writer, names, read_segment, remove, unwritten
from tercet.encoder import Encoder
from tercet.errors import InvalidData, StoreError
from tercet.sentence_encoder import check_texts

FOLDER = re.compile(r"[0-9a-f]{32}")
SEGMENT_BYTES = 1 << 28  # of vectors, after which a writer begins another segment
ROWS = 1 << 14  # rows moved at a time by `compact`
AT_ONCE = 256  # segments merged at once: each holds a file open
ATTEMPTS = 20  # to read while another process removes segments that it has merged

Stamp = tuple[tuple[str, int, int], ...]  # headers of a folder: name, inode, time of change


class EmbeddingCache:
    """A folder of vectors, each under its encoder and the hash of its text.

    Any number of processes and threads may read and add at once: every writer has segments of its own, and what
    `append` returned from is on the disk for good, whatever ends the process. Files that are cut or changed cost the
    vectors in them, with a warning that names the file; a vector that doesn't fit its checksum is never given out. An
    encoder is known by `identity`; another one, or the same at another precision, doesn't see its vectors.

    Args:
        path: a new or empty folder, or a cache.

    Raises:
        StoreError: the path is a file, or a folder that holds something else.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        if self.path.exists():
            other = [p.name for p in self.path.iterdir() if not _is_ours(p)] if self.path.is_dir() else [self.path.name]
            if other:
                raise StoreError(f"{self.path}: expected a new folder or a cache of vectors, found {min(other)!r}")
        self.problems: list[str] = []  # what was found damaged, each once
        self._lock = threading.RLock()
        self._index: dict[str, tuple[Stamp, Index]] = {}
        self._writers: dict[str, Writer] = {}
        self._known: list[tuple[Encoder, Identity]] = []

    def __len__(self) -> int:
        """How many vectors there are, repeats counted once."""
        with self._lock:
            return sum(int(self._refreshed(f.name).latest().sum()) for f in self._folders())

    @property
    def bytes(self) -> int:
        """The size of all files."""
        return sum(p.stat().st_size for f in self._folders() for p in f.iterdir() if p.exists())

    def identity(self, encoder: Encoder) -> Identity:
        """What the cache knows an encoder by; found once for each encoder.

        Raises:
            InvalidArgument: the encoder's fingerprint has no probe.
        """
        encoder = bare(encoder)
        with self._lock:
            for known, who in self._known:
                if known is encoder:
                    return who
        who = identity(encoder)
        with self._lock:
            self._known.append((encoder, who))
        return who

    def lookup(self, who: Encoder | Identity, texts: list[str]) -> tuple[np.ndarray, torch.Tensor]:
        """The vectors that are there, those that other processes have committed by now included.

        Returns:
            (B,) bool, which texts are found; (B, D) float32 vectors, NaN in the other rows.

        Raises:
            InvalidArgument: an entry isn't a text; names its index.
        """
        who = self._who(who)
        digest = digests(check_texts(texts))
        out = torch.full((len(digest), who.dimension), torch.nan)
        if not len(digest):
            return np.zeros(0, bool), out
        for attempt in range(ATTEMPTS):
            with self._lock:
                index = self._refreshed(who.key)
                try:
                    found = index.read(digest, out.numpy())
                except FileNotFoundError:
                    self._index.pop(who.key, None)
                    out.fill_(torch.nan)
                    if attempt == ATTEMPTS - 1:
                        raise
                    continue
                self._report(index.problems)
                return found, out
        raise AssertionError

    def append(self, who: Encoder | Identity, texts: list[str], vectors: torch.Tensor) -> None:
        """Add the vectors of texts; when this returns, they are on the disk.

        Args:
            vectors: (B, D) float32.

        Raises:
            InvalidData: vectors of another shape or type than the texts and the encoder ask for.
            StoreError: they can't be written, as when the disk is full; nothing that was there is lost.
        """
        who = self._who(who)
        texts = check_texts(texts)
        if tuple(vectors.shape) != (len(texts), who.dimension) or vectors.dtype != torch.float32:
            raise InvalidData(
                f"cache: expected vectors of shape ({len(texts)}, {who.dimension}), float32, got "
                f"{tuple(vectors.shape)}, {str(vectors.dtype).removeprefix('torch.')}"
            )
        if not texts:
            return
        digest = digests(texts)
        with self._lock:
            writer = self._writer(who)
            try:
                writer.append(digest, vectors.detach().cpu().numpy())
            except StoreError:
                self._writers.pop(who.key).close()
                raise

    def compact(self) -> None:
        """Merge segments, drop repeats and damaged rows, and remove what stopped writers left.

        Segments that other processes are writing to stay as they are. What is there can be read all the while, and a
        stop at any moment leaves every vector at least once.
        """
        with self._lock:
            self.close()
            for folder in self._folders():
                before = len(names(folder)) + 1
                while (stems := names(folder)) and len(stems) < before:
                    before = len(stems)
                    for start in range(0, before, AT_ONCE):
                        self._report(_compact(folder, stems[start : start + AT_ONCE]))
            self._index.clear()

    def clear(self) -> None:
        """Remove every vector, except in segments that other processes are writing: they are named in a warning."""
        with self._lock:
            self.close()
            self._index.clear()
            for stem in [stem for folder in self._folders() for stem in names(folder)]:
                with unwritten(stem) as free:
                    if free:
                        remove(stem)
                    else:
                        warnings.warn(f"{stem}: another process writes to this segment: it stays", stacklevel=2)

    def close(self) -> None:
        """Let go of the segments this cache writes; it can be used on."""
        with self._lock:
            while self._writers:
                self._writers.popitem()[1].close()

    def __enter__(self) -> "EmbeddingCache":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"EmbeddingCache({str(self.path)!r})"

    def _who(self, who: Encoder | Identity) -> Identity:
        return who if isinstance(who, Identity) else self.identity(who)

    def _folders(self) -> list[Path]:
        return sorted(p for p in self.path.iterdir() if _is_ours(p)) if self.path.is_dir() else []

    def _writer(self, who: Identity) -> Writer:
        writer = self._writers.get(who.key)
        if writer is not None and (writer.pid != os.getpid() or writer.bytes >= SEGMENT_BYTES):
            writer.close()  # a forked process begins a segment of its own
            writer = None
        if writer is None:
            writer = self._writers[who.key] = Writer(self.path / who.key, who)
        return writer

    def _refreshed(self, key: str) -> Index:
        """The index of an encoder as the disk is now."""
        folder = self.path / key
        stamp = _stamp(folder)
        held = self._index.get(key)
        if held is None or held[0] != stamp:
            segments, problems = read_all(names(folder) if folder.is_dir() else [])
            self._report(problems)
            held = self._index[key] = (stamp, Index(segments))
        return held[1]

    def _report(self, problems: list[str]) -> None:
        for problem in problems:
            if problem not in self.problems:
                self.problems.append(problem)
                warnings.warn(problem, stacklevel=4)
        problems.clear()


def read_all(stems: list[Path]) -> tuple[list[Segment], list[str]]:
    """The segments that are there, and what is wrong with them."""
    segments, problems = [], []
    for stem in stems:
        try:
            segment, wrong = read_segment(stem)
        except FileNotFoundError:  # nothing is committed yet, or it was merged meanwhile
            continue
        problems += wrong
        if segment is not None:
            segments.append(segment)
    return segments, problems


def _is_ours(path: Path) -> bool:
    return bool(FOLDER.fullmatch(path.name)) and path.is_dir()


def _stamp(folder: Path) -> Stamp:
    out = []
    if folder.is_dir():
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.endswith(".json"):
                    try:
                        about = entry.stat()
                    except FileNotFoundError:
                        continue
                    out.append((entry.name, about.st_ino, about.st_mtime_ns))
    return tuple(sorted(out))


def _compact(folder: Path, stems: list[Path]) -> list[str]:
    """Merge what nobody writes to, and say what was damaged; old segments are locked until they are gone."""
    with ExitStack() as locks:
        free = [stem for stem in stems if locks.enter_context(unwritten(stem))]
        segments, problems = read_all(free)
        index = Index(segments)
        if segments:
            _merge(index, folder, Identity(folder.name, segments[0].about, segments[0].dimension))
        for stem in free:
            remove(stem)
    return problems + index.problems


def _merge(index: Index, folder: Path, who: Identity) -> None:
    """Write the latest sound row of every digest to new segments, in the order they were added."""
    place = np.flatnonzero(index.latest())
    place = place[np.lexsort((index.row[place], index.segment[place]))]
    digest = np.stack([index.high, index.low], 1)[place]
    writer: Writer | None = None
    for start in range(0, len(digest), ROWS):
        part = digest[start : start + ROWS]
        rows = np.empty((len(part), who.dimension), np.float32)
        found = index.read(part, rows)
        if not found.any():
            continue
        if writer is None or writer.bytes >= SEGMENT_BYTES:
            if writer is not None:
                writer.close()
            writer = Writer(folder, who)
        writer.append(part[found], rows[found])
    if writer is not None:
        writer.close()
