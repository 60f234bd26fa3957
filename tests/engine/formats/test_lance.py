"""Collections as Lance datasets, and back."""

import sys

import numpy as np
import pyarrow as pa
import pytest
import torch

from tercet import Collection
from tercet.errors import InvalidArgument, InvalidData, MissingDependency
from tercet.formats.lance import from_lance, to_lance

IDS = ["c", "a", "b"]
ROWS = np.array([[3.0, 4.0], [1.0, 0.0], [0.0, 2.0]], np.float32)


def test_there_and_back(tmp_path) -> None:
    lance = pytest.importorskip("lance", reason="lance isn't installed")
    made = Collection.build("names", ROWS, IDS)
    to_lance(made, tmp_path / "n.lance", {"name": ["A", "B", "C"]})
    table = lance.dataset(str(tmp_path / "n.lance")).to_table()
    assert table.schema.field("vector").type == pa.list_(pa.float32(), 2)
    assert table["id"].to_pylist() == ["a", "b", "c"]
    assert table["vector"].to_pylist()[2] == pytest.approx([0.6, 0.8])
    again, others = from_lance(tmp_path / "n.lance", "names")
    assert again.owner.equals(made.owner)
    assert torch.allclose(again.index.vectors, made.index.vectors)
    assert others.to_pydict() == {"id": ["a", "b", "c"], "name": ["A", "B", "C"]}
    half = Collection.build("half", ROWS, IDS, dtype="float16")
    to_lance(half, tmp_path / "n.lance")
    newer, others = from_lance(tmp_path / "n.lance", "half", dtype="float16")
    assert newer.index.vectors.dtype == torch.float16
    assert others.schema.names == ["id"]
    assert from_lance(tmp_path / "n.lance", "names", version=1)[1].schema.names == ["id", "name"]


def test_what_does_not_fit(tmp_path) -> None:
    pytest.importorskip("lance", reason="lance isn't installed")
    made = Collection.build("names", ROWS, IDS)
    for columns in ({"id": IDS}, {"name": ["A"]}):
        with pytest.raises(InvalidArgument, match="columns: expected 3 values"):
            to_lance(made, tmp_path / "n.lance", columns)
    with pytest.raises(InvalidData, match="not a readable Lance dataset"):
        from_lance(tmp_path / "nowhere", "names")
    to_lance(made, tmp_path / "n.lance")
    with pytest.raises(InvalidData, match="expected a column 'embedding'"):
        from_lance(tmp_path / "n.lance", "names", vector="embedding")


def test_tells_what_to_install(tmp_path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "lance", None)
    with pytest.raises(MissingDependency, match=r"tercet\[lance\]"):
        from_lance(tmp_path, "names")
