"""For users of Cognee: its records as a graph, its ids, and its triplet search by its own argument names.

The behaviour is that of cognee 1.6.5, accidents included where they change results; errors that it swallows are raised
here (docs/differences.md).
"""

import math
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tercet.context import status_columns
from tercet.engine import Engine
from tercet.errors import InvalidArgument, InvalidData
from tercet.graph import Graph
from tercet.ids import text_column
from tercet.recall import Recall
from tercet.rules import Projection

EDGE_COLLECTION = "EdgeType_relationship_name"
DEFAULT_COLLECTIONS = (
    "Entity_name", "TextSummary_text", "EntityType_name", "DocumentChunk_text", "DltRow_text", EDGE_COLLECTION,
)  # fmt: skip
NODE_PROPERTIES = ("id", "description", "name", "type", "text", "importance_weight")


class InvalidFeedbackInfluence(InvalidArgument):
    """`feedback_influence` outside [0, 1]."""


def edge_type_id(text: str) -> str:
    """The id under which the edge collection holds a text: a UUIDv5 of its folded form."""
    folded = text.lower().replace(" ", "_").replace("'", "")
    return str(uuid.uuid5(uuid.NAMESPACE_OID, "EdgeType:" + folded))


def graph_from_records(
    nodes: Iterable[tuple[Any, Mapping[str, Any]]],
    edges: Iterable[tuple[Any, Any, Any, Mapping[str, Any]]],
    *,
    properties: Sequence[str] = NODE_PROPERTIES,
    feedback: bool = True,
    edge_importance: bool = False,
) -> Graph:
    """A graph from Cognee's records: (id, properties) and (source id, target id, relationship name, properties).

    Internal nodes and edges without both ends are left out, a repeated id keeps its first record, order and repeated
    edges stay as they are, weights are read as Python's `float` reads them and fall back to 0.5.

    Args:
        properties: node properties that are projected; what isn't named is absent.
        feedback: project feedback weights.
        edge_importance: project the importance of edges (Cognee does so only for a memory fragment made by hand).

    Raises:
        InvalidData: a record without properties; names the row. (Cognee stops reading there and goes on.)
    """
    rows: dict[str, Mapping[str, Any]] = {}
    for i, (node, props) in enumerate(nodes):
        if not isinstance(props, Mapping):
            raise InvalidData(f"node record {i} ({node!r}): expected properties, got {props!r}")
        if not props.get("is_internal"):
            rows.setdefault(str(node), props)
    kept: list[tuple[str, str, Any, Mapping[str, Any]]] = []
    dropped: set[str] = set()
    for i, (source, target, name, props) in enumerate(edges):
        if not (str(source) in rows and str(target) in rows):
            dropped.update((str(source), str(target)))
            continue
        if not isinstance(props, Mapping):
            raise InvalidData(f"edge record {i} ({source!r}, {name!r}, {target!r}): expected properties, got {props!r}")
        kept.append((str(source), str(target), name, props))
    columns = {
        "id": list(rows),
        "importance_weight": [
            _weight(p.get("importance_weight"), "importance_weight" in properties) for p in rows.values()
        ],
        "feedback_weight": [_feedback(p.get("feedback_weight"), feedback) for p in rows.values()],
        "belongs_to_set": [_names(p.get("belongs_to_set")) for p in rows.values()],
    }
    for name in ("name", "description", "type", "text"):
        if name in properties or name == "type":
            columns[name] = [_text(p.get(name)) for p in rows.values()]
    props_of = [p for *_, p in kept]
    status, superseded = status_columns(
        *([p.get(c) for p in props_of] for c in ("conflict_marks", "conflict_marks_json", "effective_date"))
    )
    table = {
        "source": [e[0] for e in kept],
        "target": [e[1] for e in kept],
        "relation": [_text(e[2]) for e in kept],
        "relationship_name": text_column([_text(p.get("relationship_name")) for p in props_of], "relationship_name"),
        "edge_text": text_column([_text(p.get("edge_text")) for p in props_of], "edge_text"),
        "importance_weight": [_weight(p.get("importance_weight"), edge_importance) for p in props_of],
        "feedback_weight": [_feedback(p.get("feedback_weight"), feedback) for p in props_of],
        "status": status,
        "superseded": superseded,
    }
    graph = Graph.from_tables(columns, table, order="input", strip=False, missing="none", check_weights=False)
    return replace(graph, unread_ends=text_column(sorted(dropped), "edges"))


