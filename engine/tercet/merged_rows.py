"""Old rows and changed ones in one table: edges in the order of a graph, and columns of any kind."""

from typing import Any

import numpy as np
import pyarrow as pa
import torch

from tercet.edges import EdgeColumns
from tercet.graph import Graph
from tercet.normalise import encode
from tercet.sorted_text import Merged, coded, merge_names, spread

AT = "__given_row__"  # a column that tells which given row a checked one was
MOST = 2**62  # as a number, source, relation and target are packed up to here


def merged_edges(
    graph: Graph,
    ends: list[np.ndarray],
    num_nodes: int,
    kept: np.ndarray,
    e: tuple[EdgeColumns, np.ndarray] | None,
    take: np.ndarray | None = None,
) -> tuple[dict[str, Any], list[np.ndarray], np.ndarray, np.ndarray]:
    """The edges of the changed graph, their ends, where its keys have gone, and which old or new edge stands where.

    Args:
        ends: of the old edges, as rows of the changed graph.
        take: which stands where, if it is known; else it follows from the order of the graph.
    """
    new, home = (None, np.zeros(0, np.int64)) if e is None else e
    blank, no_names, row = np.zeros(0, np.int32), pa.array([], pa.large_string()), np.flatnonzero(kept)
    names = _merged(graph.relation_names, graph.relation, row, *((no_names, blank) if new is None else
                    (new.relation_names, new.relation)))  # fmt: skip
    keys = _merged(graph.keys, graph.relation_key, row, *((no_names, blank) if new is None else (new.keys, new.key)))
    label = _recoded(names, graph.relation_names, graph.relation)
    if take is not None:
        pass
    elif new is None:
        take = row
    elif graph.order == "input":
        take = _in_place(kept, home[new.table.column(AT).to_numpy()])
    else:
        have = _packed([a[row] for a in (ends[0], label, ends[1])], num_nodes, len(names.names))
        want = _packed([new.source, coded(names.new, new.relation), new.target], num_nodes, len(names.names))
        take = _in_order(graph.edges, row, have, new.table, want)
    columns = [
        (ends[0], None if new is None else new.source), (ends[1], None if new is None else new.target),
        (label, None if new is None else coded(names.new, new.relation)),
        (_recoded(keys, graph.keys, graph.relation_key), None if new is None else coded(keys.new, new.key)),
        (graph.edge_importance.numpy(), None if new is None else new.importance),
        (graph.edge_feedback.numpy(), None if new is None else new.feedback),
    ]  # fmt: skip
    source, target, *rest = ((a if b is None else np.concatenate([a, b]))[take] for a, b in columns)
    made: dict[str, Any] = dict(
        zip(("relation", "relation_key", "edge_importance", "edge_feedback"), map(torch.from_numpy, rest), strict=True)
    )
    more = None if new is None else new.table.select([n for n in new.table.schema.names if n != AT])
    made |= {"edges": merged_table(graph.edges, more, take), "relation_names": names.names, "keys": keys.names}
    return made, [source, target], keys.old, take


def _recoded(merged: Merged, before: pa.LargeStringArray, code: torch.Tensor) -> np.ndarray:
    return code.numpy() if merged.names is before else coded(merged.old, code.numpy())


def _merged(
    names: pa.LargeStringArray, code: torch.Tensor, row: np.ndarray, new_names: pa.LargeStringArray, new: np.ndarray
) -> Merged:
    return merge_names(names, new_names, code.numpy()[row], new)


def _packed(ranks: list[np.ndarray], num_nodes: int, labels: int) -> list[np.ndarray]:
    """Source, relation and target as one number where it fits, else as two."""
    source, label, target = (r.astype(np.int64) for r in ranks)
    if float(num_nodes) * num_nodes * (labels + 1) < MOST:
        return [(source * (labels + 1) + label + 1) * num_nodes + target]
    return [source * (labels + 1) + label + 1, target]


def _in_place(kept: np.ndarray, home: np.ndarray) -> np.ndarray:
    """Which of old and changed edges stands where: a replaced one's successor in its place, the others at the end."""
    size = len(kept)
    place = size + np.arange(len(home))
    at = np.flatnonzero(home >= 0)
    at = at[np.unique(home[at], return_index=True)[1]]  # the first of those that take the place of one
    place[at] = home[at]
    old = np.flatnonzero(kept)
    order = np.argsort(np.concatenate([old, place]), kind="stable")
    return np.concatenate([old, size + np.arange(len(home))])[order]


def _in_order(
    table: pa.Table, row: np.ndarray, have: list[np.ndarray], new: pa.Table, want: list[np.ndarray]
) -> np.ndarray:
    """Which of old and changed edges stands where, by (source, relation, target, id, text); both are sorted by them."""
    if len(have) > 1:  # two numbers: rank the pairs first
        pairs = np.stack([np.concatenate([a, b]) for a, b in zip(have, want, strict=True)], axis=1)
        ranks = np.unique(pairs, axis=0, return_inverse=True)[1].ravel()
        have, want = [ranks[: len(row)]], [ranks[len(row) :]]
    low, high = (np.searchsorted(have[0], want[0], side=side) for side in ("left", "right"))
    place, tied = low.copy(), np.flatnonzero(low < high)
    if len(tied):
        first, at = np.unique(low[tied], return_index=True)
        count = high[tied][at] - first
        rival = np.arange(count.sum()) + np.repeat(first - (np.cumsum(count) - count), count)
        rank = [
            encode(joined(table.column(c).combine_chunks().take(pa.array(row[rival])),
                           new.column(c).combine_chunks().take(pa.array(tied)), None))[0]
            for c in ("edge_text", "id")
        ]  # fmt: skip
        order = np.lexsort((*rank, np.concatenate([have[0][rival], want[0][tied]])))
        before = np.empty(len(order), np.int64)
        before[order] = np.cumsum(order < len(rival))
        # rivals of all groups up to each new edge, less those of the groups before its own
        inside = before[len(rival) :] - np.searchsorted(rival, low[tied])
        place[tied] = low[tied] + inside
    old, fresh = spread(len(row), place)
    out = np.empty(len(row) + len(place), np.int64)
    out[old], out[fresh] = row, table.num_rows + np.arange(len(place))
    return out


def merged_table(old: pa.Table, new: pa.Table | None, take: np.ndarray) -> pa.Table:
    """Rows of two tables; a column that one of them lacks is null there."""
    names = old.schema.names if new is None else new.schema.names
    out = {}
    for name in names:
        column = old.column(name).combine_chunks() if name in old.schema.names else pa.nulls(old.num_rows)
        out[name] = joined(column, None if new is None else new.column(name).combine_chunks(), take)
    return pa.table(out)


def joined(old: pa.Array, new: pa.Array | None, take: np.ndarray | None) -> pa.Array:
    if take is not None and old.null_count == len(old) and (new is None or new.null_count == len(new)):
        return pa.nulls(len(take), old.type if new is None or pa.types.is_null(new.type) else new.type)
    if new is not None:
        if old.type != new.type:
            kind = new.type if pa.types.is_null(old.type) else old.type
            old, new = old.cast(kind), new.cast(kind)
        old = pa.concat_arrays([old, new])
    return old if take is None else old.take(pa.array(take))
