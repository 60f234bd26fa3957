"""Tables of changed nodes and edges, completed with what the graph holds already."""

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tercet.errors import InvalidArgument, InvalidData
from tercet.graph import Graph
from tercet.ids import IdIndex, canonical_ids
from tercet.nodes import TEXT_COLUMNS, WEIGHT_COLUMNS, arrow_column
from tercet.sorted_text import positions
from tercet.tables import as_columns, one_piece, texts

CONTEXT = ("context_title", "context_block")  # made of the others
ENDS = ("source", "relation", "target")


class Given(NamedTuple):
    """K changed rows with every column, in the order in which they were given."""

    columns: dict[str, Any]
    home: np.ndarray  # (K,) int64 the row of the graph that each one takes the place of, -1 for a new one
    replaced: np.ndarray  # rows of the graph that these replace, ascending


class FewIds(IdIndex):
    """An `IdIndex` for few ids at a time; without an order of its own nothing is made beforehand."""

    def __init__(self, ids: pa.LargeStringArray, *, is_sorted: bool, order: np.ndarray | None = None) -> None:
        self.ids, self.order, self._bisects = ids, order, is_sorted or order is not None

    def rows(self, wanted: pa.LargeStringArray) -> np.ndarray:
        """See `IdIndex.rows`."""
        if self._bisects:
            return self.few(wanted)
        return np.array(pc.fill_null(pc.index_in(wanted, value_set=self.ids, skip_nulls=True), -1), np.int32)


def node_rows(graph: Graph, ids: pa.LargeStringArray) -> np.ndarray:
    """(K,) int64 rows of ids, -1 for unknown or missing ones."""
    return graph.index.few(ids).astype(np.int64)


def given_nodes(graph: Graph, table: Any) -> Given:
    """Nodes to insert or replace: a column that isn't given stays as it is, and is missing for new nodes.

    Raises:
        InvalidArgument: no column `id`.
        InvalidData: a column of another kind than the graph's.
    """
    given = as_columns(table, "nodes")
    if "id" not in given:
        raise InvalidArgument(f"nodes: the column 'id' is missing, got {sorted(given)}")
    ids = canonical_ids(given.pop("id"), "nodes.id")
    home = node_rows(graph, ids)
    held: dict[str, Any] = {n: graph.nodes.column(n) for n in graph.nodes.schema.names if n not in (*CONTEXT, "id")}
    for name, kept in (("name", graph.options.has_name), ("description", graph.options.has_description)):
        if not kept:
            del held[name]
    held |= dict(zip(WEIGHT_COLUMNS, (graph.importance.numpy(), graph.feedback.numpy()), strict=True))
    columns = {"id": ids} | _completed(held, given, home, "nodes")
    if "belongs_to_set" in given:
        columns["belongs_to_set"] = given["belongs_to_set"]
    else:
        columns["belongs_to_set"] = listed(graph, home)
    return Given(columns, home, np.unique(home[home >= 0]))


def given_edges(graph: Graph, table: Any) -> Given:
    """Edges to insert or replace; one is known by its id, or by its ends, relation and edge text if it has none.

    Raises:
        InvalidArgument: a column that names an edge is missing.
        InvalidData: a column of another kind than the graph's.
    """
    given = as_columns(table, "edges")
    absent = [name for name in ENDS if name not in given]
    if absent and "id" not in given:
        raise InvalidArgument(f"edges: the columns {absent} are missing, got {sorted(given)}")
    size = len(next(iter(given.values()))) if given else 0
    blank = pa.nulls(size, pa.large_string())
    ids = canonical_ids(given["id"], "edges.id") if "id" in given else blank
    given_, row = _by_id(graph, ids)
    if not absent:
        text = texts(given["edge_text"], "edges.edge_text") if "edge_text" in given else blank
        unnamed = np.flatnonzero(np.asarray(pc.is_null(ids)))
        ends = named_edges(graph, given, unnamed)
        mine, other = matched(graph, *ends, text=text.take(pa.array(unnamed)))
        known = one_piece(graph.edges.column("id")).take(pa.array(other)).is_null()
        mine, other = mine[np.asarray(known)], other[np.asarray(known)]
        given_, row = np.concatenate([given_, unnamed[mine]]), np.concatenate([row, other])
    order = np.lexsort((given_, row))  # a row of the graph is the home of the first that claims it
    given_, row = given_[order], row[order]
    first = np.ones(len(row), bool)
    first[1:] = row[1:] != row[:-1]
    home = np.full(size, -1, np.int64)
    home[given_[::-1]] = row[::-1]  # every one takes missing columns from the first row that it replaces
    held = held_edges(graph)
    columns = {"id": ids} | _completed(held, {k: v for k, v in given.items() if k != "id"}, home, "edges")
    return Given(columns, home, row[first])


