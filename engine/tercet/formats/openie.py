"""Passages with the triples a language model extracted from them, as the question-answering sets hold them."""

import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tercet.errors import InvalidArgument, InvalidData
from tercet.formats.tables import read_json_lines
from tercet.ids import text_column

MENTIONS = "mentions"
SHOWN = 5  # lines named for each kind of malformed triple


@dataclass
class OpenIEReport:
    """What was read and what was left out.

    `malformed` maps a kind ("2 parts", "blank part", "part that isn't text", "not a list") to (count, first line
    numbers in the triples file, from 1).
    """

    passages: int = 0
    triples: int = 0  # as given, in all passages
    kept: int = 0  # well formed: three strings that aren't blank
    distinct: int = 0  # of the kept ones
    blank_entities: int = 0  # named entities without text, left out
    malformed: dict[str, tuple[int, list[int]]] = field(default_factory=dict)

    def note(self, kind: str, line: int) -> None:
        """Count a malformed triple of a line."""
        count, lines = self.malformed.get(kind, (0, []))
        self.malformed[kind] = (count + 1, lines if len(lines) == SHOWN or line in lines else [*lines, line])

    def __str__(self) -> str:
        text = f"{self.passages} passages, {self.kept} of {self.triples} triples kept ({self.distinct} distinct)"
        for kind, (count, lines) in sorted(self.malformed.items()):
            text += f"\n{kind}: {count} triples, first in lines {', '.join(map(str, lines))}"
        return text


@dataclass(frozen=True)
class OpenIE:
    """A graph of passages and names.

    Nodes: `id` ("passage:<id>" or "name:<name>"), `name`, `type` (DocumentChunk or Entity), `text`; passages first in
    file order, then names in order of first appearance, passage by passage, entities before the ends of triples.
    Edges: `source`, `target`, `relation`, `passage` (node id of the passage it was first read in); the distinct triples
    in file order, then "mentions" from each passage to each name in it.
    Citations: `source`, `relation`, `target`, `passage`, a row for every passage that holds a triple, in file order.
    """

    nodes: pa.Table
    edges: pa.Table
    report: OpenIEReport
    citations: pa.Table


def read(folder: str | Path) -> OpenIE:
    """Read `passages.jsonl` and `openie.jsonl` of a folder, plain or gzipped.

    A passage row holds `id`, `title`, `text`; an openie row `id`, `entities`, `triples`. Names are kept as spelled.
    Malformed triples and blank entities are left out and counted in the report.

    Raises:
        InvalidArgument: a file isn't there.
        InvalidData: a row isn't as above, a passage id is repeated, or an openie row belongs to no passage.
    """
    report = OpenIEReport()
    passages = _passages(Path(folder))
    report.passages = len(passages)
    names: dict[str, None] = {}
    facts: dict[tuple[str, str, str], str] = {}
    cited: dict[tuple[tuple[str, str, str], str], None] = {}
    mentions: list[tuple[str, str]] = []
    for place, line, row in _rows(Path(folder), "openie", ("id", "entities", "triples")):
        passage = f"passage:{row['id']}"
        if passage not in passages:
            raise InvalidData(f"{place}: no passage has the id {row['id']!r}")
        here = dict.fromkeys(_entities(row["entities"], place, report))
        for triple in _well_formed(row["triples"], place, line, report):
            here.update({triple[0]: None, triple[2]: None})
            facts.setdefault(triple, passage)
            cited[triple, passage] = None
        names.update(here)
        mentions += [(passage, name) for name in here]
    report.distinct = len(facts)
    return OpenIE(_node_table(passages, names), _edge_table(facts, mentions), report, _citation_table(cited))


def questions(folder: str | Path) -> list[dict[str, Any]]:
    """The rows of `questions.jsonl` of a folder, as they are.

    Raises:
        InvalidArgument: the file isn't there.
        InvalidData: a row has no `id` or no `question`.
    """
    return [row for _, _, row in _rows(Path(folder), "questions", ("id", "question"))]


def vectors(folder: str | Path, set_name: str) -> dict[str, np.ndarray]:
    """The vectors made beforehand for one set, as far as the folder has them.

    Args:
        folder: with `<set>.passages.f16.npy`, `<set>.questions.f16.npy`, and `<set>.names.i8.npz`,
            `<set>.relations.i8.npz` each beside a `.jsonl.gz` of the texts.
        set_name: such as "musique".

    Returns:
        "passages", "questions" in the order of their files; "names", "relations" in the order of "names_text",
        "relations_text" (arrays of str). Vectors are (V, D) float32 of unit norm.

    Raises:
        InvalidArgument: the folder has nothing for the set.
        InvalidData: counts or shapes don't agree, or a vector is zero or not finite.
    """
    found: dict[str, np.ndarray] = {}
    base = Path(folder)
    for kind in ("passages", "questions"):
        path = base / f"{set_name}.{kind}.f16.npy"
        if path.is_file():
            found[kind] = _unit(_arrays(path, ())[0].astype(np.float32), path)
    for kind in ("names", "relations"):
        path = base / f"{set_name}.{kind}.i8.npz"
        if path.is_file():
            texts = np.array([text for _, text in read_json_lines(base / f"{set_name}.{kind}.jsonl.gz")], object)
            found[kind] = _unit(_decoded(path, len(texts)), path)
            found[f"{kind}_text"] = texts
    if not found:
        raise InvalidArgument(f"{base}: no vectors of the set {set_name!r}, expected {set_name}.passages.f16.npy")
    return found


