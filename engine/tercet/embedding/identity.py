"""Who made a cached vector: everything that a vector's bits are known to depend on, besides the text."""

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from tercet.encoder import CachedEncoder, Encoder
from tercet.errors import InvalidArgument, InvalidData
from tercet.fingerprint import PROBE_TEXTS
from tercet.sentence_encoder import SentenceTransformerEncoder


@dataclass(frozen=True)
class Identity:
    """An encoder as the cache knows it."""

    key: str  # 32 hexadecimal digits, the hash of `about`
    about: dict[str, Any]  # the fingerprint, the hash of the probe vectors' bits, settings
    dimension: int


def identity(encoder: Encoder) -> Identity:
    """The identity of an encoder; its probe texts are encoded for it.

    Fingerprints that match can differ in the last bits (bfloat16 and float32, two machines), and the cache promises
    the bits. So the exact vectors of the probe texts count, and the settings of a sentence-transformers model that the
    probes, being short, don't show.

    Raises:
        InvalidArgument: the fingerprint has no probe, so that nothing tells this encoder from others.
        InvalidData: the probe vectors have another width than the fingerprint says.
    """
    encoder = bare(encoder)
    print_ = encoder.fingerprint()
    if print_.probe_vectors is None or print_.dimension is None:
        raise InvalidArgument(
            f"cache: expected an encoder whose fingerprint has a probe, got {print_.describe()}: its vectors couldn't "
            "be told from another's"
        )
    exact = encoder.encode(list(PROBE_TEXTS))
    if exact.shape[1] != print_.dimension:
        raise InvalidData(f"encoder: the fingerprint says dimension {print_.dimension}, got {exact.shape[1]}")
    about = {k: v for k, v in print_.to_json().items() if k != "probe_vectors"}
    about["bits"] = hashlib.sha256(exact.numpy().astype("<f4").tobytes()).hexdigest()
    about["settings"] = _settings(encoder)
    return Identity(key_of(about), about, print_.dimension)


def key_of(about: Any) -> str:
    """The key of what is known of an encoder."""
    return hashlib.sha256(canonical(about)).hexdigest()[:32]


def canonical(value: Any) -> bytes:
    """JSON in one spelling."""
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode("ascii")


def bare(encoder: Encoder) -> Encoder:
    """The encoder without a cache in memory around it."""
    while isinstance(encoder, CachedEncoder):
        encoder = encoder.encoder
    return encoder


def _settings(encoder: Encoder) -> dict[str, Any]:
    if not isinstance(encoder, SentenceTransformerEncoder):
        return {}
    return {
        "batch_size": encoder.batch_size,
        "device": encoder._model.device.type,
        "max_seq_length": encoder._model.max_seq_length,
        "precision": encoder.precision,
    }
