"""A graph after some of its nodes and edges have changed: what `Graph.from_tables` makes of the changed tables.

Only changed rows are read and checked. The others are carried over in passes over flat arrays: rows keep their order
when others come between them, so their new numbers are running counts, and sorted lists are merged.
"""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch

from tercet.carried import Carried
from tercet.context import node_columns
from tercet.datasets import crossing, refuse_crossing
from tercet.edges import EdgeColumns, read_edges
from tercet.errors import InvalidArgument
from tercet.given_rows import FewIds, Given, given_edges, given_nodes, plain_edges, whole_edges
from tercet.graph import Adjacency, Graph, adjacency
from tercet.merged_rows import AT, joined, merged_edges, merged_table
from tercet.nodes import NodeColumns, read_nodes
from tercet.sorted_text import coded, merge_names, positions, spread, taken
from tercet.tables import ImportReport


class Change(NamedTuple):
    """A changed graph, and what became of the rows of the one before."""

    graph: Graph
    node_map: np.ndarray  # (N,) int32 new row of each node, -1: deleted
    key_map: np.ndarray  # (R,) int32 new row of each relation key, -1: no edge has it any more
    nodes: Carried = Carried()  # which row of before each node still is
    edges: Carried = Carried()


class Layout(NamedTuple):
    """Where the rows of a table go."""

    row: np.ndarray  # (n,) int64 new row of each old one, -1: deleted
    take: np.ndarray  # (n',) int64 which of the old rows, then the changed ones, stands in each new row
    home: np.ndarray  # (K,) int64 old row that each changed one takes the place of, -1 for a new one


def changed(
    graph: Graph,
    nodes: Any = None,
    edges: Any = None,
    deleted_nodes: np.ndarray | None = None,
    deleted_edges: np.ndarray | None = None,
) -> Change:
    """The graph after deleting rows, then inserting or replacing others.

    The result is bit for bit that of `Graph.from_tables` over the changed tables, with the options of the graph's own
    import. With order="input" a replaced row keeps its place and new rows go to the end.

    Args:
        graph: on the CPU.
        nodes, edges: tables as for `Graph.from_tables`; columns that aren't given stay as they are. A node is known by
            its id. An edge is known by its id, or by its ends, relation and edge text if it has none.
        deleted_nodes: rows; their edges go with them. deleted_edges: rows.

    Raises:
        InvalidData, InvalidArgument: as at import, for the given rows; or an edge would join two datasets.
    """
    if graph.device.type != "cpu":
        raise InvalidArgument(f"graph: expected it on the CPU, got {graph.device}")
    out = Change(graph, _same(graph.num_nodes), _same(len(graph.keys)))
    if deleted_nodes is not None or deleted_edges is not None:
        out = _without(graph, *(np.zeros(0, np.int64) if d is None else d for d in (deleted_nodes, deleted_edges)))
    if nodes is not None or edges is not None:
        later = _with(out.graph, nodes, edges)
        out = Change(
            later.graph, coded(later.node_map, out.node_map), coded(later.key_map, out.key_map),
            out.nodes.through(later.nodes), out.edges.through(later.edges),
        )  # fmt: skip
        crossed = crossing(out.graph)
        if len(crossed) and graph.options.cross_tenant == "error":
            refuse_crossing(out.graph, crossed)
        if len(crossed):
            bare = _without(out.graph, np.zeros(0, np.int64), crossed)
            out = Change(
                bare.graph, out.node_map, coded(bare.key_map, out.key_map), out.nodes, out.edges.through(bare.edges)
            )
    return out


def _same(size: int) -> np.ndarray:
    return np.arange(size, dtype=np.int32)


def _among(size: int, rows: np.ndarray) -> np.ndarray:
    out = np.zeros(size, bool)
    out[rows] = True
    return out


def _without(graph: Graph, nodes: np.ndarray, edges: np.ndarray) -> Change:
    kept = ~_among(graph.num_nodes, nodes)
    kept_edge = ~_among(graph.num_edges, edges)
    layout = None
    if len(nodes):
        kept_edge &= kept[graph.source.numpy()] & kept[graph.target.numpy()]
        layout = Layout(np.where(kept, np.cumsum(kept) - 1, -1), np.flatnonzero(kept), np.zeros(0, np.int64))
    return assemble(graph, layout, None, None if kept_edge.all() else kept_edge, None, ImportReport())


