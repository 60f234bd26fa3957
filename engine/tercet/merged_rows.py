"""Old rows and changed ones in one table: where changed edges stand, and the names that are in use."""

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import torch

from tercet.edges import EdgeColumns
from tercet.graph import Graph
from tercet.normalise import encode
from tercet.sorted_text import positions
from tercet.splice import NONE, Splice
from tercet.tables import one_piece
from tercet_kernels.edge_bounds import edge_bounds

AT = "__given_row__"  # a column that tells which given row a checked one was


class Names(NamedTuple):
    """Sorted distinct names that codes stand for, after some have gone and others have come."""

    names: pa.LargeStringArray
    splice: Splice | None  # of the old names; None: they are the same
    new: np.ndarray  # (r,) int32 row of each new name
    counts: np.ndarray | None  # (R,) int64 how often each is used, where that is known

    @property
    def row(self) -> torch.Tensor | None:
        """(R,) int32 where the old names have gone; None where codes stay as they are."""
        return self.splice.row if self.splice is not None and self.splice.shifts else None


def used_names(
    graph: Graph, key: str, names: pa.LargeStringArray, codes: np.ndarray, gone: np.ndarray,
    new_names: pa.LargeStringArray, new_codes: np.ndarray,
) -> Names:  # fmt: skip
    """The names that are in use after some codes have gone and others have come.

    Args:
        key: what the counts of the old names are kept with the graph by; they are made when one may have gone.
        codes: (E,) rows of `names`, each in use, or -1. gone: places of the codes that go.
        new_names: sorted. new_codes: (K,) rows of them; those that none stands for are left out.
    """
    size = len(names)
    lost = codes[gone]
    lost = lost[lost >= 0]
    place, found = positions(names, new_names)
    coming = np.bincount(new_codes[new_codes >= 0], minlength=len(new_names))
    fresh = np.flatnonzero((coming > 0) & ~found)
    staying = place[found & (coming > 0)]
    if len(lost) > size:  # counting is faster than sorting
        less = np.bincount(lost, minlength=size)
        less[staying] = 0
        suspects = np.flatnonzero(less)
    else:
        suspects = np.setdiff1d(lost, staying)
    if len(suspects):
        graph.once(key, lambda: np.bincount(codes[codes >= 0], minlength=size))
    held: np.ndarray | None = graph.__dict__.get(key)
    dead = NONE
    if held is not None:
        counts = held.copy()
        if len(lost) > size:
            counts -= np.bincount(lost, minlength=size)
        else:
            np.subtract.at(counts, lost, 1)
        np.add.at(counts, place[found], coming[found])
        dead = suspects[counts[suspects] == 0].astype(np.int64)
    new = np.full(len(new_names), -1, np.int32)
    if not len(dead) and not len(fresh):
        new[found] = place[found]
        return Names(names, None, new, None if held is None else counts)
    moved = Splice.of(size, dead, place[fresh])
    new[found], new[fresh] = moved.rows(place[found]), moved.fresh
    made = moved.text(names, new_names.take(pa.array(fresh)))
    if held is None:
        return Names(made, moved, new, None)
    own = torch.from_numpy(counts)
    return Names(made, moved, new, moved.column(own, coming[fresh]).numpy())


def edge_splice(
    graph: Graph, nodes: Splice | None, relations: Names, gone: np.ndarray, e: EdgeColumns, home: np.ndarray
) -> Splice:
    """Where old and changed edges stand, by the order of the graph.

    Args:
        nodes: what became of the node rows that `e` names its ends by.
        gone: (G,) ascending old edges that go. home: the old edge that each given one takes the place of, or -1.
    """
    size = graph.num_edges
    if graph.order == "input":  # a replaced one's successor in its place, the others at the end
        home = home[e.table.column(AT).to_numpy()]
        place = np.full(len(home), size, np.int64)
        at = np.flatnonzero(home >= 0)
        at = at[np.unique(home[at], return_index=True)[1]]  # the first of those that take the place of one
        place[at] = home[at]
        return Splice.of(size, gone, place)
    ends = []
    for end in (e.source.astype(np.int64), e.target.astype(np.int64)):
        old, known = (end, np.ones(len(end), bool)) if nodes is None else nodes.origin(end)
        ends.append(2 * old - ~known)
    label, known = e.relation.astype(np.int64), np.ones(len(e.relation), bool)
    if relations.splice is not None:
        named = label >= 0
        label[named], known[named] = relations.splice.origin(relations.new[label[named]])
    elif len(relations.new):
        label = np.where(label < 0, -1, relations.new[label]).astype(np.int64)
    asked = [torch.from_numpy(x.astype(np.int64)) for x in (ends[0], 2 * label - ~known, ends[1])]
    low, high = (x.numpy() for x in edge_bounds(graph.out.indptr, graph.relation, graph.target, *asked))
    return Splice.of(size, gone, _among_equals(graph.edges, gone, e.table, low, high))


def _among_equals(old: pa.Table, gone: np.ndarray, new: pa.Table, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """The old row that each new edge stands before: of those with its ends and relation, by id and then text."""
    place, tied = low.copy(), np.flatnonzero(low < high)
    if not len(tied):
        return place
    first, at = np.unique(low[tied], return_index=True)
    count = high[tied][at] - first
    rival = np.arange(count.sum()) + np.repeat(first - (np.cumsum(count) - count), count)
    stays = gone[np.minimum(np.searchsorted(gone, rival), len(gone) - 1)] != rival if len(gone) else np.ones_like(rival)
    rival, group = rival[stays.astype(bool)], np.repeat(first, count)[stays.astype(bool)]
    rank = [
        encode(pa.concat_arrays([one_piece(old.column(c)).take(pa.array(rival)),
                                 one_piece(new.column(c)).take(pa.array(tied))]))[0]
        for c in ("edge_text", "id")
    ]  # fmt: skip
    order = np.lexsort((*rank, np.concatenate([group, low[tied]])))
    before = np.empty(len(order), np.int64)
    before[order] = np.cumsum(order < len(rival))  # rivals of all groups up to each
    at = before[len(rival) :]
    last = at >= np.searchsorted(group, low[tied], side="right")
    place[tied] = np.where(last, high[tied], np.append(rival, 0)[at])
    return place
