"""Encoders: texts to unit vectors, each vector a function of its own text alone."""

import threading
from collections import OrderedDict
from collections.abc import Callable
from functools import lru_cache
from os import PathLike
from typing import Any, Protocol

import numpy as np
import torch

from tercet.errors import InvalidArgument, InvalidData
from tercet.fingerprint import PROBE_TEXTS, Fingerprint
from tercet.sentence_encoder import SentenceTransformerEncoder, check_texts, unit_rows

__all__ = [
    "CachedEncoder",
    "CallableEncoder",
    "Encoder",
    "Fingerprint",
    "SentenceTransformerEncoder",
    "VectorCache",
    "resolve_encoder",
]


class Encoder(Protocol):
    """Makes vectors of texts."""

    @property
    def dimension(self) -> int:
        """The width D of the vectors."""

    def encode(self, texts: list[str]) -> torch.Tensor:
        """(B, D) float32 on the CPU, row i for text i, unit norm."""

    def fingerprint(self) -> Fingerprint:
        """What is known of who makes the vectors."""


class CallableEncoder:
    """A function from a list of texts to (B, D) numbers (NumPy, torch or lists) as an encoder.

    Rows are brought to unit norm; a zero row stays zero. Batch invariance is up to the function. It is called with the
    probe texts once, for the width and the fingerprint; if it refuses them (a look-up table, say), the width is known
    after the first `encode`, and the fingerprint has no probe.
    """

    def __init__(self, function: Callable[[list[str]], Any], name: str | None = None) -> None:
        if not callable(function):
            raise InvalidArgument(f"encoder: expected a callable, got {type(function).__name__}")
        self.function, self.name = function, name
        self._dimension: int | None = None
        self._fingerprint: Fingerprint | None = None

    @property
    def dimension(self) -> int:
        """The width D of the vectors.

        Raises:
            InvalidArgument: the function refuses the probe texts and hasn't encoded anything yet.
        """
        known = self.fingerprint().dimension
        if known is None:
            raise InvalidArgument(f"{self._place()}: the width isn't known before the first text is encoded")
        return known

    def fingerprint(self) -> Fingerprint:
        """Name, width and probe, as far as known."""
        if self._fingerprint is None:
            try:
                made = self.function(list(PROBE_TEXTS))
            except Exception:  # any error of a caller's function: it need not know the probe texts
                return Fingerprint(self.name, self._dimension)
            self._fingerprint = Fingerprint.of(self.name, None, self._check(made, len(PROBE_TEXTS)))
        return self._fingerprint

    def encode(self, texts: list[str]) -> torch.Tensor:
        """(B, D) float32 on the CPU, row i for text i, unit norm.

        Raises:
            InvalidArgument: an entry isn't a text; names its index.
            InvalidData: the function's result isn't (B, D) finite numbers of the width it had before.
        """
        texts = check_texts(texts)
        if not texts:
            return torch.empty(0, self.dimension)
        return self._check(self.function(texts), len(texts))

    def _check(self, made: Any, expected: int) -> torch.Tensor:
        rows = self._numbers(made)
        if rows.dim() != 2 or rows.shape[0] != expected or rows.shape[1] == 0:
            raise InvalidData(f"{self._place()}: expected shape ({expected}, D), got {tuple(rows.shape)}")
        if self._dimension not in (None, rows.shape[1]):
            raise InvalidData(f"{self._place()}: expected dimension {self._dimension} as before, got {rows.shape[1]}")
        bad = torch.nonzero(~torch.isfinite(rows).all(1)).flatten()
        if len(bad):
            raise InvalidData(f"{self._place()}: text {int(bad[0])}: the vector isn't finite ({len(bad)} such)")
        self._dimension = rows.shape[1]
        return unit_rows(rows)

    def _numbers(self, made: Any) -> torch.Tensor:
        if isinstance(made, torch.Tensor):
            return made.detach().to("cpu", torch.float32)
        if isinstance(made, (list, tuple)) and made and all(isinstance(row, torch.Tensor) for row in made):
            made = [row.detach().cpu().float().numpy() for row in made]
        try:
            with np.errstate(over="ignore"):  # becomes infinite and is refused by row
                return torch.from_numpy(np.array(made, np.float32))
        except (TypeError, ValueError) as error:
            raise InvalidData(
                f"{self._place()}: expected rows of numbers, got {type(made).__name__}: {error}"
            ) from error

    def _place(self) -> str:
        return "encoder" if self.name is None else f"encoder {self.name!r}"


