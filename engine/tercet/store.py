"""Save and load: Arrow files and .npy arrays under one manifest with sizes and hashes.

A store is a folder with `manifest.json` and a data folder that it names. Saving writes a new data folder beside the old
one and then replaces the manifest in one step, so a reader sees the old store or the new one, never half of one.
Nothing in a store is code.
"""

import hashlib
import json
import os
import shutil
import uuid
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
import torch

from tercet.arrays import read_array
from tercet.collection import Collection
from tercet.encoder import Fingerprint
from tercet.errors import StoreError
from tercet.graph import Adjacency, Graph, ImportOptions
from tercet.index import load_index

if TYPE_CHECKING:
    from tercet.engine import Engine

FORMAT = 1
TENSORS = ("source", "target", "relation", "relation_key", "importance", "feedback", "edge_importance", "edge_feedback")
ADJACENCIES = ("out", "into", "oriented")
CHUNK = 1 << 22
PARTS = {"mode": str, "data": str, "graph": dict, "collections": list, "files": dict}  # of a manifest


def save(engine: "Engine", path: str | Path) -> None:
    """Write an engine's graph and collections.

    Raises:
        StoreError: the path is a file, or a folder that holds something else than a store.
    """
    root = Path(path)
    if root.exists() and not (root.is_dir() and _is_ours(root)):
        raise StoreError(f"{root}: expected a new folder or a store, found something else")
    root.mkdir(parents=True, exist_ok=True)
    data = root / f"data-{uuid.uuid4().hex[:12]}"
    try:
        data.mkdir()
        manifest = {
            "format": FORMAT,
            "mode": engine.rules.name,
            "encoder": engine.encoder_name,
            "data": data.name,
            "graph": _write_graph(engine.graph.to("cpu"), data / "graph"),
            "collections": [_write_collection(c, data / f"collection-{i}") for i, c in enumerate(engine.collections)],
        }
        files = sorted(p for p in data.rglob("*") if p.is_file())
        manifest["files"] = {str(p.relative_to(data)): {"bytes": p.stat().st_size, "sha256": _digest(p)} for p in files}
        for part in (*files, *{p.parent for p in files}, data, root):
            _to_disk(part)
        _replace(root / "manifest.json", json.dumps(manifest, indent=1, ensure_ascii=False))
    except BaseException:
        if not _names(root / "manifest.json", data.name):
            shutil.rmtree(data, ignore_errors=True)
        raise
    for old in root.glob("data-*"):
        if old != data:
            shutil.rmtree(old, ignore_errors=True)


def open(
    path: str | Path, device: str = "auto", *, encoder: Any = None, verify: bool = True, **options: Any
) -> "Engine":
    """Load a store. Vectors are mapped, so they are read when they are first used.

    Args:
        path: the folder that `Engine.save` wrote.
        device: as in `Engine`.
        encoder: instead of the one the store names; needed when that was a callable.
        verify: compare the hash of every file; sizes are always compared.
        options: passed on to `Engine`, such as mode.

    Raises:
        StoreError: not a store, of another format version, or a file is missing, cut or changed; names the file.
    """
    from tercet.engine import Engine

    while True:
        manifest, data = read_manifest(path)
        try:
            check_files(manifest, data, hashes=verify)
            graph = _read_graph(manifest["graph"], data / "graph")
            collections = [_read_collection(c, data / f"collection-{i}") for i, c in enumerate(manifest["collections"])]
        except (StoreError, OSError):
            if read_manifest(path)[1] != data:
                continue  # a writer committed the next version meanwhile and cleared this one away
            raise
        break
    options.setdefault("mode", manifest["mode"])
    return Engine(graph, collections, encoder if encoder is not None else manifest["encoder"], device, **options)


def _is_ours(root: Path) -> bool:
    """A store, an empty folder, or what a save left that was stopped before there was a manifest."""
    return (root / "manifest.json").exists() or all(
        p.name == "manifest.new" or p.name.startswith("data-") for p in root.iterdir()
    )


def _names(manifest: Path, data: str) -> bool:
    """Whether the manifest on disk is already the one that names this data folder."""
    return manifest.exists() and f'"{data}"' in manifest.read_text(encoding="utf-8")


