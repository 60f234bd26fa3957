"""The parts of a store that are written whole: a graph, a collection, a text index."""

from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import torch

from tercet.arrays import is_repeated, read_array
from tercet.collection import Collection
from tercet.errors import InvalidData, StoreError
from tercet.fingerprint import Fingerprint
from tercet.graph import Adjacency, Graph, ImportOptions
from tercet.index import load_index
from tercet.index.exact import ExactIndex
from tercet.index.segmented import SegmentedIndex
from tercet.retrieve.lexical import KINDS, LexicalIndex
from tercet.store_files import read_table, write_array, write_table
from tercet.tables import one_piece

WEIGHTS = ("importance", "feedback", "edge_importance", "edge_feedback")
TENSORS = ("source", "target", "relation", "relation_key", *WEIGHTS)
ADJACENCIES, PARTS = ("out", "into", "oriented"), ("indptr", "edge", "other")
SAME = {"relation_key": "relation", "out.other": "target"}  # a file that isn't there holds what the other one does


def write_graph(graph: Graph, folder: Path) -> dict[str, Any]:
    """Write a graph on the CPU; returns what the manifest says of it."""
    folder.mkdir(parents=True)
    for name, rows in _columns(graph).items():
        write_array(folder / f"{name}.npy", (rows[:1] if is_repeated(rows) else rows).numpy())
    for name in ("set_indptr", "set_member"):
        write_array(folder / f"{name}.npy", getattr(graph, name))
    write_table(folder / "nodes.arrow", graph.nodes)
    write_table(folder / "edges.arrow", graph.edges)
    for name in ("relation_names", "keys", "set_names", "unread_ends"):
        if getattr(graph, name) is not None:
            write_table(folder / f"{name}.arrow", pa.table({name: getattr(graph, name)}))
    return {
        "nodes": graph.num_nodes, "edges": graph.num_edges, "order": graph.order, "options": asdict(graph.options),
        "base_nodes": graph.num_nodes, "base_edges": graph.num_edges, "deltas": [],
    }  # fmt: skip


def _columns(graph: Graph) -> dict[str, torch.Tensor]:
    """The tensors that are written; one that is another one under a second name isn't, see `SAME`."""
    out: dict[str, torch.Tensor] = {name: getattr(graph, name) for name in TENSORS}
    for name in ADJACENCIES:
        lists: Adjacency = getattr(graph, name)
        out |= {f"{name}.{part}": getattr(lists, part) for part in PARTS}
    return {name: rows for name, rows in out.items() if rows is not out.get(SAME.get(name, ""))}


def _column(file: Path, size: int) -> torch.Tensor:
    """A tensor of a graph; weights that are all the same are one number in the file, for so many rows."""
    rows = torch.from_numpy(read_array(file))
    return rows.expand(size) if rows.shape == (1,) and size > 1 else rows