def held_edges(graph: Graph) -> dict[str, Any]:
    """The columns of a graph's edges but the ids, by the names that `Graph.from_tables` knows them by."""
    weights = (graph.edge_importance.numpy(), graph.edge_feedback.numpy())
    return {
        "source": _Codes(graph.source.numpy(), graph.ids), "target": _Codes(graph.target.numpy(), graph.ids),
        "relation": _Codes(graph.relation.numpy(), graph.relation_names),
        **dict(zip(WEIGHT_COLUMNS, weights, strict=True)),
        **{n: graph.edges.column(n) for n in graph.edges.schema.names if n != "id"},
    }  # fmt: skip


def whole_edges(graph: Graph, rows: np.ndarray) -> dict[str, Any]:
    """Edges of a graph as they were given once."""
    held = held_edges(graph) | {"id": graph.edges.column("id")}
    return {name: _stays(column, rows, "") for name, column in held.items()}


def plain_edges(columns: dict[str, Any]) -> pa.Table:
    """Given edges as an Arrow table.

    Raises:
        InvalidData: a column that mixes kinds.
    """
    out = {}
    for name, column in columns.items():
        place = f"edges.{name}"
        if name in ("id", "source", "target"):
            out[name] = canonical_ids(column, place)
        elif name in ("relation", "edge_text", "status"):
            out[name] = texts(column, place)
        else:
            out[name] = arrow_column(column, place)
    return pa.table(out)


