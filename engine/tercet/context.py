r"""The context text for a language model, made from ranked triplets a whole batch at a time.

```
Nodes:\n<node blocks joined by \n>\n\nConnections:\n<connection lines joined by \n>
```

A text is a run of pieces: every node block or line, each after its separator. All pieces of a batch are gathered with
one `take`; the texts of the queries are then slices of that one buffer, so nothing is copied query by query.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tercet.errors import InvalidArgument
from tercet.titles import join_columns, text_titles
from tercet.tokens import Counter, count

if TYPE_CHECKING:
    from tercet.graph import Graph

Column: TypeAlias = pa.Array | pa.ChunkedArray
Rows: TypeAlias = npt.NDArray[np.integer]
Counts: TypeAlias = npt.NDArray[np.int64]

UNNAMED = "Unnamed Node"
STATUSES = ("conflicting", "superseded", "current")  # the first one present wins

_NODES = "Nodes:\n"
_CONNECTIONS = "\n\nConnections:\n"


def node_columns(
    ids: Column,
    name: Column | None,
    description: Column | None,
    text: Column | None,
    *,
    missing: Literal["fallback", "none"],
    has_name: bool = True,
    has_description: bool = True,
) -> tuple[pa.Array, pa.Array]:
    """The title and the context block of every node.

    A node with a text shows it under its `text_titles` title. Any other shows its description under its name:
    - `missing="fallback"`: a null or empty name becomes the id, a null or empty description becomes the title;
    - `missing="none"`: a null prints `None` and an empty string prints empty. `has_name=False` says that nodes have no
      such key: the title is `Unnamed Node`; `has_description=False`: the description becomes the title.

    Args:
        ids: (N,) strings without nulls.
        name, description, text: (N,) strings, or None for a column of nulls.
        missing: see above. The `has_` arguments matter with `"none"` only.

    Returns:
        title and block, both (N,) large_string without nulls. The blocks hold a copy of every text.

    Raises:
        InvalidArgument: another `missing`, or a column of another length than `ids`.
    """
    if missing not in ("fallback", "none"):
        raise InvalidArgument(f'missing: expected "fallback" or "none", got {missing!r}')
    size = len(ids)
    named = (("name", name), ("description", description), ("text", text))
    name, description, text = (_full(label, column, size) for label, column in named)
    if missing == "fallback":
        ids = _full("ids", ids, size)
        title = ids if name.null_count == size else pc.if_else(_truthy(name), name, ids)
        content = pc.if_else(_truthy(description), description, title)
    else:
        title = pc.fill_null(name, "None") if has_name else pa.repeat(pa.scalar(UNNAMED, pa.large_string()), size)
        content = pc.fill_null(description, "None") if has_description else title
    has_text = _truthy(text)
    if pc.any(has_text).as_py():
        title = pc.if_else(has_text, text_titles(text), title)
        content = pc.if_else(has_text, text, content)
    block = join_columns("Node: ", title, "\n__node_content_start__\n", content, "\n__node_content_end__\n")
    return title, block


def status_columns(
    conflict_marks: Sequence[object] | None,
    conflict_marks_json: Sequence[object] | None,
    effective_date: Sequence[object] | None,
) -> tuple[pa.Array, pa.Array]:
    """The status label of every edge and whether it is superseded.

    Marks are a list of dicts with a `status`, or JSON text of one where the list is None; anything else is no mark. The
    first of `conflicting`, `superseded`, `current` that is present is the status. The label is `[<status>]`; with a
    truthy date, of which the first 10 characters show, `[<status>; as of <date>]`, and `[as of <date>]` if current.

    Args:
        conflict_marks, conflict_marks_json, effective_date: (E,) Python objects, or None for a column of Nones.

    Returns:
        status (E,) large_string, null without a mark; superseded (E,) bool.

    Raises:
        InvalidArgument: the columns differ in length.
    """
    lengths = {len(column) for column in (conflict_marks, conflict_marks_json, effective_date) if column is not None}
    if len(lengths) > 1:
        raise InvalidArgument(f"conflict columns: expected one length, got {sorted(lengths)}")
    size = lengths.pop() if lengths else 0
    nothing: Sequence[object] = (None,) * size
    marks, texts, dates = (
        nothing if column is None else column for column in (conflict_marks, conflict_marks_json, effective_date)
    )
    labels: list[str | None] = [None] * size
    superseded = np.zeros(size, dtype=bool)
    for row, (mark, text) in enumerate(zip(marks, texts, strict=True)):
        if mark is None and text is None:
            continue
        status = _status(mark, text)
        if status is not None:
            labels[row] = _status_label(status, dates[row])
            superseded[row] = status == "superseded"
    return pa.array(labels, pa.large_string()), pa.array(superseded)


def _status(marks: object, text: object) -> str | None:
    if marks is None:
        try:
            marks = json.loads(text) if isinstance(text, str | bytes) else None
        except (ValueError, RecursionError):  # not JSON is no mark, a rule of the format
            return None
    if not isinstance(marks, list):
        return None
    present = [mark.get("status") for mark in marks if isinstance(mark, dict)]
    return next((status for status in STATUSES if status in present), None)


def _status_label(status: str, date: object) -> str:
    if not date:
        return f"[{status}]"
    shown = f"as of {str(date)[:10]}"
    return f"[{shown}]" if status == "current" else f"[{status}; {shown}]"


def render_batch(
    title: Column,
    block: Column,
    relation_label: Column | None,
    edge_text: Column | None,
    status: Column | None,
    superseded: pa.BooleanArray | None,
    source: Rows,
    target: Rows,
    edge: Rows,
    indptr: Rows,
    *,
    relation_name: Column | None = None,
    reversed_: npt.NDArray[np.bool_] | None = None,
) -> pa.Array:
    """The context text of every query of a batch.

    Nodes come in order of first appearance, source before target, once a query. A line is
    `<source title> --[<label>]--> <target title>`, where the label is the first of `relation_label`, `relation_name`,
    `edge_text` that is neither null nor empty (if none is: the edge text, a null as `None`); then two spaces and the
    edge text in parentheses if it isn't empty and differs from the label; then a space and the status, if there is one.
    Lines of superseded edges come last, otherwise lines keep their rank. A query without triplets gets `""`.

    Args:
        title, block: (N,) strings, from `node_columns`.
        relation_label, relation_name, edge_text, status: (E,) strings, plain or dictionary-encoded; None is all null.
        superseded: (E,) bool, or None for all false.
        source, target: (M,) node rows in the order to show.
        edge: (M,) rows of the edge columns, in rank order.
        indptr: (B+1,) int64: the triplets of query b are `indptr[b]` to `indptr[b+1]`.
        reversed_: (M,) bool: triplets whose source and target are to be exchanged first.

    Returns:
        (B,) large_string.

    Raises:
        InvalidArgument: arrays that don't fit together.

    Memory: the texts, about three times.
    """
    columns = (relation_label, relation_name, edge_text, status, superseded)
    return _render(_ranked(title, block, columns, (source, target, edge), indptr, reversed_=reversed_))


@dataclass(frozen=True)
class _Ranked:
    """Checked arguments of `render_batch`."""

    title: Column  # (N,)
    block: Column  # (N,)
    edge_columns: tuple[Column | None, ...]  # (E,) relation_label, relation_name, edge_text, status, superseded
    source: Counts  # (M,)
    target: Counts  # (M,)
    edge: Counts  # (M,)
    indptr: Counts  # (B+1,)

    @property
    def query(self) -> Counts:
        """The query of every triplet, (M,)."""
        return np.repeat(np.arange(len(self.indptr) - 1), np.diff(self.indptr))


def _ranked(
    title: Column,
    block: Column,
    edge_columns: tuple[Column | None, ...],
    triplets: tuple[Rows, Rows, Rows],
    indptr: Rows,
    *,
    reversed_: npt.NDArray[np.bool_] | None,
) -> _Ranked:
    source, target, edge, indptr = (np.asarray(rows, dtype=np.int64) for rows in (*triplets, indptr))
    size = len(edge)
    for name, rows in (("source", source), ("target", target), ("reversed_", reversed_)):
        if rows is not None and len(rows) != size:
            raise InvalidArgument(f"{name}: expected {size} entries, one for each entry of edge, got {len(rows)}")
    if not len(indptr) or indptr[0] != 0 or indptr[-1] != size or (np.diff(indptr) < 0).any():
        raise InvalidArgument(f"indptr: expected ascending offsets from 0 to {size}, got {indptr}")
    if len(block) != len(title):
        raise InvalidArgument(f"block: expected {len(title)} rows, one for each title, got {len(block)}")
    limits = [("source", source, len(title)), ("target", target, len(title))]
    limits += [("edge", edge, len(column)) for column in edge_columns if column is not None]
    for name, rows, limit in limits:
        if size and not (rows.min() >= 0 and rows.max() < limit):
            raise InvalidArgument(f"{name}: expected rows in [0, {limit}), got {rows.min()} to {rows.max()}")
    if reversed_ is not None:
        source, target = np.where(reversed_, target, source), np.where(reversed_, source, target)
    return _Ranked(title, block, edge_columns, source, target, edge, indptr)


def _render(ranked: _Ranked) -> pa.Array:
    query = ranked.query
    num_queries = len(ranked.indptr) - 1
    if not len(query):
        return pa.array([""] * num_queries, pa.large_string())
    node, triplet = _first_appearances(ranked)
    superseded = ranked.edge_columns[-1]
    last = np.zeros(len(query), dtype=bool)
    if superseded is not None:
        last = pc.fill_null(superseded.take(pa.array(ranked.edge)), False).to_numpy(zero_copy_only=False)
    return join_pieces(take(ranked.block, node), query[triplet], _lines(ranked), query, num_queries, last)


def join_pieces(
    blocks: pa.Array,
    block_query: Counts,
    lines: pa.Array,
    line_query: Counts,
    num_queries: int,
    last: npt.NDArray[np.bool_] | None = None,
) -> pa.Array:
    """The texts that node blocks and connection lines make, in their order within a query.

    Args:
        blocks, lines: large_string pieces; block_query, line_query: the query of each.
        last: lines that come after the others of their query.

    Returns:
        (num_queries,) large_string, "" for a query without pieces.
    """
    # Sections of a text: 0 nodes, 1 lines, 2 lines that come last.
    late = np.ones(len(line_query), np.int64) if last is None else np.where(last, 2, 1)
    section = np.concatenate([block_query * 3, line_query * 3 + late])
    if not len(section):
        return pa.array([""] * num_queries, pa.large_string())
    order = np.argsort(section, kind="stable")
    query, section = np.divmod(section[order], 3)
    is_line = section > 0
    opens = np.concatenate([[True], (query[1:] != query[:-1]) | (is_line[1:] != is_line[:-1])])

    # Separator and piece alternate. The library they are taken from is the separators, the blocks, the lines.
    pieces = np.empty(2 * len(order), dtype=np.int64)
    pieces[0::2] = np.where(opens, np.where(is_line, 2, 0), 1)
    pieces[1::2] = order + 3
    separators = pa.array([_NODES, "\n", _CONNECTIONS], pa.large_string())
    library = pa.concat_arrays([separators, blocks, lines])
    return _regroup(library.take(pa.array(pieces)), 2 * np.bincount(query, minlength=num_queries))


def _first_appearances(ranked: _Ranked) -> tuple[Counts, Counts]:
    """The distinct nodes of each query in order of appearance, and the triplet that each appears in first."""
    ends = np.stack([ranked.source, ranked.target], axis=1).ravel()
    key = np.repeat(ranked.query, 2) * len(ranked.title) + ends
    first = np.sort(np.unique(key, return_index=True)[1])
    return ends[first], first // 2


def lines_of(graph: "Graph", edge: Rows) -> pa.Array:
    """(M,) the connection lines of some edges of a graph."""
    title, block, *columns = graph.text_columns
    source, target = (x.cpu().numpy()[edge] for x in (graph.source, graph.target))
    ends = np.array([0, len(edge)])
    columns.insert(1, graph.relationship_name)
    return _lines(_ranked(title, block, tuple(columns), (source, target, edge), ends, reversed_=None))


def _lines(ranked: _Ranked) -> pa.Array:
    """The connection line of every triplet."""
    relation, name, text, status = (take(column, ranked.edge) for column in ranked.edge_columns[:-1])
    label = pc.if_else(_truthy(name), name, pc.fill_null(text, "None"))
    label = pc.if_else(_truthy(relation), relation, label)
    note = _only(pc.and_(_truthy(text), pc.not_equal(text, label)), join_columns("  (", text, ")"))
    status = _only(_truthy(status), join_columns(" ", status))
    source, target = take(ranked.title, ranked.source), take(ranked.title, ranked.target)
    return join_columns(source, " --[", label, "]--> ", target, note, status)


def _regroup(strings: pa.Array, sizes: Counts) -> pa.Array:
    """Runs of `sizes` neighbouring strings, each run as one string over the same bytes."""
    _, offsets, data = strings.buffers()
    begin = np.frombuffer(offsets, dtype=np.int64)[strings.offset :]
    ends = begin[np.concatenate([[0], np.cumsum(sizes)])]
    return pa.LargeStringArray.from_buffers(len(sizes), pa.py_buffer(ends), data)


def _full(name: str, column: Column | None, size: int) -> pa.Array:
    if column is None:
        return pa.nulls(size, pa.large_string())
    if len(column) != size:
        raise InvalidArgument(f"{name}: expected {size} rows, one for each id, got {len(column)}")
    return _plain(column)


def take(column: Column | None, rows: Rows) -> pa.Array:
    """Some rows of a column of strings, as one array; nulls for no column."""
    if column is None:
        return pa.nulls(len(rows), pa.large_string())
    return _plain(column.take(pa.array(rows)))


def _plain(column: Column) -> pa.Array:
    column = column.cast(pa.large_string())
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _truthy(strings: pa.Array) -> pa.Array:
    return pc.fill_null(pc.greater(pc.binary_length(strings), 0), False)


def _only(condition: pa.Array, strings: pa.Array) -> pa.Array:
    return pc.if_else(condition, strings, pa.scalar(None, pa.large_string()))


def fit_tokens(
    title: Column,
    block: Column,
    relation_label: Column | None,
    edge_text: Column | None,
    status: Column | None,
    superseded: pa.BooleanArray | None,
    source: Rows,
    target: Rows,
    edge: Rows,
    indptr: Rows,
    *,
    max_tokens: int,
    counter: Counter | None = None,
    relation_name: Column | None = None,
    reversed_: npt.NDArray[np.bool_] | None = None,
) -> Counts:
    """How many of each query's ranked triplets fit: the longest prefix whose text has at most `max_tokens` tokens.

    Counts of blocks and lines are summed, which is exact for `count_tokens`: pieces meet at a line break. With a
    `counter` of the caller's the sum is a first guess; the prefix is then settled on counts of the rendered text, so it
    always fits, and is the longest if a longer prefix never has fewer tokens.

    Args:
        As for `render_batch`, and
        max_tokens: at least 0; too few for one triplet keep none.
        counter: tokens of each text of a list; None for `count_tokens`.

    Returns:
        (B,) int64; `first_triplets` applies it.

    Raises:
        InvalidArgument: a negative `max_tokens`, a counter that returns another number of counts than it got texts, or
            as for `render_batch`.
    """
    if isinstance(max_tokens, bool) or not isinstance(max_tokens, int | np.integer) or max_tokens < 0:
        raise InvalidArgument(f"max_tokens: expected an integer of at least 0, got {max_tokens!r}")
    columns = (relation_label, relation_name, edge_text, status, superseded)
    ranked = _ranked(title, block, columns, (source, target, edge), indptr, reversed_=reversed_)
    lengths = np.diff(ranked.indptr)
    guess = _summed_fit(ranked, int(max_tokens), counter)
    if counter is None:
        return guess

    def prefix_fits(kept: Counts) -> npt.NDArray[np.bool_]:
        rows, prefix = first_triplets(ranked.indptr, kept)
        source, target, edge = ranked.source[rows], ranked.target[rows], ranked.edge[rows]
        texts = _render(replace(ranked, source=source, target=target, edge=edge, indptr=prefix))
        good = np.ones(len(kept), dtype=bool)
        good[kept > 0] = count(texts.filter(pa.array(kept > 0)), counter) <= max_tokens
        return good

    return _longest(guess, lengths, prefix_fits)


def _summed_fit(ranked: _Ranked, max_tokens: int, counter: Counter | None) -> Counts:
    """The longest prefix of each query by the sum of the counts of its pieces, each piece counted once."""
    query = ranked.query
    node, triplet = _first_appearances(ranked)
    shown, which = np.unique(node, return_inverse=True)
    # What a counter gives for an empty text, such as marks of start and end, is once a text and not once a piece.
    frame, nothing = count(pa.array([_NODES + _CONNECTIONS, ""], pa.large_string()), counter)
    cost = count(_lines(ranked), counter) - nothing
    np.add.at(cost, triplet, (count(take(ranked.block, shown), counter) - nothing)[which])
    total = np.concatenate([[0], np.cumsum(cost)])
    fits = total[1:] - total[ranked.indptr[query]] + frame <= max_tokens
    return np.bincount(query[fits], minlength=len(ranked.indptr) - 1)


def _longest(guess: Counts, lengths: Counts, fits: Callable[[Counts], npt.NDArray[np.bool_]]) -> Counts:
    """The longest length that fits, per query: the guess is tried first, then its neighbour, then halves."""
    low, high = np.zeros_like(lengths), lengths.copy()
    probe, rounds = guess, 0
    while (unsettled := low < high).any():
        probe = np.where(unsettled, np.clip(probe, low + 1, high), 0)
        good = fits(probe)
        low = np.where(unsettled & good, probe, low)
        high = np.where(unsettled & ~good, probe - 1, high)
        rounds += 1
        probe = np.where(good, low + 1, high) if rounds == 1 else (low + high + 1) // 2
    return low


def first_triplets(indptr: Rows, kept: Counts) -> tuple[Counts, Counts]:
    """The rows of the first `kept` (B,) triplets of each query, and the indptr (B+1,) over those rows."""
    prefix = np.concatenate([[0], np.cumsum(kept, dtype=np.int64)])
    rows = np.arange(prefix[-1]) + np.repeat(np.asarray(indptr[:-1], dtype=np.int64) - prefix[:-1], kept)
    return rows, prefix
