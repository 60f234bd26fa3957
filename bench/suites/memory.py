"""The highest resident memory of one call in a fresh process, above what the process held before it."""

from collections.abc import Iterator

from bench.probe import probe
from bench.records import Cell
from bench.suites import Bench
from bench.suites.recall import TESTS as RECALL_TESTS

TESTS = (*RECALL_TESTS, "tests/engine/test_memory.py")


def cells(bench: Bench) -> Iterator[Cell]:
    for spec in bench.own["workloads"]:
        given = bench.workload(spec)
        for wide in bench.own["wide"]:
            for batch in bench.own["batches"]:
                yield from probe(bench, given, batch, wide, 1)
