"""Evaluation: `tercet.evaluate(engine, queries, qrels)`, and what it is made of.

`Queries`, `Qrels` and `Run` hold what was asked, what is relevant and what came back; `score_run` makes an `Evaluation`
of a run, `compare` a `Comparison` of evaluations, `agreement` an `Agreement` of two runs. `evaluate` does it all for an
engine and returns a `Report`; with `out` it keeps what it finds in a folder partition by partition, and `resume` goes
on after a stop. `grid` makes the modes of a sweep, `compare_folders` compares two finished runs.
"""

import sys
from types import ModuleType
from typing import Any

from tercet.evaluate.agreement import Agreement, agreement
from tercet.evaluate.comparing import Side, compare_folders
from tercet.evaluate.files import (
    read_mteb,
    read_run,
    read_runs,
    read_trec,
    write_lists,
    write_mteb,
    write_trec,
)
from tercet.evaluate.folder import read_evaluations, read_manifest, read_mode, read_summary, write_report
from tercet.evaluate.measures import DEFAULT as DEFAULT_MEASURES
from tercet.evaluate.metrics import Context, Evaluation, score_run, shared_share
from tercet.evaluate.passages import Citations, citations_of, rank_cited
from tercet.evaluate.qrels import Qrels, triplet_id
from tercet.evaluate.queries import Queries
from tercet.evaluate.report import Report, evaluate
from tercet.evaluate.run import Outcome, Run
from tercet.evaluate.significance import Comparison, Difference, compare
from tercet.evaluate.sweep import grid

__all__ = [
    "DEFAULT_MEASURES",
    "Agreement",
    "Citations",
    "Comparison",
    "Context",
    "Difference",
    "Evaluation",
    "Outcome",
    "Qrels",
    "Queries",
    "Report",
    "Run",
    "Side",
    "agreement",
    "citations_of",
    "compare",
    "compare_folders",
    "evaluate",
    "grid",
    "rank_cited",
    "read_evaluations",
    "read_manifest",
    "read_mode",
    "read_mteb",
    "read_run",
    "read_runs",
    "read_summary",
    "read_trec",
    "score_run",
    "shared_share",
    "triplet_id",
    "write_lists",
    "write_mteb",
    "write_report",
    "write_trec",
]


class _Callable(ModuleType):
    """`tercet.evaluate` is the package, and calling it evaluates."""

    def __call__(self, *args: Any, **kwargs: Any) -> Report:
        return evaluate(*args, **kwargs)


sys.modules[__name__].__class__ = _Callable
