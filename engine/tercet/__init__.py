"""Tercet: GPU-batched retrieval over knowledge graphs. Names are loaded on first use, so importing stays light."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tercet.collection import Collection
    from tercet.engine import Engine
    from tercet.graph import Graph
    from tercet.recall import Recall
    from tercet.result import Result, Triplet
    from tercet.store import open
    from tercet.threads import set_threads

__version__ = "0.1.0"

_HOMES = {
    "Collection": "collection",
    "Engine": "engine",
    "Graph": "graph",
    "Recall": "recall",
    "Result": "result",
    "Triplet": "result",
    "open": "store",
    "set_threads": "threads",
}
__all__ = ["Collection", "Engine", "Graph", "Recall", "Result", "Triplet", "open", "set_threads"]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"tercet.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'tercet' has no attribute {name!r}")
