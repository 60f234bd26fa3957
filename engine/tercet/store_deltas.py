"""The parts of a store that hold what has changed: rows that came, and which earlier rows are still there.

A delta has the new and changed rows of a table, and, as runs, which row of the version before or of its own stands in
each row. So a version is its base and a chain of deltas: the choices of rows are composed, and then all rows are put
together once, by the code that updates use.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import torch

from tercet.arrays import read_array
from tercet.carried import Carried, taken_by, through
from tercet.collection import Collection
from tercet.collection_update import carried_sets
from tercet.edges import EdgeColumns
from tercet.errors import StoreError
from tercet.given_rows import FewIds
from tercet.graph import Graph
from tercet.graph_update import Layout, assemble
from tercet.index.exact import ExactIndex
from tercet.index.segmented import SegmentedIndex
from tercet.nodes import NodeColumns
from tercet.normalise import encode
from tercet.store_files import read_table, write_array, write_table
from tercet.tables import ImportReport, name_lists

COLUMN = "column."  # before the name of a column of the table itself; the other columns are the store's


def write_graph_delta(graph: Graph, nodes: Carried, edges: Carried, before: dict[str, Any], folder: Path) -> None:
    """Write what has changed in a graph on the CPU.

    Args:
        nodes, edges: which row of the version before each one still is; before: its numbers of "nodes" and "edges".
    """
    folder.mkdir(parents=True)
    _write_runs(folder / "nodes.rows.npy", nodes, before["nodes"])
    _write_runs(folder / "edges.rows.npy", edges, before["edges"])
    rows = nodes.changed
    write_table(folder / "nodes.arrow", _with_columns(graph.nodes.take(pa.array(rows)), {
        "importance": graph.importance.numpy()[rows], "feedback": graph.feedback.numpy()[rows],
        "sets": _sets_of(graph, rows),
    }))  # fmt: skip
    rows = edges.changed
    write_table(folder / "edges.arrow", _with_columns(graph.edges.take(pa.array(rows)), {
        "source": graph.ids.take(pa.array(graph.source.numpy()[rows])),
        "target": graph.ids.take(pa.array(graph.target.numpy()[rows])),
        "relation": _named(graph.relation.numpy()[rows], graph.relation_names),
        "key": _named(graph.relation_key.numpy()[rows], graph.keys),
        "importance": graph.edge_importance.numpy()[rows], "feedback": graph.edge_feedback.numpy()[rows],
    }))  # fmt: skip


def read_graph_deltas(base: Graph, about: dict[str, Any], root: Path) -> Graph:
    """The graph that a base and the deltas of the manifest make.

    Raises:
        StoreError: a file can't be read, or its rows don't fit what came before.
    """
    deltas = about["deltas"]
    if not deltas:
        return base
    try:
        made = _assembled(base, about, root)
    except KeyError as error:
        raise StoreError(f"{root / deltas[-1]['folder']}: a column is missing ({error})") from error
    if (made.num_nodes, made.num_edges) != (about["nodes"], about["edges"]):
        raise StoreError(
            f"{root / deltas[-1]['folder']}: expected {about['nodes']} nodes and {about['edges']} edges, found "
            f"{made.num_nodes} and {made.num_edges}"
        )
    return made


def carried_nodes(about: dict[str, Any], root: Path, version: int) -> Carried:
    """Which row of an earlier version, the base being 0, each node of the graph still is."""
    deltas = about["deltas"]
    size = deltas[version - 1]["nodes"] if version else about["base_nodes"]
    return _carried(_chain(deltas[version:], root, "nodes", "added_nodes", size, "nodes"), size)


def carried_edges(about: dict[str, Any], root: Path) -> Carried:
    """Which row of the base each edge of the graph still is."""
    size = about["base_edges"]
    return _carried(_chain(about["deltas"], root, "edges", "added_edges", size, "edges"), size)


def carried_rows(about: dict[str, Any], root: Path) -> Carried:
    """Which row of the base each row of a collection still is."""
    size = about["base_rows"]
    return _carried(_chain(about["deltas"], root, "rows", "added", size, ""), size)


def write_collection_delta(collection: Collection, rows: Carried, before: int, folder: Path) -> None:
    """Write what has changed in a collection whose index is segmented; `before` rows were there."""
    assert isinstance(collection.index, SegmentedIndex)
    folder.mkdir(parents=True)
    _write_runs(folder / "rows.npy", rows, before)
    at = rows.changed
    index = collection.index.picked(torch.from_numpy(at).to(collection.index.segment.device))
    index.to(torch.device("cpu")).save(folder)
    zero = np.isin(at, collection.zero_norm)
    write_table(folder / "rows.arrow", pa.table({"owner": collection.owner.take(pa.array(at)), "zero": zero}))


def read_collection_deltas(base: Collection, about: dict[str, Any], root: Path) -> Collection:
    """The collection that a base and the deltas of the manifest make.

    Raises:
        StoreError: a file can't be read, or its rows don't fit what came before.
    """
    deltas = about["deltas"]
    if not deltas:
        return base
    take = _chain(deltas, root, "rows", "added", base.size, "")
    added, tables = [], []
    for d in deltas:
        index, table = ExactIndex.load(root / d["folder"]), read_table(root / d["folder"] / "rows.arrow")
        wide = (index.size, table.num_rows) != (d["added"], d["added"]) or index.dimension != base.dimension
        if wide or table.schema.names != ["owner", "zero"] or table.schema.field("owner").type != pa.large_string():
            raise StoreError(
                f"{root / d['folder']}: expected {d['added']} rows of dimension {base.dimension}, found {index.size} "
                f"of {index.dimension} and {table.num_rows} owners"
            )
        added.append(index)
        tables.append(table)
    total = base.size + sum(a.size for a in added)
    row = np.full(total, -1, np.int32)
    row[take] = np.arange(len(take), dtype=np.int32)
    zero = np.zeros(base.size, bool)
    zero[base.zero_norm] = True
    zeros = np.concatenate([zero, *(t.column("zero").to_numpy() for t in tables)])
    owner = pa.concat_arrays([base.owner, *(t.column("owner").combine_chunks() for t in tables)])
    sets = {} if base.set_indptr is None else carried_sets(base, take)
    if len(take) != about["rows"]:
        raise StoreError(f"{root / deltas[-1]['folder']}: expected {about['rows']} rows, found {len(take)}")
    return Collection(
        base.name, base.kind, SegmentedIndex.restored(base.index, added, torch.from_numpy(row)),  # type: ignore[arg-type]
        owner.take(pa.array(take)), np.flatnonzero(zeros[take]), base.fingerprint,
        **({"set_names": base.set_names, "set_indptr": base.set_indptr, "set_member": base.set_member} | sets),
    )  # fmt: skip


class _Added(NamedTuple):
    """The rows of all deltas that are still there, and where they and those of the base stand."""

    table: pa.Table  # columns of the table, in the newest schema
    own: pa.Table  # the store's columns
    take: np.ndarray  # (n,) int64 which of the base's rows, then of these, stands in each row


def _assembled(base: Graph, about: dict[str, Any], root: Path) -> Graph:
    nodes = _added(about["deltas"], root, "nodes", base.nodes)
    edges = _added(about["deltas"], root, "edges", base.edges)
    size, canonical = base.num_nodes, base.order == "canonical"
    ids = nodes.table.column("id").combine_chunks()
    home = FewIds(base.ids, is_sorted=canonical).rows(ids).astype(np.int64)
    layout, n = None, None
    if not _same(nodes.take, size) or not nodes.table.schema.equals(base.nodes.schema):
        layout = Layout.taken(nodes.take, size, home)
        indptr, members = name_lists(nodes.own.column("sets"), "sets")
        code, names = encode(members)
        importance, feedback = (nodes.own.column(c).to_numpy() for c in ("importance", "feedback"))
        n = NodeColumns(ids, importance, feedback, nodes.table, names, indptr, code)
        ids = pa.concat_arrays([base.ids, ids]).take(pa.array(nodes.take))
    else:
        ids = base.ids
    e = _edges(edges, FewIds(ids, is_sorted=canonical), root / about["deltas"][-1]["folder"])
    touched = any(d["touched_edges"] for d in about["deltas"])
    report = ImportReport()
    made = assemble(
        base, layout, n, None, (e, np.zeros(0, np.int64)) if touched else None, report, edges.take if touched else None
    )
    return made.graph


def _edges(edges: _Added, ids: FewIds, place: Path) -> EdgeColumns:
    source, target = (ids.rows(edges.own.column(c).combine_chunks()) for c in ("source", "target"))
    if (source < 0).any() or (target < 0).any():
        raise StoreError(f"{place / 'edges.arrow'}: an end is no node of the graph")
    relation, names = encode(edges.own.column("relation").combine_chunks())
    key, keys = encode(edges.own.column("key").combine_chunks())
    importance, feedback = (edges.own.column(c).to_numpy() for c in ("importance", "feedback"))
    return EdgeColumns(source, target, relation, key, importance, feedback, edges.table, names, keys)


def _added(deltas: Sequence[dict[str, Any]], root: Path, name: str, base: pa.Table) -> _Added:
    take = _chain(deltas, root, name, f"added_{name}", base.num_rows, name)
    tables = []
    for d in deltas:
        file = root / d["folder"] / f"{name}.arrow"
        table = read_table(file)
        if table.num_rows != d[f"added_{name}"]:
            raise StoreError(f"{file}: expected {d[f'added_{name}']} rows, found {table.num_rows}")
        tables.append(table)
    there = np.flatnonzero(take >= base.num_rows)
    rows = pa.array(take[there] - base.num_rows)
    out = {}
    for field in tables[-1].schema:  # a column keeps its kind for good, but for one without values
        parts = [_piece(t, field) for t in tables]
        out[field.name] = pa.concat_arrays(parts).take(rows)
    put = take.copy()
    put[there] = base.num_rows + np.arange(len(there))
    table = pa.table({n.removeprefix(COLUMN): c for n, c in out.items() if n.startswith(COLUMN)})
    return _Added(table, pa.table({n: c for n, c in out.items() if not n.startswith(COLUMN)}), put)


def _piece(table: pa.Table, field: pa.Field) -> pa.Array:
    if field.name not in table.schema.names or table.schema.field(field.name).type != field.type:
        return pa.nulls(table.num_rows, field.type)
    return table.column(field.name).combine_chunks()


def _chain(
    deltas: Sequence[dict[str, Any]], root: Path, size_name: str, added_name: str, size: int, prefix: str
) -> np.ndarray:
    """(n,) int64 which of the first version's rows, then of those of all deltas, stands in each row of the last."""
    chosen, now, offset = np.array([[0, size]], np.int64), size, size
    for d in deltas:
        file = root / d["folder"] / (f"{prefix}.rows.npy" if prefix else "rows.npy")
        step = _read_runs(file, now, d[added_name], d[size_name])
        chosen = through(np.concatenate([chosen, [[offset, d[added_name]]]]), step)
        now, offset = d[size_name], offset + d[added_name]
    return taken_by(chosen)


