"""The graph: dense rows, flat arrays with offsets, text on the host."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch

from tercet.arrays import column
from tercet.edges import EdgeColumns, read_edges
from tercet.errors import InvalidArgument, UnknownId
from tercet.ids import IdIndex, canonical_ids
from tercet.nodes import NodeColumns, read_nodes
from tercet.tables import ImportReport, as_columns, one_piece
from tercet_kernels import csr


@dataclass(frozen=True, eq=False)
class Adjacency:
    """Edges grouped by one end: those of node n are edge[indptr[n]:indptr[n + 1]]."""

    indptr: torch.Tensor  # (N + 1,) int64
    edge: torch.Tensor  # (E,) int32 edge rows, ascending within a node
    other: torch.Tensor  # (E,) int32 the end that isn't the grouping one


@dataclass(frozen=True)
class ImportOptions:
    """How a graph's tables were read: the options of `Graph.from_tables` that updates must follow."""

    duplicates: Literal["merge", "keep", "error"] | None = None  # None: as the order has it
    edge_keys: Literal["text", "edge"] = "text"
    strip: bool = True
    missing: Literal["fallback", "none"] = "fallback"
    check_weights: bool = True
    has_name: bool = True  # whether the node table had this column
    has_description: bool = True
    cross_tenant: Literal["error", "drop"] = "error"  # what happens to edges between datasets

    def repeats(self, order: str) -> Literal["merge", "keep", "error"]:
        """What happens to repeated edges."""
        return self.duplicates or ("merge" if order == "canonical" else "keep")


