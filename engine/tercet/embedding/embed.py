"""Texts to vectors, each text once: what the cache has is taken from it, the rest is encoded and kept as it goes."""

import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch

from tercet.embedding.cache import EmbeddingCache
from tercet.embedding.identity import bare
from tercet.encoder import Encoder, resolve_encoder
from tercet.errors import InvalidArgument, InvalidData
from tercet.sentence_encoder import SentenceTransformerEncoder, check_texts

BATCH = 4096  # texts encoded in one call
FIRST_TOKENS, LEAST_TOKENS = 4096, 1024  # of the first call, and of any
CHUNK_S = 1.0  # a call should take, so that progress is told and little is lost
COMMIT_S, COMMIT_ROWS = 2.0, 16384  # the cache gets what was encoded when either is reached
RECENT = 8  # calls that the time left is estimated from
TOKENISED = 4096  # texts counted at a time


@dataclass(frozen=True)
class Pace:
    """How far the encoding of some texts is."""

    done: int  # texts that have their vector
    total: int
    cached: int  # of those done, the ones the cache had or that repeat another
    texts_per_s: float  # encoded so far; 0 before the first
    seconds_left: float | None  # by the tokens left and the speed of the last calls; None before the first


def embed_texts(
    encoder: Any,
    texts: list[str],
    *,
    cache: EmbeddingCache | None = None,
    batch: int = BATCH,
    progress: Callable[[Pace], None] | None = None,
    vectors: Literal["keep", "recompute"] = "keep",
) -> torch.Tensor:
    """The vectors of texts, bit-equal to `encoder.encode(texts)` where the encoder's vectors don't depend on the batch.

    Each distinct text is looked up in the cache or encoded, once, the longest texts first. Every two seconds or so what
    was encoded goes to the cache, so an import that is stopped, by whatever, goes on where it was.

    Args:
        encoder: as in `resolve_encoder`.
        texts: (B,) texts.
        cache: where vectors are taken from and kept; None: nowhere.
        batch: most texts in one call of the encoder.
        progress: called with the `Pace` after each call of the encoder.
        vectors: "keep" uses the vectors of the cache; "recompute" encodes every text and puts that in their place.

    Returns:
        (B, D) float32 on the CPU, unit norm.

    Raises:
        InvalidArgument: no encoder, an entry that isn't a text, or an encoder that the cache can't tell from others.
        StoreError: the cache can't be written.
    """
    made = resolve_encoder(encoder)
    if made is None:
        raise InvalidArgument("encoder: expected one, got None")
    if vectors not in ("keep", "recompute"):
        raise InvalidArgument(f"vectors: expected 'keep' or 'recompute', got {vectors!r}")
    if batch < 1:
        raise InvalidArgument(f"batch: expected at least 1, got {batch}")
    texts = check_texts(texts)
    if not texts:
        return made.encode(texts)
    place = {text: i for i, text in enumerate(dict.fromkeys(texts))}
    distinct = list(place)
    rows: torch.Tensor | None = None
    missing = np.arange(len(distinct))
    if cache is not None:
        found, rows = cache.lookup(made, distinct)
        if vectors == "keep":
            missing = np.flatnonzero(~found)
    meter = _Meter(texts, place, missing, progress)
    rows = _encode(made, distinct, missing, rows, cache, batch, meter)
    if len(distinct) == len(texts):
        return rows
    return rows[torch.from_numpy(np.fromiter((place[t] for t in texts), np.int64, len(texts)))]


def _encode(
    encoder: Encoder,
    texts: list[str],
    missing: np.ndarray,
    rows: torch.Tensor | None,
    cache: EmbeddingCache | None,
    batch: int,
    meter: "_Meter",
) -> torch.Tensor:
    """Encode the missing texts into their rows; what is done goes to the cache even when the encoder fails."""
    encoder = bare(encoder)
    costs = token_counts(encoder, [texts[i] for i in missing])
    meter.begin(costs)
    waiting: list[np.ndarray] = []
    last = time.monotonic()
    try:
        for chosen in _chunks(costs, batch, meter):
            at = missing[chosen]
            made = encoder.encode([texts[i] for i in at])
            if rows is None:
                rows = torch.empty(len(texts), made.shape[1])
            if made.shape != (len(at), rows.shape[1]):
                raise InvalidData(f"encoder: expected shape {(len(at), rows.shape[1])}, got {tuple(made.shape)}")
            rows[torch.from_numpy(at)] = made
            if cache is not None:
                waiting.append(at)
                if time.monotonic() - last >= COMMIT_S or sum(map(len, waiting)) >= COMMIT_ROWS:
                    taken, waiting = waiting, []
                    _commit(cache, encoder, texts, rows, taken)
                    last = time.monotonic()
            meter.advance(chosen)
    finally:
        if cache is not None and waiting and rows is not None:
            _commit(cache, encoder, texts, rows, waiting)
    assert rows is not None
    return rows


