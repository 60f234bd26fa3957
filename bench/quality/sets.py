"""The question-answering sets as engines, and their questions in two halves: one to tune on, one to report on."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch

import tercet
from bench.real import data_folder
from tercet.embedding import EmbeddingCache, embed_texts
from tercet.encoder import resolve_encoder
from tercet.errors import MissingDependency
from tercet.fingerprint import MINILM
from tercet.formats import openie

SETS = ("musique", "2wikimultihopqa", "hotpotqa", "musique_train100")
TUNED_ON = "musique_train100"  # a set of its own, tuned on as a whole
PREFIX = "passage:"


@dataclass(frozen=True)
class QuestionSet:
    """A set as an engine with MiniLM vectors of passages, names and relations."""

    name: str
    engine: Any
    questions: list[dict[str, Any]]
    vectors: np.ndarray  # (B, D) float32
    citations: pa.Table

    def half(self, which: str) -> list[int]:
        """Places of the questions to "tune" on, or to "test" on; by the hash of their ids, so never by content."""
        if self.name == TUNED_ON:
            return list(range(len(self.questions))) if which == "tune" else []
        return [i for i, q in enumerate(self.questions) if (half_of(q["id"]) == 0) == (which == "tune")]

    def gold(self, place: int) -> list[str]:
        """Node ids of the passages that a question needs."""
        return [f"{PREFIX}{g}" for g in self.questions[place]["gold"]]

    def weight(self, place: int) -> float:
        """How many rows of the published set the question stands for."""
        return float(self.questions[place].get("rows", 1))


def half_of(question: Any) -> int:
    """0 or 1."""
    return int(hashlib.sha256(str(question).encode()).hexdigest(), 16) % 2


def question_set(name: str, cache: Path) -> QuestionSet:
    """Read a set; vectors that the data has none of are encoded once and kept in the cache.

    Raises:
        MissingDependency: the data isn't on this machine.
    """
    folder = data_folder()
    if not (folder / name).is_dir():
        raise MissingDependency(f"{folder / name} is missing; TERCET_BENCH_DATA names the folder of the data sets")
    read = openie.read(folder / name)
    given = openie.vectors(folder / "minilm", name)
    ids = read.nodes.column("id").to_pylist()
    passages = ids[: read.report.passages]
    entities = ids[read.report.passages :]
    facts = [source.startswith("name:") for source in read.edges.column("source").to_pylist()]
    relations = list(dict.fromkeys(read.edges.column("relation").filter(pa.array(facts)).to_pylist()))
    names = [i.removeprefix("name:") for i in entities]
    collections = [
        tercet.Collection.build("DocumentChunk_text", given["passages"], owner=passages, kind="node"),
        tercet.Collection.build("Entity_name", _rows(given, "names", names, cache), owner=entities, kind="node"),
        tercet.Collection.build(
            "EdgeType_relationship_name", _rows(given, "relations", relations, cache), owner=relations, kind="relation"
        ),
    ]
    engine = tercet.Engine(tercet.Graph.from_tables(read.nodes, read.edges), collections, device="cpu")
    return QuestionSet(name, engine, openie.questions(folder / name), given["questions"], read.citations)


def _rows(given: dict[str, np.ndarray], kind: str, texts: list[str], cache: Path) -> Any:
    """(V, D) the given vectors of some texts, or encoded ones."""
    if kind in given:
        place = {text: row for row, text in enumerate(given[f"{kind}_text"])}
        return given[kind][[place[t] for t in texts]]
    encoder = resolve_encoder(MINILM)
    assert encoder is not None
    cache.mkdir(parents=True, exist_ok=True)
    torch.set_grad_enabled(False)
    return embed_texts(encoder, texts, cache=EmbeddingCache(cache))
