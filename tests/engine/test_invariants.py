"""What must hold for any graph: an answer depends on the query, the graph and the settings alone."""

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pytest
import torch

import tercet
from tercet import Collection, Engine, Graph
from tests.engine.small import same

NODES, EDGES, QUERIES = 2000, 8000, 256
SIZES = (1, 2, 7, 19, 20, 21, 64, 255, 256)
CHECKED = (0, 1, 2, 5, 6, 18, 19, 20, 40, 63, 200, 254, 255)  # places compared with the query alone
RELATIONS = [f"relation {i}" for i in range(40)]


@dataclass(frozen=True, eq=False)
class Tables:
    nodes: dict[str, Any]
    edges: dict[str, Any]
    collections: list[tuple[str, str, np.ndarray, list[str]]]  # name, kind, vectors, owners
    queries: np.ndarray

    def load(self, seed: int | None = None, dtype: str = "float32", **options: Any) -> Engine:
        """An engine over the tables; a seed shuffles the rows of all of them."""
        rng = np.random.default_rng(seed)
        order = rng.permutation if seed is not None else np.arange
        nodes, edges = (_taken(t, order(len(next(iter(t.values()))))) for t in (self.nodes, self.edges))
        found = []
        for name, kind, vectors, owners in self.collections:
            rows = order(len(owners))
            found.append(Collection.build(name, vectors[rows], [owners[i] for i in rows], kind, dtype=dtype))
        return Engine(Graph.from_tables(nodes, edges), found, **options)


def _taken(table: dict[str, Any], rows: np.ndarray) -> dict[str, Any]:
    return {name: [column[i] for i in rows] for name, column in table.items()}


