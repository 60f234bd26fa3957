"""The folder of a run; `summary.json` is written last, so a folder without one is half-written.

run.trec, run.<mode>.trec  rankings, best first; ids with white space are escaped, and the summary says so
results.parquet            the same with scores as they are, and what verbs tell of each document
per_query.parquet          each measure of each query, its share of the time, the fields of the queries
latency.parquet            seconds of single queries, where they were asked for
query_vectors.npy          the queries' vectors; the manifest names the model
config.toml                settings, as `tercet eval --config` reads them
manifest.json              versions, machine, data, hashes of all files above
env.txt, log.txt           installed packages; what happened when
summary.md, summary.json   what was found, for people and for programs
"""

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
from tercet.evaluate.contents import arguments_of, manifest_of, per_query_table, results_table
from tercet.evaluate.files import has_white_space, read_trec, write_trec
from tercet.evaluate.identity import installed
from tercet.evaluate.job import digest
from tercet.evaluate.markdown import markdown
from tercet.evaluate.metrics import Evaluation
from tercet.evaluate.parts import write_bytes
from tercet.evaluate.report import Report
from tercet.evaluate.run import Outcome, Run
from tercet.evaluate.toml import to_toml
from tercet.evaluate.work import SUMMARY, VECTORS, Work, half_written, write_array

RESULTS, PER_QUERY, LATENCY = "results.parquet", "per_query.parquet", "latency.parquet"
LONG = 160
CONFIG, ENV, MANIFEST, MARKDOWN = "config.toml", "env.txt", "manifest.json", "summary.md"


def run_file(place: int, name: str) -> str:
    """The file of a mode's ranking: `run.trec` of the first mode, `run.<name>.trec` of the others."""
    if len(name.encode()) > LONG:  # file systems take 255 bytes
        name = f"{name[: LONG // 4]}-{digest(name)[:12]}"
    return "run.trec" if place == 0 else f"run.{name}.trec"


def write_report(report: Report, out: str | Path) -> Path:
    """Write a report into a new folder; the module says which files.

    The folder is made beside its place and renamed, so a process that is killed leaves none of that name.

    Raises:
        InvalidArgument: there is something at `out` already: results are never written over.
    """
    out = Path(out)
    if out.exists():
        raise InvalidArgument(f"{out}: exists already; results are never written over")
    out.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
    try:
        work = Work(made)
        work.log("an evaluation in memory was written down")
        _fill(report, work, out.name)
        os.chmod(made, 0o755)  # mkdtemp's is private
        os.rename(made, out)
    except BaseException:
        shutil.rmtree(made, ignore_errors=True)
        raise
    return out


def finish(report: Report, work: Work) -> None:
    """Write a report into the folder of its job, and drop the partitions."""
    work.log("all partitions are done")
    _fill(report, work, work.out.name)
    work.finish()


def _fill(report: Report, work: Work, name: str) -> None:
    folder, summary = work.out, report.summary()
    for left in folder.glob(".*.[0-9]*"):  # what a stopped run had begun to write
        left.unlink()
    for place, (mode_name, mode) in enumerate(report.modes.items()):
        if mode.run is None:
            continue
        this = has_white_space(mode.run)
        file = folder / run_file(place, mode_name)
        beside = file.with_name(f".{file.name}.{os.getpid()}")
        write_trec(mode.run, beside, white_space="escape" if this else "refuse")
        _sync(beside)
        os.replace(beside, file)
        ids = mode.run.queries
        summary["modes"][mode_name] |= {
            "file": file.name, "ids_escaped": this,
            "failed": {ids[i].as_py(): error for i, error in sorted(mode.run.errors.items())},
            "empty": ids.filter(pa.array(mode.run.state == Outcome.empty)).to_pylist(),
        }  # fmt: skip
    for file_name, table in ((RESULTS, results_table(report)), (PER_QUERY, per_query_table(report)),
                             (LATENCY, report.latency)):  # fmt: skip
        if table is not None:
            write_bytes(folder / file_name, _parquet(table))
    batch = None if report.job is None else report.job.spec.asked.batch
    if batch is not None:
        write_array(folder / VECTORS, batch.embedding.numpy())
    manifest = manifest_of(report, name)
    options = {k: v for k, v in report.options.items() if v is not None}
    modes = {
        n: {"verb": m.verb, **m.arguments} if m.verb != "function" else arguments_of
        for n, m in report.modes.items() if n not in report.baselines
    }  # fmt: skip
    write_bytes(folder / CONFIG, to_toml(options | {"modes": modes}).encode())
    write_bytes(folder / ENV, installed().encode())
    write_bytes(folder / MARKDOWN, markdown(manifest, summary).encode())
    work.log("results are written")
    manifest["files"] = _files(folder)
    write_bytes(folder / MANIFEST, _json(manifest))
    summary["files"] = _files(folder)
    write_bytes(folder / SUMMARY, _json(summary))


def _files(folder: Path) -> dict[str, Any]:
    return {p.name: _about(p) for p in sorted(folder.iterdir()) if p.is_file() and not p.name.startswith(".")}


def _json(value: Any) -> bytes:
    return (json.dumps(value, ensure_ascii=False, indent=1, allow_nan=False) + "\n").encode()


def _parquet(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    return sink.getvalue().to_pybytes()


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
        raise InvalidData(f"{folder}: {half_written(folder)}; `tercet eval --resume` goes on with one")
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


def read_manifest(folder: str | Path) -> dict[str, Any]:
    """What a run was made with.

    Raises:
        InvalidArgument: no such folder.
        InvalidData: half-written, see `read_summary`.
    """
    read_summary(folder)
    return dict(json.loads((Path(folder) / MANIFEST).read_text(encoding="utf-8")))


def read_evaluations(folder: str | Path) -> dict[str, Evaluation | str]:
    """The measures of each mode, or why it did not run.

    Raises:
        InvalidArgument: no such folder.
        InvalidData: half-written, see `read_summary`.
    """
    folder, summary = Path(folder), read_summary(folder)
    table = pq.read_table(folder / PER_QUERY) if (folder / PER_QUERY).exists() else None
    names = np.asarray([] if table is None else table.column("mode").to_pylist(), object)
    out: dict[str, Evaluation | str] = {}
    for mode, about in summary["modes"].items():
        if about["error"] is not None or table is None:
            out[mode] = f"did not run: {about['error']}"
            continue
        rows = table.filter(pa.array(names == mode)).combine_chunks()
        measures = [m for m in about["evaluation"]["means"] if m in rows.column_names]
        values = [rows.column(m).cast(pa.float64()).to_numpy() for m in measures]
        fields = {c.removeprefix("field."): rows.column(c) for c in rows.column_names if c.startswith("field.")}
        states = [int(Outcome[s]) for s in rows.column("status").to_pylist()]
        errors = {i: e for i, e in enumerate(rows.column("error").to_pylist()) if e is not None}
        ids = pa.array(rows.column("query").to_pylist(), pa.large_string())
        out[mode] = Evaluation(
            mode, ids, tuple(measures), np.stack(values, axis=1), np.array(states, np.int8),
            rows.column("weight").to_numpy(), pa.table(fields) if fields else None, errors,
            tuple(about["evaluation"]["unjudged"]), tuple(about["evaluation"]["not_asked"]),
            policy=about["evaluation"]["policy"],
        )  # fmt: skip
    return out


def _about(path: Path) -> dict[str, Any]:
    return {"bytes": path.stat().st_size, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())
