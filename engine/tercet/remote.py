"""Stores that lie elsewhere, through fsspec: this is the one file that imports it.

A store is read from a copy in a cache, and written by way of it. The cache is `$TERCET_STORE_CACHE`, or `tercet` in the
user's cache folder, with a folder for each URL, which is a store itself and holds the newest version that was asked
for; files that stay from one version to the next aren't fetched again. It may be removed at any time.

Object storage can't compare and swap by every protocol, so two writers are told apart by the manifest that is read
before the upload and again before it is replaced; the moment between that and the replacement is unguarded.
"""

import hashlib
import os
import re
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tercet.carried import Since
from tercet.errors import MissingDependency, StoreError
from tercet.state import Origin
from tercet.store_files import MANIFEST, check_file, clear, commit, each, locked, parsed, read_manifest

URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")
FILE = "file://"


def is_url(path: str | Path) -> bool:
    """Whether a path names a protocol, other than that of files."""
    return isinstance(path, str) and URL.match(path) is not None and not path.lower().startswith(FILE)


def local(path: str | Path) -> Path:
    """The path of a folder on this machine."""
    return Path(path[len(FILE) :]) if isinstance(path, str) and path.lower().startswith(FILE) else Path(path)


def folder_of(path: str | Path) -> Path:
    """Where a store can be read on this machine: its folder, or a copy brought up to date; see `fetched`."""
    return fetched(str(path)) if is_url(path) else local(path)


def cache_of(url: str) -> Path:
    """Where the copy of a store is kept."""
    home = (
        os.environ.get("TERCET_STORE_CACHE")
        or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tercet"
    )
    return Path(home) / hashlib.sha256(url.rstrip("/").encode()).hexdigest()[:24]


def fetched(url: str, *, verify: bool = True) -> Path:
    """The copy of a store, brought up to date.

    Args:
        verify: compare the hashes of files that are there already, too; what was damaged is fetched again.

    Raises:
        StoreError: no store there, or a file differs from what the manifest says of it.
        MissingDependency: fsspec, or its part for the protocol, isn't installed.
    """
    files, root = _filesystem(url)
    folder = cache_of(url)
    content = _manifest(files, root, url)
    if content is None:
        raise StoreError(f"{url}: not a store, it has no {MANIFEST}")
    _bring(files, root, url, content, folder, verify)
    return folder


def sent(url: str, save: Callable[[Path], tuple[Origin, Since]]) -> tuple[Origin, Since]:
    """Write a store: into the copy first, then the files that aren't there yet, then the manifest.

    Args:
        save: writes to a folder, which holds what lies at the URL.

    Raises:
        StoreError: somebody committed to the store meanwhile; or what `save` raises.
    """
    files, root = _filesystem(url)
    folder = cache_of(url)
    before = _manifest(files, root, url)
    if before is not None:
        _bring(files, root, url, before, folder, False)
    elif (folder / MANIFEST).exists():
        (folder / MANIFEST).unlink()  # of a store that isn't there any more
    out = save(folder)
    with locked(folder):
        manifest, _ = read_manifest(folder)
        there = {} if before is None else parsed(before, f"{url}/{MANIFEST}")["files"]
        each(lambda n: _put(files, folder / n, f"{root}/{n}"), [n for n in manifest["files"] if n not in there])
        if manifest["commit"] != out[0].commit or _manifest(files, root, url) != before:
            raise StoreError(f"{url}: somebody committed to the store while this was written; open it again")
        _put(files, folder / MANIFEST, f"{root}/{MANIFEST}")
    for name in there:
        if name not in manifest["files"]:
            files.rm_file(f"{root}/{name}")
    return out


def _bring(files: Any, root: str, url: str, content: bytes, folder: Path, verify: bool) -> None:
    manifest = parsed(content, f"{url}/{MANIFEST}")
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder):

        def bring(item: tuple[str, dict[str, Any]]) -> None:
            try:
                check_file(folder, *item, hashes=verify)
            except StoreError:
                _get(files, f"{root}/{item[0]}", folder, *item)

        each(bring, manifest["files"].items())
        held = folder / MANIFEST
        if not held.exists() or held.read_bytes() != content:
            commit(folder, content)
        clear(folder, manifest)


def _get(files: Any, source: str, folder: Path, name: str, want: dict[str, Any]) -> None:
    """Fetch a file, check it, and put it into its place in one step."""
    beside = f"{name}.{uuid.uuid4().hex[:8]}.part"
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    try:
        try:
            files.get_file(source, str(folder / beside))
        except FileNotFoundError as error:
            raise StoreError(f"{source}: missing") from error
        check_file(folder, beside, want, hashes=True)
        os.replace(folder / beside, folder / name)
    finally:
        (folder / beside).unlink(missing_ok=True)


def _put(files: Any, source: Path, target: str) -> None:
    files.makedirs(target.rpartition("/")[0], exist_ok=True)
    files.put_file(str(source), target)


def _manifest(files: Any, root: str, url: str) -> bytes | None:
    try:
        return bytes(files.cat_file(f"{root}/{MANIFEST}"))
    except (FileNotFoundError, NotADirectoryError):
        return None


def _filesystem(url: str) -> tuple[Any, str]:
    try:
        import fsspec
    except ImportError as error:
        raise MissingDependency(
            f"{url}: stores elsewhere need fsspec: pip install 'tercet[remote]', and what it names for the protocol"
        ) from error
    try:
        files, root = fsspec.core.url_to_fs(url)
    except ImportError as error:  # fsspec says what to install
        raise MissingDependency(f"{url}: {error}") from error
    except ValueError as error:
        raise StoreError(f"{url}: {error}") from error
    return files, root.rstrip("/")
