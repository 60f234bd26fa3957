"""The edge table of a graph: ends resolved, repeated edges merged, rows in tie order."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tercet.errors import InvalidArgument
from tercet.ids import IdIndex, canonical_ids
from tercet.nodes import WEIGHT_COLUMNS, arrow_column, read_weight, refuse
from tercet.normalise import encode, relation_keys
from tercet.tables import ImportReport, as_columns, no_texts, texts

NEEDED = ("source", "target", "relation")


@dataclass(frozen=True)
class EdgeColumns:
    source: np.ndarray  # (E,) int32
    target: np.ndarray  # (E,) int32
    relation: np.ndarray  # (E,) int32 rows of relation_names, -1 for none
    key: np.ndarray  # (E,) int32 rows of keys, -1 for none
    importance: np.ndarray  # (E,) float64
    feedback: np.ndarray  # (E,) float64
    table: pa.Table
    relation_names: pa.LargeStringArray
    keys: pa.LargeStringArray


def read_edges(
    edges: Any,
    index: IdIndex,
    report: ImportReport,
    *,
    canonical: bool,
    duplicates: str,
    skip: bool,
    strip: bool,
    check: bool,
    node_labels: pa.LargeStringArray | None = None,
) -> EdgeColumns:
    """Check a table of edges, resolve its ends, merge repeats and order its rows; see `Graph.from_tables`.

    Args:
        node_labels: (N,) names for sentences about whole edges, which become the keys of edges without a text.
    """
    columns = as_columns(edges, "edges")
    absent = [name for name in NEEDED if name not in columns]
    if absent:
        raise InvalidArgument(f"edges: the columns {absent} are missing, got {sorted(columns)}")
    ends = [index.rows(canonical_ids(columns.pop(name), f"edges.{name}")) for name in ("source", "target")]
    size = len(ends[0])
    bad = np.zeros(size, bool)
    for rows, name in zip(ends, ("source", "target"), strict=True):
        unknown = rows < 0
        report.note(f"edge whose {name} is no node", np.flatnonzero(unknown))
        bad |= unknown
    weights = [read_weight(columns.pop(name, None), f"edge {name}", size, report, bad, check)
               for name in WEIGHT_COLUMNS]  # fmt: skip
    text_code = np.zeros(size, np.int32)
    if "edge_text" in columns:
        text_code = encode(texts(columns["edge_text"], "edges.edge_text"))[0]
    relation, relation_names, edge_text, key, keys = _labels(columns, ends, strip, node_labels)
    edge_id = canonical_ids(columns.pop("id"), "edges.id") if "id" in columns else None
    id_code = encode(edge_id)[0] if edge_id is not None else np.full(size, -1, np.int32)
    if duplicates != "keep":
        _mark_repeated_ids(id_code, report, bad)
    refuse(report, bad, skip, "edges")
    report.skipped_edges = np.flatnonzero(bad).tolist()

    rows = np.flatnonzero(~bad)
    order = rows[_tie_order(ends[0][rows], relation[rows], ends[1][rows], id_code[rows], text_code[rows])]
    rank_of = [ends[0], relation, ends[1], id_code, text_code]
    if duplicates != "keep":
        first = _first_of_runs([a[order] for a in rank_of], id_code[order])
        _merge_weights(weights, order, first)
        report.merged_edges = int(len(order) - first.sum())
        if duplicates == "error" and report.merged_edges:
            again = order[~first]
            report.note("edge given twice", np.sort(again))
            refuse(report, np.ones(1, bool), False, "edges")
        order = order[first]
    if not canonical:
        order = np.sort(order)
    table = _edge_table(columns, edge_text, edge_id, order)
    source, target, label, key, importance, feedback = (
        np.ascontiguousarray(a[order]) for a in (ends[0], ends[1], relation, key, *weights)
    )
    return EdgeColumns(source, target, label, key, importance, feedback, table, relation_names, keys)


def _labels(
    columns: dict[str, Any], ends: list[np.ndarray], strip: bool, node_labels: pa.LargeStringArray | None
) -> tuple[np.ndarray, pa.LargeStringArray, pa.LargeStringArray, np.ndarray, pa.LargeStringArray]:
    label = texts(columns.pop("relation"), "edges.relation")
    relation, names = encode(label)
    edge_text = pa.nulls(len(label), pa.large_string())
    if "edge_text" in columns:
        edge_text = texts(columns.pop("edge_text"), "edges.edge_text")
    if node_labels is not None:
        key, keys = encode(relation_keys(edge_text, sentences(ends, label, node_labels), strip=strip))
    elif edge_text.null_count < len(edge_text):
        key, keys = encode(relation_keys(edge_text, label, strip=strip))
    else:  # edges share few labels: fold each of them once
        of_name, keys = encode(relation_keys(pa.nulls(len(names), pa.large_string()), names, strip=strip))
        key = np.where(relation < 0, -1, of_name[relation] if len(names) else -1).astype(np.int32)
    return relation, names, edge_text, key, keys


def sentences(ends: list[np.ndarray], label: pa.LargeStringArray, names: pa.LargeStringArray) -> pa.LargeStringArray:
    """`<source name> <relation, with spaces> <target name>.` for each edge; null where an end is no node."""
    source, target = (names.take(pa.array(e, mask=e < 0)) for e in ends)
    words = pc.fill_null(pc.replace_substring(label, "_", " "), "")
    sentence = pc.binary_join_element_wise(source, words, target, pa.scalar(" ", pa.large_string()))
    return pc.binary_join_element_wise(sentence, pa.scalar(".", pa.large_string()), pa.scalar("", pa.large_string()))


def _mark_repeated_ids(code: np.ndarray, report: ImportReport, bad: np.ndarray) -> None:
    known = np.flatnonzero(code >= 0)
    order = known[np.argsort(code[known], kind="stable")]
    again = order[1:][code[order][1:] == code[order][:-1]]
    report.note("edge id given twice", np.sort(again))
    bad[again] = True


def _tie_order(
    source: np.ndarray, relation: np.ndarray, target: np.ndarray, edge_id: np.ndarray, edge_text: np.ndarray
) -> np.ndarray:
    """Rows sorted by (source, relation, target, edge id, edge text), all of which are ranks of strings."""
    spans = [int(a.max(initial=0)) + 2 for a in (source, relation, target)]
    if np.prod([float(s) for s in spans]) < 2**62:
        packed = (source.astype(np.int64) * spans[1] + (relation + 1)) * spans[2] + target
        order = np.argsort(packed, kind="stable")
        ties = packed[order]
        if not (ties[1:] == ties[:-1]).any():
            return order
        return np.lexsort((edge_text, edge_id, packed))
    return np.lexsort((edge_text, edge_id, target, relation, source))


def _first_of_runs(ranks: list[np.ndarray], edge_id: np.ndarray) -> np.ndarray:
    """Which sorted rows begin a new edge; rows with an id of their own always do."""
    first = np.ones(len(edge_id), bool)
    same = np.ones(max(len(edge_id) - 1, 0), bool)
    for rank in ranks:
        same &= rank[1:] == rank[:-1]
    first[1:] = ~same | (edge_id[1:] >= 0)
    return first


def _merge_weights(weights: list[np.ndarray], order: np.ndarray, first: np.ndarray) -> None:
    starts = np.flatnonzero(first)
    if len(starts) == len(order):
        return
    for weight in weights:
        weight[order[starts]] = np.maximum.reduceat(weight[order], starts)


def _edge_table(
    columns: dict[str, Any], edge_text: pa.LargeStringArray, edge_id: pa.LargeStringArray | None, order: np.ndarray
) -> pa.Table:
    rows = pa.array(order)
    status = columns.pop("status", None)
    superseded = columns.pop("superseded", None)
    blank = no_texts(len(order))
    plain = np.zeros(len(order), bool)
    out = {
        "id": blank if edge_id is None else edge_id.take(rows),
        "edge_text": edge_text.take(rows) if edge_text.null_count < len(edge_text) else blank,
        "status": blank if status is None else texts(status, "edges.status").take(rows),
        "superseded": pa.array(plain)
        if superseded is None
        else arrow_column(superseded, "edges.superseded").take(rows),
    }
    out |= {name: arrow_column(values, f"edges.{name}").take(rows) for name, values in columns.items()}
    return pa.table(out).combine_chunks()