def _carried(take: np.ndarray, size: int) -> Carried:
    return Carried() if _same(take, size) else Carried.of(np.where(take < size, take, -1))


def _same(take: np.ndarray, size: int) -> bool:
    return len(take) == size and bool((take == np.arange(size)).all())


def _write_runs(file: Path, carried: Carried, before: int) -> None:
    write_array(file, carried.choice(before))


def _read_runs(file: Path, before: int, added: int, size: int) -> np.ndarray:
    """(r, 2) int64 the choice that a delta makes; both kinds of rows ascend, none is there twice.

    Raises:
        StoreError: it makes another one.
    """
    runs = read_array(file)
    fits = runs.ndim == 2 and runs.shape[1:] == (2,) and runs.dtype == np.int64
    if fits:
        low, length = runs.T
        inside = (low >= 0) & (length > 0) & (length <= before + added) & (low <= before + added - length)
        fits = bool(inside.all()) and int(length.sum()) == size
    if fits:
        parts = through(np.array([[0, before], [before, added]], np.int64), runs)  # none is of both kinds
        for part in (parts[parts[:, 0] < before], parts[parts[:, 0] >= before]):
            fits &= bool((part[1:, 0] >= part[:-1].sum(axis=1)).all())
        fits &= int(parts[parts[:, 0] >= before, 1].sum()) == added
    if not fits:
        raise StoreError(f"{file}: expected {size} of {before} earlier rows and all of {added} new ones, in order")
    return runs


def _with_columns(table: pa.Table, own: dict[str, Any]) -> pa.Table:
    columns = {COLUMN + name: table.column(name) for name in table.schema.names}
    return pa.table(columns | {name: pa.array(c) if isinstance(c, np.ndarray) else c for name, c in own.items()})


def _named(code: np.ndarray, names: pa.LargeStringArray) -> pa.LargeStringArray:
    return names.take(pa.array(code, mask=code < 0))


def _sets_of(graph: Graph, rows: np.ndarray) -> pa.Array:
    """The node sets of some rows as lists."""
    size = np.diff(graph.set_indptr)[rows]
    indptr = np.zeros(len(rows) + 1, np.int64)
    np.cumsum(size, out=indptr[1:])
    inside = np.arange(indptr[-1]) + np.repeat(graph.set_indptr[rows] - indptr[:-1], size)
    return pa.LargeListArray.from_arrays(pa.array(indptr), graph.set_names.take(pa.array(graph.set_member[inside])))
