"""Working folders of nano-graphrag with its file storages: GraphML with clusters, kv_store_*.json, vdb_*.json."""

import json
from pathlib import Path
from typing import Any

from tercet.errors import InvalidData
from tercet.formats.imported import Imported, SourceReport
from tercet.formats.lightrag_files import GRAPH, Folder, need_folder
from tercet.formats.parts import COMMUNITY, MEMBER, PART, REPORT, REPORTS

COMMUNITIES = "kv_store_community_reports.json"


def read(path: str | Path, *, model: str | None = None, metric: str = "cosine") -> Imported:
    """Read a working folder of nano-graphrag.

    Entities keep their ids as they are in the file, mostly in literal double quotes; names, types and descriptions go
    without them. Clusters become nodes "community:<number>", their reports "report:<number>". Entities are
    "mentioned in" chunks and "member of" communities, sub-communities "part of" the one above, reports "reports on".

    Args:
        path: the folder.
        model, metric: of the vectors; the files don't name the model, and nano-graphrag compares by cosine.

    Raises:
        InvalidArgument: there is no GraphML file.
        InvalidData: a file is damaged or cut short, clusters aren't lists of level and cluster, or two things have one
            id; names the file and the row.
    """
    source = need_folder(path, "nano-graphrag")
    report = SourceReport("nano-graphrag")
    folder = Folder(source, report, clean=unquoted)
    folder.add_graph({}, {})
    quoted = sum(unquoted(name) != name for name, *_ in folder.graph.nodes)
    if quoted:
        report.notes.append(
            f"{quoted} of {len(folder.graph.nodes)} names are in double quotes; `name` goes without them"
        )
    _communities(folder)
    if any(source.glob("kv_store_llm_response_cache*.json")):
        report.notes.append("the cache of language model answers wasn't read")
    told: dict[str, Any] = {"model": model, "metric": metric}
    names, chunks = [name for name, *_ in folder.graph.nodes], list(folder.chunks)
    vectors = folder.vectors("vdb_entities.json", "Entity_description", lambda r: r.get("entity_name"), names, **told)
    if (source / "vdb_chunks.json").is_file():  # an option of nano-graphrag
        vectors += folder.vectors("vdb_chunks.json", "DocumentChunk_text", lambda r: r.get("__id__"), chunks, **told)
    return folder.imported(vectors)


def unquoted(text: str) -> str:
    """A text without the pair of double quotes around it, unless nothing would be left."""
    return text[1:-1] if len(text) > 2 and text[0] == text[-1] == '"' else text


def _communities(folder: Folder) -> None:
    """Communities with their members and reports."""
    reports = folder.store(COMMUNITIES, ())
    level: dict[str, Any] = {number: row.get("level") for number, row in reports.items()}
    members: list[list[str]] = []
    for _, given, line in folder.graph.nodes:
        found = _clusters(given.get("clusters"), line)
        for number, at in found.items():
            if level.setdefault(number, at) is None:
                level[number] = at
        members.append(list(found))
    numbers = list(level)
    if not numbers:
        return
    rows = [reports.get(number, {}) for number in numbers]
    folder.nodes.add(COMMUNITIES, {
        "id": [f"community:{n}" for n in numbers], "name": [row.get("title") for row in rows],
        "type": [COMMUNITY] * len(rows), "labels": [[COMMUNITY]] * len(rows), "community": numbers,
        "level": list(level.values()), "occurrence": [row.get("occurrence") for row in rows],
        "chunks": [row.get("chunk_ids") for row in rows],
    })  # fmt: skip
    folder.nodes.add(COMMUNITIES, _reports(reports, folder.report))
    names, lines = [n for n, *_ in folder.graph.nodes], [line for *_, line in folder.graph.nodes]
    known = {f"community:{n}" for n in numbers}
    inside = [[f"community:{n}" for n in some] for some in members]
    folder.link(GRAPH, names, inside, known, MEMBER, lines, "member of an unknown community; no edge")
    pairs = [(number, sub) for number, row in reports.items() for sub in row.get("sub_communities") or ()]
    missing = [f"{COMMUNITIES} {number!r}" for number, sub in pairs if f"community:{sub}" not in known]
    folder.report.note("sub-community that isn't there; no edge", missing)
    pairs = [(number, sub) for number, sub in pairs if f"community:{sub}" in known]
    above = [[f"community:{number}"] for number, _ in pairs]
    folder.link(COMMUNITIES, [f"community:{sub}" for _, sub in pairs], above, known, PART, None, "")
    on = [[f"community:{n}"] for n in reports]
    folder.link(COMMUNITIES, [f"report:{n}" for n in reports], on, known, REPORTS, None, "")


def _reports(reports: dict[str, Any], report: SourceReport) -> dict[str, Any]:
    told = []
    for row, (number, value) in enumerate(reports.items(), 1):
        held = value.get("report_json") or {}
        if not isinstance(held, dict):
            place = f"{COMMUNITIES} entry {row} ({number!r})"
            raise InvalidData(f"{place}: report_json: expected an object, got {type(held).__name__}")
        told.append(held)
    ranks = [_number(t.get("rating")) for t in told]
    lost = [number for number, t, rank in zip(reports, told, ranks, strict=True) if t.get("rating") and rank is None]
    report.note("rating that isn't a number; left out", [f"{COMMUNITIES} {number!r}" for number in lost])
    return {
        "id": [f"report:{n}" for n in reports],
        "name": [t.get("title") or row.get("title") for t, row in zip(told, reports.values(), strict=True)],
        "type": [REPORT] * len(told),
        "labels": [[REPORT]] * len(told),
        "text": [row.get("report_string") for row in reports.values()],
        "description": [t.get("summary") for t in told],
        "community": list(reports),
        "level": [row.get("level") for row in reports.values()],
        "rank": ranks,
        "rating_explanation": [t.get("rating_explanation") for t in told],
        "findings": [_json(t.get("findings")) for t in told],
    }


def _number(value: Any) -> float | None:
    try:
        return None if value is None else float(value)
    except (TypeError, ValueError):
        return None


def _json(value: Any) -> str | None:
    return None if value is None else json.dumps(value, ensure_ascii=False)


def _clusters(text: str | None, line: int) -> dict[str, int]:
    """Level by number of the communities that an entity belongs to."""
    if not text:
        return {}
    try:
        return {str(one["cluster"]): int(one["level"]) for one in json.loads(text)}
    except (json.JSONDecodeError, TypeError, KeyError, ValueError) as error:
        raise InvalidData(
            f"{GRAPH} line {line}: clusters: expected a list of level and cluster, got {text!r:.80}"
        ) from error
