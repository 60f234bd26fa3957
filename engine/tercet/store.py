"""Save and load: Arrow files and .npy arrays under one manifest with sizes and hashes.

A store is a folder with `manifest.json` and data folders. Saving writes a new data folder beside the old ones and then
replaces the manifest in one step, so a reader sees the old store or the new one, never half of one. An engine that was
opened from a store, or saved to it last, writes only what has changed since: parts that are unchanged are named by the
new manifest again, changed ones get a delta. Nothing in a store is code.
"""

import shutil
import uuid
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tercet import remote
from tercet.carried import Carried, Since
from tercet.collection import Collection
from tercet.errors import StoreError
from tercet.graph import Graph
from tercet.index.raw import RawIndex
from tercet.retrieve.words import Handed, give, kept_index
from tercet.state import Origin
from tercet.store_deltas import (
    carried_edges,
    carried_nodes,
    carried_rows,
    read_collection_deltas,
    read_graph_deltas,
    write_collection_delta,
    write_graph_delta,
)  # fmt: skip
from tercet.store_files import (
    FORMAT,
    LOCK,
    MANIFEST,
    check_files,
    clear,
    commit,
    folders,
    locked,
    read_manifest,
    settled,
)  # fmt: skip
from tercet.store_parts import read_collection, read_graph, read_lexical, write_collection, write_graph, write_lexical

if TYPE_CHECKING:
    from tercet.engine import Engine

DELTAS = 32  # of a part; then they are written as one
SHARE, FEW = 4, 1000  # a graph is written whole when what has changed is more than a quarter of it, and than a few rows


def save(engine: "Engine", path: str | Path) -> tuple[Origin, Since]:
    """Write what an engine holds; see `Engine.save`.

    Returns:
        what the engine's state is to remember.

    Raises:
        StoreError: the path is a file, or a folder that holds something else than a store; or somebody committed to
            the store since the engine was opened from it or saved to it, or while this save waited for another.
    """
    if remote.is_url(path):
        return remote.sent(str(path), lambda folder: _save(engine, folder, str(path)))
    root = remote.local(path)
    return _save(engine, root, str(root.resolve()))


def _save(engine: "Engine", root: Path, place: str) -> tuple[Origin, Since]:
    if root.exists() and not (root.is_dir() and _is_ours(root)):
        raise StoreError(f"{root}: expected a new folder or a store, found something else")
    root.mkdir(parents=True, exist_ok=True)
    waiting = _held(root)
    with locked(root):
        held = _held(root)
        origin = engine.state.origin
        since = engine.state.since
        known = held is not None and origin is not None and (held["store"] == origin.store or place == origin.place)
        read = origin.commit if known and origin is not None else None if waiting is None else waiting["commit"]
        if held is not None and held["commit"] != read:
            raise StoreError(
                f"{root}: somebody committed to the store since it was read; saving now would undo that. Open it again "
                "and repeat the changes, or save to another place"
            )
        data = root / f"data-{uuid.uuid4().hex[:12]}"
        try:
            manifest = _written(engine, root, data, held if known else None, since if known else None)
            manifest["store"] = uuid.uuid4().hex if held is None else held["store"]
            if held is None or manifest != held | {"commit": None}:
                manifest["commit"] = uuid.uuid4().hex
                commit(root, manifest)
            else:
                manifest = held
        except BaseException:
            made = _held(root)
            if made is None or not any(f.startswith(f"{data.name}/") for f in made["files"]):
                shutil.rmtree(data, ignore_errors=True)
            raise
        clear(root, manifest)
    kept = Since(tuple(Carried() for _ in engine.collections))
    return Origin(place, manifest["store"], manifest["commit"]), kept


