"""Working folders of LightRAG with its file storages: GraphML, kv_store_*.json, vdb_*.json (1.2 to 1.4)."""

from pathlib import Path

from tercet.formats.imported import Imported, SourceReport
from tercet.formats.lightrag_files import SEP, Folder, need_folder
from tercet.formats.parts import RELATION_VECTORS

NEWER = "kv_store_entity_chunks.json", "kv_store_relation_chunks.json"  # complete lists where the GraphML has cut ones
DERIVED = "kv_store_full_entities.json", "kv_store_full_relations.json"


def read(path: str | Path, *, model: str | None = None, metric: str = "cosine") -> Imported:
    """Read a working folder of LightRAG.

    Entities keep their names as ids, chunks and documents their own. Relations have the label "related to", the
    description as edge text and their keywords as a column. Several values in one text (joined by <SEP>) become lines
    in descriptions, lists in `file_path` and `chunks`. Entities are "mentioned in" chunks, chunks "part of" documents.

    Args:
        path: the folder (with a workspace: the workspace's own).
        model, metric: of the vectors; the files don't name the model, and LightRAG compares by cosine.

    Raises:
        InvalidArgument: there is no GraphML file.
        InvalidData: a file is damaged or cut short, or two things have one id; names the file and the row.
    """
    source = need_folder(path, "LightRAG")
    newer = any((source / name).is_file() for name in (*NEWER, *DERIVED))
    report = SourceReport("LightRAG", "of 1.4" if newer else "before 1.4")
    folder = Folder(source, report, clean=str)
    entity_chunks = folder.store(NEWER[0], ()) if newer else {}
    relation_chunks = folder.store(NEWER[1], ()) if newer else {}
    folder.add_graph(
        {name: row.get("chunk_ids") or [] for name, row in entity_chunks.items()},
        {frozenset(pair.split(SEP)): row.get("chunk_ids") or [] for pair, row in relation_chunks.items()},
    )
    derived = [name for name in DERIVED if (source / name).is_file()]
    if derived:
        report.notes.append(f"{', '.join(derived)} weren't read: the chunks tell the same")
    if any(source.glob("kv_store_llm_response_cache*.json")):
        report.notes.append("the cache of language model answers wasn't read")
    names = [name for name, *_ in folder.graph.nodes]
    vectors = [
        *folder.vectors("vdb_entities.json", "Entity_description", lambda r: r.get("entity_name"), names,
                        model=model, metric=metric),
        *folder.vectors("vdb_relationships.json", RELATION_VECTORS,
                        lambda r: folder.sentences.get(frozenset((str(r.get("src_id")), str(r.get("tgt_id"))))), None,
                        model=model, metric=metric, relation=True),
        *folder.vectors("vdb_chunks.json", "DocumentChunk_text", lambda r: r.get("__id__"), list(folder.chunks),
                        model=model, metric=metric),
    ]  # fmt: skip
    return folder.imported(vectors)
