"""Without a limit: byte floors and exact scores of what they let through rank as scoring every edge does."""

import numpy as np
import pytest
import torch

from tercet import Collection, Engine, Graph, floors, full, reach
from tercet_kernels.term_floors import BYTES

pytestmark = pytest.mark.skipif(not BYTES, reason="the processor doesn't multiply bytes")


def unit(x):
    return (x / np.linalg.norm(x, axis=1, keepdims=True)).astype(np.float32)


def drawn(seed, count, width=24, clustered=True):
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(99).standard_normal((12, width))
    noise = rng.standard_normal((count, width))
    return unit(centres[rng.integers(0, 12, count)] + 0.8 * noise if clustered else noise)


def engine_of(seed=0, nodes=600, edges=6000, relations=40, *, vectors=None, ends=None, keyed=None, parts=1, own=False,
              **given):  # fmt: skip
    """An engine over drawn or given vectors; `parts` node collections; `own`: a text an edge."""
    rng = np.random.default_rng(seed)
    ids = [f"n{i:05d}" for i in range(nodes)]
    texts = [f"text {i:05d}" for i in range(edges if own else relations)]
    chosen = np.arange(edges) if own else rng.integers(0, relations, edges)
    source, target = ends if ends is not None else rng.integers(0, nodes, (2, edges))
    columns = {k: given.pop(k) for k in list(given) if k.endswith("weight")}
    table = {"source": np.array(ids)[source], "target": np.array(ids)[target], "relation": np.array(texts)[chosen]}
    table |= {k[5:]: v for k, v in columns.items() if k.startswith("edge_")}
    graph = Graph.from_tables({"id": ids, **{k: v for k, v in columns.items() if k[:5] != "edge_"}}, table)
    rows, named = vectors if vectors is not None else (drawn(seed + 1, nodes), drawn(seed + 2, len(texts)))
    share = np.array_split(rng.permutation(nodes), parts)
    collections = [
        Collection.build(f"names {i}", rows[part], np.array(ids)[part], **given) for i, part in enumerate(share)
    ]
    has = len(texts) if keyed is None else keyed
    collections.append(Collection.build("relations", named[:has], texts[:has], "relation", **given))
    return Engine(graph, collections)


def same(monkeypatch, engine, queries, taken=True, **options):
    """Answers by floors and from all edges are the same bits; returns what `best_edges` gave."""
    seen, inner = [], floors.best_edges
    monkeypatch.setattr(full, "best_edges", lambda *a: seen.append(inner(*a)) or seen[-1])
    monkeypatch.setattr(floors, "LEAST", 0)
    mine = engine.recall(vectors=queries, wide_search_top_k=None, **options)
    monkeypatch.setattr(full, "best_edges", inner)
    monkeypatch.setattr(floors, "LEAST", 1 << 60)
    monkeypatch.setattr(reach, "SMALL", 1 << 60)
    theirs = engine.recall(vectors=queries, wide_search_top_k=None, **options)
    assert torch.equal(mine.edges, theirs.edges)
    assert torch.equal(mine.scores.nan_to_num(-1.0), theirs.scores.nan_to_num(-1.0))
    assert torch.equal(mine.distances, theirs.distances)
    assert mine.status == theirs.status
    assert all((x is not None) == taken for x in seen)
    assert seen
    return seen[0]


@pytest.mark.parametrize("options", [{}, {"top_k": 1}, {"top_k": 200}, {"triplet_distance_penalty": 0.3},
                                     {"triplet_distance_penalty": 0.0}])  # fmt: skip
@pytest.mark.parametrize("count", [1, 2, 3, 40])
def test_equals_everything(monkeypatch, options, count):
    for seed in range(3):
        got = same(monkeypatch, engine_of(seed, own=seed == 1), drawn(50 + seed, count), **options)
        assert options.get("top_k") == 200 or not got.open.all()


def test_a_part_is_read(monkeypatch):
    got = same(monkeypatch, engine_of(4, 3000, 30_000), drawn(7, 20))
    assert not got.open.any()
    assert int(got.edge.shape[0]) == 20 * 5
    assert (got.read < 20_000).all()


@pytest.mark.parametrize("clustered", [True, False])
def test_vectors_of_any_kind_and_width(monkeypatch, clustered):
    for width in (3, 17, 64, 100):
        vectors = tuple(drawn(i, n, width, clustered) for i, n in ((1, 600), (2, 40)))
        same(monkeypatch, engine_of(5, vectors=vectors), drawn(8, 33, width, clustered))


def test_weights(monkeypatch):
    rng = np.random.default_rng(3)
    for high in ([0.0, 0.5, 1.0], [0.0], [1.0], [0.5, 0.6]):
        weights = {"importance_weight": rng.choice(high, 600), "edge_importance_weight": rng.choice(high, 6000)}
        for penalty in (6.5, 0.2):
            engine = engine_of(6, **weights)
            same(monkeypatch, engine, drawn(9, 20), top_k=12, triplet_distance_penalty=penalty)


