"""The text side of an engine: BM25, or SQLite's FTS5 for those who want its query language."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import torch

from tercet.carried import Carried
from tercet.errors import InvalidArgument
from tercet.filters import Filters
from tercet.graph import Graph
from tercet.ranking import Status
from tercet.retrieve.fts import FtsHit, FtsIndex
from tercet.retrieve.lexical import LexicalIndex
from tercet.retrieve.nearest import Retrieved
from tercet.retrieve.ragged import Ragged, offsets

TextSide = LexicalIndex | FtsIndex | None
COLUMNS = ("name", "text", "description")
HANDED = "_lexical_handed"  # kept with a graph under this name
EVERY = 1 << 31  # rows: all of them
SWITCHED_OFF = "the engine has no text index"
NO_WORDS = "the query has no words"
UNKNOWN_WORDS = "no node holds a word of the query"
SHUT = "the filter admits no node that holds a word of the query"


def text_side(graph: Graph, lexical: Any) -> TextSide:
    """The text index that an engine's `lexical` stands for; one of columns is built on first use, and kept.

    Raises:
        InvalidArgument: something else, or a column that the graph doesn't have.
    """
    if lexical is False:
        return None
    if isinstance(lexical, LexicalIndex):
        if lexical.num_documents != graph.num_nodes:
            raise InvalidArgument(
                f"lexical: expected one text for each of {graph.num_nodes} nodes, got {lexical.num_documents}"
            )
        return lexical
    if isinstance(lexical, FtsIndex):
        return lexical
    if lexical is None:
        columns: tuple[str, ...] = COLUMNS
    elif isinstance(lexical, (list, tuple)) and lexical and all(isinstance(c, str) for c in lexical):
        columns = tuple(lexical)
    else:
        raise InvalidArgument(f"lexical: expected None, False, node columns, or a text index, got {lexical!r}")
    return graph.latest("_lexical", columns, lambda: _index(graph, columns).to(graph.device))


def _index(graph: Graph, columns: tuple[str, ...]) -> LexicalIndex:
    """Of the one that was handed over, if it fits; else of all texts."""
    held: Handed | None = graph.__dict__.pop(HANDED, None)
    if held is None or held.columns != columns:
        return LexicalIndex.build(graph, columns)
    return held.text.to("cpu").updated(graph, columns, held.carried)


class Handed(NamedTuple):
    """A text index of an earlier graph, to be brought up to date on first use."""

    columns: tuple[str, ...]
    text: LexicalIndex
    carried: Carried  # which document each node was


def hand_over(before: Graph, after: Graph, carried: Carried) -> None:
    """Leave the text index of a graph to the changed one, whose nodes were those rows of it."""
    made, earlier = before.__dict__.get("_lexical"), before.__dict__.get(HANDED)
    columns = made[0] if made is not None else () if earlier is None else earlier.columns
    if all(_same_memory(before.nodes, after.nodes, c) for c in columns):
        carried = Carried()
    if made is not None:
        give(after, Handed(made[0], made[1], carried))
    elif earlier is not None:
        give(after, Handed(earlier.columns, earlier.text, earlier.carried.through(carried)))


def _same_memory(before: pa.Table, after: pa.Table, column: str) -> bool:
    """Whether a column of both tables is the same piece, so that no update has changed it."""
    if column not in before.schema.names or column not in after.schema.names:
        return False
    pieces = []
    for table in (before, after):
        chunks = table.column(column).chunks
        pieces.append([(len(c), c.offset, *(None if b is None else b.address for b in c.buffers())) for c in chunks])
    return pieces[0] == pieces[1]


def give(graph: Graph, handed: Handed) -> None:
    """Keep a text index with a graph: as it is where nothing has changed, else until it is needed."""
    if handed.carried.runs is None:
        graph.latest("_lexical", handed.columns, lambda: handed.text)
    else:
        object.__setattr__(graph, HANDED, handed)


def kept_index(graph: Graph) -> tuple[tuple[str, ...], LexicalIndex] | None:
    """The columns and the text index that are kept with a graph, brought up to date; None where none was built."""
    earlier: Handed | None = graph.__dict__.get(HANDED)
    if "_lexical" not in graph.__dict__ and earlier is not None:
        text_side(graph, earlier.columns)
    held = graph.__dict__.get("_lexical")
    return None if held is None else (held[0], held[1].to("cpu"))


def text_nodes(
    side: TextSide,
    texts: Sequence[str],
    errors: dict[int, str],
    k: torch.Tensor,
    filters: Filters,
    *,
    as_rows: bool = False,
    labels: list[str] | None = None,
) -> Retrieved:
    """The k best nodes of each query that its filter admits, best first.

    Args:
        as_rows: of an FTS5 index: take the k best rows as they are, with FTS5's negative scores and repeated nodes, and
            drop those of relationships then; `labels` (any of them) restricts the rows, and filters are ignored.
    """
    queries = len(texts)
    state = torch.full((queries,), int(Status.no_hits), dtype=torch.int8)
    state[list(errors)] = int(Status.failed)
    reason = [errors.get(i, SWITCHED_OFF) for i in range(queries)]
    if side is None or queries == 0:
        none = torch.zeros(queries, dtype=torch.int64)
        return Retrieved(Ragged(offsets(none), none[:0].int(), none[:0].double()), none, state, reason)
    if isinstance(side, FtsIndex):
        return _by_fts(side, texts, errors, k, None if as_rows else filters, labels, state, reason)
    found = side.search(list(texts), k.tolist(), filters)
    counts = found.indptr.diff().cpu()
    available, tokens, known = (x.cpu().tolist() for x in (found.available, found.tokens, found.known))
    state[(counts > 0)] = int(Status.ok)
    for i in torch.nonzero(counts == 0).flatten().tolist():
        if i in errors:
            continue
        reason[i] = NO_WORDS if tokens[i] == 0 else UNKNOWN_WORDS if known[i] == 0 else SHUT
        if known[i] and available[i] == 0:
            state[i] = int(Status.filtered_out)
    for i in torch.nonzero(counts > 0).flatten().tolist():
        reason[i] = errors.get(i, "")
    return Retrieved(Ragged(found.indptr, found.node, found.score), found.available, state, reason)


def _by_fts(
    side: FtsIndex,
    texts: Sequence[str],
    errors: dict[int, str],
    k: torch.Tensor,
    filters: Filters | None,
    labels: list[str] | None,
    state: torch.Tensor,
    reason: list[str],
) -> Retrieved:
    """SQLite answers one query at a time; with filters all its matches are read, so that they come before k."""
    nodes: list[np.ndarray] = []
    scores: list[np.ndarray] = []
    available = torch.zeros(len(texts), dtype=torch.int64)
    sign = 1.0 if filters is None else -1.0
    for i, (text, most) in enumerate(zip(texts, k.tolist(), strict=True)):
        found: list[FtsHit] = []
        if i not in errors:
            try:
                found = side.search_words(text, most if filters is None else EVERY, labels)
                reason[i] = UNKNOWN_WORDS
            except InvalidArgument as error:
                reason[i] = str(error)
        hits = [hit for hit in found if hit.kind == "node"]
        rows = np.array([hit.entity for hit in hits], np.int32)
        score = sign * np.array([hit.score for hit in hits], np.float64)
        if filters is not None:
            fresh = np.sort(np.unique(rows, return_index=True)[1])
            rows, score = rows[fresh], score[fresh]
            if filters.masks.shape[0] and int(filters.row[i]) >= 0 and len(rows):
                inside = filters.masks[int(filters.row[i])].numpy()[rows]
                if not inside.any():
                    state[i], reason[i] = int(Status.filtered_out), SHUT
                rows, score = rows[inside], score[inside]
        available[i] = len(rows)
        if len(rows):
            state[i], reason[i] = int(Status.ok), ""
        nodes.append(rows[:most])
        scores.append(score[:most])
    counts = torch.tensor([len(x) for x in nodes], dtype=torch.int64)
    hits_ = Ragged(offsets(counts), torch.from_numpy(np.concatenate(nodes)), torch.from_numpy(np.concatenate(scores)))
    return Retrieved(hits_, available, state, reason)
