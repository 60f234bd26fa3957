"""Working folders of HippoRAG 2: openie_results_*.json, and vectors in {chunk,entity,fact}_embeddings/vdb_*.parquet."""

import hashlib
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tercet.errors import InvalidArgument, InvalidData
from tercet.formats.imported import Imported, ImportedVectors, SourceReport
from tercet.formats.parts import (
    CHUNK,
    ENTITY,
    MENTIONED,
    RELATION_VECTORS,
    as_column,
    lookup,
    read_json,
    read_parquet,
    vector_rows,
)  # fmt: skip
from tercet.ids import text_column

STORES = {"chunk": "DocumentChunk_text", "entity": "Entity_name", "fact": RELATION_VECTORS}
NEEDED = ("idx", "passage", "extracted_entities", "extracted_triples")


def read(path: str | Path, *, results: str | None = None, store: str | None = None, model: str | None = None,
         metric: str = "cosine") -> Imported:  # fmt: skip
    """Read a working folder of HippoRAG.

    Passages keep their ids; the first line of a passage is its name when more follow (HippoRAG joins title and text).
    Phrases that HippoRAG takes for one (lower case, everything but a-z, 0-9 and spaces blank) are one node, with
    HippoRAG's id of it and the first spelling as its name; phrases of which nothing is left stay apart by their
    spelling. Triples keep their relation; the edge text is the whole triple, since HippoRAG embeds whole triples.
    Phrases are "mentioned in" passages. Malformed triples are left out and counted. The pickled graph isn't opened:
    a pickle can run code. So synonym edges, which are only there, are missing.

    Args:
        path: the folder with openie_results_*.json, or the one inside it with the vectors of a model.
        results: the name of the file, where there are several.
        store: the name of the folder of vectors, where there are several.
        model: who made the vectors; None takes what the folder's name says.
        metric: HippoRAG takes the inner product of vectors of unit norm, which is their cosine.

    Raises:
        InvalidArgument: no such file, or several to choose from.
        InvalidData: a file isn't as above, or a passage id is there twice; names file and row.
    """
    folder = Path(path)
    file = _one(folder, [folder, folder.parent], "openie_results_*.json", results, "results")
    if file is None:
        raise InvalidArgument(f"{folder}: expected a file openie_results_*.json")
    made = _Maker(file.name, SourceReport("HippoRAG"))
    for row, doc in _documents(file):
        made.passage(row, doc)
    nodes, edges = made.nodes(), made.edges()
    inner = _stores(folder, store)
    if inner is None:
        made.report.notes.append("there are no vectors (vdb_*.parquet)")
        return Imported(nodes, edges, (), made.report)
    if any(inner.glob("*.pickle")):
        made.report.notes.append("graph.pickle wasn't opened (a pickle can run code): its synonym edges are missing")
    if model is None:
        spoken = file.stem.removeprefix("openie_results_ner_")
        model = inner.name.removeprefix(f"{spoken}_") if inner.name.startswith(f"{spoken}_") else None
    return Imported(nodes, edges, tuple(made.vectors(inner, model, metric)), made.report)


def phrase(text: str) -> str:
    """The form in which HippoRAG compares phrases."""
    return re.sub("[^A-Za-z0-9 ]", " ", text.lower()).strip()


def _hash(kind: str, text: str) -> str:
    return f"{kind}-{hashlib.md5(text.encode('utf-8', 'surrogatepass'), usedforsecurity=False).hexdigest()}"


def _one(folder: Path, places: list[Path], pattern: str, name: str | None, argument: str) -> Path | None:
    for place in places:
        found = sorted(p for p in place.glob(pattern) if name is None or p.name == name)
        if len(found) > 1:
            raise InvalidArgument(f"{folder}: several {pattern}, choose one by {argument}=: {[p.name for p in found]}")
        if found:
            return found[0]
    return None


