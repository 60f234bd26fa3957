"""An engine from tables: which texts become which collections."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch

from tercet.collection import Collection
from tercet.encoder import Encoder, resolve_encoder
from tercet.engine import Engine
from tercet.errors import InvalidArgument, InvalidData
from tercet.formats import openie
from tercet.graph import Graph

Progress = Callable[[str, int, int], None]  # what is encoded, done, total
RELATIONS = "EdgeType_relationship_name"


def from_tables(
    nodes: Any,
    edges: Any,
    encoder: Any,
    *,
    dtype: Literal["float32", "float16"] = "float32",
    progress: Progress | None = None,
    **graph_options: Any,
) -> Engine:
    """Build a graph and its collections.

    Nodes with a `text` go to the collection "text"; the others, by name and description, to "name"; the distinct edge
    texts to "EdgeType_relationship_name". A column `vector` of the nodes is taken as it is, as the collection "vector".

    Raises:
        InvalidArgument: texts have to be encoded and there is no encoder.
    """
    graph = Graph.from_tables(nodes, edges, **graph_options)
    made = resolve_encoder(encoder)
    collections = []
    if "vector" in graph.nodes.schema.names:
        column = graph.nodes.column("vector").combine_chunks()
        known = np.flatnonzero(np.asarray(pc.is_valid(column)))
        collections.append(Collection.build("vector", column.take(pa.array(known)), graph.ids.take(pa.array(known))))
    else:
        for name, rows, texts in node_texts(graph):
            if len(rows):
                owner = graph.ids.take(pa.array(rows))
                collections.append(encode_collection(name, texts, owner, "node", made, progress, dtype=dtype))
    if len(graph.keys) and made is not None:
        texts = key_texts(graph)
        collections.append(encode_collection(RELATIONS, texts, graph.keys, "relation", made, progress, dtype=dtype))
    return Engine(graph, collections, encoder)


def node_texts(graph: Graph) -> list[tuple[str, np.ndarray, list[str]]]:
    """What is embedded of the nodes: (collection, node rows, texts)."""
    column = {c: pc.fill_null(graph.nodes.column(c).combine_chunks(), "") for c in ("name", "text", "description")}
    has_text = np.asarray(pc.not_equal(column["text"], ""))
    named = np.asarray(pc.not_equal(column["name"], "")) & ~has_text
    described = pc.if_else(
        pc.equal(column["description"], ""), column["name"],
        pc.binary_join_element_wise(column["name"], column["description"], pa.scalar(": ", pa.large_string())),
    )  # fmt: skip
    out = []
    for name, mask, texts in (("name", named, described), ("text", has_text, column["text"])):
        rows = np.flatnonzero(mask)
        out.append((name, rows, texts.take(pa.array(rows)).to_pylist()))
    return out


def key_texts(graph: Graph) -> list[str]:
    """The distinct edge texts, readable: underscores as spaces."""
    return pc.replace_substring(graph.keys, "_", " ").to_pylist()


def from_openie(
    folder: str | Path, encoder: Any, *, vectors: str | Path | None = None, progress: Progress | None = None
) -> tuple[Engine, openie.OpenIE]:
    """An engine from a folder of passages and OpenIE triples.

    Args:
        vectors: a folder of precomputed vectors for the set of the same name as `folder`; what it lacks is encoded.

    Raises:
        InvalidData: the vectors are of another number than the texts.
    """
    read = openie.read(folder)
    graph = Graph.from_tables(read.nodes, read.edges)
    made = resolve_encoder(encoder)
    given = {} if vectors is None else openie.vectors(vectors, Path(folder).name)
    print_ = None if made is None else made.fingerprint()
    collections = []
    for name, rows, texts in node_texts(graph):
        owner = graph.ids.take(pa.array(rows))
        have = _precomputed(given, name, owner, texts)
        if have is None:
            collections.append(encode_collection(name, texts, owner, "node", made, progress))
        else:
            collections.append(Collection.build(name, have, owner, fingerprint=print_))
    relations = _relations(graph, given, made, progress)
    if relations is not None:
        collections.append(relations)
    return Engine(graph, collections, encoder), read


def _precomputed(given: dict[str, np.ndarray], name: str, owner: pa.Array, texts: list[str]) -> np.ndarray | None:
    """Rows of the given vectors in the order of the owners."""
    if name == "text" and "passages" in given:
        rows = np.array([int(i.removeprefix("passage:")) for i in owner.to_pylist()])
        if len(given["passages"]) != len(rows):
            raise InvalidData(f"vectors: {len(given['passages'])} passages, but the set has {len(rows)}")
        return given["passages"][rows]
    if name == "name" and "names" in given:
        place = pc.index_in(
            pa.array(texts, pa.large_string()), value_set=pa.array(given["names_text"].tolist(), pa.large_string())
        )
        if place.null_count:
            raise InvalidData(f"vectors: {place.null_count} of {len(texts)} names have none")
        return given["names"][np.asarray(place)]
    return None


def _relations(
    graph: Graph, given: dict[str, np.ndarray], made: Encoder | None, progress: Progress | None
) -> Collection | None:
    if "relations" not in given:
        return (
            None
            if made is None
            else encode_collection(RELATIONS, key_texts(graph), graph.keys, "relation", made, progress)
        )
    from tercet.normalise import relation_keys

    texts = pa.array(given["relations_text"].tolist(), pa.large_string())
    keys = relation_keys(pa.nulls(len(texts), pa.large_string()), texts, strip=True)
    place = np.array(pc.fill_null(pc.index_in(graph.keys, value_set=keys), -1))
    rows = torch.from_numpy(given["relations"][np.maximum(place, 0)])
    lacking = np.flatnonzero(place < 0)
    if len(lacking) and made is not None:
        wanted = key_texts(graph)
        rows[torch.from_numpy(lacking)] = made.encode([wanted[i] for i in lacking])
        lacking = lacking[:0]
    kept = np.setdiff1d(np.arange(len(place)), lacking)
    owner = graph.keys.take(pa.array(kept))
    print_ = None if made is None else made.fingerprint()
    return Collection.build(
        RELATIONS, rows[torch.from_numpy(kept)], owner, "relation", fold_owner=False, fingerprint=print_
    )


def encode_collection(
    name: str,
    texts: list[str],
    owner: Any,
    kind: Literal["node", "relation"],
    encoder: Any,
    progress: Progress | None = None,
    *,
    dtype: Literal["float32", "float16"] = "float32",
) -> Collection:
    """A collection of encoded texts; relation owners are folded keys.

    Raises:
        InvalidArgument: there is no encoder.
    """
    made = resolve_encoder(encoder)
    if made is None:
        raise InvalidArgument(f"collection {name!r}: {len(texts)} texts have to be encoded, and there is no encoder")
    tell = None if progress is None else lambda done: progress(name, done, len(texts))
    return Collection.build(
        name, None, owner, kind, texts=texts, encoder=made, dtype=dtype, fold_owner=False, progress=tell
    )
