"""A graph after some of its nodes and edges have changed: what `Graph.from_tables` makes of the changed tables.

Only changed rows are read and checked. Rows keep their order when others come between them, so columns and the lists
of each node are spliced: stretches that stay are copied, with new numbers where rows have moved. Where none has moved,
what doesn't change is the same object in both graphs.
"""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch

from tercet.carried import Carried, taken_by
from tercet.context import node_columns
from tercet.datasets import crossing, has_datasets, refuse_crossing
from tercet.edges import EdgeColumns, read_edges
from tercet.errors import InvalidArgument
from tercet.given_rows import FewIds, Given, given_edges, given_nodes, listed, plain_edges, whole_edges
from tercet.graph import Graph
from tercet.ids import IdIndex
from tercet.merged_rows import AT, Names, edge_splice, used_names
from tercet.neighbour_lists import changed_lists, edges_at
from tercet.nodes import NodeColumns, read_nodes
from tercet.sorted_text import coded, over, positions
from tercet.splice import NONE, Splice, ascending
from tercet.tables import ImportReport, one_piece
from tercet_kernels import csr

BLANK = np.zeros(0, np.int32)
SAMPLE = 1024  # rows to look for a value in before all are looked through
NO_NAMES = pa.array([], pa.large_string())
NO_EDGES = EdgeColumns(BLANK, BLANK, BLANK, BLANK, np.zeros(0), np.zeros(0), pa.table({}), NO_NAMES, NO_NAMES)
FOUND = {  # kept with a graph under these names, and the columns that it was found out from
    "_relation_counts": ("relation",), "_key_counts": ("relation_key",),
    "_uniform": ("edge_importance", "edge_feedback"), "_heaviest": ("importance", "edge_importance"),
    "_most_important": ("edge_importance",),
    "_usual_feedback": ("edge_feedback",), "_missing": ("importance", "feedback"),
    "_relation_column": ("relation", "relation_names"), "_key_row": ("source", "keys"), "_labels": ("nodes",),
    "_folded_labels": ("nodes",), "_node_properties": ("nodes",), "_edge_properties": ("edges",),
    "_filter_masks": ("nodes",), "_weight_rank": ("edges",), "_dataset_codes": ("nodes", "edges"),
    **{f"_walk_{direction}_cpu": ("out", "into") for direction in ("out", "in", "both")},
}  # fmt: skip


class Change(NamedTuple):
    """A changed graph, and what became of the rows of the one before."""

    graph: Graph
    node_rows: np.ndarray | None  # (N,) int32 new row of each node, -1: deleted; None: all as they were
    key_rows: np.ndarray | None  # (R,) int32 new row of each relation key, -1: no edge has it any more; None: likewise
    nodes: Carried = Carried()  # which row of before each node still is
    edges: Carried = Carried()


class Layout(NamedTuple):
    """Where the rows of a table go."""

    splice: Splice  # replaced rows go and come again
    stays: Splice  # replaced rows stay: the fresh ones are new altogether
    home: np.ndarray  # (K,) int64 old row that each changed one takes the place of, -1 for a new one

    @staticmethod
    def taken(take: np.ndarray, before: int, home: np.ndarray) -> "Layout":
        """From (n,) which of the old rows, then the changed ones, stands in each row."""
        splice = Splice.taken(take, before)
        held = take.copy()
        held[splice.fresh] = home
        # a row that was deleted and came again at the end isn't the one it was
        low = np.maximum.accumulate(np.append(-1, held))[:-1]
        new = (held < 0) | (held <= low)
        held[new] = before + np.arange(new.sum())
        return Layout(splice, Splice.taken(held, before), np.where(new[splice.fresh], -1, home))


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
    out = Change(graph, None, None)
    if deleted_nodes is not None or deleted_edges is not None:
        out = _without(graph, *(NONE if d is None else np.asarray(d, np.int64) for d in (deleted_nodes, deleted_edges)))
    if nodes is not None or edges is not None:
        out = _then(out, _with(out.graph, nodes, edges))
        crossed = crossing(out.graph, _may_cross(out)) if has_datasets(out.graph) else NONE
        if len(crossed) and graph.options.cross_tenant == "error":
            refuse_crossing(out.graph, crossed)
        if len(crossed):
            out = _then(out, _without(out.graph, NONE, crossed))
    return out


