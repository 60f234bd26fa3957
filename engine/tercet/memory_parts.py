"""What an engine holds, in bytes by part: of an engine as it is, or of a store by its manifest and file headers."""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from tercet.arrays import is_repeated
from tercet.collection import Collection
from tercet.graph import Graph
from tercet.index.codes import FILES
from tercet.index.exact import ExactIndex
from tercet.index.segmented import SegmentedIndex
from tercet.remote import folder_of
from tercet.retrieve.lexical import LexicalIndex
from tercet.store_files import check_files, read_manifest, read_table
from tercet.store_parts import SAME, WEIGHTS
from tercet_kernels.nearest import Codes

MAPS = Path("/proc/self/maps")
TABLES = (".arrow",)  # text, which stays on the host
VECTORS = ("vectors.npy", "scale.npy", "hidden.npy")
CODES = "codes of"  # begins the name of what only the CPU's searches read
FAISS = "index.faiss"
ONE_NUMBER = 256  # bytes of a file with one number: a header and it


@dataclass(frozen=True)
class Part:
    """Bytes that stay as long as the engine does."""

    name: str
    bytes: int
    mapped: int = 0  # of these, pages of files: read when they are used, and dropped when memory is short
    device: str = "cpu"  # where they are, or will be once the engine is there
    waits: bool = False  # vectors and text: they may stay in their files until they are used
    host: bool = False  # it stays in the host's memory, whatever the device
    apart: int = 0  # bytes more on another device, where equal columns don't share memory, nor equal rows of one


@dataclass(frozen=True)
class Rows:
    """The size of a collection."""

    kind: str  # node or relation
    index: str
    rows: int
    dimension: int
    half: bool  # float16
    coded: bool = False  # its codes are in the store


@dataclass(frozen=True)
class Sizes:
    """What a plan is made of."""

    mode: str
    nodes: int
    edges: int
    keys: int
    order: str
    id_bytes: int  # of the nodes' ids as text
    collections: tuple[Rows, ...]
    parts: tuple[Part, ...]
    encoder: str | None
    bound: bool  # whether the owners have been looked up; their rows are among the parts then
    equal: bool  # all nodes have the same weights


def of_store(path: str | Path) -> Sizes:
    """The sizes of a store, of which only the manifest and the headers of two tables are read.

    Raises:
        StoreError: not a store, or a file is missing or has another length than the manifest says.
    """
    manifest, root = read_manifest(folder_of(path))
    check_files(manifest, root, hashes=False)
    about, parts, rows = manifest["graph"], [], []
    files = _files(manifest, about)
    text = sum(n for name, n in files if name.endswith(TABLES))
    whole = not about["deltas"]  # what is put together of several pieces isn't mapped any more
    arrays = sum(n for _, n in files) - text
    parts.append(Part("graph arrays", arrays, arrays if whole else 0, apart=_unwritten(about, dict(files))))
    parts.append(Part("node and edge text", text, text if whole else 0, waits=whole, host=True))
    for c in manifest["collections"]:
        sizes = _files(manifest, c)
        vectors, faiss, codes = (sum(n for name, n in sizes if name in names) for names in (VECTORS, (FAISS,), FILES))
        parts.append(Part(f"vectors of {c['name']}", vectors, vectors, waits=True))
        if codes:
            parts.append(Part(f"{CODES} {c['name']}", codes, codes, waits=True))
        if faiss:
            parts.append(Part(f"index of {c['name']}", faiss))
        parts.append(Part(f"owners of {c['name']}", sum(n for _, n in sizes) - vectors - faiss - codes, host=True))
        item = _first(manifest, c, VECTORS[0]) / max(c["base_rows"] * c["dimension"], 1)
        rows.append(Rows(c["kind"], c["index"], c["rows"], c["dimension"], item < 3, codes > 0))
    if (lexical := manifest.get("lexical")) is not None:
        count = sum(n for _, n in _files(manifest, lexical))
        parts.append(Part("text index", count, count))
    folder = root / about["folder"]
    return Sizes(
        manifest["mode"], about["nodes"], about["edges"], read_table(folder / "keys.arrow").num_rows, about["order"],
        read_table(folder / "nodes.arrow").column("id").nbytes, tuple(rows), tuple(parts), manifest["encoder"], False,
        all(_first(manifest, about, f"{name}.npy") <= ONE_NUMBER for name in WEIGHTS[:2]),
    )  # fmt: skip


def of_engine(
    graph: Graph, collections: Sequence[Collection], mode: str, *, encoder: str | None = None, lexical: Any = None,
    bound: Any = None, tell_mapped: bool = True,
) -> Sizes:  # fmt: skip
    """The sizes of a graph and its collections in memory, and of what else an engine has made of them."""
    pages = _mapped_ranges() if tell_mapped else ([], [])
    held = [getattr(graph, f.name) for f in fields(graph)]
    text = [x for x in held if isinstance(x, (pa.Table, pa.Array))]
    arrays = [x for x in held if not isinstance(x, (pa.Table, pa.Array))]
    parts = [_part("graph arrays", arrays, pages), _part("node and edge text", text, pages, waits=True, host=True)]
    rows = []
    for c in collections:
        parts.append(_part(f"vectors of {c.name}", c.index, pages, waits=True))
        if stored := stored_codes(c.index):
            parts.append(_part(f"{CODES} {c.name}", [tuple(x) for x in stored], pages, waits=True))
        if faiss := faiss_bytes(c.index):
            parts.append(Part(f"index of {c.name}", faiss, device=parts[-1].device))
        parts.append(_part(f"owners of {c.name}", [c.owner, c.set_indptr, c.set_member], pages, host=True))
        half = any(x.dtype == torch.float16 for x in _leaves(c.index) if isinstance(x, torch.Tensor))
        rows.append(Rows(c.kind, c.index.kind, c.size, c.dimension, half, bool(stored)))
    if bound is not None:
        parts.append(_part("rows of owners", [(b.owner, b.by_owner) for b in bound], pages))
    words = lexical if isinstance(lexical, LexicalIndex) else graph.__dict__.get("_lexical", (None, None))[1]
    if words is not None:
        parts.append(_part("text index", words, pages))
    return Sizes(
        mode, graph.num_nodes, graph.num_edges, len(graph.keys), graph.order, graph.ids.nbytes, tuple(rows),
        tuple(parts), encoder, bound is not None, is_repeated(graph.importance) and is_repeated(graph.feedback),
    )  # fmt: skip


