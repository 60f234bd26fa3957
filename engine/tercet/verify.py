"""Everything about a store that can be checked, in one table: `tercet verify PATH`."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch

from tercet import remote
from tercet.collection import Collection
from tercet.datasets import crossing, dataset_codes, has_datasets
from tercet.errors import StoreError, TercetError
from tercet.graph import Adjacency, Graph
from tercet.index.exact import ExactIndex
from tercet.index.segmented import SegmentedIndex, rows_of
from tercet.store import collection_of, graph_of, text_of
from tercet.store_files import check_file, folders, read_manifest, unknown_files

ROWS = 1 << 15  # vectors looked at together
FLOAT32_OFF, FLOAT16_OFF = 1e-4, 1e-2  # how far from 1 the norm of a stored row may be
SHOWN = 3
UNREADABLE = (TercetError, OSError, ValueError, KeyError, TypeError, pa.ArrowInvalid)


@dataclass(frozen=True)
class Check:
    """One thing that was looked at."""

    what: str
    good: bool
    found: str  # what is wrong, or how much was looked at


def verify(path: str | Path) -> list[Check]:
    """Check a store: every file's size and hash, what refers to what, ids, weights, vectors.

    A file that is damaged doesn't stop the checks of the others; what can't be read is one failed check.

    Raises:
        StoreError: there is no store at all.
    """
    manifest, root = read_manifest(remote.folder_of(path))
    checks = list(_files(manifest, root))
    graph: Graph | None = None
    try:
        graph = graph_of(manifest, root)
        checks.append(Check("graph", True, f"{graph.num_nodes:,} nodes, {graph.num_edges:,} edges"))
    except UNREADABLE as error:
        checks.append(Check("graph", False, str(error)))
    if graph is not None:
        checks += _graph(graph)
    for i, about in enumerate(manifest["collections"]):
        name = f"collection {about.get('name', i)!r}"
        try:
            collection = collection_of(about, root)
        except UNREADABLE as error:
            checks.append(Check(name, False, str(error)))
            continue
        checks += _collection(name, collection, graph)
    try:
        text = text_of(manifest, root)
    except UNREADABLE as error:
        checks.append(Check("text index", False, str(error)))
    else:
        if text is not None:
            checks.append(Check("text index", True, f"{len(text.text.vocabulary):,} words"))
    return checks


def _files(manifest: dict[str, Any], root: Path) -> Iterator[Check]:
    """Every file by itself, so that all damaged ones are named."""
    wrong = 0
    total = 0
    for name, want in manifest["files"].items():
        try:
            check_file(root, name, want, hashes=True)
            total += want["bytes"]
        except StoreError as error:
            wrong += 1
            yield Check(f"file {name}", False, str(error))
    unknown = unknown_files(manifest, root)
    for name in unknown:
        yield Check(f"file {name}", False, "the manifest doesn't name it")
    if not wrong and not unknown:
        parts = len(folders(manifest))
        yield Check(
            "files", True, f"{len(manifest['files'])} files in {parts} parts, {total:,} bytes, hashes as written"
        )


def _graph(graph: Graph) -> Iterator[Check]:
    ids = graph.ids
    repeats = len(ids) - len(pc.unique(ids))
    yield Check("node ids", repeats == 0 and ids.null_count == 0, f"{repeats} repeated, {ids.null_count} missing"
                if repeats or ids.null_count else f"{len(ids):,} distinct")  # fmt: skip
    if graph.order == "canonical" and len(ids) > 1:
        rising = bool(pc.all(pc.less(ids[:-1], ids[1:])).as_py())
        yield Check("node order", rising, "ascending by id" if rising else "ids aren't ascending: they can't be found")
    own = graph.edges.column("id").combine_chunks().drop_null()
    again = len(own) - len(pc.unique(own))
    yield Check("edge ids", again == 0, f"{again} repeated" if again else f"{len(own):,} distinct")
    for name, lists, key, far in (
        ("out", graph.out, graph.source, graph.target), ("into", graph.into, graph.target, graph.source),
    ):  # fmt: skip
        yield _adjacency(name, lists, key, far)
    yield _oriented(graph)
    yield from _datasets(graph)
    for name in ("importance", "feedback", "edge_importance", "edge_feedback"):
        values = getattr(graph, name)
        bad = torch.nonzero(~((values >= 0) & (values <= 1))).flatten()
        yield Check(
            name, not len(bad), f"{len(bad)} outside [0, 1], first row {int(bad[0])}" if len(bad) else "in [0, 1]"
        )


def _datasets(graph: Graph) -> Iterator[Check]:
    if has_datasets(graph):
        rows = crossing(graph)
        names = dataset_codes(graph)[0]
        wrong = f"{len(rows)} edges join datasets, first row {int(rows[0])}" if len(rows) else ""
        yield Check("datasets", not wrong, wrong or f"{len(names)}, apart")


def _adjacency(name: str, lists: Adjacency, key: torch.Tensor, far: torch.Tensor) -> Check:
    """Whether the lists hold every edge once, at its end, in ascending order."""
    owner = torch.repeat_interleave(torch.arange(lists.indptr.shape[0] - 1), lists.indptr.diff())
    edge = lists.edge.long()
    each = torch.bincount(edge, minlength=key.shape[0])
    problems = {
        "edges missing or repeated": int((each != 1).sum()),
        "entries at another node than the edge's end": int((key[edge].long() != owner).sum()),
        "far ends that aren't the edge's": int((far[edge] != lists.other).sum()),
        "entries out of order": int(((edge[1:] <= edge[:-1]) & (owner[1:] == owner[:-1])).sum()),
    }
    wrong = [f"{count} {what}" for what, count in problems.items() if count]
    return Check(f"adjacency {name!r}", not wrong, "; ".join(wrong) or f"{len(edge):,} entries")


def _oriented(graph: Graph) -> Check:
    lists = graph.oriented
    owner = torch.repeat_interleave(torch.arange(lists.indptr.shape[0] - 1), lists.indptr.diff())
    edge = lists.edge.long()
    source, target = graph.source[edge].long(), graph.target[edge].long()
    each = torch.bincount(edge, minlength=graph.num_edges)
    fits = ((source == owner) & (target == lists.other)) | ((target == owner) & (source == lists.other))
    wrong = int((each != 1).sum()) + int((~fits).sum())
    return Check(
        "adjacency 'oriented'", wrong == 0, f"{wrong} entries are wrong" if wrong else f"{len(edge):,} entries"
    )


def _collection(name: str, collection: Collection, graph: Graph | None) -> Iterator[Check]:
    if graph is not None:
        known = graph.ids if collection.kind == "node" else graph.keys
        lost = np.flatnonzero(~np.asarray(pc.is_in(collection.owner, value_set=known)))
        shown = ", ".join(repr(collection.owner[int(i)].as_py()) for i in lost[:SHOWN])
        what = "node" if collection.kind == "node" else "relation text"
        # texts that no edge has any more do no harm: nothing finds them
        yield Check(f"{name}: owners", not len(lost) or collection.kind == "relation",
                    f"{len(lost)} of {collection.size} are no {what} of the graph: {shown}" if len(lost)
                    else f"{collection.size:,} are {what}s of the graph")  # fmt: skip
    index = collection.index
    if isinstance(index, SegmentedIndex):
        for i, segment in enumerate(index.segments):
            exact = rows_of(segment.index)
            yield _vectors(f"{name}, piece {i}", exact.vectors, exact.scale, collection, segment.row.numpy())
            yield from _codes(f"{name}, piece {i}", exact)
        return
    vectors = getattr(index, "vectors", None)
    if isinstance(vectors, torch.Tensor):
        yield _vectors(name, vectors, getattr(index, "scale", None), collection, np.arange(collection.size))
    if isinstance(index, ExactIndex):
        yield from _codes(name, index)


def _codes(name: str, index: ExactIndex) -> Iterator[Check]:
    """Whether stored codes are as near to the rows as they say: a search relies on that."""
    codes = index.stored
    if codes is None:
        return
    wrong: list[int] = []
    for low in range(0, index.size, ROWS):
        part = slice(low, min(low + ROWS, index.size))
        rows = index.vectors[part].double()
        if index.scale is not None:
            rows = (rows * index.scale[part, None]).float().double()  # what was encoded
        code = codes.code[part].double()
        made = codes.step[part, None].double() * code[:, : index.dimension]
        far = (rows - made).norm(dim=1) > codes.error[part]
        far |= (codes.first[part] != -128 * code.sum(dim=1)) | (code[:, index.dimension :] != 0).any(dim=1)
        far |= code.norm(dim=1) > codes.longest
        wrong += (torch.nonzero(far).flatten() + low).tolist()
    told = f"{len(wrong)} rows differ from what is said of them, first {wrong[0]}" if wrong else f"{index.size:,} rows"
    yield Check(f"{name}: codes", not wrong, told)


def _vectors(
    name: str, vectors: torch.Tensor, scale: torch.Tensor | None, collection: Collection, row: np.ndarray
) -> Check:
    """Finite numbers, and unit norms where rows are stored so; `row` (v,) of the collection, -1 for what is gone."""
    infinite, off = [], []
    zero = set(np.flatnonzero((row < 0) | np.isin(row, collection.zero_norm)).tolist())
    for low in range(0, vectors.shape[0], ROWS):
        part = vectors[low : low + ROWS].double()
        bad = ~torch.isfinite(part).all(dim=1)
        infinite += (torch.nonzero(bad).flatten() + low).tolist()
        norm = part.norm(dim=1)
        if scale is not None:
            norm = norm * scale[low : low + ROWS]
        limit = FLOAT32_OFF if vectors.dtype == torch.float32 else FLOAT16_OFF
        away = torch.nonzero(~bad & ((norm - 1).abs() > limit)).flatten() + low
        off += [i for i in away.tolist() if i not in zero]
    if getattr(collection.index, "kind", "") == "raw":
        off = []  # kept as they were given
    wrong = [f"{len(rows)} rows {what}, first {rows[0]}"
             for what, rows in (("with NaN or infinity", infinite), ("whose norm isn't 1", off)) if rows]  # fmt: skip
    told = f"{vectors.shape[0]:,} x {vectors.shape[1]} finite" + (f", {len(zero)} zero or deleted" if zero else "")
    return Check(f"{name}: vectors", not wrong, "; ".join(wrong) or told)
