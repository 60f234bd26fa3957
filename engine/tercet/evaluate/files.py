"""Files of runs: TREC's six columns, MTEB's predictions, JSON lines with ranked lists."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tercet.errors import InvalidArgument, InvalidData
from tercet.evaluate.lines import coded, ending, id_of, read_lines, some
from tercet.evaluate.run import Repeats, Run, of_scored
from tercet.formats.tables import read_json_lines

SPACE = r"[\s\x85\p{Z}]"
BLOCK = 1 << 20  # lines written at a time


def read_run(path: str | Path, *, name: str | None = None, repeats: Repeats = "error", escaped: bool = False) -> Run:
    """Read one run by the ending of its file: .jsonl, .json (MTEB or `{query: {document: score}}`), else TREC.

    Raises:
        InvalidArgument: no such file, or JSON lines that hold several runs: see `read_runs`.
        InvalidData: names the line.
    """
    path = Path(path)
    if ending(path) == ".jsonl":
        runs = read_runs(path, repeats=repeats)
        if len(runs) > 1:
            raise InvalidArgument(f"{path}: holds the runs {', '.join(map(repr, runs))}; `read_runs` reads them all")
        run = next(iter(runs.values()))
    elif ending(path) == ".json":
        run = read_mteb(path)
    else:
        run = read_trec(path, escaped=escaped)
    return run if name is None else replace(run, name=name)


def read_trec(path: str | Path, *, escaped: bool = False) -> Run:
    """Read TREC's six columns: query, Q0, document, rank, score, run name.

    As trec_eval does, ranks are ignored: documents are ordered by score, ties by document id descending.

    Args:
        escaped: ids were written with `write_trec(white_space="escape")`.

    Raises:
        InvalidArgument: no such file.
        InvalidData: names the line: another number of columns (an id with white space, perhaps), a score that isn't a
            number, a document twice for a query; or the file is empty.
    """
    path = Path(path)
    asked: list[str] = []
    found: list[str] = []
    scores: list[str] = []
    lines: list[int] = []
    name = path.stem
    for line, text in read_lines(path):
        cells = text.split()
        if len(cells) != 6:
            raise InvalidData(f"{path} line {line}: expected 6 columns (query Q0 document rank score name, ids without "
                              f"white space), got {len(cells)}")  # fmt: skip
        query_id, _, document, _, score, name = cells
        asked.append(query_id)
        found.append(document)
        scores.append(score)
        lines.append(line)
    if not lines:
        raise InvalidData(f"{path}: the run is empty")
    if escaped:
        asked, found = list(map(unquote, asked)), list(map(unquote, found))
    query, queries = coded(asked)
    _check_twice(path, lines, query, asked, found)
    return of_scored(name, queries.to_pylist(), query.astype(np.int64), found, _numbers(path, lines, scores))


def _numbers(path: Path, lines: list[int], column: list[str]) -> np.ndarray:
    try:
        scores = np.array(column, dtype=object).astype(np.float64)
    except ValueError:
        scores = np.array([_number(text) for text in column])
    bad = np.flatnonzero(~np.isfinite(scores))
    if len(bad):
        at = int(bad[0])
        raise InvalidData(f"{path} line {lines[at]}: expected a number as the score, got {column[at]!r}")
    return scores


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")


def _check_twice(path: Path, lines: list[int], query: np.ndarray, asked: list[str], found: list[str]) -> None:
    code, distinct = coded(found)
    key = query.astype(np.int64) * len(distinct) + code
    order = np.argsort(key, kind="stable")
    double = np.flatnonzero(key[order][1:] == key[order][:-1])
    if len(double):
        first, again = order[double[0]], order[double[0] + 1]
        raise InvalidData(f"{path} line {lines[again]}: the query {asked[again]!r} has the document {found[again]!r} "
                          f"already on line {lines[first]}")  # fmt: skip


def write_trec(run: Run, path: str | Path, *, white_space: str = "refuse") -> None:
    """Write TREC's six columns, with scores that fall strictly in rank order.

    Queries without a result have no line; places without a document id keep their rank but have none either.

    Args:
        white_space: "refuse" ids with white space, or "escape" white space and % in ids as %20, %25, ….

    Raises:
        InvalidArgument: another value of `white_space`, or a run name with white space.
        InvalidData: ids with white space, when they are refused.
    """
    if white_space not in ("refuse", "escape"):
        raise InvalidArgument(f"white_space: expected 'refuse' or 'escape', got {white_space!r}")
    if not run.name or run.name.split() != [run.name]:
        raise InvalidArgument(f"run name: expected a name without white space, got {run.name!r}")
    queries, documents = (
        _plain(ids, what, run.name, white_space == "escape")
        for ids, what in ((run.queries, "query"), (run.documents, "document"))
    )
    score, kept = run.strict_scores, np.flatnonzero(run.document >= 0)
    with Path(path).open("w", encoding="utf-8", newline="\n") as sink:
        for low in range(0, len(kept), BLOCK):
            at = kept[low : low + BLOCK]
            columns = [
                queries.take(pa.array(run.query[at])), _text("Q0"), documents.take(pa.array(run.document[at])),
                pa.array(run.rank[at]).cast(pa.large_string()), pa.array(score[at]).cast(pa.large_string()),
                _text(run.name),
            ]  # fmt: skip
            lines = pc.binary_join_element_wise(*columns, _text(" "))
            sink.write("\n".join(lines.to_pylist()) + "\n")


def _text(value: str) -> pa.Scalar:
    return pa.scalar(value, pa.large_string())


def has_white_space(run: Run) -> bool:
    """Whether TREC's form can't hold the ids as they are."""
    return any(bool(pc.any(pc.match_substring_regex(ids, SPACE)).as_py()) for ids in (run.queries, run.documents))


def _plain(ids: pa.LargeStringArray, what: str, name: str, escape: bool) -> pa.Array:
    if escape:
        return pa.array(["".join(_escaped(c) for c in one) for one in ids.to_pylist()], pa.large_string())
    bad = ids.filter(pc.match_substring_regex(ids, SPACE))
    if len(bad):
        raise InvalidData(f"run {name!r}: {len(bad)} {what} ids hold white space, which TREC's form can't: "
                          f"{some(bad.to_pylist())}; white_space='escape' writes them as %20")  # fmt: skip
    return ids


def _escaped(character: str) -> str:
    if character == "%" or character.isspace():
        return "".join(f"%{byte:02X}" for byte in character.encode())
    return character


def read_mteb(path: str | Path) -> Run:
    """Read predictions as MTEB saves them, or a plain `{query: {document: score}}`; ties by document id descending.

    The scores may lie deeper (subset, then split); `mteb_model_meta` gives the name.

    Raises:
        InvalidArgument: no such file.
        InvalidData: not JSON, more than one subset or split, or no scores.
    """
    path = Path(path)
    if not path.is_file():
        raise InvalidArgument(f"{path}: no such file")
    try:
        found = json.loads("\n".join(line for _, line in read_lines(path)))
    except json.JSONDecodeError as error:
        raise InvalidData(f"{path} line {error.lineno}: not valid JSON: {error.msg}") from error
    meta = found.pop("mteb_model_meta", None) if isinstance(found, dict) else None
    scores = _scores(found, str(path))
    name = meta.get("model_name") if isinstance(meta, dict) else None
    return Run.of_dict(str(name or path.stem), scores)


def _scores(found: Any, place: str) -> Mapping[str, Mapping[str, float]]:
    if not isinstance(found, dict) or not found or not all(isinstance(v, dict) for v in found.values()):
        raise InvalidData(f"{place}: expected {{query: {{document: score}}}}, got {found!r:.100}")
    inner = [v for below in found.values() for v in below.values()]
    if not any(isinstance(v, dict) for v in inner):
        return found
    if len(found) > 1:
        raise InvalidData(f"{place}: expected one subset and split, got {', '.join(map(repr, found))}")
    key, value = next(iter(found.items()))
    return _scores(value, f"{place}[{key!r}]")


def write_mteb(run: Run, path: str | Path, *, subset: str = "default", split: str = "test") -> None:
    """Write `{"mteb_model_meta": …, subset: {split: {query: {document: score}}}}`, scores falling strictly."""
    found = {"mteb_model_meta": {"model_name": run.name, "revision": None}, subset: {split: run.to_dict()}}
    Path(path).write_text(json.dumps(found, ensure_ascii=False), encoding="utf-8")


def read_runs(
    path: str | Path, *, by: Sequence[str] = ("run",), ranked: str = "retrieved", repeats: Repeats = "error"
) -> dict[str, Run]:
    """Read all runs of a file of JSON lines: `id`, a ranked list of document ids, and what the run is called.

    Args:
        by: the keys that tell runs apart; their values, joined by a dash, are the names. A key may be absent.
        ranked: the key of the ranked list; a null in it holds a place for something without an id.
        repeats: what happens to a document that comes twice, see `Run.of_lists`.

    Raises:
        InvalidArgument: no such file.
        InvalidData: names the line: no id or list, a query twice in a run, a repeated document; or an empty file.
    """
    path = Path(path)
    found: dict[str, dict[str, list[Any]]] = {}
    for line, row in read_json_lines(path):
        place = f"{path} line {line}"
        query = next((row[k] for k in ("id", "_id", "query-id", "query_id") if k in row), None) if isinstance(
            row, dict) else None  # fmt: skip
        if query is None or not isinstance(row.get(ranked), list):
            got = list(row) if isinstance(row, dict) else type(row).__name__
            raise InvalidData(f"{place}: expected an id and a list {ranked!r}, got {got}")
        name = "-".join(str(row[k]) for k in by if k in row) or path.name.split(".")[0]
        lists = found.setdefault(name, {})
        one = id_of(query, place)
        if one in lists:
            raise InvalidData(f"{place}: the run {name!r} has the query {one!r} already")
        _check_repeats(row[ranked], place, repeats)
        lists[one] = row[ranked]
    if not found:
        raise InvalidData(f"{path}: holds no run")
    return {name: Run.of_lists(name, lists, repeats=repeats) for name, lists in found.items()}


def _check_repeats(ranked: list[Any], place: str, repeats: Repeats) -> None:
    known = [d for d in ranked if d is not None]
    if repeats == "error" and len(set(map(str, known))) < len(known):
        twice = next(d for i, d in enumerate(known) if d in known[:i])
        raise InvalidData(f"{place}: the document {twice!r} is there twice; repeats='first' takes its first place")


def iterate(run: Run) -> Iterator[tuple[str, list[str | None]]]:
    """(query, documents in rank order) of each query."""
    names = run.documents.take(pa.array(run.document, mask=run.document < 0)).to_pylist()
    bounds = run.indptr.tolist()
    for query, i, j in zip(run.queries.to_pylist(), bounds[:-1], bounds[1:], strict=True):
        yield query, names[i:j]


def write_lists(run: Run, path: str | Path) -> None:
    """Write JSON lines with `run`, `id` and `retrieved`."""
    with Path(path).open("w", encoding="utf-8") as sink:
        for query, ranked in iterate(run):
            sink.write(json.dumps({"run": run.name, "id": query, "retrieved": ranked}, ensure_ascii=False) + "\n")
