"""Datasets and scopes: an engine that knows one tenant's rows alone."""

import gc
import json
import weakref

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import tercet
from tercet import cli
from tercet.errors import InvalidArgument, InvalidData, StoreError, UnknownId

RELATIONS = ("knows", "likes", "hates", "of")
WIDTH = 6

# Two tenants with the same texts; B's vectors are nearer to the query, and `secret` occurs at B only.
NODES = {
    "id": ["a1", "a2", "a3", "b1", "b2", "b3"],
    "name": ["Ann", "Bob", "Cid", "Ann", "Bob", "Secret"],
    "text": ["the harbour plan", "the bridge plan", "the market", "the harbour plan", "the bridge plan", "secret"],
    "type": ["Entity"] * 6,
    "dataset": ["A", "A", "A", "B", "B", "B"],
    "belongs_to_set": [["s"], ["s"], [], ["s"], ["t"], ["t"]],
}
EDGES = {
    "source": ["a1", "a2", "b1", "b2", "b1"],
    "target": ["a2", "a3", "b2", "b3", "b3"],
    "relation": ["knows", "likes", "knows", "betrays", "betrays"],
    "id": ["ea1", "ea2", "eb1", "eb2", "eb3"],
}
QUERY = np.array([[1.0, 0.2, 0.0, 0.0, 0.0, 0.0]], np.float32)
NAMED_B = ("b1", "b2", "b3", "eb1", "eb2", "eb3", "Secret", "secret", "betrays")


def vectors_of(nodes):
    near = np.array([1.0, 0.2, 0, 0, 0, 0], np.float32)
    far = np.array([0.6, 0.2, 0.7, 0.1, 0, 0], np.float32)
    own = np.eye(WIDTH, dtype=np.float32)
    return np.stack([(near if i.startswith("b") else far) + 0.1 * own[n % WIDTH] for n, i in enumerate(nodes)])


def engine(nodes=NODES, edges=EDGES, **options):
    graph = tercet.Graph.from_tables(nodes, edges, **options)
    relations = sorted(set(edges["relation"]))
    rows = np.stack([np.roll(np.arange(WIDTH, dtype=np.float32) + 1, len(r)) for r in relations])
    return tercet.Engine(graph, [
        tercet.Collection.build("Entity_name", vectors_of(nodes["id"]), nodes["id"], "node"),
        tercet.Collection.build("EdgeType_relationship_name", rows, relations, "relation"),
    ], device="cpu")  # fmt: skip


def alone(tenant, nodes=NODES, edges=EDGES):
    """An engine of the tenant's own rows; its nodes have the vectors that they have among all."""
    rows = [i for i, d in enumerate(nodes["dataset"]) if d == tenant]
    ids = {nodes["id"][i] for i in rows}
    kept = [i for i in range(len(edges["source"])) if edges["source"][i] in ids and edges["target"][i] in ids]
    mine = {name: [values[i] for i in rows] for name, values in nodes.items()}
    own = {name: [values[i] for i in kept] for name, values in edges.items()}
    graph = tercet.Graph.from_tables(mine, own)
    relations = sorted(set(own["relation"]))
    rows_r = np.stack([np.roll(np.arange(WIDTH, dtype=np.float32) + 1, len(r)) for r in relations])
    return tercet.Engine(graph, [
        tercet.Collection.build("Entity_name", vectors_of(nodes["id"])[rows], mine["id"], "node"),
        tercet.Collection.build("EdgeType_relationship_name", rows_r, relations, "relation"),
    ], device="cpu")  # fmt: skip