@dataclass(frozen=True, eq=False)
class Graph:
    """Nodes and directed, labelled edges. Made by `Graph.from_tables`; never changed afterwards."""

    source: torch.Tensor  # (E,) int32 node rows
    target: torch.Tensor  # (E,) int32 node rows
    relation: torch.Tensor  # (E,) int32 rows of relation_names, -1 for an edge without a label
    relation_key: torch.Tensor  # (E,) int32 rows of keys, -1 for an edge that nothing can match
    out: Adjacency  # grouped by source
    into: Adjacency  # grouped by target
    oriented: Adjacency  # each edge once, at its end of lower degree (ties: the smaller row)
    importance: torch.Tensor  # (N,) float64; this and the next three: see `arrays.column`
    feedback: torch.Tensor  # (N,) float64
    edge_importance: torch.Tensor  # (E,) float64
    edge_feedback: torch.Tensor  # (E,) float64
    nodes: pa.Table  # id, name, type, text, description, what else the table held, context_title, context_block
    edges: pa.Table  # edge_text, status, superseded, id, and what else the table held
    relation_names: pa.LargeStringArray  # (L,) sorted
    keys: pa.LargeStringArray  # (R,) sorted folded edge texts
    set_names: pa.LargeStringArray  # (S,) sorted names of node sets
    set_indptr: np.ndarray  # (N + 1,) int64
    set_member: np.ndarray  # rows of set_names, by node
    order: str  # "canonical" or "input"
    report: ImportReport = field(default_factory=ImportReport)
    unread_ends: pa.LargeStringArray | None = None  # ends of stored edges that were left out (imports for parity only)
    options: ImportOptions = ImportOptions()

    @staticmethod
    def from_tables(
        nodes: Any,
        edges: Any,
        *,
        order: Literal["canonical", "input"] = "canonical",
        duplicates: Literal["merge", "keep", "error"] | None = None,
        bad_rows: Literal["refuse", "skip"] = "refuse",
        edge_keys: Literal["text", "edge"] = "text",
        strip: bool = True,
        missing: Literal["fallback", "none"] = "fallback",
        check_weights: bool = True,
        cross_tenant: Literal["error", "drop"] = "error",
    ) -> "Graph":
        """Build a graph from a table of nodes and a table of edges.

        Args:
            nodes: pyarrow / pandas / polars table or dict of columns. `id` is needed; `name`, `type`, `text`,
                `description`, `importance_weight` and `feedback_weight` (numbers in [0, 1], missing is 0.5) and
                `belongs_to_set` (lists of names) and `dataset` (the tenant, see `Engine.scope`) are known; other
                columns are kept for filters and results.
            edges: likewise: `source`, `target` and `relation` are needed; `edge_text`, `id`, `importance_weight`,
                `feedback_weight`, `weight` (any number; kept, not used in triplet scores) and `dataset` are known.
            order: "canonical" numbers nodes by id and edges by (source id, relation, target id, edge id, edge text),
                all as strings, so that ties never depend on load order; "input" keeps the given order.
            duplicates: what happens to edges without an id that agree in source, relation, target and edge text:
                merged (the larger weights stay), kept, or an error. None: "merge", or "keep" with order="input".
            bad_rows: refuse the import, or skip the rows that can't be taken and list them in `report`.
            edge_keys: what edges share a distance by: "text" is the edge text, or the relation where there is none;
                "edge" gives an edge without a text a sentence of its own, "<source> <relation> <target>.".
            strip: fold edge texts without the white space around them before they become distance keys.
            missing: titles of nodes without a name: their id ("fallback") or the text None ("none").
            check_weights: refuse importance and feedback outside [0, 1].
            cross_tenant: edges between nodes of different datasets, or of another one than their ends, are an "error",
                or dropped and counted in `report`.

        Raises:
            InvalidData: with the first rows of each problem and a count.
            InvalidArgument: a needed column is missing or an option is unknown.
        """
        _one_of("order", order, ("canonical", "input"))
        _one_of("bad_rows", bad_rows, ("refuse", "skip"))
        _one_of("edge_keys", edge_keys, ("text", "edge"))
        _one_of("missing", missing, ("fallback", "none"))
        _one_of("duplicates", duplicates or "merge", ("merge", "keep", "error"))
        _one_of("cross_tenant", cross_tenant, ("error", "drop"))
        columns = as_columns(nodes, "nodes")
        options = ImportOptions(
            duplicates, edge_keys, strip, missing, check_weights, "name" in columns, "description" in columns,
            cross_tenant,
        )  # fmt: skip
        report = ImportReport()
        skip = bad_rows == "skip"
        n = read_nodes(columns, report, canonical=order == "canonical", skip=skip, missing=missing, check=check_weights)
        index = IdIndex(n.ids, is_sorted=order == "canonical")
        e = read_edges(
            edges, index, report, canonical=order == "canonical", duplicates=options.repeats(order), skip=skip,
            strip=strip, check=check_weights,
            node_labels=n.table.column("context_title").chunk(0) if edge_keys == "edge" else None,
        )  # fmt: skip
        from tercet.datasets import apart

        return apart(_assemble(n, e, order, report, options), cross_tenant)

    @property
    def num_nodes(self) -> int:
        return self.importance.shape[0]

    @property
    def num_edges(self) -> int:
        return self.source.shape[0]

    @property
    def device(self) -> torch.device:
        return self.source.device

    @property
    def ids(self) -> pa.LargeStringArray:
        """(N,) external ids, by row."""
        return self.nodes.column("id").chunk(0) if self.num_nodes else pa.array([], pa.large_string())

    def rows(self, ids: Any) -> np.ndarray:
        """(len(ids),) int32 node rows of external ids, -1 where the graph has no such node."""
        return self.index.rows(canonical_ids(ids, "ids"))

    def row(self, node_id: Any) -> int:
        """The row of one node.

        Raises:
            UnknownId: the graph has no such node.
        """
        row = int(self.rows([node_id])[0])
        if row < 0:
            raise UnknownId(f"the graph has no node with the id {node_id!r}")
        return row

    @property
    def index(self) -> IdIndex:
        """Finds node rows by external id."""
        return self.once("_index", lambda: IdIndex(self.ids, is_sorted=self.order == "canonical"))

    @property
    def relation_column(self) -> pa.DictionaryArray:
        """(E,) labels as text, null for an edge without one; made on first use."""
        return self.once("_relation_column", self._label_column)

    @property
    def text_columns(self) -> tuple[Any, Any, Any, Any, Any, Any]:
        """What the context text is made of: title, block, label, edge text, status, superseded."""
        return self.once("_text_columns", lambda: (
            *(self.nodes.column(c) for c in ("context_title", "context_block")), self.relation_column,
            *(one_piece(self.edges.column(c)) for c in ("edge_text", "status", "superseded")),
        ))  # fmt: skip

    @property
    def relationship_name(self) -> Any:
        """(E,) second choice of a label, where the edge table has a column of that name."""
        return self.edges.column("relationship_name") if "relationship_name" in self.edges.schema.names else None

    def _label_column(self) -> pa.DictionaryArray:
        code = self.relation.cpu().numpy()
        at = pa.array(code, mask=code < 0) if len(code) and code.min() < 0 else pa.array(code)
        return pa.DictionaryArray.from_arrays(at, self.relation_names, safe=False)

    def once(self, name: str, make: Callable[[], Any]) -> Any:
        """What `make` gives, made on first use and kept with the graph."""
        if name not in self.__dict__:
            object.__setattr__(self, name, make())
        return self.__dict__[name]

    def latest(self, name: str, key: Any, make: Callable[[], Any]) -> Any:
        """What `make` gives for a key; the value of the last key is kept with the graph."""
        held = self.__dict__.get(name)
        if held is None or held[0] != key:
            held = (key, make())
            object.__setattr__(self, name, held)
        return held[1]

    def to(self, device: torch.device | str) -> "Graph":
        """The same graph with its tensors on another device; text stays on the host."""
        device = torch.device(device)
        if device == self.device:
            return self
        moved: dict[str, Any] = {}
        for f in fields(self):
            value = getattr(self, f.name)
            if isinstance(value, torch.Tensor):
                moved[f.name] = value.to(device).contiguous()  # kernels of other devices read whole columns
            elif isinstance(value, Adjacency):
                moved[f.name] = Adjacency(value.indptr.to(device), value.edge.to(device), value.other.to(device))
        return replace(self, **moved)

    def triplet(self, edge: int) -> tuple[str, str, str]:
        """(source id, relation, target id) of an edge row."""
        source, target, label = int(self.source[edge]), int(self.target[edge]), int(self.relation[edge])
        return (
            self.ids[source].as_py(),
            self.relation_names[label].as_py() if label >= 0 else "",
            self.ids[target].as_py(),
        )

    def set_mask(self, names: Sequence[str], operator: str) -> np.ndarray:
        """(N,) bool: nodes that belong to any ("OR") or all ("AND") of the named sets."""
        wanted = np.asarray(pc.is_in(self.set_names, value_set=pa.array(list(names), pa.large_string())))
        if operator == "AND" and int(wanted.sum()) < len(set(names)):
            return np.zeros(self.num_nodes, bool)
        node = np.repeat(np.arange(self.num_nodes), np.diff(self.set_indptr))
        held = np.unique(
            np.stack([node, self.set_member], axis=1)[wanted[self.set_member]], axis=0
        )  # named once a node
        counts = np.bincount(held[:, 0], minlength=self.num_nodes)
        return counts >= (len(set(names)) if operator == "AND" else 1)

    def __repr__(self) -> str:
        labels = len(self.relation_names)
        return f"Graph({self.num_nodes} nodes, {self.num_edges} edges, {labels} relations, {self.device})"