def _then(first: Change, later: Change) -> Change:
    nodes, keys = _one_after_other(first.node_rows, later.node_rows), _one_after_other(first.key_rows, later.key_rows)
    return Change(later.graph, nodes, keys, first.nodes.through(later.nodes), first.edges.through(later.edges))


def _one_after_other(first: np.ndarray | None, later: np.ndarray | None) -> np.ndarray | None:
    return later if first is None else first if later is None else coded(later, first)


def _may_cross(change: Change) -> np.ndarray:
    """The edges that are new or changed, or at a node that is."""
    return np.union1d(change.edges.changed, edges_at(change.graph, change.nodes.changed))


def _among(size: int, rows: np.ndarray) -> np.ndarray:
    out = np.zeros(size, bool)
    out[rows] = True
    return out


def _without(graph: Graph, nodes: np.ndarray, edges: np.ndarray) -> Change:
    layout = None
    gone = ascending(edges)
    if len(nodes):
        lost = _among(graph.num_edges, gone)
        lost[edges_at(graph, nodes)] = True
        gone = np.flatnonzero(lost)
        splice = Splice.of(graph.num_nodes, ascending(nodes), NONE)
        layout = Layout(splice, splice, NONE)
    return assemble(graph, layout, None, gone if len(gone) else None, None, ImportReport())


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
    index = graph.index if n is None or layout is None else _index_after(graph, layout, n)
    titles = None
    if options.edge_keys == "edge":
        titles = one_piece(graph.nodes.column("context_title"))
        if n is not None and layout is not None:
            titles = layout.splice.text(titles, one_piece(n.table.column("context_title")))
    e = read_edges(
        wanted.columns | {AT: np.arange(len(wanted.home))}, index, report,
        canonical=canonical, duplicates=options.repeats(graph.order), skip=False, strip=options.strip,
        check=options.check_weights, node_labels=titles,
    )  # fmt: skip
    return assemble(graph, layout, n, wanted.replaced, (e, wanted.home), report, index=index)


def _index_after(graph: Graph, layout: Layout, n: NodeColumns | None) -> IdIndex:
    """What finds the ids of the changed nodes: the order of those that stay is that of before."""
    before, nodes = graph.index, layout.stays
    fresh = graph.ids[:0] if n is None else n.ids.take(pa.array(np.flatnonzero(layout.home < 0)))
    gone = before.ids.take(pa.array(nodes.gone))
    ids = before.ids if not nodes.moves and not len(fresh) else nodes.text(before.ids, fresh)
    if before.order is None:
        return FewIds(ids, is_sorted=True)
    at, lost = (positions(before.ids, x, before.order)[0] for x in (fresh, gone))
    by_id = np.asarray(pc.sort_indices(fresh)).astype(np.int64)
    ranks = Splice.of(len(before.ids), np.sort(lost), at[by_id])
    order = ranks.column(over(before.order), nodes.fresh[by_id].astype(np.int32), nodes.row if nodes.shifts else None)
    return FewIds(ids, is_sorted=False, order=order.numpy())


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
        home = given.home
        place = np.where(home < 0, size, home)
    else:
        place, found = positions(graph.ids, n.ids)
        home = np.where(found, place, -1)
    stays = Splice.of(size, NONE, place[home < 0])
    replaced = np.sort(home[home >= 0])
    return Layout(Splice.of(size, replaced, place) if len(replaced) else stays, stays, home)