def told(value):
    """All that a result tells, as one text, without times."""
    if isinstance(value, tercet.Recall):
        parts = []
        for r in value:
            about = {k: v for k, v in r.explain().items() if k != "timings"}
            parts += [r.status, r.text, r.triplets, r.seeds, about]
        return repr(parts) + str(value.to_arrow().to_pylist())
    if isinstance(value, tercet.SearchResults):
        shown = [
            (h.status, h.available, h.missing, h.details, [(x["node"].id, x["node"].properties, x["score"]) for x in h])
            for h in value
        ]
        return repr(shown) + str(value.to_arrow().to_pylist())
    if isinstance(value, tercet.Subgraphs):
        shown = [
            (s.status, [(n.id, n.properties) for n in s.nodes], [(r.id, r.properties) for r in s.relationships],
             s.paths, s.pairs, s.hops, s.scores, s.taken, s.available, s.context())
            for s in value
        ]  # fmt: skip
        return repr(shown)
    return repr(value)


VERBS = {
    "recall": lambda e: e.recall(vectors=QUERY, top_k=50),
    "recall incident": lambda e: e.recall(vectors=QUERY, top_k=50, projection="incident"),
    "recall full": lambda e: e.recall(vectors=QUERY, top_k=50, wide_search_top_k=None),
    "recall node set": lambda e: e.recall(vectors=QUERY, top_k=50, node_name=["s"]),
    "recall neighborhood": lambda e: e.recall(vectors=QUERY, top_k=50, neighborhood_depth=2, neighborhood_seed_top_k=1),
    "recall narrow": lambda e: e.recall(vectors=QUERY, top_k=50, wide_search_top_k=1),
    "semantic_search": lambda e: e.semantic_search(vectors=QUERY, k=10),
    "text_search": lambda e: e.text_search(["harbour plan secret", "bridge"], 10),
    "hybrid_search": lambda e: e.hybrid_search(["harbour plan secret"], 10, vectors=QUERY),
    "semantic_subgraph": lambda e: e.semantic_subgraph(vectors=QUERY, k=1, expand=3),
    "text_subgraph": lambda e: e.text_subgraph(["harbour secret"], 5, expand=2),
    "hybrid_subgraph": lambda e: e.hybrid_subgraph(["harbour"], 2, vectors=QUERY, expand=2),
    "subgraph": lambda e: e.subgraph(["a1"], expand=5),
    "path_context": lambda e: e.path_context([QUERY[0], QUERY[0]], 3, 4),
    "centrality": lambda e: e.centrality("degree"),
    "communities": lambda e: e.communities("label_propagation"),
    "info": lambda e: (e.info().nodes, e.info().edges, e.info().relations, e.info().keys),
    "datasets": lambda e: e.datasets().to_pylist(),
}  # fmt: skip


@pytest.mark.parametrize("verb", VERBS)
def test_no_verb_tells_of_another_tenant(verb):
    shown = told(VERBS[verb](engine().scope("A")))
    assert not [word for word in NAMED_B if f"'{word}'" in shown or f" {word} " in shown or f'"{word}"' in shown]
    assert "ecret" not in shown


@pytest.mark.parametrize("verb", [v for v in VERBS if v != "info"])
def test_a_scope_answers_like_an_engine_of_its_own_rows(verb):
    call = VERBS[verb]
    assert told(call(engine().scope("A"))) == told(call(alone("A")))


def test_the_engine_itself_finds_the_other_tenant_first():
    """Otherwise the tests above prove nothing."""
    found = engine().semantic_search(vectors=QUERY, k=1)[0]
    assert found.ids()[0].startswith("b")
    assert "Secret" in told(engine().text_search(["secret"], 3))


def test_seeds_of_another_tenant_are_unknown():
    with pytest.raises(UnknownId, match="b1"):
        engine().scope("A").subgraph(["b1"])
    assert engine().scope("A").recall(vectors=QUERY)[0].why(node="a1") is not None
    with pytest.raises(UnknownId):
        engine().scope("A").recall(vectors=QUERY)[0].why(node="b1")


def test_the_same_query_for_both():
    full = engine()
    first, second = (told(VERBS["recall"](full.scope(t))) for t in "AB")
    assert "a1" in first
    assert "a1" not in second
    assert "b1" in second


CROSS = {name: [*values, new] for (name, values), new in zip(EDGES.items(), ["a1", "b1", "knows", "x"], strict=True)}