def _with(graph: Graph, nodes: Any, edges: Any) -> Change:
    report, options, canonical = ImportReport(), graph.options, graph.order == "canonical"
    n, layout = None, None
    if nodes is not None:
        given = given_nodes(graph, nodes)
        n = read_nodes(
            given.columns, report, canonical=canonical, skip=False, missing=options.missing, check=options.check_weights
        )
        layout = _node_layout(graph, n, given)
        graph = _titled(graph, given.columns)
    wanted = None if edges is None else given_edges(graph, edges)
    if options.edge_keys == "edge" and n is not None and layout is not None:
        wanted = _with_sentences(graph, n, layout, wanted)
    if wanted is None:
        return assemble(graph, layout, n, None, None, report)
    ids = graph.ids if n is None or layout is None else joined(graph.ids, n.ids, layout.take)
    titles = None
    if options.edge_keys == "edge":
        titles = graph.nodes.column("context_title").combine_chunks()
        if n is not None and layout is not None:
            titles = joined(titles, n.table.column("context_title").combine_chunks(), layout.take)
    e = read_edges(
        wanted.columns | {AT: np.arange(len(wanted.home))}, FewIds(ids, is_sorted=canonical), report,
        canonical=canonical, duplicates=options.repeats(graph.order), skip=False, strip=options.strip,
        check=options.check_weights, node_labels=titles,
    )  # fmt: skip
    return assemble(graph, layout, n, ~_among(graph.num_edges, wanted.replaced), (e, wanted.home), report)


def _titled(graph: Graph, columns: dict[str, Any]) -> Graph:
    """The graph with titles made again, where they depend on whether a column is there and it has come in."""
    options = replace(graph.options, has_name="name" in columns, has_description="description" in columns)
    if options == graph.options:
        return graph
    table = graph.nodes
    if options.missing == "none":
        made = node_columns(
            graph.ids, *(table.column(c) for c in ("name", "description", "text")), missing=options.missing,
            has_name=options.has_name, has_description=options.has_description,
        )  # fmt: skip
        for name, column in zip(("context_title", "context_block"), made, strict=True):
            table = table.set_column(table.schema.names.index(name), name, column)
    return replace(graph, nodes=table, options=options)


def _node_layout(graph: Graph, n: NodeColumns, given: Given) -> Layout:
    """A replaced node keeps its row; new ones go where their ids belong, or to the end."""
    size = graph.num_nodes
    if graph.order == "input":
        home, row = given.home, np.arange(size)
        new = np.where(home < 0, size + np.cumsum(home < 0) - 1, home)
    else:
        place, found = positions(graph.ids, n.ids)
        home = np.where(found, place, -1)
        row, fresh = spread(size, place[~found])
        new = np.empty(len(place), np.int64)
        new[~found], new[found] = fresh, row[place[found]]
    return Layout(row, taken(np.where(_among(size, home[home >= 0]), -1, row), new), home)


def _with_sentences(graph: Graph, n: NodeColumns, layout: Layout, wanted: Given | None) -> Given | None:
    """The given edges, and those whose sentence names a node that has another title now."""
    old = layout.home[layout.home >= 0]
    before, after = (t.column("context_title").combine_chunks() for t in (graph.nodes, n.table))
    differ = pc.not_equal(before.take(pa.array(old)), after.take(pa.array(np.flatnonzero(layout.home >= 0))))
    retitled = _among(graph.num_nodes, old[np.asarray(differ)])
    touched = retitled[graph.source.numpy()] | retitled[graph.target.numpy()]
    if wanted is not None:
        touched[wanted.replaced] = False
    rows = np.flatnonzero(touched)
    if not len(rows):
        return wanted
    columns = whole_edges(graph, rows)
    if wanted is None:
        return Given(columns, rows, rows)
    both = pa.concat_tables([plain_edges(wanted.columns), pa.table(columns)], promote_options="permissive")
    return Given(
        {name: both.column(name) for name in both.schema.names}, np.concatenate([wanted.home, rows]),
        np.union1d(wanted.replaced, rows),
    )  # fmt: skip


