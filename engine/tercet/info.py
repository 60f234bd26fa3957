"""What an engine is made of: sizes, device, threads, versions, the kernels that serve it."""

import platform
import sys
from dataclasses import dataclass, fields, is_dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

import numba
import numpy as np
import torch

import tercet
from tercet.collection import Collection
from tercet.threads import cores
from tercet_kernels._forms import forms

if TYPE_CHECKING:
    from tercet.engine import Engine

PACKAGES = ("torch", "numba", "numpy", "pyarrow")
OPTIONAL = {"faiss": "faiss-cpu", "triton": "triton", "sentence_transformers": "sentence-transformers"}  # by module
UNITS = ("B", "KB", "MB", "GB", "TB")


@dataclass(frozen=True)
class CollectionInfo:
    """One collection."""

    name: str
    kind: str
    rows: int
    dimension: int
    index: str
    bytes: int  # arrays of the index, and owners; lists that FAISS keeps inside aren't counted


@dataclass(frozen=True)
class Info:
    """An engine in numbers; `print` shows it as a table."""

    mode: str
    device: str
    nodes: int
    edges: int
    relations: int
    keys: int  # distinct texts that edges share distances by
    graph_bytes: int  # tensors
    text_bytes: int  # tables of nodes and edges, on the host
    collections: tuple[CollectionInfo, ...]
    encoder: str | None
    threads: int  # of this thread; see `set_threads`
    cores: int
    kernel_threads: int  # the most that Numba may use
    versions: dict[str, str]
    kernels: dict[str, str]  # form of each op: numba, triton or torch

    def __str__(self) -> str:
        lines = [
            ("mode", self.mode),
            ("device", self.device),
            ("graph", f"{self.nodes:,} nodes, {self.edges:,} edges, {self.relations:,} relations, {self.keys:,} keys"),
            ("memory", f"{size_text(self.graph_bytes)} of arrays, {size_text(self.text_bytes)} of text"),
            *(
                (f"{c.kind} collection", f"{c.name}: {c.rows:,} x {c.dimension}, {c.index}, {size_text(c.bytes)}")
                for c in self.collections
            ),
            ("encoder", self.encoder or "none"),
            ("threads", f"{self.threads} of {self.cores} cores, kernels at most {self.kernel_threads}"),
            ("versions", ", ".join(f"{name} {number}" for name, number in self.versions.items())),
            ("kernels", ", ".join(f"{op} {form}" for op, form in self.kernels.items())),
        ]
        width = max(len(name) for name, _ in lines)
        return "\n".join(f"{name:<{width}}  {text}" for name, text in lines)

    __repr__ = __str__


def info_of(engine: "Engine") -> Info:
    """See `Engine.info`."""
    graph = engine.graph
    return Info(
        mode=engine.rules.name,
        device=str(engine.device),
        nodes=graph.num_nodes,
        edges=graph.num_edges,
        relations=len(graph.relation_names),
        keys=len(graph.keys),
        graph_bytes=held(graph),
        text_bytes=graph.nodes.nbytes + graph.edges.nbytes,
        collections=tuple(_collection(c) for c in engine.collections),
        encoder=None if engine.encoder is None else engine.encoder.fingerprint().describe(),
        threads=torch.get_num_threads(),
        cores=cores(),
        kernel_threads=numba.config.NUMBA_NUM_THREADS,
        versions=_versions(),
        kernels=forms(engine.device),
    )


def _collection(c: Collection) -> CollectionInfo:
    return CollectionInfo(c.name, c.kind, c.size, c.dimension, c.index.kind, held(c.index) + c.owner.nbytes)


def held(value: Any) -> int:
    """Bytes of the tensors and NumPy arrays in a value, its fields and what they hold."""
    if isinstance(value, (torch.Tensor, np.ndarray)):
        return int(value.nbytes)
    if isinstance(value, (list, tuple)):
        return sum(held(x) for x in value)
    if is_dataclass(value) and not isinstance(value, type):
        return sum(held(getattr(value, f.name)) for f in fields(value))
    return 0


def _versions() -> dict[str, str]:
    out = {"tercet": tercet.__version__, "python": platform.python_version()}
    for package in [*PACKAGES, *(name for module, name in OPTIONAL.items() if module in sys.modules)]:
        try:
            out[package] = version(package)
        except PackageNotFoundError:  # built from source under another name
            out[package] = "unknown"
    return out


def size_text(count: int) -> str:
    """Bytes in the unit that suits them."""
    amount, unit = float(count), 0
    while amount >= 1000 and unit < len(UNITS) - 1:
        amount, unit = amount / 1000, unit + 1
    return f"{amount:.0f} {UNITS[unit]}" if unit == 0 else f"{amount:.1f} {UNITS[unit]}"
