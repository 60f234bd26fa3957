"""Stores that lie elsewhere: copied into a cache once, written by way of it."""

import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import tercet
from tercet import remote
from tercet.cli import app
from tercet.errors import MissingDependency, StoreError
from tercet.verify import verify
from tests.engine.test_store import assert_same_answers, manifest_of, small
from tests.engine.test_store_damage import damaged

fsspec = pytest.importorskip("fsspec", reason="fsspec isn't installed")
URL = "memory://bucket/a.store"


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TERCET_STORE_CACHE", str(tmp_path / "cache"))
    yield tmp_path / "cache"
    files().store.clear()


def files():
    return fsspec.filesystem("memory")


@pytest.fixture
def moved(monkeypatch):
    """Names of what was fetched and sent."""
    out = []
    kind = type(files())
    get, put = kind.get_file, kind.put_file
    monkeypatch.setattr(kind, "get_file", lambda self, a, b, **k: out.append(("get", a)) or get(self, a, b, **k))
    monkeypatch.setattr(kind, "put_file", lambda self, a, b, **k: out.append(("put", b)) or put(self, a, b, **k))
    return out


def test_a_store_elsewhere(cache, moved) -> None:
    engine = small()
    engine.save(URL)
    assert moved[-1][1].endswith("/manifest.json")  # the manifest last
    names = {f"/bucket/a.store/{n}" for n in manifest_of(remote.cache_of(URL))["files"]}
    assert set(files().find("/bucket/a.store")) == {*names, "/bucket/a.store/manifest.json"}
    opened = tercet.open(URL)
    assert_same_answers(opened, small())
    assert not [m for m in moved if m[0] == "get"]  # what was sent from here is in the cache
    for name in cache.iterdir():
        assert remote.cache_of(URL) == name
    moved.clear()
    opened.upsert({"id": ["new"]})
    opened.save(URL)
    sent = [Path(m[1]).name for m in moved]
    assert sorted(sent[:-1]) == ["edges.arrow", "edges.rows.npy", "nodes.arrow", "nodes.rows.npy"]  # what has changed
    assert "new" in tercet.open(URL).graph.ids.to_pylist()
    assert all(c.good for c in verify(URL))


def test_the_cache_is_filled_once_and_mended(cache, moved, monkeypatch, tmp_path) -> None:
    small().save(URL)
    monkeypatch.setenv("TERCET_STORE_CACHE", str(tmp_path / "another"))
    assert_same_answers(tercet.open(URL), small())
    count = len(manifest_of(remote.cache_of(URL))["files"])
    assert len([m for m in moved if m[0] == "get"]) == count
    moved.clear()
    assert_same_answers(tercet.open(URL), small())
    assert not moved
    folder = remote.cache_of(URL)
    for kind, verified in (("flipped", True), ("cut", False), ("missing", True)):
        name = next(n for n in manifest_of(folder)["files"] if n.endswith("vectors.npy"))
        damaged(folder / name, kind)
        moved.clear()
        assert_same_answers(tercet.open(URL, verify=verified), small())
        assert [m[1].endswith("vectors.npy") for m in moved] == [True]
    (folder / "data-x").mkdir()
    (folder / "data-x" / "left.npy").write_bytes(b"of an earlier version")
    tercet.open(URL)
    assert not (folder / "data-x").exists()


def test_damage_elsewhere_is_named(cache, monkeypatch, tmp_path) -> None:
    small().save(URL)
    monkeypatch.setenv("TERCET_STORE_CACHE", str(tmp_path / "another"))
    name = next(n for n in files().find("/bucket/a.store") if n.endswith("vectors.npy"))
    content = files().cat_file(name)
    for bad in (content[:-1], content[:-1] + bytes([content[-1] ^ 1])):
        files().pipe_file(name, bad)
        with pytest.raises(StoreError, match=r"vectors\.npy.*expected"):
            tercet.open(URL)
    files().rm_file(name)
    with pytest.raises(StoreError, match=r"vectors\.npy: missing"):
        tercet.open(URL)
    files().pipe_file(name, content)
    assert_same_answers(tercet.open(URL), small())
    assert not [p for p in (tmp_path / "another").rglob("*.part*")]
    files().pipe_file("/bucket/a.store/manifest.json", b"{")
    with pytest.raises(StoreError, match="not valid JSON"):
        tercet.open(URL)
    files().rm("/bucket/a.store", recursive=True)
    with pytest.raises(StoreError, match="not a store"):
        tercet.open(URL)


