"""What an importer makes of other people's files: tables, vectors, and a report of what was left out."""

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import pyarrow as pa

SHOWN = 5  # rows named for each kind of problem


@dataclass(frozen=True, eq=False)
class ImportedVectors:
    """Vectors that came with the files, to become a collection."""

    name: str  # of the collection, such as "Entity_description"
    kind: Literal["node", "relation"]
    owner: pa.LargeStringArray  # (V,) node ids, or relation texts
    vectors: np.ndarray  # (V, D) float32, as they were stored
    model: str | None = None  # who made them, where the files say so
    metric: str = "cosine"


@dataclass
class SourceReport:
    """What was read, and what was left out or changed.

    `tables` maps a table or file to (rows read, rows kept); `problems` a kind of problem to (count, first rows, each as
    "file:row" with rows from 1).
    """

    format: str
    version: str | None = None
    tables: dict[str, tuple[int, int]] = field(default_factory=dict)
    problems: dict[str, tuple[int, list[str]]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def note(self, problem: str, rows: list[str]) -> None:
        """Count rows with a problem; the first few are kept by name."""
        if rows:
            count, first = self.problems.get(problem, (0, []))
            self.problems[problem] = (count + len(rows), [*first, *rows][:SHOWN])

    def __str__(self) -> str:
        lines = [f"{self.format}{'' if self.version is None else ' ' + self.version}"]
        lines += [f"{name}: {kept} of {read} rows kept" for name, (read, kept) in self.tables.items()]
        lines += [f"{kind}: {count}, first {', '.join(first)}" for kind, (count, first) in self.problems.items()]
        return "\n".join([*lines, *self.notes])


@dataclass(frozen=True, eq=False)
class Imported:
    """Tables for `Graph.from_tables`, with the vectors that came along.

    Ends of edges that no row describes are nodes of their own in `nodes` when the importer says so in its report.
    """

    nodes: pa.Table  # id, name, type, text, description, labels, … as `Graph.from_tables` knows them
    edges: pa.Table  # source, target, relation, edge_text, id, weight, …
    vectors: tuple[ImportedVectors, ...]
    report: SourceReport
