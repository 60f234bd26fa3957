"""The approximate indexes: where each one runs, its options and their defaults."""

from collections.abc import Iterable
from math import isqrt
from typing import Any

from tercet.errors import InvalidArgument

OPTIONS: dict[str, dict[str, int | None]] = {  # None: chosen from the collection, or from k at each search
    "hnsw": {"M": 32, "ef_construction": 200, "ef_search": None, "overfetch": 1},
    "ivf": {"nlist": None, "nprobe": None, "overfetch": 1},
    "pq": {"nlist": None, "nprobe": None, "m": None, "overfetch": 4},
    "flat": {"overfetch": 1},
    "cagra": {"graph_degree": 64, "itopk_size": None, "overfetch": 2},
}
ON_CPU = ("hnsw", "ivf", "pq")
ON_CUDA = {"flat": 2048, "ivf": 2048, "cagra": 512}  # and the most rows that FAISS returns for a query there


def names(kinds: Iterable[str]) -> str:
    """Names as a list for a message."""
    return ", ".join(kinds)


def resolve(kind: str, given: dict[str, Any], rows: int, width: int) -> dict[str, int | None]:
    """The options of an index over `rows` vectors of `width` elements, defaults filled in.

    `nlist` and `nprobe` are cut at what there is. `None` means the default.

    Raises:
        InvalidArgument: an unknown option (the known ones are listed), a wrong value, `m` doesn't divide the width.
    """
    known = OPTIONS[kind]
    for name, value in given.items():
        if name not in known:
            raise InvalidArgument(f"index {kind!r}: unknown option {name!r}; it has {names(known)}")
        least = 2 if name == "M" else 1
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < least):
            raise InvalidArgument(f"index {kind!r}: {name} must be an integer of at least {least}, got {value!r}")
    out = {**known, **{name: value for name, value in given.items() if value is not None}}
    if "nlist" in out:  # FAISS wants 39 rows to learn a centroid from
        nlist = min(out["nlist"] or max(min(4 * isqrt(rows), rows // 39), 1), max(rows, 1))
        out["nlist"], out["nprobe"] = nlist, min(out["nprobe"] or max(nlist // 10, 16), nlist)
    if "m" in out:
        m = out["m"] or max(n for n in range(1, max(width // 8, 1) + 1) if width % n == 0)
        if width % m:
            raise InvalidArgument(f"index {kind!r}: m must divide the dimension {width}, got {m}")
        out["m"] = m
    return out
