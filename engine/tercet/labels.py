"""Labels of nodes and types of relations: the names a query may ask for, as masks."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tercet.errors import InvalidArgument
from tercet.graph import Graph
from tercet.normalise import encode
from tercet.tables import name_lists


@dataclass(frozen=True, eq=False)
class Labels:
    """The labels of the nodes: node n has names[member[indptr[n]:indptr[n + 1]]], each once, in order of name."""

    names: pa.LargeStringArray  # (L,) sorted
    indptr: np.ndarray  # (N + 1,) int64
    member: np.ndarray  # (indptr[N],) int32 rows of names, ascending within a node


def labels_of(graph: Graph) -> Labels:
    """The labels of a graph, made on first use and kept with it.

    They come from the node column `labels` (lists of text) where there is one, else from `type` (one label a node).
    Nulls and empty texts are no labels; a label named twice by a node counts once.

    Raises:
        InvalidData: the column `labels` holds something else than lists of text.
    """
    return graph.once("_labels", lambda: _read(graph))


def label_mask(
    graph: Graph, names: Iterable[str], *, mode: Literal["any", "all"], fold_case: bool = False
) -> np.ndarray:
    """Which nodes have any, or all, of some labels.

    Args:
        names: a label named twice counts once; one that no node has matches nothing.
        mode: "any" of the names, or "all" of them. With no names "any" matches no node and "all" every node.
        fold_case: compare without the case of the ASCII letters.

    Returns:
        (N,) bool.

    Raises:
        InvalidArgument: names is a plain string or holds something else than strings, or mode is unknown.
    """
    if mode not in ("any", "all"):
        raise InvalidArgument(f"mode: expected 'any' or 'all', got {mode!r}")
    wanted = name_tuple("labels", names)
    labels = labels_of(graph)
    spelled = labels.names.to_pylist()
    if fold_case:
        wanted = tuple(fold_ascii(w) for w in wanted)
        spelled = graph.once("_folded_labels", lambda: [fold_ascii(name) for name in spelled])
    of_name = {w: i for i, w in enumerate(dict.fromkeys(wanted))}
    group = np.fromiter((of_name.get(name, -1) for name in spelled), np.int64, len(spelled))
    asked = group[labels.member]
    at = np.flatnonzero(asked >= 0)
    node = np.searchsorted(labels.indptr, at, side="right") - 1
    if mode == "any":
        mask = np.zeros(graph.num_nodes, bool)
        mask[node] = True
        return mask
    pairs = _distinct(node * max(len(of_name), 1) + asked[at])  # a folded name may be held in two spellings
    return np.bincount(pairs // max(len(of_name), 1), minlength=graph.num_nodes) == len(of_name)


def relation_mask(
    graph: Graph, rel_types: Iterable[str] | None, exclude_rel_types: Iterable[str] | None
) -> np.ndarray | None:
    """Which relation labels may be walked; names are compared with their case, unknown ones match nothing.

    Args:
        rel_types: the only types allowed; none or an empty list: all of them.
        exclude_rel_types: types that are shut; none or an empty list: none of them.

    Returns:
        (L + 1,) bool by row of `graph.relation_names`; the last entry is for edges without a label, so that an edge's
        entry is `mask[relation]` with its -1 too. None where nothing is restricted.

    Raises:
        InvalidArgument: a plain string, an entry that isn't a string, or a type that is both allowed and shut.
    """
    allowed = name_tuple("rel_types", () if rel_types is None else rel_types)
    shut = name_tuple("exclude_rel_types", () if exclude_rel_types is None else exclude_rel_types)
    both = sorted(set(allowed) & set(shut))
    if both:
        raise InvalidArgument(f"rel_types and exclude_rel_types: expected no type in both, got {both}")
    if not allowed and not shut:
        return None
    mask = np.ones(len(graph.relation_names) + 1, bool)
    if allowed:
        mask[:-1] = pc.is_in(graph.relation_names, value_set=pa.array(allowed, pa.large_string()))
        mask[-1] = False
    if shut:
        mask[:-1] &= ~np.asarray(pc.is_in(graph.relation_names, value_set=pa.array(shut, pa.large_string())))
    return mask


def name_tuple(place: str, names: Iterable[Any]) -> tuple[str, ...]:
    """Names as a tuple.

    Raises:
        InvalidArgument: a plain string, no list at all, or an entry that isn't a string.
    """
    if isinstance(names, (str, bytes)) or not isinstance(names, Iterable):
        raise InvalidArgument(f"{place}: expected a list of names, got {names!r}")
    out = tuple(names)
    for name in out:
        if not isinstance(name, str):
            raise InvalidArgument(f"{place}: expected names, got {name!r} ({type(name).__name__})")
    return out


def fold_ascii(text: str) -> str:
    """The text with its ASCII letters in lower case, all else as it is."""
    return text if text.islower() and text.isascii() else text.translate(_LOWER)


_LOWER = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}


def _read(graph: Graph) -> Labels:
    if "labels" in graph.nodes.schema.names:
        indptr, flat = name_lists(graph.nodes.column("labels"), "nodes.labels")
    else:
        flat = graph.nodes.column("type").combine_chunks()
        indptr = np.arange(len(flat) + 1, dtype=np.int64)
    code, names = encode(pc.if_else(pc.equal(flat, ""), pa.scalar(None, pa.large_string()), flat))
    node = np.repeat(np.arange(graph.num_nodes), np.diff(indptr))[code >= 0]
    size = max(len(names), 1)
    pairs = _distinct(node * size + code[code >= 0])
    counts = np.bincount(pairs // size, minlength=graph.num_nodes)
    out = np.zeros(graph.num_nodes + 1, np.int64)
    np.cumsum(counts, out=out[1:])
    return Labels(names, out, (pairs % size).astype(np.int32))


def _distinct(values: np.ndarray) -> np.ndarray:
    """The values once, ascending; by sorting, as nearly sorted ones are cheaper to sort than to hash."""
    values = np.sort(values)
    first = np.ones(len(values), bool)
    first[1:] = values[1:] != values[:-1]
    return values[first]