def _commit(
    cache: EmbeddingCache, encoder: Encoder, texts: list[str], rows: torch.Tensor, parts: list[np.ndarray]
) -> None:
    at = np.concatenate(parts)
    cache.append(encoder, [texts[i] for i in at], rows[torch.from_numpy(at)])


def _chunks(costs: np.ndarray, batch: int, meter: "_Meter") -> Iterator[np.ndarray]:
    """Positions of texts to encode together, the costliest first, of about as many tokens as take `CHUNK_S`."""
    order = np.argsort(-costs, kind="stable")
    total = np.cumsum(costs[order])
    start, before, budget = 0, 0, FIRST_TOKENS
    while start < len(order):
        stop = int(np.searchsorted(total, before + budget, "right"))
        stop = min(max(stop, start + 1), start + batch)
        yield order[start:stop]
        start, before = stop, int(total[stop - 1])
        budget = int(min(max(meter.tokens_per_s * CHUNK_S, LEAST_TOKENS), 4 * budget))


def token_counts(encoder: Encoder, texts: list[str]) -> np.ndarray:
    """(B,) int64, at least 1: the tokens of each text, up to the model's limit.

    Characters where there is no tokenizer, and where the model isn't on the CPU, which would wait for the count.
    """
    tokenizer: Any = getattr(getattr(encoder, "_model", None), "tokenizer", None)
    if (
        not isinstance(encoder, SentenceTransformerEncoder)
        or encoder._model.device.type != "cpu"
        or not getattr(tokenizer, "is_fast", False)
    ):
        return np.maximum(np.fromiter(map(len, texts), np.int64, len(texts)), 1)
    limit = encoder._model.max_seq_length
    out = np.empty(len(texts), np.int64)
    for start in range(0, len(texts), TOKENISED):
        part = texts[start : start + TOKENISED]
        with encoder._lock:
            ids = tokenizer(
                part, truncation=limit is not None, max_length=limit, return_attention_mask=False,
                return_token_type_ids=False, verbose=False,
            )["input_ids"]  # fmt: skip
        out[start : start + len(part)] = np.fromiter(map(len, ids), np.int64, len(part))
    return np.maximum(out, 1)


class _Meter:
    """Counts what is done and estimates the rest."""

    def __init__(
        self,
        texts: list[str],
        place: dict[str, int],
        missing: np.ndarray,
        progress: Callable[[Pace], None] | None,
    ) -> None:
        self.progress, self.total = progress, len(texts)
        self.repeats = np.ones(len(missing), np.int64)  # texts that each missing one stands for
        if len(place) < len(texts):
            counts = np.bincount(np.fromiter((place[t] for t in texts), np.int64, len(texts)), minlength=len(place))
            self.repeats = counts[missing]
        self.cached = self.total - len(missing)
        self.done = self.total - int(self.repeats.sum())
        self.encoded, self.tokens_per_s = 0, 0.0
        self.recent: deque[tuple[int, float]] = deque(maxlen=RECENT)  # tokens and seconds of the last calls

    def begin(self, costs: np.ndarray) -> None:
        """Start the clock."""
        self.costs, self.left = costs, int(costs.sum())
        self.start = self.last = time.monotonic()
        self._tell()

    def advance(self, chosen: np.ndarray) -> None:
        """These of the missing texts are done."""
        now = time.monotonic()
        tokens = int(self.costs[chosen].sum())
        self.recent.append((tokens, now - self.last))
        self.last = now
        self.tokens_per_s = sum(t for t, _ in self.recent) / max(sum(s for _, s in self.recent), 1e-9)
        self.left -= tokens
        self.encoded += len(chosen)
        self.done += int(self.repeats[chosen].sum())
        self._tell()

    def _tell(self) -> None:
        if self.progress is None:
            return
        rate = self.encoded / max(self.last - self.start, 1e-9) if self.encoded else 0.0
        left = self.left / self.tokens_per_s if self.tokens_per_s else (None if self.left else 0.0)
        self.progress(Pace(self.done, self.total, self.cached, rate, left))
