"""Brings Cytoscape.js (MIT licence), which draws the HTML pictures, from its npm package.

Run as `python -m tercet.pictures.fetch`. Standard library only, so that it also runs as a script before Tercet is
installed. The file is not kept in the repository; wheels hold it.
"""

import base64
import hashlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

PACKAGE = "cytoscape@3.35.0"
INTEGRITY = (
    "sha512-sMvBIXiGMnhkCaWz2R06FwF/27MNlS+Tqvi17foO9UhnUg3XGZccKjxsvEqQFAQYMSSZmN5SxYzUYlQ0DOJJ3g=="  # of the archive
)
FOLDER = Path(__file__).parent / "vendor"
MEMBERS = {"package/dist/cytoscape.min.js": "cytoscape.min.js", "package/LICENSE": "cytoscape.LICENSE"}
STAMP = "cytoscape.integrity"  # written last: a folder that holds this version whole


class FetchError(RuntimeError):
    """The library couldn't be brought, or isn't the one expected."""


def fetch(folder: Path = FOLDER) -> Path:
    """The library's file in `folder`, brought there unless it is there already.

    Raises:
        FetchError: npm is missing or fails, or the archive isn't the pinned one.
    """
    library, stamp = folder / "cytoscape.min.js", folder / STAMP
    if library.is_file() and stamp.is_file() and stamp.read_text() == INTEGRITY:
        return library
    npm = shutil.which("npm")
    if npm is None:
        raise FetchError(
            f"npm is needed to bring {PACKAGE}: install Node.js, or install a wheel of Tercet, which holds it"
        )
    with tempfile.TemporaryDirectory() as place:
        command = [npm, "pack", PACKAGE, "--silent", "--ignore-scripts", "--prefer-offline"]
        done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)
        archives = list(Path(place).glob("*.tgz"))
        if done.returncode or len(archives) != 1:
            raise FetchError(f"npm pack {PACKAGE} failed with code {done.returncode}: {done.stderr.strip()}")
        unpack(archives[0], folder)
    return library


def unpack(archive: Path, folder: Path = FOLDER, integrity: str = INTEGRITY) -> None:
    """Takes the library and its licence out of npm's archive.

    Raises:
        FetchError: the archive's SHA-512 isn't `integrity`, or a file is missing in it.
    """
    got = "sha512-" + base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
    if got != integrity:
        raise FetchError(f"{archive.name}: expected {integrity}, got {got}")
    folder.mkdir(parents=True, exist_ok=True)
    with tarfile.open(archive) as tar:
        for member, name in MEMBERS.items():
            try:
                content = tar.extractfile(member)
            except KeyError:
                content = None
            if content is None:
                raise FetchError(f"{archive.name}: expected a file {member}")
            (folder / name).write_bytes(content.read())
    (folder / STAMP).write_text(integrity)


if __name__ == "__main__":
    try:
        sys.stdout.write(f"{fetch()}\n")
    except FetchError as error:
        sys.exit(str(error))
