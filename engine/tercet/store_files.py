"""The files of a store: the manifest, hashes, and the one step that commits.

Everything that a manifest names is written once and never changed; a later manifest may name it again. Who holds a
file open or mapped keeps its content after it was removed, as POSIX has it, so readers take no lock.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tercet.errors import MissingDependency, StoreError

FORMAT = 3
MANIFEST, LOCK = "manifest.json", "manifest.lock"
CHUNK = 1 << 22
PIECE = 1 << 26  # bytes; larger files have a hash for each piece of so many, so that one file keeps all cores busy
TOGETHER = max(8, os.cpu_count() or 1)  # pieces hashed, or files waited for, at a time
PARTS = {"mode": str, "graph": dict, "collections": list, "files": dict}  # of a manifest
NOW = PARTS | {"store": str, "commit": str}
NEEDED = {FORMAT: NOW, 2: NOW, 1: PARTS | {"data": str}}


def read_manifest(path: str | Path) -> tuple[dict[str, Any], Path]:
    """The manifest of a store, in the newest format, and the folder that its names are relative to.

    Raises:
        StoreError: no store, or a manifest that makes no sense.
    """
    file = Path(path) / MANIFEST
    try:
        return parsed(file.read_bytes(), file), Path(path)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise StoreError(f"{path}: not a store, it has no {MANIFEST}") from error


def parsed(content: bytes, file: Path | str) -> dict[str, Any]:
    """A manifest from its bytes; `file` names it in messages."""
    try:
        manifest = json.loads(content.decode("utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise StoreError(f"{file}: not valid JSON ({error})") from error
    if not isinstance(manifest, dict) or manifest.get("format") not in NEEDED:
        found = manifest.get("format") if isinstance(manifest, dict) else type(manifest).__name__
        raise StoreError(f"{file}: expected store format {FORMAT}, found {found!r}")
    for part, kind in NEEDED[manifest["format"]].items():
        if not isinstance(manifest.get(part), kind):
            raise StoreError(f"{file}: {part}: expected {kind.__name__}, found {type(manifest.get(part)).__name__}")
    if not isinstance(manifest.get("encoder", 0), (str, type(None))):
        raise StoreError(f"{file}: encoder: expected a name or null, found {manifest.get('encoder')!r}")
    try:
        if manifest["format"] == 1:
            manifest = _of_format_1(manifest)
        manifest["format"] = FORMAT  # format 2 has no codes, and a file for every column of a graph, with all its rows
        for name in (*folders(manifest), *manifest["files"]):
            _inside(name, file)
    except (KeyError, TypeError, AttributeError) as error:
        raise StoreError(f"{file}: a part is missing or of another kind ({error!r})") from error
    return manifest


def _of_format_1(old: dict[str, Any]) -> dict[str, Any]:
    """Format 1 has one data folder, written whole at every save."""
    data, graph = old["data"], old["graph"]
    graph = graph | {"folder": f"{data}/graph", "base_nodes": graph["nodes"], "base_edges": graph["edges"]}
    collections = [
        c | {"folder": f"{data}/collection-{i}", "base_rows": c["rows"], "deltas": []}
        for i, c in enumerate(old["collections"])
    ]
    return {
        "format": FORMAT, "store": data, "commit": data, "mode": old["mode"], "encoder": old["encoder"],
        "graph": graph | {"deltas": []}, "collections": collections, "lexical": None,
        "files": {f"{data}/{name}": about for name, about in old["files"].items()},
    }  # fmt: skip


def _inside(name: Any, file: Path | str) -> None:
    parts = name.split("/") if isinstance(name, str) else [""]
    if len(parts) < 2 or not {"", ".", ".."}.isdisjoint(parts) or not parts[0].startswith("data-") or "\\" in name:
        raise StoreError(f"{file}: {name!r} lies outside the store's data folders")


def folders(manifest: dict[str, Any]) -> list[str]:
    """The folders of the parts that a manifest names; all that is in one of them belongs to the store."""
    out = []
    for part in (manifest["graph"], *manifest["collections"]):
        out += [part["folder"], *(d["folder"] for d in part["deltas"])]
    lexical = manifest.get("lexical")
    return out if lexical is None else [*out, lexical["folder"]]


def unknown_files(manifest: dict[str, Any], root: Path) -> list[str]:
    """Files among those of the store's parts that the manifest doesn't name."""
    there = {p.relative_to(root).as_posix() for f in folders(manifest) for p in (root / f).rglob("*") if p.is_file()}
    return sorted(there - set(manifest["files"]))


def check_files(manifest: dict[str, Any], root: Path, *, hashes: bool) -> None:
    """Compare the files of a store with its manifest."""
    unknown = unknown_files(manifest, root)
    if unknown:
        raise StoreError(f"{root / unknown[0]}: the manifest doesn't name it")
    for name, want in manifest["files"].items():
        _check_size(root / name, want)
    if hashes:
        pieces = [(root / name, *piece) for name, want in manifest["files"].items() for piece in _pieces(name, want)]
        each(lambda piece: _check_hash(*piece), pieces)


def check_file(root: Path, name: str, want: dict[str, Any], *, hashes: bool) -> None:
    """Compare one file of a store with what the manifest says of it.

    Raises:
        StoreError: names the file, what was expected and what was found.
    """
    _check_size(root / name, want)
    for piece in _pieces(name, want) if hashes else ():
        _check_hash(root / name, *piece)


def _check_size(file: Path, want: dict[str, Any]) -> None:
    if not file.is_file():
        raise StoreError(f"{file}: missing")
    size = file.stat().st_size
    if size != want["bytes"]:
        raise StoreError(f"{file}: expected {want['bytes']} bytes, found {size}")


def _check_hash(file: Path, begin: int, size: int, want: str) -> None:
    found = digest(file, begin, size)
    if found != want:
        raise StoreError(
            f"{file}: expected sha256 {want[:16]}…, found {found[:16]}… from byte {begin} on: the file was changed"
        )


def _pieces(name: str, want: dict[str, Any]) -> list[tuple[int, int, str]]:
    """Where each piece of a file begins, its length, and its hash; a single hash is that of the whole file."""
    hashes, size = want["sha256"], want["bytes"]
    if isinstance(hashes, str):
        return [(0, size, hashes)]
    if len(hashes) != -(-size // PIECE):
        raise StoreError(f"{name}: {size} bytes make {-(-size // PIECE)} pieces, but there are {len(hashes)} hashes")
    return [(i * PIECE, PIECE, h) for i, h in enumerate(hashes)]


def digest(file: Path, begin: int, size: int) -> str:
    """The SHA-256 of a piece of a file, in hexadecimal."""
    made = hashlib.sha256()
    with file.open("rb") as source:
        source.seek(begin)
        while size > 0 and (chunk := source.read(min(CHUNK, size))):
            made.update(chunk)
            size -= len(chunk)
    return made.hexdigest()


def each(work: Callable[[Any], Any], items: Iterable[Any]) -> list[Any]:
    """Results in order; hashing and waiting for a disk leave Python's lock, so several go at a time."""
    with ThreadPoolExecutor(TOGETHER) as pool:
        return list(pool.map(work, items))


