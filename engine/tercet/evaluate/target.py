"""What is judged of a graph: its passages, its nodes or its triplets, under the ids that the qrels have for them."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tercet.errors import InvalidArgument, InvalidData
from tercet.evaluate.lines import some
from tercet.evaluate.passages import PASSAGE, Citations, citations_of, ends_of, passage_rows
from tercet.evaluate.qrels import Qrels, triplet_id
from tercet.graph import Graph

Level = Literal["passage", "node", "triplet"]
LEVELS = ("passage", "node", "triplet")


@dataclass(frozen=True, eq=False)
class Target:
    """The documents of a graph. Made by `target_of`."""

    graph: Graph
    level: Level
    documents: pa.LargeStringArray  # (D,) ids as in the qrels
    rows: np.ndarray  # (D,) int32 node rows (edge rows for triplets) of the documents
    code: np.ndarray  # (N,) or (E,) int32 the document that each row is, -1 for none
    citations: Citations | None  # how edges become nodes; None for triplets


def target_of(
    graph: Graph,
    level: Level = "passage",
    *,
    prefix: str = "",
    passage_type: str = PASSAGE,
    citations: Any = None,
) -> Target:
    """The documents to judge.

    Args:
        level: "passage": nodes of the type `passage_type`; "node": all nodes; "triplet": all edges, called by their
            edge id or, without one, by `triplet_id` of source id, relation and target id (of several such edges the
            first one is meant).
        prefix: node ids begin with this and ids in the qrels don't, such as "passage:"; others are no documents.
        citations: a table of what edges cite, see `tercet.evaluate.passages`.

    Raises:
        InvalidArgument: an unknown level.
        InvalidData: the graph has no documents of this kind.
    """
    if level not in LEVELS:
        raise InvalidArgument(f"level: expected one of {', '.join(map(repr, LEVELS))}, got {level!r}")
    if level == "triplet":
        rows = np.arange(graph.num_edges)
        names = _edge_names(graph)
        first = np.sort(np.unique(np.array(names.to_pylist(), object), return_index=True)[1]) if len(names) else rows
        made = names.take(pa.array(first))
        code = np.asarray(pc.index_in(names, value_set=made)).astype(np.int32)
        return Target(graph, level, made, first, code, None)
    rows = passage_rows(graph, passage_type) if level == "passage" else np.arange(graph.num_nodes)
    names = graph.ids.take(pa.array(rows))
    if prefix:
        kept = np.asarray(pc.starts_with(names, prefix))
        rows, names = rows[kept], pc.utf8_slice_codeunits(names.filter(pa.array(kept)), len(prefix))
    if not len(rows):
        what = f"node of the type {passage_type!r}" if level == "passage" else "node"
        raise InvalidData(f"the graph has no {what}" + (f" with an id that begins with {prefix!r}" if prefix else ""))
    code = np.full(graph.num_nodes, -1, np.int32)
    code[rows] = np.arange(len(rows))
    how = citations_of(graph, citations, passage_type=passage_type) if level == "passage" else ends_of(graph)
    return Target(graph, level, names, rows, code, how)


def check_judged(target: Target, qrels: Qrels) -> list[str]:
    """What is to be said about judged documents that the graph doesn't have.

    Raises:
        InvalidData: it has none of them: their ids are written differently.
    """
    wanted = qrels.documents.take(pa.array(np.unique(qrels.document[qrels.grade >= 1])))
    absent = wanted.filter(pc.invert(pc.is_in(wanted, value_set=target.documents)))
    if len(wanted) and len(absent) == len(wanted):
        hint = ""
        ends = [i for i in target.documents.slice(0, 1000).to_pylist() if i.endswith(f":{wanted[0].as_py()}")]
        if ends:
            begins = ends[0].removesuffix(wanted[0].as_py())
            hint = f"; with prefix={begins!r}, {ends[0]!r} would be {wanted[0].as_py()!r}"
        raise InvalidData(f"none of the {len(wanted)} relevant documents is a {target.level} of the graph: "
                          f"{some(wanted.to_pylist())} against {some(target.documents.to_pylist())}{hint}")  # fmt: skip
    return (
        []
        if not len(absent)
        else [
            f"{len(absent)} of {len(wanted)} relevant documents aren't in the graph, so none can find them: "
            f"{some(absent.to_pylist())}"
        ]
    )


def _edge_names(graph: Graph) -> pa.Array:
    ids = graph.edges.column("id").combine_chunks().cast(pa.large_string())
    source, target = (graph.ids.take(pa.array(x.cpu().numpy())).to_pylist() for x in (graph.source, graph.target))
    labels = graph.relation_column.cast(pa.large_string()).to_pylist()
    made = [triplet_id(s, r or "", t) for s, r, t in zip(source, labels, target, strict=True)]
    return pc.coalesce(ids, pa.array(made, pa.large_string()))