def adjacency(key: torch.Tensor, other: torch.Tensor, size: int) -> Adjacency:
    """Group edges by the node rows `key`; `other` (E,) holds the far ends."""
    indptr, edge = csr.group(key.contiguous(), size)
    far = torch.from_numpy(np.empty(edge.shape, np.int32)) if edge.device.type == "cpu" else torch.empty_like(edge)
    return Adjacency(indptr, edge, torch.index_select(other, 0, edge, out=far))


def ascending(source: torch.Tensor, target: torch.Tensor, size: int) -> Adjacency:
    """What `adjacency` gives for edges that ascend by source: their far ends are `target` itself."""
    indptr = torch.zeros(size + 1, dtype=torch.int64)
    torch.cumsum(torch.bincount(source, minlength=size), 0, out=indptr[1:])
    return Adjacency(indptr, torch.from_numpy(np.arange(source.shape[0], dtype=np.int32)), target)


def orient(source: torch.Tensor, target: torch.Tensor, num_nodes: int) -> Adjacency:
    """Each edge once, at its end of lower degree, so that no list is long because of a hub."""
    degree = (torch.bincount(source, minlength=num_nodes) + torch.bincount(target, minlength=num_nodes)).int()
    at_source, at_target = degree.index_select(0, source), degree.index_select(0, target)
    owned_by_source = (at_source < at_target) | ((at_source == at_target) & (source <= target))
    owner = torch.where(owned_by_source, source, target)
    return adjacency(owner, torch.where(owned_by_source, target, source), num_nodes)


def _assemble(n: NodeColumns, e: EdgeColumns, order: str, report: ImportReport, options: ImportOptions) -> Graph:
    size = len(n.ids)
    source, target, relation = (torch.from_numpy(x) for x in (e.source, e.target, e.relation))
    report.nodes, report.edges = size, len(e.source)
    return Graph(
        source=source,
        target=target,
        relation=relation,
        relation_key=relation if np.array_equal(e.relation, e.key) else torch.from_numpy(e.key),
        out=(ascending if order == "canonical" else adjacency)(source, target, size),
        into=adjacency(target, source, size),
        oriented=orient(source, target, size),
        importance=column(n.importance),
        feedback=column(n.feedback),
        edge_importance=column(e.importance),
        edge_feedback=column(e.feedback),
        nodes=n.table,
        edges=e.table,
        relation_names=e.relation_names,
        keys=e.keys,
        set_names=n.set_names,
        set_indptr=n.set_indptr,
        set_member=n.set_member,
        order=order,
        report=report,
        options=options,
    )


def _one_of(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise InvalidArgument(f"{name}: expected one of {', '.join(map(repr, allowed))}, got {value!r}")
