"""From what the verbs answer to runs over the documents that are judged."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tercet.context import first_triplets, render_batch
from tercet.errors import InvalidArgument
from tercet.evaluate.lines import offsets
from tercet.evaluate.metrics import Context
from tercet.evaluate.passages import first_of_pairs, rank_cited
from tercet.evaluate.run import Run
from tercet.evaluate.target import Target
from tercet.recall import Recall
from tercet.retrieve.hits import SearchResults
from tercet.retrieve.packing import pack
from tercet.retrieve.subgraph import Subgraphs
from tercet.tokens import Counter, count

TOP_K = 5  # triplets of a recall that names no number


def run_of(
    name: str, found: Any, target: Target, ids: pa.Array, errors: dict[int, str], k: int
) -> tuple[Run, np.ndarray]:
    """The run of what a verb returned.

    Args:
        found: `Recall`, `SearchResults` or `Subgraphs` over the queries `ids`.
        errors: by position, what is known to be wrong with queries beside what the verb says.
        k: documents that stay of each query.

    Returns:
        the run; and (T,) the place from 0 in the verb's own ranking that gave each of its entries.
    """
    if isinstance(found, Recall):
        indptr, edge, score = _ranked_edges(found, target)
        failed = dict(found.queries.errors) | errors
        if target.level == "triplet":
            entry = first_of_pairs(np.repeat(np.arange(len(found)), np.diff(indptr)), target.code[edge])
            node = target.code[edge[entry]]
            bounds = _counted(indptr, entry)
        else:
            assert target.citations is not None
            bounds, row, entry = rank_cited(indptr, edge, target.citations)
            node = target.code[row]
        return _cut(name, ids, bounds, node, target, score[entry], entry, indptr, failed, k, distances=True)
    if target.level == "triplet":
        if not isinstance(found, Subgraphs):
            raise InvalidArgument("triplets are judged, and this verb ranks nodes")
        indptr, node, scores = found.edge_indptr, target.code[found.edge], None
    else:
        indptr, node = found.indptr, target.code[found.node]
        scores = found.score if isinstance(found, SearchResults) else None
    entry = first_of_pairs(np.repeat(np.arange(len(indptr) - 1), np.diff(indptr)), node + 1)
    entry = entry[node[entry] >= 0]
    return _cut(name, ids, _counted(indptr, entry), node[entry], target, None if scores is None else scores[entry],
                entry, indptr, dict(found.errors) | errors, k)  # fmt: skip


def context_of(found: Any, target: Target, run: Run, place: np.ndarray, first: int, counter: Counter | None) -> Context:
    """The text that the first results of each query would put before a language model.

    Of a recall its first `first` triplets, as far as `max_context_tokens` lets them; of a search its first `first`
    nodes; of a subgraph all of it.

    Args:
        place: (T,) from `run_of`.
    """
    kept = np.full(len(run), first)
    if isinstance(found, Recall):
        indptr, edge, _ = _ranked_edges(found, target)
        if found.max_context_tokens is not None:
            kept = np.minimum(kept, found._rendered()[1])
        rows, bounds = first_triplets(indptr, np.minimum(kept, np.diff(indptr)))
        g, edge = target.graph, edge[rows]
        source, tail = (x.cpu().numpy()[edge] for x in (g.source, g.target))
        texts: Any = render_batch(*g.text_columns, source, tail, edge, bounds, relation_name=g.relationship_name)
    elif isinstance(found, SearchResults):
        rows, bounds = first_triplets(found.indptr, np.minimum(kept, np.diff(found.indptr)))
        none = (np.zeros(len(bounds), np.int64), np.zeros(0, np.int64))
        texts = pa.array(pack(target.graph, (bounds, found.node[rows]), none), pa.large_string())
    else:
        kept = np.diff(found.indptr)
        texts = pa.array(found.contexts(), pa.large_string())
    inside = place < kept[run.query] if not isinstance(found, Subgraphs) else np.ones(len(place), bool)
    return Context(count(texts, counter), np.bincount(run.query[inside], minlength=len(run)))


def details_of(found: Any, target: Target, run: Run, place: np.ndarray) -> dict[str, np.ndarray]:
    """What a verb tells of each entry of a run beside its score: (T,) values by name.

    Of a recall the `edge` that gave the entry and its three raw distances; of a search its `parts`, and the rank in
    each half (0: absent); of a subgraph the `hop`.

    Args:
        place: (T,) from `run_of`.
    """
    if isinstance(found, Recall):
        indptr, edge, _ = _ranked_edges(found, target)
        at = indptr[run.query] + place
        held = found.edges.cpu().numpy() >= 0
        distance = found.distances.cpu().numpy()[held] if held.size else np.zeros((0, 3), np.float32)
        names = ("source_distance", "target_distance", "relation_distance")
        return {"edge": edge[at], **{name: distance[at, i].astype(np.float64) for i, name in enumerate(names)}}
    if isinstance(found, SearchResults):
        at = found.indptr[run.query] + place
        out = {name: np.asarray(values)[at].astype(np.float64) for name, values in found.parts.items()}
        if found.ranks is not None:
            out |= {f"{half}_rank": found.ranks[at, i].astype(np.float64) for i, half in enumerate(found.halves)}
        return out
    bounds, values = (found.edge_indptr, None) if target.level == "triplet" else (found.indptr, found.hop)
    return {} if values is None else {"hop": values[bounds[run.query] + place]}


def available_of(found: Any) -> np.ndarray:
    """(B,) int64 how much could have been ranked: edges of a fragment, nodes that the filter admits."""
    if isinstance(found, Recall):
        return found._host("available", 0) if found.groups else np.zeros(len(found), np.int64)
    return np.asarray(found.available, np.int64)


def _ranked_edges(found: Recall, target: Target) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Offsets, edge rows of the target's graph and distances of the ranked triplets."""
    edge, score = (x.cpu().numpy() for x in (found.edges, found.scores))
    if edge.shape[1] == 0:
        return np.zeros(len(found) + 1, np.int64), np.zeros(0, np.int64), np.zeros(0)
    edge = edge.astype(np.int64)
    for group in found.groups:
        table = group.plan.graph.edges
        if "stored_edge" in table.schema.names:  # a node set's own graph, whose edges are copies
            stored = np.append(table.column("stored_edge").to_numpy(), -1)
            at = group.place.cpu().numpy()
            edge[at] = stored[edge[at]]
    held = edge >= 0
    return offsets(held.sum(axis=1)), edge[held], score[held]


