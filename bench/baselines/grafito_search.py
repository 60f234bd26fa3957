"""Time Grafito's searches for subgraphs on a workload, its database in memory.

Run by the Python of an environment that holds grafitodb (and not Tercet), with OMP_NUM_THREADS=1:

    python grafito_search.py WORKLOAD.npz --calls '[{"call": "semantic_subgraph", "k": 30, "expand": 1}]'
        [--queries 16] [--budget 60] [--backends faiss bruteforce]

One JSON line a cell on stdout: wall times of single calls (Grafito has no batch form), and what each of them answered,
nodes and relationships as rows of the workload. Only grafito, NumPy and the standard library are imported.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any, TextIO

import numpy as np

METRIC = {"bruteforce": "cosine", "faiss": "ip"}  # vectors have unit norm, so both order by cosine
LABEL = "Entity"
WARM = 0.1  # of the budget: a first call that takes more is a sample, not a warm-up
Arrays = dict[str, np.ndarray]


def fill(data: Arrays, backends: list[str]) -> Any:
    """A database with the workload's nodes (id = row + 1), texts, relationships and one vector index a backend."""
    from grafito import GrafitoDatabase

    db = GrafitoDatabase()
    insert_rows(db, data)
    vectors, ids = data["node_vectors"].tolist(), list(range(1, int(data["num_nodes"]) + 1))
    known = dict(zip(data["query_texts"].tolist(), data["query_vectors"].tolist(), strict=True))
    for backend in backends:
        db.create_vector_index(
            backend, len(vectors[0]), backend, options={"metric": METRIC[backend]}, embedding_function=looked_up(known)
        )
        db.upsert_embeddings_batch(ids, vectors, backend)
    return db


def insert_rows(db: Any, data: Arrays) -> None:
    """Nodes and relationships in plain SQL, then the text table once.

    The same rows as by `create_node` and `create_relationship`. Those rewrite a node's entry of the text table, which
    they find by reading all of it, so that they take time quadratic in the number of nodes.
    """
    conn = db.conn
    triggers = conn.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
    for name, _ in triggers:
        conn.execute(f"DROP TRIGGER {name}")
    label = conn.execute("INSERT INTO labels (name) VALUES (?)", (LABEL,)).lastrowid
    size = int(data["num_nodes"])
    properties = ((json.dumps({"text": text}, separators=(",", ":")),) for text in data["node_texts"].tolist())
    conn.executemany("INSERT INTO nodes (properties) VALUES (?)", properties)
    conn.executemany("INSERT INTO node_labels VALUES (?, ?)", ((node, label) for node in range(1, size + 1)))
    ends = (data[name].tolist() for name in ("source", "target", "relation"))
    conn.executemany(
        "INSERT INTO relationships (source_node_id, target_node_id, type, properties) VALUES (?, ?, ?, '{}')",
        ((source + 1, target + 1, f"RELATION_{row}") for source, target, row in zip(*ends, strict=True)),
    )
    for _, text in triggers:
        conn.execute(text)
    conn.commit()
    db.create_text_index("node", LABEL, ["text"])
    db.rebuild_text_index()


def looked_up(known: dict[str, list[float]]) -> Any:
    """An embedding function that costs nothing: the vectors of texts that are known."""
    from grafito.embedding_functions import EmbeddingFunction

    class LookedUp(EmbeddingFunction):
        def __call__(self, input: list[str]) -> list[list[float]]:
            return [known[text] for text in input]

        @staticmethod
        def name() -> str:
            return "looked_up"

        def default_space(self) -> str:
            return "cosine"

        def supported_spaces(self) -> list[str]:
            return ["cosine", "ip"]

        @staticmethod
        def build_from_config(config: dict[str, Any]) -> EmbeddingFunction:
            return LookedUp()

        def get_config(self) -> dict[str, Any]:
            return {}

        @staticmethod
        def validate_config(config: dict[str, Any]) -> None:
            return

    return LookedUp()


def call_of(db: Any, data: Arrays, backend: str, asked: dict[str, Any]) -> Callable[[Any], Any]:
    """A function of a query that makes a call of Grafito's."""
    options = {name: value for name, value in asked.items() if name != "call"}
    return lambda query: getattr(db, asked["call"])(query, index=backend, **options)


def queries_of(data: Arrays, call: str, count: int) -> list[Any]:
    """The queries of a call, as Grafito takes them."""
    column = {"semantic_subgraph": "query_vectors", "hybrid_subgraph": "query_texts", "path_context": "waypoints"}[call]
    return data[column][:count].tolist()


def cell(run: Callable[[Any], Any], queries: list[Any], budget: float) -> dict[str, Any]:
    """One query after another until the budget is spent; the first is made once before, unless that takes long."""
    walls: list[float] = []
    found: list[dict[str, Any]] = []
    begin = time.perf_counter()
    answer = run(queries[0])
    first = time.perf_counter() - begin
    if first > WARM * budget:
        walls.append(first)
        found.append(told(answer))
    for query in queries[len(walls) :]:
        if walls and time.perf_counter() - begin + max(walls) > budget:
            break
        start = time.perf_counter()
        answer = run(query)
        walls.append(time.perf_counter() - start)
        found.append(told(answer))
    return {"samples_s": walls, "answers": found}


def told(answer: Any) -> dict[str, Any]:
    """An answer in rows of the workload."""
    return {
        "seeds": [hit["node"].id - 1 for hit in answer.seeds],
        "nodes": [node.id - 1 for node in answer.nodes],
        "relationships": [r.id - 1 for r in answer.relationships],
        "paths": [[node - 1 for node in path] for path in answer.paths],
    }


def cells(db: Any, data: Arrays, asked: argparse.Namespace) -> Iterator[dict[str, Any]]:
    for backend in asked.backends:
        for given in asked.calls:
            queries = queries_of(data, given["call"], asked.queries)
            budget = asked.budget * asked.longer.get(given["call"], 1)
            yield {"asked": given, "backend": backend, **cell(call_of(db, data, backend, given), queries, budget)}


def main(asked: argparse.Namespace, out: TextIO) -> None:
    with np.load(asked.workload, allow_pickle=False) as arrays:
        data = dict(arrays)
    start = time.perf_counter()
    db = fill(data, asked.backends)
    about = {
        "version": version("grafitodb"), "python": platform.python_version(), "build_s": time.perf_counter() - start,
    }  # fmt: skip
    for line in cells(db, data, asked):
        print(json.dumps({**line, **about}), file=out, flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workload", type=lambda text: Path(text).resolve(), help="what TextWorkload.save wrote")
    parser.add_argument("--calls", type=json.loads, required=True, help="a list of objects: call and its arguments")
    parser.add_argument("--queries", type=int, default=16, help="single calls a cell, at most")
    parser.add_argument("--budget", type=float, default=60, help="seconds a cell")
    parser.add_argument("--longer", type=json.loads, default={}, help="call to a multiple of the budget")
    parser.add_argument("--backends", nargs="+", default=["faiss", "bruteforce"], choices=METRIC)
    parsed = parser.parse_args()
    lines = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # libraries print: only result lines may reach the caller's pipe
    with tempfile.TemporaryDirectory() as scratch:  # its FAISS backend writes files where it stands
        os.chdir(scratch)
        main(parsed, lines)