def _with_sentences(graph: Graph, n: NodeColumns, layout: Layout, wanted: Given | None) -> Given | None:
    """The given edges, and those whose sentence names a node that has another title now."""
    old = layout.home[layout.home >= 0]
    before, after = (one_piece(t.column("context_title")) for t in (graph.nodes, n.table))
    differ = pc.not_equal(before.take(pa.array(old)), after.take(pa.array(np.flatnonzero(layout.home >= 0))))
    rows = edges_at(graph, old[np.asarray(differ)])
    if wanted is not None:
        rows = np.setdiff1d(rows, wanted.replaced)
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
    gone: np.ndarray | None,
    e: tuple[EdgeColumns, np.ndarray] | None,
    report: ImportReport,
    edge_take: np.ndarray | None = None,
    index: IdIndex | None = None,
) -> Change:
    """Put old and changed rows together.

    Args:
        layout: of the nodes; None: none changed. gone: (G,) ascending old edges that don't stay; None: all stay, and
            no others come.
        e: checked edges, and the old row that each given one takes the place of (-1 for a new one).
        edge_take: which of the old edges, then those of `e`, stands in each row, where that is known already.
        index: of the changed nodes, where it is made already.
    """
    new: dict[str, Any] = {"report": report}
    if layout is not None:
        if index is None and "_index" in graph.__dict__:
            index = _index_after(graph, layout, n)
        new |= _nodes(graph, layout, n, None if index is None else index.ids)
    nodes = Splice.of(graph.num_nodes, NONE, NONE) if layout is None else layout.stays
    edges, names = Splice.of(graph.num_edges, NONE, NONE), None
    if edge_take is not None:
        edges = Splice.taken(edge_take, graph.num_edges)
        gone = edges.gone
    if gone is not None:
        made, edges, names = _edges(graph, nodes, gone, e, None if edge_take is None else edges)
        new |= made
    elif nodes.shifts:
        new |= {name: edges.column(getattr(graph, name), BLANK, nodes.row) for name in ("source", "target")}
    new |= changed_lists(graph, nodes, edges, *(new.get(name, getattr(graph, name)) for name in ("source", "target")))
    out = replace(graph, **new)
    _hand_over(graph, out, names, edges)
    if layout is None and "_index" in graph.__dict__:
        _keep(out, "_index", graph.index)
    elif index is not None:
        _keep(out, "_index", IdIndex(index.ids, is_sorted=index.order is None, order=index.order))
    report.nodes, report.edges = out.num_nodes, out.num_edges
    keys = None if names is None else names[1].splice
    return Change(
        out, nodes.row.numpy() if nodes.moves else None, None if keys is None else keys.row.numpy(),
        Carried() if layout is None else layout.splice.carried, edges.carried,
    )  # fmt: skip


def _edges(
    graph: Graph, nodes: Splice, gone: np.ndarray, e: tuple[EdgeColumns, np.ndarray] | None, edges: Splice | None
) -> tuple[dict[str, Any], Splice, tuple[Names, Names]]:
    """The edge columns of the changed graph, where edges stand, and the relation names and keys."""
    new, home = (NO_EDGES, NONE) if e is None else e
    relations, keys = (
        used_names(graph, count, names, codes.numpy(), gone, new_names, new_codes)
        for count, names, codes, new_names, new_codes in (
            ("_relation_counts", graph.relation_names, graph.relation, new.relation_names, new.relation),
            ("_key_counts", graph.keys, graph.relation_key, new.keys, new.key),
        )
    )
    if edges is None:
        edges = Splice.of(graph.num_edges, gone, NONE) if e is None else edge_splice(
            graph, nodes, relations, gone, new, home)  # fmt: skip
    row = nodes.row if nodes.shifts else None
    more = None if e is None else new.table.select([n for n in new.table.schema.names if n != AT])
    return {
        "source": edges.column(graph.source, new.source, row), "target": edges.column(graph.target, new.target, row),
        "relation": edges.column(graph.relation, coded(relations.new, new.relation), relations.row),
        "relation_key": edges.column(graph.relation_key, coded(keys.new, new.key), keys.row),
        "edge_importance": edges.column(graph.edge_importance, new.importance),
        "edge_feedback": edges.column(graph.edge_feedback, new.feedback),
        "edges": edges.table(graph.edges, more), "relation_names": relations.names, "keys": keys.names,
    }, edges, (relations, keys)  # fmt: skip


