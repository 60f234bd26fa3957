"""Stores that were damaged or made up: refused with the file named, and nothing in them runs."""

import hashlib
import io
import json
import re
import shutil

import numpy as np
import pytest

import tercet
from tercet import store_files
from tercet.errors import StoreError
from tests.engine.test_store import assert_same_answers, data_of, manifest_of, saved, small

__all__ = ["saved"]  # a fixture


def rewrite(path, change):
    """Change the manifest; the hashes of files that were changed are made to fit."""
    manifest = json.loads((path / "manifest.json").read_text())
    data = path / manifest["data"] if "data" in manifest else path
    for name, about in manifest["files"].items():
        content = (data / name).read_bytes()
        about |= {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    change(manifest)
    (path / "manifest.json").write_text(json.dumps(manifest))


def damaged(path, kind):
    content = path.read_bytes()
    if kind == "missing":
        path.unlink()
    elif kind == "flipped":
        at_ = len(content) // 2
        path.write_bytes(content[:at_] + bytes([content[at_] ^ 1]) + content[at_ + 1 :])
    else:
        path.write_bytes({"cut": content[:-1], "empty": b"", "longer": content + b"\0"}[kind])


@pytest.mark.parametrize("kind", ["cut", "empty", "longer", "missing", "flipped"])
def test_damage_is_named(saved, kind):
    backup = saved.parent / "backup"
    shutil.copytree(saved, backup)
    files = sorted(p.relative_to(saved) for p in data_of(saved).rglob("*") if p.is_file())
    assert len(files) > 20
    for name in files:
        if kind in ("cut", "empty", "flipped") and not (saved / name).stat().st_size:
            continue
        damaged(saved / name, kind)
        with pytest.raises(StoreError) as raised:
            tercet.open(saved)
        assert name.name in str(raised.value)
        if kind != "flipped":
            with pytest.raises(StoreError):
                tercet.open(saved, verify=False)
        shutil.copyfile(backup / name, saved / name)
    assert_same_answers(tercet.open(saved), small())


def test_damage_that_fits_its_hash(saved):
    """Files are read with care even when the manifest vouches for them."""
    backup = saved.parent / "backup"
    shutil.copytree(saved, backup)
    huge = io.BytesIO()
    np.lib.format.write_array_header_2_0(huge, {"descr": "<i4", "fortran_order": False, "shape": (2**50,)})
    code = io.BytesIO()
    np.save(code, np.array([Bomb()], object), allow_pickle=True)
    for suffix, contents in (
        (".npy", (b"", b"text", huge.getvalue(), code.getvalue())),
        (".arrow", (b"", b"text" * 40)),
    ):
        for name in sorted(p.relative_to(saved) for p in data_of(saved).rglob(f"*{suffix}")):
            for content in contents:
                (saved / name).write_bytes(content)
                rewrite(saved, lambda manifest: None)
                with pytest.raises(StoreError) as raised:
                    tercet.open(saved)
                assert name.name in str(raised.value)
            shutil.copyfile(backup / name, saved / name)
    assert not Bomb.went_off


class Bomb:
    went_off = False

    def __reduce__(self):
        return (setattr, (Bomb, "went_off", True))


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "null",
        "{}",
        '{"format": 2}',
        '{"format": 3}',
        '{"format": 1}',
        '{"format": "1"}',
        '{"format": 1, "data": 5}',
        "\udcff",
    ],
)
def test_manifests_that_are_none(saved, content):
    (saved / "manifest.json").write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(StoreError, match=r"manifest\.json"):
        tercet.open(saved)


def test_another_format_version(saved):
    rewrite(saved, lambda manifest: manifest.update(format=store_files.FORMAT + 1))
    with pytest.raises(StoreError, match=rf"format {store_files.FORMAT}, found {store_files.FORMAT + 1}"):
        tercet.open(saved)


@pytest.mark.parametrize("key", ["graph", "collections", "files", "store", "commit", "mode", "encoder"])
def test_manifests_with_a_part_missing(saved, key):
    rewrite(saved, lambda manifest: manifest.pop(key))
    with pytest.raises(StoreError, match=r"manifest\.json"):
        tercet.open(saved)


@pytest.mark.parametrize(
    "name",
    ["../outside.npy", "data-x/../../outside.npy", "/etc/hostname", "data-x/../data-x/source.npy", "outside.npy"],
)
def test_paths_stay_inside(saved, name):
    shutil.copyfile(data_of(saved) / "graph" / "source.npy", saved / "outside.npy")
    about = next(f for n, f in manifest_of(saved)["files"].items() if n.endswith("graph/source.npy"))
    rewrite(saved, lambda manifest: manifest["files"].update({name: about}))
    with pytest.raises(StoreError, match="outside"):
        tercet.open(saved)


@pytest.mark.parametrize("name", ["../a store", "data-x/..", "..", "", "/tmp", "data-", 5, None, "data-x//graph"])
def test_the_data_folders_are_in_the_store(saved, name):
    def change(manifest):
        manifest["graph"]["folder"] = name

    rewrite(saved, change)
    with pytest.raises(StoreError):
        tercet.open(saved)


def test_files_that_the_manifest_does_not_know(saved):
    np.save(data_of(saved) / "collection-0" / "hidden.npy", np.ones(3, bool))
    with pytest.raises(StoreError, match=r"hidden\.npy"):
        tercet.open(saved)


def test_counts_that_lie(saved):
    for change in (
        lambda m: m["graph"].update(base_nodes=3), lambda m: m["graph"].update(base_edges=5),
        lambda m: m["collections"][0].update(base_rows=2), lambda m: m["collections"][1].update(dimension=3),
    ):  # fmt: skip
        before = (saved / "manifest.json").read_text()
        rewrite(saved, change)
        with pytest.raises(StoreError, match="expected"):
            tercet.open(saved)
        (saved / "manifest.json").write_text(before)


def test_rows_that_lead_outside(saved):
    backup = saved.parent / "backup"
    shutil.copytree(saved, backup)
    folder = data_of(saved) / "graph"
    for file in sorted(folder.glob("*.npy")):
        rows = np.load(file)
        if file.stem.startswith("set_") or not np.issubdtype(rows.dtype, np.integer):
            continue
        for wrong in (2**30, -2):
            bad = rows.copy()
            bad[len(bad) // 2] = wrong
            np.save(file, bad)
            rewrite(saved, lambda manifest: None)
            with pytest.raises(StoreError, match=re.escape(file.name)):
                tercet.open(saved)
        np.save(file, rows[:-1])
        rewrite(saved, lambda manifest: None)
        with pytest.raises(StoreError):
            tercet.open(saved)
        np.save(file, rows)
    rewrite(saved, lambda manifest: None)
    assert_same_answers(tercet.open(saved), small())