def stored_codes(index: Any) -> list[Codes]:
    """The codes that came with the rows of an index."""
    pieces = [s.index for s in index.segments] if isinstance(index, SegmentedIndex) else [index]
    return [x.stored for x in pieces if isinstance(x, ExactIndex) and x.stored is not None]


def faiss_bytes(index: Any) -> int:
    """What FAISS keeps beside the vectors, by the layout of its indexes; a GPU's graph and lists alike."""
    whole = index.segments[0].index if hasattr(index, "segments") else index
    if getattr(whole, "ann", None) is None:
        return 0
    rows, width, given = whole.size, whole.dimension, whole.options
    if whole.kind == "hnsw":  # float16 copies, and twice M links on the lowest level
        return rows * (2 * width + 8 * given["M"] + 8)
    if whole.kind == "cagra":
        return rows * (4 * width + 4 * given["graph_degree"])
    code = given["m"] if whole.kind == "pq" else 4 * width
    return rows * (code + 8) + 4 * width * given["nlist"]


def _part(
    name: str, value: Any, pages: tuple[list[int], list[int]], *, waits: bool = False, host: bool = False
) -> Part:
    """The memory of a value, shared pieces counted once."""
    seen: dict[int, tuple[int, bool]] = {}
    device, every = "cpu", 0
    for leaf in _leaves(value):
        if isinstance(leaf, torch.Tensor):
            every += leaf.nbytes
            if leaf.device.type != "cpu":
                device = str(leaf.device)
            there = leaf[:1] if leaf.dim() == 1 and leaf.stride(0) == 0 else leaf
            seen[leaf.data_ptr()] = (there.nbytes, leaf.device.type == "cpu" and _inside(leaf.data_ptr(), pages))
        elif isinstance(leaf, np.ndarray):
            every += leaf.nbytes
            seen[leaf.ctypes.data] = (leaf.nbytes, _inside(leaf.ctypes.data, pages))
        else:
            seen |= {b.address: (b.size, _inside(b.address, pages)) for b in leaf.buffers() if b is not None}
    mapped = sum(n for n, inside in seen.values() if inside)
    own = sum(n for n, _ in seen.values())
    return Part(name, own, mapped, device, waits, host, 0 if host or device != "cpu" else max(0, every - own))


def _leaves(value: Any) -> Iterator[Any]:
    """Tensors, arrays and Arrow arrays in a value, its fields and what they hold."""
    if isinstance(value, Codes):
        return  # a part of their own
    if isinstance(value, (torch.Tensor, np.ndarray, pa.Array)):
        yield value
    elif isinstance(value, pa.Table):
        for column in value.columns:
            yield from column.chunks
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _leaves(item)
    elif is_dataclass(value) and not isinstance(value, type):
        for f in fields(value):
            yield from _leaves(getattr(value, f.name))


def _mapped_ranges() -> tuple[list[int], list[int]]:
    """Begins and ends of this process's address ranges that are mapped from files; empty where nothing tells."""
    begins, ends = [], []
    if MAPS.exists():
        for line in MAPS.read_text().splitlines():
            span, _, _, _, inode = line.split(maxsplit=5)[:5]
            if inode != "0":
                low, high = span.split("-")
                begins.append(int(low, 16))
                ends.append(int(high, 16))
    return begins, ends


def _inside(address: int, ranges: tuple[list[int], list[int]]) -> bool:
    at = bisect_right(ranges[0], address) - 1
    return at >= 0 and address < ranges[1][at]


def _files(manifest: Mapping[str, Any], about: Mapping[str, Any]) -> list[tuple[str, int]]:
    """Names and bytes of the files of a part, those of its deltas among them."""
    folders = [about["folder"], *(d["folder"] for d in about.get("deltas", ()))]
    return [
        (name.rpartition("/")[2], found["bytes"])
        for name, found in manifest["files"].items()
        if name.rpartition("/")[0] in folders
    ]


def _unwritten(about: Mapping[str, Any], files: Mapping[str, int]) -> int:
    """Bytes of columns that the files of a graph hold one number of, or under another name only."""
    edges, nodes = about["edges"], about["nodes"]
    full = {f"{n}.npy": 8 * (edges if n.startswith("edge_") else nodes) for n in WEIGHTS}
    full |= {f"{n}.npy": 4 * edges for n in SAME}
    return sum(max(0, n - files.get(name, 0)) for name, n in full.items())


def _first(manifest: Mapping[str, Any], about: Mapping[str, Any], name: str) -> int:
    found = manifest["files"].get(f"{about['folder']}/{name}")
    return 0 if found is None else int(found["bytes"])
