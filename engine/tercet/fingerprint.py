"""Who made a collection's vectors: a name, a width, and the vectors of three fixed texts.

A width says little and a name can lie or be missing, so an encoder is known by what it does: two encoders are the same
when they give the three probe texts the same directions.
"""

import base64
import binascii
import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from tercet.errors import InvalidData

# A name, a question and a passage. Stored probes hold the vectors of exactly these texts, so they never change.
PROBE_TEXTS = (
    "Ada Lovelace",
    "Which river flows through the city where the author of the novel was born?",
    "The bridge was opened in 1894 and carries road traffic over the estuary. It was designed by an engineer from the "
    "north, built of steel and granite, and repaired twice after storms; 12,000 people cross it every day.",
)
SAME_COSINE = 0.999  # bfloat16 against float32 stays above, other models and other pooling fall below
MINILM = "sentence-transformers/all-MiniLM-L6-v2"
_ALIASES = {"minilm": MINILM, "all-minilm-l6-v2": MINILM, MINILM.lower(): MINILM}
_HASH_GRID = 512  # steps of the probe hash in a unit of vector length


def canonical_name(name: str) -> str:
    """The model's full name where a short one is known for it, else the name as given."""
    return _ALIASES.get(name.strip().lower(), name.strip())


@dataclass(frozen=True)
class Fingerprint:
    """What is known of an encoder. Any part but one may be missing; missing parts contradict nothing."""

    name: str | None = None
    dimension: int | None = None
    pooling: str | None = None
    probe: str | None = None  # sha256 of the rounded probe vectors; equal hashes match, different ones say nothing
    probe_vectors: tuple[tuple[float, ...], ...] | None = field(default=None, repr=False)  # 3 rows of D float16 values

    @staticmethod
    def named(name: str, dimension: int | None = None) -> "Fingerprint":
        """The fingerprint of vectors of which only the model's name is known."""
        return Fingerprint(canonical_name(name), dimension)

    @staticmethod
    def of(name: str | None, pooling: str | None, vectors: torch.Tensor) -> "Fingerprint":
        """The fingerprint of an encoder from its (3, D) float32 unit vectors of `PROBE_TEXTS`."""
        exact = vectors.numpy().astype(np.float16)
        rows = tuple(tuple(row) for row in exact.tolist())
        known = None if name is None else canonical_name(name)
        return Fingerprint(known, exact.shape[1], pooling, _hash(exact), rows)

    def matches(self, other: "Fingerprint | None") -> bool:
        """Whether vectors of both can be compared, as far as is known.

        Widths that are both known must agree. Then the probes decide (cosine of each text at least 0.999), or the names
        where a probe is missing; a short name equals a full one with the same last part. None matches anything.
        """
        if other is None:
            return True
        if self.dimension is not None and other.dimension is not None and self.dimension != other.dimension:
            return False
        if self.probe_vectors is not None and other.probe_vectors is not None:
            return self.probe == other.probe or _least_cosine(self.probe_vectors, other.probe_vectors) >= SAME_COSINE
        if self.name is not None and other.name is not None:
            return _same_name(self.name, other.name)
        return True

    def describe(self) -> str:
        """One line for messages, such as `MODEL (dimension 384, mean pooling, probe 1f0c9a2b)`."""
        parts = [] if self.dimension is None else [f"dimension {self.dimension}"]
        parts += [] if self.pooling is None else [f"{self.pooling} pooling"]
        parts += [] if self.probe is None else [f"probe {self.probe[:8]}"]
        name = "an unnamed encoder" if self.name is None else self.name
        return f"{name} ({', '.join(parts)})" if parts else name

    def to_json(self) -> dict[str, Any]:
        """A dict of JSON types; the probe vectors are float16, little-endian, base64."""
        out: dict[str, Any] = {"name": self.name, "dimension": self.dimension, "pooling": self.pooling}
        if self.probe_vectors is not None:
            raw = np.array(self.probe_vectors, "<f2").tobytes()
            out |= {"probe": self.probe, "probe_vectors": base64.b64encode(raw).decode("ascii")}
        return out

    @staticmethod
    def from_json(data: Any) -> "Fingerprint":
        """The fingerprint that `to_json` wrote.

        Raises:
            InvalidData: a field has another type, or the probe vectors are damaged.
        """
        if not isinstance(data, Mapping):
            raise InvalidData(f"fingerprint: expected an object, got {type(data).__name__}")
        name, pooling, dimension = data.get("name"), data.get("pooling"), data.get("dimension")
        for key, value in (("name", name), ("pooling", pooling)):
            if value is not None and not isinstance(value, str):
                raise InvalidData(f"fingerprint: expected text as {key}, got {value!r}")
        if dimension is not None and (type(dimension) is not int or dimension < 1):
            raise InvalidData(f"fingerprint: expected a positive number as dimension, got {dimension!r}")
        if data.get("probe_vectors") is None:
            return Fingerprint(name, dimension, pooling)
        exact = _decode(data["probe_vectors"], dimension)
        if _hash(exact) != data.get("probe"):
            raise InvalidData(f"fingerprint: the probe vectors don't have the hash {data.get('probe')!r}")
        return Fingerprint(name, dimension, pooling, data["probe"], tuple(tuple(row) for row in exact.tolist()))


def _decode(text: Any, dimension: int | None) -> np.ndarray:
    try:
        raw = base64.b64decode(text, validate=True)
    except (TypeError, ValueError, binascii.Error) as error:
        raise InvalidData(f"fingerprint: probe_vectors aren't base64: {error}") from error
    expected = 2 * len(PROBE_TEXTS) * (dimension or 0)
    if dimension is None or len(raw) != expected:
        raise InvalidData(f"fingerprint: expected {expected} bytes of probe vectors, got {len(raw)}")
    exact = np.frombuffer(raw, "<f2").astype(np.float16).reshape(len(PROBE_TEXTS), dimension)
    if not np.isfinite(exact).all():
        raise InvalidData("fingerprint: the probe vectors aren't finite")
    return exact


def _hash(exact: np.ndarray) -> str:
    codes = np.rint(exact.astype(np.float64) * _HASH_GRID).astype("<i2")
    return hashlib.sha256(codes.tobytes()).hexdigest()


def _least_cosine(a: tuple[tuple[float, ...], ...], b: tuple[tuple[float, ...], ...]) -> float:
    return min(cosine(x, y) for x, y in zip(a, b, strict=True))


def cosine(a: tuple[float, ...], b: tuple[float, ...]) -> float:
    """The cosine of two rows of equal length; two zero rows are equal, a zero row and another aren't."""
    lengths = math.hypot(*a) * math.hypot(*b)
    if lengths == 0.0:
        return 1.0 if not any(a) and not any(b) else 0.0
    return math.fsum(x * y for x, y in zip(a, b, strict=True)) / lengths


def _same_name(a: str, b: str) -> bool:
    a, b = canonical_name(a).lower(), canonical_name(b).lower()
    return a == b if "/" in a and "/" in b else a.rsplit("/", 1)[-1] == b.rsplit("/", 1)[-1]
