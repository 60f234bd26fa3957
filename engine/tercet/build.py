"""An engine from tables: which texts become which collections."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch

from tercet.collection import Collection
from tercet.embedding import EmbeddingCache, Pace, embed_texts
from tercet.embedding.imported import Part, check_vectors_option, kept_parts, tell_unreached, without_vector
from tercet.encoder import Encoder, resolve_encoder
from tercet.engine import Engine
from tercet.errors import InvalidArgument, InvalidData
from tercet.formats import openie
from tercet.formats.imported import Imported
from tercet.graph import Graph

# Called with what is encoded, done, total; one with a method `pace(what, pace)` gets that instead, see `EncodingBar`.
Progress = Callable[[str, int, int], None]
RELATIONS = "EdgeType_relationship_name"


def from_tables(
    nodes: Any,
    edges: Any,
    encoder: Any,
    *,
    dtype: Literal["float32", "float16"] = "float32",
    cache: EmbeddingCache | None = None,
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
                collections.append(
                    encode_collection(name, texts, owner, "node", made, progress, dtype=dtype, cache=cache)
                )
    if len(graph.keys) and made is not None:
        texts = key_texts(graph)
        collections.append(
            encode_collection(RELATIONS, texts, graph.keys, "relation", made, progress, dtype=dtype, cache=cache)
        )
    return Engine(graph, collections, encoder)


def from_imported(
    imported: Imported,
    encoder: Any = None,
    *,
    vectors: Literal["keep", "recompute"] = "keep",
    dtype: Literal["float32", "float16"] = "float32",
    cache: EmbeddingCache | None = None,
    progress: Progress | None = None,
    **graph_options: Any,
) -> Engine:
    """An engine from what an importer made of other people's files.

    With an encoder, nodes without a vector of their own are encoded as in `from_tables`, and so are relation texts;
    without one, they stay without. What no search will reach is added to the notes of `imported.report`.

    Args:
        vectors: "keep" takes the vectors that came along as they are, under the name of their model; "recompute" leaves
            them out, so that the encoder makes all.
        cache: where encoded vectors are taken from and kept.
        graph_options: of `Graph.from_tables`.

    Raises:
        DimensionMismatch: kept vectors differ in width from each other or the encoder; names both.
        FingerprintMismatch: kept vectors name another model than the encoder; names both.
        InvalidArgument: an unknown value of `vectors`, or "recompute" without an encoder.
        InvalidData: a row of the tables or the vectors can't be taken.
    """
    made = resolve_encoder(encoder)
    check_vectors_option(vectors, made)
    graph = Graph.from_tables(imported.nodes, imported.edges, **graph_options)
    parts = kept_parts(imported, graph, made) if vectors == "keep" else []
    if made is not None:
        parts += _encoded_parts(graph, parts, made, cache, progress)
    tell_unreached(imported.report, graph, parts)
    collections = []
    for name in dict.fromkeys(p.name for p in parts):
        same = [p for p in parts if p.name == name]
        owner = pa.chunked_array([p.owner for p in same]).combine_chunks()
        collections.append(Collection.build(
            name, torch.cat([p.rows for p in same]), owner, same[0].kind, dtype=dtype, fold_owner=False,
            fingerprint=same[-1].fingerprint,
        ))  # fmt: skip
    return Engine(graph, collections, encoder)


def _encoded_parts(
    graph: Graph, parts: list[Part], encoder: Encoder, cache: EmbeddingCache | None, progress: Progress | None
) -> list[Part]:
    """Encoded texts of what the parts have no vector of."""
    wanted: list[tuple[str, Literal["node", "relation"], pa.Array, list[str]]] = []
    lacking = without_vector(graph.ids, parts, "node")
    for name, rows, texts in node_texts(graph):
        mask = lacking[rows]
        owner = graph.ids.take(pa.array(rows[mask]))
        wanted.append((name, "node", owner, [t for t, m in zip(texts, mask, strict=True) if m]))
    mask = without_vector(graph.keys, parts, "relation")
    texts = [t for t, m in zip(key_texts(graph), mask, strict=True) if m]
    wanted.append((RELATIONS, "relation", graph.keys.filter(pa.array(mask)), texts))
    return [
        Part(name, kind, owner, embed_texts(encoder, texts, cache=cache, progress=_telling(progress, name)),
             encoder.fingerprint())
        for name, kind, owner, texts in wanted if texts
    ]  # fmt: skip


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
    folder: str | Path,
    encoder: Any,
    *,
    vectors: str | Path | None = None,
    cache: EmbeddingCache | None = None,
    progress: Progress | None = None,
) -> tuple[Engine, openie.OpenIE]:
    """An engine from a folder of passages and OpenIE triples.

    Args:
        vectors: a folder of precomputed vectors for the set of the same name as `folder`; what it lacks is encoded.
        cache: where encoded vectors are taken from and kept.

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
            collections.append(encode_collection(name, texts, owner, "node", made, progress, cache=cache))
        else:
            collections.append(Collection.build(name, have, owner, fingerprint=print_))
    relations = _relations(graph, given, made, progress, cache)
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
    graph: Graph,
    given: dict[str, np.ndarray],
    made: Encoder | None,
    progress: Progress | None,
    cache: EmbeddingCache | None,
) -> Collection | None:
    if "relations" not in given:
        return (
            None
            if made is None
            else encode_collection(RELATIONS, key_texts(graph), graph.keys, "relation", made, progress, cache=cache)
        )
    from tercet.normalise import relation_keys

    texts = pa.array(given["relations_text"].tolist(), pa.large_string())
    keys = relation_keys(pa.nulls(len(texts), pa.large_string()), texts, strip=True)
    place = np.array(pc.fill_null(pc.index_in(graph.keys, value_set=keys), -1))
    rows = torch.from_numpy(given["relations"][np.maximum(place, 0)])
    lacking = np.flatnonzero(place < 0)
    if len(lacking) and made is not None:
        wanted = key_texts(graph)
        rows[torch.from_numpy(lacking)] = embed_texts(made, [wanted[i] for i in lacking], cache=cache)
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
    cache: EmbeddingCache | None = None,
) -> Collection:
    """A collection of encoded texts, each distinct one encoded once; relation owners are folded keys.

    Raises:
        InvalidArgument: there is no encoder.
    """
    made = resolve_encoder(encoder)
    if made is None:
        raise InvalidArgument(f"collection {name!r}: {len(texts)} texts have to be encoded, and there is no encoder")
    rows = embed_texts(made, texts, cache=cache, progress=_telling(progress, name))
    return Collection.build(name, rows, owner, kind, dtype=dtype, fold_owner=False, fingerprint=made.fingerprint())


def _telling(progress: Progress | None, what: str) -> Callable[[Pace], None] | None:
    """What tells `progress` of one collection: the pace where it takes that, else the counts."""
    if progress is None:
        return None
    told: Progress = progress
    pace: Callable[[str, Pace], None] | None = getattr(told, "pace", None)
    if pace is not None:
        return partial(pace, what)
    return lambda now: told(what, now.done, now.total)
