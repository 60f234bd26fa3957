"""What the importers' tests share: the real folders, and the checks that hold for every import."""

from collections import Counter
from pathlib import Path

import pytest

from tercet import Collection, Graph
from tercet.formats.imported import Imported

FOLDERS = Path(__file__).resolve().parents[4] / "shared" / "data" / "importers"


def real(name: str) -> Path:
    """A folder written by the real program, or a skip where it isn't here."""
    if not (FOLDERS / name).is_dir():
        pytest.skip(f"the real folder {name} isn't beside the repository")
    return FOLDERS / name


def built(imported: Imported) -> Graph:
    """The graph of an import, every vector of which became a row of a collection."""
    graph = Graph.from_tables(imported.nodes, imported.edges)
    for v in imported.vectors:
        collection = Collection.build(v.name, v.vectors, v.owner, v.kind)
        assert (collection.size, collection.dimension) == v.vectors.shape
        known = set((graph.ids if v.kind == "node" else graph.keys).to_pylist())
        assert set(collection.owner.to_pylist()) <= known
    return graph


def counted(imported: Imported) -> Counter:
    """How many nodes there are of each first label."""
    return Counter(labels[0] for labels in imported.nodes["labels"].to_pylist())


def row(table, **wanted):
    """The only row with some values."""
    found = [r for r in table.to_pylist() if all(r[k] == v for k, v in wanted.items())]
    assert len(found) == 1, (wanted, len(found))
    return found[0]
