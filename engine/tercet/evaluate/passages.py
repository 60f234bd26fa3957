"""From triplets and nodes to what is judged: which passages a triplet cites, and the ranking that follows.

The rule: a passage has the rank of the best-ranked triplet that cites it. Passages of one triplet come in the order in
which it cites them, so ties in rank are settled by that order; a passage that comes again is dropped, and what follows
moves up. A triplet cites, in this order and each once:

1. the passages that a table of citations gives it, in the order of the table (`OpenIE.citations` names all that hold
   the triple);
2. those that the edge column `passages` (lists of node ids) or `passage` (a node id) names;
3. its own ends that are passages, source before target.

Ids there that are no passages of the graph are left out and counted. A ranking of nodes keeps those that are passages.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tercet.errors import InvalidData
from tercet.evaluate.lines import offsets
from tercet.graph import Graph
from tercet.tables import as_columns

PASSAGE = "DocumentChunk"  # the node type that importers give to passages
Pairs = tuple[np.ndarray, np.ndarray]  # edge rows, node rows


@dataclass(frozen=True, eq=False)
class Citations:
    """What each edge stands for when rankings of edges become rankings of nodes, best first."""

    indptr: np.ndarray  # (E + 1,) int64
    node: np.ndarray  # (C,) int32 node rows, none twice for an edge
    unknown: int = 0  # ids that are no passages of the graph, or triples that it doesn't hold: left out


def passage_rows(graph: Graph, passage_type: str = PASSAGE) -> np.ndarray:
    """Rows of the nodes that are passages, ascending."""
    return np.flatnonzero(np.asarray(pc.fill_null(pc.equal(graph.nodes.column("type"), passage_type), False)))


def citations_of(graph: Graph, given: Any = None, *, passage_type: str = PASSAGE) -> Citations:
    """The passages that each edge cites, by the rule above.

    Args:
        given: a table of `source`, `relation`, `target` (ids and relation) and `passage` (node id), any kind of table.
        passage_type: the type of the nodes that are passages.

    Raises:
        InvalidData: a column of `given` is missing, or nothing of it is in the graph.
    """
    is_passage = np.zeros(graph.num_nodes + 1, bool)  # the last for unknown ids
    is_passage[passage_rows(graph, passage_type)] = True
    parts: list[Pairs] = []
    unknown = 0
    if given is not None:
        found, unknown = _given(graph, given)
        parts.append(found)
    for name in ("passages", "passage"):
        if name in graph.edges.schema.names:
            parts.append(_column(graph, name))
            break
    every = np.arange(graph.num_edges)
    ends = [x.cpu().numpy() for x in (graph.source, graph.target)]
    own = [(every[is_passage[end]], end[is_passage[end]]) for end in ends]
    edge = np.concatenate([p[0] for p in [*parts, *own]])
    node = np.concatenate([p[1] for p in [*parts, *own]])
    kept = is_passage[node]
    unknown += int((~kept).sum())
    return _grouped(graph, edge[kept], node[kept], unknown)


def ends_of(graph: Graph) -> Citations:
    """Each edge stands for its source, then its target."""
    ends = np.stack([x.cpu().numpy() for x in (graph.source, graph.target)], axis=1).ravel()
    return _grouped(graph, np.repeat(np.arange(graph.num_edges), 2), ends, 0)


def rank_cited(indptr: np.ndarray, edge: np.ndarray, citations: Citations) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rankings of nodes from rankings of edges, for a whole batch.

    Args:
        indptr: (B + 1,) int64 offsets; edge: (T,) edge rows, best first within each query.

    Returns:
        offsets (B + 1,) int64; node (S,) int32 rows, best first; entry (S,) int64 the ranked edge that gave each.
    """
    counts = np.diff(citations.indptr)[edge]
    entry = np.repeat(np.arange(len(edge)), counts)
    begin = np.concatenate([[0], np.cumsum(counts)])[:-1]
    node = citations.node[np.arange(len(entry)) + np.repeat(citations.indptr[edge] - begin, counts)]
    query = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))[entry]
    first = first_of_pairs(query, node)
    return offsets(np.bincount(query[first], minlength=len(indptr) - 1)), node[first], entry[first]


def first_of_pairs(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Ascending positions of the first entry of each pair (a, b) of non-negative integers."""
    if not len(a):
        return np.zeros(0, np.int64)
    key = a.astype(np.int64) * (int(b.max()) + 1) + b
    order = np.argsort(key, kind="stable")
    fresh = np.ones(len(key), bool)
    fresh[1:] = key[order][1:] != key[order][:-1]
    return np.sort(order[fresh])


def _grouped(graph: Graph, edge: np.ndarray, node: np.ndarray, unknown: int) -> Citations:
    """Pairs in order of precedence, by edge."""
    first = first_of_pairs(edge, node)
    edge, node = edge[first], node[first]
    order = np.argsort(edge, kind="stable")
    counts = np.bincount(edge, minlength=graph.num_edges)
    return Citations(offsets(counts), node[order].astype(np.int32), unknown)


def _column(graph: Graph, name: str) -> Pairs:
    column = graph.edges.column(name).combine_chunks()
    every = np.arange(graph.num_edges)
    if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        lengths = np.asarray(pc.fill_null(pc.list_value_length(column), 0)).astype(np.int64)
        return np.repeat(every, lengths), graph.rows(pc.list_flatten(column))
    held = np.asarray(pc.is_valid(column))
    return every[held], graph.rows(column.filter(pa.array(held)))


def _given(graph: Graph, given: Any) -> tuple[Pairs, int]:
    """(edge, node) pairs of a table of citations, in its order, and rows that the graph has no edge for."""
    table = as_columns(given, "citations")
    lacking = [name for name in ("source", "relation", "target", "passage") if name not in table]
    if lacking:
        raise InvalidData(f"citations: expected the columns source, relation, target, passage, got {list(table)}")
    ends = [graph.rows(table[name]) for name in ("source", "target")]
    label = pc.index_in(pa.array(table["relation"]).cast(pa.large_string()) if not isinstance(
        table["relation"], (pa.Array, pa.ChunkedArray)) else table["relation"].cast(pa.large_string()),
        value_set=graph.relation_names)  # fmt: skip
    relation = np.asarray(pc.fill_null(label, -1)).astype(np.int64)
    node = graph.rows(table["passage"])
    nodes, labels = graph.num_nodes, max(len(graph.relation_names), 1)
    have = [x.cpu().numpy().astype(np.int64) for x in (graph.source, graph.relation, graph.target)]
    keys = (have[0] * labels + have[1]) * nodes + have[2]
    keys[have[1] < 0] = -1
    wanted = (ends[0].astype(np.int64) * labels + relation) * nodes + ends[1]
    bad = (ends[0] < 0) | (ends[1] < 0) | (relation < 0)
    wanted[bad] = -2
    order = np.argsort(keys, kind="stable")
    low, high = (np.searchsorted(keys[order], wanted, side=side) for side in ("left", "right"))
    counts = high - low  # parallel edges share their citations
    begin = np.concatenate([[0], np.cumsum(counts)])[:-1]
    edge = order[np.arange(counts.sum()) + np.repeat(low - begin, counts)]
    if len(wanted) and not len(edge):
        raise InvalidData(f"citations: none of {len(wanted)} triples is an edge of the graph")
    return (edge, np.repeat(node, counts)), int((counts == 0).sum())