def assemble(
    graph: Graph,
    layout: Layout | None,
    n: NodeColumns | None,
    kept: np.ndarray | None,
    e: tuple[EdgeColumns, np.ndarray] | None,
    report: ImportReport,
    edge_take: np.ndarray | None = None,
) -> Change:
    """Put old and changed rows together.

    Args:
        layout: of the nodes; None: none changed. kept: (E,) bool old edges that stay; None: all of them, and no others.
        e: checked edges, and the old row that each given one takes the place of (-1 for a new one).
        edge_take: which of the old edges, then those of `e`, stands in each row, where that is known already.
    """
    new: dict[str, Any] = {"report": report}
    row = np.arange(graph.num_nodes) if layout is None else layout.row
    if layout is not None:
        new |= _nodes(graph, layout, n)
    size = graph.num_nodes if layout is None else len(layout.take)
    key_map = _same(len(graph.keys))
    nodes = Carried().then(None if layout is None else layout.take, graph.num_nodes)
    edges = Carried()
    if layout is not None or kept is not None:
        ends = [x.numpy() for x in (graph.source, graph.target)]
        if layout is not None:
            moved = row.astype(np.int32)
            ends = [moved[x] if len(moved) else x for x in ends]  # an end is never missing
        if kept is not None:
            made, ends, key_map, take = merged_edges(graph, ends, size, kept, e, edge_take)
            new |= made
            edges = edges.then(take, graph.num_edges)
        source, target = (torch.from_numpy(x) for x in ends)
        out = _sorted(source, target, size) if graph.order == "canonical" else adjacency(source, target, size)
        into = adjacency(target, source, size)
        degree = (out.indptr.diff() + into.indptr.diff()).numpy()
        new |= {
            "source": source, "target": target, "out": out, "into": into, "oriented": _oriented(ends, degree),
        }  # fmt: skip
    made_graph = replace(graph, **new)
    report.nodes, report.edges = made_graph.num_nodes, made_graph.num_edges
    return Change(made_graph, row.astype(np.int32), key_map, nodes, edges)


def _sorted(source: torch.Tensor, target: torch.Tensor, size: int) -> Adjacency:
    """What `adjacency` gives for edges that ascend by source."""
    indptr = torch.zeros(size + 1, dtype=torch.int64)
    torch.cumsum(torch.bincount(source, minlength=size), 0, out=indptr[1:])
    return Adjacency(indptr, torch.arange(source.shape[0], dtype=torch.int32), target)


def _oriented(ends: list[np.ndarray], degree: np.ndarray) -> Adjacency:
    """What `orient` gives, from degrees that are known already."""
    source, target = ends
    rank = degree.astype(np.int32)
    at_source, at_target = rank[source], rank[target]
    mine = (at_source < at_target) | ((at_source == at_target) & (source <= target))
    owner, other = np.where(mine, source, target), np.where(mine, target, source)
    return adjacency(torch.from_numpy(owner), torch.from_numpy(other), len(degree))


def _nodes(graph: Graph, layout: Layout, n: NodeColumns | None) -> dict[str, Any]:
    take, members = layout.take, graph.set_member
    size, start = np.diff(graph.set_indptr), graph.set_indptr[:-1]
    new_member, new_names = np.zeros(0, np.int32), pa.array([], pa.large_string())
    weights = [graph.importance.numpy(), graph.feedback.numpy()]
    if n is not None:
        size = np.concatenate([size, np.diff(n.set_indptr)])
        start = np.concatenate([start, n.set_indptr[:-1] + len(members)])
        new_member, new_names = n.set_member, n.set_names
        weights = [np.concatenate(pair) for pair in zip(weights, (n.importance, n.feedback), strict=True)]
    indptr = np.zeros(len(take) + 1, np.int64)
    np.cumsum(size[take], out=indptr[1:])
    inside = np.arange(indptr[-1]) + np.repeat(start[take] - indptr[:-1], size[take])
    sets = merge_names(graph.set_names, new_names, members[inside[inside < len(members)]], new_member)
    code = np.concatenate([coded(sets.old, members), coded(sets.new, new_member)])
    importance, feedback = (torch.from_numpy(w[take]) for w in weights)
    return {
        "nodes": merged_table(graph.nodes, None if n is None else n.table, take),
        "importance": importance, "feedback": feedback, "set_names": sets.names, "set_indptr": indptr,
        "set_member": code[inside],
    }  # fmt: skip
