"""A collection: vectors, the graph elements they describe, and the index that searches them."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch

from tercet.encoder import Encoder, Fingerprint, resolve_encoder
from tercet.errors import DimensionMismatch, InvalidArgument, InvalidData
from tercet.ids import canonical_ids
from tercet.index import Index, build_index
from tercet.normalise import fold
from tercet.tables import SHOWN, name_lists, texts
from tercet_kernels.cosine import norms

ROWS = 1 << 15  # rows normalised at a time


@dataclass(frozen=True, eq=False)
class Collection:
    """V vectors of width D and the id of the node, or the folded relation text, that each belongs to.

    Made by `Collection.build`. The distance of a row to a query is 1 - cosine, in [0, 2].
    """

    name: str
    kind: Literal["node", "relation"]
    index: Index
    owner: pa.LargeStringArray  # (V,) node ids or folded relation texts
    zero_norm: np.ndarray  # rows whose vector is zero
    fingerprint: Fingerprint | None = None
    set_names: pa.LargeStringArray | None = None  # node sets of the rows themselves, where they differ from the graph's
    set_indptr: np.ndarray | None = None
    set_member: pa.LargeStringArray | None = None

    @staticmethod
    def build(
        name: str,
        vectors: Any = None,
        owner: Any = None,
        kind: Literal["node", "relation"] = "node",
        *,
        texts: Any = None,
        encoder: Any = None,
        dtype: Literal["float32", "float16"] = "float32",
        order: Literal["canonical", "input"] = "canonical",
        index: str = "exact",
        index_options: dict[str, Any] | None = None,
        zero_vectors: Literal["worst", "hide"] = "worst",
        fingerprint: Fingerprint | str | None = None,
        belongs_to_set: Any = None,
        fold_owner: bool = True,
        progress: Callable[[int], None] | None = None,
    ) -> "Collection":
        """Build a collection from vectors, or from texts and an encoder.

        Args:
            name: how the collection is called, such as "Entity_name".
            vectors: (V, D) numbers, any array type; rows are brought to unit norm.
            owner: (V,) node ids (kind "node"), or relation texts (kind "relation"), folded like edge texts.
            texts: (V,) strings to encode when there are no vectors; they are the owners of a relation collection
                unless `owner` says otherwise.
            encoder: a model name, a local path, a callable or an `Encoder`; needed with texts.
            dtype: storage; float16 halves the memory, and distances are exact for the stored values.
            order: "canonical" sorts rows by owner, so that ties don't depend on load order; "input" keeps them.
            index: "exact", or an approximate index: see `tercet.index`.
            index_options: of the approximate index, such as {"nprobe": 64}: see `tercet.index.approx`.
            zero_vectors: a zero vector is at distance 1.0 ("worst") or is never found ("hide").
            fingerprint: who made the vectors: a `Fingerprint` or the model's name.
            belongs_to_set: (V,) lists of node set names, when rows are filtered by sets of their own (Cognee's stores).
            fold_owner: False when relation owners are folded already.
            progress: called with the number of texts encoded so far.

        Raises:
            InvalidData: a row isn't finite (collection and row named), lengths differ, an owner is missing.
            InvalidArgument: neither vectors nor texts with an encoder.
        """
        place = f"collection {name!r}"
        for option, value, known in (
            ("kind", kind, ("node", "relation")),
            ("order", order, ("canonical", "input")),
            ("dtype", dtype, ("float32", "float16")),
            ("zero_vectors", zero_vectors, ("worst", "hide")),
        ):
            if value not in known:
                raise InvalidArgument(f"{place}: {option} must be {known[0]!r} or {known[1]!r}, got {value!r}")
        made = None if vectors is not None else resolve_encoder(encoder)
        rows = _vectors(place, vectors, texts, made, progress)
        if made is not None and fingerprint is None:
            fingerprint = made.fingerprint()
        owners = _owners(
            place, owner if owner is not None else (texts if kind == "relation" else None), kind, fold_owner
        )
        if len(owners) != rows.shape[0]:
            raise InvalidData(f"{place}: {rows.shape[0]} vectors but {len(owners)} owners")
        sets = None if belongs_to_set is None else name_lists(belongs_to_set, f"{place}: belongs_to_set")
        if sets is not None and len(sets[0]) != len(owners) + 1:
            raise InvalidData(f"{place}: belongs_to_set: expected {len(owners)} rows, got {len(sets[0]) - 1}")
        by_owner = None
        if order == "canonical":
            sorted_ = np.asarray(pc.sort_indices(owners)).astype(np.int64)
            if (sorted_[1:] < sorted_[:-1]).any():
                by_owner, owners = sorted_, owners.take(pa.array(sorted_))
                if sets is not None:
                    raise InvalidArgument(f"{place}: belongs_to_set goes with order='input'")
        unit, scale, zero = _unit(place, rows, dtype, by_owner)
        hidden = (
            torch.from_numpy(np.isin(np.arange(len(owners)), zero)) if len(zero) and zero_vectors == "hide" else None
        )
        if isinstance(fingerprint, str):
            fingerprint = Fingerprint.named(fingerprint, rows.shape[1])
        searched = build_index(index, unit, scale, hidden, **(index_options or {}))
        out = Collection(name, kind, searched, owners, zero, fingerprint)
        if sets is not None:
            out = replace(out, set_names=pc.unique(sets[1]), set_indptr=sets[0], set_member=sets[1])
        return out

    @property
    def size(self) -> int:
        return len(self.owner)

    @property
    def dimension(self) -> int:
        return self.index.dimension

    def check_queries(self, dimension: int, fingerprint: Fingerprint | None) -> None:
        """Refuse query vectors that weren't made for this collection.

        Raises:
            DimensionMismatch, FingerprintMismatch: names the collection, both widths and both models.
        """
        from tercet.errors import FingerprintMismatch

        mine = "unknown" if self.fingerprint is None else self.fingerprint.describe()
        theirs = "unknown" if fingerprint is None else fingerprint.describe()
        if dimension != self.dimension:
            raise DimensionMismatch(
                f"collection {self.name!r}: vectors of dimension {self.dimension} (model: {mine}), "
                f"but the query has dimension {dimension} (model: {theirs})"
            )
        if self.fingerprint is not None and fingerprint is not None and not self.fingerprint.matches(fingerprint):
            raise FingerprintMismatch(
                f"collection {self.name!r} was made by {mine}, but the queries are encoded by {theirs}; "
                "distances would mean nothing (check_fingerprint=False overrides)"
            )

    def set_rows(self, names: list[str], operator: str) -> np.ndarray:
        """(V,) bool: rows whose own node sets hold any ("OR") or all ("AND") of the names."""
        out = np.zeros(self.size, bool)
        if self.set_indptr is None or self.set_member is None:
            return out
        lengths = np.diff(self.set_indptr)
        held = np.asarray(pc.is_in(self.set_member, value_set=pa.array(list(names), pa.large_string())))
        row = np.repeat(np.arange(self.size), lengths)
        if operator != "AND":
            out[row[held]] = True
            return out
        pairs = {(int(r), m.as_py()) for r, m, h in zip(row, self.set_member, held, strict=True) if h}
        counts = np.bincount([r for r, _ in pairs], minlength=self.size)
        return counts == len(set(names))

    def __repr__(self) -> str:
        return f"Collection({self.name!r}, {self.kind}, {self.size} x {self.dimension}, {self.index.kind})"


def _vectors(
    place: str, vectors: Any, strings: Any, encoder: Encoder | None, progress: Callable[[int], None] | None
) -> torch.Tensor:
    if vectors is None:
        if strings is None or encoder is None:
            raise InvalidArgument(f"{place}: expected vectors, or texts and an encoder")
        column = texts(strings, f"{place}: texts")
        if column.null_count:
            first = int(np.flatnonzero(np.asarray(pc.is_null(column)))[0])
            raise InvalidData(f"{place} row {first}: expected text, got null")
        return encode_rows(encoder, column.to_pylist(), progress)
    if isinstance(vectors, torch.Tensor):
        rows = vectors.detach().cpu()
    else:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The given NumPy array is not writable")  # the rows are only read
            rows = torch.from_numpy(np.ascontiguousarray(_array(place, vectors)))
    if rows.dim() != 2:
        raise InvalidData(f"{place}: expected vectors of shape (V, D), got {tuple(rows.shape)}")
    if not rows.dtype.is_floating_point:
        rows = rows.float()
    return rows.float() if rows.dtype not in (torch.float16, torch.float32) else rows


def encode_rows(encoder: Encoder, strings: list[str], progress: Callable[[int], None] | None) -> torch.Tensor:
    """Encode texts in slices, telling how many are done."""
    if progress is None or not strings:
        return encoder.encode(strings)
    parts = []
    for start in range(0, len(strings), 512):
        parts.append(encoder.encode(strings[start : start + 512]))
        progress(min(start + 512, len(strings)))
    return torch.cat(parts)


def _array(place: str, vectors: Any) -> np.ndarray:
    if isinstance(vectors, (pa.Array, pa.ChunkedArray)):
        column = vectors.combine_chunks() if isinstance(vectors, pa.ChunkedArray) else vectors
        if column.null_count:
            raise InvalidData(f"{place}: a vector is null")
        lengths = np.unique(np.asarray(pc.list_value_length(column)))
        if len(lengths) > 1:
            raise InvalidData(f"{place}: vectors of different lengths: {lengths[:SHOWN].tolist()}")
        return np.asarray(pc.list_flatten(column)).reshape(len(column), -1)
    try:
        return np.asarray(vectors, dtype=None if hasattr(vectors, "dtype") else np.float32)
    except (ValueError, TypeError) as error:
        raise InvalidData(f"{place}: expected (V, D) numbers: {error}") from error


def _owners(place: str, owner: Any, kind: str, fold_owner: bool) -> pa.LargeStringArray:
    if owner is None:
        raise InvalidArgument(f"{place}: expected an owner for each vector")
    ids = canonical_ids(owner, f"{place}: owner")
    if ids.null_count:
        first = int(np.flatnonzero(np.asarray(pc.is_null(ids)))[0])
        raise InvalidData(f"{place} row {first}: the owner is missing")
    return fold(pc.utf8_trim_whitespace(ids)) if kind == "relation" and fold_owner else ids


def _unit(
    place: str, rows: torch.Tensor, dtype: str, order: np.ndarray | None
) -> tuple[torch.Tensor, torch.Tensor | None, np.ndarray]:
    """Rows of unit norm (float32), or float16 rows with their reciprocal norms, and which of these are zero.

    Args:
        order: (V,) int64 which of `rows` stands in each row of the result; None: they are in order.

    Memory: the result.
    """
    lengths = norms(rows)
    wrong = torch.nonzero(~torch.isfinite(lengths)).flatten().tolist()
    if wrong:
        raise InvalidData(
            f"{place}: {len(wrong)} row{'s' * (len(wrong) > 1)} with values that aren't finite (NaN or infinity), "
            f"first {', '.join(map(str, wrong[:SHOWN]))}"
        )
    zero = torch.nonzero(lengths == 0).flatten().numpy()
    if len(zero):
        first = int(zero[0])
        warnings.warn(
            f"{place}: {len(zero)} zero vector{'s' * (len(zero) > 1)}, first in row {first} (they point nowhere)",
            stacklevel=3,
        )
    divisor = torch.where(lengths == 0, 1.0, lengths)
    taken = None if order is None else torch.from_numpy(order)
    unit = torch.empty(rows.shape, dtype=torch.float32 if dtype == "float32" else torch.float16)
    for start in range(0, rows.shape[0], ROWS):
        part = slice(start, start + ROWS)
        given = part if taken is None else taken[part]
        unit[part] = (rows[given].double() / divisor[given, None]).float()
    if order is not None and len(zero):
        zero = np.flatnonzero(np.isin(order, zero))
    if dtype == "float32":
        return unit, None, zero
    lengths = norms(unit)
    return unit, 1.0 / torch.where(lengths == 0, 1.0, lengths), zero