def brute_force_triplet_search(
    engine: Engine,
    query: Any = None,
    query_batch: Any = None,
    *,
    vectors: Any = None,
    top_k: int = 5,
    collections: Sequence[str] | None = None,
    node_type: str | None = None,
    node_name: Sequence[str] | None = None,
    node_name_filter_operator: str = "OR",
    wide_search_top_k: int | None = 100,
    triplet_distance_penalty: float = 6.5,
    feedback_influence: float = 0.0,
    neighborhood_depth: int | None = None,
    neighborhood_seed_top_k: int | None = 10,
    personal_weights: Mapping[Any, float] | None = None,
    projection: Projection | None = None,
) -> Recall:
    """Cognee's triplet search on an engine in `cognee` mode.

    Args:
        query: one text, or query_batch: a list of texts. `vectors` gives their vectors, (D,) or (B, D).
        collections: names in visiting order; the edge collection is added when absent, missing ones count as empty.
        node_type: with node_name, the class of the node-set nodes.
        projection: "full" reads the whole graph whatever the search found (a memory fragment made beforehand).

    Raises:
        InvalidArgument: for the same arguments, in the same order and with the same messages as Cognee.
    """
    if engine.rules.name != "cognee":
        raise InvalidArgument(f"engine: expected mode 'cognee', got {engine.rules.name!r}")
    _check(query, query_batch, top_k, feedback_influence)
    if triplet_distance_penalty is None:
        raise InvalidArgument("triplet_distance_penalty: expected a number, got None")
    have = {c.name for c in engine.collections}
    order = list(dict.fromkeys(DEFAULT_COLLECTIONS if collections is None else collections))
    order += [] if EDGE_COLLECTION in order else [EDGE_COLLECTION]
    scoped = node_name is not None and len(node_name) > 0 and node_type is not None
    if projection is None:
        projection = "neighborhood" if neighborhood_depth is not None else "nodeset" if scoped else None
    limited = query is not None and node_name is None and wide_search_top_k is not None
    if projection is None:
        projection = "incident" if limited else "full"
    return engine.recall(
        query if query is not None else list(query_batch), vectors=vectors, top_k=top_k,
        collections=[name for name in order if name in have], node_type=node_type or "NodeSet", node_name=node_name,
        node_name_filter_operator=node_name_filter_operator, wide_search_top_k=wide_search_top_k,
        triplet_distance_penalty=triplet_distance_penalty, feedback_influence=feedback_influence,
        neighborhood_depth=neighborhood_depth, neighborhood_seed_top_k=neighborhood_seed_top_k,
        personal_weights=personal_weights, projection=projection,
    )  # fmt: skip


def _check(query: Any, query_batch: Any, top_k: Any, feedback_influence: Any) -> None:
    if query is not None and query_batch is not None:
        raise InvalidArgument("Cannot provide both 'query' and 'query_batch'; use exactly one.")
    if query is None and query_batch is None:
        raise InvalidArgument("Must provide either 'query' or 'query_batch'.")
    if query is not None and (not isinstance(query, str) or not query.strip()):
        raise InvalidArgument("The query must be a non-empty string.")
    if query is None:
        if not isinstance(query_batch, list) or not query_batch:
            raise InvalidArgument("query_batch must be a non-empty list of strings.")
        if any(not isinstance(q, str) or not q.strip() for q in query_batch):
            raise InvalidArgument("All items in query_batch must be non-empty strings.")
    if top_k <= 0:
        raise InvalidArgument("top_k must be a positive integer.")
    if not 0 <= feedback_influence <= 1:
        raise InvalidFeedbackInfluence("feedback_influence must be in range [0, 1]")


def _weight(value: Any, projected: bool) -> float:
    try:
        return float(value) if projected else 0.5
    except (TypeError, ValueError):
        return 0.5


def _feedback(value: Any, projected: bool) -> float:
    got = _weight(value, projected)
    return 1.0 if math.isnan(got) else max(0.0, min(1.0, got))


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _names(value: Any) -> list[str]:
    return [str(v) for v in value] if isinstance(value, (list, tuple)) else []