def _rows(folder: Path, stem: str, needed: tuple[str, ...]) -> Iterator[tuple[str, int, dict[str, Any]]]:
    """(place for messages, line number, row) of a file of JSON objects with the needed keys."""
    path = next((p for p in (folder / f"{stem}.jsonl.gz", folder / f"{stem}.jsonl") if p.is_file()), None)
    if path is None:
        raise InvalidArgument(f"{folder}: expected a file {stem}.jsonl or {stem}.jsonl.gz")
    for line, row in read_json_lines(path):
        place = f"{path} line {line}"
        if not isinstance(row, dict) or any(key not in row for key in needed):
            got = list(row) if isinstance(row, dict) else type(row).__name__
            raise InvalidData(f"{place}: expected an object with {', '.join(needed)}, got {got}")
        yield place, line, row


def _passages(folder: Path) -> dict[str, tuple[str, str]]:
    found: dict[str, tuple[str, str]] = {}
    for place, _, row in _rows(folder, "passages", ("id", "title", "text")):
        if not isinstance(row["title"], str) or not isinstance(row["text"], str):
            raise InvalidData(f"{place}: expected title and text to be strings")
        if f"passage:{row['id']}" in found:
            raise InvalidData(f"{place}: the passage id {row['id']!r} is there already")
        found[f"passage:{row['id']}"] = (row["title"], row["text"])
    return found


def _entities(given: Any, place: str, report: OpenIEReport) -> list[str]:
    if not isinstance(given, list) or not all(isinstance(name, str) for name in given):
        raise InvalidData(f"{place}: expected entities to be a list of strings")
    kept = [name for name in given if name.strip()]
    report.blank_entities += len(given) - len(kept)
    return kept


def _well_formed(given: Any, place: str, line: int, report: OpenIEReport) -> Iterator[tuple[str, str, str]]:
    if not isinstance(given, list):
        raise InvalidData(f"{place}: expected triples to be a list, got {type(given).__name__}")
    report.triples += len(given)
    for triple in given:
        problem = _problem(triple)
        if problem is None:
            report.kept += 1
            yield triple[0], triple[1], triple[2]
        else:
            report.note(problem, line)


def _problem(triple: Any) -> str | None:
    """What is wrong with a triple, if anything is."""
    if not isinstance(triple, list):
        return "not a list"
    if len(triple) != 3:
        return f"{len(triple)} parts"
    if not all(isinstance(part, str) for part in triple):
        return "part that isn't text"
    return None if all(part.strip() for part in triple) else "blank part"


def _node_table(passages: dict[str, tuple[str, str]], names: dict[str, None]) -> pa.Table:
    columns: dict[str, list[Any]] = {
        "id": [*passages, *(f"name:{name}" for name in names)],
        "name": [*(title for title, _ in passages.values()), *names],
        "type": ["DocumentChunk"] * len(passages) + ["Entity"] * len(names),
        "text": [*(f"{title}\n{body}" for title, body in passages.values()), *([None] * len(names))],
    }
    return pa.table({name: text_column(values, f"nodes.{name}") for name, values in columns.items()})


def _edge_table(facts: dict[tuple[str, str, str], str], mentions: list[tuple[str, str]]) -> pa.Table:
    inside = [passage for passage, _ in mentions]
    ends = [*(name for _, _, name in facts), *(name for _, name in mentions)]
    columns: dict[str, list[Any]] = {
        "source": [*(f"name:{name}" for name, _, _ in facts), *inside],
        "target": [f"name:{name}" for name in ends],
        "relation": [*(relation for _, relation, _ in facts), *([MENTIONS] * len(mentions))],
        "passage": [*facts.values(), *inside],
    }
    return pa.table({name: text_column(values, f"edges.{name}") for name, values in columns.items()})


def _citation_table(cited: dict[tuple[tuple[str, str, str], str], None]) -> pa.Table:
    columns: dict[str, list[Any]] = {
        "source": [f"name:{source}" for (source, _, _), _ in cited],
        "relation": [relation for (_, relation, _), _ in cited],
        "target": [f"name:{target}" for (_, _, target), _ in cited],
        "passage": [passage for _, passage in cited],
    }
    return pa.table({name: text_column(values, f"citations.{name}") for name, values in columns.items()})


def _arrays(path: Path, needed: tuple[str, ...]) -> list[np.ndarray]:
    """The named arrays of an .npz file, or the one of an .npy file."""
    try:
        file = np.load(path, allow_pickle=False)
        return [file] if isinstance(file, np.ndarray) else [file[name] for name in needed]
    except KeyError as error:
        raise InvalidData(f"{path}: expected the arrays {', '.join(needed)}: {error}") from error
    except (ValueError, EOFError, OSError, zipfile.BadZipFile) as error:
        raise InvalidData(f"{path}: not a readable NumPy file: {error}") from error


def _decoded(path: Path, rows: int) -> np.ndarray:
    codes, scale = _arrays(path, ("codes", "scale"))
    if codes.ndim != 2 or codes.dtype != np.int8 or len(codes) != rows or scale.shape != (rows,):
        raise InvalidData(
            f"{path}: expected codes ({rows}, D) int8 and scale ({rows},) for {rows} texts, "
            f"got {codes.shape} {codes.dtype} and {scale.shape}"
        )
    return codes.astype(np.float32) * scale.astype(np.float32)[:, None]


def _unit(rows: np.ndarray, path: Path) -> np.ndarray:
    if rows.ndim != 2:
        raise InvalidData(f"{path}: expected a matrix of vectors, got the shape {rows.shape}")
    norms = np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))
    bad = np.flatnonzero(~(np.isfinite(norms) & (norms > 0)))
    if len(bad):
        raise InvalidData(f"{path}: {len(bad)} vectors are zero or not finite, first in row {bad[0]}")
    rows /= norms[:, None].astype(np.float32)
    return rows
