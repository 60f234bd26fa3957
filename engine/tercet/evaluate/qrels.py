"""Qrels: which documents answer which query, and how well."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tercet.errors import InvalidArgument, InvalidData
from tercet.evaluate.lines import coded, ending, id_of, offsets, read_lines
from tercet.formats.tables import read_json_lines
from tercet.ids import text_column

QUERY_KEYS = ("query-id", "query_id", "qid", "_id", "id")
DOCUMENT_KEYS = ("corpus-id", "corpus_id", "doc_id", "docid")
GRADE_KEYS = ("score", "relevance", "grade")

Judgement = tuple[str, Any, Any, Any]  # place, query, document, grade


@dataclass(frozen=True, eq=False)
class Qrels:
    """Judged documents of Q queries. Made by `Qrels.read` or `Qrels.of`."""

    queries: pa.LargeStringArray  # (Q,) distinct
    indptr: np.ndarray  # (Q + 1,) int64
    document: np.ndarray  # (J,) int32 rows of documents, none twice for a query
    documents: pa.LargeStringArray  # (D,) distinct
    grade: np.ndarray  # (J,) int32; at least 1 is relevant

    @staticmethod
    def read(path: str | Path, *, gold: str = "gold") -> "Qrels":
        """Read judgements from a file, plain or gzipped.

        - JSON lines with an id and a list of relevant ids under the key `gold`, each of grade 1; a member that is a
          list of three texts is a triplet, see `triplet_id`;
        - JSON lines, or a TSV with a header, with `query-id`, `corpus-id` and `score` (BEIR, MTEB);
        - `.json`: `{query: {document: grade}}`;
        - else TREC's four columns: query, iteration (ignored), document, grade.

        Args:
            gold: the key of the list of relevant ids.

        Raises:
            InvalidArgument: no such file.
            InvalidData: names the line: columns missing, white space inside an id, a grade that isn't an integer, a
                document judged twice for a query; or nothing is judged at all.
        """
        path = Path(path)
        kind = ending(path)
        if kind == ".jsonl":
            return _made(_json_lines(path, gold), str(path))
        if kind == ".json":
            return _made(_mapping(_json(path), str(path)), str(path))
        return _made(_columns(path), str(path))

    @staticmethod
    def of(source: Any, *, gold: str = "gold") -> "Qrels":
        """Qrels of anything that stands for them.

        Args:
            source: `Qrels`, a path, or a mapping of query id to a mapping of document id to grade, or to a list of
                relevant document ids.

        Raises:
            InvalidArgument: something else.
            InvalidData: as `read`.
        """
        if isinstance(source, Qrels):
            return source
        if isinstance(source, (str, Path)):
            return Qrels.read(source, gold=gold)
        if isinstance(source, Mapping):
            return _made(_mapping(source, "qrels"), "qrels")
        raise InvalidArgument(f"qrels: expected Qrels, a path or a mapping of query ids, got {type(source).__name__}")

    @cached_property
    def relevant(self) -> np.ndarray:
        """(Q,) int64 documents with a grade of at least 1."""
        return np.diff(np.concatenate([[0], np.cumsum(self.grade >= 1)])[self.indptr])

    @cached_property
    def query(self) -> np.ndarray:
        """(J,) int64 the query of each judgement, by position."""
        return np.repeat(np.arange(len(self)), np.diff(self.indptr))

    def to_dict(self) -> dict[str, dict[str, int]]:
        """`{query: {document: grade}}`."""
        names = self.documents.take(pa.array(self.document)).to_pylist()
        grades, bounds = self.grade.tolist(), self.indptr.tolist()
        parts = zip(self.queries.to_pylist(), bounds[:-1], bounds[1:], strict=True)
        return {q: dict(zip(names[i:j], grades[i:j], strict=True)) for q, i, j in parts}

    def write(self, path: str | Path) -> None:
        """Write BEIR's TSV: a header, then query, document and grade."""
        columns = [self.queries.take(pa.array(self.query)), self.documents.take(pa.array(self.document))]
        rows = zip(*(c.to_pylist() for c in columns), self.grade.tolist(), strict=True)
        text = "query-id\tcorpus-id\tscore\n" + "".join(f"{q}\t{d}\t{g}\n" for q, d, g in rows)
        Path(path).write_text(text, encoding="utf-8")

    def __len__(self) -> int:
        return len(self.queries)

    def __repr__(self) -> str:
        return f"Qrels({len(self)} queries, {len(self.document)} judged, {int(self.relevant.sum())} relevant)"


def triplet_id(source: str, relation: str, target: str) -> str:
    """How a triplet without an id of its own is called: its three parts as a JSON list without blanks."""
    return json.dumps([source, relation, target], ensure_ascii=False, separators=(",", ":"))