@functools.cache
def tables(width: int = 32, nodes: int = NODES, edges: int = EDGES) -> Tables:
    """Hubs, parallel edges, self loops, repeated vectors, nodes in two collections and in none."""
    rng = np.random.default_rng(width)
    ids = [f"n{i:05d}" for i in rng.permutation(nodes)]
    skewed = lambda n: np.minimum(rng.pareto(0.6, n) * 3, nodes - 1).astype(int)  # noqa: E731
    table = {
        "source": [ids[i] for i in rng.integers(0, nodes, edges)],
        "target": [ids[i] for i in skewed(edges)],
        "relation": [RELATIONS[i] for i in rng.integers(0, len(RELATIONS), edges)],
        "feedback_weight": rng.random(edges).round(1).tolist(),
    }
    named = {
        "id": ids,
        "group": rng.integers(0, 4, nodes).tolist(),
        "importance_weight": rng.random(nodes).round(1).tolist(),
        "feedback_weight": rng.random(nodes).round(1).tolist(),
        "belongs_to_set": [[s for s in ("s", "t") if rng.random() < 0.4] for _ in range(nodes)],
    }
    base = rng.normal(size=(nodes // 4, width))
    pick = lambda n: base[rng.integers(0, len(base), n)] + rng.choice((0.0, 0.3), (n, 1)) * rng.normal(size=(n, width))  # noqa: E731
    collections = [
        ("Entity_name", "node", pick(nodes * 9 // 10), ids[: nodes * 9 // 10]),
        ("Chunk_text", "node", pick(nodes // 2), [ids[i] for i in rng.integers(0, nodes, nodes // 2)]),
        ("Relation", "relation", pick(len(RELATIONS)), RELATIONS),
    ]
    queries = pick(QUERIES) + 0.2 * rng.normal(size=(QUERIES, width))
    return Tables(named, table, collections, queries.astype(np.float32))


@functools.cache
def engine_on(device: str, width: int = 32, nodes: int = NODES, edges: int = EDGES) -> Engine:
    return tables(width, nodes, edges).load(device=device)


GROUPS = [None, pc.field("group") == 1, pc.field("group") > 1, pc.field("group") == 9]
ASKED = {
    "limited": {},
    "narrow": {"wide_search_top_k": 30},
    "unlimited": {"wide_search_top_k": None},
    "unlimited induced": {"wide_search_top_k": None, "projection": "induced"},
    "incident": {"projection": "incident"},
    "neighborhood": {"neighborhood_depth": 1, "neighborhood_seed_top_k": 3},
    "unlimited neighborhood": {"neighborhood_depth": 1, "neighborhood_seed_top_k": 3, "wide_search_top_k": None},
    "nodeset": {"node_name": ["s", "t"], "node_name_filter_operator": "AND"},
    "feedback": {"feedback_influence": 0.4},
    "unlimited feedback": {"feedback_influence": 0.4, "wide_search_top_k": None},
    "filters": {"filter": [GROUPS[i % 4] for i in range(QUERIES)]},
    "incident filters": {"filter": [GROUPS[i % 4] for i in range(QUERIES)], "projection": "incident"},
    "near": {"max_distance": 0.9, "personal_weights": {f"n{i:05d}": i % 3 / 2 for i in range(0, 300, 2)}},
    "settings": {
        "top_k": [1 + i % 7 for i in range(QUERIES)],
        "wide_search_top_k": [(3, 50, None)[i % 3] for i in range(QUERIES)],
        "node_name": [(None, ["s"], ["s", "t"])[i % 3] for i in range(QUERIES)],
    },
}
PER_QUERY = ("filter", "top_k", "wide_search_top_k")


def asked(name: str, places: Any) -> dict[str, Any]:
    """The settings of some of the queries, by place."""
    options = {"top_k": 10, **ASKED[name]}
    for key, value in options.items():
        if isinstance(value, list) and len(value) == QUERIES:
            options[key] = [value[i] for i in places]
    return options


def ask(engine: Engine, name: str, places: Any, **more: Any) -> Any:
    queries = tables(engine.dimension, engine.graph.num_nodes, _edges_of(engine)).queries
    return engine.recall(vectors=queries[list(places)], **asked(name, places), **more)


def _edges_of(engine: Engine) -> int:
    return engine.graph.num_edges + engine.graph.report.merged_edges


@pytest.mark.parametrize("name", ASKED)
def test_alone_is_as_in_a_batch(device, name):
    engine = engine_on(device)
    alone = {place: ask(engine, name, [place])[0] for place in CHECKED}
    assert sum(len(r.edges) for r in alone.values()) > 20
    for size in SIZES:
        recall = ask(engine, name, range(size))
        assert len(recall) == size
        for place in CHECKED:
            assert place >= size or same(recall[place], alone[place]), (size, place)
    for step in (1, 3, 100):
        recall = ask(engine, name, range(64), batch_size=step)
        assert all(same(recall[p], alone[p]) for p in CHECKED if p < 64), step


@pytest.mark.parametrize("name", ["limited", "unlimited", "neighborhood", "filters"])
def test_alone_is_as_in_a_batch_of_wide_vectors(device, name):
    engine = engine_on(device, 384, 300, 1000)
    alone = [ask(engine, name, [place])[0] for place in range(8)]
    for size in (2, 7, 20, 64):
        recall = ask(engine, name, range(size))
        assert all(same(a, b) for a, b in zip(recall, alone, strict=False))


@pytest.mark.parametrize("name", ASKED)
def test_permuted_batch_has_permuted_answers(device, name):
    engine = engine_on(device)
    order = np.random.default_rng(3).permutation(100)
    straight, turned = ask(engine, name, range(100)), ask(engine, name, order)
    assert all(same(turned[i], straight[int(place)]) for i, place in enumerate(order))


@pytest.mark.parametrize("name", [n for n in ASKED if n != "settings"])
def test_fewer_are_a_prefix_of_more(device, name):
    engine = engine_on(device)
    places = range(20)
    options, queries = asked(name, places), tables().queries[list(places)]
    most = engine.recall(vectors=queries, **{**options, "top_k": 300})
    for k in (1, 10, 299):
        for got, every in zip(engine.recall(vectors=queries, **{**options, "top_k": k}), most, strict=True):
            assert np.array_equal(got.edges, every.edges[:k])
            assert np.array_equal(got.scores, every.scores[:k])
            assert np.array_equal(got.distances, every.distances[:k])


def brute_force(engine: Engine, queries: np.ndarray, influence: float = 0.0, limit: float = np.inf) -> np.ndarray:
    """(B, E) float64 scores of all edges from the exact distances; +inf where an end isn't matched."""
    graph = engine.graph
    unit = torch.from_numpy(queries)
    unit = (unit.double() / unit.double().norm(dim=1, keepdim=True)).float().to(engine.device)
    tables = {"node": np.full((len(queries), graph.num_nodes), np.inf), "relation": np.full((len(queries), 41), np.inf)}
    keys = {key: i for i, key in enumerate(graph.keys.to_pylist())}
    for c in engine.collections:
        rows = graph.rows(c.owner) if c.kind == "node" else np.array([keys[o] for o in c.owner.to_pylist()])
        near = c.index.dense(unit).cpu().numpy().astype(np.float64)
        near[near > np.float32(limit)] = np.inf
        np.minimum.at(tables[c.kind].T, rows, near.T)

    def terms(distance, importance, feedback):
        matched = np.isfinite(distance)
        blended = 2.0 * ((1.0 - influence) * (distance / 2.0) + influence * (1.0 - feedback)) if influence else distance
        return (2.0 - importance) * np.where(matched, blended, 6.5)

    host = lambda x: x.cpu().numpy()  # noqa: E731
    node = terms(tables["node"], host(graph.importance), host(graph.feedback))
    relation = terms(
        tables["relation"][:, host(graph.relation_key)], host(graph.edge_importance), host(graph.edge_feedback)
    )
    return (node[:, host(graph.source)] + node[:, host(graph.target)]) + relation


@pytest.mark.parametrize("influence", [0.0, 0.4])
@pytest.mark.parametrize("limit", [None, 0.5])
def test_unlimited_is_brute_force(device, influence, limit):
    engine, queries = engine_on(device), tables().queries[:24]
    want = brute_force(engine, queries, influence, np.inf if limit is None else limit)
    options = {"wide_search_top_k": None, "top_k": 50, "feedback_influence": influence, "max_distance": limit}
    for result, scores in zip(engine.recall(vectors=queries, **options), want, strict=True):
        order = np.argsort(scores, kind="stable")[:50]
        assert result.edges.tolist() == order.tolist()
        assert np.array_equal(result.scores, scores[order])


def test_a_limit_beyond_the_rows_is_no_limit(device):
    engine = engine_on(device)
    for options in ({"projection": "full"}, {"projection": "induced"}, ASKED["neighborhood"], ASKED["nodeset"]):
        queries = tables().queries[:20]
        wide, none = (engine.recall(vectors=queries, **options, wide_search_top_k=w) for w in (5000, None))
        for a, b in zip(wide, none, strict=True):
            assert same(a, b)


@pytest.mark.parametrize("name", ASKED)
def test_load_order_changes_nothing(device, name):
    engine = engine_on(device)
    places = range(12)
    want = ask(engine, name, places)
    for seed in (1, 2):
        got = shuffled(device, seed).recall(vectors=tables().queries[list(places)], **asked(name, places))
        for a, b in zip(got, want, strict=True):
            assert same(a, b)
            assert a.triplets == b.triplets
            assert a.seeds == b.seeds


@functools.cache
def shuffled(device: str, seed: int) -> Engine:
    return tables().load(seed, device=device)


@pytest.mark.parametrize("name", ["limited", "unlimited", "incident", "neighborhood", "filters"])
def test_thread_count_changes_nothing(name):
    engine, had = engine_on("cpu"), torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        one = ask(engine, name, range(64))
        torch.set_num_threads(2)
        two = ask(engine, name, range(64))
    finally:
        torch.set_num_threads(had)
    assert all(same(a, b) for a, b in zip(one, two, strict=True))


@functools.cache
def kept(folder: Any, device: str) -> Engine:
    engine_on(device).save(folder)
    return tercet.open(folder, device)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("stores")


@pytest.mark.parametrize("name", ASKED)
def test_saved_and_loaded_gives_the_same(device, name, folder):
    loaded = kept(folder / device, device)
    queries = tables().queries[:20]
    got = loaded.recall(vectors=queries, **asked(name, range(20)))
    for a, b in zip(got, ask(engine_on(device), name, range(20)), strict=True):
        assert same(a, b)
        assert (a.text, a.triplets) == (b.text, b.triplets)


def test_repeated_queries_keep_an_entry_each(device):
    engine = engine_on(device)
    for name in ("limited", "unlimited", "neighborhood"):
        recall = ask(engine, name, [3, 8, 3, 3, 8])
        alone = [ask(engine, name, [p])[0] for p in (3, 8)]
        assert len(recall) == 5
        assert all(same(r, alone[i]) for r, i in zip(recall, (0, 1, 0, 0, 1), strict=True))


@pytest.mark.parametrize("name", ["limited", "unlimited", "incident", "neighborhood"])
def test_half_precision(device, name):
    """Distances are exact for the stored values, so float16 rows answer like their float32 copies, but for ulps."""
    half = halved(device)
    alone = [half.recall(vectors=q, **asked(name, [0]))[0] for q in tables().queries[:10]]
    batch = half.recall(vectors=tables().queries[:64], **asked(name, range(64)))
    assert all(same(a, b) for a, b in zip(batch, alone, strict=False))
    whole = ask(engine_on(device), name, range(10))
    assert max(np.abs(a.scores[:1] - b.scores[:1]).max() for a, b in zip(whole, alone, strict=True)) < 5e-3


@functools.cache
def halved(device: str) -> Engine:
    return tables().load(dtype="float16", device=device)


def test_cuda_is_as_the_cpu():
    if not torch.cuda.is_available():
        pytest.skip("needs CUDA")
    for name in ASKED:
        for a, b in zip(ask(engine_on("cuda"), name, range(64)), ask(engine_on("cpu"), name, range(64)), strict=True):
            assert a.status == b.status
            assert np.allclose(a.scores, b.scores, rtol=0, atol=1e-6)
            for i in np.flatnonzero(a.edges != b.edges):  # only among equals
                assert np.abs(np.delete(b.scores, i) - b.scores[i]).min() < 1e-6
