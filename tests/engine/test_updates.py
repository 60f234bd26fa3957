"""Live updates: a changed engine answers as one built from scratch; versions, rollback, readers beside a writer."""

import copy
import gc
import threading
import weakref

import numpy as np
import pyarrow.compute as pc
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tercet import Collection, Engine, Graph, LexicalIndex
from tercet.errors import DimensionMismatch, EngineClosed, InvalidArgument, InvalidData, UnknownId
from tercet.index import segmented
from tercet.index.segmented import SegmentedIndex
from tests.engine.conftest import DEVICES


@pytest.fixture(autouse=True, scope="module")
def many_segments():
    """Segments of few rows, which aren't merged because they are small."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segmented, "SMALL", 0)
        yield


IDS = [f"n{i}" for i in range(9)]
WORDS = ["red", "blue", "green", "old", "new"]
RELATIONS = ["knows", "Works at", "is"]
POOL = np.random.default_rng(1).normal(size=(10, 4)).astype(np.float32)
QUERIES = np.random.default_rng(2).normal(size=(3, 4)).astype(np.float32)
KEYS = [r.lower().replace(" ", "_") for r in RELATIONS]


class Model:
    """What an engine should hold, in plain dicts."""

    def __init__(self) -> None:
        self.nodes: dict[str, dict] = {}
        self.edges: dict[tuple, dict] = {}
        self.vectors: dict[str, dict[str, list[int]]] = {"names": {}, "texts": {}, "relations": {}}

    def upsert(self, nodes=(), edges=(), vectors=None) -> None:
        for n in nodes:
            self.nodes[n["id"]] = self.nodes.get(n["id"], {}) | n
        for e in edges:
            self.edges[e["source"], e["relation"], e["target"]] = e
        for name, rows in (vectors or {}).items():
            self.vectors[name] |= rows

    def delete(self, ids=(), edges=()) -> None:
        for key in edges:
            del self.edges[key]
        for i in ids:
            del self.nodes[i]
            for name in ("names", "texts"):
                self.vectors[name].pop(i, None)
        self.edges = {k: e for k, e in self.edges.items() if k[0] not in ids and k[2] not in ids}

    def engine(self, device: str = "cpu") -> Engine:
        graph = Graph.from_tables(nodes_table(self.nodes.values()), edges_table(self.edges.values()))
        return Engine(graph, [
            Collection.build(name, *rows_of(rows), kind="relation" if name == "relations" else "node")
            for name, rows in self.vectors.items()
        ], device=device)  # fmt: skip


def nodes_table(nodes) -> dict:
    nodes = list(nodes)
    return {"id": [n["id"] for n in nodes], "name": [n.get("name") for n in nodes],
            "belongs_to_set": [n.get("set") for n in nodes],
            "importance_weight": [n.get("weight") for n in nodes]}  # fmt: skip


def edges_table(edges) -> dict:
    edges = list(edges)
    return {n: [e[n] for e in edges] for n in ("source", "relation", "target")}


def rows_of(rows: dict[str, list[int]]):
    owners = [o for o, held in rows.items() for _ in held]
    return POOL[[v for held in rows.values() for v in held]].reshape(-1, 4), owners


def as_vectors(rows: dict[str, dict[str, list[int]]]) -> dict:
    return {name: rows_of(held)[::-1] for name, held in rows.items() if held}


def answers(engine: Engine) -> list:
    """What an engine says, in a form that can be compared: ids, scores to the last bit, texts."""
    out: list = []
    calls: list[dict] = [
        {"wide_search_top_k": 3}, {"wide_search_top_k": 3, "projection": "incident"}, {"wide_search_top_k": None},
        {"wide_search_top_k": None, "max_distance": 1.1}, {"node_name": ["red", "blue"]},
        {"neighborhood_depth": 1, "neighborhood_seed_top_k": 2}, {"filter": pc.field("name") != "red"},
        {"wide_search_top_k": None, "feedback_influence": 0.5, "collections": ["texts", "relations"]},
    ]  # fmt: skip
    for call in calls:
        got = engine.recall(vectors=QUERIES, top_k=4, **call)
        out += [got.status, got.texts(), got.to_arrow().drop_columns("edge_id").to_pylist()]
    words = ["red blue", "old", "nothing"]
    searches = [
        engine.semantic_search(vectors=QUERIES, k=4), engine.text_search(words, k=4),
        engine.hybrid_search(words, k=4, vectors=QUERIES),
        engine.rank_subgraph(engine.semantic_search(vectors=QUERIES, k=2), top_k=4),
    ]  # fmt: skip
    for found in searches:
        out += [found.status, [h.available for h in found], found.to_arrow().to_pylist()]
    waypoints = [[{"node": i} for i in engine.graph.ids.to_pylist()[:2]]] if engine.graph.num_nodes > 1 else []
    subgraphs = [
        engine.semantic_subgraph(vectors=QUERIES, k=2, expand=1), engine.text_subgraph(words, k=2, max_nodes=4),
        engine.hybrid_subgraph(words, k=2, vectors=QUERIES, expand=2, rel_types=["knows"]),
        *(engine.path_context(w) for w in waypoints),
    ]  # fmt: skip
    for sub in subgraphs:
        tables = sub.to_arrow()
        out += [sub.status, sub.contexts(), tables.nodes.to_pylist(), tables.relationships.to_pylist()]
        out += [[p for p in one.paths] for one in sub]
    return [str(x) for x in out]  # NaN equals itself as text


@st.composite
def histories(draw):
    """Updates, each as (kind, what); indexes are resolved when their turn comes."""
    node = st.fixed_dictionaries({
        "id": st.sampled_from(IDS), "name": st.sampled_from([*WORDS, "red old", None]),
        "set": st.sampled_from([None, ["red"], ["blue", "red"]]), "weight": st.sampled_from([None, 0.2, 0.9]),
    })  # fmt: skip
    edge = st.tuples(st.integers(0, 8), st.sampled_from(RELATIONS), st.integers(0, 8))
    held = st.dictionaries(st.sampled_from(IDS), st.lists(st.integers(0, 9), min_size=1, max_size=2), max_size=4)
    related = st.dictionaries(st.sampled_from(KEYS), st.lists(st.integers(0, 9), min_size=1, max_size=1), max_size=3)
    upsert = st.tuples(st.just("upsert"), st.lists(node, max_size=4, unique_by=lambda n: n["id"]),
                       st.lists(edge, max_size=6), held, held, related)  # fmt: skip
    delete = st.tuples(
        st.just("delete"), st.sets(st.integers(0, 8), max_size=2), st.sets(st.integers(0, 9), max_size=2)
    )
    return draw(st.lists(st.one_of(upsert, upsert, delete, st.just(("compact",))), min_size=1, max_size=5))


def start() -> Model:
    model = Model()
    model.upsert(
        [{"id": i, "name": w, "set": ["red"]} for i, w in zip(IDS[:5], WORDS, strict=True)],
        [{"source": IDS[i], "relation": RELATIONS[i % 3], "target": IDS[(i * 2 + 1) % 5]} for i in range(5)],
        {"names": {i: [k] for k, i in enumerate(IDS[:5])}, "texts": {IDS[0]: [7, 8], IDS[3]: [9]},
         "relations": {KEYS[0]: [5], KEYS[1]: [6]}},
    )  # fmt: skip
    return model


def apply(step, model: Model, target) -> None:
    """One update, to the model and to an engine or a transaction."""
    if step[0] == "compact":
        target.compact()
    elif step[0] == "delete":
        gone = [i for k, i in enumerate(sorted(model.nodes)) if k in step[1]]
        dropped = [k for n, k in enumerate(sorted(model.edges)) if n in step[2]]
        target.delete(gone, edges_table([model.edges[k] for k in dropped]))
        model.delete(gone, dropped)
    else:
        _, nodes, ends, names, texts, related = step
        known = sorted({*model.nodes, *(n["id"] for n in nodes)})
        edges = [{"source": known[a % len(known)], "relation": r, "target": known[b % len(known)]}
                 for a, r, b in ends if known]  # fmt: skip
        edges = list({tuple(e.values()): e for e in edges}.values())
        vectors = {"names": {o: v for o, v in names.items() if o in known},
                   "texts": {o: v for o, v in texts.items() if o in known}, "relations": related}  # fmt: skip
        target.upsert(nodes_table(nodes), edges_table(edges), as_vectors(vectors))
        model.upsert(nodes, edges, vectors)


@given(histories(), st.sampled_from(DEVICES), st.booleans())
@settings(max_examples=25, deadline=None, derandomize=True)
def test_answers_as_an_engine_built_from_scratch(history, device, together) -> None:
    model = start()
    engine = model.engine(device)
    if together:
        with engine.transaction() as t:
            for step in history:
                apply(step, model, t)
        assert engine.version == t.version == 2
    else:
        for i, step in enumerate(history):
            apply(step, model, engine)
            assert engine.version == i + 2
    assert answers(engine) == answers(model.engine(device))


@pytest.mark.parametrize("compact", [False, True])
def test_a_deleted_node_is_nowhere(compact) -> None:
    model = start()
    engine = model.engine()
    old = engine.recall(vectors=QUERIES, wide_search_top_k=None, top_k=10)
    assert IDS[1] in str(old.to_arrow().to_pylist())
    engine.delete([IDS[1]])
    if compact:
        engine.compact()
    assert engine.graph.num_nodes == 4
    assert all(IDS[1] not in c.owner.to_pylist() for c in engine.collections)
    for found in (engine.semantic_search(vectors=QUERIES, k=10), engine.text_search("blue", k=10)):
        assert IDS[1] not in found.to_arrow()["id"].to_pylist()
    assert engine.text_search("blue")[0].available == 0
    assert [h.available for h in engine.semantic_search(vectors=QUERIES, k=10)] == [4] * 3
    around = engine.subgraph([i for i in IDS[:5] if i != IDS[1]], expand=5)[0]
    assert IDS[1] not in around.node_ids()
    assert (
        IDS[1] not in engine.recall(vectors=QUERIES, wide_search_top_k=None, top_k=10).to_arrow()["target"].to_pylist()
    )
    with pytest.raises(UnknownId, match=IDS[1]):
        engine.subgraph([IDS[1]])
    with pytest.raises(UnknownId, match=IDS[1]):
        engine.recall(vectors=QUERIES)[0].why(node=IDS[1])
    with pytest.raises(UnknownId, match=IDS[1]):
        engine.recall(vectors=QUERIES, filter=[IDS[1]])
    assert old[0].why(node=IDS[1]).stage  # the answers of the version before still explain themselves
    model.delete([IDS[1]])
    assert answers(engine) == answers(model.engine())


def test_a_text_index_follows_without_being_built_again(monkeypatch) -> None:
    """Updates between which nobody searches are made up for together; each version has its own."""
    model = start()
    engine = model.engine()
    engine.text_search("red")
    monkeypatch.setattr(LexicalIndex, "build", None)
    engine.upsert(nodes={"id": ["x", IDS[0]], "name": ["red sky", "old"]})
    view = engine.view()
    engine.delete([IDS[1]])
    engine.upsert(edges={"source": ["x"], "relation": ["is"], "target": [IDS[2]]})
    assert engine.text_search(["red", "blue", "old"], k=9).status == ["ok", "no_hits", "ok"]
    assert view.text_search("blue")[0].ids() == [IDS[1]]
    assert engine.text_search("sky")[0].ids() == ["x"]
    index, earlier = engine.graph.__dict__["_lexical"][1], view.graph.__dict__["_lexical"][1]
    monkeypatch.undo()
    for graph, got in ((engine.graph, index), (view.graph, earlier)):
        want = LexicalIndex.build(graph)
        assert got.vocabulary.equals(want.vocabulary)
        assert all(
            a.tobytes() == b.tobytes() for a, b in zip(got.arrays().values(), want.arrays().values(), strict=True)
        )
    with pytest.raises(InvalidData):  # what fails leaves the index alone
        engine.upsert(nodes={"id": ["y", "y"], "name": ["red", "red"]})
    assert engine.text_search("red")[0].ids() == ["x"]
    engine.upsert(nodes={"id": ["z"], "name": ["red"]})
    assert set(engine.text_search("red")[0].ids()) == {"x", "z"}


def test_a_text_index_of_titles_is_made_again_with_them() -> None:
    graph = Graph.from_tables({"id": ["a", "b"]}, {"source": ["a"], "target": ["b"], "relation": ["r"]}, missing="none")
    engine = Engine(graph, [], device="cpu", lexical=["context_title"])
    assert engine.text_search("Sky").status == ["no_hits"]
    engine.upsert(nodes={"id": ["b"], "name": ["Sky"]})
    assert engine.text_search("sky")[0].ids() == ["b"]
    want = LexicalIndex.build(engine.graph, ["context_title"])
    assert engine.graph.__dict__["_lexical"][1].vocabulary.equals(want.vocabulary)


def test_versions_on_results() -> None:
    engine = start().engine()
    seeds = engine.semantic_search(vectors=QUERIES[:1], k=3)
    engine.upsert(nodes={"id": ["a"], "name": ["first of all"]})
    results = [
        engine.recall(vectors=QUERIES), engine.semantic_search(vectors=QUERIES), engine.text_search("red"),
        engine.hybrid_search("red", vectors=QUERIES[:1]), engine.semantic_subgraph(vectors=QUERIES),
        engine.text_subgraph("red"), engine.hybrid_subgraph("red", vectors=QUERIES[:1]), engine.subgraph([IDS[0]]),
        engine.path_context([{"node": IDS[0]}, {"node": IDS[1]}]), engine.rank_subgraph([IDS[0]]),
    ]  # fmt: skip
    assert [r.version for r in results] == [2] * len(results)
    assert (seeds.version, engine.version) == (1, 2)
    # rows have moved by one: seeds found before stand for the same nodes
    assert engine.subgraph(seeds)[0].seed_ids() == seeds[0].ids()
    before = engine.rank_subgraph(engine.subgraph(seeds), inside=True)[0].ids()
    sub = engine.subgraph(seeds, expand=1)
    first = engine.rank_subgraph(sub)[0].ids()
    engine.upsert(nodes={"id": ["0"]})
    assert engine.rank_subgraph(sub)[0].ids() == first
    engine.delete([seeds[0].ids()[0]])
    assert engine.subgraph(seeds)[0].seed_ids() == seeds[0].ids()[1:]
    assert set(before) == set(seeds[0].ids())


def test_old_versions_go_when_nobody_holds_them() -> None:
    engine = start().engine()
    answers(engine)
    gc.collect()
    gc.disable()
    try:
        held = engine.recall(vectors=QUERIES)
        state, graph = weakref.ref(engine.state), weakref.ref(engine.graph)
        engine.upsert(nodes={"id": ["x"]})
        engine.recall(vectors=QUERIES)
        assert state() is not None  # the result can still say why
        assert held[0].why(node=IDS[0])
        del held
        assert state() is None
        assert graph() is None
        new = weakref.ref(engine.state)
        engine.close()
        assert new() is None
    finally:
        gc.enable()
    for call in (lambda: engine.recall(vectors=QUERIES), lambda: engine.text_search("red"), lambda: engine.graph,
                 lambda: engine.upsert(nodes={"id": ["y"]}), lambda: engine.subgraph(["x"]), engine.info):  # fmt: skip
        with pytest.raises(EngineClosed, match="closed"):
            call()


def test_rollback() -> None:
    model = start()
    engine = model.engine()
    state, want = engine.state, answers(engine)

    def fails() -> None:
        with engine.transaction() as t:
            t.upsert(nodes={"id": ["x"]}, vectors={"names": (["x"], POOL[:1])})
            t.delete([IDS[0]])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    assert engine.state is state
    with pytest.raises(InvalidData, match="owners aren't nodes"):
        engine.upsert(nodes={"id": ["x"]}, vectors={"names": (["nobody"], POOL[:1])})
    assert engine.state is state
    assert answers(engine) == want
    with engine.transaction() as t:  # a step that fails leaves the steps before it
        t.upsert(nodes={"id": ["x"], "name": ["red"]})
        with pytest.raises(DimensionMismatch):
            t.upsert(nodes={"id": ["y"]}, vectors={"names": (["y"], np.ones((1, 3)))})
        with pytest.raises(InvalidArgument, match="this thread has a transaction open"):
            engine.upsert(nodes={"id": ["z"]})
        with pytest.raises(InvalidArgument, match="this thread has a transaction open"):
            engine.close()
        assert engine.version == 1  # nothing is seen before the end
    assert engine.version == t.version == 2
    assert engine.graph.ids.to_pylist() == [*IDS[:5], "x"]
    with pytest.raises(InvalidArgument, match="it is over"):
        t.delete(["x"])
    with engine.transaction():
        pass
    assert engine.version == 2


@pytest.mark.parametrize(("call", "error", "match"), [
    (lambda e: e.delete(["nobody"]), UnknownId, "'nobody'"),
    (lambda e: e.delete("n0"), InvalidArgument, "list of ids"),
    (lambda e: e.delete(edges=["e9"]), UnknownId, "entry 0"),
    (lambda e: e.delete(edges={"source": ["n0"], "target": ["n0"], "relation": ["no"]}), UnknownId, "entry 0"),
    (lambda e: e.delete(edges={"source": ["n0"]}), InvalidArgument, "edges: expected the column 'id'"),
    (lambda e: e.delete(["n0"], missing="skip"), InvalidArgument, "missing: expected"),
    (lambda e: e.upsert(nodes={"name": ["x"]}), InvalidArgument, "nodes: the column 'id'"),
    (lambda e: e.upsert(nodes={"id": ["x", "x"]}), InvalidData, "given twice"),
    (lambda e: e.upsert(nodes={"id": ["x"], "importance_weight": [2.0]}), InvalidData, r"\[0, 1\]"),
    (lambda e: e.upsert(edges={"source": ["n0"], "target": ["x"], "relation": ["r"]}), InvalidData, "target is no n"),
    (lambda e: e.upsert(edges={"source": ["n0"], "target": ["n1"]}), InvalidArgument, "edges: the columns"),
    (lambda e: e.upsert(vectors={"no": (["n0"], POOL[:1])}), InvalidArgument, "no collection 'no'; there are names"),
    (lambda e: e.upsert(vectors={"names": POOL}), InvalidArgument, r"vectors\['names'\]: expected"),
    (lambda e: e.upsert(vectors=[1]), InvalidArgument, "vectors: expected a dict"),
    (lambda e: e.upsert(vectors={"names": (["n0"], np.ones((1, 3)))}), DimensionMismatch, "'names'.*4.*3"),
    (lambda e: e.upsert(vectors={"names": (["n0"], [[1, 2, 3, np.nan]])}), InvalidData, "'names'.*finite"),
    (lambda e: e.upsert(vectors={"names": (["n0", "n1"], POOL[:1])}), InvalidData, "1 vectors but 2 owners"),
    (lambda e: e.upsert(vectors={"names": (["x"], POOL[:1])}), InvalidData, "'names'.*'x'"),
    (lambda e: e.upsert(texts={"names": (["n0"], ["a text"])}), InvalidArgument, "no encoder"),
])  # fmt: skip
def test_errors_name_the_place(call, error, match) -> None:
    engine = start().engine()
    with pytest.raises(error, match=match):
        call(engine)
    assert engine.version == 1


def test_what_is_not_there_can_be_ignored() -> None:
    engine = start().engine()
    engine.delete(["nobody", IDS[4]], edges=["e9"], missing="ignore")
    assert engine.graph.ids.to_pylist() == IDS[:4]


def test_edges_by_id_and_by_ends() -> None:
    edges = {"source": ["a"] * 3, "relation": ["founded"] * 2 + ["left"], "target": ["b"] * 3, "id": ["1", "2", None],
             "edge_text": [None, "they founded it", None], "importance_weight": [0.9] * 3}  # fmt: skip
    engine = Engine(Graph.from_tables({"id": ["a", "b", "c"]}, edges), [], device="cpu")
    engine.upsert(edges={"id": ["2"], "importance_weight": [0.1]})  # the rest stays
    assert [engine.graph.triplet(e)[1] for e in range(3)] == ["founded", "founded", "left"]
    assert engine.graph.edge_importance.tolist() == [0.9, 0.1, 0.9]
    engine.upsert(edges={"id": ["1"], "source": ["c"], "relation": ["founded"], "target": ["b"]})  # other ends
    assert sorted(engine.graph.triplet(e) for e in range(3)) == [
        ("a", "founded", "b"), ("a", "left", "b"), ("c", "founded", "b")]  # fmt: skip
    engine.upsert(edges={"source": ["a"] * 2, "relation": ["left"] * 2, "target": ["b"] * 2, "edge_text": [None, "x"],
                         "importance_weight": [0.3, 0.4]})  # fmt: skip
    assert engine.graph.num_edges == 4  # another text is another edge
    engine.delete(edges={"source": ["a"], "relation": ["left"], "target": ["b"], "edge_text": [None]})
    engine.delete(edges=["1"])
    assert sorted(engine.graph.edges["edge_text"].to_pylist()) == ["they founded it", "x"]
    engine.delete(edges={"source": ["a", "a"], "relation": ["left", "founded"], "target": ["b", "b"]})
    assert engine.graph.num_edges == 0
    assert len(engine.graph.keys) == len(engine.graph.relation_names) == 0


def test_texts_are_encoded() -> None:
    encoder = lambda texts: [[float(len(t)), 1.0, 0.0, 0.5] for t in texts]  # noqa: E731
    graph = Graph.from_tables({"id": ["a"]}, {"source": ["a"], "target": ["a"], "relation": ["is"]})
    names = Collection.build("names", texts=["a"], owner=["a"], encoder=encoder)
    engine = Engine(graph, [names], encoder, device="cpu")
    engine.upsert(nodes={"id": ["b"]}, texts={"names": (["b", "a"], ["longer text", "a"])})
    assert engine.semantic_search("longer text", k=1)[0].ids() == ["b"]
    assert engine.collections[0].size == 2
    with pytest.raises(InvalidData, match="row 1"):
        engine.upsert(texts={"names": (["a", "b"], ["x", None])})


def test_a_text_index_made_elsewhere_refuses_changed_nodes() -> None:
    model = start()
    graph = model.engine().graph
    engine = Engine(graph, [], device="cpu", lexical=LexicalIndex.build(graph, ["name"]))
    with pytest.raises(InvalidArgument, match="LexicalIndex that was made elsewhere"):
        engine.upsert(nodes={"id": ["x"]})
    engine.upsert(edges={"source": [IDS[0]], "target": [IDS[4]], "relation": ["new"]})
    assert engine.text_search("red")[0].ids() == [IDS[0]]


def test_relation_texts_grow_and_shrink() -> None:
    engine = start().engine()
    engine.upsert(edges={"source": [IDS[0]], "target": [IDS[1]], "relation": ["Brand new"]},
                  vectors={"relations": (["Brand New", "not yet"], POOL[:2])})  # fmt: skip
    result = engine.recall(vectors=POOL[:1], wide_search_top_k=None, top_k=20)[0]
    at = [t.relation for t in result.triplets].index("Brand new")
    assert result.distances[at, 2] == pytest.approx(0.0, abs=1e-6)
    engine.upsert(edges={"source": [IDS[0]], "target": [IDS[2]], "relation": ["not yet"]})  # its vector waited for it
    result = engine.recall(vectors=POOL[1:2], wide_search_top_k=None, top_k=20)[0]
    assert result.distances[[t.relation for t in result.triplets].index("not yet"), 2] == pytest.approx(0.0, abs=1e-6)
    engine.delete(edges={"source": [IDS[0]], "target": [IDS[1]], "relation": ["Brand new"]})
    assert "brand_new" not in engine.graph.keys.to_pylist()


def test_readers_beside_a_writer() -> None:
    model = start()
    engine = model.engine()
    rng = np.random.default_rng(0)

    def say(e: Engine) -> tuple:
        return (e.recall(vectors=QUERIES, wide_search_top_k=3, top_k=5),
                e.hybrid_search("red", vectors=QUERIES[:1]), e.semantic_subgraph(vectors=QUERIES, k=2))  # fmt: skip

    views = {1: engine.view()}
    seen: list[tuple] = []
    failures: list[BaseException] = []
    done = threading.Event()

    def read() -> None:
        try:
            while not done.is_set():
                seen.append(say(engine))
        except BaseException as error:
            failures.append(error)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for r in readers:
        r.start()
    for i in range(50):
        if i % 3 == 2:
            gone = sorted(model.nodes)[int(rng.integers(len(model.nodes)))]
            engine.delete([gone])
            model.delete([gone])
        else:
            new = f"n{rng.integers(30)}"
            nodes = [{"id": new, "name": "red " + WORDS[i % 5]}]
            edges = [{"source": new, "relation": "knows", "target": sorted(model.nodes)[0]}]
            engine.upsert(nodes_table(nodes), edges_table(edges), {"names": ([new], POOL[i % 10 : i % 10 + 1])})
            model.upsert(nodes, edges, {"names": {new: [i % 10]}})
        views[engine.version] = engine.view()
    done.set()
    for r in readers:
        r.join()
    assert not failures
    assert engine.version == 51
    versions = {r.version for one in seen for r in one}
    assert len(versions) > 3
    for number in versions:
        want = say(views[number])
        for place, show in enumerate((
            lambda r: [r.to_arrow().to_pylist(), r.texts()], lambda r: r.to_arrow().to_pylist(),
            lambda r: [t.to_pylist() for t in r.to_arrow()],
        )):  # fmt: skip
            for one in seen:
                if one[place].version == number:
                    assert str(show(one[place])) == str(show(want[place]))
    assert answers(engine) == answers(model.engine())


def test_segments_are_made_and_reclaimed() -> None:
    rng = np.random.default_rng(0)
    ids = [f"{i:04d}" for i in range(500)]
    graph = Graph.from_tables({"id": ids}, {"source": ids[:-1], "target": ids[1:], "relation": ["r"] * 499})
    names = Collection.build("names", rng.normal(size=(500, 8)), ids)
    engine = Engine(graph, [names], device="cpu")
    base = engine.collections[0].index.vectors
    for i in range(4):
        engine.upsert(nodes={"id": [f"x{i}"]}, vectors={"names": ([f"x{i}", ids[i]], rng.normal(size=(2, 8)))})
    index = engine.collections[0].index
    assert isinstance(index, SegmentedIndex)
    assert index.segments[0].index.vectors is base
    held = weakref.ref(base)
    del base, index, names
    engine.compact()
    gc.collect()
    assert held() is None
    assert engine.collections[0].index.vectors.shape == (504, 8)


def test_a_view_and_a_copy_keep_their_version() -> None:
    engine = start().engine()
    view = engine.view()
    engine.delete([IDS[0]])
    assert (view.version, engine.version) == (1, 2)
    assert IDS[0] in view.graph.ids.to_pylist()
    assert copy.copy(engine).version == 2


def test_cognee_mode_keeps_unknown_owners() -> None:
    graph = Graph.from_tables({"id": ["b", "a"]}, {"source": ["a"], "target": ["b"], "relation": ["r"]}, order="input")
    names = Collection.build("names", POOL[:3], ["ghost", "a", "b"], order="input")
    engine = Engine(graph, [names], device="cpu", mode="cognee")
    engine.upsert(nodes={"id": ["ghost"]}, edges={"source": ["ghost"], "target": ["a"], "relation": ["r"]},
                  vectors={"names": (["other", "a"], POOL[3:5])})  # fmt: skip
    assert engine.graph.ids.to_pylist() == ["b", "a", "ghost"]
    assert engine.collections[0].owner.to_pylist() == ["ghost", "b", "other", "a"]
    assert engine.bound[0].owner.tolist() == [2, 0, 3, 1]
    engine.delete(["a"])
    assert engine.collections[0].owner.to_pylist() == ["ghost", "b", "other"]
    assert torch.equal(engine.graph.source, torch.zeros(0, dtype=torch.int32))