def _counted(indptr: np.ndarray, entry: np.ndarray) -> np.ndarray:
    """The offsets when only the entries at these ascending positions stay."""
    return np.searchsorted(entry, indptr)


def _cut(
    name: str, ids: pa.Array, indptr: np.ndarray, code: np.ndarray, target: Target, score: Any, place: np.ndarray,
    starts: np.ndarray, errors: dict[int, str], k: int, *, distances: bool = False,
) -> tuple[Run, np.ndarray]:  # fmt: skip
    kept = code >= 0
    place, code = place[kept], code[kept]
    indptr = np.concatenate([[0], np.cumsum(kept)])[indptr]
    run = Run.of_arrays(name, ids, indptr, code, target.documents, None if score is None else score[kept],
                        errors=errors, distances=distances)  # fmt: skip
    place = place - starts[run.query]
    return run.cut(k), place[run.rank <= k]


def texts_of(target: Target) -> Sequence[str]:
    """(D,) the text of each document: its `text`, or its name and description."""
    import pyarrow.compute as pc

    rows = pa.array(target.rows)
    name, text, description = (
        pc.fill_null(target.graph.nodes.column(c).combine_chunks().take(rows).cast(pa.large_string()), "")
        for c in ("name", "text", "description")
    )
    joined = pc.binary_join_element_wise(name, description, pa.scalar(" ", pa.large_string()))
    return pc.if_else(pc.equal(text, ""), joined, text)
