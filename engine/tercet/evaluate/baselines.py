"""Baselines over the documents that are judged: dense retrieval alone, and BM25 alone."""

from dataclasses import replace
from typing import Any

import numpy as np
import torch

from tercet.candidates import Bound
from tercet.clock import Clock
from tercet.errors import InvalidArgument
from tercet.evaluate.answers import texts_of
from tercet.evaluate.target import Target
from tercet.filters import Filters
from tercet.index.approx import FaissIndex
from tercet.index.segmented import Segment, SegmentedIndex, rows_of
from tercet.query import QueryBatch
from tercet.ranking import Status
from tercet.retrieve.hits import SearchResults
from tercet.retrieve.lexical import LexicalIndex
from tercet.retrieve.nearest import nearest_nodes

BASELINES = ("dense", "bm25")


def dense(engine: Any, target: Target, batch: QueryBatch, k: int) -> SearchResults:
    """The k nearest documents by exact cosine similarity, whatever index the engine uses; ties to the smaller row.

    Raises:
        InvalidArgument: triplets are judged, or no collection has vectors of the documents.
    """
    if target.level == "triplet":
        raise InvalidArgument("dense: triplets have no vectors of their own")
    inside = np.zeros(target.graph.num_nodes, bool)
    inside[target.rows] = True
    mask = torch.from_numpy(inside)
    bound = []
    for b in engine.bound:
        owner = b.owner.cpu().long()
        if b.collection.kind == "node" and bool(mask[owner[owner < len(mask)]].any()):
            bound.append(_exact(b))
    if not bound:
        raise InvalidArgument(f"dense: no collection has vectors of the {target.level}s to judge")
    clock = Clock(engine.device)
    with clock.stage("search"):
        counts = torch.full((len(batch),), k, dtype=torch.int64)
        filters = Filters(mask[None], torch.zeros(len(batch), dtype=torch.int32))
        found = nearest_nodes(bound, target.graph.num_nodes, batch, counts, filters, engine.device)
    host = [x.cpu().numpy() for x in (*found.hits, found.available, found.state)]
    return SearchResults(target.graph, batch.text, *host, errors=batch.errors, timings=clock.seconds)


def bm25(engine: Any, target: Target, texts: list[str], errors: dict[int, str], k: int) -> SearchResults:
    """The k best documents by BM25 over their texts alone, so that other nodes don't count in its statistics.

    Raises:
        InvalidArgument: triplets are judged.
    """
    if target.level == "triplet":
        raise InvalidArgument("bm25: triplets have no texts of their own")
    index = target.graph.latest("_documents_bm25", (target.level, target.rows.tobytes()),
                                lambda: LexicalIndex.build(texts_of(target)))  # type: ignore[arg-type]  # fmt: skip
    clock = Clock(engine.device)
    with clock.stage("text"):
        found = index.search(texts, k)
    indptr, row, score, available = (x.cpu().numpy() for x in (found.indptr, found.node, found.score, found.available))
    state = np.where(np.diff(indptr) > 0, int(Status.ok), int(Status.no_hits)).astype(np.int8)
    state[list(errors)] = int(Status.failed)
    return SearchResults(target.graph, list(texts), indptr, target.rows[row].astype(np.int32), score, available, state,
                         errors=errors, timings=clock.seconds)  # fmt: skip


def _exact(bound: Bound) -> Bound:
    """The same collection, searched exactly."""
    index: Any = bound.collection.index
    if isinstance(index, FaissIndex):
        index = index.inner.to(bound.owner.device)
    elif isinstance(index, SegmentedIndex):
        index = replace(index, segments=tuple(Segment(rows_of(s.index), s.row) for s in index.segments))
    return replace(bound, collection=replace(bound.collection, index=index))
