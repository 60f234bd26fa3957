"""The node table of a graph: checked, ordered, with the titles that context text needs."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tercet.context import node_columns
from tercet.errors import InvalidArgument, InvalidData
from tercet.ids import canonical_ids
from tercet.normalise import encode
from tercet.tables import ImportReport, as_columns, name_lists, no_texts, numbers, texts

DEFAULT_WEIGHT = 0.5
TEXT_COLUMNS = ("name", "type", "text", "description")
WEIGHT_COLUMNS = ("importance_weight", "feedback_weight")


@dataclass(frozen=True)
class NodeColumns:
    ids: pa.LargeStringArray  # (N,)
    importance: np.ndarray  # (N,) float64
    feedback: np.ndarray  # (N,) float64
    table: pa.Table
    set_names: pa.LargeStringArray
    set_indptr: np.ndarray
    set_member: np.ndarray


def read_nodes(
    nodes: Any, report: ImportReport, *, canonical: bool, skip: bool, missing: Literal["fallback", "none"], check: bool
) -> NodeColumns:
    """Check a table of nodes and order its rows; see `Graph.from_tables`."""
    columns = as_columns(nodes, "nodes")
    if "id" not in columns:
        raise InvalidArgument(f"nodes: the column 'id' is missing, got {sorted(columns)}")
    ids = canonical_ids(columns.pop("id"), "nodes.id")
    bad = np.zeros(len(ids), bool)
    _mark(report, "node without an id", np.asarray(pc.is_null(ids)), bad)
    _mark_repeats(ids, report, bad)
    weights = [read_weight(columns.pop(name, None), f"node {name}", len(ids), report, bad, check)
               for name in WEIGHT_COLUMNS]  # fmt: skip
    refuse(report, bad, skip, "nodes")
    report.skipped_nodes = np.flatnonzero(bad).tolist()
    keep = np.flatnonzero(~bad)
    if len(keep) < len(bad):
        ids = ids.take(pa.array(keep))
    if canonical:
        order = np.asarray(pc.sort_indices(ids)).astype(np.int64)
        if not (order[1:] > order[:-1]).all():  # else the given column itself serves
            keep, ids = keep[order], ids.take(pa.array(order))
    set_indptr, members = name_lists(columns.pop("belongs_to_set", [None] * len(bad)), "nodes.belongs_to_set")
    set_indptr, members = _take_lists(set_indptr, members, keep)
    set_member, set_names = encode(members)
    table = _text_table(ids, columns, keep, missing)
    return NodeColumns(ids, weights[0][keep], weights[1][keep], table, set_names, set_indptr, set_member)


def read_weight(values: Any, name: str, size: int, report: ImportReport, bad: np.ndarray, check: bool) -> np.ndarray:
    """Weights as float64, the default where they are missing; what isn't a number in [0, 1] is marked in `bad`."""
    if values is None:
        return np.full(size, DEFAULT_WEIGHT)
    got, wrong = numbers(values, name)
    if not check:
        return np.where(np.isnan(got) & ~wrong, DEFAULT_WEIGHT, got)
    _mark(report, f"{name} that isn't a number in [0, 1]", wrong | (got < 0) | (got > 1), bad)
    return np.where(np.isnan(got), DEFAULT_WEIGHT, got)


def refuse(report: ImportReport, bad: np.ndarray, skip: bool, place: str) -> None:
    """Raise for rows that can't be taken, unless they are to be skipped."""
    if bad.any() and not skip:
        problems = "; ".join(
            f"{problem}: {count} row{'s' * (count > 1)}, first {', '.join(map(str, rows))}"
            for problem, (count, rows) in report.problems.items()
        )
        raise InvalidData(f"{place}: {problems} (bad_rows='skip' leaves such rows out and lists them)")


def _mark(report: ImportReport, problem: str, wrong: np.ndarray, bad: np.ndarray) -> None:
    report.note(problem, np.flatnonzero(wrong))
    bad |= wrong


def _mark_repeats(ids: pa.LargeStringArray, report: ImportReport, bad: np.ndarray) -> None:
    """Two rows with one canonical id: both are named, since neither is the right one for sure."""
    codes = np.asarray(pc.fill_null(pc.dictionary_encode(ids).indices, -1))
    known = np.flatnonzero(codes >= 0)
    order = known[np.argsort(codes[known], kind="stable")]
    again = np.flatnonzero(codes[order][1:] == codes[order][:-1]) + 1
    if not len(again):
        return
    shown = ", ".join(f"{ids[int(order[i])].as_py()!r} in rows {order[i - 1]} and {order[i]}" for i in again[:3])
    _mark(report, f"node id given twice ({shown})", np.isin(np.arange(len(ids)), order[again]), bad)


def _take_lists(
    indptr: np.ndarray, flat: pa.LargeStringArray, rows: np.ndarray
) -> tuple[np.ndarray, pa.LargeStringArray]:
    lengths = np.diff(indptr)[rows]
    taken = np.zeros(len(rows) + 1, np.int64)
    if not len(flat):
        return taken, flat  # pages of zeros that nobody writes take no memory
    np.cumsum(lengths, out=taken[1:])
    inside = np.arange(taken[-1]) - np.repeat(taken[:-1], lengths) + np.repeat(indptr[:-1][rows], lengths)
    return taken, flat.take(pa.array(inside))


def _text_table(
    ids: pa.LargeStringArray, columns: dict[str, Any], keep: np.ndarray, missing: Literal["fallback", "none"]
) -> pa.Table:
    rows = pa.array(keep)
    known: dict[str, Any] = {
        name: texts(columns.pop(name), f"nodes.{name}").take(rows) for name in TEXT_COLUMNS if name in columns
    }
    title, block = node_columns(
        ids, known.get("name"), known.get("description"), known.get("text"), missing=missing,
        has_name="name" in known, has_description="description" in known,
    )  # fmt: skip
    other = {name: arrow_column(values, f"nodes.{name}").take(rows) for name, values in columns.items()}
    blank = no_texts(len(ids))
    named = {name: known.get(name, blank) for name in TEXT_COLUMNS}
    return pa.table({"id": ids, **named, **other, "context_title": title, "context_block": block}).combine_chunks()


def arrow_column(values: Any, place: str) -> pa.Array:
    """Any other column, kept as Arrow makes it.

    Raises:
        InvalidData: the values mix kinds.
    """
    if isinstance(values, pa.ChunkedArray):
        return values.combine_chunks()
    if isinstance(values, pa.Array):
        return values
    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise InvalidData(f"{place}: the values of a column must be of one kind: {error}") from error
