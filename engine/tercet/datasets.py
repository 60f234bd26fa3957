"""Datasets: the tenant that a node or an edge belongs to, from the column `dataset` of either table.

A row without a dataset belongs to none. An edge may not join nodes of two datasets, nor carry another than its ends.
"""

from dataclasses import replace
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tercet.errors import InvalidData
from tercet.graph import Graph
from tercet.tables import SHOWN

COLUMN = "dataset"
CrossTenant = Literal["error", "drop"]


def has_datasets(graph: Graph) -> bool:
    """Whether nodes or edges say which dataset they belong to."""
    return COLUMN in graph.nodes.schema.names or COLUMN in graph.edges.schema.names


def dataset_codes(graph: Graph) -> tuple[list[str], np.ndarray, np.ndarray]:
    """The names of all datasets, ascending, and (N,) and (E,) int32 which one each node and edge has, -1 for none."""

    def made() -> tuple[list[str], np.ndarray, np.ndarray]:
        columns = [_texts(graph.nodes), _texts(graph.edges)]
        names = pa.concat_arrays([c.unique() for c in columns]).drop_null().unique()
        names = names.take(pc.array_sort_indices(names))
        codes = (np.asarray(pc.fill_null(pc.index_in(c, value_set=names), -1)).astype(np.int32) for c in columns)
        return (names.to_pylist(), *codes)

    return graph.once("_dataset_codes", made)


def crossing(graph: Graph, edges: np.ndarray | None = None) -> np.ndarray:
    """(X,) int64 rows of edges between datasets, ascending.

    Args:
        edges: (P,) ascending rows on the CPU to look at; None: all.
    """
    if not has_datasets(graph):
        return np.zeros(0, np.int64)
    if edges is not None:
        ends = [graph.source.numpy()[edges], graph.target.numpy()[edges]]
        source, target, own = (_texts(t.select(_column(t)).take(pa.array(rows))) for t, rows in (
            (graph.nodes, ends[0]), (graph.nodes, ends[1]), (graph.edges, edges)))  # fmt: skip
        pairs = ((source, target), (own, source), (own, target))
        differ = [np.asarray(pc.fill_null(pc.not_equal(a, b), False), bool) for a, b in pairs]
        return edges[np.logical_or.reduce(differ)]
    _, node, edge = dataset_codes(graph)
    source, target = (node[x.cpu().numpy()] for x in (graph.source, graph.target))
    wrong = (source != target) & (source >= 0) & (target >= 0)
    for end in (source, target):
        wrong |= (edge != end) & (edge >= 0) & (end >= 0)
    return np.flatnonzero(wrong)


def refuse_crossing(graph: Graph, rows: np.ndarray) -> None:
    """Raise for edges between datasets.

    Raises:
        InvalidData: names the first ones, and how many there are.
    """
    if not len(rows):
        return
    names, node, edge = dataset_codes(graph)
    shown = []
    for row in rows[:SHOWN].tolist():
        ends = [int(x[row]) for x in (graph.source, graph.target)]
        ids = graph.ids.take(pa.array(ends)).to_pylist()
        label = graph.relation_column[row].as_py()
        of = [repr(names[c]) if c >= 0 else "none" for c in (*node[ends], edge[row])]
        shown.append(f"{ids[0]!r} ({of[0]}) -{label}-> {ids[1]!r} ({of[1]}), edge of {of[2]}")
    raise InvalidData(
        f"edges: {len(rows)} join datasets, which cross_tenant='error' forbids ('drop' leaves them out): "
        + "; ".join(shown)
    )


def apart(graph: Graph, cross_tenant: CrossTenant) -> Graph:
    """The graph without edges between datasets, or a refusal of it.

    Raises:
        InvalidData: there are some, and they may not be dropped.
    """
    rows = crossing(graph)
    if not len(rows):
        return graph
    if cross_tenant == "error":
        refuse_crossing(graph, rows)
    from tercet.graph_update import changed

    report = graph.report
    kept = changed(graph, deleted_edges=rows).graph
    dropped = f"edge between datasets, dropped (rows of the graph of {graph.num_edges} edges)"
    report.note(dropped, rows)
    report.edges = kept.num_edges
    return replace(kept, report=report)


def _column(table: pa.Table) -> list[str]:
    return [COLUMN] if COLUMN in table.schema.names else table.schema.names[:1]


def _texts(table: pa.Table) -> pa.Array:
    if COLUMN not in table.schema.names:
        return pa.nulls(table.num_rows, pa.large_string())
    column = table.column(COLUMN)
    try:
        return column.cast(pa.large_string()).combine_chunks()  # numbers are names too
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidData(f"dataset: expected a column of texts or numbers, got {column.type}") from error