def read_graph(about: dict[str, Any], folder: Path) -> Graph:
    """Map what `write_graph` wrote.

    Raises:
        StoreError: a file can't be read, or holds other rows than the manifest says, or rows that lead outside.
    """
    size = {name: about["base_edges" if name.startswith("edge_") else "base_nodes"] for name in WEIGHTS}
    fields: dict[str, Any] = {}
    for name in (*TENSORS, *(f"{n}.{part}" for n in ADJACENCIES for part in PARTS)):
        absent = name in SAME and not (folder / f"{name}.npy").exists()
        fields[name] = fields[SAME[name]] if absent else _column(folder / f"{name}.npy", size.get(name, 1))
    fields |= {name: Adjacency(*(fields.pop(f"{name}.{part}") for part in PARTS)) for name in ADJACENCIES}
    fields |= {
        name: one_piece(read_table(folder / f"{name}.arrow").column(0))
        for name in ("relation_names", "keys", "set_names", "unread_ends") if (folder / f"{name}.arrow").exists()
    }  # fmt: skip
    graph = Graph(
        **fields, nodes=read_table(folder / "nodes.arrow"), edges=read_table(folder / "edges.arrow"),
        set_indptr=read_array(folder / "set_indptr.npy"), set_member=read_array(folder / "set_member.npy"),
        order=about["order"], options=_options(about.get("options", {}), folder),
    )  # fmt: skip
    for name, rows, expected in (
        ("nodes", graph.nodes.num_rows, about["base_nodes"]), ("edges", graph.edges.num_rows, about["base_edges"]),
        ("source", graph.num_edges, about["base_edges"]), ("importance", graph.num_nodes, about["base_nodes"]),
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
    for name in WEIGHTS:
        if getattr(graph, name).shape != (edges if name.startswith("edge") else nodes,):
            raise StoreError(f"{folder / name}.npy: expected one number a row")


def write_collection(collection: Collection, folder: Path) -> dict[str, Any]:
    """Write a collection as one piece; returns what the manifest says of it."""
    here = collection.index.to(torch.device("cpu"))
    if isinstance(here, (ExactIndex, SegmentedIndex)):
        here.save(folder, codes=True)
    else:
        here.save(folder)
    write_table(folder / "owner.arrow", pa.table({"owner": collection.owner}))
    write_array(folder / "zero_norm.npy", collection.zero_norm)
    if collection.set_indptr is not None:
        write_array(folder / "set_indptr.npy", collection.set_indptr)
        write_table(folder / "set_member.arrow", pa.table({"member": collection.set_member}))
    index = collection.index
    first: Any = index.segments[0].index if isinstance(index, SegmentedIndex) else index
    vectors = first.vectors if hasattr(first, "vectors") else first.inner.vectors
    half = vectors.dtype == torch.float16
    return {
        "name": collection.name, "kind": collection.kind, "index": index.kind, "rows": collection.size,
        "dimension": collection.dimension, "metric": getattr(index, "metric", "cosine"),
        "dtype": str(vectors.dtype).removeprefix("torch."),
        "scale": "reciprocal norms" if half else "as given" if index.kind == "raw" else "unit norm",
        "fingerprint": None if collection.fingerprint is None else collection.fingerprint.to_json(),
        "base_rows": collection.size, "deltas": [],
    }  # fmt: skip


def read_collection(about: dict[str, Any], folder: Path) -> Collection:
    """Map what `write_collection` wrote.

    Raises:
        StoreError: a file can't be read, or holds other rows than the manifest says.
    """
    kind: Literal["node", "relation"] = about["kind"]
    sets: dict[str, Any] = {}
    if (folder / "set_indptr.npy").exists():
        member = one_piece(read_table(folder / "set_member.arrow").column(0))
        sets = {"set_indptr": read_array(folder / "set_indptr.npy"), "set_member": member,
                "set_names": member.unique()}  # fmt: skip
    collection = Collection(
        about["name"], kind, load_index(about["index"], folder),
        one_piece(read_table(folder / "owner.arrow").column(0)), read_array(folder / "zero_norm.npy"),
        None if about["fingerprint"] is None else Fingerprint.from_json(about["fingerprint"]), **sets,
    )  # fmt: skip
    rows, dimension = about["base_rows"], about["dimension"]
    if (collection.index.size, collection.dimension, collection.size) != (rows, dimension, rows):
        raise StoreError(
            f"{folder}: expected {rows} vectors of dimension {dimension}, found {collection.index.size} of "
            f"{collection.dimension} and {collection.size} owners"
        )
    return collection


def write_lexical(index: LexicalIndex, columns: tuple[str, ...], folder: Path) -> dict[str, Any]:
    """Write a text index on the CPU; returns what the manifest says of it."""
    folder.mkdir(parents=True)
    for name, array in index.arrays().items():
        write_array(folder / f"{name}.npy", array)
    write_table(folder / "vocabulary.arrow", pa.table({"token": index.vocabulary}))
    return {"columns": list(columns), "settings": index.settings}


def read_lexical(about: dict[str, Any], folder: Path) -> LexicalIndex:
    """Map what `write_lexical` wrote.

    Raises:
        StoreError: a file can't be read, or the parts don't fit each other.
    """
    arrays = {name: read_array(folder / f"{name}.npy") for name in KINDS}
    words = one_piece(read_table(folder / "vocabulary.arrow").column(0))
    try:
        return LexicalIndex.from_arrays(arrays, words, about["settings"])
    except InvalidData as error:
        raise StoreError(f"{folder}: {error}") from error