def _stores(folder: Path, name: str | None) -> Path | None:
    """The folder that holds the folders of vectors."""
    here = any((folder / f"{kind}_embeddings").is_dir() for kind in STORES)
    found = [folder] if here else sorted({p.parent for kind in STORES for p in folder.glob(f"*/{kind}_embeddings")})
    found = [p for p in found if name is None or p.name == name]
    if len(found) > 1:
        raise InvalidArgument(f"{folder}: several folders of vectors, choose one by store=: {[p.name for p in found]}")
    return found[0] if found else None


def _documents(file: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    held = read_json(file)
    if not isinstance(held, dict) or not isinstance(held.get("docs"), list):
        raise InvalidData(f"{file}: expected an object with a list docs")
    for row, doc in enumerate(held["docs"], 1):
        if not isinstance(doc, dict) or any(name not in doc for name in NEEDED):
            got = list(doc) if isinstance(doc, dict) else type(doc).__name__
            raise InvalidData(f"{file.name}:{row}: expected an object with {', '.join(NEEDED)}, got {got}")
        if not isinstance(doc["idx"], str) or not isinstance(doc["passage"], str):
            raise InvalidData(f"{file.name}:{row}: expected idx and passage to be text")
        for name in NEEDED[2:]:
            if not isinstance(doc[name], list):
                raise InvalidData(f"{file.name}:{row}: {name}: expected a list, got {type(doc[name]).__name__}")
        yield row, doc


@dataclass
class _Maker:
    """Passages, phrases and triples, in order of first appearance."""

    file: str
    report: SourceReport
    passages: dict[str, tuple[int, str]] = field(default_factory=dict)  # id: row, text
    phrases: dict[str, str] = field(default_factory=dict)  # id: first spelling
    spellings: set[str] = field(default_factory=set)
    facts: dict[tuple[str, str, str], list[str]] = field(default_factory=dict)  # ids and relation: passages
    fact_of: dict[str, tuple[str, str, str]] = field(default_factory=dict)  # HippoRAG's id of a triple: key in `facts`
    mentions: dict[tuple[str, str], None] = field(default_factory=dict)
    triples: int = 0
    kept: int = 0

    def passage(self, row: int, doc: dict[str, Any]) -> None:
        """One passage with what was extracted from it.

        Raises:
            InvalidData: the id is there already.
        """
        place, idx = f"{self.file}:{row}", doc["idx"]
        if idx in self.passages:
            raise InvalidData(
                f"{place}: the passage id {idx!r} is there already, in {self.file}:{self.passages[idx][0]}"
            )
        self.passages[idx] = row, doc["passage"]
        problems: Counter[str] = Counter()
        for name in doc["extracted_entities"]:
            if isinstance(name, str) and name.strip():
                self.mentions.setdefault((self._phrase(name), idx))
            else:
                problems["entity that is blank or no text; left out"] += 1
        for triple in doc["extracted_triples"]:
            self.triples += 1
            if not isinstance(triple, list) or len(triple) != 3:
                problems["triple that isn't of three parts; left out"] += 1
            elif not all(isinstance(part, str) and part.strip() for part in triple):
                problems["triple with a part that is blank or no text; left out"] += 1
            else:
                self._triple(triple, idx)
        for problem, count in problems.items():
            self.report.note(problem, [place] * count)

    def _triple(self, triple: list[str], idx: str) -> None:
        self.kept += 1
        source, target = self._phrase(triple[0]), self._phrase(triple[2])
        plain = tuple(phrase(part) for part in triple)
        key = source, plain[1] or triple[1].strip(), target
        held = self.facts.setdefault(key, [])
        if idx not in held:
            held.append(idx)
        self.fact_of.setdefault(_hash("fact", str(plain)), key)
        self.mentions.setdefault((source, idx))
        self.mentions.setdefault((target, idx))

    def _phrase(self, text: str) -> str:
        plain = phrase(text)
        node = _hash("entity", plain) if plain else f"name:{text}"
        self.phrases.setdefault(node, text)
        self.spellings.add(text)
        return node

    def nodes(self) -> pa.Table:
        """Passages, then phrases."""
        size = len(self.passages), len(self.phrases)
        merged, apart = len(self.spellings) - size[1], sum(node.startswith("name:") for node in self.phrases)
        self.report.tables[self.file] = size[0], size[0]
        self.report.tables[f"{self.file} triples"] = self.triples, self.kept
        self.report.notes.append(f"{len(self.facts)} distinct triples; {merged} spellings are other forms of a phrase")
        if apart:
            self.report.notes.append(
                f"{apart} phrases without a Latin letter or digit, which HippoRAG can't tell apart, are kept apart"
            )
        texts = [text for _, text in self.passages.values()]
        columns: dict[str, list[Any]] = {
            "id": [*self.passages, *self.phrases],
            "name": [*(t.split("\n", 1)[0] if "\n" in t else None for t in texts), *self.phrases.values()],
            "type": [CHUNK] * size[0] + [ENTITY] * size[1],
            "text": [*texts, *([None] * size[1])],
        }
        made = {name: text_column(values, f"{self.file} {name}") for name, values in columns.items()}
        twice = set(self.passages) & set(self.phrases)
        if twice:
            raise InvalidData(f"{self.file}: ids of both a passage and a phrase: {sorted(twice)[:3]}")
        return pa.table({**made, "labels": as_column([[t] for t in columns["type"]], "labels")})

    def edges(self) -> pa.Table:
        """The distinct triples, then mentions."""
        columns: dict[str, list[Any]] = {
            "source": [*(s for s, _, _ in self.facts), *(node for node, _ in self.mentions)],
            "target": [*(t for _, _, t in self.facts), *(idx for _, idx in self.mentions)],
            "relation": [*(r for _, r, _ in self.facts), *([MENTIONED] * len(self.mentions))],
            "edge_text": [*map(self._sentence, self.facts), *([None] * len(self.mentions))],
        }
        made = {name: text_column(values, f"{self.file} {name}") for name, values in columns.items()}
        chunks = [*self.facts.values(), *([] for _ in self.mentions)]
        return pa.table({**made, "chunks": as_column(chunks, "chunks").cast(pa.list_(pa.large_string()))})

    def _sentence(self, fact: tuple[str, str, str]) -> str:
        return f"{self.phrases[fact[0]]} {fact[1]} {self.phrases[fact[2]]}"

    def vectors(self, inner: Path, model: str | None, metric: str) -> Iterator[ImportedVectors]:
        """The vectors whose rows are in the tables; others are counted."""
        known: dict[str, dict[str, str]] = {
            "chunk": {idx: idx for idx in self.passages},
            "entity": {node: node for node in self.phrases},
            "fact": {one: self._sentence(key) for one, key in self.fact_of.items()},
        }
        for kind, collection in STORES.items():
            file = inner / f"{kind}_embeddings" / f"vdb_{kind}.parquet"
            if not file.is_file():
                self.report.notes.append(f"there is no {kind}_embeddings/{file.name}")
                continue
            table = read_parquet(file, ("hash_id", "content", "embedding"))
            rows, kept = vector_rows(table.column("embedding"), file.name, self.report)
            ids = as_column(table.column("hash_id"), file.name).take(pa.array(kept))
            at = lookup(ids, text_column(list(known[kind]), file.name))
            good = at >= 0
            self.report.tables[file.name] = table.num_rows, int(good.sum())
            self.report.note(
                "vector of nothing in the results; left out", [f"{file.name}:{i + 1}" for i in kept[~good]]
            )
            owner = text_column(list(known[kind].values()), file.name).take(pa.array(at[good]))
            if len(owner):
                which: Any = "relation" if kind == "fact" else "node"
                yield ImportedVectors(collection, which, owner, np.ascontiguousarray(rows[good]), model, metric)
