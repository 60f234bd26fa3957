"""Checks of the harness itself: scorers that know nothing must look like it."""

import numpy as np
import pyarrow as pa

from tercet.evaluate.measures import DEFAULT, measure_values, positions
from tercet.evaluate.qrels import Qrels
from tercet.evaluate.run import Run

SAMPLE = 200  # queries
POOL = 20  # documents that tie with the relevant ones


def constant_run(queries: pa.Array, documents: pa.Array, k: int) -> Run:
    """A scorer that gives every document the same score: by the tie rule, the last ids for every query.

    Its measures are what knowing nothing is worth, so about k / D for R@k.
    """
    order = np.argsort(np.array(documents.to_pylist(), object), kind="stable")[::-1][:k]
    size = len(order)
    return Run.of_arrays("constant", queries, np.arange(len(queries) + 1) * size, np.tile(order, len(queries)),
                         documents, np.zeros(size * len(queries)))  # fmt: skip


def constant_scorer_passes(qrels: Qrels) -> bool:
    """Whether equal scores are settled without a look at the order of the input.

    Relevant documents and others get one score; measures must not change when the relevant ones are listed last
    instead of first, or the constant scorer would be rewarded for the order of a dict.
    """
    names = qrels.to_dict()
    others = qrels.documents.slice(0, POOL).to_pylist()
    first: dict[str, dict[str, float]] = {}
    last: dict[str, dict[str, float]] = {}
    for query in list(names)[:SAMPLE]:
        pool = [*names[query], *(d for d in others if d not in names[query])]
        first[query], last[query] = dict.fromkeys(pool, 1.0), dict.fromkeys(reversed(pool), 1.0)
    values = []
    for found in (first, last):
        run = Run.of_dict("constant", found)
        values.append(measure_values(run, qrels, positions(qrels.queries, run.queries), DEFAULT))
    return bool(np.array_equal(values[0], values[1]))