def settled(data: Path, root: Path) -> dict[str, Any]:
    """What a manifest says of the files in a folder; they and their names have reached the disk then."""
    files = sorted(p for p in data.rglob("*") if p.is_file())

    each(to_disk, [*files, *{p.parent for p in files}, data, root])
    sizes = [p.stat().st_size for p in files]
    begins = [range(0, max(size, 1), PIECE) for size in sizes]
    pieces = [(p, b, PIECE) for p, r in zip(files, begins, strict=True) for b in r]
    hashes = iter(each(lambda piece: digest(*piece), pieces))
    out = {}
    for file, size, some in zip(files, sizes, begins, strict=True):
        made = [next(hashes) for _ in some]
        out[file.relative_to(root).as_posix()] = {"bytes": size, "sha256": made[0] if len(made) == 1 else made}
    return out


def commit(root: Path, manifest: dict[str, Any] | bytes) -> None:
    """Replace the manifest in one step; what it names is on the disk already."""
    if isinstance(manifest, dict):
        manifest = json.dumps(manifest, ensure_ascii=False).encode()
    beside = root / "manifest.new"
    with beside.open("wb") as sink:
        sink.write(manifest)
        sink.flush()
        os.fsync(sink.fileno())
    os.replace(beside, root / MANIFEST)
    to_disk(root)


def clear(root: Path, manifest: dict[str, Any]) -> None:
    """Remove what the manifest doesn't name from the data folders of a store, under its lock."""
    for data in root.glob("data-*"):
        for folder, _, files in os.walk(data, topdown=False):
            inside = os.path.relpath(folder, root).replace(os.sep, "/")
            for name in files:
                if f"{inside}/{name}" not in manifest["files"]:
                    with suppress(OSError):  # what can't be removed is in nobody's way
                        os.unlink(f"{folder}/{name}")
            with suppress(OSError):  # there are files in it that stay
                os.rmdir(folder)


@contextmanager
def locked(root: Path) -> Iterator[None]:
    """The only writer of a store, among threads and processes; the lock goes with the process that holds it.

    Raises:
        MissingDependency: a system without `fcntl`.
    """
    try:
        import fcntl
    except ImportError as error:
        raise MissingDependency(f"{root}: stores are written on POSIX systems only: fcntl is missing") from error
    held = os.open(root / LOCK, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield
    finally:
        os.close(held)


def to_disk(path: Path) -> None:
    """Wait until a file, or the names in a folder, have reached the disk."""
    held = os.open(path, os.O_RDONLY)
    try:
        os.fsync(held)
    finally:
        os.close(held)


def write_array(file: Path, array: np.ndarray) -> None:
    """An array as .npy; its data begins at a multiple of 64 bytes."""
    np.save(file, np.ascontiguousarray(array), allow_pickle=False)


def write_table(file: Path, table: pa.Table) -> None:
    """A table as an Arrow file of one batch."""
    table = table.combine_chunks()
    with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=max(table.num_rows, 1))


def read_table(file: Path) -> pa.Table:
    """Map an Arrow file.

    Raises:
        StoreError: it isn't one.
    """
    try:
        return pa.ipc.open_file(pa.memory_map(str(file))).read_all()
    except pa.ArrowInvalid as error:
        raise StoreError(f"{file}: not an Arrow file ({error})") from error