def _json_lines(path: Path, gold: str) -> Iterator[Judgement]:
    for line, row in read_json_lines(path):
        place = f"{path} line {line}"
        query = next((row[k] for k in QUERY_KEYS if k in row), None) if isinstance(row, dict) else None
        document = next((row[k] for k in DOCUMENT_KEYS if k in row), None) if isinstance(row, dict) else None
        if query is None or (gold not in row and document is None):
            got = list(row) if isinstance(row, dict) else type(row).__name__
            raise InvalidData(f"{place}: expected an id and a list {gold!r}, or query-id and corpus-id, got {got}")
        if gold in row:
            if not isinstance(row[gold], list):
                raise InvalidData(f"{place}: expected {gold!r} to be a list of ids, got {row[gold]!r:.100}")
            yield place, query, None, None  # a query with an empty list is judged as well
            for one in row[gold]:
                yield place, query, _gold_id(one, place), 1
        else:
            grade = next((row[k] for k in GRADE_KEYS if k in row), None)
            yield place, query, document, grade


def _gold_id(one: Any, place: str) -> Any:
    if isinstance(one, list):
        if len(one) != 3 or not all(isinstance(part, str) for part in one):
            raise InvalidData(f"{place}: expected a triplet of three texts, got {one!r:.100}")
        return triplet_id(*one)
    return one


def _json(path: Path) -> Any:
    if not path.is_file():
        raise InvalidArgument(f"{path}: no such file")
    try:
        return json.loads("\n".join(line for _, line in read_lines(path)))
    except json.JSONDecodeError as error:
        raise InvalidData(f"{path} line {error.lineno}: not valid JSON: {error.msg}") from error


def _mapping(found: Any, place: str) -> Iterator[Judgement]:
    if not isinstance(found, Mapping):
        raise InvalidData(f"{place}: expected a mapping of query ids, got {type(found).__name__}")
    for query, judged in found.items():
        where = f"{place}[{query!r}]"
        yield where, query, None, None
        if isinstance(judged, Mapping):
            for document, grade in judged.items():
                yield where, query, document, grade
        elif isinstance(judged, (list, tuple, set, frozenset)):
            for document in judged:
                yield where, query, _gold_id(document, where), 1
        else:
            raise InvalidData(f"{where}: expected a mapping of documents or a list of them, got {judged!r:.100}")


def _columns(path: Path) -> Iterator[Judgement]:
    """BEIR's three columns under a header, or TREC's four without."""
    header: list[str] | None = None
    first = True
    for number, line in read_lines(path):
        place = f"{path} line {number}"
        names = [c.strip().lower() for c in line.split("\t")]
        if first and names[0] in QUERY_KEYS:
            header = names
            lacking = [ks[0] for ks in (DOCUMENT_KEYS, GRADE_KEYS) if not set(ks) & set(names)]
            if lacking:
                raise InvalidData(f"{place}: expected a header with query-id, corpus-id, score, got {names}")
        elif header is not None:
            cells = line.split("\t")
            if len(cells) != len(header):
                raise InvalidData(f"{place}: expected {len(header)} columns between tabs, got {len(cells)}")
            by = dict(zip(header, cells, strict=True))
            query, document, grade = (
                next(by[k] for k in keys if k in by) for keys in (QUERY_KEYS, DOCUMENT_KEYS, GRADE_KEYS)
            )
            yield place, query, document, grade
        else:
            cells = line.split()
            if len(cells) != 4:
                raise InvalidData(
                    f"{place}: expected query, iteration, document, grade (ids without white space), "
                    f"got {len(cells)} columns"
                )
            yield place, cells[0], cells[2], cells[3]
        first = False


def _made(rows: Iterator[Judgement], source: str) -> Qrels:
    found: dict[str, dict[str, tuple[int, str]]] = {}
    for place, query, document, grade in rows:
        judged = found.setdefault(id_of(query, place), {})
        if document is None:
            continue
        one = id_of(document, place)
        if one in judged:
            raise InvalidData(f"{place}: {one!r} is judged already for the query {query!r} ({judged[one][1]})")
        judged[one] = (_grade(grade, place), place)
    if not any(found.values()):
        raise InvalidData(f"{source}: the qrels are empty: no document is judged for any query")
    code, documents = coded([d for judged in found.values() for d in judged])
    grades = np.array([g for judged in found.values() for g, _ in judged.values()], np.int32)
    bounds = offsets([len(judged) for judged in found.values()])
    return Qrels(text_column(list(found), f"{source}: query id"), bounds, code, documents, grades)


def _grade(value: Any, place: str) -> int:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = np.nan
    if isinstance(value, bool) or not number.is_integer() or abs(number) > 1 << 30:
        raise InvalidData(f"{place}: expected an integer as the grade, got {value!r}")
    return int(number)