def test_an_edge_between_tenants_is_refused_or_dropped():
    with pytest.raises(InvalidData, match=r"1 join datasets.*'a1' \('A'\) -knows-> 'b1' \('B'\)"):
        engine(edges=CROSS)
    dropped = engine(edges=CROSS, cross_tenant="drop")
    assert dropped.graph.num_edges == len(EDGES["source"])
    assert "edge between datasets" in str(dropped.graph.report)
    assert "'x'" not in told(VERBS["recall full"](dropped))
    with pytest.raises(InvalidArgument, match="cross_tenant"):
        engine(cross_tenant="keep")


def test_an_edge_of_another_dataset_than_its_ends_is_refused():
    with pytest.raises(InvalidData, match="edge of 'B'"):
        engine(edges={**EDGES, "dataset": ["B", None, None, None, None]})


def test_updates_keep_tenants_apart():
    full = engine()
    before = full.scope("A")
    with pytest.raises(InvalidData, match="join datasets"):
        full.upsert(edges={"source": ["a1"], "target": ["b1"], "relation": ["knows"]})
    with pytest.raises(InvalidData, match="join datasets"):
        full.upsert(nodes={"id": ["a2"], "dataset": ["B"]})
    assert full.version == 1
    full.upsert(
        nodes={"id": ["a4", "b4"], "name": ["Dan", "Eve"], "text": ["new at A", "new at B"], "dataset": ["A", "B"]},
        vectors={"Entity_name": (["a4", "b4"], np.repeat(QUERY, 2, 0))},
    )
    assert before.version == 1
    assert before.semantic_search(vectors=QUERY, k=1)[0].ids() != ["a4"]
    now = full.scope("A")
    assert now.version == 2
    assert now.semantic_search(vectors=QUERY, k=1)[0].ids() == ["a4"]
    assert now.text_search(["new"], 5)[0].ids() == ["a4"]
    dropping = engine(cross_tenant="drop")
    dropping.upsert(edges={"source": ["a1"], "target": ["b1"], "relation": ["knows"]})
    assert dropping.graph.num_edges == len(EDGES["source"])


def test_a_scope_is_read_only(tmp_path):
    scope = engine().scope("A")
    for change in (lambda: scope.upsert({"id": ["n"]}), lambda: scope.delete(["a1"]), scope.compact):
        with pytest.raises(InvalidArgument, match="scope A"):
            change()
    engine().save(tmp_path / "all")
    with pytest.raises(StoreError, match="scope"):
        scope.save(tmp_path / "all")
    scope.save(tmp_path / "a")
    assert told(VERBS["recall"](tercet.open(tmp_path / "a", "cpu"))) == told(VERBS["recall"](scope))
    again = tercet.open(tmp_path / "all", "cpu")
    assert again.datasets().to_pylist() == [
        {"dataset": "A", "nodes": 3, "edges": 0}, {"dataset": "B", "nodes": 3, "edges": 0},
    ]  # fmt: skip
    assert told(VERBS["recall"](again.scope("A"))) == told(VERBS["recall"](scope))


def test_wrong_scopes():
    full = engine()
    with pytest.raises(InvalidArgument, match="got none"):
        full.scope()
    with pytest.raises(UnknownId, match=r"'C'; it has 'A', 'B'"):
        full.scope("C")
    with pytest.raises(InvalidArgument, match="int"):
        full.scope(1)
    bare = {name: values for name, values in NODES.items() if name != "dataset"}
    with pytest.raises(InvalidArgument, match="no datasets"):
        engine(nodes=bare).scope("A")
    with pytest.raises(UnknownId):
        full.scope("A").scope("B")
    assert told(VERBS["recall"](full.scope("A").scope("A"))) == told(VERBS["recall"](full.scope("A")))