def open(
    path: str | Path, device: str = "auto", *, encoder: Any = None, verify: bool = True, **options: Any
) -> "Engine":
    """Load a store. Vectors are mapped, so they are read when they are first used.

    Args:
        path: the folder that `Engine.save` wrote, or the URL of one, such as `s3://bucket/store`: its files are copied
            into a cache once (see `tercet.remote`).
        device: as in `Engine`.
        encoder: instead of the one the store names; needed when that was a callable.
        verify: compare the hash of every file; sizes are always compared.
        options: passed on to `Engine`, such as mode.

    Raises:
        StoreError: not a store, of another format version, or a file is missing, cut or changed; names the file.
        MissingDependency: a URL, and fsspec or its part for that protocol isn't installed.
    """
    from tercet.engine import Engine

    far = remote.is_url(path)
    root = remote.fetched(str(path), verify=verify) if far else remote.local(path)
    while True:
        manifest, _ = read_manifest(root)
        try:
            check_files(manifest, root, hashes=verify and not far)
            graph = graph_of(manifest, root)
            collections = [collection_of(about, root) for about in manifest["collections"]]
            text = text_of(manifest, root)
            check_files(manifest, root, hashes=False)  # what needn't be there was there to be read
        except (OSError, KeyError, TypeError) as error:  # StoreError is an OSError
            if read_manifest(root)[0]["commit"] != manifest["commit"]:
                continue  # a writer committed the next version meanwhile and cleared this one away
            if isinstance(error, OSError):
                raise
            raise StoreError(f"{root / MANIFEST}: a part is missing or of another kind ({error!r})") from error
        break
    options.setdefault("mode", manifest["mode"])
    engine = Engine(graph, collections, encoder if encoder is not None else manifest["encoder"], device, **options)
    origin = Origin(str(path) if far else str(root.resolve()), manifest["store"], manifest["commit"])
    since = Since(tuple(Carried() for _ in collections))
    engine._state = replace(engine.state, origin=origin, since=since)
    if text is not None:
        give(engine.graph, text._replace(text=text.text.to(engine.device)))
    return engine


def graph_of(manifest: dict[str, Any], root: Path) -> Graph:
    """The graph of a store."""
    about = manifest["graph"]
    return read_graph_deltas(read_graph(about, root / about["folder"]), about, root)


def collection_of(about: dict[str, Any], root: Path) -> Collection:
    """A collection of a store, from what the manifest says of it."""
    return read_collection_deltas(read_collection(about, root / about["folder"]), about, root)


def text_of(manifest: dict[str, Any], root: Path) -> Handed | None:
    """The text index of a store, maybe of an earlier version of the graph; None where there is none."""
    about = manifest.get("lexical")
    if about is None:
        return None
    carried = carried_nodes(manifest["graph"], root, about["version"])
    index = read_lexical(about, root / about["folder"])
    documents = len(index.length)
    expected = manifest["graph"]["nodes"] if carried.runs is None else _size(manifest["graph"], about["version"])
    if documents != expected:
        raise StoreError(f"{root / about['folder']}: expected {expected} documents, found {documents}")
    return Handed(tuple(about["columns"]), index, carried)


def _size(graph: dict[str, Any], version: int) -> int:
    return graph["deltas"][version - 1]["nodes"] if version else graph["base_nodes"]


def _is_ours(root: Path) -> bool:
    """A store, an empty folder, or what a save left that was stopped before there was a manifest."""
    return (root / MANIFEST).exists() or all(
        p.name in ("manifest.new", LOCK) or p.name.startswith("data-") for p in root.iterdir()
    )


def _held(root: Path) -> dict[str, Any] | None:
    """The manifest of a store; None where there is none that can be read: then everything is written."""
    try:
        return read_manifest(root)[0]
    except StoreError:
        return None


def _written(
    engine: "Engine", root: Path, data: Path, held: dict[str, Any] | None, since: Since | None
) -> dict[str, Any]:
    """Write what isn't in the store yet; the manifest of all, without the store's id.

    Args:
        held: the manifest of what the engine's state came from; None: nothing of it is there.
    """
    graph = engine.graph.to("cpu")
    if held is None or since is None:
        about = write_graph(graph, data / "graph") | {"folder": f"{data.name}/graph"}
        collections = [_whole(c, data, i) for i, c in enumerate(engine.collections)]
    else:
        about = _graph(graph, since, held["graph"], root, data)
        collections = [
            _collection(c, since.collections[i], since.compacted, held["collections"][i], root, data, i)
            for i, c in enumerate(engine.collections)
        ]
    out = {
        "format": FORMAT, "store": "", "commit": None, "mode": engine.rules.name, "encoder": engine.encoder_name,
        "graph": about, "collections": collections, "lexical": _lexical(engine.graph, about, held, data), "files": {},
    }  # fmt: skip
    inside = tuple(f"{f}/" for f in folders(out))
    kept = {} if held is None else {n: f for n, f in held["files"].items() if n.startswith(inside)}
    out["files"] = kept | (settled(data, root) if data.exists() else {})
    return out


