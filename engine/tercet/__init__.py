"""Tercet: GPU-batched retrieval over knowledge graphs. Names are loaded on first use, so importing stays light."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tercet.collection import Collection
    from tercet.conditions import LabelFilter, PropertyFilter, PropertyFilterGroup
    from tercet.engine import Engine
    from tercet.evaluate import evaluate
    from tercet.graph import Graph
    from tercet.memory_plan import MemoryPlan, estimate_memory
    from tercet.node import Node, Relationship
    from tercet.pictures import export_graph, render_graph
    from tercet.recall import Recall
    from tercet.result import Result, Triplet
    from tercet.retrieve.fts import FtsIndex
    from tercet.retrieve.hits import Hits, SearchResults
    from tercet.retrieve.lexical import LexicalIndex
    from tercet.retrieve.subgraph import Subgraph, Subgraphs
    from tercet.serve import AsyncEngine
    from tercet.store import open
    from tercet.threads import set_threads

__version__ = "0.1.0"

_HOMES = {
    "AsyncEngine": "serve",
    "Collection": "collection",
    "Engine": "engine",
    "FtsIndex": "retrieve.fts",
    "Graph": "graph",
    "Hits": "retrieve.hits",
    "LabelFilter": "conditions",
    "LexicalIndex": "retrieve.lexical",
    "MemoryPlan": "memory_plan",
    "Node": "node",
    "PropertyFilter": "conditions",
    "PropertyFilterGroup": "conditions",
    "Recall": "recall",
    "Relationship": "node",
    "Result": "result",
    "SearchResults": "retrieve.hits",
    "Subgraph": "retrieve.subgraph",
    "Subgraphs": "retrieve.subgraph",
    "Triplet": "result",
    "estimate_memory": "memory_plan",
    "export_graph": "pictures",
    "open": "store",
    "render_graph": "pictures",
    "set_threads": "threads",
}
__all__ = [
    "AsyncEngine",
    "Collection",
    "Engine",
    "FtsIndex",
    "Graph",
    "Hits",
    "LabelFilter",
    "LexicalIndex",
    "MemoryPlan",
    "Node",
    "PropertyFilter",
    "PropertyFilterGroup",
    "Recall",
    "Relationship",
    "Result",
    "SearchResults",
    "Subgraph",
    "Subgraphs",
    "Triplet",
    "estimate_memory",
    "evaluate",
    "export_graph",
    "open",
    "render_graph",
    "set_threads",
]


def __getattr__(name: str) -> Any:
    if name == "evaluate":
        return import_module("tercet.evaluate")  # a package that can be called
    if name in _HOMES:
        return getattr(import_module(f"tercet.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'tercet' has no attribute {name!r}")
