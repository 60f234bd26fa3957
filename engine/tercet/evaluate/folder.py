"""The folder of an evaluation: rankings, values a query, a summary. It is there whole or not at all."""

import hashlib
import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tercet.errors import InvalidArgument, InvalidData
from tercet.evaluate.files import has_white_space, read_trec, write_trec
from tercet.evaluate.report import Report
from tercet.evaluate.run import Outcome, Run

SUMMARY, PER_QUERY = "summary.json", "per_query.parquet"


def run_file(place: int, name: str) -> str:
    """The file of a mode's ranking: `run.trec` of the first mode, `run.<name>.trec` of the others."""
    return "run.trec" if place == 0 else f"run.{name}.trec"


def write_report(report: Report, out: str | Path) -> Path:
    """Write `run.trec` (a file a mode that ran), `per_query.parquet` and `summary.json` into a new folder.

    The folder is made beside its place and renamed, so a process that is killed leaves none of that name. The summary
    holds the size and hash of the other files. Ids with white space are escaped, and `ids_escaped` says so.

    Raises:
        InvalidArgument: there is something at `out` already: results are never written over.
    """
    out = Path(out)
    if out.exists():
        raise InvalidArgument(f"{out}: exists already; results are never written over")
    out.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
    try:
        _fill(report, made)
        os.chmod(made, 0o755)  # mkdtemp's is private
        os.rename(made, out)
    except BaseException:
        shutil.rmtree(made, ignore_errors=True)
        raise
    return out


def _fill(report: Report, folder: Path) -> None:
    summary = report.summary()
    for place, (name, mode) in enumerate(report.modes.items()):
        if mode.run is None:
            continue
        this = has_white_space(mode.run)
        write_trec(mode.run, folder / run_file(place, name), white_space="escape" if this else "refuse")
        ids = mode.run.queries
        summary["modes"][name] |= {
            "file": run_file(place, name), "ids_escaped": this,
            "failed": {ids[i].as_py(): error for i, error in sorted(mode.run.errors.items())},
            "empty": ids.filter(pa.array(mode.run.state == Outcome.empty)).to_pylist(),
        }  # fmt: skip
    tables = []
    for name, evaluation in report.evaluations.items():
        table = evaluation.to_arrow()
        tables.append(table.add_column(0, "mode", pa.array([name] * len(table))))
    if tables:
        pq.write_table(pa.concat_tables(tables, promote_options="default"), folder / PER_QUERY)
    summary["files"] = {p.name: _about(p) for p in sorted(folder.iterdir())}
    for path in folder.iterdir():
        _sync(path)
    text = json.dumps(summary, ensure_ascii=False, indent=1, allow_nan=False)
    (folder / SUMMARY).write_text(text + "\n", encoding="utf-8")
    _sync(folder / SUMMARY)


def read_summary(folder: str | Path) -> dict[str, Any]:
    """The summary of a folder whose files are all there and unchanged.

    Raises:
        InvalidArgument: no such folder.
        InvalidData: half-written: no summary, or a file is missing, cut or changed; names it.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise InvalidArgument(f"{folder}: no such folder")
    if not (folder / SUMMARY).is_file():
        raise InvalidData(f"{folder}: a half-written run folder: {SUMMARY} is missing, which is written last")
    try:
        summary = json.loads((folder / SUMMARY).read_text(encoding="utf-8"))
        files = dict(summary["files"])
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidData(f"{folder / SUMMARY}: a half-written or damaged summary: {error}") from error
    for name, about in files.items():
        if not (folder / name).is_file():
            raise InvalidData(f"{folder}: a half-written run folder: {name} is missing")
        if _about(folder / name) != about:
            raise InvalidData(f"{folder}: {name} was cut or changed after the summary was written")
    return summary


def read_mode(folder: str | Path, mode: str | None = None) -> Run:
    """The ranking of a mode (None: the first) of a folder, with the queries that failed or found nothing at the end.

    Raises:
        InvalidArgument: no such folder or mode, or the mode did not run.
        InvalidData: half-written, see `read_summary`.
    """
    folder, summary = Path(folder), read_summary(folder)
    name = mode or next(iter(summary["modes"]))
    if name not in summary["modes"]:
        raise InvalidArgument(f"{folder}: no mode {name!r}; there are {', '.join(summary['modes'])}")
    about = summary["modes"][name]
    if about["error"] is not None:
        raise InvalidArgument(f"{folder}: the mode {name!r} did not run: {about['error']}")
    run = read_trec(folder / about["file"], escaped=about["ids_escaped"])
    rest = [*about["empty"], *about["failed"]]
    errors = {len(run) + len(about["empty"]) + i: e for i, e in enumerate(about["failed"].values())}
    ids = pa.chunked_array([run.queries, pa.array(rest, pa.large_string())]).combine_chunks()
    indptr = np.concatenate([run.indptr, np.full(len(rest), run.indptr[-1])])
    return Run.of_arrays(run.name, ids, indptr, run.document, run.documents, run.score, errors=errors)


def _about(path: Path) -> dict[str, Any]:
    return {"bytes": path.stat().st_size, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())
