"""Digests of texts, and checksums that tie a vector to the digest it was stored for."""

import hashlib

import numpy as np

DIGEST_WORDS = 4  # 32-bit words of a digest
ROWS = 2048  # rows summed at a time


def digests(texts: list[str]) -> np.ndarray:
    """(B, 2) uint64: BLAKE2b, 16 bytes, of each text in UTF-8 (lone surrogates as they are)."""
    joined = b"".join(hashlib.blake2b(t.encode("utf-8", "surrogatepass"), digest_size=16).digest() for t in texts)
    return np.frombuffer(joined, "<u8").reshape(-1, 2)


def checksums(digest: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """(B,) uint64: multilinear hashes of each row with its digest, sum of word * odd multiplier + constant, mod 2^64.

    Odd multipliers are invertible, so a change within one 32-bit word never goes unnoticed; other changes do with a
    chance of about 2^-32 or less (Lemire and Kaser, "Strongly universal string hashing is fast", 2014).

    Args:
        digest: (B, 2) uint64.
        rows: (B, D) float32.
    """
    multiplier = _multipliers(DIGEST_WORDS + rows.shape[1] + 1)
    keys = np.ascontiguousarray(digest, "<u8").view("<u4")
    out = np.full(len(rows), multiplier[-1], np.uint64)
    out += (keys * multiplier[:DIGEST_WORDS]).sum(1, dtype=np.uint64)
    for start in range(0, len(rows), ROWS):
        part = slice(start, start + ROWS)
        words = np.ascontiguousarray(rows[part], "<f4").view("<u4")
        out[part] += (words * multiplier[DIGEST_WORDS:-1]).sum(1, dtype=np.uint64)
    return out


def _multipliers(count: int) -> np.ndarray:
    """Fixed odd numbers; stored checksums depend on them."""
    made = hashlib.shake_256(b"tercet vector cache").digest(8 * count)
    return np.frombuffer(made, "<u8").astype(np.uint64) | np.uint64(1)
