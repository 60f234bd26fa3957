"""Vectors that came with imported files: which of them become rows of collections, and what is left without one."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch

from tercet.encoder import Encoder
from tercet.errors import DimensionMismatch, FingerprintMismatch, InvalidArgument, InvalidData
from tercet.fingerprint import Fingerprint
from tercet.formats.imported import SHOWN, Imported, ImportedVectors, SourceReport
from tercet.graph import Graph
from tercet.normalise import fold
from tercet.tables import texts


@dataclass(frozen=True, eq=False)
class Part:
    """Rows for a collection; several parts may have one name."""

    name: str
    kind: Literal["node", "relation"]
    owner: pa.LargeStringArray  # (V,) ids of the graph's nodes, or keys of its relations
    rows: torch.Tensor  # (V, D)
    fingerprint: Fingerprint | None


def kept_parts(imported: Imported, graph: Graph, encoder: Encoder | None) -> list[Part]:
    """The vectors as they came, without those of owners that the graph doesn't hold, which the report counts.

    Raises:
        DimensionMismatch: two of them, or one and the encoder, differ in width; names both.
        FingerprintMismatch: the encoder isn't the one that made them; names both.
        InvalidData: another number of vectors than of owners, or a vector that isn't finite; names the first.
    """
    given = [v for v in imported.vectors if len(v.owner) or len(v.vectors)]
    for vectors in given:
        _check(vectors)
    _check_together(given, encoder)
    return [part for v in given if len((part := _part(v, graph, imported.report)).owner)]


def _check(v: ImportedVectors) -> None:
    place = f"vectors {v.name!r}"
    if v.vectors.ndim != 2 or len(v.vectors) != len(v.owner):
        raise InvalidData(f"{place}: expected shape ({len(v.owner)}, D), got {v.vectors.shape}")
    wrong = np.flatnonzero(~np.isfinite(v.vectors.sum(1, dtype=np.float64)))
    if len(wrong):
        first = v.owner[int(wrong[0])].as_py()
        raise InvalidData(f"{place}: row {wrong[0]}, of {first!r}, isn't finite ({len(wrong)} such)")


def _check_together(given: list[ImportedVectors], encoder: Encoder | None) -> None:
    names = [v.name for v in given]
    for name in names:
        if names.count(name) > 1:
            raise InvalidData(f"vectors: expected one collection {name!r}, got {names.count(name)}")
    for v in given[1:]:
        if v.vectors.shape[1] != given[0].vectors.shape[1]:
            raise DimensionMismatch(
                f"vectors of one graph must have one dimension, got {_described(given[0])} and {_described(v)} "
                "(vectors='recompute' encodes the texts instead)"
            )
    if encoder is None:
        return
    print_ = encoder.fingerprint()
    for v in given:
        if print_.dimension not in (None, v.vectors.shape[1]):
            raise DimensionMismatch(
                f"{_described(v)} came with the files, but the encoder is {print_.describe()} "
                "(vectors='recompute' encodes the texts instead)"
            )
        if v.model is not None and not Fingerprint.named(v.model, v.vectors.shape[1]).matches(print_):
            raise FingerprintMismatch(
                f"{_described(v)} came with the files, but the encoder is {print_.describe()}; distances would mean "
                "nothing (vectors='recompute' encodes the texts instead)"
            )


def _described(v: ImportedVectors) -> str:
    return f"{v.name!r} of dimension {v.vectors.shape[1]} (model: {v.model or 'unknown'})"


def _part(v: ImportedVectors, graph: Graph, report: SourceReport) -> Part:
    owner = texts(v.owner, f"vectors {v.name!r}: owner")
    if v.kind == "relation":
        owner = fold(pc.utf8_trim_whitespace(owner))
    held = np.asarray(pc.is_in(owner, value_set=graph.ids if v.kind == "node" else graph.keys))
    if not held.all():
        what = "node" if v.kind == "node" else "relation text"
        first = [repr(o) for o in v.owner.filter(pa.array(~held)).slice(0, SHOWN).to_pylist()]
        tell(report, f"{v.name}: {int((~held).sum())} of {len(held)} vectors are of no {what} of the graph and were "
                     f"left out, first {', '.join(first)}")  # fmt: skip
    if v.metric != "cosine":
        tell(report, f"{v.name}: stored for the metric {v.metric}, compared by cosine here")
    rows = v.vectors if held.all() else v.vectors[held]
    print_ = None if v.model is None else Fingerprint.named(v.model, v.vectors.shape[1])
    return Part(v.name, v.kind, owner.filter(pa.array(held)), torch.from_numpy(np.array(rows, np.float32)), print_)


def without_vector(elements: pa.LargeStringArray, parts: list[Part], kind: str) -> np.ndarray:
    """(N,) bool: the node ids, or relation keys, that no part has a vector of."""
    owners = [p.owner for p in parts if p.kind == kind]
    held = pa.chunked_array(owners, pa.large_string()).combine_chunks()
    return ~np.asarray(pc.is_in(elements, value_set=held))


def tell_unreached(report: SourceReport, graph: Graph, parts: list[Part]) -> None:
    """Say in the report what no search will reach."""
    for kind, elements, what, means in (
        ("node", graph.ids, "nodes", "a search reaches the others over edges only"),
        ("relation", graph.keys, "relation texts", "the others never match a query"),
    ):
        lacking = int(without_vector(elements, parts, kind).sum())
        if lacking:
            tell(report, f"{len(elements) - lacking} of {len(elements)} {what} have a vector: {means}")
    empty = _empty_sets(graph)
    if empty:
        more = f" and {len(empty) - SHOWN} more" if len(empty) > SHOWN else ""
        tell(report, f"node sets that no node belongs to: {', '.join(map(repr, empty[:SHOWN]))}{more}")


def _empty_sets(graph: Graph) -> list[Any]:
    """Names of the nodes that stand for a node set which no other node names or is linked to."""
    names = graph.nodes.column("name").combine_chunks()
    stands = np.asarray(pc.fill_null(pc.equal(graph.nodes.column("type"), "NodeSet"), False))
    linked = np.zeros(graph.num_nodes, bool)
    source, target = graph.source.cpu().numpy(), graph.target.cpu().numpy()
    other = source != target
    linked[source[other]] = linked[target[other]] = True
    named = np.asarray(pc.fill_null(pc.is_in(names, value_set=graph.set_names), False))
    alone = pa.array(stands & ~linked & ~named)
    return pc.coalesce(names, graph.ids).filter(alone).to_pylist()


def tell(report: SourceReport, note: str) -> None:
    """Add a note once."""
    if note not in report.notes:
        report.notes.append(note)


def check_vectors_option(vectors: str, encoder: Encoder | None) -> None:
    """Refuse a value that is unknown, and to encode anew without an encoder.

    Raises:
        InvalidArgument: names the value.
    """
    if vectors not in ("keep", "recompute"):
        raise InvalidArgument(f"vectors: expected 'keep' or 'recompute', got {vectors!r}")
    if vectors == "recompute" and encoder is None:
        raise InvalidArgument("vectors='recompute': expected an encoder, got None")
