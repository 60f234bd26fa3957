"""How many queries run together, and keys of whole edges."""

import pytest
import torch

import tercet
from tercet import memory
from tercet.errors import InvalidArgument


def engine_of(nodes: int = 40) -> tercet.Engine:
    ids = [f"n{i:03d}" for i in range(nodes)]
    graph = tercet.Graph.from_tables(
        {"id": ids}, {"source": ids, "target": ids[1:] + ids[:1], "relation": ["r"] * nodes}
    )
    generator = torch.Generator().manual_seed(0)
    vectors = torch.randn(nodes, 8, generator=generator)
    return tercet.Engine(graph, [tercet.Collection.build("name", vectors, ids)])


def test_little_memory_means_few_queries_at_once_and_the_same_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = engine_of()
    queries = torch.randn(30, 8, generator=torch.Generator().manual_seed(1))
    whole = engine.recall(vectors=queries)
    assert len(whole.groups) == 1
    monkeypatch.setattr(memory, "SMALL_CALL", 0)
    monkeypatch.setattr(memory, "free_bytes", lambda device: 8 * 96 * 40 * 7)
    parts = engine.recall(vectors=queries)
    assert len(parts.groups) == 5
    assert torch.equal(parts.edges, whole.edges)
    assert torch.equal(parts.scores.nan_to_num(), whole.scores.nan_to_num())


def test_a_small_call_does_not_look_at_free_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "free_bytes", lambda device: pytest.fail("free memory was read"))
    engine_of().recall(vectors=torch.ones(1, 8))
    with pytest.raises(pytest.fail.Exception):
        engine_of().recall(vectors=torch.ones(10_000, 8))


@pytest.mark.parametrize("wrong", [0, -1, True, 2.5])
def test_a_batch_size_that_is_none_is_refused(wrong: object) -> None:
    with pytest.raises(InvalidArgument, match="batch_size"):
        engine_of().recall(vectors=torch.ones(2, 8), batch_size=wrong)  # type: ignore[arg-type]


def test_free_memory_is_read() -> None:
    assert memory.free_bytes(torch.device("cpu")) > 1 << 20


def test_edges_can_be_keys_of_their_own() -> None:
    nodes = {"id": ["a", "b"], "name": ["Alice", None]}
    edges = {"source": ["a", "b", "a"], "target": ["b", "a", "a"], "relation": ["works_with", "knows", "knows"],
             "edge_text": [None, " Own text ", None]}  # fmt: skip
    by_edge = tercet.Graph.from_tables(nodes, edges, edge_keys="edge")
    keys = by_edge.keys.to_pylist()
    assert [keys[k] for k in by_edge.relation_key.tolist()] == ["alice_knows_alice.", "alice_works_with_b.", "own_text"]
    by_text = tercet.Graph.from_tables(nodes, edges)
    assert by_text.keys.to_pylist() == ["knows", "own_text", "works_with"]
    whole = tercet.Collection.build("edges", [[1.0, 0.0], [0.0, 1.0]], ["Alice works with b.", "own text"], "relation")
    names = tercet.Collection.build("names", [[1.0, 0.0], [1.0, 0.1]], ["a", "b"])
    best = tercet.Engine(by_edge, [names, whole]).recall(vectors=[1.0, 0.0])[0]
    assert best.triplets[0].relation == "works_with"
    assert best.distances[0, 2] == 0.0
