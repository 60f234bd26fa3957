"""What the files of a run folder hold: rankings and measures as tables, and what the run was made with."""

import json
import time
from typing import Any

import numpy as np
import pyarrow as pa

from tercet.evaluate.identity import described_data, engine_identity, machine, software
from tercet.evaluate.job import described, digest
from tercet.evaluate.measures import positions
from tercet.evaluate.qrels import Qrels, triplet_id
from tercet.evaluate.report import Report


def results_table(report: Report) -> pa.Table | None:
    """A row a ranked document: mode, query, rank, id, score, and what the verb tells of it (null where it doesn't).

    `hop` is the distance from the nearest seed; `reason` the triplet that gave a passage; `part.<name>` what the score
    was added up from, or the distances of that triplet.
    """
    tables = []
    for name, mode in report.modes.items():
        if mode.run is None:
            continue
        made = mode.run.to_arrow()
        columns: dict[str, Any] = {"mode": pa.array([name] * len(made), pa.string()).dictionary_encode()}
        columns |= {n: made.column(n) for n in made.column_names}
        columns["hop"] = pa.nulls(len(made), pa.int32())
        columns["reason"] = pa.nulls(len(made), pa.large_string())
        for detail, values in mode.details.items():
            if detail == "hop":
                columns["hop"] = pa.array(values, pa.int32())
            elif detail == "edge":
                columns["reason"] = _reasons(report, values)
            else:
                columns[f"part.{detail}"] = pa.array(values, pa.float64())
        tables.append(pa.table(columns))
    return pa.concat_tables(tables, promote_options="default").unify_dictionaries() if tables else None


def _reasons(report: Report, edges: np.ndarray) -> pa.Array:
    assert report.job is not None
    graph = report.job.engine.graph
    distinct, at = np.unique(edges.astype(np.int64), return_inverse=True)
    ends = [graph.ids.take(pa.array(x.cpu().numpy()[distinct])).to_pylist() for x in (graph.source, graph.target)]
    labels = graph.relation_column.take(pa.array(distinct)).cast(pa.large_string()).to_pylist()
    names = [triplet_id(s, r or "", t) for s, r, t in zip(ends[0], labels, ends[1], strict=True)]
    return pa.array(names, pa.large_string()).take(pa.array(at))


def per_query_table(report: Report) -> pa.Table | None:
    """A row a (mode, judged query): what became of it, each measure, its share of the time, how much there was, fields.

    `seconds` and `stage.<name>` are those of its partition over the queries in it: amortised time, no latency.
    """
    tables = []
    for name, evaluation in report.evaluations.items():
        table = evaluation.to_arrow()
        table = table.add_column(0, "mode", pa.array([name] * len(table), pa.string()))
        mode = report.modes[name]
        assert mode.run is not None
        at = positions(evaluation.queries, mode.run.queries)
        extra: dict[str, np.ndarray] = dict(mode.amortised)
        if mode.available is not None:
            extra["available"] = mode.available
        for key, values in extra.items():
            column = values[at] if len(values) else np.zeros(len(at), values.dtype)
            table = table.append_column(key, pa.array(column, mask=at < 0))
        if evaluation.fields is not None:
            for key in evaluation.fields.column_names:
                table = table.append_column(f"field.{key}", evaluation.fields.column(key))
        tables.append(table)
    return pa.concat_tables(tables, promote_options="default") if tables else None


def manifest_of(report: Report, name: str) -> dict[str, Any]:
    """What a run was made with."""
    job = report.job
    out: dict[str, Any] = {
        "run": name,
        "date": time.strftime("%Y-%m-%d %H:%M:%S%z"),
        **software(),
        "machine": machine(),
    }
    data: dict[str, Any] = {
        "queries": {"count": len(report.queries), "sha256": digest(report.queries.ids, report.queries.texts)},
        "qrels": {"queries": len(report.qrels), "judgements": len(report.qrels.grade),
                  "sha256": qrels_hash(report.qrels)},
    }  # fmt: skip
    if job is not None:
        engine, spec = job.engine, job.spec
        data |= {"graph": described_data(engine), "engine": engine_identity(engine)}
        encoder = "given" if report.queries.vectors is not None else None if engine.encoder is None else (
            engine.encoder.fingerprint().describe())  # fmt: skip
        batch = spec.asked.batch
        out |= {
            "mode": engine.rules.name, "device": str(engine.device),
            "settings": digest(json.dumps([described(report.options), arguments_of(report)], sort_keys=True)),
            "query_vectors": None if batch is None else {"model": encoder, "dimension": batch.embedding.shape[1]},
        }  # fmt: skip
    return out | {"data": data}


def qrels_hash(qrels: Qrels) -> str:
    """A hash of judgements that doesn't depend on their order in a file."""
    names = qrels.to_dict()
    return digest(json.dumps({q: dict(sorted(names[q].items())) for q in sorted(names)}))


def arguments_of(report: Report) -> dict[str, Any]:
    """The arguments of each mode with its verb; a function is a text that names it."""
    return {
        name: {"verb": m.verb, **described(m.arguments)} for name, m in report.modes.items()
        if name not in report.baselines
    }  # fmt: skip