def read_manifest(path: str | Path) -> tuple[dict[str, Any], Path]:
    """The manifest of a store and its data folder."""
    file = Path(path) / "manifest.json"
    try:
        manifest = json.loads(file.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError) as error:
        raise StoreError(f"{path}: not a store, it has no manifest.json") from error
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise StoreError(f"{file}: not valid JSON ({error})") from error
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        found = manifest.get("format") if isinstance(manifest, dict) else type(manifest).__name__
        raise StoreError(f"{file}: expected store format {FORMAT}, found {found!r}")
    for part, kind in PARTS.items():
        if not isinstance(manifest.get(part), kind):
            raise StoreError(f"{file}: {part}: expected {kind.__name__}, found {type(manifest.get(part)).__name__}")
    name = manifest["data"]
    if Path(name).name != name or not name.startswith("data-"):
        raise StoreError(f"{file}: {name!r} is no data folder")
    return manifest, Path(path) / name


def check_files(manifest: dict[str, Any], data: Path, *, hashes: bool) -> None:
    """Compare the files of a store with its manifest."""
    unknown = {str(p.relative_to(data)) for p in data.rglob("*") if p.is_file()} - set(manifest["files"])
    if unknown:
        raise StoreError(f"{data / min(unknown)}: the manifest doesn't name it")
    for name, want in manifest["files"].items():
        check_file(data, name, want, hashes=hashes)


def check_file(data: Path, name: str, want: dict[str, Any], *, hashes: bool) -> None:
    """Compare one file of a store with what the manifest says of it.

    Raises:
        StoreError: names the file, what was expected and what was found.
    """
    file = data / name
    if ".." in Path(name).parts or Path(name).is_absolute():
        raise StoreError(f"manifest.json: {name!r} lies outside the store")
    if not file.is_file():
        raise StoreError(f"{file}: missing")
    size = file.stat().st_size
    if size != want["bytes"]:
        raise StoreError(f"{file}: expected {want['bytes']} bytes, found {size}")
    if hashes and (found := _digest(file)) != want["sha256"]:
        raise StoreError(f"{file}: expected sha256 {want['sha256'][:16]}…, found {found[:16]}…: the file was changed")


def _write_graph(graph: Graph, folder: Path) -> dict[str, Any]:
    folder.mkdir()
    for name in TENSORS:
        _write_array(folder / f"{name}.npy", getattr(graph, name).numpy())
    for name in ADJACENCIES:
        for part in ("indptr", "edge", "other"):
            _write_array(folder / f"{name}.{part}.npy", getattr(getattr(graph, name), part).numpy())
    for name in ("set_indptr", "set_member"):
        _write_array(folder / f"{name}.npy", getattr(graph, name))
    _write_table(folder / "nodes.arrow", graph.nodes)
    _write_table(folder / "edges.arrow", graph.edges)
    for name in ("relation_names", "keys", "set_names", "unread_ends"):
        if getattr(graph, name) is not None:
            _write_table(folder / f"{name}.arrow", pa.table({name: getattr(graph, name)}))
    return {"nodes": graph.num_nodes, "edges": graph.num_edges, "order": graph.order, "options": asdict(graph.options)}


def _read_graph(about: dict[str, Any], folder: Path) -> Graph:
    fields: dict[str, Any] = {name: torch.from_numpy(read_array(folder / f"{name}.npy")) for name in TENSORS}
    fields |= {
        name: Adjacency(
            *(torch.from_numpy(read_array(folder / f"{name}.{p}.npy")) for p in ("indptr", "edge", "other"))
        )
        for name in ADJACENCIES
    }
    fields |= {
        name: _read_table(folder / f"{name}.arrow").column(0).combine_chunks()
        for name in ("relation_names", "keys", "set_names", "unread_ends") if (folder / f"{name}.arrow").exists()
    }  # fmt: skip
    graph = Graph(
        **fields, nodes=_read_table(folder / "nodes.arrow"), edges=_read_table(folder / "edges.arrow"),
        set_indptr=read_array(folder / "set_indptr.npy"), set_member=read_array(folder / "set_member.npy"),
        order=about["order"], options=_options(about.get("options", {}), folder),
    )  # fmt: skip
    for name, rows, expected in (
        ("nodes", graph.nodes.num_rows, about["nodes"]), ("edges", graph.edges.num_rows, about["edges"]),
        ("source", graph.num_edges, about["edges"]), ("importance", graph.num_nodes, about["nodes"]),
    ):  # fmt: skip
        if rows != expected:
            raise StoreError(f"{folder}: {name}: expected {expected} rows, found {rows}")
    _check_rows(graph, folder)
    return graph


def _options(about: dict[str, Any], folder: Path) -> ImportOptions:
    """How the tables were read, for updates; stores of before have none."""
    try:
        return ImportOptions(**about)
    except TypeError as error:
        raise StoreError(f"{folder}: options: {error}") from error


