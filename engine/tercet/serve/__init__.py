"""Serving: any number of callers, gathered into batches for one worker that owns the device."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tercet.serve.async_engine import AsyncEngine
    from tercet.serve.pool import Pool
    from tercet.serve.reply import Reply

__all__ = ["AsyncEngine", "Pool", "Reply"]
_MODULES = {"AsyncEngine": "async_engine", "Pool": "pool", "Reply": "reply"}


def __getattr__(name: str) -> Any:  # an engine imports this package, and what is named here imports an engine's parts
    if name not in _MODULES:
        raise AttributeError(f"module 'tercet.serve' has no attribute {name!r}")
    return getattr(import_module(f"tercet.serve.{_MODULES[name]}"), name)
