"""Time Grafito's vector search and subgraph on a workload, its database in memory.

Run by the Python of an environment that holds grafitodb (and not Tercet), with OMP_NUM_THREADS=1:

    python grafito_search.py WORKLOAD.npz [--k 10] [--queries 16] [--budget 60] [--backends bruteforce faiss]

One JSON line a cell on stdout: wall times of single calls (Grafito has no batch form), the rows of the nodes found, and
how many nodes and relationships each subgraph holds. Only grafito, NumPy and the standard library are imported.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any, TextIO

import numpy as np

METRIC = {"bruteforce": "cosine", "faiss": "ip"}  # vectors have unit norm, so both order by cosine


def fill(data: dict[str, np.ndarray], backends: list[str]) -> Any:
    """A database with the workload's nodes (id = row + 1), relationships and one vector index a backend."""
    from grafito import GrafitoDatabase

    db = GrafitoDatabase()
    db.begin_transaction()
    ids = [db.create_node(["Entity"], {"name": f"n{row:06d}"}).id for row in range(int(data["num_nodes"]))]
    for source, target, row in zip(*(data[name].tolist() for name in ("source", "target", "relation")), strict=True):
        db.create_relationship(ids[source], ids[target], f"RELATION_{row}")
    vectors = data["node_vectors"].tolist()
    for backend in backends:
        db.create_vector_index(backend, len(vectors[0]), backend, options={"metric": METRIC[backend]})
        db.upsert_embeddings_batch(ids, vectors, backend)
    db.commit()
    return db


def cell(db: Any, call: str, backend: str, queries: list[list[float]], asked: argparse.Namespace) -> dict[str, Any]:
    """One query after another until the budget is spent; the first is made once before."""

    def run(query: list[float]) -> Any:
        if call == "semantic_search":
            return db.semantic_search(query, k=asked.k, index=backend)
        return db.semantic_subgraph(query, k=asked.k, index=backend, expand=1)

    run(queries[0])
    walls: list[float] = []
    nodes: list[list[int]] = []
    sizes: list[list[int]] = []
    begin = time.perf_counter()
    for query in queries:
        start = time.perf_counter()
        found = run(query)
        walls.append(time.perf_counter() - start)
        if call == "semantic_search":
            nodes.append([hit["node"].id - 1 for hit in found])
        else:
            nodes.append([seed["node"].id - 1 for seed in found.seeds])
            sizes.append([len(found.nodes), len(found.relationships)])
        if time.perf_counter() - begin + max(walls) > asked.budget:
            break
    return {"call": call, "backend": backend, "k": asked.k, "samples_s": walls, "nodes": nodes, "sizes": sizes}


def main(asked: argparse.Namespace, out: TextIO) -> None:
    with np.load(asked.workload, allow_pickle=False) as arrays:
        data = dict(arrays)
    start = time.perf_counter()
    db = fill(data, asked.backends)
    about = {
        "version": version("grafitodb"), "python": platform.python_version(), "build_s": time.perf_counter() - start,
    }  # fmt: skip
    queries = data["query_vectors"][: asked.queries].tolist()
    for backend in asked.backends:
        for call in ("semantic_search", "semantic_subgraph"):
            print(json.dumps({**cell(db, call, backend, queries, asked), **about}), file=out, flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workload", type=lambda text: Path(text).resolve(), help="what Workload.save wrote")
    parser.add_argument("--k", type=int, default=10)
    parser.add_argument("--queries", type=int, default=16, help="single calls a cell, at most")
    parser.add_argument("--budget", type=float, default=60, help="seconds a cell")
    parser.add_argument("--backends", nargs="+", default=["bruteforce", "faiss"], choices=METRIC)
    parsed = parser.parse_args()
    lines = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # libraries print: only result lines may reach the caller's pipe
    with tempfile.TemporaryDirectory() as scratch:  # its FAISS backend writes files where it stands
        os.chdir(scratch)
        main(parsed, lines)