def named_edges(graph: Graph, columns: dict[str, Any], rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Source, relation and target of edges that are named by them; -2 where the graph doesn't have it."""
    at = pa.array(rows)
    ends = [node_rows(graph, canonical_ids(columns[n], f"edges.{n}").take(at)) for n in ("source", "target")]
    label = texts(columns["relation"], "edges.relation").take(at)
    place, found = positions(graph.relation_names, label.fill_null(""))
    relation = np.where(np.asarray(label.is_null()), -1, np.where(found, place, -2))
    source, target = (np.where(e < 0, -2, e) for e in ends)
    return source, relation, target


def matched(
    graph: Graph, source: np.ndarray, relation: np.ndarray, target: np.ndarray, text: pa.LargeStringArray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Edges of the graph that agree with some named by ends and relation (and text, where a missing one is one too).

    Returns:
        (P,) int64 which of the named and (P,) int64 which row of the graph, for each pair that agrees.
    """
    asked = np.flatnonzero((source >= 0) & (target >= 0) & (relation >= -1))
    indptr = graph.out.indptr.numpy()
    near = np.unique(source[asked])
    degree = indptr[near + 1] - indptr[near]
    start = np.repeat(indptr[near] - (np.cumsum(degree) - degree), degree)
    row = graph.out.edge.numpy()[np.arange(degree.sum()) + start].astype(np.int64)
    spans = (np.int64(len(graph.relation_names) + 1), np.int64(max(graph.num_nodes, 1)))
    far, label = graph.target.numpy()[row], graph.relation.numpy()[row] + 1
    # sources by their place among those asked for: the product stays small
    have = (np.repeat(np.arange(len(near)), degree) * spans[0] + label) * spans[1] + far
    want = (np.searchsorted(near, source[asked]) * spans[0] + relation[asked] + 1) * spans[1] + target[asked]
    order = np.argsort(want, kind="stable")
    low, high = (np.searchsorted(want[order], have, side=side) for side in ("left", "right"))
    count = high - low
    held = np.repeat(np.arange(len(have)), count)
    place = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count) + np.repeat(low, count)
    given, row = asked[order[place]], row[held]
    if text is not None:
        mine, theirs = text.take(pa.array(given)), one_piece(graph.edges.column("edge_text")).take(pa.array(row))
        same = pc.or_(pc.fill_null(pc.equal(mine, theirs), False), pc.and_(mine.is_null(), theirs.is_null()))
        kept = np.asarray(same)
        given, row = given[kept], row[kept]
    return given, row


def _by_id(graph: Graph, ids: pa.LargeStringArray) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of a given edge and the graph's row with the same id."""
    held = one_piece(graph.edges.column("id"))
    if held.null_count == len(held) or ids.null_count == len(ids):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    found = pc.index_in(held, value_set=ids, skip_nulls=True)
    row = np.flatnonzero(np.asarray(found.is_valid()))
    return np.asarray(found.take(pa.array(row))).astype(np.int64), row


class _Codes(NamedTuple):
    """A column of texts by codes, -1 for none."""

    code: np.ndarray
    names: pa.LargeStringArray

    def take(self, rows: np.ndarray) -> pa.LargeStringArray:
        code = np.where(rows < 0, -1, self.code[rows] if len(self.code) else -1)
        return self.names.take(pa.array(code, mask=code < 0))


def _completed(held: dict[str, Any], given: dict[str, Any], home: np.ndarray, place: str) -> dict[str, Any]:
    """Every column the graph holds, then new ones: given values where there are any, else those of `home`."""
    out = {}
    for name, column in held.items():
        if name not in given:
            out[name] = _stays(column, home, name)
            continue
        value = given[name]
        if isinstance(column, pa.ChunkedArray) and name not in (*TEXT_COLUMNS, "edge_text", "status"):
            value = _cast(arrow_column(value, f"{place}.{name}"), column.type, f"{place}.{name}")
        out[name] = value
    return out | {n: v for n, v in given.items() if n not in out and n != "belongs_to_set"}


def _stays(column: Any, home: np.ndarray, name: str) -> Any:
    if isinstance(column, _Codes):
        return column.take(home)
    if isinstance(column, np.ndarray):
        return pa.array(column[home] if len(column) else np.zeros(len(home)), mask=home < 0)
    out = one_piece(column).take(pa.array(home, mask=home < 0))
    return pc.if_else(pa.array(home < 0), False, out) if name == "superseded" else out


def _cast(column: pa.Array, kind: pa.DataType, place: str) -> pa.Array:
    if column.type == kind or pa.types.is_null(kind):
        return column
    try:
        return column.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidData(f"{place}: the graph's column holds {kind}, got {column.type}: {error}") from error


def listed(graph: Graph, home: np.ndarray) -> pa.Array:
    """The node sets of rows, an empty list for new ones."""
    held = np.where(home < 0, 0, home)
    size = np.where(home < 0, 0, graph.set_indptr[held + 1] - graph.set_indptr[held] if graph.num_nodes else 0)
    indptr = np.zeros(len(home) + 1, np.int64)
    np.cumsum(size, out=indptr[1:])
    start = graph.set_indptr[held] - indptr[:-1]
    member = graph.set_member[np.arange(indptr[-1]) + np.repeat(start, size)]
    return pa.LargeListArray.from_arrays(pa.array(indptr), graph.set_names.take(pa.array(member)))


def edge_rows(graph: Graph, given: Any) -> tuple[np.ndarray, np.ndarray]:
    """Edges named by ids, or by a table with `id`, or with `source`, `relation`, `target` and maybe `edge_text`.

    Returns:
        rows of the graph, ascending; (K,) bool: entries that no edge agrees with.

    Raises:
        InvalidArgument: neither ids nor such a table.
    """
    if isinstance(given, str):
        raise InvalidArgument(f"edges: expected a list of ids or a table, got {given!r}")
    is_table = hasattr(given, "keys") or hasattr(given, "schema") or hasattr(given, "columns")
    columns = as_columns(given, "edges") if is_table else {"id": given}
    if "id" in columns:
        ids = canonical_ids(columns["id"], "edges.id")
        held = one_piece(graph.edges.column("id"))
        row = np.flatnonzero(np.asarray(pc.and_(held.is_valid(), pc.is_in(held, value_set=ids))))
        known = pc.and_(ids.is_valid(), pc.is_in(ids, value_set=held.take(pa.array(row))))
        return row, ~np.asarray(known)
    absent = [name for name in ENDS if name not in columns]
    if absent:
        raise InvalidArgument(f"edges: expected the column 'id', or {list(ENDS)}, got {sorted(columns)}")
    size = len(columns["source"])
    text = texts(columns["edge_text"], "edges.edge_text") if "edge_text" in columns else None
    mine, row = matched(graph, *named_edges(graph, columns, np.arange(size)), text=text)
    unknown = np.ones(size, bool)
    unknown[mine] = False
    return np.unique(row), unknown
