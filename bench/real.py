"""The graphs of other people's data as workloads: WordNet, FB15k-237, MetaQA and the question-answering sets.

They are looked for in the folder that TERCET_BENCH_DATA names, else in `../shared/data` beside the checkout. MuSiQue
comes with MiniLM vectors of its names, relations and questions. The others have none, so theirs are drawn with a seed,
and `Workload.vectors` says so.
"""

import gzip
import json
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.machine import ROOT
from bench.workloads import Workload, clustered
from tercet.errors import InvalidArgument, MissingDependency

NAMES = ("wordnet30", "fb15k237", "metaqa", "musique", "musique_train100", "2wikimultihopqa", "hotpotqa")
TABLES = {"wordnet30": ("edges",), "fb15k237": ("train", "valid", "test"), "metaqa": ("triples",)}
ENCODED = ("musique", "musique_train100")
Triples = Iterator[tuple[str, str, str]]  # source, relation, target


def data_folder() -> Path:
    """Where the data sets are."""
    named = os.environ.get("TERCET_BENCH_DATA")
    return Path(named) if named else ROOT.parent / "shared" / "data"


def load(name: str, *, seed: int, num_queries: int, dimension: int) -> Workload:
    """A data set as a workload.

    Args:
        seed, num_queries, dimension: of vectors that have to be drawn; given vectors and questions come as they are.

    Raises:
        InvalidArgument: an unknown name.
        MissingDependency: the data isn't on this machine.
    """
    if name not in NAMES:
        raise InvalidArgument(f"workload: {name!r} is no data set; there are {', '.join(NAMES)}")
    folder = data_folder()
    if not (folder / name).is_dir():
        raise MissingDependency(f"{folder / name} is missing; TERCET_BENCH_DATA names the folder of the data sets")
    nodes: dict[str, int] = {}
    relations: dict[str, int] = {}
    if name in ENCODED:
        nodes = _rows(folder / "minilm" / f"{name}.names.jsonl.gz")
        relations = _rows(folder / "minilm" / f"{name}.relations.jsonl.gz")
    elif name == "wordnet30":
        nodes = {line[0]: row for row, line in enumerate(_table(folder / name / "nodes.tsv.gz"))}
    edges = np.array(
        [
            (nodes.setdefault(s, len(nodes)), nodes.setdefault(t, len(nodes)), relations.setdefault(r, len(relations)))
            for s, r, t in _triples(name, folder / name)
        ],
        np.int64,
    )
    edges = np.unique(edges, axis=0)
    if name in ENCODED:
        made = "MiniLM, given"
        vectors = (
            _codes(folder / "minilm" / f"{name}.names.i8.npz"),
            _codes(folder / "minilm" / f"{name}.relations.i8.npz"),
            _unit(np.load(folder / "minilm" / f"{name}.questions.f16.npy").astype(np.float32)),
        )
    else:
        made = "clustered, seeded"
        vectors = clustered(np.random.default_rng(seed), len(nodes), len(relations), num_queries, dimension)
    source, target, relation = edges.astype(np.int32).T
    return Workload(name, len(nodes), source.copy(), target.copy(), relation.copy(), *vectors, vectors=made)


def _triples(name: str, folder: Path) -> Triples:
    if name in TABLES:
        for part in TABLES[name]:
            yield from ((s, r, t) for s, r, t in _table(folder / f"{part}.tsv.gz"))
    else:
        for passage in _lines(folder / "openie.jsonl.gz"):
            for triple in passage["triples"]:
                if len(triple) == 3 and all(isinstance(part, str) and part.strip() for part in triple):
                    yield triple[0], triple[1], triple[2]


def _table(path: Path) -> Iterator[list[str]]:
    with gzip.open(path, "rt", encoding="utf-8", newline="\n") as file:
        for line in file:
            yield line.rstrip("\n").split("\t")


def _lines(path: Path) -> Iterator[dict]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)


def _rows(path: Path) -> dict[str, int]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return {json.loads(line): row for row, line in enumerate(file)}


def _codes(path: Path) -> NDArray[np.float32]:
    with np.load(path, allow_pickle=False) as arrays:
        return _unit(arrays["codes"].astype(np.float32) * arrays["scale"][:, None])


def _unit(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
