"""What a run was made with: engine, data, machine, libraries. Nothing here tells where files lie."""

import hashlib
import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, distributions, version
from pathlib import Path
from typing import Any

import torch

import tercet
from tercet.graph import Graph

PACKAGES = ("torch", "numba", "numpy", "pyarrow", "scipy", "ir-measures", "pytrec-eval-terrier", "faiss-cpu",
            "sentence-transformers", "bm25s", "ray")  # fmt: skip


def engine_identity(engine: Any) -> dict[str, Any]:
    """Which graph and vectors an engine answers from: the commit of its store, or a hash where there is none.

    An engine that was changed since it was opened is known by its hash.
    """
    state = engine.state
    about = {"mode": engine.rules.name, "scope": engine.scoped_to and sorted(map(str, engine.scoped_to))}
    since = state.since
    as_stored = since is not None and not since.anew and all(
        c.row is None for c in (*since.collections, since.nodes, since.edges)
    )  # fmt: skip
    if state.origin is not None and as_stored:
        return {"store": state.origin.store, "commit": state.origin.commit} | about
    return {"sha256": graph_hash(state.graph, state.collections)} | about


def graph_hash(graph: Graph, collections: Any) -> str:
    """A hash of a graph's ids, edges and texts, and of its collections' owners and vectors."""
    made = hashlib.sha256()
    for tensor in (graph.source, graph.target, graph.relation):
        made.update(tensor.cpu().contiguous().numpy().tobytes())
    for table in (graph.nodes, graph.edges):
        for name in table.column_names:
            made.update(name.encode())
            for value in table.column(name).combine_chunks().to_pylist():
                made.update(repr(value).encode())
    for collection in collections:
        made.update(f"{collection.name} {collection.kind} {collection.index.kind} {collection.size}".encode())
        made.update("\0".join(collection.owner.to_pylist()).encode())
        vectors = getattr(collection.index, "vectors", None)
        if vectors is not None:
            made.update(memoryview(vectors.cpu().contiguous().numpy()).cast("B"))
    return made.hexdigest()


def machine() -> dict[str, Any]:
    """Processor, cores, memory, and the GPU with its driver where there is one."""
    out: dict[str, Any] = {
        "cpu": processor(), "capability": torch.backends.cpu.get_cpu_capability(), "cores": os.cpu_count(),
        "threads": torch.get_num_threads(), "system": f"{platform.system()} {platform.machine()}",
    }  # fmt: skip
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        out["memory_gib"] = round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30, 1)
    if torch.cuda.is_available():
        about = torch.cuda.get_device_properties(0)
        out |= {"gpu": about.name, "gpu_memory_gib": round(about.total_memory / 2**30, 1), "cuda": torch.version.cuda}
    return out


def processor() -> str:
    """The processor's name, where the system tells."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.processor())


def software() -> dict[str, Any]:
    """Versions of Tercet and of what it computes with, and the commit where it runs from a checkout."""
    found = {"tercet": tercet.__version__, "python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return {"versions": found, **_commit()}


def _commit() -> dict[str, Any]:
    root = Path(tercet.__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return {}
    git = ["git", "-C", str(root)]
    try:
        head, changes = (
            subprocess.run([*git, *rest], capture_output=True, text=True, check=True, timeout=10).stdout.strip()
            for rest in (("rev-parse", "--short", "HEAD"), ("status", "--porcelain"))
        )
    except (OSError, subprocess.SubprocessError):
        return {}
    return {"commit": head, "dirty": bool(changes)}


def installed() -> str:
    """All installed distributions, `name==version` a line."""
    found = {(d.metadata["Name"] or "").lower(): d.version for d in distributions() if d.metadata["Name"]}
    return "".join(f"{name}=={number}\n" for name, number in sorted(found.items()))


def described_data(engine: Any) -> dict[str, Any]:
    """Sizes of what was searched."""
    graph = engine.graph
    return {
        "nodes": graph.num_nodes, "edges": graph.num_edges, "relation_types": len(graph.relation_names),
        "collections": [
            {"name": c.name, "kind": c.kind, "rows": c.size, "dimension": c.dimension, "index": c.index.kind,
             "model": None if c.fingerprint is None else c.fingerprint.describe()} for c in engine.collections
        ],
    }  # fmt: skip