def test_two_writers_of_a_store_elsewhere(cache, monkeypatch, tmp_path) -> None:
    small().save(URL)
    first = tercet.open(URL)
    monkeypatch.setenv("TERCET_STORE_CACHE", str(tmp_path / "of another machine"))
    second = tercet.open(URL)
    second.upsert({"id": ["second"]})
    second.save(URL)
    monkeypatch.setenv("TERCET_STORE_CACHE", str(cache))
    first.upsert({"id": ["first"]})
    with pytest.raises(StoreError, match="somebody committed"):
        first.save(URL)
    assert "second" in tercet.open(URL).graph.ids.to_pylist()


def test_a_commit_during_the_upload_is_noticed(cache, monkeypatch) -> None:
    small().save(URL)
    engine = tercet.open(URL)
    engine.upsert({"id": ["x"]})
    put = remote._put

    def interfering(fs, source, target):
        put(fs, source, target)
        there = files().cat_file("/bucket/a.store/manifest.json")
        files().pipe_file("/bucket/a.store/manifest.json", there.replace(b'"native"', b'"cognee"'))

    with monkeypatch.context() as patch:
        patch.setattr(remote, "_put", interfering)
        with pytest.raises(StoreError, match="somebody committed"):
            engine.save(URL)
    assert tercet.open(URL).rules.name == "cognee"


def test_a_failed_upload_can_be_repeated(cache, monkeypatch) -> None:
    small().save(URL)
    engine = tercet.open(URL)
    engine.upsert({"id": ["x"]})

    def fails(*args):
        raise OSError("the network is down")

    with monkeypatch.context() as patch:
        patch.setattr(remote, "_put", fails)
        with pytest.raises(OSError, match="network"):
            engine.save(URL)
    assert "x" not in tercet.open(URL).graph.ids.to_pylist()
    engine.save(URL)
    assert "x" in tercet.open(URL).graph.ids.to_pylist()


def test_file_urls_are_folders(cache, tmp_path) -> None:
    url = f"file://{tmp_path / 'here.store'}"
    small().save(url)
    assert_same_answers(tercet.open(url), small())
    assert_same_answers(tercet.open(tmp_path / "here.store"), small())
    assert not cache.exists()


def test_tells_what_is_missing(monkeypatch) -> None:
    with pytest.raises(StoreError, match="nonsense"):
        tercet.open("nonsense://bucket/store")
    if find_spec("s3fs") is None:
        with pytest.raises(MissingDependency, match="s3fs"):
            tercet.open("s3://bucket/store")
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(MissingDependency, match=r"tercet\[remote\]"):
        tercet.open(URL)
    with pytest.raises(MissingDependency, match=r"tercet\[remote\]"):
        small().save(URL)


def test_paths_are_no_urls() -> None:
    assert [remote.is_url(p) for p in ("a/b", Path("s3://x"), "/a:b//c", "file:///x")] == [False] * 4
    assert [remote.is_url(p) for p in ("s3://x", "memory://x")] == [True] * 2
    assert np.unique([str(remote.cache_of(u)) for u in ("s3://a", "s3://a/", "s3://b")]).size == 2


def test_the_command_line_takes_urls() -> None:
    small().save(URL)
    runner = CliRunner()
    for command in (
        ["info", URL, "--memory"],
        ["verify", URL],
        ["export", URL, str(remote.cache_of(URL).parent / "x")],
    ):
        ran = runner.invoke(app, command)
        assert ran.exit_code == 0, ran.output
    assert tercet.estimate_memory(URL).peak == tercet.estimate_memory(remote.cache_of(URL)).peak
    ran = runner.invoke(app, ["info", "memory://bucket/none"])
    assert isinstance(ran.exception, StoreError)
