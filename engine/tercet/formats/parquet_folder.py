"""A folder of Parquet files with a whole engine: nodes, edges, and the collections with their vectors."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet
import torch

from tercet.collection import Collection
from tercet.errors import InvalidArgument, InvalidData
from tercet.formats.imported import Imported, ImportedVectors, SourceReport
from tercet.formats.tables import read as read_tables
from tercet.graph import Graph
from tercet.index.raw import RawIndex

if TYPE_CHECKING:
    from tercet.engine import Engine

COLLECTIONS = "collections"  # the folder with a file for each
ROWS = 1 << 14  # vectors written at a time
ABOUT = b"tercet"  # metadata key of a collection's file


def read(path: str | Path) -> Imported:
    """The tables and vectors of a folder that `to_parquet` wrote.

    Raises:
        InvalidArgument: no nodes.* and edges.* in the folder.
        InvalidData: a file is damaged, or isn't a collection.
    """
    folder = Path(path)
    nodes, edges = read_tables(folder)
    report = SourceReport("Parquet", None, {"nodes": (nodes.num_rows,) * 2, "edges": (edges.num_rows,) * 2})
    vectors = []
    for file in sorted((folder / COLLECTIONS).glob("*.parquet")):
        vectors.append(_vectors(file))
        report.tables[f"{COLLECTIONS}/{file.name}"] = (len(vectors[-1].owner),) * 2
    return Imported(nodes, edges, tuple(vectors), report)


def to_parquet(engine: "Engine | Graph", folder: str | Path) -> None:
    """Write a graph, and an engine's collections, as Parquet files.

    nodes.parquet and edges.parquet hold the tables that `Graph.from_tables` takes, every column with its own type;
    collections/<n>.parquet one collection each: `owner` and `vector` (float32, or float64 for rows kept as given), with
    name, kind, model and dtype in the metadata. `read` gives the same graph and vectors again; indexes, other settings
    of a collection and node sets of its rows aren't written.

    Args:
        folder: a new or an empty one.

    Raises:
        InvalidArgument: the folder isn't empty.
    """
    graph = engine if isinstance(engine, Graph) else engine.graph
    folder = Path(folder)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InvalidArgument(f"{folder}: expected a new or an empty folder")
    folder.mkdir(parents=True, exist_ok=True)
    pyarrow.parquet.write_table(node_table(graph), folder / "nodes.parquet")
    pyarrow.parquet.write_table(edge_table(graph), folder / "edges.parquet")
    collections = [] if isinstance(engine, Graph) else engine.collections
    if collections:
        (folder / COLLECTIONS).mkdir()
    for i, collection in enumerate(collections):
        _write(collection, folder / COLLECTIONS / f"{i:03}.parquet")


def node_table(graph: Graph) -> pa.Table:
    """The nodes as `Graph.from_tables` takes them."""
    own = graph.nodes.drop_columns(["context_title", "context_block"])
    weights = {"importance_weight": graph.importance, "feedback_weight": graph.feedback}
    out = _with_weights(own, weights)
    if len(graph.set_member):
        lists = pa.LargeListArray.from_arrays(
            pa.array(graph.set_indptr, pa.int64()), graph.set_names.take(pa.array(graph.set_member))
        )
        empty = pa.array(np.diff(graph.set_indptr) == 0)
        out = out.append_column("belongs_to_set", pc.if_else(empty, pa.scalar(None, lists.type), lists))
    return out


def edge_table(graph: Graph) -> pa.Table:
    """The edges as `Graph.from_tables` takes them."""
    ends = {name: graph.ids.take(pa.array(rows.cpu().numpy())) if graph.num_edges else pa.array([], pa.large_string())
            for name, rows in (("source", graph.source), ("target", graph.target))}  # fmt: skip
    relation = graph.relation_column.dictionary_decode().cast(pa.large_string())
    weights = {"importance_weight": graph.edge_importance, "feedback_weight": graph.edge_feedback}
    named = pa.table({**ends, "relation": relation, **{n: graph.edges.column(n) for n in graph.edges.schema.names}})
    return _with_weights(named, weights)


def stored_vectors(collection: Collection) -> torch.Tensor:
    """(V, D) the vectors of a collection as they are searched: of unit norm, or as given for a raw index."""
    exact = _exact(collection)
    rows: torch.Tensor = exact.vectors.cpu()
    if isinstance(exact, RawIndex):
        return rows
    return rows.float()


def _exact(collection: Collection) -> Any:
    """The index that holds the vectors: an approximate one keeps an exact one."""
    return getattr(collection.index, "inner", collection.index)


def _with_weights(table: pa.Table, weights: dict[str, torch.Tensor]) -> pa.Table:
    for name, values in weights.items():
        table = table.append_column(name, pa.array(values.cpu().numpy()))
    return table


def _write(collection: Collection, path: Path) -> None:
    rows = stored_vectors(collection)
    kind = pa.float64() if rows.dtype == torch.float64 else pa.float32()
    about = {
        "name": collection.name, "kind": collection.kind, "dimension": collection.dimension,
        "metric": getattr(collection.index, "metric", "cosine"),
        "dtype": str(_exact(collection).vectors.dtype).removeprefix("torch."),
        "fingerprint": None if collection.fingerprint is None else collection.fingerprint.to_json(),
    }  # fmt: skip
    fields = [pa.field("owner", pa.large_string()), pa.field("vector", pa.list_(kind, collection.dimension))]
    schema = pa.schema(fields, metadata={ABOUT: json.dumps(about, ensure_ascii=False).encode()})
    with pyarrow.parquet.ParquetWriter(path, schema) as writer:
        for begin in range(0, collection.size, ROWS):
            part = rows[begin : begin + ROWS].numpy()
            values = pa.FixedSizeListArray.from_arrays(pa.array(part.reshape(-1)), collection.dimension)
            owner = collection.owner.slice(begin, len(part))
            writer.write_table(pa.table([owner, values], schema=schema))


def _vectors(path: Path) -> ImportedVectors:
    try:
        table = pyarrow.parquet.ParquetFile(path).read()
    except (pa.ArrowException, OSError) as error:
        raise InvalidData(f"{path}: {error}") from error
    try:
        about = json.loads((table.schema.metadata or {})[ABOUT])
        name, kind, dimension, metric = (about[key] for key in ("name", "kind", "dimension", "metric"))
        owner, column = table.column("owner").combine_chunks(), table.column("vector").combine_chunks()
        width = column.type.list_size
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise InvalidData(f"{path}: not a collection as `to_parquet` writes it: {error!r}") from error
    if width != dimension or kind not in ("node", "relation") or owner.null_count or column.null_count:
        raise InvalidData(f"{path}: expected vectors of dimension {dimension} without nulls, got {column.type}")
    values = np.asarray(pc.list_flatten(column)) if len(owner) else np.zeros(0, np.float32)
    made = about.get("fingerprint")
    model = made.get("name") if isinstance(made, dict) else None
    return ImportedVectors(name, kind, owner, values.reshape(len(owner), dimension), model, metric)