class VectorCache:
    """The vectors of the last `capacity` texts used, in one (capacity, D) float32 tensor. Not locked.

    The tensor is made at the first insertion, when the width is known.
    """

    def __init__(self, capacity: int) -> None:
        if capacity < 0:
            raise InvalidArgument(f"cache: expected a capacity of at least 0, got {capacity}")
        self.capacity = capacity
        self.vectors = torch.empty(0, 0)
        self._row: OrderedDict[str, int] = OrderedDict()  # least recently used first

    def __len__(self) -> int:
        return len(self._row)

    def lookup(self, texts: list[str]) -> tuple[torch.Tensor, list[str]]:
        """Rows of the texts in `vectors`, and what is missing.

        Texts that are found become the most recently used ones, in order.

        Returns:
            (B,) int64 positions, -1 where missing; the missing texts, each once, in order of first appearance.
        """
        positions = torch.full((len(texts),), -1, dtype=torch.int64)
        missing: dict[str, None] = {}
        for i, text in enumerate(texts):
            row = self._row.get(text)
            if row is None:
                missing[text] = None
            else:
                self._row.move_to_end(text)
                positions[i] = row
        return positions, list(missing)

    def insert(self, texts: list[str], rows: torch.Tensor) -> None:
        """Keep distinct texts' rows (B, D) as the most recently used ones, in order; the least recently used go.

        Of more texts than the capacity, the last ones stay.
        """
        if self.capacity == 0 or not texts:
            return
        if self.vectors.shape[1] != rows.shape[1]:
            self.vectors = torch.empty(self.capacity, rows.shape[1])
            self._row.clear()
        texts, rows = texts[-self.capacity :], rows[-self.capacity :]
        places = torch.empty(len(texts), dtype=torch.int64)
        for i, text in enumerate(texts):
            place = self._row.pop(text, None)
            if place is None:
                place = len(self._row) if len(self._row) < self.capacity else self._row.popitem(last=False)[1]
            self._row[text] = place
            places[i] = place
        self.vectors[places] = rows


class CachedEncoder:
    """An encoder that encodes a text once while it is among the last `capacity` texts used; thread-safe.

    A batch encodes its distinct missing texts in one call. Threads may encode the same missing text at the same time;
    encoding isn't done under the lock. A capacity of 0 passes every call on as it is.
    """

    def __init__(self, encoder: Encoder, *, capacity: int = 65536) -> None:
        self.encoder = encoder
        self.cache = VectorCache(capacity)
        self._lock = threading.Lock()

    @property
    def dimension(self) -> int:
        return self.encoder.dimension

    def fingerprint(self) -> Fingerprint:
        return self.encoder.fingerprint()

    def encode(self, texts: list[str]) -> torch.Tensor:
        """(B, D) float32 on the CPU, row i for text i, unit norm.

        Raises:
            InvalidArgument: an entry isn't a text; names its index.
        """
        texts = check_texts(texts)
        if self.cache.capacity == 0 or not texts:
            return self.encoder.encode(texts)
        with self._lock:
            positions, missing = self.cache.lookup(texts)
            found = positions >= 0
            kept = self.cache.vectors[positions[found]]  # a copy: a row may be reused once the lock is released
        if not missing:
            return kept
        made = self.encoder.encode(missing)
        with self._lock:
            self.cache.insert(missing, made)
        if len(kept) and kept.shape[1] != made.shape[1]:
            raise InvalidData(f"encoder: expected dimension {kept.shape[1]} as before, got {made.shape[1]}")
        place = {text: i for i, text in enumerate(missing)}
        out = torch.empty(len(texts), made.shape[1])
        out[~found] = made[[place[texts[i]] for i in torch.nonzero(~found).flatten().tolist()]]
        if len(kept):
            out[found] = kept
        return out


def resolve_encoder(spec: Any, device: str | torch.device = "cpu") -> Encoder | None:
    """The encoder that is meant.

    Args:
        spec: None; an `Encoder`; a model name or local path (the model loaded last is shared, so that collections and
            an engine naming the same one hold it once); a loaded `SentenceTransformer`; an object with `encode`; or a
            callable from a list of texts to (B, D) numbers.
        device: where a named model runs.

    Raises:
        InvalidArgument: something else, or no such model.
        MissingDependency: a name or path without sentence-transformers installed.
    """
    if spec is None:
        return None
    if isinstance(spec, (str, PathLike)):
        return _shared(str(spec), str(device))
    encode = getattr(spec, "encode", None)
    if callable(encode) and callable(getattr(spec, "fingerprint", None)):
        encoder: Encoder = spec
        return encoder
    if type(spec).__module__.partition(".")[0] == "sentence_transformers":
        return SentenceTransformerEncoder(spec)
    if callable(encode):
        return CallableEncoder(encode, type(spec).__name__)
    if callable(spec):
        return CallableEncoder(spec)
    raise InvalidArgument(
        f"encoder: expected a model name, a path, an Encoder or a callable, got {type(spec).__name__}"
    )


@lru_cache(maxsize=1)
def _shared(model: str, device: str) -> Encoder:
    return SentenceTransformerEncoder(model, device=device)
