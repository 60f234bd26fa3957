"""The store suite on a tiny graph, and what it says of files and the page cache."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import pages
from bench.config import load
from bench.gate import Gate
from bench.records import read
from bench.run import run
from bench.tables import tables_of

TINY = [
    'run.suites=["store"]', "run.queries=4", "run.dimension=16", 'store.workloads=["uniform:400:1600"]',
    "store.saves=1", "store.opens=1", "store.updates=2", "store.rows=20", "store.batches=[1]",
]  # fmt: skip


class Green(Gate):
    def red(self, files: object) -> str:
        return ""


def test_every_step_is_timed(tmp_path: Path) -> None:
    assert run(load([], [*TINY, f'store.folder="{tmp_path}"']), tmp_path / "run", Green()) == 0
    cells = read(tmp_path / "run").cells
    calls = [c["settings"]["call"] for c in cells]
    assert {"save", "open", "write and fsync", "read, warm", "first recall", "second recall"} <= set(calls)
    assert calls[-4:] == ["upsert", "save after upsert", "delete", "save after delete"]
    by_call = {c["settings"]["call"]: c for c in cells if "median_s" in c}
    size = by_call["save"]["store_bytes"]
    assert size > 400 * 16 * 4
    assert by_call["save after upsert"]["written_bytes"] > 0
    assert by_call["upsert"]["repeats"] == 2
    assert by_call["upsert"]["settings"]["rows"] == 20
    assert by_call["write and fsync"]["bytes"] == size
    assert [p.name for p in tmp_path.iterdir()] == ["run"]  # the store is gone
    assert any(t.title == "Store on disk" for t in tables_of(cells))


def test_files_that_are_new_or_replaced_count_as_written(tmp_path: Path) -> None:
    (tmp_path / "kept").write_bytes(b"1234")
    (tmp_path / "replaced").write_bytes(b"12345")
    before = pages.files_of(tmp_path)
    (tmp_path / "beside").write_bytes(b"123")
    (tmp_path / "beside").replace(tmp_path / "replaced")
    (tmp_path / "new").write_bytes(b"12")
    assert pages.written(before, pages.files_of(tmp_path)) == 5
    assert pages.bytes_of(tmp_path) == 9


def test_files_are_copied_and_read_whole(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    for name, size in (("a", 10), ("b", 5 << 20)):
        (tmp_path / "store" / name).write_bytes(bytes(size))
    assert pages.copy_time(tmp_path / "store", tmp_path / "plain") > 0
    assert (tmp_path / "plain").stat().st_size == 10 + (5 << 20)
    assert pages.read_time(tmp_path / "store") > 0


def test_the_share_of_files_in_memory_is_told(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(bytes(1 << 20))
    share = pages.cached([file])
    if share is None:
        pytest.skip("the system has no mincore")
    assert share == 1.0
    dropped = pages.drop(tmp_path)
    assert dropped is None or 0.0 <= dropped <= 1.0
    (tmp_path / "empty").touch()
    assert pages.cached([tmp_path / "empty"]) == 1.0