def _whole(collection: Collection, data: Path, at: int) -> dict[str, Any]:
    return write_collection(collection, data / f"collection-{at}") | {"folder": f"{data.name}/collection-{at}"}


def _graph(graph: Graph, since: Since, held: dict[str, Any], root: Path, data: Path) -> dict[str, Any]:
    """Write a graph that the store has an earlier version of, whole or as a delta; or nothing."""
    nodes, edges = since.nodes, since.edges
    same = nodes.runs is None and edges.runs is None and not since.anew
    if same and not (since.compacted and held["deltas"]):
        return held
    base = held["base_nodes"] + held["base_edges"]
    added = len(nodes.changed) + len(edges.changed)
    added += sum(d["added_nodes"] + d["added_edges"] for d in held["deltas"])
    gone = base + added - graph.num_nodes - graph.num_edges
    if since.anew or since.compacted or added + gone > max(base // SHARE, FEW):
        return write_graph(graph, data / "graph") | {"folder": f"{data.name}/graph"}
    out = deepcopy(held)
    touched = edges.runs is not None
    if len(out["deltas"]) >= DELTAS:
        nodes = carried_nodes(held, root, 0).through(nodes)
        touched |= any(d["touched_edges"] for d in out["deltas"])
        edges = carried_edges(held, root).through(edges)
        out |= {"deltas": [], "nodes": held["base_nodes"], "edges": held["base_edges"]}
    write_graph_delta(graph, nodes, edges, out, data / "graph")
    out["deltas"].append({
        "folder": f"{data.name}/graph", "nodes": graph.num_nodes, "edges": graph.num_edges, "touched_edges": touched,
        "added_nodes": len(nodes.changed), "added_edges": len(edges.changed),
    })  # fmt: skip
    return out | {"nodes": graph.num_nodes, "edges": graph.num_edges}


def _collection(
    collection: Collection, rows: Carried, compacted: bool, held: dict[str, Any], root: Path, data: Path, at: int
) -> dict[str, Any]:
    """Write a collection that the store has an earlier version of, whole or as a delta; or nothing."""
    if rows.runs is None and not (compacted and held["deltas"]):
        return held
    if compacted or isinstance(collection.index, RawIndex):
        return _whole(collection, data, at)
    out = deepcopy(held)
    if len(out["deltas"]) >= DELTAS:
        rows = carried_rows(held, root).through(rows)
        out |= {"deltas": [], "rows": held["base_rows"]}
    folder = f"collection-{at}"
    write_collection_delta(collection, rows, out["rows"], data / folder)
    out["deltas"].append(
        {"folder": f"{data.name}/{folder}", "rows": collection.size, "added": len(rows.changed)}
    )  # fmt: skip
    return out | {"rows": collection.size}


def _lexical(graph: Graph, about: dict[str, Any], held: dict[str, Any] | None, data: Path) -> dict[str, Any] | None:
    """The text index: one that the store has stays as it is, and is brought up to date when it is used."""
    before = None if held is None else held.get("lexical")
    if held is not None and before is not None and before["version"] <= _common(about, held["graph"]):
        used = graph.__dict__.get("_lexical")
        if used is None or list(used[0]) == before["columns"]:
            return before
    made = kept_index(graph)
    if made is None:
        return None
    written = write_lexical(made[1], made[0], data / "lexical")
    return written | {"folder": f"{data.name}/lexical", "version": len(about["deltas"])}


def _common(now: dict[str, Any], before: dict[str, Any]) -> int:
    """The newest version of a graph that two manifests share, 0 being the base; -1: none."""
    if now["folder"] != before["folder"]:
        return -1
    pairs = zip(now["deltas"], before["deltas"], strict=False)
    same = [a["folder"] == b["folder"] for a, b in pairs]
    return same.index(False) if False in same else len(same)