def _nodes(graph: Graph, layout: Layout, n: NodeColumns | None, ids: pa.LargeStringArray | None) -> dict[str, Any]:
    splice, none = layout.splice, np.zeros(0)
    made = {} if ids is None else {"id": ids}
    return {
        "nodes": splice.table(graph.nodes, None if n is None else n.table, made),
        "importance": splice.column(graph.importance, none if n is None else n.importance),
        "feedback": splice.column(graph.feedback, none if n is None else n.feedback),
        **_sets(graph, splice, n),
    }  # fmt: skip


def _sets(graph: Graph, nodes: Splice, n: NodeColumns | None) -> dict[str, Any]:
    """The node sets; nothing where they stay as they are."""
    fresh, new_indptr, new_member, new_names = nodes.fresh, np.zeros(1, np.int64), BLANK, graph.set_names[:0]
    if n is not None:
        new_indptr, new_member, new_names = n.set_indptr, n.set_member, n.set_names
    lists = pa.LargeListArray.from_arrays(pa.array(new_indptr), new_names.take(pa.array(new_member)))
    if not nodes.moves and listed(graph, fresh).equals(lists):
        return {}
    more = np.zeros(nodes.size, np.int32)
    more[fresh] = np.diff(new_indptr)
    old = graph.set_indptr
    indptr = csr.offsets(over(old), torch.from_numpy(nodes.runs), torch.from_numpy(more)).numpy()
    gone = taken_by(np.stack([old[nodes.gone], old[nodes.gone + 1] - old[nodes.gone]], axis=1))
    names = used_names(graph, "_set_counts", graph.set_names, graph.set_member, gone, new_names, new_member)
    first, start, length = nodes.runs.T
    runs = np.stack([indptr[first], old[start], old[start + length] - old[start]], axis=1)
    at = taken_by(np.stack([indptr[fresh], np.diff(new_indptr)], axis=1))
    members = Splice(len(graph.set_member), int(indptr[-1]), runs[runs[:, 2] > 0], at)
    code = members.column(over(graph.set_member), coded(names.new, new_member), names.row).numpy()
    return {"set_names": names.names, "set_indptr": indptr, "set_member": code}


def _hand_over(graph: Graph, later: Graph, names: tuple[Names, Names] | None, edges: Splice) -> None:
    """What was found out about columns, for a graph that has the same or whose difference is known."""
    if names is not None:
        for count, of in zip(("_relation_counts", "_key_counts"), names, strict=True):
            if of.counts is not None:
                _keep(later, count, of.counts)
    for name, columns in FOUND.items():
        if name in graph.__dict__ and all(getattr(graph, c) is getattr(later, c) for c in columns):
            _keep(later, name, graph.__dict__[name])
    fresh = torch.from_numpy(edges.fresh)
    feedback, importance = later.edge_feedback[fresh], later.edge_importance[fresh]
    if graph.__dict__.get("_usual_feedback") and bool(((feedback >= 0) & (feedback <= 1)).all()):
        _keep(later, "_usual_feedback", True)
    most = graph.__dict__.get("_most_important")
    if most is not None and bool((importance <= most).all()):
        there = (importance, later.edge_importance[:SAMPLE])  # one edge that weighs so much is enough
        if any(bool((x == most).any()) for x in there) or not bool((graph.edge_importance[edges.gone] == most).any()):
            _keep(later, "_most_important", most)


def _keep(graph: Graph, name: str, value: Any) -> None:
    graph.once(name, lambda: value)