def _check_rows(graph: Graph, folder: Path) -> None:
    """Refuse rows and offsets that lead outside the arrays: kernels trust them."""
    nodes, edges = graph.num_nodes, graph.num_edges
    ranges = [
        ("source", graph.source, edges, 0, nodes),
        ("target", graph.target, edges, 0, nodes),
        ("relation", graph.relation, edges, -1, len(graph.relation_names)),
        ("relation_key", graph.relation_key, edges, -1, len(graph.keys)),
    ]
    for name in ADJACENCIES:
        lists: Adjacency = getattr(graph, name)
        ranges += [
            (f"{name}.indptr", lists.indptr, nodes + 1, 0, edges + 1),
            (f"{name}.edge", lists.edge, edges, 0, edges),
            (f"{name}.other", lists.other, edges, 0, nodes),
        ]
        if bool((lists.indptr.diff() < 0).any()) or int(lists.indptr[-1]) != edges:
            raise StoreError(f"{folder / name}.indptr.npy: expected ascending offsets up to {edges}")
    for name, rows, size, low, high in ranges:
        if rows.shape != (size,) or (size and not (low <= int(rows.min()) and int(rows.max()) < high)):
            raise StoreError(f"{folder / name}.npy: expected {size} rows in [{low}, {high})")
    for name in TENSORS[4:]:
        if getattr(graph, name).shape != (edges if name.startswith("edge") else nodes,):
            raise StoreError(f"{folder / name}.npy: expected one number a row")


def _write_collection(collection: Collection, folder: Path) -> dict[str, Any]:
    collection.index.to(torch.device("cpu")).save(folder)
    _write_table(folder / "owner.arrow", pa.table({"owner": collection.owner}))
    _write_array(folder / "zero_norm.npy", collection.zero_norm)
    if collection.set_indptr is not None:
        _write_array(folder / "set_indptr.npy", collection.set_indptr)
        _write_table(folder / "set_member.arrow", pa.table({"member": collection.set_member}))
    print_ = collection.fingerprint
    return {
        "name": collection.name, "kind": collection.kind, "index": collection.index.kind, "rows": collection.size,
        "dimension": collection.dimension, "metric": "cosine",
        "fingerprint": None if print_ is None else print_.to_json(),
    }  # fmt: skip


def _read_collection(about: dict[str, Any], folder: Path) -> Collection:
    kind: Literal["node", "relation"] = about["kind"]
    sets: dict[str, Any] = {}
    if (folder / "set_indptr.npy").exists():
        member = _read_table(folder / "set_member.arrow").column(0).combine_chunks()
        sets = {
            "set_indptr": read_array(folder / "set_indptr.npy"),
            "set_member": member,
            "set_names": member.unique(),
        }
    collection = Collection(
        about["name"], kind, load_index(about["index"], folder),
        _read_table(folder / "owner.arrow").column(0).combine_chunks(), read_array(folder / "zero_norm.npy"),
        None if about["fingerprint"] is None else Fingerprint.from_json(about["fingerprint"]), **sets,
    )  # fmt: skip
    if (collection.index.size, collection.dimension, collection.size) != (
        about["rows"],
        about["dimension"],
        about["rows"],
    ):
        raise StoreError(
            f"{folder}: expected {about['rows']} vectors of dimension {about['dimension']}, found "
            f"{collection.index.size} of {collection.dimension} and {collection.size} owners"
        )
    return collection


def _write_array(file: Path, array: np.ndarray) -> None:
    np.save(file, np.ascontiguousarray(array), allow_pickle=False)


def _write_table(file: Path, table: pa.Table) -> None:
    table = table.combine_chunks()
    with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=max(table.num_rows, 1))


def _read_table(file: Path) -> pa.Table:
    try:
        return pa.ipc.open_file(pa.memory_map(str(file))).read_all()
    except pa.ArrowInvalid as error:
        raise StoreError(f"{file}: not an Arrow file ({error})") from error


def _digest(file: Path) -> str:
    digest = hashlib.sha256()
    with file.open("rb") as source:
        while chunk := source.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def _replace(file: Path, text: str) -> None:
    """Write a file in one step; what it names is on the disk already."""
    beside = file.with_suffix(".new")
    with beside.open("w", encoding="utf-8") as sink:
        sink.write(text)
        sink.flush()
        os.fsync(sink.fileno())
    os.replace(beside, file)
    _to_disk(file.parent)


def _to_disk(path: Path) -> None:
    """Wait until a file, or the names in a folder, have reached the disk."""
    held = os.open(path, os.O_RDONLY)
    try:
        os.fsync(held)
    finally:
        os.close(held)
