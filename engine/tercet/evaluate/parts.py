"""Parts: what all modes gave for one run of the queries, joined in memory or kept as a file each.

A file is Arrow IPC, a row a (mode, query), with the ranking as lists; what belongs to a mode as a whole is in the
metadata, beside the digest of the configuration that it was made with.
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tercet.errors import InvalidData
from tercet.evaluate.lines import offsets
from tercet.evaluate.metrics import Context
from tercet.evaluate.modes import Mode
from tercet.evaluate.run import Outcome, Run

ABOUT = b"tercet.part"
STAGE = "stage."


def joined(parts: Sequence[Mapping[str, Mode]], sizes: Sequence[int], ids: pa.Array) -> dict[str, Mode]:
    """The modes over all queries, from parts that follow each other.

    A mode that raised in every part did not run. One that raised in some of them has failed for their queries, with
    what was raised as the error of each, and a note that says so.

    Args:
        sizes: queries of each part.
        ids: (B,) of all queries, in order.
    """
    return {name: _joined([p[name] for p in parts], sizes, ids) for name in parts[0]}


def _joined(modes: list[Mode], sizes: Sequence[int], ids: pa.Array) -> Mode:
    raised = [m.error for m in modes if m.error is not None]
    first = next((m for m in modes if m.run is not None), None)
    if first is None or first.run is None:
        return replace(modes[0], error="; ".join(dict.fromkeys(map(str, raised))))
    runs = [m.run if m.run is not None else _lost(m, size, first.run) for m, size in zip(modes, sizes, strict=True)]
    run = _one_run(runs, ids)
    kept = np.concatenate([r.state for r in runs]) != int(Outcome.missing)
    seconds = [m.seconds for m in modes]
    stages = list(dict.fromkeys(stage for m in modes for stage in m.stages))
    spread = {"seconds": seconds} | {f"{STAGE}{s}": [m.stages.get(s, 0.0) for m in modes] for s in stages}
    amortised = {
        name: np.repeat([v / max(n, 1) for v, n in zip(values, sizes, strict=True)], sizes)[kept]
        for name, values in spread.items()
    }
    names = list(dict.fromkeys(n for m in modes for n in m.details))
    details = {n: np.concatenate([m.details[n] for m in modes if n in m.details]) for n in names}
    context = None
    if any(m.context is not None for m in modes):
        blank = [Context(np.zeros(n, np.int64), np.zeros(n, np.int64)) for n in sizes]
        found = [m.context or b for m, b in zip(modes, blank, strict=True)]
        context = Context(*(np.concatenate([getattr(c, f) for c in found])[kept] for f in ("tokens", "documents")))
    available = None
    if first.available is not None:
        zero = [np.zeros(n, np.int64) for n in sizes]
        counts = [z if m.available is None else m.available for m, z in zip(modes, zero, strict=True)]
        available = np.concatenate(counts)[kept]
    notes = [f"raised in {len(raised)} of {len(modes)} partitions, whose queries failed: {r}" for r in raised[:1]]
    return replace(
        first, run=run, context=context, seconds=float(sum(seconds)), error=None, details=details, amortised=amortised,
        stages={s: float(sum(m.stages.get(s, 0.0) for m in modes)) for s in stages}, available=available,
        charged=float(sum(m.charged for m in modes)), notes=tuple(notes),
    )  # fmt: skip


def _lost(mode: Mode, size: int, like: Run) -> Run:
    """The run of a part in which the mode raised."""
    return Run(mode.name, pa.array([], pa.large_string()), np.zeros(size + 1, np.int64), np.zeros(0, np.int32),
               like.documents, np.zeros(0), np.full(size, int(Outcome.failed), np.int8),
               dict.fromkeys(range(size), str(mode.error)), like.scores_are)  # fmt: skip


def _one_run(runs: list[Run], ids: pa.Array) -> Run:
    documents, codes = _documents(runs)
    counts = np.concatenate([np.diff(r.indptr) for r in runs])
    state = np.concatenate([r.state for r in runs])
    starts = np.cumsum([0, *(len(r.state) for r in runs)])
    kept = state != int(Outcome.missing)
    place = np.cumsum(kept) - 1
    errors = {int(place[starts[i] + q]): e for i, r in enumerate(runs) for q, e in r.errors.items()}
    ties = None
    if any(r.cut_ties is not None for r in runs):
        ties = np.concatenate([np.zeros(len(r.state), bool) if r.cut_ties is None else r.cut_ties for r in runs])[kept]
    return Run(
        runs[0].name, ids.filter(pa.array(kept)), offsets(counts[kept]), codes, documents,
        np.concatenate([r.score for r in runs]), state[kept], errors, runs[0].scores_are, ties,
    )  # fmt: skip


def _documents(runs: list[Run]) -> tuple[pa.Array, np.ndarray]:
    """All documents, and the codes of all entries: runs share the first ones, and may have some of their own behind."""
    shared = min((r.documents for r in runs), key=len)
    extra: dict[str, int] = {}
    codes = []
    for r in runs:
        own = r.documents.slice(len(shared)).to_pylist()
        move = np.array([len(shared) + extra.setdefault(d, len(extra)) for d in own], np.int32)
        beyond = r.document >= len(shared)
        code = r.document.copy()
        code[beyond] = move[r.document[beyond] - len(shared)]
        codes.append(code)
    documents = pa.concat_arrays([shared, pa.array(list(extra), pa.large_string())]) if extra else shared
    return documents, np.concatenate(codes)


def to_table(modes: Mapping[str, Mode], size: int, shared: int, digest: str) -> pa.Table:
    """A part as a table.

    Args:
        size: queries of the part.
        shared: how many of the documents are those of the target.
        digest: of the configuration.
    """
    about: dict[str, Any] = {"digest": digest, "size": size, "modes": {}}
    tables = []
    for name, mode in modes.items():
        entry: dict[str, Any] = {
            "seconds": mode.seconds, "stages": dict(mode.stages), "error": mode.error, "charged": mode.charged,
        }  # fmt: skip
        about["modes"][name] = entry
        if mode.run is None:
            continue
        run = mode.run
        entry |= {
            "scores_are": run.scores_are, "errors": {str(q): e for q, e in run.errors.items()},
            "others": run.documents.slice(shared).to_pylist(), "details": {n: v.dtype.str for n, v in
                                                                           mode.details.items()},
        }  # fmt: skip
        lists = {"document": run.document, "score": run.score, **{f"detail.{n}": v for n, v in mode.details.items()}}
        columns: dict[str, Any] = {"mode": pa.array([name] * size), "state": run.state}
        columns |= {n: pa.LargeListArray.from_arrays(run.indptr, pa.array(v)) for n, v in lists.items()}
        columns["cut_ties"] = pa.array(run.cut_ties if run.cut_ties is not None else [None] * size, pa.bool_())
        if mode.context is not None:
            columns |= {"tokens": mode.context.tokens, "text_of": mode.context.documents}
        if mode.available is not None:
            columns["available"] = mode.available
        tables.append(pa.table(columns))
    made = (
        pa.concat_tables(tables, promote_options="default") if tables else pa.table({"mode": pa.array([], pa.string())})
    )
    return made.replace_schema_metadata({ABOUT: json.dumps(about).encode()})


def of_table(table: pa.Table, like: Mapping[str, Mode], documents: pa.Array) -> dict[str, Mode]:
    """The modes of a part.

    Args:
        like: modes with names, verbs and arguments.
        documents: of the target.
    """
    about = json.loads(table.schema.metadata[ABOUT])
    names = np.asarray(table.column("mode").to_pylist(), object)
    out = {}
    for name, model in like.items():
        entry = about["modes"][name]
        base = replace(model, seconds=entry["seconds"], stages=entry["stages"], error=entry["error"],
                       charged=entry["charged"])  # fmt: skip
        out[name] = base
        if entry["error"] is not None:
            continue
        rows = table.filter(pa.array(names == name)).combine_chunks()
        indptr, code = _list(rows, "document", np.int32)
        others = pa.array(entry["others"], pa.large_string())
        ties = rows.column("cut_ties")
        run = Run(
            name, pa.array([], pa.large_string()), indptr, code,
            pa.concat_arrays([documents, others]) if len(others) else documents, _list(rows, "score", np.float64)[1],
            _numbers(rows, "state", np.int8), {int(q): e for q, e in entry["errors"].items()}, entry["scores_are"],
            None if ties.null_count == len(ties) else np.asarray(ties.to_pylist(), bool),
        )  # fmt: skip
        has = lambda n: n in rows.column_names and rows.column(n).null_count == 0  # noqa: B023, E731
        out[name] = replace(
            base, run=run,
            context=Context(_numbers(rows, "tokens", np.int64), _numbers(rows, "text_of", np.int64))
            if has("tokens") else None,
            details={n: _list(rows, f"detail.{n}", np.dtype(kind))[1] for n, kind in entry["details"].items()},
            available=_numbers(rows, "available", np.int64) if has("available") else None,
        )  # fmt: skip
    return out


def _numbers(rows: pa.Table, name: str, kind: Any) -> np.ndarray:
    return np.array(rows.column(name).to_numpy(), kind)


def _list(rows: pa.Table, name: str, kind: Any) -> tuple[np.ndarray, np.ndarray]:
    column = rows.column(name).combine_chunks()
    if isinstance(column, pa.ChunkedArray):
        column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    lengths = np.asarray(column.value_lengths().fill_null(0))
    return offsets(lengths), np.array(column.flatten().to_numpy(zero_copy_only=False), kind)


def to_bytes(table: pa.Table) -> bytes:
    """A part as the bytes of its file."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file whole or not at all, and wait for the disk."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with beside.open("wb") as sink:
            sink.write(content)
            sink.flush()
            os.fsync(sink.fileno())
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def read_part(path: Path, digest: str) -> pa.Table:
    """The table of a file; see `of_bytes`."""
    return of_bytes(path.read_bytes(), digest, str(path))


def of_bytes(content: bytes, digest: str, path: str) -> pa.Table:
    """The table of the bytes of a file.

    Raises:
        InvalidData: damaged, or of another configuration.
    """
    try:
        table = pa.ipc.open_file(pa.BufferReader(content)).read_all()
        about = json.loads((table.schema.metadata or {})[ABOUT])
    except (pa.ArrowException, KeyError, ValueError, OSError) as error:
        raise InvalidData(f"{path}: a damaged partition: {error}") from error
    if about.get("digest") != digest:
        raise InvalidData(f"{path}: a partition of another configuration")
    return table
