"""The context text of subgraphs: nodes in their order, each relationship with the later one of its ends."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tercet.context import join_pieces, lines_of, take
from tercet.errors import InvalidArgument
from tercet.graph import Graph
from tercet.tokens import Counter, count

Rows = tuple[np.ndarray, np.ndarray]  # offsets and rows


def pack(
    graph: Graph, nodes: Rows, edges: Rows, max_tokens: int | None = None, counter: Counter | None = None
) -> list[str]:
    """The texts of a batch of subgraphs.

    `Nodes:`, a block a node, then `Connections:`, a line a relationship, ordered by the later one of its ends, then by
    edge row. With a budget a text holds the longest prefix of the nodes whose text, with all relationships among them,
    has at most so many tokens by the sum of its pieces, which is exact when tokens don't cross line breaks.

    Args:
        nodes: (B + 1,) offsets and (T,) node rows, none twice within a query.
        edges: (B + 1,) offsets and (M,) edge rows, both ends among the query's nodes.

    Raises:
        InvalidArgument: `max_tokens` isn't a count.
    """
    if max_tokens is not None and (isinstance(max_tokens, bool) or not isinstance(max_tokens, int) or max_tokens < 0):
        raise InvalidArgument(f"max_tokens: expected an integer of at least 0 or None, got {max_tokens!r}")
    indptr, node = (np.asarray(x, np.int64) for x in nodes)
    edge = np.asarray(edges[1], np.int64)
    query = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    edge_query = np.repeat(np.arange(len(indptr) - 1), np.diff(edges[0]))
    late = _later_end(graph, indptr, node, query, edge, edge_query)
    order = np.lexsort((edge, late))  # ascending in `late` is ascending in the query
    edge, late, edge_query = edge[order], late[order], edge_query[order]
    blocks = take(graph.text_columns[1], node)
    lines = lines_of(graph, edge)
    if max_tokens is not None:
        cost = count(blocks, counter)
        np.add.at(cost, late, count(lines, counter))
        frame = int(count(pa.array(["Nodes:\n\n\nConnections:\n"], pa.large_string()), counter)[0])
        total = np.cumsum(cost)
        before = np.concatenate([[0], total])[indptr[query]]
        keep = total - before + frame <= max_tokens
        stay = keep[late] if len(late) else np.zeros(0, bool)
        blocks, query = blocks.filter(pa.array(keep)), query[keep]
        lines, edge_query, edge = lines.filter(pa.array(stay)), edge_query[stay], edge[stay]
    last = np.asarray(pc.fill_null(graph.text_columns[5].take(pa.array(edge)), False))
    return join_pieces(blocks, query, lines, edge_query, len(indptr) - 1, last).to_pylist()


def _later_end(
    graph: Graph, indptr: np.ndarray, node: np.ndarray, query: np.ndarray, edge: np.ndarray, edge_query: np.ndarray
) -> np.ndarray:
    """(M,) the place in `node` of the end that comes later."""
    span = max(graph.num_nodes, 1)
    keys = query * span + node
    order = np.argsort(keys, kind="stable")
    out = np.zeros(len(edge), np.int64)
    for ends in (graph.source, graph.target):
        wanted = edge_query * span + ends.cpu().numpy()[edge]
        out = np.maximum(out, order[np.searchsorted(keys[order], wanted)] if len(edge) else out)
    return out