def test_ties_at_the_threshold(monkeypatch):
    """Few distinct vectors, so that many edges have the very same score."""
    few = drawn(1, 5)
    rng = np.random.default_rng(2)
    vectors = few[rng.integers(0, 5, 600)], few[rng.integers(0, 5, 40)]
    for top_k in (1, 7, 60):
        same(monkeypatch, engine_of(7, vectors=vectors), drawn(10, 20), top_k=top_k)


def test_all_nodes_equal(monkeypatch):
    vectors = np.repeat(drawn(1, 1), 600, axis=0), drawn(2, 40)
    got = same(monkeypatch, engine_of(8, vectors=vectors), drawn(11, 20), top_k=3)
    assert got.open.all()
    got = same(monkeypatch, engine_of(8, vectors=(vectors[0], np.repeat(drawn(3, 1), 40, 0))), drawn(11, 3), top_k=3)
    assert got.open.all()


def test_one_hub_and_loops(monkeypatch):
    rng = np.random.default_rng(4)
    source = np.where(rng.random(6000) < 0.5, 0, rng.integers(0, 600, 6000))
    target = np.where(rng.random(6000) < 0.1, source, rng.integers(0, 600, 6000))
    for near in (False, True):  # whether the hub is what was asked for
        engine = engine_of(9, ends=(source, target))
        queries = drawn(12, 20)
        same(monkeypatch, engine, drawn(10, 600)[:1] if near else queries)


def test_keys_without_a_row(monkeypatch):
    for keyed in (0, 1, 20):
        for penalty in (6.5, 0.1):
            engine = engine_of(10, keyed=keyed)
            same(monkeypatch, engine, drawn(13, 20), triplet_distance_penalty=penalty)


@pytest.mark.parametrize("parts", [2, 5])
def test_several_collections(monkeypatch, parts):
    same(monkeypatch, engine_of(11, parts=parts), drawn(14, 20))
    same(monkeypatch, engine_of(11, parts=parts), drawn(14, 1))


def test_rows_that_change(monkeypatch):
    """Segmented collections: rows that are new, and gone, and a node that came without one."""
    engine = engine_of(12)
    ids = [f"n{i:05d}" for i in (3, 77, 599)]
    engine.upsert(vectors={"names 0": (ids, drawn(15, 3)), "relations": (["text 00004"], drawn(16, 1))})
    for count in (1, 20):
        same(monkeypatch, engine, drawn(17, count))
    engine.delete([ids[0], "n00100"])
    for count in (1, 20):
        same(monkeypatch, engine, drawn(17, count))
    engine.upsert({"id": ["new"]}, {"source": ["new"], "target": ["n00001"], "relation": ["text 00001"]})
    same(monkeypatch, engine, drawn(17, 20), taken=False)
    engine.upsert(vectors={"names 0": (["new"], drawn(18, 1))})
    same(monkeypatch, engine, drawn(17, 20))


def test_what_is_not_built_for_it_is_answered_otherwise(monkeypatch):
    queries = drawn(17, 10)
    rows = drawn(18, 600)
    rows[5] = 0.0
    same(monkeypatch, engine_of(13, dtype="float16"), queries, taken=False)
    hidden = engine_of(14, vectors=(rows, drawn(19, 40)), zero_vectors="hide")
    same(monkeypatch, hidden, queries, taken=False)
    same(monkeypatch, engine_of(14, vectors=(rows, drawn(19, 40))), queries)
    named = drawn(19, 40)
    named[7] = 0.0
    same(monkeypatch, engine_of(14, vectors=(drawn(18, 600), named), zero_vectors="hide"), queries)
    engine = engine_of(15)
    same(monkeypatch, engine, queries, taken=False, filter=np.arange(600) % 3 > 0)
    same(monkeypatch, engine, queries, taken=False, max_distance=0.7)
    same(monkeypatch, engine, queries, taken=False, feedback_influence=0.5)
    same(monkeypatch, engine, queries, taken=False, projection="incident")
    same(monkeypatch, engine, queries, projection="induced")


def test_alone_and_in_a_batch(monkeypatch):
    monkeypatch.setattr(floors, "LEAST", 0)
    engine, queries = engine_of(16), drawn(20, 40)
    together = engine.recall(vectors=queries, wide_search_top_k=None)
    for i, query in enumerate(queries):
        alone = engine.recall(vectors=query, wide_search_top_k=None)
        assert torch.equal(alone.edges[0], together.edges[i])
        assert torch.equal(alone.scores[0], together.scores[i])
