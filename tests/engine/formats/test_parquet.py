"""Parquet folders: a graph and its vectors, there and back."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given

from tercet.collection import Collection
from tercet.engine import Engine
from tercet.errors import InvalidArgument, InvalidData
from tercet.formats import parquet_folder
from tercet.formats.export import to_parquet
from tercet.graph import Graph
from tests.engine.formats.random_graphs import facts, graph_of, graphs, round_trips


@round_trips
@given(graphs())
def test_there_and_back(tmp_path_factory, graph):
    folder = tmp_path_factory.mktemp("parquet")
    to_parquet(graph, folder)
    got = parquet_folder.read(folder)
    back = graph_of(got)
    assert facts(back) == facts(graph)
    assert back.nodes.schema == graph.nodes.schema
    assert back.edges.schema == graph.edges.schema
    assert got.vectors == ()


def small_engine():
    graph = Graph.from_tables(
        {"id": ["b", "a", "c"], "born": pa.array([1, None, 3], pa.date32())},
        {"source": ["a", "b"], "target": ["b", "c"], "relation": ["R", "S"]},
    )
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((3, 5)).astype(np.float32)
    nodes = Collection.build("Entity_name", rows, ["c", "a", "b"], fingerprint="some-model")
    halves = Collection.build("halves", rows, ["c", "a", "b"], dtype="float16")
    relations = Collection.build("EdgeType_relationship_name", rows[:2], ["R", "S"], "relation")
    return Engine(graph, [nodes, halves, relations], device="cpu")


def test_collections(tmp_path):
    engine = small_engine()
    to_parquet(engine, tmp_path / "out")
    got = parquet_folder.read(tmp_path / "out")
    assert [(v.name, v.kind, v.model, v.metric) for v in got.vectors] == [
        ("Entity_name", "node", "some-model", "cosine"),
        ("halves", "node", None, "cosine"),
        ("EdgeType_relationship_name", "relation", None, "cosine"),
    ]
    assert got.nodes["born"].type == pa.date32()
    again = [Collection.build(v.name, v.vectors, v.owner, v.kind, fingerprint=v.model) for v in got.vectors]
    other = Engine(graph_of(got), again, device="cpu")
    for mine, theirs in zip(engine.collections, other.collections, strict=True):
        assert mine.owner.equals(theirs.owner)
        np.testing.assert_allclose(
            parquet_folder.stored_vectors(mine), parquet_folder.stored_vectors(theirs), rtol=1e-3, atol=1e-7
        )
    mine, theirs = (parquet_folder.stored_vectors(e.collections[0]).numpy() for e in (engine, other))
    np.testing.assert_allclose(mine, theirs, atol=1e-7)
    assert got.report.tables["collections/002.parquet"] == (2, 2)


def test_refusals(tmp_path):
    graph = small_engine().graph
    to_parquet(graph, tmp_path / "out")
    with pytest.raises(InvalidArgument, match="expected a new or an empty folder"):
        to_parquet(graph, tmp_path / "out")
    (tmp_path / "out" / "collections").mkdir()
    pyarrow.parquet.write_table(pa.table({"owner": ["a"]}), tmp_path / "out" / "collections" / "0.parquet")
    with pytest.raises(InvalidData, match=r"0\.parquet: not a collection"):
        parquet_folder.read(tmp_path / "out")
    (tmp_path / "out" / "collections" / "0.parquet").write_bytes(b"PAR1")
    with pytest.raises(InvalidData, match=r"0\.parquet: "):
        parquet_folder.read(tmp_path / "out")
    with pytest.raises(InvalidArgument, match="expected a folder"):
        parquet_folder.read(tmp_path / "absent")