def test_shared_rows():
    nodes = {name: [*values, new] for (name, values), new in zip(
        NODES.items(), ["s1", "Shared", "for all", "Entity", None, []], strict=True)}  # fmt: skip
    edges = {name: [*values, *new] for (name, values), new in zip(
        EDGES.items(), [["a1", "b1"], ["s1", "s1"], ["of", "of"], ["sa", "sb"]], strict=True)}  # fmt: skip
    full = engine(nodes, edges)
    assert full.scope("A").graph.num_nodes == 3
    both = full.scope("A", shared=True)
    assert (both.graph.num_nodes, both.graph.num_edges) == (4, 3)
    assert full.scope("A", "B", shared=True).graph.num_edges == 7
    assert full.scope("B", "A").graph.num_nodes == 6


def test_scopes_are_kept_with_their_version_only():
    full = engine()
    assert full.scope("A").graph is full.scope("A").graph
    old = weakref.ref(full.scope("A").graph)
    full.delete(edges=["ea1"])
    gc.collect()
    assert old() is None
    assert full.scope("A").graph.num_edges == 1


def test_datasets_may_be_numbers_and_not_lists():
    assert engine(nodes={**NODES, "dataset": [1, 1, 1, 2, 2, 2]}).scope("1").graph.num_nodes == 3
    lists = {**NODES, "dataset": pa.array([["A"]] * 6)}
    with pytest.raises(InvalidData, match="dataset"):
        engine(nodes=lists).datasets()


def test_an_approximate_index_is_made_anew():
    pytest.importorskip("faiss")
    graph = tercet.Graph.from_tables(NODES, EDGES)
    names = tercet.Collection.build("n", vectors_of(NODES["id"]), NODES["id"], "node", index="hnsw")
    got = tercet.Engine(graph, [names], device="cpu").scope("A").semantic_search(vectors=QUERY, k=6)[0]
    assert sorted(got.ids()) == ["a1", "a2", "a3"]


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000))
def test_any_scope_is_like_an_engine_of_its_own_rows(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(4, 14))
    of = rng.choice(["A", "B", "C"], n).tolist()
    of[0] = "A"
    nodes = {
        "id": [f"{d.lower()}{i}" for i, d in enumerate(of)], "name": [f"n{i % 3}" for i in range(n)],
        "text": [" ".join(rng.choice(["x", "y", "z"], 3)) for _ in range(n)], "dataset": of,
    }  # fmt: skip
    pairs = [(i, j) for i in range(n) for j in range(n) if of[i] == of[j] and rng.random() < 0.4]
    pairs = sorted({*pairs, (0, 0)})
    edges = {
        "source": [nodes["id"][i] for i, _ in pairs], "target": [nodes["id"][j] for _, j in pairs],
        "relation": rng.choice(RELATIONS, len(pairs)).tolist(), "id": [f"e{i}-{j}" for i, j in pairs],
    }  # fmt: skip
    scope, own = engine(nodes, edges).scope("A"), alone("A", nodes, edges)
    for verb in ("recall", "recall incident", "recall full", "recall narrow", "semantic_search", "semantic_subgraph"):
        assert told(VERBS[verb](scope)) == told(VERBS[verb](own))
    assert told(scope.text_search(["x y"], 5)) == told(own.text_search(["x y"], 5))


def test_the_command_line(tmp_path, monkeypatch):
    store = tmp_path / "s"
    engine().save(store)
    opened = tercet.open

    def encoder(texts):
        return np.repeat(QUERY, len(texts), 0)

    monkeypatch.setattr(tercet, "open", lambda path, **more: opened(path, **{**more, "encoder": encoder}))
    asked = ["recall", str(store), "harbour", "--scope", "A", "--json"]
    ran = CliRunner().invoke(cli.app, asked, catch_exceptions=False)
    assert ran.exit_code == 0
    assert "a1" in ran.output
    assert not [word for word in NAMED_B if f'"{word}"' in ran.output]
    ran = CliRunner().invoke(
        cli.app, ["subgraph", "harbour", "--store", str(store), "--scope", "B", "--json"], catch_exceptions=False
    )
    assert {n["id"] for n in json.loads(ran.output)["nodes"]} <= {"b1", "b2", "b3"}
